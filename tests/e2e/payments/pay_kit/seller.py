"""A seller by MPP of solana-pay-kit (what was mpp-sdk for Python), which sends what it is given.

python seller.py '{"rpc": URL, "mint": MINT, "payTo": OWNER, "key": [...]}'; says its address once
it serves. Each answer has the number of those that it has given.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from serving import GIVEN, serve
from solana_pay_kit._paycore.rpc import SolanaRpc
from solana_pay_kit._paycore.store import MemoryStore
from solana_pay_kit.protocols.mpp.core.headers import format_receipt
from solana_pay_kit.protocols.mpp.server.charge import Config, Mpp
from solana_pay_kit.protocols.mpp.server.middleware import pay
from solders.keypair import Keypair

app = FastAPI()
served = 0


def selling(**more: Any) -> Mpp:
    return Mpp(
        Config(
            recipient=GIVEN["payTo"],
            currency=more.pop("currency", GIVEN["mint"]),
            network="localnet",
            rpc_url=GIVEN["rpc"],
            secret_key="a key of this seller, which no other has",
            store=MemoryStore(),
            rpc=SolanaRpc(GIVEN["rpc"]),
            **more,
        )
    )


def sell(path: str, amount: str, mpp: Mpp, **options: Any) -> None:
    @pay(mpp, amount, **options)
    async def paid(_request: Request, _credential: Any, receipt: Any) -> Response:
        global served
        served += 1
        headers = {"Payment-Receipt": format_receipt(receipt)}
        return Response(json.dumps({"served": served}), headers=headers)

    async def route(request: Request) -> Response:
        answer = await paid(request)
        if isinstance(answer, Response):
            return answer
        headers = dict(answer["headers"])
        return Response(json.dumps(answer["body"], default=str), answer["status_code"], headers)

    app.add_api_route(path, route)


sponsor = Keypair.from_bytes(bytes(GIVEN["key"]))
sell("/sponsored", "0.05", selling(fee_payer_signer=sponsor), fee_payer=True)
sell("/unsponsored", "0.05", selling())
sell("/push", "0.05", selling(accept_push_mode=True))
serve(app)
