"""One approval pays once, and only what it was given for, whatever keys its requests have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from sqlalchemy import update
from tests.operations.test_approvals import asks_while, cycle, set_agent
from tests.promises import promise
from tests.support.approvals import KEY, Desk, open_desk

from solward.context import PocketRequest
from solward.database.tables import holds as holds_table
from solward.solana.programs import MEMO_PROGRAM
from solward.types.errors import (
    GuardrailBlocked,
    Held,
    HoldDecided,
    IdempotencyInFlight,
    IdempotencyMismatch,
)
from solward.types.guardrail import Intent
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import GENERATED_KEY, Hold, HoldState, TransactionRecord
from solward.vault.money.request import Actor, AgentRun, IdempotencyKey
from solward.vault.store import spending

INVOICE = IdempotencyKey("key:k1|POST|/transfer|invoice-9", "f")
BET = ("skill:bet", "plugin:acme")
FUNDED = LAMPORTS_PER_SOL // 2
SENT = FUNDED - 3_000_000


@pytest.fixture
def strict() -> set[str]:
    """While it is not empty, a person is asked."""
    return {"strict"}


@pytest.fixture
async def desk(tmp_path: Path, strict: set[str]) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as opened:
        yield opened


def tool(name: str, **fields: Any) -> Actor:
    """A tool's call for a caller who chose no key."""
    return replace(KEY, action_key=f"{GENERATED_KEY}{name}:0", **fields)


@promise("key-stands-for-hold")
@pytest.mark.parametrize("relaxed", [False, True])
async def test_a_try_that_comes_after_its_keys_hold_was_paid_pays_nothing(
    desk: Desk, strict: set[str], relaxed: bool
) -> None:
    """The first try was slow, its caller sent it again, and that was approved."""
    hold = await desk.held(1, idempotency=INVOICE)
    await desk.approvals.approve(hold.id, "admin")
    if relaxed:
        strict.clear()
    with pytest.raises(IdempotencyInFlight):
        await desk.ask(1, idempotency=INVOICE)
    assert await desk.paid() == LAMPORTS_PER_SOL
    assert [each.id for each in await desk.all()] == [hold.id]


async def test_nor_does_it_fail_where_the_hold_was_paid(desk: Desk) -> None:
    hold = await desk.held(1, idempotency=INVOICE)
    await desk.approvals.approve(hold.id, "admin")
    # More than the wallet has: the simulation fails, and no record of it answers the key.
    with pytest.raises(IdempotencyInFlight):
        await desk.ask(9, idempotency=INVOICE)


async def test_a_key_has_one_hold_whatever_it_would_take_by_now(desk: Desk) -> None:
    hold = await desk.held(1, idempotency=INVOICE)
    assert (await desk.held(2, idempotency=INVOICE)).id == hold.id
    with pytest.raises(IdempotencyMismatch):
        await desk.ask(1, idempotency=replace(INVOICE, fingerprint="other"))
    assert len(await desk.all()) == 1


async def test_a_chosen_keys_hold_is_not_the_answer_of_whoever_chose_none(desk: Desk) -> None:
    keyed = await desk.held(1, idempotency=INVOICE)
    keyless = await desk.held(1)
    assert keyless.id != keyed.id
    barred = IdempotencyKey("key:k1|POST|/transfer|generated-a|x", "f")
    assert (await desk.held(1, idempotency=barred)).id == keyless.id
    ends_so = IdempotencyKey("key:k1|POST|/transfer|x|generated-a", "f")
    assert (await desk.held(1, idempotency=ends_so)).id not in (keyed.id, keyless.id)


@promise("key-stands-for-hold")
async def test_a_call_that_was_told_to_wait_for_anothers_hold_is_told_its_end(
    desk: Desk, strict: set[str]
) -> None:
    hold = await desk.held(1, tool("a"))
    assert (await desk.held(1, tool("b"))).id == hold.id
    await desk.approvals.approve(hold.id, "admin")
    strict.clear()
    record = await desk.ask(1, tool("a"))
    assert await desk.ask(1, tool("b")) == record
    assert await desk.paid() == LAMPORTS_PER_SOL
    # What was never told to wait is a call of its own.
    assert (await desk.ask(1, tool("c"))).id != record.id


async def test_nor_is_it_asked_again_after_a_denial(desk: Desk, strict: set[str]) -> None:
    hold = await desk.held(1, tool("a"))
    await desk.held(1, tool("b"))
    await desk.approvals.deny(hold.id, "admin")
    strict.clear()
    for call in ("a", "b"):
        with pytest.raises(GuardrailBlocked, match="denied"):
            await desk.ask(1, tool(call))
    assert await desk.paid() == 0


def request(to: str, **fields: Any) -> PocketRequest:
    async def build(pocket: str) -> list[Instruction]:
        params = TransferParams(
            from_pubkey=Pubkey.from_string(pocket),
            to_pubkey=Pubkey.from_string(to),
            lamports=SENT,
        )
        return [transfer(params)]

    return PocketRequest(build=build, lamports=FUNDED, **fields)


async def call(desk: Desk, to: str, actor: Actor, **fields: Any) -> TransactionRecord | Hold:
    try:
        return await desk.operations.use_pocket(desk.bench.wallet.id, actor, request(to, **fields))
    except Held as held:
        return held.hold


PROGRAMS = [str(Keypair().pubkey()) for _ in range(2)]


@promise("caller-takes-approval")
@pytest.mark.parametrize(
    ("fields", "other_actor", "other_fields"),
    [
        ({}, replace(KEY, via=("skill:drain", "plugin:evil")), {}),
        ({}, replace(KEY, via=("skill:drain", "plugin:acme")), {}),
        ({}, replace(KEY, via=BET, call={"on": "black"}), {}),
        ({"details": {"bet": "red"}}, replace(KEY, via=BET), {"details": {"bet": "black"}}),
        (
            {"program": PROGRAMS[0], "position": "3"},
            replace(KEY, via=BET),
            {"program": PROGRAMS[0], "position": "9"},
        ),
        (
            {"program": PROGRAMS[0], "position": "3"},
            replace(KEY, via=BET),
            {"program": PROGRAMS[1], "position": "3"},
        ),
        (
            {"program": PROGRAMS[0], "position": "3"},
            replace(KEY, via=BET),
            {"program": PROGRAMS[0], "position": "3", "stays": True},
        ),
    ],
)
async def test_what_was_approved_of_one_call_is_no_other_calls(
    desk: Desk, fields: dict[str, Any], other_actor: Actor, other_fields: dict[str, Any]
) -> None:
    vendor, thief = (str(Keypair().pubkey()) for _ in range(2))
    actor = replace(KEY, via=BET)
    hold = await call(desk, vendor, actor, **fields)
    assert isinstance(hold, Hold)
    await desk.approvals.approve(hold.id, "admin")

    other = await call(desk, thief, other_actor, **other_fields)
    assert isinstance(other, Hold)
    assert (other.state, other.id != hold.id) == (HoldState.HELD, True)
    assert await desk.bench.lamports(thief) == 0

    # The call itself takes it, once.
    await call(desk, vendor, actor, **fields)
    assert await desk.bench.lamports(vendor) == SENT
    again = await call(desk, vendor, actor, **fields)
    assert isinstance(again, Hold)
    assert again.id != hold.id


@promise("caller-takes-approval")
@pytest.mark.parametrize("decided", ["deny", "expire", "take"])
async def test_under_one_key_another_call_changes_nothing_of_the_approved_one(
    desk: Desk, decided: str
) -> None:
    vendor = str(Keypair().pubkey())
    first = tool("a", via=BET)
    hold = await call(desk, vendor, first, details={"bet": "red"})
    assert isinstance(hold, Hold)
    await desk.approvals.approve(hold.id, "admin")
    with pytest.raises(HoldDecided, match="it is another call"):
        await call(desk, vendor, first, details={"bet": "black"})
    if decided == "deny":
        assert (await desk.approvals.deny(hold.id, "admin")).state is HoldState.DENIED
    elif decided == "expire":
        await end_time(desk, hold.id)
        assert [each.state for each in await desk.approvals.listed()] == [HoldState.EXPIRED]
    else:
        await call(desk, vendor, first, details={"bet": "red"})
    assert await desk.bench.lamports(vendor) == (SENT if decided == "take" else 0)


async def test_a_try_that_fails_meanwhile_leaves_the_hold_and_its_key_as_they_are(
    desk: Desk,
) -> None:
    vendor = str(Keypair().pubkey())
    first, merged = tool("a", via=BET), tool("b", via=BET)
    hold = await call(desk, vendor, first)
    assert isinstance(hold, Hold)
    await call(desk, vendor, merged)
    await desk.approvals.approve(hold.id, "admin")
    async with desk.bench.database.write() as connection:
        await spending.set_frozen(connection, spending.SERVICE_SCOPE, True, "a drill")
    for actor in (first, merged):
        with pytest.raises(GuardrailBlocked, match="frozen"):
            await call(desk, vendor, actor)
    async with desk.bench.database.write() as connection:
        await spending.set_frozen(connection, spending.SERVICE_SCOPE, False)
    record = await call(desk, vendor, merged)
    assert await call(desk, vendor, first) == record
    assert await desk.bench.lamports(vendor) == SENT


async def test_a_hold_whose_action_was_recorded_otherwise_ends_all_the_same(desk: Desk) -> None:
    """A failed try is stored under the key of an open hold."""
    vendor = str(Keypair().pubkey())
    hold = await call(desk, vendor, tool("a", via=BET))
    assert isinstance(hold, Hold)
    other = await desk.held(1)
    await desk.approvals.deny(other.id, "admin")
    async with desk.bench.database.write() as connection:
        taken = update(holds_table).where(holds_table.c.id == hold.id)
        await connection.execute(taken.values(action_key=other.action))
    await end_time(desk, hold.id)
    assert {each.state for each in await desk.approvals.listed()} == {
        HoldState.DENIED, HoldState.EXPIRED,
    }  # fmt: skip


async def end_time(desk: Desk, hold_id: str) -> None:
    async with desk.bench.database.write() as connection:
        ended = update(holds_table).where(holds_table.c.id == hold_id).values(expires_ms=1)
        await connection.execute(ended)


@promise("same-request-same-hold")
async def test_what_two_calls_of_a_plugin_made_are_two_though_they_take_the_same(
    desk: Desk,
) -> None:
    shop = str(Keypair().pubkey())

    async def order(number: int) -> TransactionRecord:
        wallet = desk.bench.wallet
        params = TransferParams(
            from_pubkey=Pubkey.from_string(wallet.address),
            to_pubkey=Pubkey.from_string(shop),
            lamports=LAMPORTS_PER_SOL // 10,
        )
        memo = Instruction(Pubkey.from_string(MEMO_PROGRAM), f"order {number}".encode(), [])
        intent = Intent(
            "other",
            wallet.address,
            lamports_out=LAMPORTS_PER_SOL // 10,
            destinations=frozenset({shop}),
            details={"order": number},
        )
        actor = tool(str(number), via=BET, call={"order": number})
        return await desk.operations.transact(
            wallet.id, actor, intent, [transfer(params), memo], None
        )

    made = []
    for number in (1, 2):
        with pytest.raises(Held) as caught:
            await order(number)
        made.append(caught.value.hold.id)
    assert len(set(made)) == 2
    for hold in made:
        await desk.approvals.approve(hold, "admin")
    said = [(await order(number)).details["pluginDetails"] for number in (1, 2)]
    assert said == [{"order": 1}, {"order": 2}]


async def test_a_cycle_that_was_told_to_wait_and_runs_again_is_told_the_end(
    desk: Desk, strict: set[str]
) -> None:
    await set_agent(desk)
    hold = await desk.held(1, cycle(1))
    await set_agent(desk, cycle_no=2, fence=2)
    assert (await desk.held(1, cycle(2))).id == hold.id
    await desk.approvals.approve(hold.id, "admin")
    strict.clear()
    # It was interrupted before it ended.
    await set_agent(desk, cycle_no=2, fence=3)
    again = replace(cycle(2), run=AgentRun("agent-1", 2, 3))
    await desk.ask(1, again)
    assert await desk.paid() == LAMPORTS_PER_SOL


@promise("key-stands-for-hold")
async def test_of_two_calls_at_once_that_were_told_to_wait_one_takes_the_approval(
    desk: Desk, strict: set[str]
) -> None:
    vendor = str(Keypair().pubkey())
    one, two = tool("a", via=BET), tool("b", via=BET)
    hold = await call(desk, vendor, one)
    same = await call(desk, vendor, two)
    assert isinstance(hold, Hold)
    assert isinstance(same, Hold)
    assert same.id == hold.id
    await desk.approvals.approve(hold.id, "admin")
    strict.clear()
    record = await call(desk, vendor, one)
    # The second had looked while it was approved and not used.
    engine = desk.bench.engine
    with (
        mock.patch.object(type(engine), "find_action", mock.AsyncMock(return_value=None)),
        pytest.raises(HoldDecided, match="was used or ended"),
    ):
        await call(desk, vendor, two)
    looked = mock.AsyncMock(side_effect=[None, await engine.find_action(two)])
    with mock.patch.object(type(engine), "find_action", looked):
        assert await call(desk, vendor, two) == record
    assert await desk.bench.lamports(vendor) == SENT
