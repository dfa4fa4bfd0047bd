"""What a wallet does with SOL of its own: wrap and unwrap."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.record import TransactionRecord
from solward.transactions.request import Actor
from solward_server.auth import keyed
from solward_server.body import number, read_body
from solward_server.edge import Edge
from solward_server.money import money_response


def blueprint(edge: Edge) -> Blueprint:
    """Contract 4.3."""
    routes = Blueprint("staking", __name__, url_prefix="/wallets/<wallet_id>")
    operations = edge.service.operations

    @routes.post("/wrap-sol")
    @keyed
    async def wrap_sol(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.wrap_sol(wallet_id, actor, amount=number(body, "amount"))

        return await money_response(edge, wallet_id, body, run, _answer)

    @routes.post("/unwrap-sol")
    @keyed
    async def unwrap_sol(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.unwrap_sol(wallet_id, actor)

        return await money_response(edge, wallet_id, body, run, _answer)

    return routes


def _answer(record: TransactionRecord) -> dict[str, Any]:
    """Contract 4.3: the details at the top level."""
    return {**record.details, **record.to_json()}
