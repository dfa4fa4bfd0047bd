"""What carries a client's requests to the application, and breaks when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from quart import Quart

Break = Callable[[httpx.Request], httpx.RequestError | httpx.Response | None]


class Carrier(httpx.AsyncBaseTransport):
    """The application as a transport.

    Attributes:
        before: called before the application acts; what it gives is the answer instead.
        after: called after the application acted; what it gives takes the answer's place.
        requests: every request that was asked for.
    """

    def __init__(self, app: Quart) -> None:
        # The two name one interface in their own words.
        self._inner = httpx.ASGITransport(app)  # type: ignore[arg-type]
        self.before: Break = lambda _request: None
        self.after: Break = lambda _request: None
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        given = self.before(request)
        if given is None:
            response = await self._inner.handle_async_request(request)
            given = self.after(request) or response
        if isinstance(given, httpx.RequestError):
            raise given
        return given

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each request."""
        return [request.headers.get("Idempotency-Key") for request in self.requests]


def times(count: int, given: Callable[[httpx.Request], Any]) -> Break:
    """The same trouble for the first `count` requests."""
    left = [count]

    def trouble(request: httpx.Request) -> httpx.RequestError | httpx.Response | None:
        left[0] -= 1
        answer: httpx.RequestError | httpx.Response | None = None
        if left[0] >= 0:
            answer = given(request)
        return answer

    return trouble


def cut(request: httpx.Request) -> httpx.RequestError:
    """The connection broke before the answer."""
    return httpx.ReadError("cut", request=request)


def away(request: httpx.Request) -> httpx.RequestError:
    """Nothing listens."""
    return httpx.ConnectError("refused", request=request)
