"""What a wallet does with tokens: launch, mint, send, revoke, burn, close."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.record import TransactionRecord, TransactionStatus
from solward.vault.transactions.request import Actor
from solward_server.http.auth import keyed
from solward_server.http.body import body_number, body_text, read_body
from solward_server.http.money_response import money_response
from solward_server.http.route_context import RouteContext

_DEFAULT_DECIMALS = 9
_DEFAULT_SUPPLY = 1_000_000


def blueprint(context: RouteContext) -> Blueprint:
    """Launch, mint, revoke, burn, close and `token-transfer`."""
    routes = Blueprint("tokens", __name__, url_prefix="/wallets/<wallet_id>")
    operations = context.service.operations

    @routes.post("/launch-token")
    @keyed
    async def launch_token(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.launch_token(
                wallet_id,
                actor,
                name=body_text(body, "name"),
                symbol=body_text(body, "symbol"),
                decimals=body_number(body, "decimals", _DEFAULT_DECIMALS),
                initial_supply=body_number(body, "initialSupply", _DEFAULT_SUPPLY),
            )

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.post("/mint-supply")
    @keyed
    async def mint_supply(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            mint, amount = body_text(body, "mint"), body_number(body, "amount")
            decimals = None if body.get("decimals") is None else body_number(body, "decimals")
            return await operations.mint_supply(
                wallet_id, actor, mint=mint, amount=amount, decimals=decimals
            )

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.post("/token-transfer")
    @keyed
    async def token_transfer(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            mint, to, amount = (
                body_text(body, "mint"),
                body_text(body, "to"),
                body_number(body, "amount"),
            )
            return await operations.token_transfer(
                wallet_id, actor, mint=mint, to=to, amount=amount
            )

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.post("/revoke-authority")
    @keyed
    async def revoke_authority(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            mint, kind = body_text(body, "mint"), body_text(body, "authorityType", "mint")
            return await operations.revoke_authority(
                wallet_id, actor, mint=mint, authority_type=kind
            )

        return await money_response(context, wallet_id, body, run, _revoke_answer)

    @routes.post("/burn")
    @keyed
    async def burn(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            mint, amount = body_text(body, "mint"), body_number(body, "amount")
            return await operations.burn(wallet_id, actor, mint=mint, amount=amount)

        return await money_response(context, wallet_id, body, run, _answer)

    @routes.post("/close-account")
    @keyed
    async def close_account(wallet_id: str) -> Response:
        body = await read_body()

        async def run(actor: Actor) -> TransactionRecord:
            return await operations.close_account(wallet_id, actor, mint=body_text(body, "mint"))

        return await money_response(context, wallet_id, body, run, _answer)

    return routes


def _answer(record: TransactionRecord) -> dict[str, Any]:
    """The record with its details at the top level too."""
    return {**record.details, **record.to_json()}


def _revoke_answer(record: TransactionRecord) -> dict[str, Any]:
    """`revoked` is true once the ledger has taken it."""
    return _answer(record) | {"revoked": record.status is TransactionStatus.CONFIRMED}
