// The client of @x402/fetch: node x402_buyer.mjs '{"rpc": URL, "key": [...], "url": URL}'
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { ExactSvmSchemeV1 } from "@x402/svm/exact/v1/client";
import { DEVNET, given, signer, tell } from "./serving.mjs";

const key = await signer();
const options = { rpcUrl: given.rpc };
// Otherwise it pays in the USDC of mainnet and devnet alone.
const client = new x402Client()
  .setSpendControls(false)
  .register(DEVNET, new ExactSvmScheme(key, options))
  .registerV1("solana-devnet", new ExactSvmSchemeV1(key, options));
await tell(await wrapFetchWithPayment(fetch, client)(given.url));
