"""The documentation page, beside the API."""

from __future__ import annotations

from typing import Any

from solward_server.http.auth import Access
from solward_server.openapi.operation import operation

_FILE = {
    "name": "file",
    "in": "path",
    "required": True,
    "description": "One of the files the page names.",
    "schema": {"type": "string"},
    "example": "swagger-ui.css",
}


def _content(description: str, *kinds: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {kind: {"schema": {"type": "string"}} for kind in kinds},
    }


# From the root, not under the API's prefix.
ROOT_PATHS = {
    "/docs": {
        "get": operation(
            "getDocs",
            "This description as a page to read and try",
            tag="docs",
            access=Access.PUBLIC,
            description="Everything it needs comes from this service.",
            answer=_content("The page.", "text/html"),
        )
    },
    "/docs/{file}": {
        "get": operation(
            "getDocsFile",
            "A file of the page",
            tag="docs",
            access=Access.PUBLIC,
            parameters=[_FILE],
            answer=_content("The file.", "text/css", "text/javascript", "image/png"),
            errors={404: "Not found"},
        )
    },
}
