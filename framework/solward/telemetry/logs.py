"""Logging of a process: structlog and the standard library's loggers in one stream, scrubbed.

Call `configure` once, at the process's entry point; the library itself never does.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

from solward.telemetry.scrub import scrub

# Loggers of libraries that write every request, with its address, at INFO.
_CHATTY = (
    "httpx",
    "httpcore",
    "httpx2",
    "httpcore2",
    "uvicorn.error",
    "mcp",
)


def configure(
    level: str = "INFO", *, as_json: bool | None = None, stream: TextIO | None = None
) -> None:
    """Send every log line to `stream` (standard error), secrets removed.

    Args:
        as_json: one JSON object a line; by default unless the stream is a terminal.

    Raises:
        ValueError: no such level.
    """
    out = sys.stderr if stream is None else stream
    if as_json is None:
        as_json = not out.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                # Before `scrub`, so that tracebacks are scrubbed; no local variables.
                structlog.processors.format_exc_info,
                lambda _logger, _method, event: scrub(event),
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
