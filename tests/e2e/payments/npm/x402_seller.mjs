// A seller behind @x402/express. Each answer has the number of those that it has given.
// node x402_seller.mjs '{"facilitator": URL, "mint": MINT, "payTo": OWNER}'
import express from "express";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import { DEVNET, given, serve } from "./serving.mjs";

const costing = (units, extra = {}) => ({
  accepts: {
    scheme: "exact",
    network: DEVNET,
    payTo: given.payTo,
    price: { amount: String(units), asset: given.mint, extra },
  },
  description: "weather",
});
const server = new x402ResourceServer(
  new HTTPFacilitatorClient({ url: given.facilitator }),
).register(DEVNET, new ExactSvmScheme());
const routes = {
  "GET /weather": costing(50_000),
  "POST /echo": costing(70_000),
  "GET /order": costing(30_000, { memo: "order 7" }),
};
let served = 0;
const app = express();
app.use(express.json());
app.use(paymentMiddleware(routes, server));
app.get("/weather", (request, response) =>
  response.json({ served: ++served, city: request.query.city, degrees: 21 }),
);
app.post("/echo", (request, response) => response.json({ served: ++served, echo: request.body }));
app.get("/order", (_request, response) => response.json({ served: ++served, order: 7 }));
serve(app);
