"""How long a slot takes: measured by what is answered anyway, and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.engine import Bench, Wire, open_bench
from tests.support.localnet import StillClock
from tests.support.rpc import answers_of, listening
from tests.vault.ledger.test_failover import Clock

from solward.solana.protocol import LEAST_SLOT_MS, MOST_SLOT_MS, UNMEASURED_SLOT_MS
from solward.types.money import U64_MAX
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import FailoverTransport, Node
from solward.vault.ledger.protocol import (
    LEAST_OVER_S,
    OVER_S,
    SlotTime,
    median_s,
    newest_slot,
    sampled_slot_s,
)
from solward.vault.ledger.transport import HttpTransport
from solward.vault.money.judge.blockhash import MAX_AGE_BLOCKS


def watched(slot_s: float, seconds: float = 30.0, first: int = 1_000) -> tuple[SlotTime, Clock]:
    """A measure that has seen every second of a cluster."""
    clock = Clock()
    time = SlotTime(clock)
    began = clock.now
    while clock.now - began <= seconds:
        time.note_slot(first + int((clock.now - began) / slot_s))
        clock.now += 1
    return time, clock


@pytest.mark.parametrize("slot_s", [0.4, 0.3, 0.214, 0.2, 0.15])
def test_it_is_measured_by_the_slots_that_are_seen(slot_s: float) -> None:
    time, _ = watched(slot_s)
    assert time.measured_s == pytest.approx(slot_s, rel=0.03)


def test_it_is_not_measured_over_a_moment() -> None:
    time, _ = watched(0.2, LEAST_OVER_S / 2)
    assert time.measured_s is None
    assert median_s([time]) == UNMEASURED_SLOT_MS / 1000


def test_a_cluster_that_changes_its_pace_is_followed() -> None:
    time, clock = watched(0.4, 2 * OVER_S)
    slot = 10_000
    for _ in range(int(OVER_S) + 5):
        clock.now += 1
        slot += 5
        time.note_slot(slot)
    assert time.measured_s == pytest.approx(0.2, rel=0.05)


def test_nodes_behind_one_address_that_are_apart_change_little() -> None:
    clock = Clock()
    time = SlotTime(clock)
    for second in range(120):
        clock.now += 1
        time.note_slot(10_000 + 5 * second - (30 if second % 2 else 0))
    assert time.measured_s == pytest.approx(0.2, rel=0.15)


def test_a_slot_that_cannot_be_is_outlived() -> None:
    time, clock = watched(0.2)
    time.note_slot(U64_MAX)
    assert time.measured_s == LEAST_SLOT_MS / 1000
    for second in range(3 * int(OVER_S)):
        clock.now += 1
        time.note_slot(2_000 + 5 * second)
    assert time.measured_s == pytest.approx(0.2, rel=0.03)


@promise("slot-time-bounded")
@pytest.mark.parametrize(
    ("slots", "seconds", "counted_ms"),
    [
        (60_000, 60, LEAST_SLOT_MS),
        (1, 3_600, MOST_SLOT_MS),
        (280, 60, 60_000 / 280),
    ],
)
def test_what_a_node_claims_is_bounded(slots: int, seconds: int, counted_ms: float) -> None:
    time = SlotTime(Clock())
    time.measure([{"numSlots": slots, "samplePeriodSecs": seconds}])
    assert time.measured_s == pytest.approx(counted_ms / 1000)


@pytest.mark.parametrize(
    "samples",
    [
        None, [], {}, "x", [None], [{}], [{"numSlots": 0, "samplePeriodSecs": 60}],
        [{"numSlots": "5", "samplePeriodSecs": 60}], [{"numSlots": True, "samplePeriodSecs": 1}],
        [{"numSlots": 2**64, "samplePeriodSecs": 60}], [{"numSlots": 5, "samplePeriodSecs": 1.5}],
    ],
)  # fmt: skip
def test_samples_of_any_shape_say_nothing(samples: Any) -> None:
    assert sampled_slot_s(samples) is None


def test_of_several_nodes_most_count() -> None:
    honest, other, liar = SlotTime(), SlotTime(), SlotTime()
    honest.measured_s, other.measured_s, liar.measured_s = 0.21, 0.2, 1.0
    assert median_s([liar, honest, other, SlotTime()]) == 0.21


@pytest.mark.parametrize(
    ("method", "answer", "slot"),
    [
        ("getSlot", 7, 7),
        ("getEpochInfo", {"absoluteSlot": 8}, 8),
        ("getBalance", {"context": {"slot": 9}, "value": 1}, 9),
        ("getSlot", -1, None),
        ("getSlot", True, None),
        ("getBlockHeight", 5, None),
        ("getBalance", {"context": None}, None),
        ("getBalance", {"context": {"slot": 2**64}}, None),
        ("getTransaction", None, None),
    ],
)
def test_the_slot_that_an_answer_names(method: str, answer: Any, slot: int | None) -> None:
    assert newest_slot(method, answer) == slot


@promise("slot-time-measured")
@pytest.mark.parametrize("slot_ms", [400, 300, 200, 150])
async def test_plans_are_as_old_as_the_clusters_slots_allow(tmp_path: Path, slot_ms: int) -> None:
    clock = StillClock()
    options = {"slot_ms": slot_ms, "clock": clock, "ticker": False}
    async with open_bench(tmp_path, localnet_options=options) as bench:
        clock.now_ms += 120_000
        await bench.transfer(Decimal("0.1"))
        assert bench.ledger.slot_s == pytest.approx(slot_ms / 1000)
        source = bench.engine._assessor.blockhashes
        assert source._cached is not None
        asked = bench.wire.calls["getLatestBlockhash"]
        for age, more in ((0.9, 0), (1.1, 1)):
            fetched, blockhash = source._cached
            source._cached = (fetched - age * MAX_AGE_BLOCKS * slot_ms / 1000, blockhash)
            await bench.transfer(Decimal("0.1"))
            assert bench.wire.calls["getLatestBlockhash"] == asked + more


async def test_a_node_that_does_not_say_delays_nothing(bench: Bench) -> None:
    for method in ("getRecentPerformanceSamples", "getAgGenesisCert"):
        bench.wire.away(method)
    ledger = Ledger(bench.wire)
    await ledger.look()
    assert ledger.slot_s == UNMEASURED_SLOT_MS / 1000
    asked = bench.wire.calls.total()
    await ledger.look()
    assert bench.wire.calls.total() == asked


# The commitment that is asked for.


def words(wire: Wire) -> set[str]:
    """The commitments of all calls from now on; a set that grows."""
    found: set[str] = set()
    direct = wire.call

    async def call(method: str, params: Any) -> Any:
        found.update(
            each["commitment"] for each in params if isinstance(each, dict) and "commitment" in each
        )
        return await direct(method, params)

    wire.call = call  # type: ignore[method-assign]
    return found


@promise("commitment-by-consensus")
@pytest.mark.parametrize(
    ("finality", "asked"), [("alpenglow", "finalized"), ("tower", "confirmed")]
)
async def test_the_consensus_decides_what_is_asked_for(
    tmp_path: Path, finality: str, asked: str
) -> None:
    async with open_bench(tmp_path, localnet_options={"finality": finality}) as bench:
        await bench.ledger.look()
        used = words(bench.wire)
        await bench.transfer(Decimal("0.5"))
        assert used == {asked}


@promise("commitment-by-consensus")
async def test_a_node_that_knows_confirmed_no_more_works(tmp_path: Path) -> None:
    """And does not say its consensus."""
    async with open_bench(tmp_path, localnet_options={"finality": "finalized"}) as bench:
        bench.wire.away("getAgGenesisCert")
        ledger = Ledger(bench.wire)
        assert await ledger.balance(bench.wallet.address) == 10 * 10**9
        bench.wire.calls.clear()
        assert await ledger.balance(bench.wallet.address) == 10 * 10**9
        assert bench.wire.calls.total() == 1
        await bench.transfer(Decimal("0.5"))
        assert await bench.lamports(bench.recipient) == 5 * 10**8


@promise("commitment-by-consensus")
@pytest.mark.parametrize("rests", [False, True])
async def test_one_nodes_certificate_has_no_other_node_asked_for_older_state(
    tmp_path: Path, rests: bool
) -> None:
    async with (
        open_bench(tmp_path, localnet_options={"finality": "tower"}) as bench,
        listening(*[answers_of(bench.localnet)] * 2) as (liar, honest),
    ):

        async def certificate(_method: str, _params: Sequence[Any]) -> Any:
            return {"block": {"slot": 0}}

        liar.faults["getAgGenesisCert"] = certificate
        asked: list[str] = []

        async def notes(method: str, params: Sequence[Any]) -> Any:
            asked.append(params[1]["commitment"])
            return await bench.wire.direct(method, params)

        honest.faults["getBalance"] = notes
        transports = [HttpTransport(node.url, 5, retries=0) for node in (liar, honest)]
        transport = FailoverTransport([Node(t.origin, t, lambda _hash: None) for t in transports])
        ledger = Ledger(transport)
        for made, host in zip(transports, ("liar.example", "honest.example"), strict=True):
            made.origin = host
        try:
            if rests:
                ledger.nodes = lambda: (ledger._with_transport(transports[0]),)  # type: ignore[method-assign]
            await ledger.look()
            for _ in range(4):
                await ledger.balance(bench.wallet.address)
        finally:
            await transport.close()
        assert set(asked) == {"confirmed"}
