"""What happens to a transaction is told once, with its record as it then is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import LIMITS, Bench, open_bench

from solward.types.errors import GuardrailBlocked, TransactionFailed
from solward.types.events import Event
from solward.types.record import TransactionStatus
from solward.vault.store import attempts
from solward.vault.store.attempts import AttemptState, Settlement


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path, limits=LIMITS, sol=1) as made:
        yield made


@pytest.fixture
def told(bench: Bench) -> Iterator[list[Event]]:
    heard: list[Event] = []
    bench.database.on_committed = heard.extend
    yield heard
    numbers = [event.seq for event in heard]
    if bench.database.shared:
        assert numbers == sorted(set(numbers))
    else:
        # The bench's own wallet was the first.
        assert numbers == list(range(2, 2 + len(numbers)))


def kinds(told: list[Event]) -> list[str]:
    return [event.event.removeprefix("transaction:") for event in told]


async def test_a_transfer_is_pending_then_confirmed(bench: Bench, told: list[Event]) -> None:
    record = await bench.transfer(Decimal("0.1"))
    assert kinds(told) == ["pending", "confirmed"]
    pending, confirmed = (event.data for event in told)
    assert confirmed == record.to_json()
    assert pending == {k: v for k, v in confirmed.items() if k != "signature"} | {
        "status": "pending"
    }


async def test_what_is_refused_is_told_alone(bench: Bench, told: list[Event]) -> None:
    with pytest.raises(GuardrailBlocked) as blocked:
        await bench.transfer(3)
    with pytest.raises(TransactionFailed) as failed:
        await bench.transfer(Decimal("1.5"))
    assert kinds(told) == ["blocked", "failed"]
    records: list[Any] = [raised.value.record for raised in (blocked, failed)]
    assert [event.data for event in told] == [record.to_json() for record in records]


async def test_a_signer_that_fails_is_told_as_failed_after_pending(
    bench: Bench, told: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_wallet_id: str) -> None:
        raise RuntimeError("no signer")

    monkeypatch.setattr(bench.wallets, "signer", refuse)
    with pytest.raises(TransactionFailed):
        await bench.transfer(Decimal("0.1"))
    assert kinds(told) == ["pending", "failed"]
    assert "could not be signed" in told[1].data["error"]


@promise("status-changes-once", "end-stored-once")
async def test_an_end_is_told_once_and_stays(bench: Bench, told: list[Event]) -> None:
    """Another process that gives up on what has landed changes nothing and tells nothing."""
    record = await bench.transfer(Decimal("0.1"))
    late = Settlement(record.id, TransactionStatus.FAILED, AttemptState.DEAD, 0, 0, error="late")
    reserved = await bench.reserved_units()
    async with bench.database.write() as connection:
        await attempts.settle(connection, [late])
    assert kinds(told) == ["pending", "confirmed"]
    assert (await bench.history())[0].status is TransactionStatus.CONFIRMED
    assert await bench.reserved_units() == reserved


async def test_a_caller_that_went_away_does_not_silence_the_end(
    bench: Bench, told: list[Event]
) -> None:
    task = asyncio.create_task(bench.transfer(Decimal("0.1")))
    while not told:
        await asyncio.sleep(0)
    task.cancel()

    async def ended() -> bool:
        return len(told) == 2

    await until(ended)
    assert kinds(told) == ["pending", "confirmed"]
