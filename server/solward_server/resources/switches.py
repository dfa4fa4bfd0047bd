"""The freeze switch: it stops new transactions of the service or of one wallet at once."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward_server.http.auth import Access
from solward_server.http.body import body_optional_text, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.schema import flag, nullable, request_object, response_object, text


def blueprint(context: RouteContext) -> Blueprint:
    """`POST /freeze` and `POST /unfreeze`, with `walletId` for one wallet."""
    routes = Blueprint("switches", __name__)
    service = context.service

    @routes.post("/freeze")
    async def freeze() -> dict[str, Any]:
        body = await read_body()
        wallet_id, reason = body_optional_text(body, "walletId"), body_optional_text(body, "reason")
        await service.freeze(wallet_id, reason)
        return {"frozen": True, "walletId": wallet_id, "reason": reason}

    @routes.post("/unfreeze")
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

PATHS = {
    "/freeze": {
        "post": operation(
            "freeze",
            "Stop every new transaction, of one wallet or of all",
            tag="switches",
            access=Access.ADMIN,
            description="What was sent already goes on to its end. A restart does not lift it.",
            body=request_body(
                request_object({"walletId": _WALLET, "reason": text("For who is refused.", 200)}),
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
        )
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
