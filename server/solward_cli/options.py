"""Options several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def several(*parameters: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator for several arguments and options, in their order."""

    def decorated(command: F) -> F:
        for each in reversed(parameters):
            command = each(command)
        return command

    return decorated


host_option = click.option(
    "--host", default=None, help="Address to listen on.  [default: API_HOST or 127.0.0.1]"
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port of the API; 0 takes a free one.  [default: API_PORT or 3001]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What to write to standard error.",
)


def past(text: str) -> datetime:
    """A moment: ISO 8601, UTC where it names no zone, or a span before now such as `7d`."""
    return _moment(text, -1)


def expiry(text: str) -> datetime:
    """A moment: ISO 8601, UTC where it names no zone, or a span from now such as `90d`."""
    return _moment(text, 1)


def _moment(text: str, direction: int) -> datetime:
    span = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if span is not None:
        return datetime.now(UTC) + direction * timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            "it must be a time such as 2026-12-31T00:00:00Z or 2026-12-31, or a span such as "
            "90d, 12h or 30m"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
count_option = click.option("--count", type=click.IntRange(1), help="End after so many.")
