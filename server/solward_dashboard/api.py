"""The one client of the API that every page shares; its secret stays in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI

from solward.client import SolwardClient
from solward_dashboard.options import Options

_TIMEOUT_S = 60.0
_open: list[SolwardClient] = []
_behind_login: list[bool] = []


def api() -> SolwardClient:
    """The client, while the dashboard is served."""
    return _open[0]


def behind_login() -> bool:
    """Whether a visitor had to log in."""
    return any(_behind_login)


def open_api(options: Options) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """A lifespan that opens the client, and closes it at the end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with SolwardClient(
            options.api_url, options.api_secret, timeout_s=_TIMEOUT_S
        ) as client:
            _open[:] = [client]
            _behind_login[:] = [options.password is not None]
            try:
                yield
            finally:
                _open.clear()

    return lifespan
