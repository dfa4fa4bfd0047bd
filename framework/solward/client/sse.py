"""A parser of server-sent events."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Only these end a line: `str.splitlines` would cut texts at U+2028 or U+0085 too.
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is None where it has none."""

    id: str | None
    event: str
    data: str


class EventParser:
    """Parses a stream in the WHATWG's format from chunks of any size.

    Comments are skipped, and so is an incomplete event at the end.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events completed by these bytes."""
        text = self._rest + chunk
        # A carriage return at the end may be the first half of a line end.
        pending = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(pending))
        self._rest = rest + pending
        completed = (self._line(line.decode("utf-8", "replace")) for line in lines)
        return [event for event in completed if event is not None]

    def _line(self, line: str) -> ServerSentEvent | None:
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return ServerSentEvent(
            id=fields["id"][-1] if "id" in fields else None,
            event=fields["event"][-1] if "event" in fields else "message",
            data="\n".join(fields["data"]),
        )
