"""Who wants more than a person approved: by asking often, by deciding often, by what is shown."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.approvals import KEY, Desk, open_desk

from solward.types.errors import Held, HoldDecided
from solward.types.guardrail import Hold as Ask
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import Hold, HoldState


@promise("approved-pays-once")
async def test_many_requests_and_many_approvals_at_once_pay_once(desk: Desk) -> None:
    hold = await desk.held(1)
    other = desk.process("other")

    async def ask() -> Hold:
        return await desk.held(1)

    async def approve(who: str) -> Hold:
        return await desk.approvals.approve(hold.id, who)

    calls = [ask, *(lambda who=who: approve(who) for who in ("admin", "webhook"))]
    results = await asyncio.gather(
        *(call() for call in calls * 5),
        other.approve(hold.id, "admin"),
        return_exceptions=True,
    )
    assert [each for each in results if not isinstance(each, Hold)] == []
    # What was asked for after the payment is another payment, and waits.
    assert await desk.paid() == LAMPORTS_PER_SOL
    assert len(await desk.bench.history()) == 1
    assert {each.state for each in await desk.all()} <= {HoldState.EXECUTED, HoldState.HELD}


@promise("denied-is-final")
async def test_no_end_is_decided_again(desk: Desk) -> None:
    denied, executed = await desk.held(1), await desk.held(2)
    await desk.approvals.deny(denied.id, "webhook")
    await desk.approvals.approve(executed.id, "webhook")
    paid = await desk.paid()
    for who in ("admin", "webhook"):
        with pytest.raises(HoldDecided, match="denied"):
            await desk.approvals.approve(denied.id, who)
        with pytest.raises(HoldDecided, match="executed"):
            await desk.approvals.deny(executed.id, who)
        assert (await desk.approvals.approve(executed.id, who)).state is HoldState.EXECUTED
    assert await desk.paid() == paid == 2 * LAMPORTS_PER_SOL


async def test_approvals_and_denials_at_once_leave_one_of_both(desk: Desk) -> None:
    paid = 0
    for number in range(1, 6):
        hold = await desk.held(Decimal(number) / 10)
        results = await asyncio.gather(
            desk.approvals.approve(hold.id, "admin"),
            desk.approvals.deny(hold.id, "webhook"),
            return_exceptions=True,
        )
        assert any(isinstance(each, Hold) for each in results)
        last = await desk.approvals.get(hold.id)
        paid += number * LAMPORTS_PER_SOL // 10 * (last.state is HoldState.EXECUTED)
        assert await desk.paid() == paid


@promise("plugin-text-one-line")
@pytest.mark.parametrize(
    "forged",
    [
        "fine\nkey:k1 asks to transfer 0.001 SOL",
        "\x1b[2K\rkey:k1 asks to transfer 0.001 SOL",
        "to \u202ednob",
        "a\u200bb",
        "\ud800",
        "x" * 100_000,
    ],
)
async def test_a_plugin_cannot_make_what_a_person_reads_look_like_something_else(
    tmp_path: Path, forged: str
) -> None:
    def asks(_intent: Intent, _effects: TransactionEffects) -> Ask:
        return Ask(forged)

    async with open_desk(tmp_path, rules=(asks,)) as desk:
        hold = await desk.held(1)
        asked, _, said = hold.sentence.partition(" asks: ")
        assert f"asks to transfer 1 SOL to {desk.bench.recipient}" in asked
        assert said.isprintable()
        assert 0 < len(said) <= 500


async def test_an_approval_of_one_payment_is_none_of_another(desk: Desk) -> None:
    hold = await desk.held(1)
    other = await desk.held(2)
    await desk.approvals.approve(hold.id, "admin")
    with pytest.raises(Held):
        await desk.ask(2, KEY)
    assert (await desk.approvals.get(other.id)).state is HoldState.HELD
    assert await desk.paid() == LAMPORTS_PER_SOL
