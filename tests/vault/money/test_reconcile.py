"""A second process finds what the first one left open, and ends it by asking the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.engine import LIMITS, Bench, open_bench

from solward.operations.sol import plan_airdrop
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import TransactionStatus
from solward.vault.money.engine import Engine
from solward.vault.money.request import ADMIN
from solward.vault.money.send.takeover import Reconciliation
from solward.vault.money.steps import Step

HALF = Decimal("0.5")


class Died(BaseException):
    """Stands for a SIGKILL: nothing after it runs, and nothing cleans up."""


@asynccontextmanager
async def stopped_at(tmp_path: Path, step: Step) -> AsyncIterator[Bench]:
    """A bench whose first process went no further than `step`."""
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        for part in (bench.engine, bench.engine._signing, bench.engine.sender):
            part._hook = die_at(step)
        task = asyncio.create_task(bench.engine.execute(bench.wallet.id, ADMIN, bench.draft(HALF)))
        with pytest.raises(Died):
            await task
        yield bench


def die_at(step: Step) -> Callable[[Step], None]:
    def hook(at: Step) -> None:
        if at is step:
            raise Died

    return hook


async def restarted(bench: Bench, wait_s: float = 10) -> Reconciliation:
    """Reconcile with a new engine, as a new process does."""
    engine = Engine(bench.ledger, bench.database, bench.wallets, bench.engine._options)
    engine.start()
    try:
        return await engine.reconcile(wait_s)
    finally:
        await engine.close()


@promise("start-takes-up-what-is-open", "stored-before-sent")
@pytest.mark.parametrize("step", [Step.RESERVED, Step.SIGNED])
async def test_what_was_never_written_ahead_is_released(tmp_path: Path, step: Step) -> None:
    async with stopped_at(tmp_path, step) as bench:
        assert await bench.reserved_units() == LAMPORTS_PER_SOL // 2
        assert await restarted(bench) == Reconciliation(released=1, resumed=0)
        [record] = await bench.history()
        assert record.status is TransactionStatus.FAILED
        assert "nothing was sent" in str(record.error)
        assert await bench.reserved_units() == 0
        assert await bench.lamports(bench.recipient) == 0


@promise("start-takes-up-what-is-open", "stored-before-sent")
@pytest.mark.parametrize("step", [Step.WRITTEN_AHEAD, Step.SENT])
async def test_what_was_written_ahead_lands_once(tmp_path: Path, step: Step) -> None:
    async with stopped_at(tmp_path, step) as bench:
        assert await restarted(bench) == Reconciliation(released=0, resumed=1)
        assert await restarted(bench) == Reconciliation(released=0, resumed=0)
        [record] = await bench.history()
        assert record.status is TransactionStatus.CONFIRMED
        assert record.fee_lamports == 5_000
        assert await bench.reserved_units() == LAMPORTS_PER_SOL // 2
        assert await bench.lamports(bench.recipient) == LAMPORTS_PER_SOL // 2


@promise("expired-meanwhile-is-dead")
async def test_what_expired_while_nobody_ran_is_dead(tmp_path: Path) -> None:
    async with stopped_at(tmp_path, Step.WRITTEN_AHEAD) as bench:
        await bench.localnet.advance_slots(200)
        assert await restarted(bench) == Reconciliation(released=0, resumed=1)
        [record] = await bench.history()
        assert record.status is TransactionStatus.FAILED
        assert "expired" in str(record.error)
        assert await bench.reserved_units() == 0


@promise("start-takes-up-what-is-open")
async def test_a_ledger_that_is_away_keeps_the_reservation(tmp_path: Path) -> None:
    async with stopped_at(tmp_path, Step.SENT) as bench:
        for method in ("getSignatureStatuses", "getBlockHeight", "sendTransaction"):
            bench.wire.away(method)
        assert await restarted(bench, wait_s=0.3) == Reconciliation(released=0, resumed=1)
        [record] = await bench.history()
        assert record.status is TransactionStatus.PENDING
        assert await bench.reserved_units() == LAMPORTS_PER_SOL // 2
        bench.wire.faults.clear()
        await restarted(bench)
        assert (await bench.history())[0].status is TransactionStatus.CONFIRMED


@promise("lost-airdrop-claims-nothing")
async def test_an_airdrop_that_was_cut_off_does_not_claim_that_nothing_came(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=0) as bench:

        async def die(_method: str, _params: Sequence[Any]) -> Any:
            raise Died

        bench.wire.faults["requestAirdrop"] = die
        intent, lamports = plan_airdrop(bench.wallet.address, "localnet", amount=1)
        task = asyncio.create_task(bench.engine.airdrop(bench.wallet.id, ADMIN, intent, lamports))
        with pytest.raises(Died):
            await task
        assert await restarted(bench) == Reconciliation(released=1, resumed=0)
        [record] = await bench.history()
        assert "see the wallet's balance" in str(record.error)


async def test_an_airdrop_that_was_not_settled_is_taken_up(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=0, confirm_wait_s=0.01) as bench:
        bench.wire.away("getSignatureStatuses")
        intent, lamports = plan_airdrop(bench.wallet.address, "localnet", amount=1)
        record = await bench.engine.airdrop(bench.wallet.id, ADMIN, intent, lamports)
        assert record.status is TransactionStatus.PENDING
        await bench.engine.sender.close()
        bench.wire.faults.clear()
        assert await restarted(bench) == Reconciliation(released=0, resumed=1)
        [record] = await bench.history()
        assert record.status is TransactionStatus.CONFIRMED


async def test_a_stop_does_not_wait_for_a_ledger_that_is_away(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS, close_wait_s=0.1) as bench:
        bench.wire.away("getSignatureStatuses")
        caller = asyncio.create_task(bench.transfer(HALF))
        async with asyncio.timeout(10):
            while not bench.wire.calls["getSignatureStatuses"]:
                await asyncio.sleep(0.01)
            await bench.engine.close()
        with pytest.raises(asyncio.CancelledError):
            await caller
        [record] = await bench.history()
        assert record.status is TransactionStatus.PENDING
        bench.wire.faults.clear()
        assert await restarted(bench) == Reconciliation(released=0, resumed=1)
        assert (await bench.history())[0].status is TransactionStatus.CONFIRMED
