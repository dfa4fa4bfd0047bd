"""Statements about wallets, switches and the audit log search indexes, however many rows."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import query_plans

from solward.audit import log as audit_log
from solward.database import outbox
from solward.database.database import Database
from solward.service import retention
from solward.vault.store import spending, wallets


async def everything(connection: AsyncConnection) -> None:
    """Each statement that must not walk a table that grows, once."""
    await wallets.get_wallet(connection, "w")
    await wallets.set_tags(connection, "w", ["a"])
    for place in (None, "w"):
        await wallets.newest_wallets(connection, 50, place)
        await wallets.oldest_wallets(connection, 50, place)
    await wallets.wallets_under(connection, 1, "a", 10)
    await wallets.rewrap(connection, 1, 2, [("w", b"")])
    await spending.freeze_reason(connection, "w")
    await spending.set_frozen(connection, "wallet:w", True)
    events = [("", "x", {}), ("wallet:w", "x", {})]
    await outbox.append_many(connection, 1, events)
    await outbox.append_many(connection, 2, events)
    await audit_log.newest_entries(connection, 10)
    await audit_log.newest_entries(connection, 10, before=5)
    await audit_log.entries_after(connection, 0, 10)
    await audit_log.newest_seq(connection)
    await audit_log.find(connection, "x")
    await retention.cut_events(connection, 5, 0, 10, None)
    await retention.cut_decisions(connection, 5, 10)


_GIVEN_ROW = "SCAN CONSTANT ROW"


@pytest.mark.sqlite("its query plans")
async def test_no_statement_walks_a_table(database: Database) -> None:
    plans = await query_plans(database, everything)
    assert len(plans) > 12
    for statement, steps in plans:
        # A page is read along an index, and no further.
        if "ORDER BY audit.seq DESC" in statement or "ORDER BY wallets.created_ms" in statement:
            assert not any("TEMP B-TREE" in step for step in steps), steps
        else:
            # Given values are a table of one row to SQLite.
            walks = [step for step in steps if step.startswith("SCAN") and step != _GIVEN_ROW]
            assert not walks, (statement, steps)
