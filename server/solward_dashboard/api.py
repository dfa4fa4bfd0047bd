"""The clients of the API: one that all visitors share, and one for each visitor who logged in with
an admin credential. Their secrets stay in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from solward.client import ClientError, SolwardClient
from solward.types.roles import Role
from solward_dashboard.options import Options

T = TypeVar("T")

_TIMEOUT_S = 60.0
_AT_ONCE = 6
ANSWER_S = 0.9
"""How long a page waits for its visitor's role, so that it opens while the service hangs."""
# The path of `client.admins.own`: only its refusals are always about the secret.
_OWN = "/admins/self"
_client: list[SolwardClient] = []
_behind_login: list[bool] = []
# The role of the shared client, once the service has said it.
_shared_role: list[Role] = []


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor who logged in with an admin credential.

    Attributes:
        refused: not empty once the service refused the credential as revoked or expired.
    """

    client: SolwardClient
    name: str
    role: Role
    refused: list[bool]


# Set for everything that a request or a socket of the visitor starts.
_VISITOR: ContextVar[Visitor | None] = ContextVar("solward_visitor", default=None)
# Makes the block in which a request is sent; set for everything that an event of a page starts.
AROUND_REQUESTS: ContextVar[Callable[[], Any]] = ContextVar("solward_around", default=nullcontext)


class _ServiceTransport(httpx.AsyncHTTPTransport):
    """A transport to the service that forbids proxies to cache. After a refusal it asks whether
    the service refuses the secret itself.

    Attributes:
        refused: not empty once the service refused the secret.
        ask: asks the service about the secret alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[bool] = []
        self.ask: Callable[[], Awaitable[object]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Cache-Control"] = "no-store"
        with AROUND_REQUESTS.get()():
            response = await super().handle_async_request(request)
        if response.status_code == httpx.codes.UNAUTHORIZED:
            if request.url.path.endswith(_OWN):
                self.refused.append(True)
            elif self.ask is not None:
                # The refusal may be about another thing, such as a revoked key that was asked for.
                with suppress(ClientError):
                    await self.ask()
        return response


def api() -> SolwardClient:
    """Return the client of the current visitor, while the dashboard is served."""
    visitor = _VISITOR.get()
    return _client[0] if visitor is None else visitor.client


def set_visitor(visitor: Visitor | None) -> None:
    """Let the current task, and the tasks that it starts, act for this visitor."""
    _VISITOR.set(visitor)


def role() -> Role:
    """Return the current visitor's role; pages leave out what the service would refuse."""
    visitor = _VISITOR.get()
    if visitor is not None:
        return visitor.role
    return _shared_role[0] if _shared_role else Role.POLICY


def own_credential() -> Visitor | None:
    """Return the current visitor, if logged in with an admin credential."""
    return _VISITOR.get()


def needs_login() -> bool:
    """Return whether visitors must log in."""
    return any(_behind_login)


def client_of(options: Options, secret: str) -> tuple[SolwardClient, list[bool]]:
    """Return a client, and a list that becomes non-empty once the service refuses the secret."""
    transport = _ServiceTransport()
    client = SolwardClient(options.api_url, secret, timeout_s=_TIMEOUT_S, transport=transport)
    transport.ask = client.admins.own
    return client, transport.refused


async def fetch_each(ids: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Call `ask` for each id, a few at a time, and return the answers by id."""
    ids = tuple(ids)
    limiter = asyncio.Semaphore(_AT_ONCE)

    async def ask_one(own_id: str) -> T:
        async with limiter:
            return await ask(own_id)

    return dict(zip(ids, await asyncio.gather(*map(ask_one, ids)), strict=True))


async def ask_role() -> None:
    """Fetch the role of the shared secret, unless it is already known."""
    if _client and not _shared_role:
        with suppress(ClientError, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                _shared_role[:] = [(await _client[0].admins.own()).role]


def open_api(options: Options) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return a lifespan that opens the shared client, and closes it at the end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        shared, _ = client_of(options, options.api_secret)
        async with shared as client:
            _client[:] = [client]
            _behind_login[:] = [options.password is not None]
            try:
                yield
            finally:
                _client.clear()
                _shared_role.clear()

    return lifespan
