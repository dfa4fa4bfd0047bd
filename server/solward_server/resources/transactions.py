"""Transaction records, newest first, of one wallet or of all."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward_server.http.auth import caller, keyed
from solward_server.http.body import query_limit, query_text
from solward_server.http.edge import Edge


def blueprint(edge: Edge) -> Blueprint:
    """Records of one wallet and of all, newest first; `before=<id>` pages."""
    routes = Blueprint("transactions", __name__)

    @routes.get("/transactions")
    @keyed
    async def across_wallets() -> dict[str, Any]:
        return await _listing(edge, caller().wallet_id)

    @routes.get("/wallets/<wallet_id>/transactions")
    @keyed
    async def of_wallet(wallet_id: str) -> dict[str, Any]:
        await edge.wallet(wallet_id)
        return await _listing(edge, wallet_id)

    return routes


async def _listing(edge: Edge, wallet_id: str | None) -> dict[str, Any]:
    records = await edge.service.transactions(
        wallet_id, limit=query_limit(), before=query_text("before")
    )
    return {"transactions": [record.to_json() for record in records]}
