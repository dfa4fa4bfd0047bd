"""A facilitator of x402's own Python package, on a localnet that it takes for devnet.

python facilitator.py '{"rpc": URL, "key": [64 bytes]}'; says its address once it serves.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from serving import GIVEN, serve
from solders.keypair import Keypair
from x402 import x402Facilitator
from x402.mechanisms.svm import FacilitatorKeypairSigner
from x402.mechanisms.svm.constants import SOLANA_DEVNET_CAIP2
from x402.mechanisms.svm.exact import register_exact_svm_facilitator
from x402.schemas import parse_payment_payload, parse_payment_requirements

signer = FacilitatorKeypairSigner(Keypair.from_bytes(bytes(GIVEN["key"])), rpc_url=GIVEN["rpc"])
facilitator = x402Facilitator()
register_exact_svm_facilitator(facilitator, signer, SOLANA_DEVNET_CAIP2)
app = FastAPI()


async def asked(request: Request) -> tuple[Any, Any]:
    body = await request.json()
    payload = parse_payment_payload(body["paymentPayload"])
    return payload, parse_payment_requirements(payload.x402_version, body["paymentRequirements"])


@app.get("/supported")
async def supported() -> Any:
    return facilitator.get_supported().model_dump(by_alias=True, exclude_none=True)


@app.post("/verify")
async def verify(request: Request) -> Any:
    answer = await facilitator.verify(*await asked(request))
    return answer.model_dump(by_alias=True, exclude_none=True)


@app.post("/settle")
async def settle(request: Request) -> Any:
    answer = await facilitator.settle(*await asked(request))
    return answer.model_dump(by_alias=True, exclude_none=True)


serve(app)
