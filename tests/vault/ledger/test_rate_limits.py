"""What a node's refusal says of when to come back, and for what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict
from tests.promises import promise
from tests.support.http import served
from tests.support.rpc import GENESIS, answer_each

from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger import patience
from solward.vault.ledger.answers import MAX_WAIT_S, wait_seconds
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import FailoverTransport, Node
from solward.vault.ledger.patience import NodeBusy, seconds_left, within
from solward.vault.ledger.transport import HttpTransport

NOW = 1_800_000_000.0
DRY = "You've reached the limit of today"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "10"}, 10),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": formatdate(NOW + 7, usegmt=True)}, 7),
        ({"Retry-After": formatdate(NOW - 7, usegmt=True)}, 0),
        ({"Retry-After": "86400"}, MAX_WAIT_S),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "2", "X-RateLimit-Reset": "9"}, 2),
        ({"X-RateLimit-Reset": "9"}, 9),
        ({"x-ratelimit-reset": str(int(NOW) + 9)}, 9),
        ({"X-RateLimit-Reset": str(int(NOW + 9) * 1000)}, 9),
        ({"RateLimit-Reset": "4"}, 4),
        ({"RateLimit": "limit=100, remaining=0, reset=5"}, 5),
        ({"RateLimit": '"default";r=0;t=6'}, 6),
    ],
)
def test_every_way_to_say_when(headers: dict[str, str], wait_s: float | None) -> None:
    found = wait_seconds(CIMultiDict(headers), NOW)
    assert found == (None if wait_s is None else pytest.approx(wait_s))


Said = Callable[[str], tuple[int, dict[str, str], dict[str, Any]]]


@asynccontextmanager
async def provider(say: Said) -> AsyncIterator[tuple[Ledger, list[str]]]:
    """A ledger over one provider, which answers as `say` does, and what it was asked."""
    asked: list[str] = []

    async def handle(http: web.Request) -> web.StreamResponse:
        return await answer_each(await http.read(), one)

    async def one(request: Any) -> web.StreamResponse:
        method = request["method"]
        asked.append(method)
        if method == "getGenesisHash":
            return web.json_response({"jsonrpc": "2.0", "id": request["id"], "result": GENESIS})
        status, headers, body = say(method)
        return web.json_response(
            {"jsonrpc": "2.0", "id": request["id"], **body}, status=status, headers=headers
        )

    async with served(handle) as url:
        http = HttpTransport(url, 2.0)
        transport = FailoverTransport([Node("one", http, lambda _genesis: None)])
        try:
            yield Ledger(transport), asked
        finally:
            await transport.close()


def fine(_method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    return 200, {}, {"result": 7}


def error(status: int, code: int, message: str, **headers: str) -> Said:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _method: (status, found, {"error": {"code": code, "message": message}})


def once(first: Said) -> Said:
    said: list[str] = []

    def say(method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        said.append(method)
        return (first if said == [method] else fine)(method)

    return say


@pytest.mark.parametrize(
    "refusal",
    [
        error(429, 429, "Too many requests", Retry_After="0.3"),
        error(200, -32429, "rate limited", Retry_After="0.3"),
        error(200, -32029, "Rate limit exceeded", Retry_After="0.3"),
        error(200, -32005, "rate limit of the plan", Retry_After="0.3"),
        error(503, -32000, "restarting", Retry_After="0.3"),
        error(500, -32000, "oops"),
        error(200, -32005, "Node is behind by 42 slots"),
    ],
)
async def test_a_read_waits_for_the_node_within_its_callers_deadline(refusal: Said) -> None:
    async with provider(once(refusal)) as (ledger, asked):
        began = time.monotonic()
        with within(5):
            assert await ledger.slot() == 7
        assert time.monotonic() - began >= 0.25
        assert asked.count("getSlot") == 2
    async with provider(once(refusal)) as (ledger, asked):
        with pytest.raises(LedgerUnavailable, match="getSlot"):
            await ledger.slot()
        assert asked.count("getSlot") == 1


async def test_a_node_that_is_busy_is_not_asked_meanwhile() -> None:
    async with provider(once(error(429, 429, "slow down", Retry_After="30"))) as (ledger, asked):
        with pytest.raises(NodeBusy, match=r"HTTP 429: slow down\); it asks to wait 30 s"):
            await ledger.slot()
        with within(5), pytest.raises(NodeBusy, match="asks to wait 30 s before getBlockHeight"):
            await ledger.block_height()
        assert asked == ["getGenesisHash", "getSlot"]


@pytest.mark.parametrize(
    "refusal",
    [
        error(429, 429, "Too many requests for a specific RPC call", Retry_After="30"),
        error(429, 429, "", Retry_After="30", X_RateLimit_Method_Remaining="0"),
    ],
)
async def test_one_method_over_its_rate_stops_no_other(refusal: Said) -> None:
    async with provider(once(refusal)) as (ledger, _):
        with pytest.raises(NodeBusy):
            await ledger.slot()
        assert await ledger.block_height() == 7
        with pytest.raises(NodeBusy):
            await ledger.slot()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_no_wait_helps_is_not_waited_for(status: int) -> None:
    async with provider(lambda _method: (status, {}, {"error": "no"})) as (ledger, asked):
        with within(5), pytest.raises(LedgerUnavailable, match=f"HTTP {status}"):
            await ledger.slot()
        assert asked.count("getSlot") == 1


async def test_a_deadline_ends_the_waiting_and_is_the_earlier_of_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    # Time passes in pauses alone.
    clock = SimpleNamespace(monotonic=lambda: sum(pauses))
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(patience, "asyncio", SimpleNamespace(sleep=sleep))
    with within(0.6):
        with within(30):
            assert seconds_left() == 0.6
        with within(30, own=True):
            assert seconds_left() == 30
        async with provider(error(500, -32000, "oops")) as (ledger, asked):
            with pytest.raises(LedgerUnavailable, match="No ledger node answered getSlot"):
                await ledger.slot()
        # The second pause would have ended after the deadline.
        assert len(pauses) == 1
        assert asked.count("getSlot") == 2
        assert seconds_left() == 0.6 - sum(pauses)
    assert seconds_left() == 0


# What a provider does not serve.


@pytest.mark.parametrize(
    "refusal",
    [
        error(410, 410, "The RPC call or parameters have been disabled."),
        error(403, -32000, "not in your plan"),
        error(200, -32601, "the method getProgramAccounts does not exist/is not available"),
        error(200, -32010, "excluded from account secondary indexes"),
    ],
)
async def test_a_provider_without_program_accounts_is_named_as_such_and_stays_in_use(
    refusal: Said,
) -> None:
    async with provider(once(refusal)) as (ledger, asked):
        with within(5), pytest.raises(LedgerRejected, match="does not serve getProgramAcc") as told:
            await ledger.program_accounts(GENESIS, size=1, offset=0, key=GENESIS)
        assert told.value.code == -32601
        assert await ledger.slot() == 7
        assert asked == ["getGenesisHash", "getProgramAccounts", "getSlot"]


@pytest.mark.parametrize(
    "refusal",
    [
        error(429, 429, DRY, Retry_After="0.1"),
        error(200, -32603, "Internal error"),
        error(200, 429, DRY),
    ],
)
async def test_a_faucets_limit_is_said_to_be_the_faucets_and_asked_once(refusal: Said) -> None:
    async with provider(refusal) as (ledger, asked):
        with within(5), pytest.raises((LedgerUnavailable, LedgerRejected)) as told:
            await ledger.request_airdrop(GENESIS, 1)
        assert "the cluster's faucet, not of this service" in str(told.value)
        assert "https://faucet.solana.com" in str(told.value)
        assert asked.count("requestAirdrop") == 1


# Reads after what landed.


@promise("reads-after-own-landing")
async def test_a_read_is_not_of_before_what_landed() -> None:
    lagging = 3
    calls: list[Any] = []

    def say(method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        if method == "getSignatureStatuses":
            status = {"slot": 9, "err": None, "confirmationStatus": "confirmed"}
            return 200, {}, {"result": {"context": {"slot": 9}, "value": [status]}}
        calls.append(method)
        if len(calls) <= lagging:
            return 200, {}, {"error": {"code": -32016, "message": "not reached"}}
        return 200, {}, {"result": {"context": {"slot": 9}, "value": 5}}

    async with provider(say) as (ledger, _):
        await ledger.statuses(["signature"])
        assert ledger.newest_landed_slot == 9
        with within(5):
            assert await ledger.balance(GENESIS) == 5
        assert len(calls) == 4
        # A caller without time takes what there is: here, another refusal.
        calls.clear()
        with pytest.raises(LedgerRejected):
            await ledger.balance(GENESIS)


@promise("false-heights-build-nothing")
@pytest.mark.parametrize("slot", [2**64, 2**70, -1])
async def test_a_slot_that_no_node_can_read_is_not_sent_to_any(slot: int) -> None:
    """One such answer of one node made all nodes refuse every read, until the next start."""

    def say(method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        if method == "getSignatureStatuses":
            status = {"slot": slot, "err": None, "confirmationStatus": "confirmed"}
            return 200, {}, {"result": {"context": {"slot": 9}, "value": [status]}}
        return 200, {}, {"result": {"context": {"slot": 9}, "value": 5}}

    async with provider(say) as (ledger, _):
        with pytest.raises(LedgerUnavailable, match="unexpected shape"):
            await ledger.statuses(["signature"])
        assert ledger.newest_landed_slot == 0
        assert await ledger.balance(GENESIS) == 5


@pytest.mark.parametrize("word", [[], {}, 5])
async def test_a_status_of_another_shape_is_the_nodes_fault(word: Any) -> None:
    """Any other error would end the question to all nodes whether a payment is dead."""

    def say(_method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        status = {"slot": 9, "err": None, "confirmationStatus": word}
        return 200, {}, {"result": {"context": {"slot": 9}, "value": [status]}}

    async with provider(say) as (ledger, _):
        with pytest.raises(LedgerUnavailable, match="unexpected shape"):
            await ledger.statuses(["signature"])


async def test_many_callers_of_a_busy_node_do_not_come_back_at_one_moment() -> None:
    moments: list[float] = []

    def say(method: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        moments.append(time.monotonic())
        if len(moments) == 1:
            return error(429, 429, "slow down", Retry_After="0.2")(method)
        return fine(method)

    async with provider(say) as (ledger, _):
        with within(5):
            await asyncio.gather(ledger.slot(), _later(0.1, [ledger.slot] * 19))
        first, *others = moments
        assert min(others) - first >= 0.2
        assert max(others) - min(others) > 0.05


async def _later(seconds: float, calls: list[Callable[[], Awaitable[Any]]]) -> None:
    await asyncio.sleep(seconds)
    await asyncio.gather(*(call() for call in calls))
