// The client of @solana/mpp: node mpp_buyer.mjs '{"rpc", "key", "url", "push": bool}'
import { Mppx, solana } from "@solana/mpp/client";
import { given, signer, tell } from "./serving.mjs";

const method = solana.charge({ signer: await signer(), rpcUrl: given.rpc, broadcast: given.push });
await tell(await Mppx.create({ methods: [method], polyfill: false }).fetch(given.url));
