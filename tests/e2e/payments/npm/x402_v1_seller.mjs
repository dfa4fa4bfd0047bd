// A seller of the protocol's first version, behind x402-express 1.
// node x402_v1_seller.mjs '{"facilitator": URL, "mint": MINT, "payTo": OWNER}'
import express from "express";
import { paymentMiddleware } from "x402-express";
import { given, serve } from "./serving.mjs";

const costing = (amount) => ({
  price: { amount: String(amount), asset: { address: given.mint, decimals: 6 } },
  network: "solana-devnet",
  config: { description: "weather" },
});
let served = 0;
const app = express();
app.use(express.json());
app.use(
  paymentMiddleware(
    given.payTo,
    { "GET /weather": costing(50_000), "POST /echo": costing(70_000) },
    { url: given.facilitator },
  ),
);
app.get("/weather", (request, response) =>
  response.json({ served: ++served, city: request.query.city, degrees: 21 }),
);
app.post("/echo", (request, response) => response.json({ served: ++served, echo: request.body }));
serve(app);
