"""Several processes on one database: each transaction is one's, and when it is gone, another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from tests.promises import promise
from tests.support.database import agent_row
from tests.support.engine import LIMITS, Bench, Wire, open_bench

from solward.agents import store as agent_store
from solward.database.tables import attempts, transactions
from solward.operations.sol import plan_airdrop
from solward.types.errors import SkillError, TakenOver, TransactionFailed
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import Policy
from solward.vault.ledger.client import Ledger
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, Actor, AgentRun
from solward.vault.money.send.takeover import Reconciliation, hold_lease
from solward.vault.store import processes
from solward.vault.store import transactions as store

HALF = Decimal("0.5")
HALF_LAMPORTS = LAMPORTS_PER_SOL // 2


@asynccontextmanager
async def another(bench: Bench) -> AsyncIterator[Engine]:
    """The engine of another process, with the same database and the same ledger."""
    options = EngineOptions(policy=Policy(), wallet_limits=LIMITS)
    ledger = Ledger(Wire(bench.localnet))
    engine = Engine(ledger, bench.database, bench.wallets, options)
    engine.start()
    try:
        yield engine
    finally:
        await engine.close()


class Pause:
    """A place where a process stands still, as if it were stopped by a signal."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.resumed = asyncio.Event()

    async def __call__(self, *_: object) -> None:
        self.reached.set()
        await self.resumed.wait()


def pause_before_signing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Pause:
    pause = Pause()
    signer = bench.wallets.signer

    async def frozen(wallet_id: str) -> Any:
        await pause()
        return await signer(wallet_id)

    monkeypatch.setattr(bench.engine._signing, "_wallets", type("W", (), {"signer": frozen}))
    return pause


async def count(bench: Bench, table: Any) -> int:
    async with bench.database.read() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


@promise("taken-over-cannot-store")
async def test_who_was_taken_over_before_signing_can_send_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench, another(bench) as other:
        pause = pause_before_signing(bench, monkeypatch)
        paying = asyncio.create_task(bench.transfer(HALF))
        await pause.reached.wait()
        assert await other.reconcile() == Reconciliation(released=1, resumed=0)

        pause.resumed.set()
        with pytest.raises(TransactionFailed, match="taken this transaction over") as refused:
            await paying

        [record] = await bench.history()
        assert record.status is TransactionStatus.FAILED
        assert refused.value.record == record
        assert await count(bench, attempts) == 0
        assert bench.wire.calls["sendTransaction"] == 0
        assert await bench.reserved_units() == 0


async def test_what_another_has_taken_and_not_released_yet_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        pause = pause_before_signing(bench, monkeypatch)
        paying = asyncio.create_task(bench.transfer(HALF))
        await pause.reached.wait()
        async with bench.database.write() as connection:
            assert len(await processes.take_over(connection, "another", 10)) == 1

        pause.resumed.set()
        with pytest.raises(TransactionFailed, match="taken this transaction over"):
            await paying
        [record] = await bench.history()
        assert record.status is TransactionStatus.PENDING
        assert await bench.reserved_units() == HALF_LAMPORTS
        assert await count(bench, attempts) == 0
        assert bench.wire.calls["sendTransaction"] == 0


@promise("taken-over-cannot-store")
async def test_a_payment_that_two_finish_lands_once_and_both_say_so(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench, another(bench) as other:
        pause = Pause()

        async def frozen(_method: str, _params: Sequence[Any]) -> None:
            await pause()

        bench.wire.faults["sendTransaction"] = frozen
        paying = asyncio.create_task(bench.transfer(HALF))
        await pause.reached.wait()
        assert await other.reconcile(10) == Reconciliation(released=0, resumed=1)
        assert await bench.lamports(bench.recipient) == HALF_LAMPORTS

        pause.resumed.set()
        record = await paying
        assert record.status is TransactionStatus.CONFIRMED
        [stored] = await bench.history()
        assert stored == record
        assert await bench.lamports(bench.recipient) == HALF_LAMPORTS


@pytest.mark.parametrize("released", [True, False])
async def test_the_airdrop_of_who_was_taken_over_is_not_called_confirmed(
    tmp_path: Path, released: bool
) -> None:
    async with open_bench(tmp_path, limits=LIMITS, sol=0) as bench, another(bench) as other:
        pause = Pause()

        async def frozen(_method: str, _params: Sequence[Any]) -> None:
            await pause()

        bench.wire.faults["requestAirdrop"] = frozen
        intent, lamports = plan_airdrop(bench.wallet.address, "localnet", amount=1)
        asking = asyncio.create_task(bench.engine.airdrop(bench.wallet.id, ADMIN, intent, lamports))
        await pause.reached.wait()
        if released:
            assert await other.reconcile() == Reconciliation(released=1, resumed=0)
        else:
            async with bench.database.write() as connection:
                await processes.take_over(connection, "another", 10)
        pause.resumed.set()
        with pytest.raises(TransactionFailed, match="the faucet may have paid it"):
            await asking
        [record] = await bench.history()
        status = TransactionStatus.FAILED if released else TransactionStatus.PENDING
        assert (record.status, record.signature) == (status, None)


@promise("lease-and-takeover")
async def test_who_lives_is_not_taken_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> None:
        return None

    async with (
        open_bench(tmp_path, limits=LIMITS) as bench,
        another(bench) as other,
        hold_lease(bench.database, bench.engine.process, nothing),
    ):
        pause = pause_before_signing(bench, monkeypatch)
        paying = asyncio.create_task(bench.transfer(HALF))
        await pause.reached.wait()
        assert await other.reconcile() == Reconciliation(released=0, resumed=0)
        pause.resumed.set()
        assert (await paying).status is TransactionStatus.CONFIRMED


async def test_a_lease_that_ran_out_protects_no_longer_and_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench, another(bench) as other:
        process = bench.engine.process
        async with bench.database.write() as connection:
            await processes.register(connection, process.id, "api", "here", -1)
            assert not await processes.alive(connection, process.id)
            assert await processes.list_living(connection) == []
        pause = pause_before_signing(bench, monkeypatch)
        paying = asyncio.create_task(bench.transfer(HALF))
        await pause.reached.wait()
        assert (await other.reconcile()).released == 1
        pause.resumed.set()
        with pytest.raises(TransactionFailed):
            await paying
        if bench.database.shared:
            async with bench.database.write() as connection:
                await processes.renew(connection, process.id, "api", "here", 60_000)
                assert await processes.list_living(connection) == ["api on here"]
        assert (await bench.transfer(HALF)).status is TransactionStatus.CONFIRMED


async def orphan(bench: Bench, number: int) -> None:
    """A reservation of a process that is gone."""
    record = TransactionRecord(
        f"orphan-{number}",
        bench.wallet.id,
        "transfer",
        TransactionStatus.PENDING,
        {"amount": HALF},
        (),
        created_ms=number,
        principal="admin",
    )
    async with bench.database.write() as connection:
        await store.insert_record(connection, record, action_key=None, owner="gone")


@promise("lease-and-takeover")
async def test_two_who_look_after_the_dead_never_take_the_same(bench: Bench) -> None:
    async with another(bench) as one, another(bench) as two:
        for number in range(40):
            await orphan(bench, number)
        found = await asyncio.gather(*(each.reconcile() for each in (one, two, one, two)))
        assert sum(each.released for each in found) == 40
        history = await bench.history()
        assert {record.status for record in history} == {TransactionStatus.FAILED}
        statement = select(transactions.c.owner).distinct()
        async with bench.database.read() as connection:
            owners = set((await connection.execute(statement)).scalars())
        assert owners <= {one.process.id, two.process.id}


async def agent(bench: Bench, cycle: int, fence: int) -> str:
    row = agent_row("agent-1", wallet_id=bench.wallet.id, cycle_no=cycle, fence=fence)
    async with bench.database.write() as connection:
        await agent_store.insert_agent(connection, row)
    return "agent-1"


@promise("rerun-cycle-pays-once")
@pytest.mark.parametrize(
    "run", [("agent-1", 7, 2), ("agent-1", 6, 3), ("agent-1", 7, 4), ("agent-2", 7, 3)]
)
async def test_a_run_that_lost_its_fence_spends_nothing_and_leaves_nothing(
    tmp_path: Path, run: tuple[str, int, int]
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await agent(bench, cycle=7, fence=3)
        stale = Actor("agent:agent-1", action_key="agent-1:7:transfer:1", run=AgentRun(*run))
        for amount in (HALF, Decimal(100)):  # one that would pass, and one that would be refused
            with pytest.raises(TakenOver):
                await bench.transfer(amount, stale)
        assert await bench.history() == []
        assert bench.wire.calls["sendTransaction"] == 0

        holder = Actor(
            "agent:agent-1", action_key="agent-1:7:transfer:1", run=AgentRun("agent-1", 7, 3)
        )
        assert (await bench.transfer(HALF, holder)).status is TransactionStatus.CONFIRMED


@promise("revoked-ends-what-began")
async def test_the_fence_is_read_with_the_reservation_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await agent(bench, cycle=7, fence=3)
        pause = Pause()
        assess = bench.engine._assessor.assess

        async def slow(*given: Any, **named: Any) -> Any:
            assessed = await assess(*given, **named)
            await pause()
            return assessed

        monkeypatch.setattr(bench.engine._assessor, "assess", slow)
        actor = Actor("agent:agent-1", run=AgentRun("agent-1", 7, 3))
        paying = asyncio.create_task(bench.transfer(HALF, actor))
        await pause.reached.wait()
        async with bench.database.write() as connection:
            await agent_store.update_agent(connection, "agent-1", {"fence": 4})
        pause.resumed.set()
        with pytest.raises(TakenOver):
            await paying
        assert await bench.history() == []


@promise("revoked-ends-what-began")
async def test_an_agent_that_was_stopped_meanwhile_spends_nothing(tmp_path: Path) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench:
        await agent(bench, cycle=7, fence=3)
        reached, go = asyncio.Event(), asyncio.Event()

        async def simulating(_method: str, _params: Any) -> None:
            reached.set()
            await go.wait()

        bench.wire.faults["simulateTransaction"] = simulating
        actor = Actor("agent:agent-1", run=AgentRun("agent-1", 7, 3))
        paying = asyncio.create_task(bench.transfer(HALF, actor))
        await reached.wait()
        async with bench.database.write() as connection:
            await agent_store.update_agent(connection, "agent-1", {"desired_state": "stopped"})
        go.set()
        with pytest.raises(SkillError, match="The agent was stopped"):
            await paying
        assert await bench.history() == []
        assert await bench.reserved_units() == 0


async def test_one_action_asked_for_at_two_processes_at_once_is_one_payment(
    tmp_path: Path,
) -> None:
    async with open_bench(tmp_path, limits=LIMITS) as bench, another(bench) as other:
        actor = Actor("agent:a", action_key="a:1:transfer:1")
        draft = bench.draft(HALF)
        engines = [bench.engine, other] * 4
        records = await asyncio.gather(
            *(engine.execute(bench.wallet.id, actor, draft) for engine in engines)
        )
        assert len({record.id for record in records}) == 1
        [stored] = await bench.history()
        assert stored.id == records[0].id
        assert await bench.lamports(bench.recipient) == HALF_LAMPORTS


async def test_a_stopped_process_leaves_its_lease(tmp_path: Path) -> None:
    async def nothing() -> None:
        return None

    async with open_bench(tmp_path) as bench:
        lease = hold_lease(bench.database, bench.engine.process, nothing)
        async with lease, bench.database.read() as connection:
            assert await processes.alive(connection, bench.engine.process.id)
        async with bench.database.read() as connection:
            assert not await processes.alive(connection, bench.engine.process.id)


async def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path) -> None:
    renewed = asyncio.Event()

    async def looked_after() -> None:
        renewed.set()
        raise RuntimeError("the next renewal comes all the same")

    async with open_bench(tmp_path) as bench:
        if not bench.database.shared:
            pytest.skip("on SQLite nobody else can be there")
        process = bench.engine.process
        until = select(processes.processes.c.lease_until_ms)
        async with hold_lease(bench.database, process, looked_after, renew_s=0.05):
            ends = []
            for _ in range(5):
                renewed.clear()
                await renewed.wait()
                async with bench.database.read() as connection:
                    ends.append((await connection.execute(until)).scalar_one())
            assert ends == sorted(set(ends))


@promise("lease-and-takeover")
async def test_on_sqlite_a_start_is_the_end_of_all_others(bench: Bench) -> None:
    async with bench.database.write() as connection:
        await connection.execute(
            insert(processes.processes).values(
                id="before", kind="api", host="here", started_ms=0, lease_until_ms=2**62
            )
        )
        await processes.register(connection, "me", "api", "here", 10_000)
        assert await processes.alive(connection, "before") is bench.database.shared
