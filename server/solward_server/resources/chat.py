"""Chat with an agent: the whole answer as JSON, or its pieces as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import structlog
from quart import Blueprint, Response, request

from solward import jsontext
from solward.errors import SolwardError
from solward_server.http.auth import keyed
from solward_server.http.body import read_body, text
from solward_server.http.edge import Edge

EVENT_STREAM = "text/event-stream"

_MAX_MESSAGE = 20_000

_log = structlog.get_logger(__name__)


def blueprint(edge: Edge) -> Blueprint:
    """Chat; with `Accept: text/event-stream` as events `delta`, then `done` or `error`."""
    routes = Blueprint("chat", __name__, url_prefix="/agents")

    @routes.post("/<agent_id>/chat")
    @keyed
    async def chat(agent_id: str) -> dict[str, Any] | Response:
        message = text(await read_body(), "message", longest=_MAX_MESSAGE)
        await edge.agent(agent_id)
        if _streamed():
            return await _stream(edge.service.agents.chat_stream(agent_id, message))
        return {"response": await edge.service.agents.chat(agent_id, message)}

    return routes


async def _stream(pieces: AsyncGenerator[str, None]) -> Response:
    # Until there is a piece the answer can still be an error with its own status.
    try:
        first = await anext(pieces, None)
    except BaseException:
        await pieces.aclose()
        raise
    response = Response(_events(first, pieces), 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
    # The provider's own deadline ends a chat; Quart's would after 60 s.
    response.timeout = None
    # Reverse proxies hold small pieces back otherwise.
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _events(
    first: str | None, pieces: AsyncGenerator[str, None]
) -> AsyncGenerator[str, None]:
    told: list[str] = []
    async with aclosing(pieces):
        try:
            if first is not None:
                told.append(first)
                yield _event("delta", {"text": first})
                async for piece in pieces:
                    told.append(piece)
                    yield _event("delta", {"text": piece})
        except SolwardError as error:
            _log.warning("chat_failed", error=str(error), kind=type(error).__name__)
            yield _event("error", {"error": str(error)})
        except Exception:
            _log.exception("chat_crashed")
            yield _event("error", {"error": "Internal error"})
        else:
            yield _event("done", {"response": "".join(told).strip()})


def _event(name: str, data: dict[str, str]) -> str:
    # JSON escapes line ends, so the data is one line.
    return f"event: {name}\ndata: {jsontext.dumps(data)}\n\n"


def _streamed() -> bool:
    offered = ["application/json", EVENT_STREAM]
    return request.accept_mimetypes.best_match(offered, offered[0]) == EVENT_STREAM
