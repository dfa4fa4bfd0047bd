"""Chat with an agent: the response as one JSON body, or in pieces as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import structlog
from quart import Response, request

from solward.resources import agents as calls
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.roles import Role
from solward_server.http.auth import KEY_INVALID, Caller, caller, keyed
from solward_server.http.body import read_body
from solward_server.http.errors import shown_text
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import TOO_MANY
from solward_server.openapi.route import Routes

EVENT_STREAM = "text/event-stream"

_log = structlog.get_logger(__name__)


routes = Routes("agents")

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
    if _wants_stream():
        pieces = context.service.agents.chat_stream(agent_id, message)
        return await _stream(context, caller(), pieces)
    return {"response": await context.service.agents.chat(agent_id, message)}


async def _stream(
    context: RouteContext, who: Caller, pieces: AsyncGenerator[str, None]
) -> Response:
    # The first piece is awaited before the status is sent, so that an error has its own status.
    try:
        first = await anext(pieces, None)
    except BaseException:
        await pieces.aclose()
        raise
    # The provider's deadline ends a chat.
    return event_stream(_events(context, who, first, pieces))


def event_stream(events: AsyncGenerator[str | bytes, None] | bytes) -> Response:
    """A response of server-sent events, which Quart's timeout of 60 s does not end."""
    response = Response(events, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
    response.timeout = None
    # Without it reverse proxies buffer small pieces.
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _events(
    context: RouteContext, who: Caller, first: str | None, pieces: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    sent: list[str] = []
    async with aclosing(pieces):
        try:
            if first is not None:
                sent.append(first)
                yield _event("delta", {"text": first})
                async for piece in pieces:
                    if await context.has_ended(who):
                        yield _event("error", {"error": KEY_INVALID})
                        return
                    sent.append(piece)
                    yield _event("delta", {"text": piece})
        except SolwardError as error:
            _log.warning("chat_failed", error=str(error), kind=type(error).__name__)
            yield _event("error", {"error": shown_text(error)})
        except Exception:
            _log.exception("chat_crashed")
            yield _event("error", {"error": "Internal error"})
        else:
            yield _event("done", {"response": "".join(sent).strip()})


def _event(name: str, data: dict[str, str]) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"event: {name}\ndata: {jsontext.dumps(data)}\n\n"


def _wants_stream() -> bool:
    types = ["application/json", EVENT_STREAM]
    return request.accept_mimetypes.best_match(types, types[0]) == EVENT_STREAM
