"""The client of the API that all pages share; its secret stays in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
from fastapi import FastAPI

from solward.client import SolwardClient
from solward_dashboard.options import Options

_TIMEOUT_S = 60.0
_client: list[SolwardClient] = []
_behind_login: list[bool] = []


class _NoStore(httpx.AsyncHTTPTransport):
    """No proxy between here and the service may respond from a cache, or store a response."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Cache-Control"] = "no-store"
        return await super().handle_async_request(request)


def api() -> SolwardClient:
    """The client, while the dashboard is served."""
    return _client[0]


def behind_login() -> bool:
    """Whether a visitor had to log in."""
    return any(_behind_login)


def open_api(options: Options) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """A lifespan that opens the client, and closes it at the end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with SolwardClient(
            options.api_url, options.api_secret, timeout_s=_TIMEOUT_S, transport=_NoStore()
        ) as client:
            _client[:] = [client]
            _behind_login[:] = [options.password is not None]
            try:
                yield
            finally:
                _client.clear()

    return lifespan
