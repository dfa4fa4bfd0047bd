"""Agents: made, changed, started and stopped; what they decided and remember."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward_server.http.auth import caller, keyed
from solward_server.http.body import query_limit, query_whole, read_body
from solward_server.http.edge import Edge

_MEMORY_KEPT = 100
_MAX_CYCLE = 2**53


def blueprint(edge: Edge) -> Blueprint:
    """Agents: create, list, read, change, delete, start, stop, pause; decisions, memory, limits."""
    routes = Blueprint("agents", __name__, url_prefix="/agents")
    agents = edge.service.agents

    @routes.get("")
    @keyed
    async def listing() -> dict[str, Any]:
        only = caller().wallet_id
        shown = [a for a in await agents.list() if only is None or a.wallet_id == only]
        return {"agents": [agent.to_json() for agent in shown]}

    @routes.post("")
    async def create() -> dict[str, Any]:
        agent = await agents.create(await read_body())
        return {
            "id": agent.id,
            "name": agent.name,
            "status": agent.status.value,
            "walletId": agent.wallet_id,
        }

    @routes.get("/<agent_id>")
    @keyed
    async def one(agent_id: str) -> dict[str, Any]:
        return (await edge.agent(agent_id)).to_json()

    @routes.patch("/<agent_id>")
    async def change(agent_id: str) -> dict[str, Any]:
        return (await agents.update(agent_id, await read_body())).to_json()

    @routes.delete("/<agent_id>")
    async def delete(agent_id: str) -> dict[str, Any]:
        await agents.get(agent_id)
        await agents.delete(agent_id)
        return {"id": agent_id, "deleted": True}

    @routes.post("/<agent_id>/start")
    async def start(agent_id: str) -> dict[str, Any]:
        await agents.start(agent_id)
        return {"status": "started"}

    @routes.post("/<agent_id>/stop")
    async def stop(agent_id: str) -> dict[str, Any]:
        await agents.stop(agent_id)
        return {"status": "stopped"}

    @routes.post("/<agent_id>/pause")
    async def pause(agent_id: str) -> dict[str, Any]:
        await agents.pause(agent_id)
        return {"status": "paused"}

    @routes.get("/<agent_id>/decisions")
    @keyed
    async def decisions(agent_id: str) -> dict[str, Any]:
        await edge.agent(agent_id)
        before = query_whole("before", None, 1, _MAX_CYCLE)
        found = await agents.decisions(agent_id, limit=query_limit(), before=before)
        return {"decisions": [decision.to_json() for decision in found]}

    @routes.get("/<agent_id>/memory")
    @keyed
    async def memory(agent_id: str) -> dict[str, Any]:
        await edge.agent(agent_id)
        found = await agents.memory(agent_id, limit=query_limit(_MEMORY_KEPT, _MEMORY_KEPT))
        return {"memory": [entry.to_json() for entry in found]}

    @routes.get("/<agent_id>/limits")
    @keyed
    async def limits(agent_id: str) -> dict[str, Any]:
        await edge.agent(agent_id)
        return await edge.service.agent_limits(agent_id)

    return routes
