"""Wallets: create, list, one, tags, balance, limits."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.vault.wallets.model import DEFAULT_NAME
from solward_server.http.auth import caller, keyed
from solward_server.http.body import query_flag, read_body, text, texts
from solward_server.http.edge import Edge
from solward_server.http.errors import Forbidden


def blueprint(edge: Edge) -> Blueprint:
    """Wallets: create, list, read; balance, tags, limits."""
    routes = Blueprint("wallets", __name__)
    service = edge.service

    @routes.post("/wallets")
    @keyed
    async def create() -> dict[str, Any]:
        if caller().wallet_id is not None:
            raise Forbidden("This API key is confined to one wallet and cannot create another")
        body = await read_body()
        wallet = await service.wallets.create(
            text(body, "name", DEFAULT_NAME), texts(body, "tags", ())
        )
        return wallet.created_json()

    @routes.get("/wallets")
    @keyed
    async def listing() -> dict[str, Any]:
        only = caller().wallet_id
        found = await (service.wallets.list() if only is None else _one(edge, only))
        return {"wallets": [wallet.to_json() for wallet in found]}

    @routes.get("/wallets/<wallet_id>")
    @keyed
    async def one(wallet_id: str) -> dict[str, Any]:
        return (await edge.shown(wallet_id)).to_json()

    @routes.patch("/wallets/<wallet_id>")
    @keyed
    async def change(wallet_id: str) -> dict[str, Any]:
        wallet = await edge.shown(wallet_id)
        tags = texts(await read_body(), "tags", wallet.tags)
        return (await service.wallets.set_tags(wallet_id, tags)).to_json()

    @routes.get("/wallets/<wallet_id>/balance")
    @keyed
    async def balance(wallet_id: str) -> dict[str, Any]:
        await edge.wallet(wallet_id)
        empty = query_flag("empty")
        return (await service.balances(wallet_id, empty=empty)).to_json()

    @routes.get("/wallets/<wallet_id>/limits")
    @keyed
    async def limits(wallet_id: str) -> dict[str, Any]:
        await edge.wallet(wallet_id)
        return await service.wallet_limits(wallet_id)

    return routes


async def _one(edge: Edge, wallet_id: str) -> list[Any]:
    return [await edge.shown(wallet_id)]
