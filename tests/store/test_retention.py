"""Old events and decisions go, the rest stays, and the audit log stays whole throughout."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.database import WALLET_ROW, AuditLog, agent_row

from solward.agents import store as agents
from solward.audit.log import CheckedLog
from solward.database import outbox
from solward.database.database import Database, try_lock_exclusive
from solward.database.tables import (
    agent_usage,
    decisions,
    judged_effects,
    memory,
    reservation_totals,
    reservations,
    transactions,
    wallets,
)
from solward.database.tables import audit as entries_table
from solward.resources.policy import MAX_DAYS
from solward.service import retention
from solward.service.retention import RetentionResult, delete_old_rows, hourly_retention
from solward.service.service import Solward
from solward.settings import Settings
from solward.support.clock import iso, now_ms
from solward.support.durations import DAY_MS, HOUR_MS
from solward.types.errors import AuditBroken, ConfigError, StoreError
from solward.types.payment import PaymentMode, Served
from solward.vault.custody import Wallets
from solward.vault.grants.decide import Case
from solward.vault.grants.judged import JudgedCase, to_row
from solward.vault.store import judged, payments
from solward.vault.store.payments import PaymentRow, StoredAnswer

NOW = 1000 * DAY_MS
DAYS = 30
OLD, YOUNG = NOW - DAYS * DAY_MS - 1, NOW - DAYS * DAY_MS


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


@pytest.fixture
def keeping() -> Settings:
    return settings(event_retention_days=DAYS, decision_retention_days=DAYS)


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


async def append(database: Database, ms: int, *chains: str) -> None:
    """An entry in each chain, each in a transaction of its own."""
    for chain in chains:
        async with database.write() as connection:
            await outbox.append_many(
                connection, ms, [(chain, "x", {"amount": 1})], database.audit_key
            )


async def left(database: Database) -> dict[str, list[int]]:
    """The numbers of each chain's entries."""
    found: dict[str, list[int]] = {}
    for entry in await AuditLog(database).after(0, 10_000):
        if entry.event == "audit:pruned":
            continue
        found.setdefault(entry.chain, []).append(entry.number)
    return found


async def count(database: Database) -> int:
    async with database.read() as connection:
        told = entries_table.c.event != "audit:pruned"
        statement = select(func.count()).select_from(entries_table).where(told)
        return int((await connection.execute(statement)).scalar_one())


async def verify(database: Database, earlier: CheckedLog | None = None) -> CheckedLog:
    return await AuditLog(database).verify(heads=None if earlier is None else earlier.heads)


async def test_chains_lose_their_old_beginnings_and_the_log_stays_whole(
    database: Database, keeping: Settings
) -> None:
    ends = [await verify(database)]
    for ms in (1, OLD, OLD, YOUNG, NOW):
        await append(database, ms, "agent:b", "wallet:a")
        ends.append(await verify(database))
    await append(database, OLD, "agent:still", "agent:still")
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(decisions=0, events=7)
    assert await left(database) == {"agent:b": [4, 5], "wallet:a": [4, 5], "agent:still": [2]}
    log = await verify(database)
    assert (log.entries, log.pruned) == (6, 7)
    for earlier in ends:
        await verify(database, earlier)
    await append(database, NOW, "agent:b", "agent:still")
    assert (await verify(database, log)).entries == 8
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(events=1)
    assert (await left(database))["agent:still"] == [3]
    await verify(database, log)


async def test_the_last_entry_of_each_chain_stays_and_numbers_go_on(
    database: Database, keeping: Settings
) -> None:
    await append(database, 1, *["agent:b", "wallet:a", "wallet:b"] * 3)
    newest = await AuditLog(database).end()
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(events=6)
    assert await left(database) == {"agent:b": [3], "wallet:a": [3], "wallet:b": [3]}
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult()
    await append(database, NOW, "wallet:a")
    end = await AuditLog(database).end()
    assert end > newest
    if not database.shared:
        assert end == newest + 2  # one tells what was cut
    assert (await verify(database)).entries == 5


async def test_what_follows_an_entry_that_stays_stays_too(
    database: Database, keeping: Settings
) -> None:
    """As after a clock that was wrong for a while: a chain is only ever cut from its beginning."""
    for ms in (OLD, YOUNG, OLD, YOUNG):
        await append(database, ms, "wallet:a")
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(events=1)
    assert await left(database) == {"wallet:a": [2, 3, 4]}
    await verify(database)


async def test_what_was_tampered_with_before_is_still_found_after(
    database: Database, keeping: Settings
) -> None:
    await append(database, OLD, *["wallet:a"] * 4)
    await append(database, NOW, "wallet:a", "wallet:a")
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit SET data = '{}' WHERE number = 5"))
    await delete_old_rows(database, keeping, NOW)
    with pytest.raises(StoreError, match="broken at entry 5 of wallet:a"):
        await verify(database)


async def test_it_deletes_in_batches_and_goes_on_after_it_was_cut_off(
    database: Database, keeping: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = ["agent:b", "wallet:a", "agent:a"]
    await append(database, OLD, *chains * 8)
    await append(database, NOW, *chains)
    before = await verify(database)
    monkeypatch.setattr(retention, "BATCH", 5)
    monkeypatch.setattr(retention, "PAUSE_S", 600)
    for stop in range(1, 4):
        running = asyncio.create_task(delete_old_rows(database, keeping, NOW))
        async with asyncio.timeout(20):
            while await count(database) > 27 - 5 * stop:
                await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert await count(database) == 27 - 5 * stop
        await verify(database, before)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(events=9)
    assert await left(database) == {chain: [9] for chain in chains}
    await verify(database, before)


async def test_others_append_meanwhile(
    database: Database, keeping: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = ["agent:b", "wallet:a", "agent:a"]
    await append(database, OLD, *chains * 30)
    monkeypatch.setattr(retention, "BATCH", 7)
    monkeypatch.setattr(retention, "PAUSE_S", 0.001)

    async def write(chain: str) -> None:
        for _ in range(30):
            await append(database, NOW, chain, "agent:new")

    (deleted, *_) = await asyncio.gather(
        delete_old_rows(database, keeping, NOW), *(write(chain) for chain in chains)
    )
    log = await verify(database)
    assert await count(database) == 90 + 180 - deleted.events
    again = await delete_old_rows(database, keeping, NOW)
    assert deleted.events + again.events == 90
    await verify(database, log)
    assert await count(database) == 180


async def test_decisions_go_by_their_own_days_and_memory_stays(database: Database) -> None:
    row = {"reasoning": "", "action": None, "outcome": ""}
    rows = [
        row | {"agent_id": agent, "cycle": cycle, "created_ms": ms}
        for agent in ("a", "b")
        for cycle, ms in enumerate((1, OLD, YOUNG, NOW), 1)
    ]
    async with database.write() as connection:
        await connection.execute(insert(decisions), [each | {"observations": ""} for each in rows])
        await connection.execute(insert(memory), rows)
    await append(database, OLD, "agent:b", "agent:b")
    keeping = settings(decision_retention_days=DAYS)
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(decisions=4)
    async with database.read() as connection:
        kept = await connection.execute(select(decisions.c.agent_id, decisions.c.cycle))
        assert sorted(tuple(each) for each in kept) == [("a", 3), ("a", 4), ("b", 3), ("b", 4)]
        assert len((await connection.execute(select(memory))).all()) == 8
    assert await count(database) == 2


async def test_many_decisions_go_in_batches(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"agent_id": "a", "observations": "", "reasoning": "", "outcome": "", "created_ms": OLD}
    async with database.write() as connection:
        await connection.execute(
            insert(decisions), [row | {"cycle": number} for number in range(12)]
        )
    monkeypatch.setattr(retention, "BATCH", 5)
    begun: list[str] = []
    database.on_transaction = begun.append
    keeping = settings(decision_retention_days=DAYS)
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(decisions=12)
    assert begun.count("write") == 3 + 2  # and one for sellers' answers, of which there are none


async def test_without_days_everything_is_kept(database: Database) -> None:
    await append(database, 1, "agent:b", "agent:b")
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult()
    assert await count(database) == 2


@pytest.mark.more
async def test_one_process_does_it_at_a_time(
    postgres_url: str, tmp_path: Path, keeping: Settings
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    await append(database, OLD, "agent:b", "agent:b")
    async with database.write() as connection:
        assert await try_lock_exclusive(connection, "retention")
        assert await delete_old_rows(database, keeping, NOW) == RetentionResult()
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(events=1)
    await database.close()


async def test_a_service_does_it_every_hour_and_survives_a_refusal(
    tmp_path: Path, keeping: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retention.EVERY_S == 3600
    database = await Database.open(None, tmp_path)
    runs: list[int] = []
    done = asyncio.Event()

    async def run(opened: Database, given: Settings, now_ms: int) -> RetentionResult:
        assert (opened, given) == (database, keeping)
        runs.append(now_ms)
        if len(runs) < 3:
            raise StoreError("The database refused: disk full")
        done.set()
        return RetentionResult()

    monkeypatch.setattr(retention, "delete_old_rows", run)
    monkeypatch.setattr(retention, "EVERY_S", 0)
    with capture_logs() as logs:
        async with asyncio.timeout(10), hourly_retention(database, keeping):
            await done.wait()
    assert [(each["event"], each["error"]) for each in logs] == [
        ("retention_failed", "The database refused: disk full")
    ] * 2
    assert len(asyncio.all_tasks()) == 1
    await database.close()


async def test_a_service_cuts_what_is_old_as_it_starts(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    await Wallets.open(database, settings(solward_home=tmp_path), tmp_path)
    await append(database, 1, *["agent:a"] * 5)
    await database.close()
    async with Solward.open(settings(solward_home=tmp_path, event_retention_days=1)) as service:
        async with asyncio.timeout(10):
            while (await AuditLog(service.database).verify()).pruned < 4:
                await asyncio.sleep(0.01)
        (pruned, *_) = await AuditLog(service.database).latest()
        assert pruned.event == "audit:pruned"
        # The last of the agent.
        assert await count(service.database) == 1


@pytest.mark.parametrize("name", ["decision_retention_days", "event_retention_days"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "36501"])
def test_days_that_are_no_whole_number_from_one_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.upper()):
        settings(**{name: value})


@promise("log-tampering-found")
async def test_what_was_cut_is_told_and_an_end_that_is_not_authentic_is_left(
    database: Database, keeping: Settings, tmp_path: Path
) -> None:
    await Wallets.open(database, settings(), tmp_path)
    for _ in range(3):
        for chain in ("a", "b"):
            await AuditLog(database).append("agent:stopped", {"agentId": chain})
    async with database.write() as connection:
        # Pruned by hand: what the service would write, without its key.
        first = "SELECT hash FROM audit WHERE chain = 'agent:b' AND number = 1"
        await connection.execute(
            text(
                f"UPDATE audit_heads SET pruned_number = 1, pruned_hash = ({first}) "
                "WHERE chain = 'agent:b'"
            )
        )
        await connection.execute(text("DELETE FROM audit WHERE chain = 'agent:b' AND number = 1"))
    with pytest.raises(
        AuditBroken, match="entry 3 of agent:b: the chain's end is not authenticated"
    ):
        await verify(database)
    in_time = now_ms() + (DAYS + 1) * DAY_MS
    assert await delete_old_rows(database, keeping, in_time) == RetentionResult(events=2)
    assert await left(database) == {"agent:a": [3], "agent:b": [2, 3]}
    (pruned, *_) = await AuditLog(database).latest()
    before = iso(in_time - DAYS * DAY_MS)
    assert (pruned.chain, pruned.event) == ("", "audit:pruned")
    assert pruned.to_json()["data"] == {"before": before, "entries": 2, "chains": {"agent:a": 2}}
    with pytest.raises(
        AuditBroken, match="entry 3 of agent:b: the chain's end is not authenticated"
    ):
        await verify(database)


def payment(transaction_id: str, ms: int) -> PaymentRow:
    return PaymentRow(
        transaction_id=transaction_id,
        wallet_id=WALLET_ROW["id"],
        protocol="x402",
        mode=PaymentMode.SPONSORED,
        site="api.example.com",
        url="https://api.example.com/",
        method="GET",
        fingerprint="f",
        offer={"amount": "1"},
        asset="mint",
        units=1,
        decimals=6,
        pay_to="seller",
        source="source",
        source_units=1,
        memo=None,
        message_sha256="m",
        signer_index=1,
        created_ms=ms,
    )


async def add_payments(database: Database, *answers: tuple[int, bytes]) -> None:
    """A payment for each time of an answer and its body."""
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW])
        for number, (ms, body) in enumerate(answers):
            of = {"wallet_id": WALLET_ROW["id"], "type": "payment", "status": "confirmed",
                  "principal": "admin", "details": "{}", "guardrails_applied": [],
                  "held_lamports": 0, "created_ms": ms}  # fmt: skip
            await connection.execute(insert(transactions), [of | {"id": f"p{number}"}])
            await payments.add(connection, payment(f"p{number}", ms), "admin")
            answer = StoredAnswer(200, (("a", "b"),), body, Served.YES, "hint", ms)
            await payments.note_answer(connection, f"p{number}", answer)


async def bodies(database: Database) -> list[int | None]:
    """The length of each payment's kept body, None where headers and body are gone."""
    found: list[int | None] = []
    async with database.read() as connection:
        for each in (await payments.list_payments(connection, None, 100, None))[::-1]:
            row = await payments.get(connection, each.transaction_id)
            assert row is not None
            assert row.answer is not None
            # What the seller did stays known.
            assert (row.answer.status, row.answer.served, row.answer.hint) == (
                200,
                Served.YES,
                "hint",
            )
            found.append(len(row.answer.body) if row.answer.is_whole else None)
    return found


async def test_answers_of_sellers_go_by_their_days(database: Database) -> None:
    await add_payments(database, (1, b"a"), (OLD, b"bc"), (YOUNG, b"def"), (NOW, b""))
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult(answers=2)
    assert await bodies(database) == [None, None, 3, 0]
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult()
    keeping = settings(payment_answer_retention_days=1)
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(answers=1)
    assert await bodies(database) == [None, None, None, 0]


@promise("odd-item-stops-nobody")
async def test_rows_that_cannot_be_deleted_keep_no_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def odd(*_given: Any) -> int:
        raise ValueError("an odd row")

    monkeypatch.setattr(retention, "cut_decisions", odd)
    await add_payments(database, (1, b"a"))
    with capture_logs() as logs:
        found = await delete_old_rows(database, settings(decision_retention_days=1), NOW)
    assert found == RetentionResult(answers=1)
    [failed] = [each for each in logs if each["event"] == "retention_failed"]
    assert (failed["of"], failed["log_level"]) == ("decisions", "error")


@promise("old-answers-pruned-sizewise")
async def test_answers_of_sellers_go_by_their_size_but_for_those_of_the_last_day(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    times = [NOW - days * DAY_MS for days in (6, 5, 4, 3, 2, 0, 0, 0)]
    await add_payments(database, *((ms, bytes(300_000)) for ms in times))
    keeping = settings(payment_answers_max_mb=2)
    assert await delete_old_rows(database, keeping, NOW) == RetentionResult(answers=2)
    assert await bodies(database) == [None] * 2 + [300_000] * 6
    # The three of today alone are more than half of it.
    monkeypatch.setattr(retention, "MB", 400_000)
    assert await delete_old_rows(
        database, settings(payment_answers_max_mb=1), NOW
    ) == RetentionResult(answers=3)
    assert await bodies(database) == [None] * 5 + [300_000] * 3


async def test_usage_that_no_budget_counts_goes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    hour = NOW // HOUR_MS
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW])
        for agent in ("a", "b", "c"):
            await agents.insert_agent(connection, agent_row(agent))
            rows = [
                {"agent_id": agent, "hour": hour - ago, "tokens": 1, "cost_nanousd": 1,
                 "unpriced_tokens": 0}
                for ago in (0, 24, 72, 73, 500)
            ]  # fmt: skip
            await agents.add_usage(connection, rows)
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult(usage=6)
    async with database.read() as connection:
        used = await agents.usage_by_agent(connection, ["a", "b", "c"], hour)
        kept = await connection.execute(select(func.count()).select_from(agent_usage))
        assert (used["c"].tokens, kept.scalar_one()) == (2, 9)


@promise("retention-keeps-windows")
async def test_what_no_window_and_no_replay_counts_goes_unless_its_end_is_not_known(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "PAUSE_S", 0)
    kept_from = NOW - judged.COUNTED_MS
    # Two of one hour, of which one stays.
    hour = kept_from // HOUR_MS
    made = {
        "a": (1, "confirmed"),
        "b": (2, "failed"),
        "c": (kept_from - 1, "confirmed"),
        "d": (kept_from - 1, "pending"),
        "e": (kept_from, "confirmed"),
        "f": (NOW, "confirmed"),
        "g": (3, "confirmed"),
    }
    scopes = ("wallet:w", "grant:agent:a#1")
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW])
        for id_, (ms, status) in made.items():
            record = {
                "id": id_, "wallet_id": WALLET_ROW["id"], "principal": "agent:a", "type": "other",
                "status": status, "details": "{}", "guardrails_applied": [], "held_lamports": 0,
                "created_ms": ms,
            }  # fmt: skip
            await connection.execute(insert(transactions), [record])
            case = Case(str(WALLET_ROW["id"]), ("wallet:w", "agent:a"), (), 5_000, (ms, ms))
            row = to_row(JudgedCase(id_, "other", case, "allowed", 1)) | {"created_ms": ms}
            await judged.note_judged(connection, row)
            rows = [
                {"transaction_id": id_, "scope": scope, "asset": "SOL", "created_ms": ms,
                 "units": (1 << 33) + 7}
                for scope in scopes
            ]  # fmt: skip
            await connection.execute(insert(reservations), rows)
        # Of a hold, which is no transaction.
        held = to_row(JudgedCase("h", "other", case, "held", 1)) | {"created_ms": 4}
        await judged.note_judged(connection, held)
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult(judged=5)
    async with database.read() as connection:
        left = set(await connection.scalars(select(reservations.c.transaction_id)))
        assert left == set(await connection.scalars(select(judged_effects.c.transaction_id)))
        totals = (await connection.execute(select(reservation_totals))).all()
        records = (await connection.execute(select(func.count()).select_from(transactions))).one()
    assert left == {"d", "e", "f"}
    # What is left of an hour is counted exactly, and hours without anything are gone.
    of_hour = {(kept_from - 1) // HOUR_MS: 1}
    of_hour[hour] = of_hour.get(hour, 0) + 1
    of_hour[NOW // HOUR_MS] = 1
    assert {row.hour: row.count for row in totals} == of_hour
    assert {row.hour: (row.high << 32) + row.low for row in totals} == {
        each: count * ((1 << 33) + 7) for each, count in of_hour.items()
    }
    assert records == (len(made),)
    assert await delete_old_rows(database, settings(), NOW) == RetentionResult()


def test_what_is_kept_covers_a_replay_and_the_longest_window_before_it() -> None:
    assert judged.COUNTED_MS >= (MAX_DAYS + 30) * DAY_MS
