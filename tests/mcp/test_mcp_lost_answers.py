"""Calls of tools whose answer is not the service's: paid once, and the model is told."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.client.conftest import carrier, client
from tests.client.test_client_retries import FEE, FOREIGN, STRANGER
from tests.promises import promise
from tests.support.services import Break, Carrier, times

from solward.client import SolwardClient
from solward.types.errors import API_HEADER, API_VERSION
from solward_mcp import tools
from solward_mcp.protocol import IDEMPOTENCY_META
from solward_mcp.session import CallsByCaller, WalletScope

__all__ = ["carrier", "client"]

ARGUMENTS = {"to": STRANGER, "amount": 1}


@pytest.fixture
async def scope(client: SolwardClient, monkeypatch: pytest.MonkeyPatch) -> WalletScope:
    monkeypatch.setattr(tools, "_PAUSE_S", 0.01)
    made = await client.wallets.create(name="payer")
    await client.wallets.airdrop(made.id, amount=2)
    return WalletScope(client, made.id)


def gateway(status: int, content: bytes, count: int) -> Break:
    """A gateway that answers so in place of `count` payments' answers."""
    trouble = times(count, lambda _request: httpx.Response(status, content=content))
    return lambda request: trouble(request) if request.method == "POST" else None


@pytest.mark.parametrize(("status", "content"), FOREIGN)
async def test_an_answer_that_is_not_the_services_is_asked_for_again_under_its_key(
    scope: WalletScope, carrier: Carrier, status: int, content: bytes
) -> None:
    carrier.requests.clear()
    carrier.after = gateway(status, content, 2)
    done = await tools.call_tool(scope, "transfer", ARGUMENTS, None)
    assert done["isError"] is False, done
    keys = [each for each in carrier.keys if each is not None]
    assert (len(keys), len(set(keys))) == (3, 1)
    assert (await scope.client.wallets.balance((await scope.wallet(None)).id)).sol == 1 - FEE


async def test_where_no_answer_of_the_services_comes_the_model_has_warning_and_key(
    scope: WalletScope, carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_RESTART_S", 0)
    carrier.after = gateway(504, b"<html>", 100)
    lost = await tools.call_tool(scope, "transfer", ARGUMENTS, None)
    [key] = {each for each in carrier.keys if each is not None and each.startswith("generated-")}
    assert lost["isError"] is True
    text = lost["content"][0]["text"]
    assert f"idempotency key {key} returns" in text
    assert text.endswith("Look at the wallet's transactions before calling again")
    assert lost["_meta"] == {IDEMPOTENCY_META: key}
    carrier.after = lambda _request: None
    done = await tools.call_tool(scope, "transfer", ARGUMENTS, lost["_meta"])
    assert done["isError"] is False
    assert (await scope.client.wallets.balance((await scope.wallet(None)).id)).sol == 1 - FEE


async def paid(scope: WalletScope) -> int:
    """The payments that were made."""
    wallet = await scope.wallet(None)
    records = await scope.client.wallets.transactions(wallet.id)
    return sum(record.type == "transfer" for record in records)


@promise("mcp-cancelled-call-pays-once")
@pytest.mark.parametrize("at", ["before", "after"])
async def test_a_call_that_is_cancelled_and_repeated_pays_once(
    scope: WalletScope, carrier: Carrier, at: str
) -> None:
    def cancel(request: httpx.Request) -> None:
        if request.method == "POST":
            setattr(carrier, at, lambda _request: None)
            first.cancel()
            raise asyncio.CancelledError

    first = asyncio.create_task(tools.call_tool(scope, "transfer", ARGUMENTS, None, "1"))
    setattr(carrier, at, cancel)
    with pytest.raises(asyncio.CancelledError):
        await first
    other = await tools.call_tool(scope, "transfer", ARGUMENTS | {"amount": 0.25}, None, "2")
    again = await tools.call_tool(scope, "transfer", ARGUMENTS, None, "3")
    assert (other["isError"], again["isError"], await paid(scope)) == (False, False, 2)
    # It was answered: the same call again is another payment, which this wallet cannot pay.
    assert (await tools.call_tool(scope, "transfer", ARGUMENTS, None, "4"))["isError"]


@promise("mcp-cancelled-call-pays-once")
@pytest.mark.parametrize("status", [400, 401, 403, 409, 429])
async def test_a_refusal_that_says_nothing_of_the_payment_forgets_no_key(
    scope: WalletScope, carrier: Carrier, status: int
) -> None:
    arguments = ARGUMENTS | {"amount": 0.25}
    await tools.call_tool(scope, "transfer", arguments, None, "1")
    scope.held.cancel("1")
    own = {API_HEADER: API_VERSION}
    refusal = httpx.Response(status, json={"error": "not now"}, headers=own)
    trouble = times(1, lambda _request: refusal)
    carrier.before = lambda request: trouble(request) if request.method == "POST" else None
    assert (await tools.call_tool(scope, "transfer", arguments, None, "2"))["isError"]
    again = await tools.call_tool(scope, "transfer", arguments, None, "3")
    assert (again["isError"], await paid(scope)) == (False, 1)


@promise("mcp-cancelled-call-pays-once")
async def test_who_hangs_up_drops_his_own_call_and_no_others_of_the_id(scope: WalletScope) -> None:
    first, second = ARGUMENTS | {"amount": 0.1}, ARGUMENTS | {"amount": 0.2}
    await tools.call_tool(scope, "transfer", first, None, "1")
    assert scope.call is not None
    scope.held.drop("1", scope.call)
    await tools.call_tool(scope, "transfer", second, None, "1")
    for again, payments in ((first, 2), (second, 3)):
        await tools.call_tool(scope, "transfer", again, None, "2")
        assert await paid(scope) == payments


@promise("mcp-cancelled-call-pays-once")
async def test_a_call_that_is_repeated_before_its_answer_has_the_same(scope: WalletScope) -> None:
    arguments = ARGUMENTS | {"amount": 0.25}
    calls = [tools.call_tool(scope, "transfer", arguments, None, str(at)) for at in range(3)]
    assert len({each["content"][0]["text"] for each in await asyncio.gather(*calls)}) == 1
    own = {IDEMPOTENCY_META: "a second one"}
    calls = [tools.call_tool(scope, "transfer", arguments, meta) for meta in (None, own)]
    await asyncio.gather(*calls)
    assert await paid(scope) == 3


@promise("mcp-cancelled-call-pays-once")
async def test_a_cancelled_id_is_that_of_the_newest_call_that_has_it(scope: WalletScope) -> None:
    """Over HTTP each session of a caller may count from 1."""
    first, second = ARGUMENTS | {"amount": 0.1}, ARGUMENTS | {"amount": 0.2}
    for arguments in (first, second):
        await tools.call_tool(scope, "transfer", arguments, None, "1")
    scope.held.cancel("1")
    await tools.call_tool(scope, "transfer", second, None, "1")
    assert await paid(scope) == 2
    await tools.call_tool(scope, "transfer", first, None, "1")
    assert await paid(scope) == 3


async def test_what_is_read_is_read_anew_after_a_cancelled_call(
    scope: WalletScope, carrier: Carrier
) -> None:
    async def keys(request_id: str) -> set[str | None]:
        carrier.requests.clear()
        await tools.call_tool(scope, "check_balance", {}, None, request_id)
        return set(carrier.keys) - {None}

    first = await keys("1")
    scope.held.cancel("1")
    assert first
    assert first.isdisjoint(await keys("2"))


def test_the_calls_of_one_caller_take_no_room_of_anothers() -> None:
    callers = CallsByCaller()
    callers.of_caller("one").begin("1", "call", "key")
    for number in range(2_000):
        callers.of_caller("two").begin(str(number), f"call {number}", "other")
    assert callers.of_caller("one").key("call") == "key"
    assert callers.of_caller("two").key("call") is None
    assert callers.of_caller("two").key("call 0") is None
    assert callers.of_caller("two").key("call 1999") == "other"
