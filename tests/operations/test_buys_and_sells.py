"""Buys and sells by turns: each counter is what left, to the unit, and none is ever negative."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account
from sqlalchemy import func, select
from tests.promises import promise
from tests.support.engine import fast_slots, front_run, put_accounts
from tests.support.programs import takes_tokens_of
from tests.support.swaps import (
    BONK_MAKER,
    BONK_POOL,
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    SwapBench,
    ata,
    open_swaps,
    pay,
    pay_sol,
    swaps,
    whole,
)

from solward.database.tables import attempts, reservations
from solward.support.clock import now_ms
from solward.types.errors import (
    GuardrailBlocked,
    InvalidRequest,
    LedgerRejected,
    LedgerUnavailable,
    TransactionFailed,
)
from solward.types.record import TransactionStatus
from solward.types.venue import Quote
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.ledger import client
from solward.vault.ledger.client import Ledger
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, Actor
from solward.vault.money.reserve import reservation
from solward.vault.store import pockets, spending
from solward.vault.store.attempts import last_landed_slot
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET
from solward_localnet.market import MARKET_PROGRAM, program_account, program_file

__all__ = ["swaps"]

FIRST = SOL
# One in so many meets a market that takes its input and pays nothing when it lands.
ROBBED = 25
THIEF = takes_tokens_of(program=0, authority=1, source=2, thief=6)


async def counters(swaps: SwapBench, scope: str) -> dict[str, int]:
    async with swaps.bench.database.read() as connection:
        least = await connection.scalar(select(func.min(reservations.c.units)))
        used = (await spending.usage(connection, [scope], [USDC], now_ms()))[scope]
    assert least is None or least >= 0
    units = used.units_last_day
    return {asset: units.get(asset, 0) for asset in (SOL_ASSET, USDC, COSTS_ASSET)}


async def upgrade(swaps: SwapBench, file: bytes) -> None:
    await put_accounts(swaps.bench, {MARKET_PROGRAM: program_account(file)})


async def swap(
    swaps: SwapBench, actor: Actor, sold: str, units: int, *, robbed: bool = False
) -> bool:
    """Whether it went through; the market is as it was afterwards."""
    bought, decimals = ("USDC", 9) if sold == "SOL" else ("SOL", 6)
    amount = whole(units, decimals)
    if not robbed:
        record = await swaps.swap(sold, bought, amount, actor=actor)
        return record.status is TransactionStatus.CONFIRMED
    async with front_run(swaps.bench, lambda: upgrade(swaps, THIEF.file())):
        with pytest.raises(TransactionFailed, match="failed on the ledger"):
            await swaps.swap(sold, bought, amount, actor=actor)
    await upgrade(swaps, program_file())
    return False


@pytest.mark.parametrize(
    "count",
    [
        30,
        pytest.param(500, marks=[pytest.mark.more, pytest.mark.timeout(600)]),
        pytest.param(1_000, marks=[pytest.mark.long, pytest.mark.timeout(1_200)]),
    ],
)
async def test_buys_and_sells_by_turns_count_what_left_and_meet_the_limits_exactly(
    tmp_path: Path, count: int
) -> None:
    chance = Random(count)
    planned = [
        ("SOL", chance.randrange(5_000_000, 12_000_000))
        if at % 2 == 0
        else ("USDC", chance.randrange(500_000, 1_200_000))
        for at in range(count)
    ]
    robbed = {at for at in range(count) if at % ROBBED == ROBBED // 2}
    paid = [each for at, each in enumerate(planned) if at not in robbed]
    sol, usdc = (sum(units for sold, units in paid if sold == name) for name in ("SOL", "USDC"))
    # Room for exactly this, and for what is held while the last of each is on its way.
    wallet = ScopeLimits(daily_lamports=FIRST + sol)
    key = ScopeLimits(daily_tokens={USDC: usdc})
    actor = Actor("key:bound", limits=(("key:bound", key),))
    async with open_swaps(tmp_path, sol=50, limits=wallet) as swaps:
        scope = f"wallet:{swaps.bench.wallet.id}"
        await swaps.swap("SOL", "USDC", whole(FIRST, 9), actor=actor)
        want = {SOL_ASSET: FIRST, USDC: 0, COSTS_ASSET: FEE + RENT}
        before = await swaps.lamports()
        for at, (sold, units) in enumerate(planned):
            if await swap(swaps, actor, sold, units, robbed=at in robbed):
                want[SOL_ASSET if sold == "SOL" else USDC] += units
            # The pocket's accounts are closed again in the transaction itself.
            want[COSTS_ASSET] += FEE
            assert await counters(swaps, scope) == want, at
            assert await counters(swaps, "key:bound") == want, at

        assert (want[SOL_ASSET], want[USDC]) == (FIRST + sol, usdc)
        history = await swaps.bench.history()
        gained = sum(
            int(record.details["outputAmount"].scaleb(9))
            for record in history
            if record.status is TransactionStatus.CONFIRMED and record.details["inputToken"] == USDC
        )
        if len(history) < 500:
            assert await swaps.lamports() == before - sol - count * FEE + gained

        # Not one unit more of either.
        for sold, least, rule in (
            ("SOL", 1_000_000, "daily_limit"),
            ("USDC", 100_000, "spending_limit_check"),
        ):
            with pytest.raises(GuardrailBlocked) as caught:
                await swap(swaps, actor, sold, least)
            assert caught.value.rule == rule
        await every_signature_is_bounded(swaps)


async def every_signature_is_bounded(swaps: SwapBench) -> None:
    async with swaps.bench.database.read() as connection:
        wires = (await connection.execute(select(attempts.c.wire))).scalars().all()
    for wire in wires:
        bound = worst_case(VersionedTransaction.from_bytes(bytes(wire)).message, swaps.address)
        assert bound.fee_lamports == FEE
        assert (bound.lamports > 0) != bool(bound.tokens)


@asynccontextmanager
async def restarted(swaps: SwapBench, *, with_the_first: bool = False) -> AsyncIterator[None]:
    """Go on in another process on the same database, which has seen nothing land."""
    first, options = swaps.bench.engine, EngineOptions(Policy(), ScopeLimits())
    if not with_the_first:
        await first.close()
    ledger = Ledger(swaps.bench.wire)
    engine = Engine(ledger, swaps.bench.database, swaps.bench.wallets, options)
    engine.start()
    swaps.bench.engine, swaps.bench.ledger = engine, ledger
    try:
        yield
    finally:
        await engine.close()


@asynccontextmanager
async def lagging(swaps: SwapBench, *, with_blockhash: bool = True) -> AsyncIterator[None]:
    """A node that shows what the wallet's account of the bought token held at first, once two more
    purchases have landed."""
    wire, account = swaps.bench.wire, str(ata(swaps.user, USDC_POOL.mint))
    options = {"commitment": "confirmed", "encoding": "base64"}
    before = await wire.direct("getAccountInfo", [account, options])
    slot = before["context"]["slot"]

    async def late(method: str, params: Sequence[Any]) -> Any:
        if params[-1].get("minContextSlot", 0) > slot:
            raise LedgerRejected(-32016, "Minimum context slot has not been reached")
        answer = await wire.direct(method, params)
        if params[0] == account:
            return before
        if method == "getMultipleAccounts":
            places = [number for number, each in enumerate(params[0]) if each == account]
            for place in places:
                answer["value"][place] = before["value"]
        if method == "getLatestBlockhash" and with_blockhash:
            answer["context"]["slot"] = slot
        return answer

    for _ in range(2):
        await swaps.bench.localnet.advance_slots(2)
        await swaps.swap("SOL", "USDC", 1)
    swaps.bench.engine._assessor.blockhashes.forget()
    late_methods = ("getAccountInfo", "getMultipleAccounts", "simulateTransaction")
    for method in (*late_methods, "getLatestBlockhash"):
        wire.faults[method] = late
    yield
    wire.faults.clear()


async def no_purchase_is_sent(swaps: SwapBench) -> None:
    fast_slots(swaps.bench.ledger)
    held, sent = await swaps.units(USDC_POOL.mint), await swaps.sent()
    with pytest.raises(
        TransactionFailed, match=r"has reached the newest landed slot.*nothing was sent"
    ):
        await swaps.swap("SOL", "USDC", 1)
    assert (await swaps.units(USDC_POOL.mint), await swaps.sent()) == (held, sent)


@promise("swap-minimum-asserted")
@pytest.mark.parametrize("process", ["the same", "another", "the next"])
async def test_no_purchase_is_based_on_what_was_there_before_another_one(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    """A node that lags shows what the account held before the last purchase. On that a market that
    takes everything would have brought enough."""
    monkeypatch.setattr(client, "_BEHIND_S", 0.05)
    await swaps.swap("SOL", "USDC", 1)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(lagging(swaps))
        if process != "the same":
            with_the_first = process == "another"
            await stack.enter_async_context(restarted(swaps, with_the_first=with_the_first))
        await no_purchase_is_sent(swaps)


@promise("swap-minimum-asserted")
async def test_what_landed_long_ago_is_older_than_the_blockhash(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot is not read any more; a node that has the blockhash has it too."""
    monkeypatch.setattr(client, "_BEHIND_S", 0.05)
    monkeypatch.setattr(reservation, "_LANDED_LATELY_MS", 0)
    await swaps.swap("SOL", "USDC", 1)
    async with lagging(swaps, with_blockhash=False), restarted(swaps):
        await no_purchase_is_sent(swaps)


@promise("swap-minimum-asserted")
async def test_a_slot_that_was_a_lie_stops_no_purchase_for_ever(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_BEHIND_S", 0.05)

    async def lies(method: str, params: Sequence[Any]) -> Any:
        answer = await swaps.bench.wire.direct(method, params)
        for status in filter(None, answer["value"]):
            status["slot"] = 2**60
        return answer

    swaps.bench.wire.faults["getSignatureStatuses"] = lies
    await swaps.swap("SOL", "USDC", 1)
    swaps.bench.wire.faults.clear()
    await no_purchase_is_sent(swaps)
    async with restarted(swaps):
        await no_purchase_is_sent(swaps)
        monkeypatch.setattr(reservation, "_LANDED_LATELY_MS", 0)
        assert (await swaps.swap("SOL", "USDC", 1)).status is TransactionStatus.CONFIRMED


async def test_a_purchase_in_steps_is_known_by_the_slot_in_which_it_came_home(
    swaps: SwapBench,
) -> None:
    swaps.answer(lambda quote, user: swaps.honest(quote, user))
    await swaps.swap("SOL", "USDC", 1)
    slot = await swaps.bench.ledger.slot()
    async with swaps.bench.database.read() as connection:
        found = await connection.execute(select(attempts.c.step, attempts.c.landed_slot))
        slots = {row.step: row.landed_slot for row in found}
        last = await last_landed_slot(connection, swaps.bench.wallet.id, 0)
    assert slots.keys() == {"fund", "call", "sweep"}
    assert 0 < slots["fund"] <= slots["call"] <= slots["sweep"] == last <= slot


@promise("swap-minimum-asserted", "purchases-follow-each-other")
async def test_what_a_purchase_in_steps_brings_home_does_not_count_for_another(
    swaps: SwapBench,
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    swaps.answer(lambda quote, user: swaps.honest(quote, user))
    bench, sent = swaps.bench, list[str]()
    sweeping, goes_home = asyncio.Event(), asyncio.Event()

    async def in_order(method: str, params: Sequence[Any]) -> Any:
        if params[0] not in sent:
            sent.append(params[0])
        number = sent.index(params[0])
        if number == 2:
            sweeping.set()
            await goes_home.wait()
        if number == 3 and not goes_home.is_set():
            # The market takes everything of the other one, and the sweep lands before it.
            await upgrade(swaps, THIEF.file())
            goes_home.set()
            await in_steps
        return await bench.wire.direct(method, params)

    bench.wire.faults["sendTransaction"] = in_order
    in_steps = asyncio.create_task(swaps.swap("SOL", "USDC", 1))
    await sweeping.wait()
    swaps.plugin.build = None
    with pytest.raises(TransactionFailed, match=r"Another swap into .* has not ended yet"):
        await swaps.swap("SOL", "USDC", 1)
    goes_home.set()
    assert (await in_steps).status is TransactionStatus.CONFIRMED
    assert (await swaps.swap("SOL", "USDC", 1)).status is TransactionStatus.CONFIRMED


@promise("purchases-follow-each-other")
async def test_what_a_pocket_brings_home_of_any_mint_counts_for_no_swap(swaps: SwapBench) -> None:
    """A purchase in steps leaves another token in its pocket than it buys, which its sweep brings
    home; meanwhile the market takes all that a swap into that token pays."""
    await swaps.swap("SOL", "USDC", 1)
    bench, sent = swaps.bench, list[str]()

    def leaves_usdc(quote: Quote, user: Pubkey) -> list[Instruction]:
        opened = [
            create_idempotent_associated_token_account(user, user, mint)
            for mint in (USDC_POOL.mint, BONK_POOL.mint)
        ]
        bought = pay(BONK_POOL.mint, 5, BONK_MAKER.pubkey(), user, quote.out_amount)
        left = pay(USDC_POOL.mint, 6, MAKER.pubkey(), user, 310_000_000)
        return [*opened, pay_sol(user, MAKER.pubkey(), quote.in_amount), bought, left]

    swaps.answer(leaves_usdc, BONK_MAKER)
    sweeping, goes_home = asyncio.Event(), asyncio.Event()

    async def in_order(method: str, params: Sequence[Any]) -> Any:
        if params[0] not in sent:
            sent.append(params[0])
        if sent.index(params[0]) == 2:
            sweeping.set()
            await goes_home.wait()
        return await bench.wire.direct(method, params)

    bench.wire.faults["sendTransaction"] = in_order
    in_steps = asyncio.create_task(swaps.swap("SOL", "BONK", 3))
    await sweeping.wait()
    swaps.plugin.build = None
    with pytest.raises(TransactionFailed, match="would count for this swap"):
        await swaps.swap("SOL", "USDC", 2)
    goes_home.set()
    assert (await in_steps).status is TransactionStatus.CONFIRMED
    assert (await swaps.swap("SOL", "USDC", 2)).status is TransactionStatus.CONFIRMED


@promise("purchases-follow-each-other")
async def test_no_pocket_is_filled_or_emptied_while_a_swap_asserts_a_sum(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    bench, told = swaps.bench, list[str]()
    swaps.answer(lambda quote, user: swaps.honest(quote, user))

    async def no_node(*_: object) -> None:
        raise LedgerUnavailable("The nodes rest")

    with monkeypatch.context() as patched:
        patched.setattr(bench.engine._runs, "_sweep", no_node)
        await swaps.swap("SOL", "USDC", 1)
    async with bench.database.read() as connection:
        (left,) = await pockets.of_wallet(connection, bench.wallet.id, open_only=True)

    async def meanwhile(method: str, params: Sequence[Any]) -> Any:
        bench.wire.faults.clear()
        with pytest.raises(InvalidRequest, match="a swap of the wallet has not ended"):
            await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, left.address)
        swaps.answer(lambda quote, user: swaps.honest(quote, user))
        with pytest.raises(TransactionFailed, match="A swap of the wallet has not ended"):
            await swaps.swap("USDC", "SOL", 1)
        told.append("both")
        return await bench.wire.direct(method, params)

    swaps.plugin.build = None
    bench.wire.faults["sendTransaction"] = meanwhile
    assert (await swaps.swap("SOL", "USDC", 1)).status is TransactionStatus.CONFIRMED
    assert told == ["both"]
    await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, left.address)


@promise("swap-minimum-asserted")
async def test_an_answer_that_says_it_is_older_is_none(swaps: SwapBench) -> None:
    """A proxy that does not know `minContextSlot` says honestly how old its answer is."""
    wire, account = swaps.bench.wire, str(ata(swaps.user, USDC_POOL.mint))
    await swaps.swap("SOL", "USDC", 1)
    await swaps.bench.localnet.advance_slots(2)
    options = {"commitment": "confirmed", "encoding": "base64"}
    old = await wire.direct("getAccountInfo", [account, options])

    async def cached(_method: str, _params: Sequence[Any]) -> Any:
        return old

    wire.faults["getAccountInfo"] = cached
    ledger = swaps.bench.ledger
    slot = old["context"]["slot"]
    assert await ledger.account_from(account, slot) is not None
    with pytest.raises(LedgerUnavailable, match="has reached the newest landed slot"):
        await ledger.account_from(account, slot + 1)
