"""Agents: create, change, start, stop, pause; their decisions, memory and limits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from quart import Blueprint

from solward.agents.agent import AgentStatus
from solward.agents.templates import TEMPLATES
from solward.resources.agents import Agent, AgentChange, Memory, NewAgent
from solward.resources.answers import answer_example
from solward.resources.declare import fields_of, request_schema
from solward.resources.examples import AGENT, WALLET
from solward.resources.fields import Schema, nullable
from solward.resources.schema import (
    array,
    choice,
    flag,
    identifier,
    ref,
    response_object,
    text,
)
from solward.types.roles import Role
from solward_server.http.auth import Access, admin, caller, keyed
from solward_server.http.body import query_limit, query_whole, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_AGENT, NO_WALLET
from solward_server.openapi.operation import Operation, operation, request_body, success
from solward_server.openapi.parameters import AGENT_ID, BEFORE_CYCLE, LIMIT, MEMORY_LIMIT

_MAX_MEMORY = 100
_MAX_CYCLE = 2**53


def blueprint(context: RouteContext) -> Blueprint:
    """`/agents`, `/agents/:id` and what is under it, but for chat."""
    routes = Blueprint("agents", __name__, url_prefix="/agents")
    agents = context.service.agents

    @routes.get("")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        found = await agents.list(caller().wallet_id)
        return {"agents": [agent.to_json() for agent in found]}

    @routes.post("")
    @admin(Role.POLICY)
    async def create() -> dict[str, Any]:
        agent = await agents.create(await read_body())
        return {
            "id": agent.id,
            "name": agent.name,
            "status": agent.status.value,
            "walletId": agent.wallet_id,
        }

    @routes.get("/<agent_id>")
    @keyed(Role.READ)
    async def one(agent_id: str) -> dict[str, Any]:
        return (await context.agent(agent_id)).to_json()

    @routes.patch("/<agent_id>")
    @admin(Role.POLICY)
    async def change(agent_id: str) -> dict[str, Any]:
        return (await agents.update(agent_id, await read_body())).to_json()

    @routes.delete("/<agent_id>")
    @admin(Role.POLICY)
    async def delete(agent_id: str) -> dict[str, Any]:
        await agents.get(agent_id)
        await agents.delete(agent_id)
        return {"id": agent_id, "deleted": True}

    @routes.post("/<agent_id>/start")
    @admin(Role.OPERATE)
    async def start(agent_id: str) -> dict[str, Any]:
        # Who decides that it acts at all decides what it may do; later starts go on with that.
        if (await agents.get(agent_id)).status is AgentStatus.IDLE:
            caller().needs(Role.POLICY)
        await agents.start(agent_id)
        return {"status": "started"}

    @routes.post("/<agent_id>/stop")
    @admin(Role.OPERATE)
    async def stop(agent_id: str) -> dict[str, Any]:
        await agents.stop(agent_id)
        return {"status": "stopped"}

    @routes.post("/<agent_id>/pause")
    @admin(Role.OPERATE)
    async def pause(agent_id: str) -> dict[str, Any]:
        await agents.pause(agent_id)
        return {"status": "paused"}

    @routes.get("/<agent_id>/decisions")
    @keyed(Role.READ)
    async def decisions(agent_id: str) -> dict[str, Any]:
        await context.agent(agent_id)
        before = query_whole("before", None, 1, _MAX_CYCLE)
        found = await agents.decisions(agent_id, limit=query_limit(), before=before)
        return {"decisions": [decision.to_json() for decision in found]}

    @routes.get("/<agent_id>/memory")
    @keyed(Role.READ)
    async def memory(agent_id: str) -> dict[str, Any]:
        await context.agent(agent_id)
        found = await agents.memory(agent_id, limit=query_limit(_MAX_MEMORY, _MAX_MEMORY))
        return {"memory": [entry.to_json() for entry in found]}

    @routes.get("/<agent_id>/limits")
    @keyed(Role.READ)
    async def limits(agent_id: str) -> dict[str, Any]:
        await context.agent(agent_id)
        return await context.service.agents.limits(agent_id)

    return routes


_AGENT = answer_example(Agent)
_MEMORY = answer_example(Memory)
_OBSERVATION = {
    "walletName": "docs",
    "walletAddress": "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh",
    "solBalance": 2.39794572,
    "tokenBalances": [],
    "recentTransactions": [],
    "cycle": 9,
    "timestamp": "2026-11-21T10:34:50.401Z",
}


def agent_paths(providers: Collection[str]) -> dict[str, dict[str, Operation]]:
    """The paths of agents; `llmProvider` is one of these providers."""
    provider = choice("A loaded provider.", *sorted(providers))
    return _collection(provider) | {"/agents/{agentId}": _one(provider)} | _COMMANDS | _READ_PATHS


def _collection(provider: Schema) -> dict[str, dict[str, Operation]]:
    body = request_schema(NewAgent)
    body["properties"] |= {
        "llmProvider": nullable(provider),
        "template": nullable(choice("Gives what is left out; GET /agent-templates.", *TEMPLATES)),
    }
    body["anyOf"] = [
        {
            "title": "On a wallet",
            "required": ["walletId", "llmProvider", "llmModel", "strategy"],
            "properties": {
                name: {"type": "string"} for name in ("walletId", "llmProvider", "llmModel")
            },
        },
        {
            "title": "With a wallet made for it",
            "required": ["maxSolPerTransaction", "strategy"],
            "properties": {"walletId": {"type": "null"}},
        },
        {
            "title": "Of a template",
            "required": ["template"],
            "properties": {"template": {"type": "string"}},
        },
    ]
    # It names no provider: any may not be loaded.
    example = {"name": "saver", "strategy": "always do wait", "maxSolPerTransaction": 0.5}
    created = response_object(
        {
            "id": identifier("The agent."),
            "name": text("As given."),
            "status": choice("Not started.", "idle"),
            "walletId": identifier("Its wallet."),
        }
    )
    return {
        "/agents": {
            "get": operation(
                "listAgents",
                "List agents",
                tag="agents",
                access=Access.KEY,
                response=success(
                    response_object({"agents": array(ref("Agent"))}), {"agents": [_AGENT]}
                ),
            ),
            "post": operation(
                "createAgent",
                "Create an agent",
                tag="agents",
                access=Access.ADMIN,
                description="Without `walletId` and with `maxSolPerTransaction` at the top level, "
                "a wallet is made for it, and provider and model may come from the defaults; so "
                "with `template`, whose strategy, interval, guardrails and grants hold where the "
                "body says no others.",
                body=request_body(body, example),
                response=success(
                    created, {"id": AGENT, "name": "saver", "status": "idle", "walletId": WALLET}
                ),
                errors={400: "name is required", 404: NO_WALLET},
            ),
        }
    }


_NO_WALLET = {"type": "null", "description": "It cannot be changed."}


def _one(provider: Schema) -> dict[str, Operation]:
    # PATCH refuses null in these fields.
    fields = {each.json: each for each in fields_of(AgentChange)}
    change = request_schema(AgentChange)
    change["properties"] |= {
        name: fields[name].schema() for name in ("name", "llmModel", "strategy")
    } | {"llmProvider": provider, "walletId": _NO_WALLET}
    return {
        "get": operation(
            "getAgent",
            "One agent",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID],
            response=success(ref("Agent"), _AGENT),
            errors={404: NO_AGENT},
        ),
        "patch": operation(
            "changeAgent",
            "Change an agent; a running one goes by it from its next cycle",
            tag="agents",
            access=Access.ADMIN,
            parameters=[AGENT_ID],
            body=request_body(change, {"loopIntervalMs": 5000}, required=False),
            response=success(ref("Agent"), _AGENT),
            errors={
                400: "walletId cannot be changed; create another agent for another wallet",
                404: NO_AGENT,
            },
        ),
        "delete": operation(
            "deleteAgent",
            "Delete an agent with its decisions and memory",
            tag="agents",
            access=Access.ADMIN,
            parameters=[AGENT_ID],
            response=success(
                response_object(
                    {"id": identifier("The agent's."), "deleted": flag("True.", const=True)}
                ),
                {"id": AGENT, "deleted": True},
            ),
            errors={404: NO_AGENT},
        ),
    }


def _command(
    name: str, summary: str, status: str, bad: str | None, description: str = ""
) -> dict[str, Operation]:
    bad_request = {} if bad is None else {400: bad}
    return {
        "post": operation(
            f"{name}Agent",
            summary,
            tag="agents",
            access=Access.ADMIN,
            description=description,
            parameters=[AGENT_ID],
            response=success(
                response_object({"status": choice("Done.", status)}), {"status": status}
            ),
            errors={404: NO_AGENT} | bad_request,
        )
    }


_COMMANDS = {
    "/agents/{agentId}/start": _command(
        "start",
        "Start an agent, from any status",
        "started",
        "Set OPENAI_API_KEY to start an agent of the provider 'openai'",
        "One that was never started is `idle`: its first start needs the role `policy`.",
    ),
    "/agents/{agentId}/stop": _command(
        "stop", "Stop an agent, once what it pays is recorded", "stopped", None
    ),
    "/agents/{agentId}/pause": _command(
        "pause", "Set a running agent aside", "paused", "Agent is not running"
    ),
}
_READ_PATHS = {
    "/agents/{agentId}/decisions": {
        "get": operation(
            "listDecisions",
            "What an agent decided",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID, LIMIT, BEFORE_CYCLE],
            response=success(
                response_object({"decisions": array(ref("Decision"), "Newest first.")}),
                {"decisions": [{"agentId": AGENT, "observations": _OBSERVATION} | _MEMORY]},
            ),
            errors={400: "limit must be a whole number from 1 to 500", 404: NO_AGENT},
        )
    },
    "/agents/{agentId}/memory": {
        "get": operation(
            "listMemory",
            "What an agent remembers",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID, MEMORY_LIMIT],
            response=success(
                response_object({"memory": array(ref("MemoryEntry"), "Newest first.")}),
                {"memory": [_MEMORY]},
            ),
            errors={400: "limit must be a whole number from 1 to 100", 404: NO_AGENT},
        )
    },
    "/agents/{agentId}/limits": {
        "get": operation(
            "getAgentLimits",
            "An agent's own limits, and what is spent of them",
            tag="agents",
            access=Access.KEY,
            parameters=[AGENT_ID],
            response=success(
                ref("AgentLimits"),
                {
                    "agentId": AGENT,
                    "walletId": WALLET,
                    "model": {
                        "budget": {"maxTokensPerDay": 500000},
                        "lastDay": {"tokens": 9530, "usd": 0.001610, "unpricedTokens": 0},
                    },
                    "maxSolPerTransaction": {"limit": 0.5},
                    "maxTransactionsPerMinute": {"limit": 5, "used": 0, "left": 5},
                    "dailySpendingLimitSol": {
                        "limit": 10,
                        "spent": 0,
                        "reserved": 0,
                        "left": 10,
                    },
                    "maxCostsSolPerDay": {
                        "limit": None,
                        "spent": 0.00001,
                        "reserved": 0,
                        "left": None,
                    },
                    "dailyTokens": {},
                    "grants": [],
                },
            ),
            errors={404: NO_AGENT},
        )
    },
}
