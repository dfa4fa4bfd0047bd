"""The freeze switch: every new transaction of the service or of one wallet stops at once."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward_server.http.body import optional_text, read_body
from solward_server.http.edge import Edge


def blueprint(edge: Edge) -> Blueprint:
    """`POST /freeze` and `POST /unfreeze`, with `walletId` for one wallet; the admin's alone."""
    routes = Blueprint("switches", __name__)
    service = edge.service

    @routes.post("/freeze")
    async def freeze() -> dict[str, Any]:
        body = await read_body()
        wallet_id, reason = optional_text(body, "walletId"), optional_text(body, "reason")
        await service.freeze(wallet_id, reason)
        return {"frozen": True, "walletId": wallet_id, "reason": reason}

    @routes.post("/unfreeze")
    async def unfreeze() -> dict[str, Any]:
        wallet_id = optional_text(await read_body(), "walletId")
        await service.thaw(wallet_id)
        return {"frozen": False, "walletId": wallet_id}

    return routes
