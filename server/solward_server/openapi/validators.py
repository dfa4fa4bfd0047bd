"""The `ETag` of what is read by GET, and the answer 304 (`solward_server.http.validators`)."""

from __future__ import annotations

from typing import Any

from solward_server.openapi.parameters import IF_NONE_MATCH, shared
from solward_server.openapi.schema import JSON

UNCHANGED = {"Unchanged": {"description": "The caller has this content already; no body."}}

_ETAG = {
    "description": "A strong validator of the body; lists of more than 500 wallets have none.",
    "schema": {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
}


def add_validators(paths: dict[str, dict[str, Any]]) -> None:
    """Write them into the operations of `paths` that need a credential and answer JSON."""
    for methods in paths.values():
        operation = methods.get("get")
        if operation is None or not operation["security"]:
            continue
        success = operation["responses"]["200"]
        if JSON in success["content"]:
            success.setdefault("headers", {})["ETag"] = _ETAG
            operation["responses"]["304"] = {"$ref": "#/components/responses/Unchanged"}
            operation.setdefault("parameters", []).append(shared(IF_NONE_MATCH))
