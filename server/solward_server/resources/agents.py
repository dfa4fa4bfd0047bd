"""Agents: create, change, start, stop, pause; their decisions, memory and limits; and the chat with
one, answered as one JSON body or in pieces as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from copy import deepcopy
from typing import Any

import structlog
from quart import Response, request

from solward.agents.fields import TEMPLATES
from solward.resources import agents as calls
from solward.resources.agents import AgentStatus
from solward.resources.declare import answer_json, request_example, request_schema
from solward.resources.fields import Schema
from solward.resources.schema import JSON
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.roles import Role
from solward_server.http.auth import KEY_INVALID, Caller, admin, caller, keyed
from solward_server.http.body import EVENT_STREAM, event_stream, query_of, read_body
from solward_server.http.errors import caller_text
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET, TOO_MANY
from solward_server.openapi.route import Operation, Routes, request_body

routes = Routes("agents", "Agents that act on a wallet.")
_log = structlog.get_logger(__name__)

_FORMS = [
    {
        "title": "On a wallet",
        "required": ["walletId", "llmProvider", "llmModel", "strategy"],
        "properties": {
            name: {"type": "string"} for name in ("walletId", "llmProvider", "llmModel")
        },
    },
    {
        "title": "With a new wallet",
        "required": ["maxSolPerTransaction", "strategy"],
        "properties": {"walletId": {"type": "null"}},
    },
    {
        "title": "From a template",
        "required": ["template"],
        "properties": {"template": {"type": "string"}},
    },
]


def _change_schema() -> Schema:
    """Return the schema of a change, in which `walletId` may only be null: it never changes."""
    made = request_schema(calls.AgentChange)
    made["properties"]["walletId"] = {"type": "null", "description": "The wallet never changes."}
    return made


def paths(providers: Collection[str]) -> dict[str, dict[str, Operation]]:
    """Return the routes' part of the document; `llmProvider` is one of these providers."""
    # A copy, because the schemas of requests are made once for all sets of providers.
    made = deepcopy(routes.paths())
    for described in (made["/agents"]["post"], made["/agents/{agentId}"]["patch"]):
        fields = described["requestBody"]["content"][JSON]["schema"]["properties"]
        _allow_only(fields["llmProvider"], sorted(providers))
        if "template" in fields:
            _allow_only(fields["template"], [*TEMPLATES])
    return made


def _allow_only(schema: Schema, options: list[str]) -> None:
    schema["enum"] = [*options, None] if "null" in schema["type"] else options
    del schema["minLength"], schema["maxLength"]


@routes.serve(calls.LIST_AGENT_TEMPLATES, keyed(Role.READ))
async def templates(context: RouteContext) -> dict[str, Any]:
    return {"templates": await context.service.agents.templates()}


@routes.serve(calls.LIST_AGENTS, keyed(Role.READ))
async def list_agents(context: RouteContext) -> dict[str, Any]:
    found = await context.service.agents.list(caller().wallet_id)
    return {"agents": [agent.to_json() for agent in found]}


@routes.serve(
    calls.CREATE_AGENT,
    admin(Role.POLICY),
    {404: NO_WALLET},
    body=request_body(
        request_schema(calls.NewAgent) | {"anyOf": _FORMS}, request_example(calls.NewAgent)
    ),
)
async def create(context: RouteContext) -> dict[str, Any]:
    agent = await context.service.agents.create(await read_body())
    return answer_json(calls.CreatedAgent, agent)


@routes.serve(calls.GET_AGENT, keyed(Role.READ))
async def get_agent(context: RouteContext, agent_id: str) -> dict[str, Any]:
    return (await context.agent(agent_id)).to_json()


@routes.serve(
    calls.CHANGE_AGENT,
    admin(Role.POLICY),
    {400: "walletId cannot be changed; create another agent for another wallet"},
    body=request_body(_change_schema(), {"loopIntervalMs": 5000}, required=False),
)
async def change(context: RouteContext, agent_id: str) -> dict[str, Any]:
    return (await context.service.agents.update(agent_id, await read_body())).to_json()


@routes.serve(calls.DELETE_AGENT, admin(Role.POLICY))
async def delete(context: RouteContext, agent_id: str) -> dict[str, Any]:
    await context.service.agents.get(agent_id)
    await context.service.agents.delete(agent_id)
    return {"id": agent_id, "deleted": True}


@routes.serve(
    calls.START_AGENT,
    admin(Role.OPERATE),
    {400: "Set OPENAI_API_KEY to start an agent of the provider 'openai'"},
)
async def start(context: RouteContext, agent_id: str) -> dict[str, Any]:
    # The first start decides that the agent may act, so it needs the role that sets its grants.
    if (await context.service.agents.get(agent_id)).status is AgentStatus.IDLE:
        caller().needs(Role.POLICY)
    await context.service.agents.start(agent_id)
    return {"status": "started"}


@routes.serve(calls.STOP_AGENT, admin(Role.OPERATE))
async def stop(context: RouteContext, agent_id: str) -> dict[str, Any]:
    await context.service.agents.stop(agent_id)
    return {"status": "stopped"}


@routes.serve(calls.PAUSE_AGENT, admin(Role.OPERATE), {400: "Agent is not running"})
async def pause(context: RouteContext, agent_id: str) -> dict[str, Any]:
    await context.service.agents.pause(agent_id)
    return {"status": "paused"}


@routes.serve(calls.LIST_DECISIONS, keyed(Role.READ))
async def decisions(context: RouteContext, agent_id: str) -> dict[str, Any]:
    agent, only = await context.agent(agent_id), query_of(calls.ListedDecisions)
    found = await context.service.agents.decisions(agent.id, limit=only.limit, before=only.before)
    return {"decisions": [decision.to_json() for decision in found]}


@routes.serve(calls.LIST_MEMORY, keyed(Role.READ))
async def memory(context: RouteContext, agent_id: str) -> dict[str, Any]:
    agent, only = await context.agent(agent_id), query_of(calls.ListedMemory)
    found = await context.service.agents.memory(agent.id, limit=only.limit)
    return {"memory": [entry.to_json() for entry in found]}


@routes.serve(calls.GET_AGENT_LIMITS, keyed(Role.READ))
async def limits(context: RouteContext, agent_id: str) -> dict[str, Any]:
    agent = await context.agent(agent_id)
    return await context.service.agents.limits(agent.id)


_IN_PIECES = {
    "schema": {
        "type": "string",
        "description": "Events `delta` with `text`, then `done` with `response`, or `error`.",
    },
    "example": 'event: delta\ndata: {"text":"I am "}\n\n'
    'event: done\ndata: {"response":"I am a rule-based demo"}\n\n',
}


@routes.serve(
    calls.CHAT,
    keyed(Role.POLICY),
    {
        400: "Agent is not running",
        429: [
            TOO_MANY,
            "The token budget has no room: the prompt has about 900 tokens, 100 are left "
            "(400 used in the last day; maxTokensPerDay 500)",
        ],
    },
    response={"content": {EVENT_STREAM: _IN_PIECES}},
)
async def chat(context: RouteContext, agent_id: str) -> dict[str, Any] | Response:
    message = calls.Said.of(await read_body()).message
    await context.agent(agent_id)
    await context.may_change()
    await context.count_request()
    types = [JSON, EVENT_STREAM]
    if request.accept_mimetypes.best_match(types, JSON) == EVENT_STREAM:
        pieces = context.service.agents.chat_stream(agent_id, message)
        return await _chat_stream(context, caller(), pieces)
    return {"response": await context.service.agents.chat(agent_id, message)}


async def _chat_stream(
    context: RouteContext, who: Caller, pieces: AsyncGenerator[str, None]
) -> Response:
    # The first piece is awaited before the status is sent, so that an error has its own status.
    try:
        first = await anext(pieces, None)
    except BaseException:
        await pieces.aclose()
        raise
    # The provider's deadline ends a chat.
    return event_stream(_chat_events(context, who, first, pieces))


async def _chat_events(
    context: RouteContext, who: Caller, first: str | None, pieces: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    sent: list[str] = []
    async with aclosing(pieces):
        try:
            if first is not None:
                sent.append(first)
                yield _event_text("delta", {"text": first})
                async for piece in pieces:
                    if await context.has_ended(who):
                        yield _event_text("error", {"error": KEY_INVALID})
                        return
                    sent.append(piece)
                    yield _event_text("delta", {"text": piece})
        except SolwardError as error:
            _log.warning("chat_failed", error=str(error), kind=type(error).__name__)
            yield _event_text("error", {"error": caller_text(error)})
        except Exception:
            _log.exception("chat_crashed")
            yield _event_text("error", {"error": "Internal error"})
        else:
            yield _event_text("done", {"response": "".join(sent).strip()})


def _event_text(name: str, data: dict[str, str]) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"event: {name}\ndata: {jsontext.dumps(data)}\n\n"
