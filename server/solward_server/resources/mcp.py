"""`POST /mcp`: the Model Context Protocol's streamable HTTP on the service's own port.

Its tools and resources come from this same application by `solward.client`, with the caller's own
token, so that authentication, rate limits and guardrails are those of the REST routes.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

from quart import Quart, Response, request

from solward.settings import Settings
from solward_server.http.auth import bearer, caller, keyed
from solward_server.http.body import MAX_BODY_BYTES
from solward_server.http.host_check import rebinding_guard

PATH = "/mcp"

_SDK = "solward_mcp.http"


def mount_mcp(app: Quart, settings: Settings) -> None:
    """Add the route. Other methods are 405: there are no sessions, nor streams to listen to."""
    check = rebinding_guard(settings)

    @app.post(PATH)
    @keyed
    async def mcp() -> Response:
        check()
        body: str | bytes = await request.get_data(cache=False, as_text=False)
        assert isinstance(body, bytes)
        if _SDK not in sys.modules:
            # Most services are never asked, and most of a second is much to wait at a start.
            await asyncio.to_thread(importlib.import_module, _SDK)
        from solward_mcp.http import reply

        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
        ]
        made = await reply(app, bearer(), caller().wallet_id, headers, body, MAX_BODY_BYTES)
        # The SDK leaves out what its plain refusals are.
        response = Response(made.body, made.status, mimetype="text/plain")
        for name_, value_ in made.headers:
            response.headers[name_.decode("latin-1")] = value_.decode("latin-1")
        return response
