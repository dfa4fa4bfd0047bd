"""What moves money: transfer, swap, airdrop."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.record import TransactionRecord
from solward.vault.transactions.request import Actor
from solward_server.http.auth import keyed
from solward_server.http.body import body_number, body_text, body_whole, read_body
from solward_server.http.money_response import money_response
from solward_server.http.route_context import RouteContext

# At most all of the input.
DEFAULT_SLIPPAGE_BPS = 50
_MAX_SLIPPAGE_BPS = 10_000
_DEFAULT_AIRDROP_SOL = 1


def blueprint(context: RouteContext) -> Blueprint:
    """Transfer, swap and airdrop."""
    routes = Blueprint("operations", __name__, url_prefix="/wallets/<wallet_id>")
    operations = context.service.operations

    @routes.post("/transfer")
    @keyed
    async def transfer(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            to, amount = body_text(body, "to"), body_number(body, "amount")
            return await operations.transfer(wallet_id, actor, to=to, amount=amount)

        return await money_response(context, wallet_id, body, run, _transfer_answer)

    @routes.post("/swap")
    @keyed
    async def swap(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.swap(
                wallet_id,
                actor,
                input_token=body_text(body, "inputToken"),
                output_token=body_text(body, "outputToken"),
                amount=body_number(body, "amount"),
                slippage_bps=body_whole(
                    body, "slippageBps", DEFAULT_SLIPPAGE_BPS, 0, _MAX_SLIPPAGE_BPS
                ),
            )

        return await money_response(context, wallet_id, body, run, _swap_answer)

    @routes.post("/airdrop")
    @keyed
    async def airdrop(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            amount = body_number(body, "amount", _DEFAULT_AIRDROP_SOL)
            return await operations.airdrop(wallet_id, actor, amount=amount)

        return await money_response(context, wallet_id, body, run, TransactionRecord.to_json)

    return routes


def _transfer_answer(record: TransactionRecord) -> dict[str, Any]:
    """A transfer shows `to` and `amount` under `metadata` too."""
    metadata = {name: record.details[name] for name in ("to", "amount")}
    return record.to_json() | {"metadata": metadata}


def _swap_answer(record: TransactionRecord) -> dict[str, Any]:
    """The record with its details at the top level too."""
    return {**record.details, **record.to_json()}
