"""Traces for an OpenTelemetry collector, if one is configured; otherwise spans cost nothing.

Traces are on if the standard variable `OTEL_EXPORTER_OTLP_ENDPOINT` (or `..._TRACES_ENDPOINT`) is
set and the extra `solward[otel]` is installed. The tracer is not the process's global one, so that
libraries that trace themselves (a vendor's, with its prompts) do not export through it.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import structlog

from solward.telemetry.scrub import conceal, scrub, scrub_text, secrets_of_url

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
# The longest wait for the collector when the process stops.
STOP_WAIT_S = 2.0
_PREFIX = "solward."
_MAX_TEXT = 300

_log = structlog.get_logger(__name__)


class Span:
    """A timed block of work; `set` adds attributes while it runs. This class records nothing."""

    __slots__ = ()

    def __enter__(self) -> Span:
        """Begin the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the block, with the text of its error if there is one."""

    def set(self, **attributes: Any) -> None:
        """Add attributes; None is left out."""


_NO_SPAN = Span()
# Makes a span from a name, a request's `traceparent` (None: no request) and attributes.
Make = Callable[[str, str | None, Mapping[str, Any]], Span]
_make: Make | None = None
_within: Callable[[], bool] = bool


def span(name: str, **attributes: Any) -> Span:
    """Time a block as a span of the current trace, or of a new one.

    Attributes become `solward.<name>`, without secrets; None is left out.
    """
    return _NO_SPAN if _make is None else _make(name, None, attributes)


def child_span(name: str, **attributes: Any) -> Span:
    """Begin a span only inside another one, for work that also runs outside of requests."""
    return _NO_SPAN if _make is None or not _within() else _make(name, None, attributes)


def request_span(name: str, traceparent: str, **attributes: Any) -> Span:
    """Begin a request's span in the trace of its W3C header `traceparent`, or in a new trace if
    the header is empty or malformed."""
    return _NO_SPAN if _make is None else _make(name, traceparent, attributes)


def start(
    service: str, version: str, environ: MutableMapping[str, str] = os.environ
) -> Callable[[], None]:
    """Export spans, if that is configured; return a function that flushes them and stops.

    Secrets for the collector in the environment (headers, an address with a password) are redacted
    from logs, and headers are removed from the environment.

    Args:
        service: `service.name`, unless `OTEL_SERVICE_NAME` is set.
    """
    global _make, _within
    endpoint = next(filter(None, map(environ.get, _ENDPOINTS)), None)
    if endpoint is None:
        return _do_nothing
    conceal(secrets_of_url(endpoint))
    for name in _HEADERS:
        conceal(_header_secrets(environ.get(name, "")))
    if not _has_exporter():
        _log.warning("traces_off", reason="install the extra: pip install 'solward[otel]'")
        return _do_nothing
    protocol = next(filter(None, map(environ.get, _PROTOCOLS)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _log.warning("traces_off", reason=f"only the protocol {_PROTOCOL} is supported")
        return _do_nothing
    try:
        made, within, shutdown = _start_exporter(service, version, environ)
    except ValueError as error:
        _log.warning("traces_off", reason=scrub_text(str(error)))
        return _do_nothing
    for name in _HEADERS:
        environ.pop(name, None)
    _make, _within = made, within
    _log.info("traces_on", service=service)

    def stop() -> None:
        global _make
        _make = None
        shutdown()

    return stop


def _start_exporter(
    service: str, version: str, environ: Mapping[str, str]
) -> tuple[Make, Callable[[], bool], Callable[[], None]]:
    # Imported here, so that without a collector none of it is loaded.
    from opentelemetry import context, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    name = environ.get("OTEL_SERVICE_NAME") or service
    resource = Resource.create({"service.name": name, "service.version": version})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter: Any = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("solward", version)
    propagator = TraceContextTextMapPropagator()

    class RecordedSpan(Span):
        """A span of OpenTelemetry, current while it is entered."""

        __slots__ = ("_span", "_token")

        def __init__(
            self, name: str, traceparent: str | None, attributes: Mapping[str, Any]
        ) -> None:
            request = traceparent is not None
            self._span = tracer.start_span(
                name,
                context=propagator.extract({"traceparent": traceparent}) if request else None,
                kind=trace.SpanKind.SERVER if request else trace.SpanKind.INTERNAL,
                attributes=_attributes(attributes),
            )

        def __enter__(self) -> Span:
            self._token = context.attach(trace.set_span_in_context(self._span))
            return self

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            context.detach(self._token)
            if error is not None:
                text = f"{type(error).__name__}: {scrub_text(str(error))[:_MAX_TEXT]}"
                self._span.set_status(trace.StatusCode.ERROR, text)
            self._span.end()

        def set(self, **attributes: Any) -> None:
            self._span.set_attributes(_attributes(attributes))

    def within() -> bool:
        return trace.get_current_span().get_span_context().is_valid

    def shutdown() -> None:
        # The exporter retries an unreachable collector for many seconds; stopping cannot wait.
        sending = threading.Thread(target=provider.shutdown, name="solward-traces", daemon=True)
        sending.start()
        sending.join(STOP_WAIT_S)
        if sending.is_alive():
            _log.warning("traces_lost", reason="the collector did not accept the traces in time")
            exporter.shutdown()

    return RecordedSpan, within, shutdown


def _attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in attributes.items() if value is not None}
    return {
        _PREFIX + name: value[:_MAX_TEXT] if isinstance(value, str) else value
        for name, value in scrub(known).items()
    }


def _header_secrets(text: str) -> list[str]:
    """Return the values of `name=value,name=value`, encoded and decoded, and their words."""
    values = [item.partition("=")[2].strip() for item in text.split(",")]
    sent = list(map(unquote, values))
    return [*values, *sent, *(word for value in sent for word in value.split())]


def _has_exporter() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def _do_nothing() -> None:
    return None
