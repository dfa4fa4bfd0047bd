"""What a person decides: held once, approved once, carried out only as it was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams
from solders.system_program import transfer as system_transfer
from solders.transaction import VersionedTransaction
from sqlalchemy import delete, func, insert, select, update
from tests.promises import promise
from tests.support.approvals import ASKS, KEY, Desk, asks, open_desk
from tests.support.database import agent_row

from solward.agents.act import resumed_action
from solward.agents.remember import recall
from solward.database.tables import agents, audit, reservations
from solward.database.tables import holds as holds_table
from solward.database.window_clock import LEAD_MS
from solward.operations.approvals import MAX_NOTE, Approvals
from solward.solana.programs import MEMO_PROGRAM
from solward.solana.protocol import DEFAULT_MAX_NETWORK_FEE
from solward.support import jsontext
from solward.support.durations import HOUR_MS
from solward.types.errors import (
    GuardrailBlocked,
    Held,
    HoldDecided,
    InvalidRequest,
    MayNotDecide,
    NotFound,
)
from solward.types.guardrail import Hold as Ask
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import GENERATED_KEY, HoldState, TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.judge.building import PriorityFee
from solward.vault.money.request import ADMIN, Actor, AgentRun, IdempotencyKey
from solward.vault.money.reserve import hold_reservation
from solward.vault.store import holds, spending
from solward.vault.store.holds import MAX_OPEN

VIA = ("skill:a", "plugin:a")


def asks_while(strict: set[str]) -> Callable[..., Ask | None]:
    """A rule that asks as `asks` does, while `strict` is not empty."""

    def rule(intent: Intent, effects: TransactionEffects) -> Ask | None:
        return asks(intent, effects) if strict else None

    return rule


@promise("held-reserves-nothing", "held-has-no-record")
async def test_held_nothing_is_reserved_signed_or_sent(desk: Desk) -> None:
    hold = await desk.held(1)
    assert hold.state is HoldState.HELD
    assert hold.chain == (f"wallet:{desk.bench.wallet.id}", "key:k1")
    [line] = hold.lines
    assert (line["operation"], line["asset"], line["units"]) == ("transfer", "SOL", str(10**9))
    assert line["account"] == desk.bench.recipient
    assert ASKS in hold.sentence
    assert "1 SOL" in hold.sentence
    assert desk.bench.recipient in hold.sentence
    assert await desk.bench.history() == []
    assert await desk.bench.reserved_units() == 0
    assert desk.bench.wire.calls["sendTransaction"] == 0


@promise("same-request-same-hold", "held-reserves-nothing")
async def test_held_twice_is_one_hold(desk: Desk) -> None:
    first = await desk.held(Decimal("0.5"))
    assert (await desk.held(Decimal("0.50"))).id == first.id
    whole = await desk.held(1)
    assert (await desk.held(Decimal("1.0"))).id == whole.id
    assert len(await desk.all()) == 2
    assert (await desk.held(Decimal("0.6"))).id != first.id
    key = IdempotencyKey("key:k1|POST|/transfer|1", "f")
    assert (await desk.held(Decimal("0.5"), idempotency=key)).id != first.id


@promise("same-request-same-hold")
async def test_what_waits_is_not_paid_beside_its_hold_though_nothing_holds_it_any_more(
    tmp_path: Path,
) -> None:
    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        hold = await desk.held(1)
        strict.clear()
        assert (await desk.held(1)).id == hold.id
        assert await desk.paid() == 0
        # Another payment is not the one that waits.
        await desk.ask(Decimal("0.25"))
        await desk.approvals.approve(hold.id, "admin")
        assert await desk.paid() == LAMPORTS_PER_SOL * 5 // 4
        # It has ended, so this is a payment of its own.
        await desk.ask(1)
        assert await desk.paid() == LAMPORTS_PER_SOL * 9 // 4


@promise("same-request-same-hold")
@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"amount": 1}, {"amount": Decimal("1.0")}),
        ({"amount": 1}, {"amount": 1, "via": VIA}),
        ({"amount": 1, "via": VIA}, {"amount": 1}),
        ({"amount": 1, "via": VIA}, {"amount": Decimal("1.0"), "via": ("skill:b", "plugin:b")}),
    ],
)
async def test_it_is_the_same_by_another_route_skill_or_spelling(
    tmp_path: Path, first: dict[str, Any], again: dict[str, Any]
) -> None:
    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        hold = await desk.held(**first)
        assert (await desk.held(**again)).id == hold.id
        strict.clear()
        assert (await desk.held(**again)).id == hold.id
        # A key says that it is a payment of its own.
        own = IdempotencyKey("key:k1|POST|/transfer|1", "f")
        await desk.ask(1, idempotency=own)
        await desk.approvals.approve(hold.id, "admin")
        assert await desk.paid() == 2 * LAMPORTS_PER_SOL


@promise("paid-request-one-hold")
async def test_a_key_that_a_tool_made_makes_no_payment_of_its_own(tmp_path: Path) -> None:
    def made(number: int) -> dict[str, Any]:
        of_call = replace(KEY, action_key=f"{GENERATED_KEY}call{number}:0")
        key = IdempotencyKey(f"key:k1|POST|/pay|{GENERATED_KEY}{number}", "f")
        return {"actor": of_call} if number % 2 else {"idempotency": key}

    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        hold = await desk.held(1, **made(1))
        for number in range(2, 6):
            assert (await desk.held(1, **made(number))).id == hold.id
        assert (await desk.held(1)).id == hold.id
        strict.clear()
        assert (await desk.held(1, **made(6))).id == hold.id
        assert (await desk.held(1, **made(7))).id == hold.id
        await desk.approvals.approve(hold.id, "admin")
        assert await desk.paid() == LAMPORTS_PER_SOL


async def test_two_launches_are_two_holds(desk: Desk) -> None:
    """Their lines are the same: no mint stands in them yet."""
    holds = set()
    for name in ("First", "Second", "First"):
        launch = {"name": name, "symbol": "ONE", "initialSupply": 5}
        with pytest.raises(Held) as caught:
            await desk.operations.perform("launch_token", desk.bench.wallet.id, KEY, launch)
        holds.add(caught.value.hold.id)
    assert len(holds) == 2
    # Each has another mint when it is carried out, which nobody was shown.
    for hold_id in holds:
        assert (await desk.approvals.approve(hold_id, "admin")).state is HoldState.EXECUTED
        await desk.approvals.close()
    records = await desk.bench.history()
    assert [each.status.value for each in records] == ["confirmed"] * 2
    assert {each.details["name"] for each in records} == {"First", "Second"}


async def test_a_stake_goes_to_the_validator_that_was_shown_whoever_is_the_default_now(
    desk: Desk,
) -> None:
    real = (await desk.bench.wire.direct("getVoteAccounts", []))["current"][0]
    other = {**real, "votePubkey": str(Keypair().pubkey()), "commission": 0}
    listed = [real]

    async def voters(_method: str, _params: Any) -> Any:
        return {"current": listed}

    desk.bench.wire.faults["getVoteAccounts"] = voters
    for given in ({}, {"validator": None}):
        listed[:] = [real]
        stake = {"amount": Decimal("1.2"), **given}
        with pytest.raises(Held) as caught:
            await desk.operations.perform("stake", desk.bench.wallet.id, KEY, stake)
        listed[:] = [other]
        hold = await desk.approvals.approve(caught.value.hold.id, "admin")
        await desk.approvals.close()
        (record, *_) = await desk.bench.history()
        assert (hold.state, record.details["validator"]) == (HoldState.EXECUTED, real["votePubkey"])
        # Another validator's is another payment, which the hold is not for.
        lines = tuple(map(hold_reservation._line_from_json, hold.lines))
        elsewhere = replace(hold, details={**hold.details, "validator": other["votePubkey"]})
        for each, is_same in ((hold, True), (elsewhere, False)):
            assert hold_reservation.is_same_payment(each, record, lines, hold.arrives) is is_same


@promise("acts-read-differently")
async def test_a_plugins_transactions_read_otherwise_where_anything_in_them_differs(
    desk: Desk,
) -> None:
    wallet, to = desk.bench.wallet, str(Keypair().pubkey())
    me = Pubkey.from_string(wallet.address)
    pays = system_transfer(
        TransferParams(from_pubkey=me, to_pubkey=Pubkey.from_string(to), lamports=LAMPORTS_PER_SOL)
    )
    sentences = set()
    for memo in (b"deposit of account 111", b"deposit of account 222"):
        note = Instruction(Pubkey.from_string(MEMO_PROGRAM), memo, [])
        declared = Intent(
            "transfer", "", lamports_out=LAMPORTS_PER_SOL, destinations=frozenset({to})
        )
        with pytest.raises(Held) as caught:
            await desk.operations.transact(wallet.id, KEY, declared, [pays, note], None)
        sentences.add(caught.value.hold.sentence)
    assert len(sentences) == 2


async def test_a_plugins_transaction_that_another_version_stored_ends_in_words(desk: Desk) -> None:
    wallet, to = desk.bench.wallet, Keypair().pubkey()
    me = Pubkey.from_string(wallet.address)
    pays = system_transfer(TransferParams(from_pubkey=me, to_pubkey=to, lamports=LAMPORTS_PER_SOL))
    declared = Intent(
        "transfer", "", lamports_out=LAMPORTS_PER_SOL, destinations=frozenset({str(to)})
    )
    with pytest.raises(Held) as caught:
        await desk.operations.transact(wallet.id, KEY, declared, [pays], None)
    stored = func.replace(holds_table.c.recipe, "may_close", "mayClose")
    async with desk.bench.database.write() as connection:
        await connection.execute(update(holds_table).values(recipe=stored))
    hold = await desk.approvals.approve(caught.value.hold.id, "admin")
    assert hold.state is HoldState.REFUSED
    [record] = await desk.bench.history()
    assert str(record.error).endswith("another version of Solward stored the request; repeat it")
    assert await desk.paid() == 0


async def test_of_two_that_wait_for_the_same_the_one_whose_time_is_not_over_stands(
    tmp_path: Path,
) -> None:
    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        over = await desk.held(1)
        async with desk.bench.database.write() as connection:
            ended = update(holds_table).where(holds_table.c.id == over.id).values(expires_ms=1)
            await connection.execute(ended)
        other = await desk.held(1, via=VIA)
        assert over.id != other.id
        strict.clear()
        assert (await desk.held(1)).id == other.id
        assert await desk.paid() == 0


async def test_what_waits_and_would_be_refused_by_now_is_refused(tmp_path: Path) -> None:
    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        await desk.held(1)
        low = replace(KEY, limits=(("key:k1", ScopeLimits(max_lamports_per_tx=1)),))
        for _ in range(2):
            with pytest.raises(GuardrailBlocked, match="allowed per transaction"):
                await desk.ask(1, low)
            strict.clear()


@promise("held-has-no-record")
async def test_approved_it_is_paid_as_the_caller_asked(desk: Desk) -> None:
    hold = await desk.held(1)
    after = await desk.approvals.approve(hold.id, "admin", "fine")
    assert after.state is HoldState.EXECUTED
    assert (after.decided_by, after.note) == ("admin", "fine")
    [record] = await desk.bench.history()
    assert record.id == after.transaction_id
    assert record.status is TransactionStatus.CONFIRMED
    assert record.principal == "key:k1"
    assert await desk.paid() == LAMPORTS_PER_SOL
    assert await desk.bench.reserved_units() == LAMPORTS_PER_SOL


@promise("admin-decides-holds", "approval-used-up-at-reserve", "approval-used-once")
async def test_an_approval_is_used_once(desk: Desk) -> None:
    hold = await desk.held(1)
    both = await asyncio.gather(
        *(desk.approvals.approve(hold.id, who) for who in ("admin", "webhook"))
    )
    assert {each.state for each in both} == {HoldState.EXECUTED}
    again = await desk.approvals.approve(hold.id, "admin")
    assert again.transaction_id == both[0].transaction_id
    assert await desk.paid() == LAMPORTS_PER_SOL
    assert len(await desk.bench.history()) == 1


@promise("approved-pays-once", "approval-used-up-at-reserve")
async def test_two_processes_that_carry_it_out_pay_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = await desk.held(1)
    reached, resumed = asyncio.Event(), asyncio.Event()
    simulate = desk.bench.ledger.simulate

    async def slow(*given: Any, **more: Any) -> Any:
        found = await simulate(*given, **more)
        if not reached.is_set():
            reached.set()
            await resumed.wait()
        return found

    monkeypatch.setattr(desk.bench.ledger, "simulate", slow)
    approving = asyncio.create_task(desk.approvals.approve(hold.id, "admin"))
    await reached.wait()
    # Another takes it for dead while it stands still, past every look at what is known.
    await carried_out(desk.process("other"))
    resumed.set()
    after = await approving
    [record] = await desk.bench.history()
    assert (after.state, after.transaction_id) == (HoldState.EXECUTED, record.id)
    assert record.status is TransactionStatus.CONFIRMED
    assert await desk.paid() == LAMPORTS_PER_SOL


async def die_approving(desk: Desk, hold_id: str) -> None:
    """Approve, and die right after."""

    class Died(BaseException):
        pass

    def die(_step: object) -> None:
        raise Died

    desk.approvals._hook = die
    with pytest.raises(Died):
        await desk.approvals.approve(hold_id, "admin")


async def carried_out(process: Approvals) -> None:
    """A process goes on with what a dead one left."""
    await process.sweep()
    await asyncio.gather(*process._running.values())


@promise("approved-pays-once")
async def test_what_was_left_approved_goes_on_elsewhere(desk: Desk) -> None:
    hold = await desk.held(1)
    await die_approving(desk, hold.id)
    assert (await desk.all())[0].state is HoldState.APPROVED
    assert await desk.paid() == 0

    await carried_out(desk.process("other"))
    assert (await desk.all())[0].state is HoldState.EXECUTED
    assert await desk.paid() == LAMPORTS_PER_SOL
    await desk.approvals.sweep()
    assert await desk.paid() == LAMPORTS_PER_SOL


@promise("held-has-no-record")
async def test_denied_the_caller_gets_a_blocked_record(desk: Desk) -> None:
    action: dict[str, Any] = {"action_key": "agent:1:pay"}
    hold = await desk.held(1, **action)
    with pytest.raises(Held):
        await desk.ask(1, **action)
    after = await desk.approvals.deny(hold.id, "admin", "not him")
    assert after.state is HoldState.DENIED
    assert (await desk.approvals.deny(hold.id, "admin")).state is HoldState.DENIED
    with pytest.raises(GuardrailBlocked, match="grants: the operator denied it: not him"):
        await desk.ask(1, **action)
    with pytest.raises(HoldDecided, match="denied"):
        await desk.approvals.approve(hold.id, "admin")
    [record] = await desk.bench.history()
    assert record.id == after.transaction_id
    assert record.guardrails_applied[-1] == "grants"
    assert await desk.paid() == 0


@promise("denied-is-final")
async def test_over_it_can_be_approved_no_more(desk: Desk) -> None:
    hold = await desk.held(1, action_key="agent:1:pay")
    # The clock of windows is an hour on; the database's is where it was.
    desk.bench.database.windows._uptime_ms = later(desk)
    with pytest.raises(HoldDecided, match="expired"):
        await desk.approvals.approve(hold.id, "admin")
    assert [each.state for each in await desk.approvals.listed()] == [HoldState.EXPIRED]
    with pytest.raises(GuardrailBlocked, match="nobody approved it"):
        await desk.ask(1, action_key="agent:1:pay")
    assert await desk.paid() == 0


def later(desk: Desk) -> Callable[[], int]:
    """The machine's uptime an hour later; windows are a minute behind the database at most."""
    uptime = desk.bench.database.windows._uptime_ms
    return lambda: uptime() + HOUR_MS + LEAD_MS


@promise("denied-is-final", "approval-ends-in-time")
async def test_an_approval_ends_with_its_time(desk: Desk) -> None:
    hold = await desk.held(1)
    await die_approving(desk, hold.id)
    desk.bench.database.windows._uptime_ms = later(desk)
    await carried_out(desk.process("other"))
    assert (await desk.all())[0].state is HoldState.EXPIRED
    assert await desk.paid() == 0


async def full(desk: Desk) -> list[Any]:
    """The data of each alert that a principal has as many open holds as it may."""
    query = select(audit.c.data).where(audit.c.event == "alert:raised")
    async with desk.bench.database.read() as connection:
        found = [jsontext.loads(text) for text in (await connection.execute(query)).scalars()]
    return [each for each in found if each["alert"] == "holds_full"]


async def test_twenty_are_open_and_no_more(desk: Desk) -> None:
    for number in range(MAX_OPEN):
        assert await full(desk) == []
        await desk.held(1, action_key=f"a:{number}")
    [told] = await full(desk)
    assert (told["principal"], told["transactionId"]) == ("key:k1", None)
    assert f"{MAX_OPEN} transactions of key:k1 wait" in told["detail"]
    async with desk.bench.database.read() as connection:
        now = await desk.bench.database.moment(connection)
        waiting, oldest_ms = await holds.backlog(connection, now)
    created = min(each.created_ms for each in await desk.all())
    assert (waiting, oldest_ms) == ({"held": MAX_OPEN}, now.window_ms - created)
    with pytest.raises(GuardrailBlocked, match=f"grants: {MAX_OPEN} transactions of key:k1 wait"):
        await desk.ask(2)
    assert len(await desk.all()) == MAX_OPEN
    another = replace(KEY, principal="key:k2", limits=())
    assert (await desk.held(2, another)).principal == "key:k2"
    await desk.approvals.deny((await desk.all())[-1].id, "admin")
    await desk.held(2)


@promise("approver-not-own-asker", "approval-used-once")
async def test_nobody_approves_for_himself(desk: Desk) -> None:
    hold = await desk.held(1)
    desk.approvers |= {"key:k1", "key:k2", "key:k3"}
    desk.wallets_of_keys["k3"] = desk.bench.wallet.id
    for who in ("key:k1", "key:k3", "key:k4", "agent:a1", "wallet:w", "", "cli"):
        with pytest.raises(MayNotDecide):
            await desk.approvals.approve(hold.id, who)
        with pytest.raises(MayNotDecide):
            await desk.approvals.deny(hold.id, who)
    assert (await desk.all())[0].state is HoldState.HELD
    assert (await desk.approvals.approve(hold.id, "key:k2")).decided_by == "key:k2"
    assert await desk.paid() == LAMPORTS_PER_SOL


async def test_the_operator_is_a_person(desk: Desk) -> None:
    assert (await desk.ask(1, ADMIN)).status is TransactionStatus.CONFIRMED
    assert await desk.all() == []


@promise("approval-passes-no-limit", "approval-used-once", "webhook-secret-decides-only")
async def test_it_satisfies_no_limit(desk: Desk) -> None:
    hold = await desk.held(1)
    limits = ScopeLimits(daily_lamports=LAMPORTS_PER_SOL // 2)
    desk.actors["key:k1"] = replace(KEY, limits=(("key:k1", limits),))
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.REFUSED
    [record] = await desk.bench.history()
    assert record.id == after.transaction_id
    assert record.guardrails_applied[-1] == "spending_limit_check"
    assert await desk.paid() == 0


@promise("approval-passes-no-limit")
async def test_a_revoked_key_gets_nothing(desk: Desk) -> None:
    hold = await desk.held(1, action_key="a:1")
    del desk.actors["key:k1"]
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.REFUSED
    with pytest.raises(GuardrailBlocked, match="cannot be carried out any more: Invalid API key"):
        await desk.ask(1, action_key="a:1")
    assert await desk.paid() == 0


@promise("approval-passes-no-limit")
async def test_a_freeze_stops_it(desk: Desk) -> None:
    hold = await desk.held(1)
    async with desk.bench.database.write() as connection:
        await spending.set_frozen(connection, "service", True, "fire")
    with pytest.raises(HoldDecided, match="frozen"):
        await desk.approvals.approve(hold.id, "admin")
    assert (await desk.all())[0].state is HoldState.HELD
    async with desk.bench.database.write() as connection:
        await spending.set_frozen(connection, "service", False)
    await desk.approvals.approve(hold.id, "admin")
    assert await desk.paid() == LAMPORTS_PER_SOL


async def test_a_note_is_one_short_line(desk: Desk) -> None:
    hold = await desk.held(1)
    for note in ("x" * (MAX_NOTE + 1), "two\nlines", "nul\0"):
        with pytest.raises(InvalidRequest, match="note must be one line"):
            await desk.approvals.approve(hold.id, "admin", note)
    with pytest.raises(NotFound):
        await desk.approvals.approve("nothing", "admin")


@promise("transactions-refusal-beats-hold")
async def test_a_refusal_beats_a_hold(tmp_path: Path) -> None:
    def refuses(_intent: Intent, _effects: TransactionEffects) -> str | None:
        return "never"

    async with open_desk(tmp_path, rules=(asks, refuses)) as desk:
        with pytest.raises(GuardrailBlocked, match="refuses: never"):
            await desk.ask(1)
        assert await desk.all() == []


async def test_a_rule_that_refuses_later_refuses_what_was_approved(tmp_path: Path) -> None:
    is_open = [True]

    def changes_its_mind(_intent: Intent, _effects: TransactionEffects) -> Ask | str:
        return Ask("look") if is_open[0] else "closed"

    async with open_desk(tmp_path, rules=(changes_its_mind,)) as desk:
        hold = await desk.held(1)
        is_open[0] = False
        after = await desk.approvals.approve(hold.id, "admin")
        assert after.state is HoldState.REFUSED
        [record] = await desk.bench.history()
        assert record.error == "closed"


MEMO = Pubkey.from_string(MEMO_PROGRAM)
AGENT = Actor("agent:agent-1", agent_id="agent-1")


def cycle(number: int) -> Actor:
    run = AgentRun("agent-1", number, number)
    return replace(AGENT, action_key=f"agent-1:{number}:transfer:1", run=run)


async def set_agent(desk: Desk, **changes: Any) -> None:
    """The agent's row, running, in its first cycle."""
    row = agent_row("agent-1", wallet_id=desk.bench.wallet.id, fence=1) | changes
    async with desk.bench.database.write() as connection:
        await connection.execute(delete(agents))
        await connection.execute(insert(agents).values(**row))
    desk.actors[AGENT.principal] = AGENT


async def test_an_agent_that_asks_in_every_cycle_has_one_hold(desk: Desk) -> None:
    await set_agent(desk)
    first = await desk.held(1, cycle(1))
    assert "Ada" in first.sentence
    await set_agent(desk, cycle_no=2, fence=2)
    assert (await desk.held(1, cycle(2))).id == first.id
    after = await desk.approvals.approve(first.id, "admin")
    [record] = await desk.bench.history()
    assert (record.id, record.agent_id) == (after.transaction_id, "agent-1")
    # The cycle that asked finds its payment, wherever it is run again.
    await set_agent(desk)
    assert (await desk.ask(1, cycle(1))).id == record.id
    assert await desk.paid() == LAMPORTS_PER_SOL


async def test_an_interrupted_cycle_finds_what_it_had_asked_for(desk: Desk) -> None:
    await set_agent(desk, entered_ms=1)
    hold = await desk.held(1, cycle(1))
    async with desk.bench.database.read() as connection:
        found = await recall(connection, ["agent-1"])
    assert found["agent-1"].earlier_action == ("transfer", hold)
    assert "Do not repeat it" in resumed_action("transfer", hold).outcome
    await desk.approvals.approve(hold.id, "admin")
    [record] = await desk.bench.history()
    async with desk.bench.database.read() as connection:
        found = await recall(connection, ["agent-1"])
    assert found["agent-1"].earlier_action == ("transfer", record)


async def test_what_a_stopped_agent_asked_for_waits_until_it_runs(desk: Desk) -> None:
    await set_agent(desk)
    hold = await desk.held(1, cycle(1))
    await set_agent(desk, desired_state="stopped")
    with pytest.raises(HoldDecided, match="stopped"):
        await desk.approvals.approve(hold.id, "admin")
    assert (await desk.all())[0].state is HoldState.HELD
    await set_agent(desk)
    assert (await desk.approvals.approve(hold.id, "admin")).state is HoldState.EXECUTED


@pytest.mark.parametrize("is_gone", [True, False])
async def test_an_agent_stopped_or_deleted_after_the_approval_gets_nothing(
    desk: Desk, is_gone: bool
) -> None:
    await set_agent(desk)
    hold = await desk.held(1, cycle(1))
    await die_approving(desk, hold.id)
    await set_agent(desk, desired_state="stopped")
    if is_gone:
        async with desk.bench.database.write() as connection:
            await connection.execute(delete(agents))
    await carried_out(desk.process("other"))
    assert (await desk.all())[0].state is HoldState.REFUSED
    [record] = await desk.bench.history()
    assert ("deleted" if is_gone else "stopped") in (record.error or "")
    assert await desk.paid() == 0


def instruction(desk: Desk, lamports: int) -> Instruction:
    return system_transfer(
        TransferParams(
            from_pubkey=Pubkey.from_string(desk.bench.wallet.address),
            to_pubkey=Pubkey.from_string(desk.bench.recipient),
            lamports=lamports,
        )
    )


async def test_a_plugins_instructions_are_made_again(desk: Desk) -> None:
    intent = Intent("transfer", "", lamports_out=7, rent_lamports=0)
    made = [instruction(desk, LAMPORTS_PER_SOL)]
    intent = replace(intent, lamports_out=LAMPORTS_PER_SOL)
    wallet = desk.bench.wallet.id
    for _ in range(2):
        with pytest.raises(Held) as raised:
            await desk.operations.transact(wallet, KEY, intent, made, None)
    assert len(await desk.all()) == 1
    assert not raised.value.hold.repeats
    after = await desk.approvals.approve(raised.value.hold.id, "admin")
    assert after.state is HoldState.EXECUTED
    assert await desk.paid() == LAMPORTS_PER_SOL


async def test_a_plugins_bytes_take_their_approval_when_they_come_again(desk: Desk) -> None:
    intent = Intent("other", "", lamports_out=LAMPORTS_PER_SOL)
    wallet = desk.bench.wallet

    async def transact(lamports: int = LAMPORTS_PER_SOL, memo: bytes = b"") -> TransactionRecord:
        latest = await desk.bench.ledger.latest_blockhash()
        user = Pubkey.from_string(wallet.address)
        made = [instruction(desk, lamports), Instruction(MEMO, memo, [])]
        message = MessageV0.try_compile(user, made, [], Hash.from_string(latest.blockhash))
        wire = bytes(VersionedTransaction.populate(message, [Signature.default()]))
        declared = replace(intent, lamports_out=lamports)
        return await desk.operations.transact(wallet.id, KEY, declared, (), wire)

    with pytest.raises(Held) as raised:
        await transact()
    hold = raised.value.hold
    assert hold.repeats
    assert "After approval, ask for it again" in str(raised.value)
    assert (await desk.approvals.approve(hold.id, "admin")).state is HoldState.APPROVED
    assert await desk.paid() == 0
    with pytest.raises(Held):
        await transact(LAMPORTS_PER_SOL + 1)
    record = await transact(memo=b"other bytes")
    assert record.status is TransactionStatus.CONFIRMED
    assert await desk.paid() == LAMPORTS_PER_SOL
    found = {each.id: each for each in await desk.all()}
    assert (found[hold.id].state, found[hold.id].transaction_id) == (
        HoldState.EXECUTED,
        record.id,
    )
    # Used up: the next one waits again.
    with pytest.raises(Held):
        await transact(memo=b"and others")
    assert await desk.paid() == LAMPORTS_PER_SOL


async def test_what_an_agent_asks_for_again_is_not_paid_beside_its_hold(tmp_path: Path) -> None:
    strict = {"strict"}
    async with open_desk(tmp_path, rules=(asks_while(strict),)) as desk:
        await set_agent(desk)
        hold = await desk.held(1, cycle(1))
        strict.clear()
        await set_agent(desk, cycle_no=2, fence=2)
        assert (await desk.held(1, cycle(2))).id == hold.id
        await desk.approvals.approve(hold.id, "admin")
        assert await desk.paid() == LAMPORTS_PER_SOL


@promise("approved-under-a-fee-ceiling")
@pytest.mark.parametrize("fee", ["off", "auto", 50_000])
async def test_what_is_shown_bounds_a_fee_that_moves(tmp_path: Path, fee: PriorityFee) -> None:
    """The price rises by a third with each look at it."""
    async with open_desk(tmp_path, priority_fee=fee) as desk:
        hold = await desk.held()
        most = 5_000 if fee == "off" else DEFAULT_MAX_NETWORK_FEE
        assert hold.costs_lamports == most
        await desk.approvals.approve(hold.id, "admin")
        await desk.approvals.close()
        (record,) = await desk.bench.history()
        assert record.status is TransactionStatus.CONFIRMED
        assert 5_000 <= (record.fee_lamports or 0) <= most


@promise("approval-waits-for-what-passes")
@pytest.mark.parametrize("method", ["getMultipleAccounts", "simulateTransaction"])
async def test_a_node_that_does_not_answer_uses_up_no_approval(desk: Desk, method: str) -> None:
    hold = await desk.held()
    faults = dict(desk.bench.wire.faults)
    desk.bench.wire.away(method)
    waiting = await desk.approvals.approve(hold.id, "admin")
    assert waiting.state is HoldState.APPROVED
    assert waiting.reasons[0] == hold.reasons[0]
    assert waiting.reasons[1] == f"it was approved, and waits: The ledger did not answer {method}"
    for _ in range(2):
        await desk.approvals.sweep()
        await desk.approvals.close()
    assert await desk.bench.history() == []
    desk.bench.wire.faults = faults
    await desk.approvals.sweep()
    await desk.approvals.close()
    assert await desk.paid() == LAMPORTS_PER_SOL
    (ended,) = await desk.all()
    assert ended.state is HoldState.EXECUTED
    assert len(await desk.bench.history()) == 1


@promise("approval-waits-for-what-passes")
async def test_the_limit_of_a_minute_uses_up_no_approval(tmp_path: Path) -> None:
    strict = {"key:k1"}
    limits = ScopeLimits(max_tx_per_minute=1)
    async with open_desk(tmp_path, rules=(asks_while(strict),), limits=limits) as desk:
        hold = await desk.held()
        await desk.bench.transfer(Decimal("0.1"))
        waiting = await desk.approvals.approve(hold.id, "admin")
        assert waiting.state is HoldState.APPROVED
        assert "of the 1 allowed transactions" in waiting.reasons[1]
        async with desk.bench.database.write() as connection:
            await connection.execute(delete(reservations))
        await desk.approvals.sweep()
        await desk.approvals.close()
        (ended,) = await desk.all()
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, 11 * LAMPORTS_PER_SOL // 10)


@promise("approval-waits-for-what-passes")
async def test_what_waits_too_long_expires(desk: Desk) -> None:
    hold = await desk.held()
    desk.bench.wire.away("simulateTransaction")
    await desk.approvals.approve(hold.id, "admin")
    async with desk.bench.database.write() as connection:
        await connection.execute(update(holds_table).values(expires_ms=1))
    desk.bench.wire.faults.clear()
    await desk.approvals.sweep()
    await desk.approvals.close()
    (ended,) = await desk.all()
    assert (ended.state, await desk.paid()) == (HoldState.EXPIRED, 0)
