"""Entries of the audit log that fit a filter: all of them, in bounded pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.database import query_plans

from solward.audit import log
from solward.audit.log import AuditFilter
from solward.database import outbox
from solward.database.database import Database

# kind, chain and data of each entry, written a minute apart from MINUTE on.
MINUTE = 60_000
ENTRIES: list[tuple[str, str, Any]] = [
    ("wallet:created", "", {"walletId": "w1", "principal": "admin"}),
    ("agent:created", "", {"agentId": "a1", "principal": "admin"}),
    ("transaction:pending", "wallet:w1", {"walletId": "w1", "agentId": "a1", "principal": "a"}),
    ("transaction:pending", "wallet:w2", {"walletId": "w2", "principal": "key:1"}),
    ("agent:decision", "agent:a1", {"agentId": "a1", "text": '"principal":"admin"'}),
    ("agent:changed", "", {"agentId": "a2", "before": {"principal": "admin"}, "principal": "cli"}),
    ("switch:frozen", "", {"walletId": None, "principal": "admin"}),
    ("agent:decision", "agent:a2", None),
    ("hold:executed", "wallet:w2", {"id": "h", "transactionId": "t", "note": "id x"}),
    ("transaction:confirmed", "wallet:w2", {"id": "t", "details": {"id": "x", "of": "h"}}),
]
NUMBERS = range(1, len(ENTRIES) + 1)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(None, tmp_path)
    for minute, (event, chain, data) in enumerate(ENTRIES, 1):
        async with database.write() as connection:
            await outbox.append_many(connection, minute * MINUTE, [(chain, event, data)])
    yield database
    await database.close()


async def found(database: Database, wanted: AuditFilter, limit: int = 100) -> list[int]:
    """The places in ENTRIES of all that fit, newest first, page by page."""
    places, before = [], None
    while True:
        async with database.read() as connection:
            page = await log.search(connection, wanted, limit, before=before)
        assert len(page.entries) <= limit
        places += [each.created_ms // MINUTE for each in page.entries]
        if page.next is None:
            return places
        assert before is None or page.next < before
        before = page.next


WANTED = [
    (AuditFilter(), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
    (AuditFilter(kinds=frozenset({"agent:decision", "wallet:created"})), [8, 5, 1]),
    (AuditFilter(kinds=frozenset({"agent:changed", "wallet:created"})), [6, 1]),
    (AuditFilter(kinds=frozenset({"switch:frozen"}), principal="admin"), [7]),
    (AuditFilter(wallet_id="w1"), [3, 1]),
    (AuditFilter(agent_id="a1"), [5, 3, 2]),
    (AuditFilter(agent_id="a2"), [8, 6]),
    (AuditFilter(principal="admin"), [7, 2, 1]),
    (AuditFilter(principal="%"), []),
    (AuditFilter(since_ms=3 * MINUTE, until_ms=5 * MINUTE), [4, 3]),
    (AuditFilter(about="t"), [10, 9]),
    (AuditFilter(about="h"), [9]),
    (AuditFilter(about="x"), []),
    (AuditFilter(since_ms=11 * MINUTE), []),
    (AuditFilter(until_ms=MINUTE), []),
    (AuditFilter(principal="admin", since_ms=2 * MINUTE, agent_id="a1"), [2]),
]


@pytest.mark.more
@promise("audit-pages-skip-nothing")
async def test_pages_of_any_size_have_all_that_fit_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for walked, limit in product((1, 3, 10_000), (1, 2, 100)):
        monkeypatch.setattr(log, "WALKED", walked)
        for wanted, places in WANTED:
            assert await found(database, wanted, limit) == places, (wanted, walked, limit)


@pytest.mark.parametrize("clocks_ms", [0, 2 * MINUTE])
async def test_times_are_found_by_halving_however_wrong_the_clocks_are(
    database: Database, monkeypatch: pytest.MonkeyPatch, clocks_ms: int
) -> None:
    monkeypatch.setattr(log, "_CLOCKS_MS", clocks_ms)
    for since in NUMBERS:
        for until in range(since + 1, len(ENTRIES) + 2):
            wanted = AuditFilter(since_ms=since * MINUTE, until_ms=until * MINUTE)
            assert await found(database, wanted) == list(range(until - 1, since - 1, -1))


async def test_newer_entries_alone_are_found(database: Database) -> None:
    async with database.read() as connection:
        whole = await log.search(connection, AuditFilter(), 3)
        third = whole.entries[-1].seq
        newer = await log.search(connection, AuditFilter(), 100, after=third)
        assert newer.entries == whole.entries[:2]
        assert newer.next is None
        none = await log.search(connection, AuditFilter(), 100, after=whole.entries[0].seq)
        assert (none.entries, none.next) == ((), None)


async def test_rare_kinds_are_found_without_walking_over_the_frequent_ones(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "WALKED", 5)
    rare = AuditFilter(kinds=frozenset({"wallet:created"}))
    async with database.read() as connection:
        # Five are rare, and five of the nine newer than the one that is wanted are not.
        page = await log.search(connection, rare, 100)
        assert [each.event for each in page.entries] == ["wallet:created"]
        both = AuditFilter(kinds=rare.kinds | {"transaction:pending"})
        assert (await log.search(connection, both, 100)).entries == ()


@pytest.mark.sqlite("its query plans")
async def test_no_page_walks_the_whole_log(database: Database) -> None:
    rare = AuditFilter(kinds=frozenset({"wallet:created"}), principal="admin")
    any_kind = AuditFilter(principal="admin", since_ms=MINUTE, until_ms=4 * MINUTE)

    async def asked(connection: AsyncConnection) -> None:
        for wanted in (rare, any_kind):
            await log.search(connection, wanted, 5, before=100)

    plans = await query_plans(database, asked)
    assert any("ix_audit_rare" in step for _, steps in plans for step in steps)
    for statement, steps in plans:
        assert " LIMIT " in " ".join(statement.split()), statement
        assert not [each for each in steps if "TEMP B-TREE" in each], (statement, steps)
