"""The demo's first minutes tell a story, and its days stay within the default limits."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import select

from solward.record import TransactionRecord, TransactionStatus
from solward.service import Solward
from solward.settings import Settings
from solward.vault.store.spending import COSTS_ASSET
from solward.vault.store.tables import reservations, transactions
from solward_cli.up import demo
from solward_plugins.providers import rules

pytestmark = pytest.mark.more

STORY = ["airdrop", "token_launch", "swap", "stake", "wrap_sol"]
ROUTINE = ["swap", "transfer"]
# Lamports of fees and rent: each step of the story, then of the routine.
STORY_COSTS = {"token_launch": 5_280_680, "swap": 2_049_280, "stake": 5_000, "wrap_sol": 2_044_280}
ROUTINE_COSTS = {"swap": 10_000, "transfer": 5_000}
# What a swap reserves until it has ended: its pocket's account gives the rent back.
SWAP_HOLDS = 2_049_280
# What a visitor can pay from the demo's wallet within the same limit: a token launched, and more.
VISITOR_COSTS = 10_000_000
SPENT_BY = ("swap", "transfer", "stake_sol", "wrap_sol")
CYCLES_A_MINUTE = 60_000 // demo.LOOP_INTERVAL_MS


async def test_a_newcomer_reads_a_launch_a_swap_a_stake_and_a_wrap_all_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LOOP_INTERVAL_MS", 1_000)
    strategy, soon = re.subn(
        r"every \d+ cycles when cycle > 12 do (swap|transfer)",
        lambda found: f"when cycle == {6 + ROUTINE.index(found[1])} do {found[1]}",
        demo.STRATEGY,
    )
    assert soon == len(ROUTINE)
    monkeypatch.setattr(demo, "STRATEGY", strategy)
    # A minute of the routine passes in these seconds too.
    settings = Settings(_env_file=None, solward_home=tmp_path, max_transactions_per_minute=7)
    async with Solward.open(settings, demo=True) as service:
        with service.events.subscribe() as events:
            seed = await demo.seed_demo(service)
            async with asyncio.timeout(40):
                async for event in events:
                    if event.event == "agent:decision" and event.data["cycle"] >= len(
                        STORY + ROUTINE
                    ):
                        break
        records: list[TransactionRecord] = await service.transactions()
        told = [(record.type, record.status) for record in reversed(records)]
        assert told == [(kind, TransactionStatus.CONFIRMED) for kind in STORY + ROUTINE]
        query = (
            select(reservations.c.units)
            .join(transactions, transactions.c.id == reservations.c.transaction_id)
            .where(reservations.c.asset == COSTS_ASSET, reservations.c.scope.like("agent:%"))
            .order_by(transactions.c.seq)
        )
        async with service.database.read() as connection:
            costs = list((await connection.execute(query)).scalars())
        assert costs == [*STORY_COSTS.values(), *ROUTINE_COSTS.values()]
        [stake] = await service.stakes(seed.wallet.id)
        assert stake.lamports == 1_100_000_000


def test_a_day_of_the_demo_passes_the_default_limits() -> None:
    limits = Settings(_env_file=None)
    strategy = demo.STRATEGY.format(savings="somewhere")
    parsed = rules.parse(strategy)
    balance = spent = Decimal(0)
    acted: list[int] = []
    costs = 0
    for cycle in range(1, 24 * 60 * CYCLES_A_MINUTE + 1):
        observation = {"cycle": cycle, "solBalance": balance, "tokenBalances": []}
        [call] = rules.decide(parsed, observation).tool_calls
        if call.name == "wait":
            continue
        acted.append(cycle)
        if cycle > len(STORY):
            costs += ROUTINE_COSTS.get(call.name, 0)
        amount = Decimal(call.arguments.get("amount", "0.01"))
        balance += amount if call.name == "airdrop" else -amount
        assert balance > 0, call
        if call.name in SPENT_BY:
            spent += amount
            assert amount <= limits.max_sol_per_transaction
        minute = [each for each in acted if each > cycle - CYCLES_A_MINUTE]
        assert len(minute) <= limits.max_transactions_per_minute
        del acted[:-10]
    assert spent == Decimal("4.078")
    assert spent <= limits.daily_spending_limit_sol
    # A stretch of 24 hours that holds the story, and a swap under way.
    costs += sum(STORY_COSTS.values())
    assert costs + SWAP_HOLDS + VISITOR_COSTS <= limits.max_costs_lamports_per_day
