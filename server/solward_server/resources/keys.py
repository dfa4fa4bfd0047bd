"""API keys: create, list, revoke."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.settings import DEFAULT_MAX_COSTS_SOL
from solward_server.http.api_keys import new_key
from solward_server.http.auth import Access
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import KEY, KEY_ID
from solward_server.openapi.schema import (
    amount,
    array,
    flag,
    identifier,
    number,
    ref,
    request_object,
    response_object,
    text,
    whole,
)


def blueprint(context: RouteContext) -> Blueprint:
    """`/keys` and `/keys/:id`."""
    routes = Blueprint("keys", __name__)

    @routes.post("/keys")
    async def create() -> dict[str, Any]:
        secret, key = new_key(
            await read_body(), context.service.settings.max_costs_lamports_per_day
        )
        if key.wallet_id is not None:
            await context.service.wallets.get(key.wallet_id)
        await context.keys.add(key)
        return {"apiKey": secret, "id": key.id, "name": key.name}

    @routes.get("/keys")
    async def listing() -> dict[str, Any]:
        return {"keys": [key.to_json() for key in await context.keys.list()]}

    @routes.delete("/keys/<key_id>")
    async def revoke(key_id: str) -> dict[str, Any]:
        await context.keys.revoke(key_id)
        await context.limiter.forget(key_id)
        return {"id": key_id, "revoked": True}

    return routes


_EXAMPLE = {"name": "ci", "rateLimit": 2, "spendingLimitSol": 1}

PATHS = {
    "/keys": {
        "post": operation(
            "createKey",
            "Create an API key",
            tag="keys",
            access=Access.ADMIN,
            description="The key itself is in this answer and nowhere else.",
            body=request_body(
                request_object(
                    {
                        "name": text("For people.", 100),
                        "walletId": text("The only wallet it may use.", 200),
                        "permissions": array(text("A permission.", 64), "Stored, not enforced.", 20)
                        | {"default": ["read", "write"]},
                        "rateLimit": whole(
                            "Transaction-producing requests in any 60 seconds.",
                            1,
                            1_000_000,
                            default=10,
                        ),
                        "spendingLimitSol": number(
                            "SOL in any 24 hours over all wallets; at most 9 decimals.",
                            minimum=0,
                            default=5,
                        ),
                        "maxCostsSolPerDay": amount(
                            "SOL of fees and rent in any 24 hours over all wallets."
                        )
                        | {"default": float(DEFAULT_MAX_COSTS_SOL)},
                    },
                    required=["name"],
                ),
                _EXAMPLE,
            ),
            response=success(
                response_object(
                    {
                        "apiKey": text("The key.", pattern="^sk-[0-9a-f]{32}$"),
                        "id": identifier("Its record."),
                        "name": text("As given."),
                    }
                ),
                {"apiKey": "sk-9b25e816aa19446cb7440a0cc2fdf510", "id": KEY, "name": "ci"},
            ),
            errors={
                400: "name is required and must be a string",
                404: NO_WALLET,
            },
        ),
        "get": operation(
            "listKeys",
            "List API keys",
            tag="keys",
            access=Access.ADMIN,
            response=success(
                response_object({"keys": array(ref("Key"), "Oldest first.")}),
                {
                    "keys": [
                        {
                            "id": KEY,
                            "name": "ci",
                            "walletId": None,
                            "permissions": ["read", "write"],
                            "createdAt": "2026-11-21T10:34:55.814Z",
                            "lastUsedAt": None,
                        }
                    ]
                },
            ),
        ),
    },
    "/keys/{keyId}": {
        "delete": operation(
            "revokeKey",
            "Revoke an API key at once",
            tag="keys",
            access=Access.ADMIN,
            parameters=[KEY_ID],
            response=success(
                response_object(
                    {"id": identifier("The key's."), "revoked": flag("True.", const=True)}
                ),
                {"id": KEY, "revoked": True},
            ),
            errors={404: "API key not found"},
        )
    },
}
