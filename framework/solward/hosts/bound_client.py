"""Requests of a venue in a plugin host to the address that the operator configured for venues.

They go through the service's own client, which has the operator's headers and, on an embedded
ledger, no network at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import httpx

from solward.errors import SkillError
from solward.hosts.wire.channel import Incoming
from solward.hosts.wire.frames import PIECE
from solward.hosts.wire.methods import HttpHead, HttpPiece, HttpRequest

_MOST_SENT: Final = 8 << 20
_MOST_ANSWERED: Final = 32 << 20
# What the client makes itself, or what is the connection's.
_OWN_HEADERS: Final = frozenset(
    (b"host", b"connection", b"content-length", b"transfer-encoding", b"accept-encoding")
)
_DECODED: Final = frozenset((b"content-encoding", b"content-length", b"transfer-encoding"))


def is_for(client: httpx.AsyncClient, url: str) -> bool:
    """Whether a request goes to the site that the client is bound to."""
    try:
        asked = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    base = client.base_url
    return (asked.scheme, asked.host, asked.port) == (base.scheme, base.host, base.port)


async def through(client: httpx.AsyncClient, incoming: Incoming) -> AsyncGenerator[HttpPiece, None]:
    """Send a request as the client does; its answer's head, then its body, decoded, in pieces.

    Raises:
        SkillError: `too_large`, or `http_connect_error` where there was no answer.
    """
    request: HttpRequest = incoming.request
    body = b""
    async for piece in incoming.uploads():
        body += piece.data
        if len(body) > _MOST_SENT:
            raise SkillError("too_large", f"The request's body is more than {_MOST_SENT} bytes")
    headers = [each for each in request.headers if each[0].lower() not in _OWN_HEADERS]
    made = client.build_request(request.method, request.url, headers=headers, content=body)
    try:
        response = await client.send(made, stream=True, follow_redirects=False)
    except httpx.TransportError as error:
        text = f"The venue did not answer: {type(error).__name__}"
        raise SkillError("http_connect_error", text) from None
    try:
        kept = [each for each in response.headers.raw if each[0].lower() not in _DECODED]
        yield HttpPiece(head=HttpHead(response.status_code, tuple(kept)))
        received = 0
        async for chunk in response.aiter_bytes():
            received += len(chunk)
            if received > _MOST_ANSWERED:
                raise SkillError("too_large", f"The answer is more than {_MOST_ANSWERED} bytes")
            for start in range(0, len(chunk), PIECE):
                yield HttpPiece(data=chunk[start : start + PIECE])
    finally:
        await response.aclose()
