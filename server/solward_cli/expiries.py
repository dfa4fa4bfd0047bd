"""When what a command creates ends by itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def expiry(text: str) -> datetime:
    """A moment: ISO 8601, UTC where it names no zone, or a span from now such as `90d`."""
    span = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if span is not None:
        return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            "it must be a time such as 2026-12-31T00:00:00Z, or a span such as 90d, 12h or 30m"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
