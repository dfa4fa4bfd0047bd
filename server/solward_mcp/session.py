"""A session of one caller: its wallets; the keys of calls with undelivered results, with which a
repeated call continues the same payment; and a notification once the service responds again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from solward.client import ApiKey, ClientError, SolwardClient, Wallet
from solward.support import jsontext

# Calls remembered for one caller, and callers: one that makes many loses its own oldest.
_MOST = 500
_MOST_CALLERS = 1_000
# A call is remembered for this long after it was made, or after its hold expired.
_TOLD_S = 3_600.0
# A client may cancel a request while the answer is on its way.
_CROSSED_S = 30.0


@dataclass(slots=True)
class _Request:
    """A request of a caller, and the key of its call.

    Attributes:
        until: time after which it cannot be cancelled any more, in monotonic seconds.
    """

    key: str
    until: float = math.inf
    is_cancelled: bool = False


class HeldCalls:
    """The Idempotency-Keys of one caller's calls with undelivered results: calls that are held,
    were cancelled or have no answer yet. The keys exist only in this process."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, tuple[str, float]] = OrderedDict()
        # The key is id and call, because clients of one caller may use the same ids over HTTP.
        self._requests: OrderedDict[tuple[str, str], _Request] = OrderedDict()

    @staticmethod
    def name(wallet_id: str, tool: str, params: Mapping[str, Any]) -> str:
        """Return a digest that is the same for equal calls and reveals nothing about them."""
        whole = jsontext.dumps([wallet_id, tool, dict(params)], canonical=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def key(self, name: str) -> str | None:
        """Return the key of the call, if its result was not delivered yet."""
        key, until = self._keys.get(name, (None, 0.0))
        if key is not None and until < time.monotonic():
            del self._keys[name]
            return None
        return key

    def remember(self, name: str, key: str, expires_at: datetime) -> None:
        """Remember that the call is held under this key."""
        self._keep(name, key, max(0.0, (expires_at - datetime.now(UTC)).total_seconds()))

    def begin(self, request_id: str, name: str, key: str) -> None:
        """Record that a request makes the call under this key."""
        self._requests[request_id, name] = _Request(key)
        self._requests.move_to_end((request_id, name))
        if len(self._requests) > _MOST:
            self._requests.popitem(last=False)
        self._keep(name, key)

    def cancel(self, request_id: str) -> None:
        """Record that the client cancelled a request, whose answer may already be on its way.

        If several answered requests have the id, the newest is meant: HTTP sessions may reuse ids.
        """
        named = [
            (name, request)
            for (id_, name), request in self._requests.items()
            if id_ == request_id and time.monotonic() < request.until
        ]
        open_ = [each for each in named if each[1].until == math.inf]
        for name, _request in open_ or named[-1:]:
            self.drop(request_id, name)

    def drop(self, request_id: str, name: str) -> None:
        """Record that nobody waits for the answer of this call."""
        request = self._requests.get((request_id, name))
        if request is not None:
            request.is_cancelled = True
            self._keep(name, request.key)

    def finish(self, request_id: str, name: str, key: str) -> None:
        """Forget the call, since its result is delivered: the same call again is another payment.
        A call whose request was cancelled is still remembered."""
        request = self.mark_answered(request_id, name)
        is_cancelled = request is not None and request.is_cancelled
        if not is_cancelled and self._keys.get(name, ("", 0.0))[0] == key:
            del self._keys[name]

    def mark_answered(self, request_id: str, name: str) -> _Request | None:
        """Record that a request is answered, perhaps with an error; return the request if known."""
        request = self._requests.get((request_id, name))
        if request is not None:
            request.until = time.monotonic() + _CROSSED_S
        return request

    def _keep(self, name: str, key: str, left_s: float = 0.0) -> None:
        until = time.monotonic() + left_s + _TOLD_S
        self._keys[name] = (key, max(until, self._keys.get(name, ("", 0.0))[1]))
        self._keys.move_to_end(name)
        while len(self._keys) > _MOST:
            self._keys.popitem(last=False)


class CallsByCaller:
    """The held calls of each caller of a service."""

    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, HeldCalls] = OrderedDict()

    def of_caller(self, token: str) -> HeldCalls:
        """Return the held calls of the caller with this token, which the service knows."""
        caller = hashlib.sha256(token.encode()).digest()
        calls = self._calls.setdefault(caller, HeldCalls())
        self._calls.move_to_end(caller)
        if len(self._calls) > _MOST_CALLERS:
            self._calls.popitem(last=False)
        return calls


_MAX_NAMES = 20
# The key's grants are left out, because the wallet's limits contain them.
_KEY_LIMITS = ("rateLimit", "spendingLimitSol", "maxCostsSolPerDay", "expiresAt")


class WalletChoice(Exception):
    """A call's wallet is missing or outside the session; the error's text is for the model."""


@dataclass(slots=True)
class WalletScope:
    """The wallets that one caller can use, read from the service.

    Attributes:
        only: id, name or address of the session's one wallet; None is every wallet that the
            caller's token may use.
        asks_key: whether to ask the service, once, for the wallet to which the caller's key is
            confined, and to set `only` to it.
        held: the caller's calls whose result was not delivered.
        call: the name in `held` of the last call that began.
    """

    client: SolwardClient
    only: str | None = None
    held: HeldCalls = field(default_factory=HeldCalls)
    asks_key: bool = False
    call: str | None = None

    async def only_wallet(self) -> str | None:
        """Return the id, name or address of the session's one wallet; raises `ClientError`."""
        if self.asks_key:
            own = await self._own_key()
            if own is not None:
                self.only = own.wallet_id
            # A key's wallet never changes.
            self.asks_key = False
        return self.only

    async def wallet(self, name: str | None) -> Wallet:
        """Return the wallet to act on, by name, id or address.

        Raises:
            WalletChoice: no wallet is named and there are several, or it is outside the session.
            ClientError: no wallet or several have that name, or the service does not respond.
        """
        only = await self.only_wallet()
        if only is None:
            if name is None:
                raise WalletChoice(await self._wallet_required_text())
            return await self.client.wallets.find(name)
        wallet = await self.client.wallets.find(only)
        if name not in (None, wallet.id, wallet.name, wallet.address):
            raise WalletChoice(f"This session acts on the wallet {wallet.name} alone")
        return wallet

    async def wallets(self) -> tuple[Wallet, ...]:
        """Return every wallet of this session; raises `ClientError`."""
        only = await self.only_wallet()
        if only is None:
            return await self.client.wallets.list()
        return (await self.client.wallets.find(only),)

    async def limits(self, wallet: Wallet) -> Mapping[str, Any]:
        """Return the wallet's limits and, as `key`, the caller's own; raises `ClientError`."""
        limits: Mapping[str, Any]
        limits, own = await asyncio.gather(self.client.wallets.limits(wallet.id), self._own_key())
        if own is None:
            return limits
        return {**limits, "key": {name: own.raw[name] for name in _KEY_LIMITS}}

    async def _own_key(self) -> ApiKey | None:
        """Return the caller's key; None for the operator's secret or credential."""
        return (await self.client.keys.own()).key

    async def _wallet_required_text(self) -> str:
        names = [wallet.name for wallet in await self.client.wallets.list()]
        if not names:
            return "wallet is required, and there is none yet: create one first"
        more = ", ..." if len(names) > _MAX_NAMES else ""
        names_text = ", ".join(names[:_MAX_NAMES])
        return f"wallet is required: the name or id of a wallet, one of {names_text}{more}"


_PAUSE_S = 2.0


class RecoveryNotifier:
    """A poller that notifies the MCP client once an unresponsive service responds again. Clients
    list tools only when they start, and most of them start before the service."""

    def __init__(self, client: SolwardClient) -> None:
        self._client = client
        self._task: asyncio.Task[None] | None = None

    def watch(self, announce: Callable[[], Awaitable[None]]) -> None:
        """Tell the client that its lists changed, once the service responds."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._notify(announce))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stop polling at the end of the block."""
        try:
            yield
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)

    async def _notify(self, announce: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            with contextlib.suppress(ClientError):
                await self._client.health()
                break
        await announce()
