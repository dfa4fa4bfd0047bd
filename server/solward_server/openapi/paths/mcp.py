"""The Model Context Protocol, beside the API."""

from __future__ import annotations

from typing import Any

from solward_server.http.auth import Access
from solward_server.openapi.media import JSON
from solward_server.openapi.operation import answers, operation, takes

_MESSAGE = {"type": "object", "description": "A JSON-RPC 2.0 message."}
_REFUSED = {
    202: "Taken; there is nothing to answer.",
    400: "No message of the protocol.",
    403: "The page's origin may not call the service.",
    406: "Accept must have application/json and text/event-stream.",
    413: "The request body is larger than 64 KiB.",
    415: "Content-Type must be application/json.",
    421: "The Host is no name of the service.",
}


def _run() -> dict[str, Any]:
    made = operation(
        "mcp",
        "One message of MCP's streamable HTTP",
        tag="mcp",
        access=Access.KEY,
        description="Every skill is a tool on a named wallet. See docs/mcp.md.",
        body=takes(
            _MESSAGE,
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        ),
        answer=answers(_MESSAGE, {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}),
    )
    # Errors below the protocol are its SDK's, as JSON-RPC or as text.
    made["responses"] |= {
        str(status): {
            "description": meaning,
            "content": {JSON: {"schema": _MESSAGE}, "text/plain": {"schema": {"type": "string"}}},
        }
        for status, meaning in _REFUSED.items()
    }
    del made["responses"]["202"]["content"]
    return made


ROOT_PATHS = {"/mcp": {"post": _run()}}
