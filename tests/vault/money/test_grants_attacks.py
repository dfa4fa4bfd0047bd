"""Attacks on grants: by many requests at once, by clocks, by laundering, by names."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from sqlalchemy import insert
from tests.promises import promise
from tests.support.database import WALLET_ROW, set_database_clock
from tests.support.engine import UNLIMITED, Bench, open_bench
from tests.support.grants import SaidPrices, grant, limit
from tests.support.swaps import MAKER, SOL, USDC, USDC_POOL, SwapBench, pay, pay_sol
from tests.support.tokens import TokenBench
from tests.vault.money.test_grants_engine import (
    AGENT,
    KEY,
    UNITS,
    actor,
    counted,
    refused,
    under,
)
from tests.vault.money.test_wrong_clocks import TimeOfDay, time_of_day

from solward.context import PocketRequest
from solward.database.database import Database
from solward.database.tables import wallets
from solward.operations.policies.changes import replace_policy, replace_set
from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import COSTS, Intent, Line, Operation, Outflow, TransactionEffects
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Pocket
from solward.vault.grants.model import ANY_ASSET, Hours
from solward.vault.guardrails.rules import Policy
from solward.vault.money.judge.grant_case import find_outgoings, is_within
from solward.vault.money.judge.granting import GrantJudge, Question
from solward.vault.money.judge.prices import Prices
from solward.vault.money.request import ADMIN, Actor, PocketUse
from solward.vault.money.reserve.reservation import Reserver

__all__ = ["time_of_day"]

MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


# Reservations alone: the bytes are what a test says they are.


def paying(units: int, asset: str = "SOL", to: str = MINT) -> TransactionEffects:
    line = Line(Operation.TRANSFER, asset, units, to, to, 9 if asset == "SOL" else 6)
    sol, tokens = (units, {}) if asset == "SOL" else (0, {asset: units})
    return TransactionEffects(
        lamports_out=sol,
        fee_lamports=5_000,
        tokens_out=tokens,
        outflow=Outflow(sol, 5_000, 0, tokens, (line,)),
    )


@dataclass
class Desk:
    """Reserves for wallets of a database, as an engine would."""

    database: Database
    reserver: Reserver
    made: int = 0

    async def reserve(
        self, effects: TransactionEffects, who: Actor, wallet: str = "w"
    ) -> TransactionRecord:
        self.made += 1
        record = TransactionRecord(
            f"{id(self)}-{self.made}", wallet, "transfer", TransactionStatus.PENDING, {}, (),
            created_ms=0, principal=who.principal,
        )  # fmt: skip
        intent = Intent(
            "transfer", MINT, lamports_out=effects.lamports_out, tokens_out=effects.tokens_out
        )
        return (await self.reserver.reserve(record, Question(wallet, who, intent, effects))).record

    async def is_allowed(self, effects: TransactionEffects, who: Actor, wallet: str = "w") -> bool:
        return (await self.reserve(effects, who, wallet)).status is TransactionStatus.PENDING


async def open_desk(database: Database) -> Desk:
    async with database.write() as connection:
        for name in ("w", "v"):
            row = WALLET_ROW | {"id": name, "public_key": name}
            await connection.execute(insert(wallets), [row])
    return Desk(database, Reserver(database, Policy(), UNLIMITED))


@pytest.fixture
async def desk(database: Database) -> Desk:
    return await open_desk(database)


@promise("grants-reserved-at-once", "concurrent-grants-hold")
async def test_fifty_requests_at_once_take_what_is_granted_and_no_more(desk: Desk) -> None:
    await replace_set(desk.database, KEY, [grant(KEY, SOL=limit("SOL", 20))])
    asked = [desk.is_allowed(paying(1), actor(KEY), "wv"[at % 2]) for at in range(50)]
    assert sum(await asyncio.gather(*asked)) == 20


@promise("grants-reserved-at-once", "concurrent-grants-hold")
@pytest.mark.more
@pytest.mark.parametrize("who", [KEY, "skill:pay", "site:a.example"])
async def test_two_processes_take_what_is_granted_over_both_wallets_and_no_more(
    postgres_url: str, tmp_path: Path, who: str
) -> None:
    databases = [await Database.open(postgres_url, tmp_path) for _ in range(2)]
    first = await open_desk(databases[0])
    desks = [first, Desk(databases[1], Reserver(databases[1], Policy(), UNLIMITED))]
    asker = actor(KEY) if who == KEY else replace(ADMIN, via=(who,))
    try:
        await replace_set(first.database, who, [grant(who, SOL=limit("SOL", 20))])
        asked = [desks[at % 2].is_allowed(paying(1), asker, "wv"[at // 2 % 2]) for at in range(50)]
        assert sum(await asyncio.gather(*asked)) == 20
        # What one process changes the other judges by.
        await replace_set(databases[0], who, [])
        assert not await desks[1].is_allowed(paying(1), asker)
    finally:
        for each in databases:
            await each.close()


@promise("clock-empties-no-window")
@pytest.mark.parametrize("seed", range(3))
async def test_no_window_is_ever_exceeded_whatever_the_times(
    desk: Desk, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what was let through, summed here: no sum of the database is trusted."""
    chance = random.Random(seed)
    now = 1_800_000_000_000
    set_database_clock(monkeypatch, lambda at=now: at, f"{now}::bigint")
    windows = {5 * MINUTE_MS: 60, 2 * HOUR_MS: 150, DAY_MS: 400}
    agents, key = grant(AGENT, SOL=limit("SOL", windows)), grant(KEY, SOL=limit("SOL", 300))
    await replace_policy(desk.database, {AGENT: [agents], KEY: [key]}, {})
    paid: list[tuple[int, str, int]] = []
    for _ in range(150):
        now += chance.choice((0, 1, MINUTE_MS, 4 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS))
        set_database_clock(monkeypatch, lambda at=now: at, f"{now}::bigint")
        who, units = chance.choice((AGENT, KEY)), chance.randrange(1, 90)
        if await desk.is_allowed(paying(units), actor(who)):
            paid.append((now, who, units))
    assert len(paid) > 30
    for who, most in ((AGENT, windows), (KEY, {DAY_MS: 300})):
        mine = [(at, units) for at, whose, units in paid if whose == who]
        for length, units in most.items():
            sums = [sum(n for at, n in mine if end - length < at <= end) for end, _ in mine]
            assert max(sums) <= units
            # Not by refusing everything.
            assert max(sums) > units // 2


@promise("grants-reserved-at-once")
async def test_splitting_over_grants_recipients_and_wallets_takes_no_more_than_their_sum(
    desk: Desk,
) -> None:
    others = [str(Keypair().pubkey()) for _ in range(4)]
    grants = [
        grant(KEY, to=(others[0],), SOL=limit("SOL", 10)),
        grant(KEY, wallet="w", SOL=limit("SOL", 10)),
        grant(KEY, SOL=limit("SOL", 10)),
    ]
    await replace_set(desk.database, KEY, grants)
    taken = 0
    for at in range(200):
        units = 1 + at % 7
        effects = paying(units, to=others[at % 4])
        taken += units * await desk.is_allowed(effects, actor(KEY), "wv"[at // 3 % 2])
    assert 20 < taken <= 30


async def test_decimals_that_a_node_lied_about_are_refused(desk: Desk) -> None:
    await replace_set(desk.database, AGENT, [grant(AGENT, **{MINT: limit(MINT, 10, decimals=9)})])
    record = await desk.reserve(paying(1, MINT), actor())
    assert record.guardrails_applied[-1] == "grants"
    assert "decimals" in str(record.error)


async def test_dust_counts_at_least_a_micro_dollar_each(database: Database) -> None:
    said = SaidPrices(usd={MINT: ("0.000001", 6)})
    granting = GrantJudge(Prices([said]))
    first = await open_desk(database)
    desk = replace(first, reserver=Reserver(database, Policy(), UNLIMITED, granting=granting))
    limits: Mapping[str, Any] = {ANY_ASSET: limit(ANY_ASSET, 5)}
    made = grant(AGENT, **limits)
    # The first transaction after a change of grants finds no price that it had asked for.
    await replace_set(database, AGENT, [made])
    allowed = [await desk.is_allowed(paying(1, MINT), actor()) for _ in range(8)]
    assert allowed == [True] * 5 + [False] * 3
    assert said.asked == [frozenset({MINT})]


async def test_a_price_that_is_missing_refuses(database: Database) -> None:
    desk = await open_desk(database)
    limits: Mapping[str, Any] = {ANY_ASSET: limit(ANY_ASSET, 5)}
    await replace_set(database, AGENT, [grant(AGENT, **limits)])
    record = await desk.reserve(paying(1, MINT), actor())
    assert "no price source" in str(record.error)


async def test_counters_survive_a_restart(database: Database) -> None:
    desk = await open_desk(database)
    await replace_set(database, AGENT, [grant(AGENT, SOL=limit("SOL", 20))])
    assert await desk.is_allowed(paying(15), actor())
    again = Desk(database, Reserver(database, Policy(), UNLIMITED))
    assert not await again.is_allowed(paying(6), actor())
    assert await again.is_allowed(paying(5), actor())


def test_rebuilt_bytes_may_not_take_more_than_was_judged() -> None:
    [line] = paying(5).outflow.lines  # type: ignore[union-attr]
    assert is_within([line], [line])
    assert is_within([replace(line, units=4)], [line])
    assert is_within([], [line])
    assert not is_within([replace(line, units=6)], [line])
    assert not is_within([line, replace(line, units=1)], [line])
    assert not is_within([replace(line, account=AGENT)], [line])
    assert not is_within([replace(line, operation=Operation.BURN, units=1)], [line])


# Clocks.


@promise("clock-empties-no-window")
async def test_a_clock_that_is_set_back_or_a_day_ahead_empties_no_window(
    bench: Bench, time_of_day: TimeOfDay
) -> None:
    await under(bench, grant(AGENT, SOL=limit("SOL", SOL)))
    await bench.transfer(1, actor())
    for ms in (-DAY_MS, DAY_MS - HOUR_MS, -HOUR_MS):
        time_of_day.set_by(ms)
        with pytest.raises(GuardrailBlocked) as found:
            await bench.transfer(Decimal("0.1"), actor())
        assert found.value.rule == "grants"


async def test_hours_must_hold_by_every_clock(bench: Bench, time_of_day: TimeOfDay) -> None:
    async with bench.database.read() as connection:
        now = (await bench.database.moment(connection)).database_ms
    # From two hours from now on, for an hour.
    minute = (now + 2 * HOUR_MS) // MINUTE_MS % 1_440
    hours = Hours(minute, (minute + 60) % 1_440)
    await under(bench, grant(AGENT, hours=hours, SOL=limit("SOL", SOL)))
    await bench.transfer(Decimal("0.1"))
    await refused(bench.transfer(Decimal("0.1"), actor()), "UTC")
    # A database's clock alone opens nothing.
    time_of_day.set_by(2 * HOUR_MS + 30 * MINUTE_MS)
    await refused(bench.transfer(Decimal("0.1"), actor()), "UTC")


# Laundering.


@promise("grants-reserved-at-once", "inflow-restores-nothing")
async def test_funding_returning_and_wrapping_launder_no_counter(tokens: TokenBench) -> None:
    bench = tokens.bench
    made = grant(AGENT, SOL=limit("SOL", SOL))
    await under(bench, made)
    other = await bench.wallets.create("other")
    await bench.transfer(Decimal("0.6"), actor(), to=other.address)
    back = replace(bench, wallet=other)
    await back.engine.execute(other.id, ADMIN, back.draft(Decimal("0.5"), tokens.address))
    await refused(bench.transfer(Decimal("0.5"), actor()))
    wrap = {"amount": Decimal("0.4")}
    await tokens.operations.perform("wrap_sol", tokens.wallet, actor(), wrap)
    await tokens.operations.perform("unwrap_sol", tokens.wallet, ADMIN, {})
    await refused(bench.transfer(Decimal("0.001"), actor()))
    assert await counted(bench, made, "SOL") == SOL


async def test_rent_is_farmed_up_to_the_costs_of_the_grant(tokens: TokenBench) -> None:
    made = grant(AGENT, [Operation.LAUNCH, Operation.TRANSFER], costs=25_000_000)
    await under(tokens.bench, made)
    before = await tokens.lamports()
    launch = {"name": "Mine", "symbol": "MINE", "initialSupply": Decimal(1)}

    async def twelve() -> None:
        for _ in range(12):
            await tokens.operations.perform("launch_token", tokens.wallet, actor(), launch)

    with pytest.raises(GuardrailBlocked) as found:
        await twelve()
    assert found.value.rule == "grants"
    assert len(await tokens.bench.history()) > 2
    assert before - await tokens.lamports() <= 25_000_000
    assert await counted(tokens.bench, made, COSTS) <= 25_000_000


# Swaps and pockets.


@promise("swap-by-service-plan")
async def test_a_swap_of_the_services_own_is_a_swap_and_a_plugins_pocket_a_transfer(
    swaps: SwapBench,
) -> None:
    bench = swaps.bench
    made = grant(AGENT, [Operation.SWAP], SOL=limit("SOL", SOL), **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, made)
    await swaps.swap("SOL", "USDC", Decimal("0.5"), actor=actor())
    assert await counted(bench, made, "SOL") == SOL // 2
    await swaps.swap("USDC", "SOL", Decimal(1), actor=actor())
    assert await counted(bench, made, USDC) == UNITS
    await refused(swaps.swap("SOL", "USDC", Decimal("0.51"), actor=actor()), "24 hours")

    async def steal(address: str) -> Sequence[Instruction]:
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1)]

    @dataclass(frozen=True, slots=True)
    class Claims(PocketRequest):
        """Says that it is the venue's."""

        venue: str = "jupiter"
        type: str = "swap"

    for request in (
        PocketRequest(build=steal, lamports=10_000_000),
        Claims(build=steal, lamports=10_000_000, details={"outputToken": USDC, "venue": "x"}),
    ):
        call = bench.operations().use_pocket(bench.wallet.id, actor(), request)
        await refused(call, "no grant to transfer SOL")


@promise("swap-by-service-plan")
async def test_a_swap_in_steps_lends_its_pocket_fees_that_count_as_costs(swaps: SwapBench) -> None:
    bench = swaps.bench
    await swaps.swap("SOL", "USDC", Decimal(1))
    made = grant(AGENT, [Operation.SWAP], **{USDC: limit(USDC, 10 * UNITS)})
    await under(bench, made)
    swaps.answer(
        lambda quote, user: [
            pay(USDC_POOL.mint, 6, user, MAKER.pubkey(), quote.in_amount),
            pay_sol(MAKER.pubkey(), user, quote.out_amount),
        ]
    )
    await swaps.swap("USDC", "SOL", Decimal(1), actor=actor())
    assert await counted(bench, made, USDC) == UNITS
    assert await counted(bench, made, "SOL") == 0
    assert 0 < await counted(bench, made, COSTS) < 10_000_000


@promise("no-grants-no-tokens")
async def test_on_mainnet_a_principal_without_grants_buys_what_is_listed(
    tmp_path: Path,
) -> None:
    line = Line(Operation.TRANSFER, MINT, 5, "pocket", None, 6, None)
    effects = replace(paying(0), outflow=Outflow(0, 5_000, 0, {MINT: 5}, (line,)))

    async with open_bench(tmp_path) as bench:
        wallet, granting = bench.wallet.id, GrantJudge(listed=frozenset({USDC}))
        pocket = await _pocket(bench)
        reserver = Reserver(bench.database, Policy(), UNLIMITED, granting=granting)
        line = replace(line, account=pocket.address)
        effects = replace(effects, outflow=replace(effects.outflow, lines=(line,)))
        for into, rule in ((USDC, None), (MINT, "grants"), (None, "grants")):
            intent = Intent("swap", bench.wallet.address, tokens_out={MINT: 5})
            intent = replace(intent, details={} if into is None else {"outputToken": into})
            use = PocketUse(pocket, venue="market")
            verdict = await reserver.trial(Question(wallet, actor(), intent, effects, use))
            assert verdict.rule == rule, into
        # The same into a plugin's own pocket is no swap at all.
        question = Question(wallet, actor(), intent, effects, PocketUse(pocket))
        verdict = await reserver.trial(question)
        assert (verdict.rule, "transfer" in str(verdict.reason)) == ("grants", True)


async def _pocket(bench: Bench) -> Any:
    async with bench.wallets.new_pocket(bench.wallet.id) as pocket:
        return pocket


def test_only_what_goes_into_the_pocket_is_sold() -> None:
    other, pocket = str(Keypair().pubkey()), str(Keypair().pubkey())
    lines = (
        Line(Operation.TRANSFER, "SOL", 7, pocket, None, 9),
        Line(Operation.TRANSFER, "SOL", 5, other, None, 9),
    )
    use = PocketUse(Pocket("w", 1, pocket), venue="market")
    intent = Intent("swap", other, lamports_out=12, slippage_bps=50)
    found = find_outgoings(Outflow(12, 5_000, 0, {}, lines), intent, use)
    assert [(line.operation, line.account) for line in found.lines] == [
        (Operation.SWAP, "venue:market"),
        (Operation.TRANSFER, other),
    ]
