"""Chat with an agent: the response as one JSON body, or in pieces as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import structlog
from quart import Blueprint, Response, request

from solward.resources.schema import request_object, response_object, text
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.roles import Role
from solward_server.http.auth import KEY_INVALID, Access, Caller, caller, keyed
from solward_server.http.body import body_text, read_body
from solward_server.http.errors import shown_text
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_AGENT, TOO_MANY
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import AGENT_ID

EVENT_STREAM = "text/event-stream"

_MAX_MESSAGE = 20_000

_log = structlog.get_logger(__name__)


def blueprint(context: RouteContext) -> Blueprint:
    """`POST /agents/:id/chat`; as a stream its events are `delta`, then `done` or `error`."""
    routes = Blueprint("chat", __name__, url_prefix="/agents")

    @routes.post("/<agent_id>/chat")
    @keyed(Role.POLICY)
    async def chat(agent_id: str) -> dict[str, Any] | Response:
        message = body_text(await read_body(), "message", longest=_MAX_MESSAGE)
        await context.agent(agent_id)
        await context.may_change()
        await context.count_request()
        if _wants_stream():
            pieces = context.service.agents.chat_stream(agent_id, message)
            return await _stream(context, caller(), pieces)
        return {"response": await context.service.agents.chat(agent_id, message)}

    return routes


async def _stream(
    context: RouteContext, who: Caller, pieces: AsyncGenerator[str, None]
) -> Response:
    # The first piece is awaited before the status is sent, so that an error has its own status.
    try:
        first = await anext(pieces, None)
    except BaseException:
        await pieces.aclose()
        raise
    events = _events(context, who, first, pieces)
    response = Response(events, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
    # The provider's deadline ends a chat; Quart's response timeout would after 60 s.
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


_EXAMPLE = "I am a rule-based demo, not a language model. My rules are:\nalways do wait"
_RESPONSE = success(
    response_object({"response": text("What the model said.")}), {"response": _EXAMPLE}
)
_RESPONSE["content"]["text/event-stream"] = {
    "schema": {
        "type": "string",
        "description": "Events `delta` with `text`, then `done` with `response`, or `error`.",
    },
    "example": 'event: delta\ndata: {"text":"I am "}\n\n'
    'event: done\ndata: {"response":"I am a rule-based demo"}\n\n',
}

PATHS = {
    "/agents/{agentId}/chat": {
        "post": operation(
            "chat",
            "Ask a running agent; nothing is executed",
            tag="agents",
            access=Access.KEY,
            description="With `Accept: text/event-stream` the answer comes while it is made.",
            parameters=[AGENT_ID],
            body=request_body(
                request_object({"message": text("What to say.", 20_000)}, required=["message"]),
                {"message": "What are you doing?"},
            ),
            response=_RESPONSE,
            errors={
                400: "Agent is not running",
                404: NO_AGENT,
                429: [
                    TOO_MANY,
                    "The token budget has no room: the prompt has about 900 tokens, 100 are left "
                    "(400 used in the last day; maxTokensPerDay 500)",
                ],
            },
        )
    }
}
