"""How a JSON-RPC call reaches a cluster: over HTTP, or straight to the embedded localnet."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from solward.support.tls import tls_context
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger.answers import (
    MOST_ANSWER_BYTES,
    NoAnswer,
    TooLong,
    parsed,
    request,
    result,
    unanswered,
)
from solward.vault.ledger.batches import SEND, TOGETHER, Batches

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

# The origin of a ledger of our own process; no host is named so.
IN_PROCESS: Final = "this process"
# Longer than a loaded public node takes.
REQUEST_TIMEOUT_S = 15.0
# To one node; further calls wait.
CONNECTIONS = 100


class Transport(Protocol):
    """One JSON-RPC call."""

    @property
    def origin(self) -> str:
        """Whose answers these are: the host's, or `IN_PROCESS`."""

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """The `result`; raises `LedgerRejected` on an error object, `LedgerUnavailable` on none."""

    async def close(self) -> None:
        """Release connections."""


@runtime_checkable
class ManyNodes(Protocol):
    """A transport over several nodes."""

    def origins(self) -> frozenset[str]:
        """The origins of all its nodes, those that rest included."""

    def nodes(self) -> Sequence[Transport]:
        """A transport for each usable node, which never switches; the one to ask first."""


@runtime_checkable
class SeesChanges(Protocol):
    """A transport to a ledger that nothing changes unseen by this process."""

    @property
    def changes(self) -> int:
        """How often the ledger changed."""


def host_of(url: str) -> str:
    """The host of an address in one spelling; this machine by any name is `localhost`."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "localhost" if host.endswith(".localhost") else host
    address = getattr(address, "ipv4_mapped", None) or address
    return "localhost" if address.is_loopback else str(address)


class HttpTransport:
    """A cluster behind a URL. The URL may hold a provider's key, so no error shows it.

    Calls that leave in one moment leave in one batch (`solward.vault.ledger.batches`). It posts
    with aiohttp: a call takes a quarter of the processor time of solana-py's own provider, which
    was most of a worker's (benchmarks/scale.py).
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        retries: int = 1,
        together: bool = True,
    ) -> None:
        """Args:
        retries: of a request that was cut off; its bytes are the same each time.
        together: whether calls may leave in batches.
        """
        self.origin = host_of(url)
        self._url = url
        self._timeout_s = timeout_s
        self._retries = retries
        self._session: ClientSession | None = None
        self._together = TOGETHER | {SEND} if together else frozenset()
        self._batches = Batches(self._post)
        # Sends leave with sends: none waits for what others simulate.
        self._sends = Batches(self._post)

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`; `NodeBusy` where the node says that it answers later."""
        encoded = msgspec.json.encode(params)
        if method in self._together:
            batches = self._sends if method == SEND else self._batches
            return await batches.call(method, encoded)
        try:
            status, headers, body = await self._post(request(0, method, encoded))
        except NoAnswer as error:
            raise unanswered(method, error) from None
        return result(method, status, headers, parsed(body))

    async def close(self) -> None:
        """Close the connection pool."""
        await self._batches.close()
        await self._sends.close()
        if self._session is not None:
            await self._session.close()

    async def _post(
        self, body: bytes, most: int = MOST_ANSWER_BYTES
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of an answer; raises `NoAnswer`, `TooLong` where the body has
        more than `most` bytes."""
        import aiohttp

        if self._session is None:
            self._session = _session(self._url, self._timeout_s)
        retries = self._retries
        while True:
            try:
                async with self._session.post(self._url, data=body, allow_redirects=False) as got:
                    return got.status, got.headers, await _body(got, most)
            except (aiohttp.ClientError, OSError) as error:
                if not retries:
                    raise NoAnswer(type(error).__name__) from None
                retries -= 1


async def _body(got: ClientResponse, most: int) -> bytes:
    found = bytearray()
    # What was compressed counts as it is read.
    async for part in got.content.iter_any():
        found += part
        if len(found) > most:
            raise TooLong(most)
    return bytes(found)


def _session(url: str, timeout_s: float) -> ClientSession:
    # Imported late: the embedded ledger does without.
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    return ClientSession(
        connector=TCPConnector(limit=CONNECTIONS, ssl=tls_context()),
        headers={"Content-Type": "application/json"},
        timeout=ClientTimeout(total=timeout_s),
        # Its own `trust_env` reads files for every request.
        proxy=_proxy(url),
    )


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for an address."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    named = getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


class InProcessTransport:
    """A dispatcher in this process: `call` is the localnet's own, without a socket."""

    origin = IN_PROCESS

    def __init__(
        self,
        call: Callable[[str, Sequence[Any]], Awaitable[Any]],
        rejection: Callable[[Exception], LedgerRejected | None],
        changes: Callable[[], int],
    ) -> None:
        """`rejection` turns the dispatcher's own error into ours, None for any other error;
        `changes` says how often the ledger changed."""
        self._call = call
        self._rejection = rejection
        self._changes = changes

    @property
    def changes(self) -> int:
        """See `SeesChanges`."""
        return self._changes()

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`."""
        try:
            return await self._call(method, params)
        except Exception as error:
            rejected = self._rejection(error)
            if rejected is None:
                raise LedgerUnavailable(f"The ledger did not answer {method}") from error
            raise rejected from None

    async def close(self) -> None:
        """The dispatcher belongs to whoever opened it."""
