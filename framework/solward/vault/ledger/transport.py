"""How a JSON-RPC call reaches a cluster: over HTTP, or straight to the embedded localnet."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from solana.rpc.jsonrpc import JsonRpcRequest

from solward.errors import LedgerRejected, LedgerUnavailable
from solward.telemetry.scrub import scrub_text

if TYPE_CHECKING:
    from aiohttp import ClientSession

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
        """A transport for each usable node, which never switches; the one in use first."""


def host_of(url: str) -> str:
    """The host of an address in one spelling; this machine by any name is `localhost`."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "localhost" if host.endswith(".localhost") else host
    address = getattr(address, "ipv4_mapped", None) or address
    return "localhost" if address.is_loopback else str(address)


class _NoAnswer(Exception):
    """Why a node did not answer, without its address."""


class HttpTransport:
    """A cluster behind a URL. The URL may hold a provider's key, so no error shows it.

    It posts with aiohttp: a call takes a quarter of the processor time of solana-py's own provider,
    which was most of a worker's (benchmarks/scale.py).
    """

    def __init__(self, url: str, timeout_s: float = REQUEST_TIMEOUT_S, *, retries: int = 1) -> None:
        """`retries` are of a request that was cut off; its bytes are the same each time."""
        self.origin = host_of(url)
        self._url = url
        self._timeout_s = timeout_s
        self._retries = retries
        self._session: ClientSession | None = None

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`."""
        request = JsonRpcRequest(method=method, params=list(params))
        try:
            answer = json.loads(await self._post(request.to_json().encode()))
        except _NoAnswer as error:
            raise LedgerUnavailable(f"The ledger did not answer {method} ({error})") from None
        except ValueError:
            raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON") from None
        if not isinstance(answer, dict) or ("result" not in answer and "error" not in answer):
            raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")
        error_object = answer.get("error")
        if error_object is not None:
            code = error_object.get("code", 0) if isinstance(error_object, dict) else None
            if not isinstance(code, int):
                raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")
            raise LedgerRejected(
                code,
                # A provider may quote its address, and the key in it.
                scrub_text(str(error_object.get("message", ""))),
                error_object.get("data"),
            )
        return answer["result"]

    async def close(self) -> None:
        """Close the connection pool."""
        if self._session is not None:
            await self._session.close()

    async def _post(self, body: bytes) -> bytes:
        """The body of an answer; raises `_NoAnswer`."""
        import aiohttp

        if self._session is None:
            self._session = _session(self._url, self._timeout_s)
        retries = self._retries
        while True:
            try:
                async with self._session.post(self._url, data=body, allow_redirects=False) as got:
                    if got.status // 100 != 2:
                        raise _NoAnswer(f"HTTP {got.status}")
                    return await got.read()
            except (aiohttp.ClientError, OSError) as error:
                if not retries:
                    raise _NoAnswer(type(error).__name__) from None
                retries -= 1


def _session(url: str, timeout_s: float) -> ClientSession:
    # Imported late: the embedded ledger does without.
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    return ClientSession(
        connector=TCPConnector(limit=CONNECTIONS, ssl=httpx.create_ssl_context()),
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
    ) -> None:
        """`rejection` turns the dispatcher's own error into ours, None for any other error."""
        self._call = call
        self._rejection = rejection

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
