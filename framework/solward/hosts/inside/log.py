"""A skill's logger in a plugin host: the service scrubs, shortens and writes its lines."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from solward.hosts.wire.channel import Channel


class HostLog:
    """The methods of a structlog logger that skills use: levels, `bind`, `exception`."""

    __slots__ = ("_channel", "_fields")

    def __init__(
        self, channel: Channel, skill: str, fields: Mapping[str, Any] | None = None
    ) -> None:
        self._channel = channel
        self._fields = {"skill": skill} if fields is None else dict(fields)

    def bind(self, **fields: Any) -> HostLog:
        """A logger with more fields."""
        return HostLog(self._channel, "", {**self._fields, **fields})

    def debug(self, event: object, *args: object, **fields: Any) -> None:
        """Log at DEBUG, as the others at theirs."""
        self._log("debug", event, args, fields)

    def info(self, event: object, *args: object, **fields: Any) -> None:
        """INFO."""
        self._log("info", event, args, fields)

    def warning(self, event: object, *args: object, **fields: Any) -> None:
        """WARNING."""
        self._log("warning", event, args, fields)

    def error(self, event: object, *args: object, **fields: Any) -> None:
        """ERROR."""
        self._log("error", event, args, fields)

    def exception(self, event: object, *args: object, **fields: Any) -> None:
        """ERROR, with the traceback of the exception that is being handled."""
        self._log("error", event, args, {**fields, "exception": traceback.format_exc(limit=-5)})

    warn = warning
    critical = fatal = error
    msg = info

    def _log(
        self, level: str, event: object, args: tuple[object, ...], fields: Mapping[str, Any]
    ) -> None:
        text = str(event)
        if args:
            text = text % args
        every = {name: str(value) for name, value in {**self._fields, **fields}.items()}
        self._channel.log(level, text, every)
