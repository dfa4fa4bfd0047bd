"""RPC nodes that lie, lag, refuse and drop: a node, a provider, and congestion."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import ClientSession, web
from solders.transaction import VersionedTransaction
from tests.support.http import served

from solward.solana.message import fee_terms
from solward_localnet.jsonrpc import RpcError
from solward_localnet.node import Localnet

if TYPE_CHECKING:
    from tests.support.engine import Wire

# A JSON-RPC batch as the calls it is made of, for nodes of tests.

One = Callable[[Any], Awaitable[web.StreamResponse]]


async def answer_each(body: bytes, one: One) -> web.StreamResponse:
    """What `one` answers to a request, or to each of a batch; where one of these is no JSON-RPC
    response, that is what the batch gets, as from a gateway."""
    request = json.loads(body)
    if not isinstance(request, list):
        return await one(request)
    answers = await asyncio.gather(*map(one, request))
    found = []
    for answer in answers:
        if not isinstance(answer, web.Response) or answer.status != 200 or not answer.text:
            return answer
        try:
            found.append(json.loads(answer.text))
        except (ValueError, RecursionError):
            return answer
    headers = {"Retry-After": after} if (after := _after(answers)) else None
    return web.json_response(found, headers=headers)


def _after(answers: list[web.StreamResponse]) -> str | None:
    return next((a.headers["Retry-After"] for a in answers if "Retry-After" in a.headers), None)


# RPC nodes on loopback that really listen, and can be made to fail in each way a node does.

Answers = Callable[[str, Sequence[Any]], Awaitable[Any]]

GENESIS = "4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZAMdL4VZHirAn"


class RpcNode:
    """One node.

    `faults` by method (`*` for every one): an HTTP status, a JSON-RPC error code below zero,
    `garbage`, `deep`, `no json-rpc`, `hang`, `cut`, or a function in place of the node's own
    `answers`. Those of `batch` meet batches alone; a list there is the answer.

    Attributes:
        posts: HTTP requests.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._serving: AsyncExitStack | None = None
        self.faults: dict[str, Any] = {}
        self.calls: Counter[str] = Counter()
        self.posts = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the port of before where there was one."""
        serving = AsyncExitStack()
        url = await serving.enter_async_context(served(self._handle, self.port, method="POST"))
        self._serving, self.port = serving, int(url.rpartition(":")[2])

    async def stop(self) -> None:
        """Refuse connections from now on."""
        if self._serving is not None:
            await self._serving.aclose()
            self._serving = None

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        self.posts += 1
        body = await http.read()
        if body.startswith(b"[") and "batch" in self.faults:
            return await self._one(http, {"method": "batch"})
        return await answer_each(body, partial(self._one, http))

    async def _one(self, http: web.Request, request: Any) -> web.StreamResponse:
        method, params = request["method"], request.get("params", [])
        self.calls[method] += 1
        fault = self.faults.get(method, self.faults.get("*"))
        answers = self.answers
        if fault == "hang":
            await asyncio.sleep(60)
        elif fault == "cut":
            assert http.transport is not None
            http.transport.abort()
        elif fault == "garbage":
            return web.Response(text="<html>busy</html>")
        elif fault == "deep":
            # Once it did what it was asked for.
            await answers(method, params)
            return web.Response(text="[" * 100_000, content_type="application/json")
        elif fault == "no json-rpc":
            return web.json_response({"error": {"code": "busy"}})
        elif isinstance(fault, list):
            return web.json_response(fault)
        elif isinstance(fault, int) and fault > 0:
            return web.json_response({"error": "busy"}, status=fault)
        elif isinstance(fault, int):
            return _answer(request, error={"code": fault, "message": f"code {fault}"})
        elif fault is not None:
            answers = fault
        try:
            return _answer(request, result=await answers(method, params))
        except RpcError as error:
            return _answer(request, error=error.to_json())


def _answer(request: Any, **outcome: Any) -> web.Response:
    body = {"jsonrpc": "2.0", "id": request.get("id"), **outcome}
    return web.Response(text=json.dumps(body), content_type="application/json")


def answers_name(name: str, genesis: str = GENESIS) -> Answers:
    """A node that answers every call with its own name."""

    async def answers(method: str, _params: Sequence[Any]) -> Any:
        return genesis if method == "getGenesisHash" else name

    return answers


def answers_of(localnet: Localnet) -> Answers:
    """A node of a real ledger."""
    return localnet.call


@asynccontextmanager
async def listening(*answers: Answers) -> AsyncIterator[tuple[RpcNode, ...]]:
    """Nodes that listen until left."""
    nodes = tuple(map(RpcNode, answers))
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            with suppress(RuntimeError):
                await node.stop()


@asynccontextmanager
async def node_in_front_of(url: str) -> AsyncIterator[RpcNode]:
    """A node that asks the one at `url` whatever it is asked, until it is told to do otherwise."""
    async with ClientSession() as session:

        async def answers(method: str, params: Sequence[Any]) -> Any:
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
            async with session.post(url, json=call) as response:
                answer = await response.json()
            if "error" in answer:
                raise RpcError(**answer["error"])
            return answer["result"]

        async with listening(answers) as (node,):
            yield node


# A faulty RPC provider between the product's HTTP transport and a real ledger.

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
        async with served(self.handle, method="POST") as self.url:
            watching = asyncio.create_task(self._watch())
            try:
                yield self
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)


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


# A congested cluster: a proxy before a real localnet that lets through what pays enough.

PRICED_SLOTS = 150


@dataclass(slots=True)
class Congestion:
    """Drops every send whose price of a compute unit is below `floor`, as a leader does: without a
    word to the sender.

    Attributes:
        floor: micro-lamports.
        reported: what the node says landed in each of its last slots; the floor where it is None.
        dropped: signatures that were not passed on, once for each time they were sent.
        asked: addresses of each request for prices.
    """

    floor: int
    reported: Sequence[int] | None = None
    dropped: list[str] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)

    def before(self, wire: Wire) -> Congestion:
        """Stand before the localnet from now on."""
        wire.faults["sendTransaction"] = self._send
        wire.faults["getRecentPrioritizationFees"] = self._prices
        return self

    async def _send(self, _method: str, params: Sequence[Any]) -> Any:
        transaction = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
        if fee_terms(transaction.message).unit_price >= self.floor:
            return None
        signature = str(transaction.signatures[0])
        self.dropped.append(signature)
        return signature

    async def _prices(self, _method: str, params: Sequence[Any]) -> Any:
        self.asked.append(list(params[0]))
        prices = [self.floor] * PRICED_SLOTS if self.reported is None else self.reported
        return [{"slot": slot, "prioritizationFee": price} for slot, price in enumerate(prices)]
