"""A pocket used in steps: what a hostile call can take, what comes home, what counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import AssignParams, assign
from spl.token.constants import WRAPPED_SOL_MINT as WSOL
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench, open_bench
from tests.support.localnet import rent
from tests.support.swaps import USDC, pay_sol

from solward.context import PocketRequest
from solward.types.errors import GuardrailBlocked, InvalidRequest, NotFound, TransactionFailed
from solward.types.money import lamports_to_sol
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor
from solward.vault.store import attempts as attempt_store
from solward.vault.store import pockets as store
from solward.vault.store import spending
from solward.vault.store.attempts import AttemptState
from solward.vault.store.pockets import PocketRow, PocketState

FUND_FEE, CALL_FEE, SWEEP_FEE = 5_000, 5_000, 10_000
LAMPORTS = 20_000_000
EMPTY_FLOOR = rent(0)


def calling(*instructions: Instruction) -> Any:
    async def build(_address: str) -> Sequence[Instruction]:
        return instructions

    return build


def paying(target: Pubkey, lamports: int) -> Any:
    async def build(address: str) -> Sequence[Instruction]:
        return [pay_sol(Pubkey.from_string(address), target, lamports)]

    return build


async def use(bench: Bench, build: Any, actor: Actor = ADMIN, **given: Any) -> TransactionRecord:
    request = PocketRequest(build=build, **{"lamports": LAMPORTS, **given})
    return await bench.operations().use_pocket(bench.wallet.id, actor, request)


async def row_of(bench: Bench) -> PocketRow:
    async with bench.database.read() as connection:
        (row,) = await store.of_wallet(connection, bench.wallet.id)
    return row


async def steps_of(bench: Bench, record_id: str) -> list[tuple[str, AttemptState]]:
    async with bench.database.read() as connection:
        found = await attempt_store.of_transaction(connection, record_id)
    return [(each.step, each.state) for each in found]


async def only_record(bench: Bench) -> TransactionRecord:
    (record,) = await bench.history()
    return record


OK = AttemptState.LANDED_OK
ALL = [("fund", OK), ("call", OK), ("sweep", OK)]


@promise("returns-never-below-zero")
async def test_what_a_call_leaves_comes_home_and_only_what_left_counts(bench: Bench) -> None:
    before = await bench.lamports(bench.wallet.address)
    receiver = Keypair().pubkey()
    record = await use(bench, paying(receiver, 1_000_000))
    row = await row_of(bench)
    assert record.status is TransactionStatus.CONFIRMED
    assert record.type == "other"
    filled = {"operation": "transfer", "amount": lamports_to_sol(LAMPORTS), "asset": "SOL"}
    assert record.details == {
        "pocket": row.address,
        "leaves": [{**filled, "to": row.address}],
    }
    assert await steps_of(bench, record.id) == ALL
    assert await bench.lamports(str(receiver)) == 1_000_000
    assert await bench.lamports(row.address) == 0
    left = 1_000_000 + FUND_FEE + CALL_FEE + SWEEP_FEE
    assert await bench.lamports(bench.wallet.address) == before - left
    assert (row.state, row.at_risk) == (PocketState.EMPTY, {})
    stored = await only_record(bench)
    assert stored.signature == record.signature
    status = (await bench.ledger.statuses([str(record.signature)]))[0]
    assert status is not None
    # What the pocket spent, its own fee included; the wallet's fees are costs.
    assert await bench.reserved_units() == 1_000_000 + CALL_FEE


@promise("pocket-loses-what-it-holds", "call-takes-only-input")
async def test_a_call_that_takes_everything_takes_what_was_put_in(bench: Bench) -> None:
    before = await bench.lamports(bench.wallet.address)
    thief = Keypair().pubkey()
    record = await use(bench, paying(thief, LAMPORTS - CALL_FEE))
    assert record.status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.wallet.address) == before - LAMPORTS - FUND_FEE
    assert await bench.reserved_units() == LAMPORTS
    # Nothing to take home, so no sweep.
    assert await steps_of(bench, record.id) == ALL[:2]


async def _names_wallet(bench: Bench, address: str) -> Sequence[Instruction]:
    return [pay_sol(Pubkey.from_string(bench.wallet.address), Keypair().pubkey(), 1)]


async def _raises(_bench: Bench, _address: str) -> Sequence[Instruction]:
    raise RuntimeError("no such thing")


async def _fails(_bench: Bench, address: str) -> Sequence[Instruction]:
    return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), LAMPORTS)]


async def _without_pocket(_bench: Bench, _address: str) -> Any:
    return b"\x01" * 100


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (_names_wallet, "need a signature besides the wallet's"),
        (_raises, "The call could not be made: RuntimeError"),
        (_fails, "The call would fail: insufficient balance"),
        (_without_pocket, "transaction"),
    ],
)
async def test_a_call_that_cannot_be_made_brings_everything_home(
    bench: Bench, made: Any, text: str
) -> None:
    before = await bench.lamports(bench.wallet.address)

    async def build(address: str) -> Any:
        return await made(bench, address)

    with pytest.raises(TransactionFailed, match=text) as caught:
        await use(bench, build)
    record = caught.value.record
    assert await steps_of(bench, record.id) == [("fund", OK), ("sweep", OK)]
    assert await bench.lamports(bench.wallet.address) == before - FUND_FEE - SWEEP_FEE
    assert await bench.reserved_units() == 0
    row = await row_of(bench)
    assert row.state is PocketState.EMPTY
    assert await bench.lamports(row.address) == 0
    assert (await only_record(bench)).signature is None


async def test_a_call_that_would_bring_too_little_is_not_signed(bench: Bench) -> None:
    wsol = str(WSOL)
    with pytest.raises(TransactionFailed, match=f"bring -1005000 units of {wsol}, at least 0"):
        await use(bench, paying(Keypair().pubkey(), 1_000_000), returns={wsol: 0})
    assert await bench.reserved_units() == 0


@promise("pocket-loses-what-it-holds")
async def test_the_funding_is_held_to_the_limits(tmp_path: Path) -> None:
    limits = ScopeLimits(max_lamports_per_tx=LAMPORTS)
    async with open_bench(tmp_path, limits=limits) as bench:
        with pytest.raises(GuardrailBlocked) as caught:
            await use(bench, calling(), lamports=LAMPORTS + 1)
        assert caught.value.rule == "max_per_tx"
        assert bench.wire.calls["sendTransaction"] == 0
        await use(bench, paying(Keypair().pubkey(), 1_000_000))


@promise("freeze-lets-pockets-home", "freeze-stops-call")
async def test_a_freeze_after_the_funding_stops_the_call_and_sweeps_home(bench: Bench) -> None:
    before = await bench.lamports(bench.wallet.address)

    async def build(address: str) -> Sequence[Instruction]:
        async with bench.database.write() as connection:
            scope = f"wallet:{bench.wallet.id}"
            await spending.set_frozen(connection, scope, True, "an alarm")
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

    with pytest.raises(TransactionFailed, match="transactions are frozen: an alarm") as caught:
        await use(bench, build)
    assert await steps_of(bench, caught.value.record.id) == [("fund", OK), ("sweep", OK)]
    assert await bench.lamports(bench.wallet.address) == before - FUND_FEE - SWEEP_FEE
    assert await bench.reserved_units() == 0
    with pytest.raises(GuardrailBlocked) as blocked:
        await use(bench, build)
    assert blocked.value.rule == "freeze"


@promise("unemptied-pocket-stays-open")
async def test_a_pocket_that_was_given_away_stays_open_and_the_record_ends(bench: Bench) -> None:
    """Bytes that assign the pocket to a program: its lamports cannot be moved any more."""

    async def build(address: str) -> Sequence[Instruction]:
        params = AssignParams(pubkey=Pubkey.from_string(address), owner=Keypair().pubkey())
        return [assign(params)]

    record = await use(bench, build)
    assert record.status is TransactionStatus.CONFIRMED
    row = await row_of(bench)
    assert row.state is PocketState.OPEN
    # All of the funding is what is lost, and what counts.
    assert row.at_risk == {"SOL": LAMPORTS}
    assert await bench.reserved_units() == LAMPORTS


@promise("late-arrivals-swept", "returns-never-below-zero")
async def test_what_arrives_while_it_is_swept_is_swept_too(bench: Bench) -> None:
    donor = Keypair()
    await bench.localnet.call("requestAirdrop", [str(donor.pubkey()), 10**9])
    gifts = [5_000_000, 6_000_000]

    async def build(address: str) -> Sequence[Instruction]:
        sent = bench.wire.calls["sendTransaction"]

        async def give(_method: str, _params: Any) -> None:
            # Before each sweep that is sent, not before the call.
            if bench.wire.calls["sendTransaction"] > sent + 1 and gifts:
                await bench.localnet.call("requestAirdrop", [address, gifts.pop()])

        bench.wire.faults["sendTransaction"] = give
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

    record = await use(bench, build)
    steps = [step for step, _ in await steps_of(bench, record.id)]
    assert steps == ["fund", "call", "sweep", "sweep", "sweep"]
    row = await row_of(bench)
    assert (row.state, await bench.lamports(row.address)) == (PocketState.EMPTY, 0)
    # More came home than was spent: nothing counts, and nothing is below nothing.
    assert await bench.reserved_units() == 0


@promise("one-pocket-per-position")
async def test_a_position_keeps_its_pocket_and_shows_what_is_at_risk(bench: Bench) -> None:
    program = str(Keypair().pubkey())
    named = {"program": program, "position": "first", "stays": True}
    await use(bench, paying(Keypair().pubkey(), 1_000_000), **named)
    row = await row_of(bench)
    assert (row.program, row.position, row.state) == (program, "first", PocketState.OPEN)
    assert row.at_risk == {"SOL": LAMPORTS}
    assert await bench.lamports(row.address) == LAMPORTS - 1_000_000 - CALL_FEE
    # A later call may take all that is in it, the older part too.
    await use(bench, paying(Keypair().pubkey(), 1_000_000), **named)
    again = await row_of(bench)
    assert (again.counter, again.at_risk) == (row.counter, {"SOL": 2 * LAMPORTS})
    # Without `stays` it is emptied.
    await use(bench, paying(Keypair().pubkey(), 1_000_000), **(named | {"stays": False}))
    last = await row_of(bench)
    assert (last.counter, last.state, last.at_risk) == (row.counter, PocketState.EMPTY, {})
    assert await bench.lamports(row.address) == 0


WITHOUT_MEANING: tuple[tuple[dict[str, Any], str], ...] = (
    ({"lamports": -1}, "lamports must be whole numbers"),
    ({"lamports": 1.5}, "lamports must be whole numbers"),
    ({"lamports": 0}, "lamports or tokens must be given"),
    ({"tokens": {USDC: 0}}, "tokens must be whole numbers of smallest units from 1"),
    ({"mints": tuple(str(Keypair().pubkey()) for _ in range(5))}, "at most 4 mints"),
    ({"mints": ("x",)}, "mints must be base58 addresses"),
    ({"position": "a"}, "program and position must be given together"),
    ({"stays": True}, "stays requires program and position"),
    ({"program": "x", "position": "a"}, "program must be base58"),
    ({"program": USDC, "position": "\n"}, "position must be text of 1 to 64"),
    ({"tokens": {str(WSOL): 1}}, "give SOL as lamports"),
)


async def test_what_cannot_be_meant_is_refused_by_field(bench: Bench) -> None:
    for given, text in WITHOUT_MEANING:
        with pytest.raises(InvalidRequest, match=text):
            await use(bench, calling(), **given)
    assert await bench.history() == []


async def test_a_sweep_empties_a_position_of_a_frozen_wallet(bench: Bench) -> None:
    program = str(Keypair().pubkey())
    named = {"program": program, "position": "first", "stays": True}
    await use(bench, paying(Keypair().pubkey(), 1_000_000), **named)
    address = (await row_of(bench)).address
    before, counted = await bench.lamports(bench.wallet.address), await bench.reserved_units()
    async with bench.database.write() as connection:
        await spending.set_frozen(connection, f"wallet:{bench.wallet.id}", True)
    record = await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, address)
    assert record.status is TransactionStatus.CONFIRMED
    assert record.details == {"pocket": address}
    home = LAMPORTS - 1_000_000 - CALL_FEE
    assert await bench.lamports(bench.wallet.address) == before + home - SWEEP_FEE
    row = await row_of(bench)
    assert (row.state, row.at_risk) == (PocketState.EMPTY, {})
    # What comes home of an older use gives nothing back, and a sweep takes nothing.
    assert await bench.reserved_units() == counted
    with pytest.raises(NotFound, match="Pocket not found"):
        await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, address)


async def test_a_pocket_that_was_closed_and_holds_something_is_swept(bench: Bench) -> None:
    """A node that lied called it empty, or somebody sent to it since."""
    await use(bench, paying(Keypair().pubkey(), 1_000_000))
    row = await row_of(bench)
    assert row.state is PocketState.EMPTY
    before = await bench.lamports(bench.wallet.address)
    await bench.wire.direct("requestAirdrop", [row.address, 1_000_000_000])

    async def arrived() -> bool:
        return await bench.lamports(row.address) > 0

    await until(arrived)
    record = await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, row.address)
    assert record.status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.wallet.address) == before + 1_000_000_000 - SWEEP_FEE
    assert (await row_of(bench)).state is PocketState.EMPTY


async def test_a_funding_that_is_never_signed_leaves_no_open_pocket(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_key(_self: object, _wallet_id: str) -> None:
        raise RuntimeError("no key")

    monkeypatch.setattr(type(bench.wallets), "signer", no_key)
    with pytest.raises(TransactionFailed, match="could not be signed"):
        await use(bench, calling())
    assert (await row_of(bench)).state is PocketState.EMPTY
