"""Deletes decisions, events and sellers' answers that are older than the settings allow, and rows
that no limit counts any more: agents' usage and judged transactions (docs/reference/events.md,
Retention)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import groupby, takewhile
from typing import Any

import structlog
from sqlalchemy import bindparam, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents import store as agents
from solward.database import outbox
from solward.database.database import Database, try_lock_exclusive
from solward.database.outbox import SERVICE_CHAIN, Head
from solward.database.tables import audit, audit_heads, decisions
from solward.settings import Settings
from solward.support.clock import iso
from solward.support.durations import DAY_MS, HOUR_MS
from solward.support.tasks import in_background
from solward.types.errors import StoreError
from solward.types.events import EventKind
from solward.vault.store import judged, payments

# The maximum rows of one transaction, and the pause after it, in which others can write.
BATCH = 500
PAUSE_S = 0.05
EVERY_S = 3600.0

# Budgets count the last day, and clocks may differ by a day.
USAGE_KEPT_HOURS = 3 * 24
# A request that is repeated after a crash must find its answer in every case.
ANSWERS_KEPT_MS = DAY_MS
MB = 1_000_000

_LOCK = "retention"

_log = structlog.get_logger(__name__)

_OLD_DECISIONS = (
    select(decisions.c.agent_id, decisions.c.cycle)
    .where(decisions.c.created_ms < bindparam("before"))
    .order_by(decisions.c.created_ms)
    .limit(bindparam("at_most"))
)
_CUT_DECISIONS = delete(decisions).where(
    tuple_(decisions.c.agent_id, decisions.c.cycle).in_(_OLD_DECISIONS)
)

_NEWEST = select(func.coalesce(func.max(audit.c.seq), 0))
# The newest entry of all stays, because the next `seq` is counted from it.
_OLDEST = (
    select(audit.c.seq, audit.c.chain, audit.c.number, audit.c.created_ms, audit.c.hash)
    .where(
        audit.c.seq > bindparam("after"),
        audit.c.seq < select(func.max(audit.c.seq)).scalar_subquery(),
    )
    .order_by(audit.c.seq)
    .limit(bindparam("at_most"))
)
# Rows are locked in the same order as by appends, so that the two cannot deadlock.
_LOCK_HEADS = (
    select(audit_heads)
    .where(audit_heads.c.chain.in_(bindparam("of_chains", expanding=True)))
    .order_by(audit_heads.c.chain)
    .with_for_update(of=audit_heads)
)
_CUT_CHAIN = (
    update(audit_heads)
    .where(audit_heads.c.chain == bindparam("b_chain"))
    .values(
        pruned_number=bindparam("b_number"), pruned_hash=bindparam("b_hash"), mac=bindparam("b_mac")
    )
)
_CUT_ENTRIES = delete(audit).where(audit.c.seq.in_(bindparam("seqs", expanding=True)))


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """The numbers of rows of each kind that one run deleted."""

    decisions: int = 0
    events: int = 0
    answers: int = 0
    usage: int = 0
    judged: int = 0


async def delete_old_rows(database: Database, settings: Settings, now_ms: int) -> RetentionResult:
    """Delete rows that are too old, oldest first, in small transactions.

    The audit log is consistent after each of them, and the next run continues an interrupted one.
    Does nothing while another process on the same database does it.

    Args:
        now_ms: the time to count from, in Unix milliseconds.

    Raises:
        StoreError: the database refused.
    """
    deletions: dict[str, Callable[[], Awaitable[int]]] = {}
    if settings.decision_retention_days is not None:
        made_ms = now_ms - settings.decision_retention_days * DAY_MS
        deletions["decisions"] = lambda: _delete_in_batches(
            database, lambda connection: cut_decisions(connection, made_ms, BATCH)
        )
    if settings.event_retention_days is not None:
        logged_ms = now_ms - settings.event_retention_days * DAY_MS
        deletions["events"] = lambda: _delete_events(database, logged_ms)
    deletions["answers"] = lambda: _delete_answers(database, settings, now_ms)
    deletions["usage"] = lambda: _delete_usage(database, now_ms // HOUR_MS - USAGE_KEPT_HOURS)
    deletions["judged"] = lambda: _delete_in_batches(
        database,
        lambda connection: judged.forget(connection, now_ms - judged.COUNTED_MS, BATCH),
    )
    deleted: dict[str, int] = {}
    for kind, delete_old in deletions.items():
        try:
            deleted[kind] = await delete_old()
        except StoreError:
            # The database would refuse the other deletions too.
            raise
        except Exception:
            _log.exception("retention_failed", of=kind)
    found = RetentionResult(**deleted)
    if found != RetentionResult():
        _log.info("retained", **asdict(found))
    return found


@asynccontextmanager
async def hourly_retention(database: Database, settings: Settings) -> AsyncIterator[None]:
    """Run `delete_old_rows` now and every hour, by ledger time, so no fast clock deletes early."""

    async def hourly() -> None:
        while True:
            try:
                async with database.read() as connection:
                    moment = await database.moment(connection)
                await delete_old_rows(database, settings, moment.window_ms)
            except StoreError as error:
                _log.warning("retention_failed", error=str(error))
            except Exception:
                _log.exception("retention_failed")
            await asyncio.sleep(EVERY_S)

    async with in_background(hourly(), "solward-retention"):
        yield


async def _delete_in_batches(
    database: Database, delete: Callable[[AsyncConnection], Awaitable[int]]
) -> int:
    """Delete in batches, one transaction each, and return the number of deleted rows."""
    total, deleted = 0, BATCH
    while deleted == BATCH:
        if total:
            await asyncio.sleep(PAUSE_S)
        async with database.write() as connection:
            if not await try_lock_exclusive(connection, _LOCK):
                return total
            deleted = await delete(connection)
        total += deleted
    return total


async def _delete_answers(database: Database, settings: Settings, now_ms: int) -> int:
    before_ms = now_ms - settings.payment_answer_retention_days * DAY_MS
    async with database.read() as connection:
        beyond = await payments.answers_beyond(connection, settings.payment_answers_max_mb * MB)
    if beyond is not None:
        before_ms = max(before_ms, min(beyond + 1, now_ms - ANSWERS_KEPT_MS))
    return await _delete_in_batches(
        database, lambda connection: payments.forget_answers(connection, before_ms, BATCH)
    )


async def _delete_usage(database: Database, hour: int) -> int:
    total = 0
    while True:
        async with database.read() as connection:
            ids = await agents.find_old_usage(connection, hour, BATCH)
        if not ids:
            return total
        async with database.write() as connection:
            if not await try_lock_exclusive(connection, _LOCK):
                return total
            total += await agents.forget_usage(connection, ids, hour, BATCH)
        await asyncio.sleep(PAUSE_S)


async def _delete_events(database: Database, before_ms: int) -> int:
    total, seq = 0, 0
    async with database.read() as connection:
        # Each batch adds an entry, so with a clock set back the loop would not end.
        newest = int((await connection.execute(_NEWEST)).scalar_one())
    while seq < newest:
        async with database.write() as connection:
            if not await try_lock_exclusive(connection, _LOCK):
                return total
            cut = await cut_events(connection, before_ms, seq, BATCH, database.audit_key)
        total += cut.deleted
        if cut.last_seq is None:
            return total
        seq = cut.last_seq
        await asyncio.sleep(PAUSE_S)
    return total


@dataclass(frozen=True, slots=True)
class CutResult:
    """The result of a batch. The next batch starts after `last_seq`; None after the last batch."""

    deleted: int
    last_seq: int | None


async def cut_decisions(connection: AsyncConnection, before_ms: int, at_most: int) -> int:
    """Delete up to `at_most` decisions older than `before_ms`, and return their number."""
    parameters = {"before": before_ms, "at_most": at_most}
    return int((await connection.execute(_CUT_DECISIONS, parameters)).rowcount)


async def cut_events(
    connection: AsyncConnection, before_ms: int, after_seq: int, at_most: int, key: bytes | None
) -> CutResult:
    """Cut the audit log's chains at their beginnings, reading `at_most` entries above a `seq`.

    Only entries older than `before_ms`, and never a chain's last one. Each chain's head stores the
    entry after which the chain now begins, and an event says which chains were cut. A chain whose
    end is not authentic is left as it is, for whoever looks into it.

    Args:
        key: the audit key.
    """
    parameters = {"after": after_seq, "at_most": at_most}
    page = (await connection.execute(_OLDEST, parameters)).all()
    old = sorted(
        (row for row in page if row.created_ms < before_ms), key=lambda row: (row.chain, row.number)
    )
    if not old:
        return CutResult(0, None)
    # The event's own chain is locked too, so that no appender waits in the other order.
    chains = {row.chain for row in old} | {SERVICE_CHAIN}
    rows = await connection.execute(_LOCK_HEADS, {"of_chains": sorted(chains)})
    heads = {chain: Head(*fields) for chain, *fields in rows}
    cuts: dict[str, list[Any]] = {}
    for chain, entries in groupby(old, key=lambda row: row.chain):
        head = heads.get(chain)
        if head is None:
            continue
        if key is not None and not head.is_authentic(key, chain):
            _log.warning("retention_skipped", chain=chain, error="its end is not authentic")
        elif leading := _first_entries(head, list(entries)):
            cuts[chain] = leading
    seqs = [row.seq for cut in cuts.values() for row in cut]
    if cuts:
        ends = []
        for chain, cut in cuts.items():
            last = cut[-1]
            head = heads[chain]._replace(pruned_number=last.number, pruned_hash=last.hash)
            mac = head.signed(key, chain).mac
            ends.append(
                {"b_chain": chain, "b_number": last.number, "b_hash": last.hash, "b_mac": mac}
            )
        await connection.execute(_CUT_CHAIN, ends)
        await connection.execute(_CUT_ENTRIES, {"seqs": seqs})
        outbox.record(
            connection,
            EventKind.AUDIT_PRUNED,
            {
                "before": iso(before_ms),
                "entries": len(seqs),
                "chains": {chain: cut[-1].number for chain, cut in cuts.items()},
            },
        )
    return CutResult(len(seqs), int(page[-1].seq))


def _first_entries(head: Head, entries: list[Any]) -> list[Any]:
    """Return a chain's first entries without a gap, never including its last entry."""
    numbered = enumerate(entries, head.pruned_number + 1)
    return [
        row for _number, row in takewhile(lambda e: e[0] == e[1].number < head.number, numbered)
    ]
