"""What a guardrail refused reaches the model whole: rule, limit and what is left of it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.agents import hire

from solward.agents.act import resumed
from solward.agents.prompt import memory_text
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.errors import GuardrailBlocked
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
SPENT = (
    "Transaction blocked by guardrail daily_limit: 0.5 SOL is more than the 0.4 SOL left of the "
    "0.5 SOL allowed in 24 hours; 0.1 SOL is spent or reserved (limit of the agent)"
)


async def test_the_next_prompt_holds_the_whole_refusal(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, solward_home=tmp_path)
    async with Solward.open(settings, demo=True) as service:
        agent = await hire(
            service,
            strategy=f"when cycle == 1 do transfer to={RECIPIENT} amount=0.1\n"
            f"always do transfer to={RECIPIENT} amount=0.5",
            loopIntervalMs=1_000,
            guardrails={"dailySpendingLimitSol": Decimal("0.5")},
        )
        with service.events.subscribe() as events:
            await service.agents.start(agent.id)
            async with asyncio.timeout(30):
                async for event in events:
                    if event.event == "agent:decision" and event.data["cycle"] == 2:
                        break
        await service.agents.stop(agent.id)
        memory = await service.agents.memory(agent.id)
        assert SPENT in {entry.outcome for entry in memory if entry.cycle == 2}
        assert f'"outcome":"{SPENT}"' in memory_text(memory)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (TransactionStatus.BLOCKED, "Transaction blocked by guardrail rate_limit: why"),
        (TransactionStatus.FAILED, "why"),
    ],
)
def test_a_cycle_resumed_after_a_crash_says_it_in_the_same_words(
    status: TransactionStatus, text: str
) -> None:
    record = TransactionRecord(
        "t",
        "w",
        "transfer",
        status,
        {"amount": 1},
        ("max_per_tx", "rate_limit"),
        0,
        error="why",
        principal="agent:a",
    )
    assert resumed("transfer", record).outcome == text


async def test_the_skills_endpoint_and_the_engine_say_the_same(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, solward_home=tmp_path, max_transactions_per_minute=1)
    async with Solward.open(settings) as service:
        wallet = await service.wallets.create("skills")
        await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
        with pytest.raises(GuardrailBlocked) as caught:
            await service.run_skill("stake_sol", {"amount": Decimal("1.5")}, wallet.id, ADMIN)
        wait = str(caught.value).removeprefix(
            "Transaction blocked by guardrail rate_limit: 1 transactions in the last minute leave "
            "none of the 1 allowed; the next is possible in "
        )
        seconds, rest = wait.split(" ", 1)
        assert rest == "s (limit of the wallet)"
        assert 0 < int(seconds) <= 60
