"""`POST /mcp`: the Model Context Protocol over streamable HTTP, on the service's port.

Tools and resources call this application through `solward.client` with the caller's token, so that
authentication, rate limits and guardrails are those of the REST routes.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

from quart import Quart, Response, request

from solward.resources.schema import JSON
from solward.settings import Settings
from solward.types.errors import InvalidRequest, refuse_unknown
from solward.types.roles import Role
from solward_server.http.auth import Access, bearer, caller, keyed
from solward_server.http.body import MAX_BODY_BYTES, key_headers
from solward_server.http.errors import WrongContentType
from solward_server.http.middleware import origin_check
from solward_server.openapi.route import operation, request_body, success

PATH = "/mcp"

_MCP_MODULE = "solward_mcp.http"


def mount_mcp(app: Quart, settings: Settings) -> None:
    """Add the route `POST /mcp`. Other methods are 405: there are no sessions and no streams."""
    check = origin_check(settings)

    @app.post(PATH)
    @keyed(Role.READ)
    async def mcp() -> Response:
        check()
        if request.mimetype != JSON:
            raise WrongContentType("Content-Type must be application/json. Nothing was done")
        refuse_unknown(request.args, (), after=" in the query")
        if keys := key_headers():
            raise InvalidRequest(
                f"{keys[0]} is no header of MCP: a call's key is solward/idempotencyKey in its"
                " _meta. Nothing was done"
            )
        body: str | bytes = await request.get_data(cache=False, as_text=False)
        assert isinstance(body, bytes)
        if _MCP_MODULE not in sys.modules:
            # Importing the MCP SDK takes most of a second, and most services never need it.
            await asyncio.to_thread(importlib.import_module, _MCP_MODULE)
        from solward_mcp.http import reply

        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
        ]
        answer = await reply(app, bearer(), caller().wallet_id, headers, body, MAX_BODY_BYTES)
        # The SDK sets no type for its plain-text errors.
        response = Response(answer.body, answer.status, mimetype="text/plain")
        for name_, value_ in answer.headers:
            response.headers[name_.decode("latin-1")] = value_.decode("latin-1")
        return response


_MESSAGE = {"type": "object", "description": "A JSON-RPC 2.0 message."}
_OTHER_RESPONSES = {
    202: "The message was accepted and needs no answer.",
    400: "The body is not a message of MCP.",
    403: "The page's origin may not call the service.",
    406: "Accept, if present, must include application/json.",
    413: "The request body is larger than 64 KiB.",
    415: "Content-Type must be application/json, and Content-Encoding absent.",
    421: "The Host is not a name of the service.",
}


def _mcp_operation() -> dict[str, Any]:
    described = operation(
        "mcp",
        "One message of MCP's streamable HTTP",
        tag="mcp",
        access=Access.KEY,
        description="Every skill is a tool with the wallet as an argument. See docs/how-to/mcp.md.",
        body=request_body(
            _MESSAGE,
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        ),
        response=success(_MESSAGE, {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}),
    )
    # Errors of the transport are the SDK's, as JSON-RPC or as text.
    described["responses"] |= {
        str(status): {
            "description": meaning,
            "content": {JSON: {"schema": _MESSAGE}, "text/plain": {"schema": {"type": "string"}}},
        }
        for status, meaning in _OTHER_RESPONSES.items()
    }
    del described["responses"]["202"]["content"]
    return described


ROOT_PATHS = {"/mcp": {"post": _mcp_operation()}}
