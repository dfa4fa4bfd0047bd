"""What a wallet does with SOL of its own: stake it and take it back, wrap and unwrap it."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.money import lamports_to_sol
from solward.record import TransactionRecord, TransactionStatus
from solward.vault.transactions.request import Actor
from solward_server.http.auth import keyed
from solward_server.http.body import body_number, body_optional_text, body_text, read_body
from solward_server.http.money_response import money_response
from solward_server.http.route_context import RouteContext


def blueprint(context: RouteContext) -> Blueprint:
    """Stake, unstake, withdraw, list; wrap and unwrap SOL."""
    routes = Blueprint("staking", __name__, url_prefix="/wallets/<wallet_id>")
    operations = context.service.operations

    @routes.post("/stake")
    @keyed
    async def stake(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            amount, validator = body_number(body, "amount"), body_optional_text(body, "validator")
            return await operations.stake(wallet_id, actor, amount=amount, validator=validator)

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.get("/stakes")
    @keyed
    async def stakes(wallet_id: str) -> dict[str, Any]:
        await context.wallet(wallet_id)
        found = await context.service.stakes(wallet_id)
        return {
            "stakes": [
                {
                    "address": each.address,
                    "balance": lamports_to_sol(each.lamports),
                    "state": each.state.value,
                }
                for each in found
            ]
        }

    @routes.post("/unstake")
    @keyed
    async def unstake(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            account = body_text(body, "stakeAccount")
            return await operations.unstake(wallet_id, actor, stake_account=account)

        return await money_response(context, wallet_id, body, run, _unstake_answer)

    @routes.post("/withdraw-stake")
    @keyed
    async def withdraw_stake(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            account = body_text(body, "stakeAccount")
            return await operations.withdraw_stake(wallet_id, actor, stake_account=account)

        return await money_response(context, wallet_id, body, run, _withdraw_answer)

    @routes.post("/wrap-sol")
    @keyed
    async def wrap_sol(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.wrap_sol(wallet_id, actor, amount=body_number(body, "amount"))

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.post("/unwrap-sol")
    @keyed
    async def unwrap_sol(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.unwrap_sol(wallet_id, actor)

        return await money_response(context, wallet_id, body, run, _answer)

    return routes


def _answer(record: TransactionRecord) -> dict[str, Any]:
    """The record with its details at the top level too."""
    return {**record.details, **record.to_json()}


def _unstake_answer(record: TransactionRecord) -> dict[str, Any]:
    """`deactivated` is true once the ledger has taken it."""
    return _answer(record) | {"deactivated": record.status is TransactionStatus.CONFIRMED}


def _withdraw_answer(record: TransactionRecord) -> dict[str, Any]:
    """`withdrawn` is true once the ledger has taken it."""
    return _answer(record) | {"withdrawn": record.status is TransactionStatus.CONFIRMED}
