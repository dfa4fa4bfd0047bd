"""A context is of one wallet, cannot be changed, shares nothing, and ends with its call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from solders.pubkey import Pubkey
from solders.system_program import TransferParams
from solders.system_program import transfer as pay
from tests.promises import promise
from tests.support.engine import Bench, open_bench

from solward import Effects, InvalidRequest, SkillContext, SkillError, SkillSpec, hookimpl
from solward.context import OperationRequest, WalletView
from solward.operations.skill_runs import SkillCalls
from solward.plugins import interceptors
from solward.testing import TestWallet
from solward.testing.stand import Stand
from solward.types.errors import SkillTimeout, TransactionError
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor

STRANGER = "11111111111111111111111111111112"
SOL = 10**9
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}

Body = Callable[[SkillContext], Awaitable[str]]


class Custom:
    """A skill that runs what the test gives it."""

    def __init__(self, body: Body, timeout_s: float = 60) -> None:
        self._body, self._timeout_s = body, timeout_s

    @hookimpl
    def skill_spec(self) -> SkillSpec:
        return SkillSpec("tested", "Tests.", CLOSED, Effects.SPEND, self._timeout_s)

    @hookimpl
    async def skill_execute(self, context: SkillContext) -> str:
        return await self._body(context)


def ended() -> Any:
    return pytest.raises(SkillError, match="The skill's call has ended")


@promise("context-is-of-one-wallet")
async def test_its_attributes_cannot_be_assigned(
    wallet: TestWallet, subtests: pytest.Subtests
) -> None:
    for name in ("wallet", "agent", "ledger", "tokens", "http", "log"):
        with subtests.test(name=name):
            context = wallet.context("transfer")
            with pytest.raises(AttributeError):
                setattr(context, name, getattr(context, name))
            with pytest.raises(AttributeError):
                delattr(context, name)


@promise("context-is-of-one-wallet")
async def test_its_wallet_is_the_services_whatever_the_context_says(
    solward_stand: Stand, wallet: TestWallet
) -> None:
    rich = await solward_stand.wallet("rich")
    context: Any = wallet.context("transfer")
    # Past the interface, as in-process code can: the service does not read it back.
    context._wallet = WalletView(rich.id, rich.name, rich.address)
    theft = pay(
        TransferParams(
            from_pubkey=Pubkey.from_string(rich.address),
            to_pubkey=Pubkey.from_string(STRANGER),
            lamports=SOL,
        )
    )
    with pytest.raises((InvalidRequest, TransactionError)):
        await context.transact(instructions=[theft], lamports_out=SOL, destinations=[STRANGER])
    assert await rich.lamports() == 10 * SOL
    record = await context.transfer(to=STRANGER, amount=1)
    assert record.wallet_id == wallet.id
    assert await rich.lamports() == 10 * SOL


@promise("context-ends-with-skill")
@pytest.mark.parametrize("end", ["returns", "raises", "times out"])
async def test_after_its_call_it_can_do_nothing(
    wallet: TestWallet, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "GRACE_S", 0.1)
    kept: list[Any] = []

    async def keeps(context: SkillContext) -> str:
        kept.extend((context, context.ledger, context.http))
        if end == "raises":
            raise SkillError("no", "no")
        if end == "times out":
            await asyncio.Event().wait()
        return "done"

    with contextlib.suppress(SkillError):
        await wallet.run(Custom(keeps, timeout_s=0.1 if end == "times out" else 60))
    context, ledger, http = kept
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: context.transfer(to=STRANGER, amount=1),
        lambda: context.airdrop(amount=1),
        lambda: context.quote(input_token="SOL", output_token="USDC", amount=1),
        lambda: context.transact(instructions=[]),
        lambda: context.pay(url="https://api.example.com/", max="1 USDC"),
        context.balances,
        context.stakes,
        ledger.slot,
        lambda: ledger.balance(STRANGER),
        lambda: ledger.accounts([STRANGER]),
        lambda: http.get("http://127.0.0.1:9/"),
    ]
    for call in calls:
        with ended():
            await call()
    with ended():
        _ = context.http
    assert http.is_closed
    assert await wallet.records() == []


@promise("context-ends-with-skill")
async def test_a_task_that_is_left_behind_pays_nothing(wallet: TestWallet) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def leaves(context: SkillContext) -> str:
        # They run as soon as the skill has returned, before anything that waits for it.
        for work in (context.transfer(to=STRANGER, amount=1), context.ledger.slot()):
            tasks.append(asyncio.create_task(work))
        return "nothing to see"

    assert await wallet.run(Custom(leaves)) == "nothing to see"
    for task in tasks:
        with ended():
            await task
    assert await wallet.records() == []


PAYMENT = {"to": STRANGER, "amount": 1}


@promise("context-ends-with-skill")
async def test_one_that_ignores_its_timeout_pays_nothing(
    wallet: TestWallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "GRACE_S", 5)
    raised: list[BaseException] = []

    async def ignores(context: SkillContext) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await context.transfer(to=STRANGER, amount=1)
            except SkillError as error:
                raised.append(error)
        return "done"

    with pytest.raises(SkillTimeout):
        await wallet.run(Custom(ignores, timeout_s=0.05))
    assert [str(error)[:28] for error in raised] == ["The skill's call has ended, "]
    assert await wallet.records() == []


def spending(bench: Bench, actor: Actor = ADMIN) -> SkillCalls:
    return SkillCalls(bench.operations(), None, bench.wallet.id, actor, Effects.SPEND)


@promise("context-ends-with-skill")
async def test_a_payment_in_preparation_ends_with_the_call(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        reached, go = asyncio.Event(), asyncio.Event()

        async def simulating(_method: str, _params: Any) -> None:
            reached.set()
            await go.wait()

        bench.wire.faults["simulateTransaction"] = simulating
        calls = spending(bench)
        paying = asyncio.create_task(calls.money(OperationRequest("transfer", PAYMENT), 1))
        await reached.wait()
        calls.lifetime.end()
        go.set()
        with ended():
            await paying
        assert await bench.history() == []
        assert await bench.reserved_units() == 0


@promise("parallel-calls-numbered")
async def test_two_money_calls_at_once_are_each_counted_and_numbered(tmp_path: Path) -> None:
    limits = ScopeLimits(daily_lamports=3 * SOL // 2)
    async with open_bench(tmp_path, limits=limits) as bench:

        async def run() -> list[Any]:
            calls = spending(bench, Actor("agent:a", action_key="a:1:tested"))
            wanted = [PAYMENT | {"amount": amount} for amount in (1, Decimal("0.5"), 1)]
            return await asyncio.gather(
                *(
                    calls.money(OperationRequest("transfer", params), at)
                    for at, params in enumerate(wanted, 1)
                ),
                return_exceptions=True,
            )

        first = await run()
        records = {record.id: record for record in await bench.history()}
        assert len(records) == 3
        refused = [each for each in first if isinstance(each, TransactionError)]
        paid = [each.details["amount"] for each in first if not isinstance(each, Exception)]
        assert ["daily_limit" in str(error) for error in refused] == [True]
        assert await bench.reserved_units() == sum(paid) * SOL == limits.daily_lamports
        # The same run again makes no further payment: each call finds its own record.
        again = await run()
        assert [str(each) for each in again if isinstance(each, Exception)] == [
            str(each) for each in refused
        ]
        assert {record.id for record in await bench.history()} == set(records)


@promise("parallel-calls-numbered")
async def test_a_context_numbers_calls_in_their_order(wallet: TestWallet) -> None:
    seen: list[int] = []

    async def both(context: SkillContext) -> str:
        calls: Any = context._calls
        money = type(calls).money

        async def noted(self: Any, asked: Any, ordinal: int, *given: Any) -> Any:
            seen.append(ordinal)
            return await money(self, asked, ordinal, *given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(calls), "money", noted)
            await asyncio.gather(
                context.transfer(to=STRANGER, amount=1), context.transfer(to=STRANGER, amount=1)
            )
        return "done"

    await wallet.run(Custom(both))
    assert seen == [1, 2]
    assert len(await wallet.records()) == 2


@promise("client-per-call")
async def test_each_call_has_an_http_client_of_its_own(wallet: TestWallet) -> None:
    seen: list[str] = []

    async def spy(request: httpx.Request) -> None:
        seen.append(str(request.url))

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="hello", headers={"Set-Cookie": "session=secret"})

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/"))

        async def spies(context: SkillContext) -> str:
            context.http.event_hooks["request"].append(spy)
            context.http.headers["X-Spy"] = "1"
            assert context.http is context.http
            return (await context.http.get(url)).text

        async def other(context: SkillContext) -> str:
            response = await context.http.get(url)
            assert "X-Spy" not in response.request.headers
            assert "Cookie" not in response.request.headers
            assert context.http.timeout == httpx.Timeout(15.0)
            return response.text

        assert await wallet.run(Custom(spies)) == "hello"
        assert await wallet.run(Custom(other)) == "hello"
    assert seen == [url]


@promise("client-per-call")
async def test_a_client_that_does_not_close_holds_nobody_up(
    wallet: TestWallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "GRACE_S", 0.05)

    class Stuck(httpx.AsyncBaseTransport):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    async def sticks(context: SkillContext) -> str:
        context.http._transport = Stuck()
        return "done"

    async with asyncio.timeout(10):
        assert await wallet.run(Custom(sticks)) == "done"
