"""API keys: create, list, revoke; the admin's alone."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.events import EventKind
from solward_server.http.api_keys import new_key
from solward_server.http.body import read_body
from solward_server.http.edge import Edge


def blueprint(edge: Edge) -> Blueprint:
    """API keys: create, list, revoke."""
    routes = Blueprint("keys", __name__)

    @routes.post("/keys")
    async def create() -> dict[str, Any]:
        secret, key = new_key(await read_body())
        if key.wallet_id is not None:
            await edge.service.wallets.get(key.wallet_id)
        await edge.keys.add(key)
        await edge.service.audit.append(EventKind.KEY_CREATED, {"keyId": key.id, "name": key.name})
        return {"apiKey": secret, "id": key.id, "name": key.name}

    @routes.get("/keys")
    async def listing() -> dict[str, Any]:
        return {"keys": [key.to_json() for key in await edge.keys.list()]}

    @routes.delete("/keys/<key_id>")
    async def revoke(key_id: str) -> dict[str, Any]:
        await edge.keys.revoke(key_id)
        await edge.limiter.forget(key_id)
        await edge.service.audit.append(EventKind.KEY_REVOKED, {"keyId": key_id})
        return {"id": key_id, "revoked": True}

    return routes
