"""How a JSON-RPC call reaches a cluster: over HTTP, or straight to the embedded localnet."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from solana.exceptions import SolanaRpcException
from solana.rpc.async_http_provider import AsyncHTTPProvider
from solana.rpc.jsonrpc import JsonRpcRequest

from solward.errors import LedgerRejected, LedgerUnavailable
from solward.scrub import scrub_text

# Longer than a loaded public node takes; a caller waits for confirmation, not for this.
REQUEST_TIMEOUT_S = 15.0


class Transport(Protocol):
    """One JSON-RPC call."""

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """The `result`; raises `LedgerRejected` on an error object, `LedgerUnavailable` on none."""

    async def close(self) -> None:
        """Release connections."""


@runtime_checkable
class ManyNodes(Protocol):
    """A transport with several nodes behind it."""

    def nodes(self) -> Sequence[Transport]:
        """Each usable node's own transport, which never switches; the one now in use first."""


class HttpTransport:
    """A cluster behind a URL. The URL may hold a provider's key, so no error shows it."""

    def __init__(self, url: str, timeout_s: float = REQUEST_TIMEOUT_S, *, retries: int = 1) -> None:
        """`retries` are of a request that was cut off; its bytes are the same each time."""
        self._provider = AsyncHTTPProvider(
            url, timeout=timeout_s, http2=False, max_transport_retries=retries
        )

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`."""
        request = JsonRpcRequest(method=method, params=list(params))
        try:
            text = await self._provider.make_request_unparsed(request)
            answer = json.loads(text)
        except (SolanaRpcException, ValueError) as error:
            cause = type(error.__cause__ or error).__name__
            raise LedgerUnavailable(f"The ledger did not answer {method} ({cause})") from None
        if not isinstance(answer, dict) or ("result" not in answer and "error" not in answer):
            raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")
        error_object = answer.get("error")
        if error_object is not None:
            code = error_object.get("code", 0) if isinstance(error_object, dict) else None
            if not isinstance(code, int):
                raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")
            raise LedgerRejected(
                code,
                # A provider may quote the address it was asked at, and its key with it.
                scrub_text(str(error_object.get("message", ""))),
                error_object.get("data"),
            )
        return answer["result"]

    async def close(self) -> None:
        """Close the connection pool."""
        await self._provider.close()


class InProcessTransport:
    """A dispatcher in this process: `call` is the localnet's own, without a socket."""

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
