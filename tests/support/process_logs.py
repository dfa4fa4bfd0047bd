"""What a process writes to its log, as it writes it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from solward.telemetry.logs import configure


@contextmanager
def written_log(level: str = "DEBUG") -> Iterator[io.StringIO]:
    """Every line of the level and above, until the block ends."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    stream = io.StringIO()
    configure(level, as_json=False, stream=stream)
    try:
        yield stream
    finally:
        root.handlers[:], root.level = handlers, before
        structlog.reset_defaults()
