"""A faulty RPC provider between the product's HTTP transport and a real ledger.

One address, behind which `Faults` decide for each request what a provider under load, a node that
lags or one of another cluster would do. The same seed gives the same course of events.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web
from solders.transaction import VersionedTransaction
from tests.support.rpc_batches import answer_each

from solward.database.database import Database
from solward.operations.transfer import plan_transfer
from solward.service.cluster import open_cluster
from solward.settings import Settings
from solward.types.errors import TransactionError
from solward.types.money import LAMPORTS_PER_SOL, lamports_to_sol
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet, Wallets
from solward.vault.guardrails import Policy, ScopeLimits
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, Draft
from solward.vault.store import transactions as store
from solward_localnet.errors import RpcError
from solward_localnet.node import Localnet

FAULTS = (
    "throttle",  # 429, and nothing about when
    "throttle_after",  # 429 with Retry-After, for whatever is asked
    "throttle_method",  # 429 for one method: Retry-After and X-RateLimit-Method-Remaining
    "over_rate",  # a rate limit's JSON-RPC code with HTTP status 200
    "unhealthy",  # -32005
    "fail",  # 500, 502 or 503
    "drop",  # the connection is closed, before or after the ledger was asked
    "swallow",  # sendTransaction gets its signature, and goes nowhere
    "lag_height",  # heights, blockhash and statuses of LAG_SLOTS ago
    "lag_state",  # accounts and simulation of LAG_SLOTS ago
    "slow",  # up to SLOW_S pass
)
LAG_SLOTS = 30
SLOW_S = 1.5
RETRY_AFTER_S = 1

_HEIGHTS = frozenset(
    {
        "getBlockHeight",
        "getEpochInfo",
        "getSlot",
        "getLatestBlockhash",
        "getSignatureStatuses",
        "getSignaturesForAddress",
        "getTransaction",
        "sendTransaction",
    }
)
_STATE = frozenset(
    {
        "getBalance",
        "getAccountInfo",
        "getMultipleAccounts",
        "getTokenAccountsByOwner",
        "simulateTransaction",
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request that came in: when, in monotonic seconds, and the fault that met it."""

    at: float
    method: str
    fault: str | None


class Answering(Protocol):
    """A ledger, in this process or another."""

    async def call(self, method: str, params: Sequence[Any] = ()) -> Any:
        """The result of a method; raises `RpcError`."""


@dataclass(slots=True)
class FaultyProvider:
    """The provider.

    Attributes:
        chances: fault -> the probability that it meets a request which it can meet.
        only: methods that the faults meet; None for every one.
        most: how many requests they still meet; None for any number.
        ledger: whose answers these are; another one makes it a node of another cluster.
        lag_slots: how far a node that lags is behind.
    """

    ledger: Answering
    seed: int = 0
    chances: dict[str, float] = field(default_factory=dict)
    only: frozenset[str] | None = None
    most: int | None = None
    requests: list[Request] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    url: str = ""
    lag_slots: int = LAG_SLOTS
    _dice: random.Random = field(init=False)
    _tips: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _seen: dict[str, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)

    def calls(self, method: str) -> list[Request]:
        """The requests of a method."""
        return [each for each in self.requests if each.method == method]

    @contextlib.contextmanager
    def faulty(self, *only: str, most: int | None = None, **chances: float) -> Iterator[None]:
        """These faults until left, or until they met `most` requests."""
        assert set(chances) <= set(FAULTS), chances
        self.chances, self.only, self.most = chances, frozenset(only) or None, most
        try:
            yield
        finally:
            self.chances, self.only, self.most = {}, None, None

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Serve one request, or a batch of them."""
        return await answer_each(await http.read(), partial(self._handle, http))

    async def _handle(self, http: web.Request, request: Any) -> web.StreamResponse:
        method, params = request["method"], request.get("params", [])
        fault = self._fault(method)
        self.requests.append(Request(time.monotonic(), method, fault))
        self.counts[fault or "fine"] += 1
        strength = self._dice.random()
        if fault == "slow":
            await asyncio.sleep(SLOW_S * strength)
        elif fault == "drop" and strength < 0.5:
            return _cut(http)
        refusal = _refusal(fault, strength, request)
        if refusal is not None:
            return refusal
        try:
            if fault in ("lag_height", "lag_state"):
                result = await self._lagging(method, params)
            elif fault == "swallow":
                result = _signature(params[0])
            else:
                result = await self._now(method, params)
        except RpcError as error:
            return _body(request, error=error.to_json())
        if fault == "drop":
            return _cut(http)
        return _body(request, result=result)

    def _fault(self, method: str) -> str | None:
        if self.most == 0:
            return None
        for name in FAULTS:
            hit = self._dice.random() < self.chances.get(name, 0.0)
            if not hit or (self.only is not None and method not in self.only):
                continue
            if name == "swallow" and method != "sendTransaction":
                continue
            if name == "lag_height" and method not in _HEIGHTS:
                continue
            if name == "lag_state" and method not in _STATE:
                continue
            if self.most is not None:
                self.most -= 1
            return name
        return None

    async def _now(self, method: str, params: Sequence[Any]) -> Any:
        result = await self.ledger.call(method, params)
        if method in _STATE:
            self._seen[_key(method, params)].append((result["context"]["slot"], result))
        return result

    async def _lagging(self, method: str, params: Sequence[Any]) -> Any:
        """What a node says that has seen nothing of the last `lag_slots`."""
        tip = await self.ledger.call("getEpochInfo", [])
        slot = max(0, tip["absoluteSlot"] - self.lag_slots)
        height = max(0, tip["blockHeight"] - self.lag_slots)
        options = next((each for each in params if isinstance(each, dict)), {})
        if options.get("minContextSlot", 0) > slot:
            raise RpcError(
                -32016, "Minimum context slot has not been reached", {"contextSlot": slot}
            )
        if method == "getBlockHeight":
            return height
        if method == "getSlot":
            return slot
        if method == "getEpochInfo":
            return tip | {"absoluteSlot": slot, "blockHeight": height}
        if method == "getLatestBlockhash":
            return self._blockhash(slot) or await self._now(method, params)
        if method in ("sendTransaction", "simulateTransaction"):
            blockhash = str(_transaction(params[0]).message.recent_blockhash)
            known = {each["value"]["blockhash"] for _, each in self._until(slot)}
            if self._tips and blockhash not in known:
                # Its queue drops what it cannot check; a simulation says why.
                return (
                    _signature(params[0])
                    if method == "sendTransaction"
                    else {"context": {"slot": slot}, "value": _unknown_blockhash()}
                )
        if method == "getTransaction":
            found = await self._now(method, params)
            return None if found is None or found["slot"] > slot else found
        if method == "getSignaturesForAddress":
            return [each for each in await self._now(method, params) if each["slot"] <= slot]
        if method == "getSignatureStatuses":
            found = await self._now(method, params)
            values = [each if each and each["slot"] <= slot else None for each in found["value"]]
            return {"context": {"slot": slot}, "value": values}
        if method == "sendTransaction":
            return await self._now(method, params)
        now = await self._now(method, params)
        old = [each for at, each in self._seen[_key(method, params)] if at <= slot]
        return (old[-1] if old else now) | {"context": {"slot": slot}}

    def _until(self, slot: int) -> list[tuple[int, dict[str, Any]]]:
        return self._tips[: bisect_right(self._tips, slot, key=lambda each: each[0])]

    def _blockhash(self, slot: int) -> dict[str, Any] | None:
        known = self._until(slot)
        return known[-1][1] if known else None

    async def _watch(self) -> None:
        """Remember the blockhash of each slot, so that a node can lag behind it."""
        while True:
            answer = await self.ledger.call("getLatestBlockhash", [])
            slot = answer["context"]["slot"]
            if not self._tips or slot > self._tips[-1][0]:
                self._tips.append((slot, answer))
            await asyncio.sleep(0.1)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FaultyProvider]:
        """Listen on 127.0.0.1 until left; `url` says where."""
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_post("/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
        await runner.setup()
        watching = asyncio.create_task(self._watch())
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await runner.cleanup()


def _refusal(fault: str | None, strength: float, request: Any) -> web.Response | None:
    after = {"Retry-After": str(RETRY_AFTER_S)}
    if fault == "throttle":
        return web.Response(status=429, text="Too Many Requests")
    if fault == "throttle_after":
        text = "Connection rate limits exceeded"
        return _body(request, 429, after, error={"code": 429, "message": text})
    if fault == "throttle_method":
        text = "Too many requests for a specific RPC call"
        headers = after | {"X-RateLimit-Method-Limit": "40", "X-RateLimit-Method-Remaining": "0"}
        return _body(request, 429, headers, error={"code": 429, "message": text})
    if fault == "over_rate":
        return _body(request, error={"code": -32429, "message": "rate limited"})
    if fault == "unhealthy":
        error = {"code": -32005, "message": "Node is behind by 42 slots"}
        return _body(request, error=error | {"data": {"numSlotsBehind": 42}})
    if fault == "fail":
        return web.Response(status=(500, 502, 503)[int(3 * strength)], text="<html>busy</html>")
    return None


def _body(
    request: Any, status: int = 200, headers: dict[str, str] | None = None, **outcome: Any
) -> web.Response:
    body = {"jsonrpc": "2.0", "id": request.get("id"), **outcome}
    return web.json_response(body, status=status, headers=headers)


def _cut(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response()


def _transaction(encoded: str) -> VersionedTransaction:
    return VersionedTransaction.from_bytes(base64.b64decode(encoded))


def _signature(encoded: str) -> str:
    return str(_transaction(encoded).signatures[0])


def _unknown_blockhash() -> dict[str, Any]:
    return {"err": "BlockhashNotFound", "logs": [], "accounts": None, "unitsConsumed": 0}


def _key(method: str, params: Sequence[Any]) -> str:
    return f"{method} {params[0]}"


@dataclass(slots=True)
class Payer:
    """The product's cluster, engine and database on some addresses, and a wallet that pays."""

    localnet: Localnet
    database: Database
    engine: Engine
    wallet: Wallet

    def draft(self, to: str, lamports: int) -> Draft:
        """A payment that is to be made."""
        return plan_transfer(self.wallet.address, to=to, amount=lamports_to_sol(lamports))

    async def pay(self, to: str, lamports: int) -> TransactionRecord | TransactionError:
        """One payment, as its caller sees it."""
        try:
            return await self.engine.execute(self.wallet.id, ADMIN, self.draft(to, lamports))
        except TransactionError as error:
            return error

    async def records(self) -> list[TransactionRecord]:
        """Every record, the newest first."""
        found: list[TransactionRecord] = []
        async with self.database.read() as connection:
            while True:
                before = found[-1].id if found else None
                page = await store.history(connection, self.wallet.id, 500, before)
                found += page
                if len(page) < 500:
                    return found

    async def settled(self, seconds: float) -> list[TransactionRecord]:
        """The records once none is pending; as they are after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            records = await self.records()
            pending = [each for each in records if each.status is TransactionStatus.PENDING]
            if not pending or time.monotonic() > deadline:
                return records
            await asyncio.sleep(0.1)

    async def on_ledger(self, address: str) -> int:
        """What an address has, by the ledger itself."""
        return int((await self.localnet.call("getBalance", [address]))["value"])


@asynccontextmanager
async def payer(
    home: Path, localnet: Localnet, *urls: str, confirm_wait_s: float = 45.0
) -> AsyncIterator[Payer]:
    """A payer that knows these addresses only; the wallet has 1,000 SOL."""
    home.mkdir(exist_ok=True)
    settings = Settings(
        _env_file=None,
        solward_home=home,
        api_secret="a-secret-for-tests-of-at-least-32-bytes",
        solana_network="localnet",
        solana_rpc_url=",".join(urls),
    )
    async with AsyncExitStack() as stack:
        database = await Database.open(None, home)
        stack.push_async_callback(database.close)
        cluster = await stack.enter_async_context(open_cluster(settings))
        wallets = await Wallets.open(database, settings, home)
        options = EngineOptions(Policy(), ScopeLimits(), confirm_wait_s=confirm_wait_s)
        engine = Engine(cluster.ledger, database, wallets, options, verify_cluster=cluster.verify)
        stack.push_async_callback(engine.close)
        wallet = await wallets.create("payer")
        await localnet.call("requestAirdrop", [wallet.address, 1_000 * LAMPORTS_PER_SOL])
        engine.sender.start()
        yield Payer(localnet, database, engine, wallet)
