"""The clients of the API: one that all visitors share, and one of each who logged in with an admin
credential of his own; their secrets stay in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

import httpx
from fastapi import FastAPI

from solward.client import ClientError, SolwardClient
from solward.roles import Role
from solward_dashboard.options import Options

_TIMEOUT_S = 60.0
_client: list[SolwardClient] = []
_behind_login: list[bool] = []
# Of the shared client, once the service said it.
_shared_role: list[Role] = []


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who logged in with an admin credential.

    Attributes:
        refused: not empty once the service refused the credential: it was revoked, or has expired.
    """

    client: SolwardClient
    name: str
    role: Role
    refused: list[bool]


# Set for everything that a request or a socket of the visitor starts.
_VISITOR: ContextVar[Visitor | None] = ContextVar("solward_visitor", default=None)


class _NoStore(httpx.AsyncHTTPTransport):
    """No proxy between here and the service may respond from a cache, or store a response."""

    def __init__(self, refused: list[bool]) -> None:
        super().__init__()
        self.refused = refused

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Cache-Control"] = "no-store"
        response = await super().handle_async_request(request)
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self.refused.append(True)
        return response


def api() -> SolwardClient:
    """The client of who asks, while the dashboard is served."""
    visitor = _VISITOR.get()
    return _client[0] if visitor is None else visitor.client


def visit(visitor: Visitor | None) -> None:
    """Let the current task, and what it starts, be this visitor's."""
    _VISITOR.set(visitor)


def role() -> Role:
    """What who asks may do; pages leave out the rest, and the service refuses it anyway."""
    visitor = _VISITOR.get()
    if visitor is not None:
        return visitor.role
    return _shared_role[0] if _shared_role else Role.POLICY


def logged_in_as() -> str | None:
    """The name of the visitor's own admin credential."""
    visitor = _VISITOR.get()
    return None if visitor is None else visitor.name


def behind_login() -> bool:
    """Whether a visitor had to log in."""
    return any(_behind_login)


def client_of(options: Options, secret: str, refused: list[bool]) -> SolwardClient:
    """A client that stores nothing, to be closed; `refused` is not empty once its secret was."""
    transport = _NoStore(refused)
    return SolwardClient(options.api_url, secret, timeout_s=_TIMEOUT_S, transport=transport)


async def ask_role() -> None:
    """Ask once what the shared secret may do; where the service is away, at the next call again."""
    if _client and not _shared_role:
        with suppress(ClientError):
            _shared_role[:] = [(await _client[0].admins.own())[0]]


def open_api(options: Options) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """A lifespan that opens the shared client, and closes it at the end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with client_of(options, options.api_secret, []) as client:
            _client[:] = [client]
            _behind_login[:] = [options.password is not None]
            try:
                yield
            finally:
                _client.clear()
                _shared_role.clear()

    return lifespan
