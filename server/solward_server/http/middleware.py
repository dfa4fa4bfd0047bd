"""The layers around a view: request id, metrics, span, CORS, Host checks and response headers; and
a connection that serves a request in fewer tasks and messages than Quart's own.

Quart runs each view in a task of its own, its response in another and the request's messages in a
third. For a view that reads little, the tasks cost more than the work.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from types import EllipsisType
from typing import Any
from urllib.parse import urlsplit

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from prometheus_client import Counter, Histogram
from quart import Quart, Request, Response, g, request
from quart.asgi import ASGIHTTPConnection
from quart.ctx import RequestContext
from quart.globals import request_ctx
from quart.typing import ResponseReturnValue, ResponseTypes
from quart.utils import encode_headers
from quart.wrappers.response import DataBody
from quart_cors import cors
from structlog.contextvars import bind_contextvars, reset_contextvars

from solward.settings import Settings
from solward.telemetry import metrics, tracing
from solward.types.errors import (
    API_HEADER,
    API_VERSION,
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    WARNING_HEADER,
)

# Quart's own default: the longest time that a client may take to read a response.
RESPONSE_TIMEOUT_S = 60.0

REQUEST_ID = "X-Request-Id"

# The id is written to logs and to the database: no line ends, quotes or separators.
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_MEASURED_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_CORS_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_CORS_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Cache-Control",
    "Last-Event-ID",
    "X-Request-Id",
    "Traceparent",
    # MCP clients in a browser send these too.
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
    "Mcp-Method",
    "Mcp-Name",
)
_CORS_EXPOSED = (
    RETRY_HEADER,
    RULE_HEADER,
    TRANSACTION_HEADER,
    WARNING_HEADER,
    "Idempotent-Replayed",
    "X-Request-Id",
)
_CORS_MAX_AGE_S = 600

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Connection(ASGIHTTPConnection):
    """A connection that runs the view and sends its response in the server's task for the request.

    The application's `RESPONSE_TIMEOUT` must be None: the time is limited here.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """See `ASGIHTTPConnection`: a client that goes away cancels the view."""
        try:
            request = self._create_request_from_scope(send)
        except (IndexError, ValueError):
            # The target has no path, or is no URL.
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        running = asyncio.current_task()
        assert running is not None
        receiving = asyncio.ensure_future(self.handle_messages(request, receive))

        def cancel_view(_ended: asyncio.Task[None]) -> None:
            running.cancel()

        receiving.add_done_callback(cancel_view)
        try:
            await self.handle_request(request, send)
        except asyncio.CancelledError:
            # Any cancellation but the one by `cancel_view` comes from the server.
            if not receiving.done() or running.uncancel():
                raise
            receiving.result()
        finally:
            receiving.remove_done_callback(cancel_view)
            receiving.cancel()

    async def _send_response(self, send: ASGISendCallable, response: ResponseTypes) -> None:
        timeout = getattr(response, "timeout", ...)
        async with asyncio.timeout(
            RESPONSE_TIMEOUT_S if isinstance(timeout, EllipsisType) else timeout
        ):
            if not isinstance(response, Response) or not isinstance(response.response, DataBody):
                await super()._send_response(send, response)
                return
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": encode_headers(response.headers),
                }
            )
            body = response.response
            data = body.data[body.begin : body.end]
            await send({"type": "http.response.body", "body": data, "more_body": False})


class Misdirected(Exception):
    """The Host is not a name of this service."""


class ForeignOrigin(Exception):
    """The Origin is not a page that may call this service."""


class ObservedQuart(Quart):
    """An application whose responses have `Solward-Api` and `X-Request-Id`, the caller's or new.

    Its views, hooks and error handlers are asynchronous, and its hooks are the application's: a
    blueprint's own are not called, and a function that is not asynchronous fails.
    """

    asgi_http_class = Connection

    def __init__(self, import_name: str) -> None:
        super().__init__(import_name, static_folder=None)
        # `Connection` limits the time, without a task of its own for it.
        self.config["RESPONSE_TIMEOUT"] = None

    async def full_dispatch_request(
        self, request_context: RequestContext | None = None
    ) -> ResponseTypes:
        """See `Quart.full_dispatch_request`; the measured time ends where the response begins."""
        began = time.perf_counter()
        # The proxy `request` costs a look-up for each attribute.
        current = (request_context or request_ctx).request
        sent_id = sent_header(current, REQUEST_ID)
        id_ = sent_id if _ACCEPTED_ID.fullmatch(sent_id) else uuid.uuid4().hex
        g.request_id = id_
        rule = current.url_rule
        # Unknown paths and methods are the caller's text: as labels they would be unbounded.
        route = "unmatched" if rule is None else rule.rule
        method = current.method if current.method in _MEASURED_METHODS else "other"
        bound = bind_contextvars(request_id=id_)
        try:
            parent = sent_header(current, "Traceparent")
            with tracing.request_span(f"{method} {route}", parent, request_id=id_) as span:
                response = await super().full_dispatch_request(request_context)
                span.set(status=response.status_code)
        finally:
            reset_contextvars(**bound)
        response.headers.add(REQUEST_ID, id_)
        response.headers.add(API_HEADER, API_VERSION)
        _count_response(route, method, response.status_code, time.perf_counter() - began)
        return response

    async def preprocess_request(
        self, request_context: RequestContext | None = None
    ) -> ResponseReturnValue | None:
        """Call the hooks before the view, until one answers."""
        for check in self.before_request_funcs[None]:
            answer: ResponseReturnValue | None = await check()  # type: ignore[misc] # all are
            if answer is not None:
                return answer
        return None

    async def process_response(
        self, response: ResponseTypes, request_context: RequestContext | None = None
    ) -> ResponseTypes:
        """Call the hooks after the view, the last one first; there are no sessions to save."""
        for change in reversed(self.after_request_funcs[None]):
            response = await change(response)
        return response

    def ensure_async(self, func: Any) -> Any:
        """Return the function unchanged, because all views and hooks are asynchronous."""
        return func


@cache
def _route_metrics(route: str, method: str, status: int) -> tuple[Counter, Histogram]:
    """Return a route's metrics; prometheus-client's own look-up would double the cost."""
    return (
        metrics.HTTP_REQUESTS.labels(route, method, status),
        metrics.HTTP_REQUEST.labels(route, method),
    )


def _count_response(route: str, method: str, status: int, seconds: float) -> None:
    answered, took = _route_metrics(route, method, status)
    answered.inc()
    took.observe(seconds)


def sent_header(sent: Request, name: str) -> str:
    """Return a request's header, or ""; `get` is slower, because it catches an exception."""
    values = sent.headers.getlist(name)
    return values[0] if values else ""


def request_id() -> str:
    """Return the id of the current request."""
    found: str = g.request_id
    return found


def allow_origins(app: Quart, origins: Sequence[str]) -> None:
    """Allow these exact origins, with credentials; error responses carry the headers too.

    Call it before any other `before_request` is registered: preflights carry no credential, so
    they are answered before authentication.
    """

    @app.before_request
    async def preflight() -> Response | None:
        if request.method != "OPTIONS":
            return None
        headers = request.headers
        is_preflight = "Access-Control-Request-Method" in headers and "Origin" in headers
        return Response(status=204) if is_preflight else None

    cors(
        app,
        allow_credentials=True,
        allow_headers=_CORS_HEADERS,
        allow_methods=_CORS_METHODS,
        allow_origin=origins,
        expose_headers=_CORS_EXPOSED,
        max_age=_CORS_MAX_AGE_S,
    )
    # It reads six headers of every request; only those of browsers have an Origin. Without this a
    # request takes 0.03 of 0.37 ms more, and the benchmark's row of health is near its limit.
    of_browsers: Any = app.after_request_funcs[None].pop()

    @app.after_request
    async def allow(response: Response) -> Response:
        if sent_header(request, "Origin"):
            allowed: Response = await of_browsers(response)
            return allowed
        response.headers.add("Vary", "Origin")
        return response


def check_hosts(app: Quart, settings: Settings) -> None:
    """Check the Host of every request, as `host_check` does."""
    check = host_check(settings)

    @app.before_request
    async def known_host() -> None:
        check()


def host_check(settings: Settings) -> Callable[[], None]:
    """Return a check of the current request's Host against DNS rebinding; it raises `Misdirected`.

    On a loopback address the Host must be a loopback name, or that of a page in CORS_ORIGINS
    (behind a proxy that passes the name on). On other addresses the service's names are unknown.
    """
    names = _own_names(settings) | {_host_name(origin) for origin in settings.cors_origins}

    def check() -> None:
        if settings.loopback and _host_name(f"//{request.headers.get('Host', '')}") not in names:
            raise Misdirected(
                "This Host is not a name of the service; add a proxy's origin to CORS_ORIGINS"
            )

    return check


def origin_check(settings: Settings) -> Callable[[], None]:
    """Return a check of the Host, as `host_check`, and of the Origin, which browsers send.

    An Origin must be in CORS_ORIGINS or be this service's own; the check raises `Misdirected` or
    `ForeignOrigin`.
    """
    own_names = _own_names(settings)
    check_host = host_check(settings)

    def check() -> None:
        check_host()
        host = request.headers.get("Host", "")
        origin = request.headers.get("Origin")
        if origin is None or origin in settings.cors_origins:
            return
        if origin != f"{request.scheme}://{host}" or _host_name(origin) not in own_names:
            raise ForeignOrigin("This Origin may not call the service: it is not in CORS_ORIGINS")

    return check


def forbid_caching(app: Quart) -> None:
    """Mark every response as not to be cached: balances change, and some responses have keys."""

    @app.after_request
    async def set_headers(response: Response) -> Response:
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        if request.method == "OPTIONS":
            # The methods are in `Allow`; an empty body has no type.
            response.headers.pop("Content-Type", None)
        return response


def _own_names(settings: Settings) -> frozenset[str]:
    return _LOOPBACK | {settings.api_host.strip("[]")}


def _host_name(address: str) -> str:
    """Return the host name in lower case, without its port; empty if there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
