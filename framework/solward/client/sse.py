"""Server-sent events out of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Only these end a line: `str.splitlines` would cut texts at U+2028 or U+0085 too.
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class ServerSent:
    """One event; `id` is None where it has none."""

    id: str | None
    event: str
    data: str


class Events:
    """Takes a stream in the WHATWG's format as its bytes come, however they are cut.

    Comments are left out, and so is an event that the end of the stream cut off.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}

    def feed(self, chunk: bytes) -> list[ServerSent]:
        """The events that these bytes complete."""
        text = self._rest + chunk
        # A carriage return at the end may be the first half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        completed = (self._line(line.decode("utf-8", "replace")) for line in lines)
        return [event for event in completed if event is not None]

    def _line(self, line: str) -> ServerSent | None:
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return ServerSent(
            id=fields["id"][-1] if "id" in fields else None,
            event=fields["event"][-1] if "event" in fields else "message",
            data="\n".join(fields["data"]),
        )
