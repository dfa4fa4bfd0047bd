"""The freeze switch: it stops new transactions of the service or of one wallet at once."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.resources.fields import nullable
from solward.resources.schema import (
    array,
    flag,
    identifier,
    request_object,
    response_object,
    text,
    timestamp,
    whole,
)
from solward.support.clock import iso
from solward.types.roles import Role
from solward_server.http.auth import Access, admin
from solward_server.http.body import body_optional_text, query_limit, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import LIMIT


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /freeze`, and `POST /freeze` and `POST /unfreeze`, with `walletId` for one wallet."""
    routes = Blueprint("switches", __name__)
    service = context.service

    @routes.get("/freeze")
    @admin(Role.READ)
    async def frozen() -> dict[str, Any]:
        switch, wallets, count = await service.frozen(query_limit())
        return {
            "frozen": switch is not None,
            "reason": None if switch is None else switch.reason,
            "since": None if switch is None else iso(switch.since_ms),
            "frozenWallets": count,
            "wallets": [
                {
                    "walletId": each.wallet_id,
                    "name": each.name,
                    "reason": each.reason,
                    "since": iso(each.since_ms),
                }
                for each in wallets
            ],
        }

    @routes.post("/freeze")
    @admin(Role.OPERATE)
    async def freeze() -> dict[str, Any]:
        body = await read_body()
        wallet_id, reason = body_optional_text(body, "walletId"), body_optional_text(body, "reason")
        await service.freeze(wallet_id, reason)
        return {"frozen": True, "walletId": wallet_id, "reason": reason}

    @routes.post("/unfreeze")
    @admin(Role.POLICY)
    async def unfreeze() -> dict[str, Any]:
        wallet_id = body_optional_text(await read_body(), "walletId")
        await service.thaw(wallet_id)
        return {"frozen": False, "walletId": wallet_id}

    return routes


_WALLET = text("One wallet; left out, all.", 200)
_STATE = {
    "frozen": flag("What it is now."),
    "walletId": nullable(text("The wallet; null is all.")),
}

_REASON = nullable(text("As it was given."))

PATHS = {
    "/freeze": {
        "get": operation(
            "listFrozen",
            "What is frozen, since when and why",
            tag="switches",
            access=Access.ADMIN,
            parameters=[LIMIT],
            response=success(
                response_object(
                    {
                        "frozen": flag("The service, and with it every wallet."),
                        "reason": _REASON,
                        "since": nullable(timestamp("Null where the service is not frozen.")),
                        "frozenWallets": whole(
                            "How many wallets are frozen by themselves.", 0, 2**53 - 1
                        ),
                        "wallets": array(
                            response_object(
                                {
                                    "walletId": identifier("The wallet."),
                                    "name": text("Its name."),
                                    "reason": _REASON,
                                    "since": timestamp("When it was frozen."),
                                }
                            ),
                            "The latest first, at most `limit`.",
                        ),
                    }
                ),
                {
                    "frozen": True,
                    "reason": "incident 7",
                    "since": "2026-11-21T09:00:00.000Z",
                    "frozenWallets": 0,
                    "wallets": [],
                },
            ),
            errors={400: "limit must be a whole number from 1 to 500"},
        ),
        "post": operation(
            "freeze",
            "Stop every new transaction, of one wallet or of all",
            tag="switches",
            access=Access.ADMIN,
            description="What was sent already goes on to its end. A restart does not lift it.",
            body=request_body(
                request_object(
                    {"walletId": _WALLET, "reason": text("For who is refused.", 200)},
                ),
                {"reason": "incident 7"},
                required=False,
            ),
            response=success(
                response_object(_STATE | {"reason": nullable(text("As given."))}),
                {"frozen": True, "walletId": None, "reason": "incident 7"},
            ),
            errors={
                400: "reason must be a string of 1 to 200 characters",
                404: NO_WALLET,
            },
        ),
    },
    "/unfreeze": {
        "post": operation(
            "unfreeze",
            "Allow transactions again",
            tag="switches",
            access=Access.ADMIN,
            body=request_body(request_object({"walletId": _WALLET}), {}, required=False),
            response=success(response_object(_STATE), {"frozen": False, "walletId": None}),
            errors={
                400: "walletId must be a string of 1 to 200 characters",
                404: NO_WALLET,
            },
        )
    },
}
