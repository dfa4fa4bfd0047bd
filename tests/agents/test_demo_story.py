"""The demo's first minutes tell a story, and its days stay within the default limits."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from solward.record import TransactionRecord, TransactionStatus
from solward.service import Solward
from solward.settings import Settings
from solward_cli.up import demo
from solward_plugins.providers import rules

pytestmark = pytest.mark.more

STORY = ["airdrop", "token_launch", "swap", "stake", "wrap_sol"]
SPENT_BY = ("swap", "transfer", "stake_sol", "wrap_sol")
CYCLES_A_MINUTE = 60_000 // demo.LOOP_INTERVAL_MS


async def test_a_newcomer_reads_a_launch_a_swap_a_stake_and_a_wrap_all_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "LOOP_INTERVAL_MS", 1_000)
    settings = Settings(_env_file=None, solward_home=tmp_path)
    async with Solward.open(settings, demo=True) as service:
        with service.events.subscribe() as events:
            seed = await demo.seed_demo(service)
            async with asyncio.timeout(40):
                async for event in events:
                    if event.event == "agent:decision" and event.data["cycle"] >= len(STORY):
                        break
        records: list[TransactionRecord] = await service.transactions()
        told = [(record.type, record.status) for record in reversed(records)]
        assert told == [(kind, TransactionStatus.CONFIRMED) for kind in STORY]
        [stake] = await service.stakes(seed.wallet.id)
        assert stake.lamports == 1_100_000_000


def test_a_day_of_the_demo_passes_the_default_limits() -> None:
    limits = Settings(_env_file=None)
    strategy = demo.STRATEGY.format(savings="somewhere")
    parsed = rules.parse(strategy)
    balance = spent = Decimal(0)
    acted: list[int] = []
    for cycle in range(1, 24 * 60 * CYCLES_A_MINUTE + 1):
        observation = {"cycle": cycle, "solBalance": balance, "tokenBalances": []}
        [call] = rules.decide(parsed, observation).tool_calls
        if call.name == "wait":
            continue
        acted.append(cycle)
        amount = Decimal(call.arguments.get("amount", "0.01"))
        balance += amount if call.name == "airdrop" else -amount
        assert balance > 0, call
        if call.name in SPENT_BY:
            spent += amount
            assert amount <= limits.max_sol_per_transaction
        minute = [each for each in acted if each > cycle - CYCLES_A_MINUTE]
        assert len(minute) <= limits.max_transactions_per_minute
        del acted[:-10]
    assert spent == Decimal("6.956")
    assert spent <= limits.daily_spending_limit_sol
