"""What grants hold waits for a person; an approval counts in them, and lifts nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.approvals import KEY, Desk, open_desk
from tests.support.grants import grant, limit
from tests.vault.money.test_grants_engine import counted

from solward.operations.policies.changes import replace_set
from solward.types.money import LAMPORTS_PER_SOL as SOL
from solward.types.record import HoldState, TransactionStatus
from solward.vault.grants.model import Grant, NewRecipient
from solward.vault.money.request import ADMIN

WHO = KEY.principal
# Above 0.5 SOL a person is asked, above 3 SOL a day nobody.
GRANT = grant(WHO, SOL=limit("SOL", 3 * SOL, hold=SOL // 2))
HALF = Decimal("0.5")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, rules=()) as opened:
        opened.actors[WHO] = replace(KEY, limits=())
        await under(opened, GRANT)
        yield opened


async def under(desk: Desk, *grants: Grant, who: str = WHO) -> None:
    await replace_set(desk.bench.database, who, grants)


async def test_what_is_above_it_waits_and_counts_once_it_is_approved(desk: Desk) -> None:
    assert (await desk.ask(HALF)).status is TransactionStatus.CONFIRMED
    hold = await desk.held(1)
    assert "0.5 SOL" in hold.sentence
    assert await counted(desk.bench, GRANT, "SOL") == SOL // 2
    assert (await desk.approvals.approve(hold.id, "admin")).state is HoldState.EXECUTED
    assert await desk.paid() == await counted(desk.bench, GRANT, "SOL") == SOL + SOL // 2


async def test_an_approval_is_no_room_in_a_window(desk: Desk) -> None:
    first, second = await desk.held(2), await desk.held(Decimal("1.5"))
    assert (await desk.approvals.approve(first.id, "admin")).state is HoldState.EXECUTED
    after = await desk.approvals.approve(second.id, "admin")
    assert after.state is HoldState.REFUSED
    [record] = [each for each in await desk.bench.history() if each.id == after.transaction_id]
    assert record.guardrails_applied[-1] == "grants"
    assert "1 of 3 SOL" in (record.error or "")
    assert await desk.paid() == await counted(desk.bench, GRANT, "SOL") == 2 * SOL


async def test_every_principal_that_holds_is_satisfied_by_one_approval(desk: Desk) -> None:
    wallet = f"wallet:{desk.bench.wallet.id}"
    of_wallet = grant(wallet, SOL=limit("SOL", 9 * SOL), new=NewRecipient.HOLD)
    await under(desk, of_wallet, who=wallet)
    hold = await desk.held(1)
    assert "0.5 SOL" in hold.sentence
    assert "never" in hold.sentence
    assert (await desk.approvals.approve(hold.id, "admin")).state is HoldState.EXECUTED
    # Paid before, so it is nobody new; below the amount nothing holds it.
    assert (await desk.ask(HALF)).status is TransactionStatus.CONFIRMED


async def test_nothing_that_the_operator_asks_for_is_held(desk: Desk) -> None:
    wallet = f"wallet:{desk.bench.wallet.id}"
    await under(desk, grant(wallet, SOL=limit("SOL", 9 * SOL, hold=1)), who=wallet)
    assert (await desk.ask(1, ADMIN)).status is TransactionStatus.CONFIRMED
    assert await desk.all() == []


async def test_an_approval_is_no_grant(desk: Desk) -> None:
    hold = await desk.held(1)
    await under(desk)
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.REFUSED
    assert await desk.paid() == 0
