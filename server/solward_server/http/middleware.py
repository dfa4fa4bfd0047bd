"""What wraps every request: its id, metrics and span, CORS, Host checks, response headers."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from quart import Quart, Response, g, request
from quart.ctx import RequestContext
from quart.typing import ResponseTypes
from quart_cors import cors
from structlog.contextvars import bound_contextvars

from solward.settings import Settings
from solward.telemetry import metrics, tracing

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
_CORS_EXPOSED = ("Retry-After", "Idempotent-Replayed", "X-Request-Id")
_CORS_MAX_AGE_S = 600

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Misdirected(Exception):
    """The Host is no name of this service."""


class ForeignOrigin(Exception):
    """The Origin is no page that may call this service."""


class ObservedQuart(Quart):
    """An application whose every response carries `X-Request-Id`: the caller's, or a new one."""

    async def full_dispatch_request(
        self, request_context: RequestContext | None = None
    ) -> ResponseTypes:
        """See `Quart.full_dispatch_request`; the measured time ends where the response begins."""
        began = time.perf_counter()
        sent_id = request.headers.get(REQUEST_ID, "")
        g.request_id = sent_id if _ACCEPTED_ID.fullmatch(sent_id) else uuid.uuid4().hex
        rule = request.url_rule
        # Unknown paths and methods are the caller's text: as labels they would be unbounded.
        route = "unmatched" if rule is None else rule.rule
        method = request.method if request.method in _MEASURED_METHODS else "other"
        with (
            bound_contextvars(request_id=g.request_id),
            tracing.request_span(
                f"{method} {route}",
                request.headers.get("Traceparent", ""),
                request_id=g.request_id,
            ) as span,
        ):
            response = await super().full_dispatch_request(request_context)
            status = response.status_code
            span.set(status=status)
        response.headers[REQUEST_ID] = g.request_id
        metrics.HTTP_REQUESTS.labels(route, method, status).inc()
        metrics.HTTP_REQUEST.labels(route, method).observe(time.perf_counter() - began)
        return response


def request_id() -> str:
    """The id of the current request."""
    found: str = g.request_id
    return found


def allow_origins(app: Quart, origins: Sequence[str]) -> None:
    """Exact origins, with credentials; error responses carry the headers too.

    Call it before any other `before_request` is registered: preflights carry no credential, so
    they are answered before authentication.
    """

    @app.before_request
    async def preflight() -> Response | None:
        headers = request.headers
        is_preflight = "Access-Control-Request-Method" in headers and "Origin" in headers
        return Response(status=204) if request.method == "OPTIONS" and is_preflight else None

    cors(
        app,
        allow_credentials=True,
        allow_headers=_CORS_HEADERS,
        allow_methods=_CORS_METHODS,
        allow_origin=origins,
        expose_headers=_CORS_EXPOSED,
        max_age=_CORS_MAX_AGE_S,
    )


def check_hosts(app: Quart, settings: Settings) -> None:
    """Check the Host of every request, as `host_check` does."""
    check = host_check(settings)

    @app.before_request
    async def known_host() -> None:
        check()


def host_check(settings: Settings) -> Callable[[], None]:
    """A check of the current request's Host against DNS rebinding; it raises `Misdirected`.

    On a loopback address the Host must be a loopback name, or that of a page in CORS_ORIGINS
    (behind a proxy that passes the name on). On other addresses the service's names are unknown.
    """
    names = _own_names(settings) | {_host_name(origin) for origin in settings.cors_origins}

    def check() -> None:
        if settings.loopback and _host_name(f"//{request.headers.get('Host', '')}") not in names:
            raise Misdirected(
                "This Host is no name of the service; one that a proxy passes on goes into "
                "CORS_ORIGINS"
            )

    return check


def origin_check(settings: Settings) -> Callable[[], None]:
    """`host_check`, and a check of the Origin, which browsers send.

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
            raise ForeignOrigin("This Origin may not call the service; CORS_ORIGINS lists who may")

    return check


def forbid_caching(app: Quart) -> None:
    """No cache keeps a response: balances change, and new keys are in one."""

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
    """The host name in lower case, without its port; empty where there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
