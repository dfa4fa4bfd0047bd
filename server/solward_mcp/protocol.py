"""Errors of the protocol, apart from the SDK: its releases 1 and 2 write them differently."""

from __future__ import annotations

from typing import Any, Final

# JSON-RPC 2.0, 5.1.
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Json = dict[str, Any]
"""An object of the protocol, in the protocol's own fields."""


class ProtocolError(Exception):
    """The error response of a request; its text is the message."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
