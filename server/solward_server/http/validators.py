"""Validators of responses, as RFC 9110 has them: a client that polls reads what changed only."""

from __future__ import annotations

import hashlib

from quart import Quart, Response, g, request
from quart.wrappers.response import DataBody
from werkzeug.http import parse_etags

from solward_server.http.body import JSON
from solward_server.http.middleware import sent_header

_POLLED = frozenset({"GET", "HEAD"})


def answer_unchanged(app: Quart) -> None:
    """Give JSON that a caller reads by GET an `ETag`, and answer 304 where it has that content.

    Only after the view has authorised the caller and read what there is now: what is saved is the
    body. The tag is a hash of the body's bytes, so it is a strong one; nothing about another
    caller's response can be told from it that this caller's own does not have.
    """

    @app.after_request
    async def validate(response: Response) -> Response:
        body = response.response
        if (
            request.method not in _POLLED
            or response.status_code != 200
            or not isinstance(body, DataBody)
            or response.headers.get("Content-Type") != JSON
            # What is public is small or seldom asked for.
            or "caller" not in g
        ):
            return response
        tag = hashlib.sha256(body.data).hexdigest()[:32]
        response.headers.add("ETag", f'"{tag}"')
        # The same path is another list for another caller.
        response.headers.add("Vary", "Authorization")
        known = sent_header(request, "If-None-Match")
        if known and parse_etags(known).contains_weak(tag):
            response.status_code = 304
            response.set_data(b"")
            for name in ("Content-Type", "Content-Length"):
                response.headers.pop(name)
        return response
