"""Compute-unit limit and price: what lands on a congested cluster, and what a lie can cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from sqlalchemy import update
from tests.promises import promise
from tests.support.engine import Bench, open_bench
from tests.support.grants import grant, limit
from tests.support.rpc import Congestion
from tests.support.swaps import SOL, open_swaps, pay_sol

from solward.context import PocketRequest
from solward.database.tables import attempts
from solward.operations.policies.changes import replace_set
from solward.operations.policies.grant_report import limits_report
from solward.solana.message import FeeTerms, fee_terms
from solward.solana.programs import COMPUTE_BUDGET_PROGRAM
from solward.types.errors import GuardrailBlocked, LedgerRejected
from solward.types.money import lamports_to_sol
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.money.judge.building import (
    PERCENTILE,
    QUIET_PRICE,
    UNKNOWN_PRICE,
    Budget,
    auto_price,
    compile_instructions,
    limit_fits,
    with_margin,
)
from solward.vault.money.request import ADMIN, Actor
from solward.vault.store import attempts as attempt_store
from solward.vault.store.attempts import Attempt

FLOOR = 3_000_000
MAX_FEE = 1_000_000
PENDING, CONFIRMED = TransactionStatus.PENDING, TransactionStatus.CONFIRMED
# The VM's own count of a plain transfer, and of each Compute Budget instruction.
TRANSFER_UNITS, BUDGET_UNITS = 150, 150


async def attempts_of(bench: Bench, record: TransactionRecord) -> list[Attempt]:
    async with bench.database.read() as connection:
        return await attempt_store.of_transaction(connection, record.id)


async def terms_of(bench: Bench, record: TransactionRecord) -> FeeTerms:
    (attempt,) = await attempts_of(bench, record)
    return fee_terms(VersionedTransaction.from_bytes(attempt.wire).message)


async def charged(bench: Bench, record: TransactionRecord) -> int:
    """Lamports that the ledger charged for all of a record's transactions."""
    fees = 0
    for attempt in await attempts_of(bench, record):
        landed = await bench.ledger.transaction(attempt.signature)
        assert landed is not None
        fees += int(landed["meta"]["fee"])
    return fees


@promise("auto-covers-nine-tenths")
async def test_a_transfer_lands_on_a_congested_cluster_by_what_the_node_says(
    tmp_path: Path,
) -> None:
    async with open_bench(tmp_path, priority_fee="auto", confirm_wait_s=10) as bench:
        congestion = Congestion(FLOOR).before(bench.wire)
        before = await bench.lamports(bench.wallet.address)
        record = await bench.transfer(1)
        assert (record.status, congestion.dropped) == (CONFIRMED, [])
        assert congestion.asked == [sorted([bench.wallet.address, bench.recipient])]
        terms = await terms_of(bench, record)
        limit = with_margin(TRANSFER_UNITS + BUDGET_UNITS)
        bid = FLOOR * limit // 10**6
        assert terms == FeeTerms(5_000 + bid, limit, FLOOR, bid)
        assert before - await bench.lamports(bench.wallet.address) == SOL + terms.lamports
        assert record.to_json(fee=True)["fee"] == {
            "lamports": terms.lamports,
            "computeUnits": TRANSFER_UNITS + 2 * BUDGET_UNITS,
            "computeUnitLimit": limit,
            "priorityFeeMicroLamports": FLOOR,
        }
        assert await bench.history() == [record]


@promise("own-price-stands")
async def test_without_a_fee_it_is_pending_and_its_bytes_stay_as_they_are(tmp_path: Path) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.3) as bench:
        congestion = Congestion(FLOOR).before(bench.wire)
        record = await bench.transfer(1)
        assert record.status is PENDING
        assert record.to_json(fee=True)["fee"] == {
            "lamports": 5_000,
            "computeUnits": TRANSFER_UNITS,
            "priorityFeeMicroLamports": 0,
        }
        (attempt,) = await attempts_of(bench, record)
        message = VersionedTransaction.from_bytes(attempt.wire).message
        assert COMPUTE_BUDGET_PROGRAM not in map(str, message.account_keys)
        assert congestion.asked == []
        assert bench.wire.calls["simulateTransaction"] == 1


@pytest.mark.more
@promise("no-fee-bump-in-a-record")
async def test_a_floor_that_rises_changes_no_bytes_that_may_land(tmp_path: Path) -> None:
    # Raising the fee of a living attempt would make two payments of one.
    async with open_bench(tmp_path, priority_fee="auto", confirm_wait_s=0.2) as bench:
        congestion = Congestion(FLOOR, reported=[FLOOR // 2] * 150).before(bench.wire)
        record = await bench.transfer(1)
        assert record.status is PENDING
        (attempt,) = await attempts_of(bench, record)
        congestion.reported = [FLOOR] * 150
        async with asyncio.timeout(10):
            while len(congestion.dropped) < 2:
                await asyncio.sleep(0.02)
        assert set(congestion.dropped) == {attempt.signature}
        assert [each.wire for each in await attempts_of(bench, record)] == [attempt.wire]
        # The next request pays the price of now, and the first one can land yet.
        again = replace(await bench.transfer(2), guardrails_applied=())
        assert (again.status, again.compute_unit_price) == (CONFIRMED, FLOOR)
        congestion.floor = 0
        async with asyncio.timeout(10):
            while (await bench.history())[1].status is PENDING:
                await asyncio.sleep(0.02)
        assert await bench.lamports(bench.recipient) == 3 * SOL


@promise("fee-bytes-judged-again")
@pytest.mark.parametrize(("setting", "status"), [("auto", CONFIRMED), ("off", PENDING)])
async def test_a_pocket_swap_lands_with_a_fee_and_waits_without(
    tmp_path: Path, setting: Any, status: TransactionStatus
) -> None:
    wait_s = 10 if setting == "auto" else 0.3
    async with open_swaps(tmp_path, priority_fee=setting, confirm_wait_s=wait_s) as swaps:
        Congestion(1_000_000).before(swaps.bench.wire)
        record = await swaps.swap("SOL", "USDC", 1)
        assert record.status is status
        terms = await terms_of(swaps.bench, record)
        assert record.fee_lamports == terms.lamports
        if setting == "auto":
            assert terms.unit_price == 1_000_000
            assert terms.lamports == await charged(swaps.bench, record) > 10_000
            assert record.compute_units is not None
            # What the venue says it needs is only where the simulation starts.
            assert terms.unit_limit == with_margin(record.compute_units)


@promise("priority-fee-is-capped", "lying-node-price-capped")
@pytest.mark.parametrize("price", [2**63, 2**200, 10**12])
async def test_a_node_that_lies_about_prices_costs_the_most_that_is_set(
    tmp_path: Path, price: int
) -> None:
    for max_fee in (MAX_FEE, 20_000):
        home = tmp_path / str(max_fee)
        home.mkdir()
        async with open_bench(
            home, priority_fee="auto", policy=Policy(max_fee_lamports=max_fee)
        ) as bench:
            Congestion(0, reported=[price] * 150).before(bench.wire)
            record = await bench.transfer(1)
            assert record.status is CONFIRMED
            assert record.fee_lamports == await charged(bench, record)
            assert max_fee - 2 <= (record.fee_lamports or 0) <= max_fee


@promise("lying-node-price-capped")
async def test_a_number_is_lowered_to_the_most_that_is_set_too(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path, priority_fee=10**12, policy=Policy(max_fee_lamports=20_000)
    ) as bench:
        record = await bench.transfer(1)
        assert 19_998 <= await charged(bench, record) <= 20_000
        assert bench.wire.calls["getRecentPrioritizationFees"] == 0


async def no_method(_method: str, _params: Sequence[Any]) -> Any:
    raise LedgerRejected(-32601, "Method not found")


async def no_answer(_method: str, _params: Sequence[Any]) -> Any:
    await asyncio.sleep(60)


async def nonsense(_method: str, _params: Sequence[Any]) -> Any:
    return [{"slot": 1, "prioritizationFee": -5}]


@promise("silent-node-default-price")
@pytest.mark.parametrize("answer", [no_method, no_answer, nonsense])
async def test_a_node_that_says_no_price_fails_no_payment(tmp_path: Path, answer: Any) -> None:
    async with open_bench(tmp_path, priority_fee="auto") as bench:
        bench.wire.faults["getRecentPrioritizationFees"] = answer
        for amount in (1, 2):
            record = await bench.transfer(amount)
            assert (record.status, record.compute_unit_price) == (CONFIRMED, UNKNOWN_PRICE)
        # It is not asked again for each payment.
        assert bench.wire.calls["getRecentPrioritizationFees"] == 1


@promise("auto-covers-nine-tenths")
async def test_where_nobody_competes_it_pays_next_to_nothing(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee="auto") as bench:
        record = await bench.transfer(1)
        assert record.compute_unit_price == QUIET_PRICE
        assert record.fee_lamports == await charged(bench, record) < 5_100


@promise("priority-fee-fails-none")
async def test_a_wallet_that_has_no_more_than_the_least_pays_the_least(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee=FLOOR, sol=1) as bench:
        record = await bench.transfer(lamports_to_sol(SOL - 5_000))
        assert (record.status, record.fee_lamports) == (CONFIRMED, 5_000)
        assert await bench.lamports(bench.wallet.address) == 0


@promise("known-shape-no-call")
async def test_a_shape_that_is_known_costs_no_second_simulation(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee="auto") as bench:
        await bench.transfer(1)
        calls = bench.wire.calls
        assert (calls["simulateTransaction"], calls["getRecentPrioritizationFees"]) == (2, 1)
        await bench.transfer(2)
        assert (calls["simulateTransaction"], calls["getRecentPrioritizationFees"]) == (3, 1)


async def test_equal_payments_at_once_have_room_for_their_memo(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee=FLOOR) as bench:
        records = await asyncio.gather(*(bench.transfer(1) for _ in range(3)))
        assert {record.status for record in records} == {CONFIRMED}
        assert await bench.lamports(bench.recipient) == 3 * SOL
        for record in records:
            assert record.compute_units is not None
            assert record.compute_unit_limit is not None
            assert record.compute_units < record.compute_unit_limit


@promise("rebuilt-costs-no-more")
async def test_a_rebuilt_transaction_costs_no_more_than_was_judged(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee=FLOOR) as bench:
        first = await bench.transfer(1)
        limit = with_margin(TRANSFER_UNITS + BUDGET_UNITS)
        blockhash = await bench.engine._assessor.blockhashes.get()
        unsigned = compile_instructions(
            bench.draft(2), blockhash.blockhash, None, Budget(limit, FLOOR)
        )
        signer = await bench.wallets.signer(bench.wallet.id)
        collision = Signature(await signer.sign(bytes(to_bytes_versioned(unsigned.message))))
        async with bench.database.write() as connection:
            await connection.execute(update(attempts).values(signature=str(collision)))
        second = await bench.transfer(2)
        assert (second.status, second.signature != str(collision)) == (CONFIRMED, True)
        # Its memo needs more units, so each is paid less.
        assert (second.compute_unit_limit or 0) > limit
        assert (second.compute_unit_price or 0) < FLOOR
        assert first.fee_lamports is not None
        assert first.fee_lamports - 2 <= (second.fee_lamports or 0) <= first.fee_lamports


@promise("own-price-stands")
async def test_a_price_in_the_instructions_stands(tmp_path: Path) -> None:
    async with open_bench(tmp_path, priority_fee=FLOOR) as bench:
        draft = bench.draft(1)
        own = (set_compute_unit_limit(9_999), set_compute_unit_price(7), *draft.instructions)
        record = await bench.engine.execute(
            bench.wallet.id, ADMIN, replace(draft, instructions=own)
        )
        assert (record.compute_unit_limit, record.compute_unit_price) == (9_999, 7)
        # A limit alone is only where the simulation starts.
        limited = (set_compute_unit_limit(9_999), *bench.draft(2).instructions)
        record = await bench.engine.execute(
            bench.wallet.id, ADMIN, replace(bench.draft(2), instructions=limited)
        )
        assert record.compute_unit_limit == with_margin(TRANSFER_UNITS + BUDGET_UNITS)


@promise("fee-sums-all-steps")
@pytest.mark.parametrize("setting", ["off", FLOOR])
async def test_all_steps_of_a_pocket_are_counted(tmp_path: Path, setting: Any) -> None:
    async with open_bench(tmp_path, priority_fee=setting) as bench:
        target = Pubkey.from_string(bench.recipient)

        async def build(address: str) -> Sequence[Instruction]:
            return [pay_sol(Pubkey.from_string(address), target, 2_000_000)]

        request = PocketRequest(build=build, lamports=20_000_000)
        record = await bench.operations().use_pocket(bench.wallet.id, ADMIN, request)
        steps = await attempts_of(bench, record)
        assert [each.step for each in steps] == ["fund", "call", "sweep"]
        assert record.fee_lamports == await charged(bench, record)
        used = [await bench.ledger.transaction(each.signature) for each in steps]
        units = sum(each["meta"]["computeUnitsConsumed"] for each in used if each is not None)
        assert record.compute_units == units
        prices = {
            fee_terms(VersionedTransaction.from_bytes(each.wire).message).unit_price
            for each in steps
        }
        assert prices == {0 if setting == "off" else FLOOR}
        assert record.compute_unit_price == max(prices)
        assert (record.fee_lamports == 20_000) == (setting == "off")
        assert (await bench.history())[0] == record


@promise("priority-fee-is-capped")
@pytest.mark.parametrize("whose", ["wallet", "agent"])
async def test_a_sweep_bids_no_more_than_the_ceiling_of_costs_leaves(
    tmp_path: Path, whose: str
) -> None:
    """A node says what a sweep bids, and a sweep is never refused."""
    most = MAX_FEE + 30_000
    ceiling = ScopeLimits(daily_costs_lamports=most)
    limits = ceiling if whose == "wallet" else ScopeLimits()
    actor = ADMIN if whose == "wallet" else replace(ADMIN, limits=(("agent:a", ceiling),))
    async with open_bench(tmp_path, priority_fee="auto", limits=limits) as bench:
        Congestion(0, reported=[2**63] * 150).before(bench.wire)
        target = Pubkey.from_string(bench.recipient)

        async def build(address: str) -> Sequence[Instruction]:
            return [pay_sol(Pubkey.from_string(address), target, 2_000_000)]

        request = PocketRequest(build=build, lamports=20_000_000)
        record = await bench.operations().use_pocket(bench.wallet.id, actor, request)
        assert record.status is CONFIRMED
        fund, _, sweep = [
            fee_terms(VersionedTransaction.from_bytes(each.wire).message).lamports
            for each in await attempts_of(bench, record)
        ]
        assert most - 2 <= fund + sweep <= most
        scope = f"wallet:{bench.wallet.id}" if whose == "wallet" else "agent:a"
        report = await limits_report(bench.database, scope, ceiling)
        assert report["maxCostsSolPerDay"]["spent"] == lamports_to_sol(fund + sweep)


BASE_FEE = 5_000


@promise("bid-leaves-room")
@pytest.mark.parametrize("setting", ["auto", 2**40])
@pytest.mark.parametrize("whose", ["wallet", "agent", "grant"])
async def test_a_bid_is_lowered_to_the_costs_that_are_left(
    tmp_path: Path, whose: str, setting: Any
) -> None:
    ceiling = ScopeLimits(daily_costs_lamports=40_000)
    limits = ceiling if whose == "wallet" else ScopeLimits()
    own = ceiling if whose == "agent" else ScopeLimits()
    actor = Actor("agent:a", limits=(("agent:a", own),))
    async with open_bench(tmp_path, priority_fee=setting, limits=limits) as bench:
        Congestion(0, reported=[2**63] * 150).before(bench.wire)
        if whose == "grant":
            made = grant("agent:a", costs=40_000, SOL=limit("SOL", 10 * SOL))
            await replace_set(bench.database, "agent:a", [made])
        trial = await bench.engine.dry_run(bench.wallet.id, actor, bench.draft(1))
        assert trial.verdict.allowed
        assert trial.effects is not None
        assert BASE_FEE < trial.effects.fee_lamports <= 40_000
        first = await bench.transfer(1, actor)
        assert (first.status, trial.effects.fee_lamports) == (CONFIRMED, first.fee_lamports)
        paid = first.fee_lamports or 0
        assert 39_990 <= paid <= 40_000
        # Nothing is left, not even for a fee without a bid.
        with pytest.raises(GuardrailBlocked, match="fees and rent"):
            await bench.transfer(2, actor)
        assert await charged(bench, first) == paid


@promise("bid-leaves-room")
@pytest.mark.parametrize("order", [1, -1])
async def test_of_several_grants_the_one_with_most_left_for_costs_bounds_the_bid(
    tmp_path: Path, order: int
) -> None:
    actor = Actor("agent:a", limits=(("agent:a", ScopeLimits()),))
    async with open_bench(tmp_path, priority_fee=2**40) as bench:
        grants = [grant("agent:a", costs=left, SOL=limit("SOL", 10 * SOL)) for left in (0, 40_000)]
        await replace_set(bench.database, "agent:a", grants[::order])
        record = await bench.transfer(1, actor)
        assert 39_990 <= (record.fee_lamports or 0) <= 40_000


@promise("bid-leaves-room")
async def test_what_does_not_fit_without_a_bid_is_refused_by_its_costs(tmp_path: Path) -> None:
    ceiling = ScopeLimits(daily_costs_lamports=BASE_FEE - 1)
    async with open_bench(tmp_path, priority_fee=100_000, limits=ceiling) as bench:
        with pytest.raises(GuardrailBlocked, match="costs_limit"):
            await bench.transfer(1)
        [record] = await bench.history()
        assert record.status is TransactionStatus.BLOCKED
        # What the caller set itself is no bid of the service, and stays as it is.
        own = set_compute_unit_limit(10_000), set_compute_unit_price(10**6)
        priced = [*own, *bench.draft(1).instructions]
        with pytest.raises(GuardrailBlocked, match="costs_limit"):
            await bench.engine.execute(
                bench.wallet.id, ADMIN, replace(bench.draft(1), instructions=tuple(priced))
            )


@promise("bid-leaves-room")
async def test_equal_payments_share_what_is_left_of_the_costs(tmp_path: Path) -> None:
    ceiling = ScopeLimits(daily_costs_lamports=5 * BASE_FEE + 3_000)
    async with open_bench(tmp_path, priority_fee=10**9, limits=ceiling) as bench:
        sent = await asyncio.gather(
            *(bench.transfer(Decimal("0.1")) for _ in range(8)), return_exceptions=True
        )
        paid = [each for each in sent if isinstance(each, TransactionRecord)]
        # The first bids all that is left.
        assert 1 <= len(paid) <= 5
        assert sum(each.fee_lamports or 0 for each in paid) <= 5 * BASE_FEE + 3_000
        assert all(isinstance(each, TransactionRecord | GuardrailBlocked) for each in sent)


@promise("auto-covers-nine-tenths")
def test_auto_is_what_was_enough_in_nine_of_ten_slots() -> None:
    assert PERCENTILE == 90
    assert auto_price([]) == QUIET_PRICE
    assert auto_price([0] * 150) == QUIET_PRICE
    assert auto_price([0] * 134 + [10**6] * 16) == 10**6
    assert auto_price([0] * 136 + [10**6] * 14) == QUIET_PRICE
    assert auto_price([70_000]) == 70_000


def test_a_limit_has_a_margin_and_is_never_more_than_the_network_allows() -> None:
    assert [with_margin(units) for units in (0, 300, 100_000, 1_300_000)] == [
        1_000,
        1_300,
        120_000,
        1_400_000,
    ]
    assert limit_fits(100_000, 120_000)
    assert limit_fits(109_000, 120_000)
    assert not limit_fits(111_000, 120_000)
    assert not limit_fits(10_000, 120_000)
    assert limit_fits(1_400_000, 1_400_000)
