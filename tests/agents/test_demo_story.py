"""The demo's first minutes tell a story, and its days stay within the default limits."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.clock import until
from tests.support.localnet import rent

from solward.database.tables import reservations, transactions
from solward.resources.agents import NewAgent
from solward.resources.declare import declared_fields
from solward.resources.fields import Whole
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.protocol import MOST_RENT_PER_BYTE, rent_of
from solward.types.record import HoldState, TransactionRecord, TransactionStatus
from solward.vault.store.spending import COSTS_ASSET
from solward_cli.up import demo, screen
from solward_plugins.providers import rules

pytestmark = pytest.mark.more

STORY = ["airdrop", "token_launch", "swap", "payment", "stake", "wrap_sol"]
ROUTINE = ["swap", "transfer"]
# Lamports of fees and rent: each step of the story, then of the routine.
STORY_COSTS = {
    # A mint with its metadata, and an account of it.
    "token_launch": rent(332) + rent(170) + 5_000,
    "swap": rent(165) + 10_000,
    # At most: what its compute units cost is read from a simulation.
    "payment": 5_100,
    "stake": 5_000,
    "wrap_sol": rent(165) + 5_000,
}
ROUTINE_COSTS = {"swap": 10_000, "transfer": 5_000}
# What a swap reserves until it has ended, of the most that a byte may cost: its pocket's account
# gives the rent back.
SWAP_HOLDS = rent_of(165, MOST_RENT_PER_BYTE) + 10_000
# What a visitor can pay from the demo's wallet within the same limit: a token launched, and more.
VISITOR_COSTS = 10_000_000
SPENT_BY = ("swap", "transfer", "stake_sol", "wrap_sol")
INTERVAL_MS = 100
CYCLES_A_MINUTE = 60_000 // demo.LOOP_INTERVAL_MS
REFUSED, HELD = Decimal(50), Decimal("0.25")
PAGES = "http://127.0.0.1:3000"


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter than any agent may have, because a story takes eleven cycles."""
    fields = declared_fields(NewAgent)
    interval = fields["loop_interval_ms"]
    assert isinstance(interval, Whole)
    assert isinstance(fields, dict)
    monkeypatch.setitem(fields, "loop_interval_ms", replace(interval, least=INTERVAL_MS))
    monkeypatch.setattr(demo, "LOOP_INTERVAL_MS", INTERVAL_MS)


@contextlib.asynccontextmanager
async def first_minute(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, sells: bool = True, **given: Any
) -> AsyncIterator[tuple[Solward, demo.DemoSeed, list[str]]]:
    """The demo, once its story and a round of its routine are over, and what was printed."""
    strategy = demo.STRATEGY.replace("cycle == 13", "cycle == 7").replace("== 18", "== 8")
    strategy, soon = re.subn(
        r"every \d+ cycles when cycle > 14 do (swap|transfer)",
        lambda found: f"when cycle == {9 + ROUTINE.index(found[1])} do {found[1]}",
        strategy,
    )
    assert soon == len(ROUTINE)
    monkeypatch.setattr(demo, "STRATEGY", strategy)
    # More than a minute of the story passes in these seconds.
    shop = demo.listen_for_buyers()
    site = demo.site_of(shop)
    if not sells:
        shop.close()
    more = {"max_transactions_per_minute": 9, "payments_private_sites": (site,), **given}
    settings = Settings(_env_file=None, solward_home=home).model_copy(update=more)
    printed: list[str] = []
    async with (
        Solward.open(settings, demo=True) as service,
        demo.selling(service.localnet, shop if sells else None),
    ):
        with service.events.subscribe() as events:
            seed = await demo.seed_demo(service, site)
            async with screen.demo_story(service, seed, PAGES, printed.append) as begin:
                begin()
                async with asyncio.timeout(60):
                    async for event in events:
                        if event.event == "agent:decision" and event.data["cycle"] >= 11:
                            break
                yield service, seed, printed


async def test_a_newcomer_reads_a_launch_a_swap_a_stake_and_a_wrap_all_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_minute(tmp_path, monkeypatch) as (service, seed, _printed):
        records: list[TransactionRecord] = await service.history.newest()
        told = [(record.type, record.status) for record in reversed(records)]
        blocked = ("transfer", TransactionStatus.BLOCKED)
        expected = [(kind, TransactionStatus.CONFIRMED) for kind in STORY + ROUTINE]
        assert told == [*expected[:2], blocked, *expected[2:]]
        query = (
            select(reservations.c.units)
            .join(transactions, transactions.c.id == reservations.c.transaction_id)
            .where(reservations.c.asset == COSTS_ASSET, reservations.c.scope.like("agent:%"))
            .order_by(transactions.c.seq)
        )
        async with service.database.read() as connection:
            costs = list((await connection.execute(query)).scalars())
        at_most = [*STORY_COSTS.values(), *ROUTINE_COSTS.values()]
        paid = STORY.index("payment") - 1
        assert 5_000 < costs[paid] < at_most[paid]
        assert costs[:paid] + costs[paid + 1 :] == at_most[:paid] + at_most[paid + 1 :]
        [stake], _ = await service.holdings.stakes(seed.wallet.id)
        assert stake.lamports == 1_100_000_000
        # It buys a forecast once, and its seller has the money.
        decisions = await service.agents.decisions(seed.agent.id, limit=500)
        [bought] = [each for each in decisions if each.action.startswith("pay_request")]
        assert f"Paid {demo.PRICE} to " in bought.outcome
        assert "The site answered with status 200" in bought.outcome
        assert '\\"forecast\\":' in bought.outcome
        [record] = [each for each in records if each.type == "payment"]
        seller_account = await service.ledger.holdings(record.details["to"])
        assert [each.units for each in seller_account] == [demo.PRICE_UNITS]


async def test_it_is_refused_once_and_asks_a_person_once_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_minute(tmp_path, monkeypatch) as (service, seed, printed):
        said = (await service.policies.show())["sentences"]
        assert len([each for each in said if demo.DEMO_AGENT in each]) == len(demo.GRANTS)
        assert any("above 0.1 SOL a person is asked" in each for each in said)
        [hold] = await service.approvals.listed()
        assert (hold.state, hold.principal) == (HoldState.HELD, f"agent:{seed.agent.id}")
        refused, asked, where, bought = printed
        assert "max_per_tx" in refused
        assert hold.sentence in asked
        to = f"your wallet demo-savings with 0.25 SOL to {seed.savings.address}, from wallet"
        assert to in asked
        assert where.endswith(f"{PAGES}/holds/{hold.id}")
        address = f"http://{seed.seller}{demo.FORECAST}"
        assert bought == f"{demo.DEMO_AGENT} bought a forecast for {demo.PRICE} from {address}"
        # Another start shows what still waits, and nothing else.
        for pages, its_where in ((PAGES, where), (None, where.partition(", or at ")[0])):
            again: list[str] = []
            with service.events.subscribe() as events:
                async with screen.demo_story(service, seed, pages, again.append) as begin:
                    begin()
                    await anext(aiter(events))
            assert again == [asked, its_where]

        with service.events.subscribe() as events:
            await service.approvals.approve(hold.id, "admin")
            async for event in events:
                if event.event == "agent:decision":
                    break
        assert len(printed) == 5
        assert "was sent" in printed[4]
        record = (await service.history.newest(seed.wallet.id))[0]
        assert (record.type, record.status) == ("transfer", TransactionStatus.CONFIRMED)
        assert (await service.holdings.balances(seed.savings.id)).lamports == 251_000_000


@pytest.mark.parametrize("end", ["denied", "expired"])
async def test_what_nobody_wants_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    expires = 2 if end == "expired" else 3_600
    async with first_minute(tmp_path, monkeypatch, hold_expires_s=expires) as (
        service,
        seed,
        printed,
    ):
        [hold] = await service.approvals.listed()
        if end == "denied":
            await service.approvals.deny(hold.id, "admin")

        async def ended() -> bool:
            return (await service.approvals.listed())[0].state == end

        await until(ended, f"the hold to be {end}")
        with service.events.subscribe() as events:
            cycles = 0
            async for event in events:
                cycles += event.event == "agent:decision"
                if cycles == 3:
                    break
        [hold] = await service.approvals.listed()
        assert hold.state == end
        assert (await service.holdings.balances(seed.savings.id)).lamports == 1_000_000
        assert len([line for line in printed if "A person is asked" in line]) == 1
        told = [line for line in printed if "denied" in line or "nobody approved" in line]
        if end == "denied":
            assert told == ["It was denied: demo-agent's transfer was not sent."]
        else:
            assert re.match("demo-agent was refused by the guardrail grants: nobody", told[0])


async def test_a_forecast_that_it_did_not_get_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with first_minute(tmp_path, monkeypatch, sells=False) as (_service, seed, printed):
        [failed] = [line for line in printed if "forecast" in line]
        assert failed.startswith(f"{demo.DEMO_AGENT} did not buy the forecast: ")
        assert str(seed.seller) in failed


async def test_the_next_start_knows_where_the_seller_was(tmp_path: Path) -> None:
    before = f"{demo.HOST}:9"
    settings = Settings(_env_file=None, solward_home=tmp_path)
    assert await demo.last_seller(settings) is None
    async with Solward.open(settings, demo=True) as service:
        await demo.seed_demo(service, before)
    assert await demo.last_seller(settings) == before


def test_a_day_of_the_demo_passes_the_default_limits() -> None:
    limits = Settings(_env_file=None)
    strategy = demo.strategy("somewhere", "127.0.0.1:4021")
    parsed = rules.parse_rules(strategy)
    balance = spent = Decimal(0)
    acted: list[int] = []
    asked: list[Decimal] = []
    costs = 0
    for cycle in range(1, 24 * 60 * CYCLES_A_MINUTE + 1):
        observation = {"cycle": cycle, "solBalance": balance, "tokenBalances": []}
        [call] = rules.decide(parsed, observation).tool_calls
        if call.name == "wait":
            continue
        amount = Decimal(call.arguments.get("amount", "0.01"))
        if amount in (REFUSED, HELD):
            asked.append(amount)
        if amount == REFUSED:
            assert amount > limits.max_sol_per_transaction
            continue
        if amount != HELD:
            acted.append(cycle)
        if cycle > CYCLES_A_MINUTE + 2:
            costs += ROUTINE_COSTS.get(call.name, 0)
        balance += amount if call.name == "airdrop" else -amount
        assert balance > 0, call
        if call.name in SPENT_BY:
            spent += amount
            assert amount <= limits.max_sol_per_transaction
        minute = [each for each in acted if each > cycle - CYCLES_A_MINUTE]
        # The held one has room, whenever somebody approves it.
        assert len(minute) < limits.max_transactions_per_minute
        del acted[:-10]
    assert asked == [REFUSED, HELD]
    assert spent == Decimal("4.328")
    assert spent <= limits.daily_spending_limit_sol
    # A stretch of 24 hours that holds the story, and a swap under way.
    costs += sum(STORY_COSTS.values()) + ROUTINE_COSTS["transfer"]
    assert costs + SWAP_HOLDS + VISITOR_COSTS <= limits.max_costs_lamports_per_day
