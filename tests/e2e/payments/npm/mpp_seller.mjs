// A seller by MPP of @solana/mpp. Each answer has the number of those that it has given.
// node mpp_seller.mjs '{"rpc": URL, "mint": MINT, "payTo": OWNER, "key": [...], "split": OWNER}'
import { Mppx, solana } from "@solana/mpp/server";
import { Request as Request_ } from "mppx/server";
import { given, serve, signer } from "./serving.mjs";

const sponsor = await signer();
const ways = {
  "/sponsored": { method: { signer: sponsor }, charge: { amount: "50000" } },
  "/unsponsored": { method: {}, charge: { amount: "50000" } },
  "/order": { method: { signer: sponsor }, charge: { amount: "30000", externalId: "order 7" } },
  "/split": {
    method: { signer: sponsor, splits: [{ recipient: given.split, amount: "20000" }] },
    charge: { amount: "50000" },
  },
  "/sol": { method: { currency: "sol" }, charge: { amount: "1000000" } },
};
let served = 0;
const sellers = Object.fromEntries(
  Object.entries(ways).map(([path, { method, charge }]) => {
    const mppx = Mppx.create({
      secretKey: "a key of this seller, which no other has",
      realm: "tests",
      methods: [
        solana.charge({
          recipient: given.payTo,
          currency: given.mint,
          decimals: 6,
          network: "localnet",
          rpcUrl: given.rpc,
          ...method,
        }),
      ],
    });
    return [path, mppx.charge(charge)];
  }),
);

async function answer(request) {
  const { pathname, searchParams } = new URL(request.url);
  const sold = sellers[pathname];
  if (sold === undefined) return Response.json({ free: true });
  const result = await sold(request);
  if (result.status === 402) return result.challenge;
  return result.withReceipt(
    Response.json({ served: ++served, city: searchParams.get("city"), degrees: 21 }),
  );
}

serve(Request_.toNodeListener(answer));
