"""What every request leaves behind, however it ends: its id, its count and time, its span."""

from __future__ import annotations

import re
import time
import uuid

from quart import Quart, g, request
from quart.ctx import RequestContext
from quart.typing import ResponseTypes
from structlog.contextvars import bound_contextvars

from solward.telemetry import metrics, tracing

REQUEST_ID = "X-Request-Id"

# It stands in logs and in the database: nothing that could pass for a line or a field of its own.
_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ObservedQuart(Quart):
    """An application whose every answer carries `X-Request-Id`: the caller's, or a new one."""

    async def full_dispatch_request(
        self, request_context: RequestContext | None = None
    ) -> ResponseTypes:
        """See `Quart.full_dispatch_request`; the time is that until the answer begins."""
        began = time.perf_counter()
        given = request.headers.get(REQUEST_ID, "")
        g.request_id = given if _ACCEPTED.fullmatch(given) else uuid.uuid4().hex
        rule = request.url_rule
        # A path that is no route is the caller's text, and so is a method nobody knows.
        route = "unmatched" if rule is None else rule.rule
        method = request.method if request.method in _METHODS else "other"
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
    """The id of the request that is being answered."""
    found: str = g.request_id
    return found
