// A facilitator of @x402/svm, on a localnet that it takes for devnet.
// node x402_facilitator.mjs '{"rpc": URL, "key": [64 bytes]}'; says its address once it serves.
import express from "express";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorSvmSigner } from "@x402/svm";
import { registerExactSvmScheme } from "@x402/svm/exact/facilitator";
import { DEVNET, given, serve, signer } from "./serving.mjs";

const facilitator = registerExactSvmScheme(new x402Facilitator(), {
  signer: toFacilitatorSvmSigner(await signer(), { defaultRpcUrl: given.rpc }),
  networks: DEVNET,
});
const app = express();
app.use(express.json());
app.get("/supported", (_request, response) => response.json(facilitator.getSupported()));
for (const act of ["verify", "settle"]) {
  app.post(`/${act}`, async (request, response) => {
    const { paymentPayload, paymentRequirements } = request.body;
    response.json(await facilitator[act](paymentPayload, paymentRequirements));
  });
}
serve(app);
