"""A database that refuses, or whose answer to a commit is lost, while a process goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from solders.instruction import Instruction
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench, bench

from solward.context import PocketRequest
from solward.operations.sol import plan_airdrop
from solward.types.errors import StoreError, TransactionFailed
from solward.types.record import TransactionStatus
from solward.vault.money import engine as module
from solward.vault.money.request import ADMIN
from solward.vault.money.steps import Step

__all__ = ["bench"]

HALF = Decimal("0.5")
SOL = 1_000_000_000


class Outage:
    """A database that refuses every write from `begin` to `end`; `lose` has it do the next one and
    lose the answer, as where the connection is cut during the commit, and refuse from then on, but
    where it `is_short`."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = bench.database.write
        self._is_away = self._loses = self.is_short = False
        monkeypatch.setattr(bench.database, "write", self._faulty)

    def begin(self) -> None:
        self._is_away = True

    def lose(self) -> None:
        self._loses = True

    def end(self) -> None:
        self._is_away = self._loses = False

    @asynccontextmanager
    async def _faulty(self) -> AsyncIterator[AsyncConnection]:
        if self._is_away and not self._loses:
            raise StoreError("The database cannot be reached")
        async with self._write() as connection:
            yield connection
        if self._loses:
            self._loses, self._is_away = False, not self.is_short
            raise StoreError("The database cannot be reached")


@pytest.fixture
def outage(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Outage:
    monkeypatch.setattr(module, "TAKE_UP_S", 0.01)
    return Outage(bench, monkeypatch)


def at(step: Step, do: Callable[[], None]) -> Callable[[Step], None]:
    def hook(found: Step) -> None:
        if found is step:
            do()

    return hook


def hooked(bench: Bench, hook: Callable[[Step], None]) -> None:
    for part in (bench.engine, bench.engine._signing, bench.engine.sender):
        part._hook = hook


async def ended(bench: Bench) -> TransactionStatus:
    """The status of the one record, once it has ended."""

    async def has_ended() -> bool:
        return all(r.status is not TransactionStatus.PENDING for r in await bench.history())

    await until(has_ended)
    [record] = await bench.history()
    return record.status


async def refused(bench: Bench) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        await bench.transfer(HALF)


@promise("outage-taken-up")
async def test_what_was_reserved_when_the_database_went_away_is_given_back_once_it_answers(
    bench: Bench, outage: Outage
) -> None:
    hooked(bench, at(Step.RESERVED, outage.begin))
    await refused(bench)
    assert await bench.reserved_units() == SOL // 2
    outage.end()
    assert await ended(bench) is TransactionStatus.FAILED
    assert await bench.reserved_units() == 0
    assert await bench.lamports(bench.recipient) == 0
    hooked(bench, lambda _step: None)
    assert (await bench.transfer(HALF)).status is TransactionStatus.CONFIRMED


@promise("outage-taken-up")
async def test_a_reservation_whose_commit_was_not_answered_is_given_back(
    bench: Bench, outage: Outage
) -> None:
    hooked(bench, at(Step.ASSESSED, outage.lose))
    await refused(bench)
    outage.end()
    assert await ended(bench) is TransactionStatus.FAILED
    assert await bench.reserved_units() == 0


@promise("outage-taken-up")
async def test_bytes_whose_commit_was_not_answered_land_once_or_never(
    bench: Bench, outage: Outage
) -> None:
    hooked(bench, at(Step.SIGNED, outage.lose))
    await refused(bench)
    outage.end()
    assert await ended(bench) is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == SOL // 2
    assert await bench.reserved_units() == SOL // 2


async def test_bytes_whose_commit_was_not_answered_are_not_sent_after_they_were_called_failed(
    bench: Bench, outage: Outage
) -> None:
    outage.is_short = True
    hooked(bench, at(Step.SIGNED, outage.lose))
    with pytest.raises(TransactionFailed, match="nothing was sent"):
        await bench.transfer(HALF)
    assert await ended(bench) is TransactionStatus.FAILED
    assert await bench.engine.reconcile() == module.Reconciliation(0, 0)
    assert await bench.lamports(bench.recipient) == 0
    assert await bench.reserved_units() == 0


async def test_an_airdrop_that_was_asked_for_when_the_database_went_away_ends(
    bench: Bench, outage: Outage
) -> None:
    async def away(method: str, params: Any) -> Any:
        outage.begin()
        return await bench.wire.direct(method, params)

    bench.wire.faults["requestAirdrop"] = away
    intent, lamports = plan_airdrop(bench.wallet.address, "localnet", amount=1)
    with pytest.raises(StoreError):
        await bench.engine.airdrop(bench.wallet.id, ADMIN, intent, lamports)
    outage.end()
    assert await ended(bench) is TransactionStatus.FAILED


@promise("outage-taken-up")
async def test_what_a_pocket_holds_when_the_database_goes_away_comes_home(
    bench: Bench, outage: Outage
) -> None:
    before = await bench.lamports(bench.wallet.address)

    async def build(_address: str) -> Sequence[Instruction]:
        outage.begin()
        return []

    request = PocketRequest(build=build, lamports=20_000_000)
    with pytest.raises(StoreError):
        await bench.operations().use_pocket(bench.wallet.id, ADMIN, request)
    assert await bench.lamports(bench.wallet.address) == before - 20_005_000
    outage.end()
    assert await ended(bench) is TransactionStatus.FAILED
    assert await bench.lamports(bench.wallet.address) == before - 15_000


async def test_closing_does_not_wait_for_a_database_that_is_away(
    bench: Bench, outage: Outage
) -> None:
    hooked(bench, at(Step.RESERVED, outage.begin))
    await refused(bench)
    async with asyncio.timeout(2):
        await bench.engine.close()
    outage.end()
    [record] = await bench.history()
    assert record.status is TransactionStatus.PENDING
