"""The money path's statements search indexes; none walks a table that grows."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import OF_NEEDS, hold_row, query_plans

from solward.database.database import Database
from solward.database.window_clock import Moment
from solward.types.errors import KeyRevoked, TakenOver
from solward.types.record import HoldState, TransactionRecord, TransactionStatus
from solward.vault.grants import judged
from solward.vault.grants.model import Case
from solward.vault.store import (
    attempts,
    grants,
    holds,
    idempotency,
    processes,
    recipients,
    spending,
    transactions,
)
from solward.vault.store import judged as judged_store
from solward.vault.store.attempts import Attempt, AttemptState, Settlement

JUDGED = judged.to_row(
    judged.JudgedCase("t1", "transfer", Case("w", (), (), 1, (1, 1)), "allowed", 0)
)
OF_OPEN = (
    "SCAN transactions USING INDEX ix_transactions_pending",
    "SCAN holds USING INDEX uq_holds_open",
    "SCAN holds USING COVERING INDEX uq_holds_open",
    "SCAN CONSTANT ROW",
)


def record(number: int) -> TransactionRecord:
    return TransactionRecord(
        f"t{number}",
        "w",
        "transfer",
        TransactionStatus.PENDING,
        {},
        (),
        created_ms=number,
        principal="admin",
    )


async def everything_held(connection: AsyncConnection) -> None:
    """Each statement of a hold, and of what looks for holds now and then."""
    row = hold_row("w", 1, action_key="b")
    await holds.add(connection, row)
    for wanted in (holds.get, holds.by_action_key, holds.by_digest, holds.count_open):
        await wanted(connection, row.hold.id)
    await holds.backlog(connection, Moment(1, 1))
    await holds.open_by_principal(connection, ["key:k1"])
    await holds.overdue_holds(connection, 1)
    await holds.abandoned_holds(connection, "me")
    await holds.claim(connection, row.hold.id, "me", None)
    for is_open in (None, True, False):
        await holds.list_holds(connection, is_open=is_open)
    await holds.list_holds(connection, wallet_id="w", before=row.hold.id)
    await holds.move(connection, row.hold.id, (HoldState.HELD,), HoldState.APPROVED, by="admin")
    await holds.refuse(connection, row, HoldState.DENIED, "no", 1, by="admin")


async def everything(connection: AsyncConnection) -> None:
    """Each statement of a transfer, of a listing and of a restart, once."""
    scopes = ["wallet:w", "agent:a", "key:k"]
    await spending.freeze_reason(connection, "w")
    await spending.read_binding(connection, "w")
    await grants.sets_of(connection, scopes)
    with pytest.raises(TakenOver):
        await spending.lock(connection, "w", ["key:k"], ("a", 1, 1))
    with pytest.raises(KeyRevoked):
        await spending.lock(connection, "w", ["key:k"], api_key="k")
    await processes.register(connection, "p", "api", "host", 10)
    await processes.take_over(connection, "p", 10)
    await spending.usage(connection, scopes, ["mint"], 10)
    await spending.next_tx_ms(connection, "wallet:w", 5, 10)
    await spending.reserved_by_scope(connection, ["wallet:w"])
    await transactions.insert_record(connection, record(1), action_key="a")
    await spending.reserve(connection, "t1", scopes, {"SOL": 1}, 10)
    await judged_store.note_judged(connection, JUDGED)
    await recipients.note_paid(connection, "w", ["someone"], "t1")
    attempt = Attempt("t1", 1, "s1", b"", "b", 1, 1, 1)
    await attempts.write_ahead(connection, attempt, 10)
    await attempts.mark_sent(connection, ["s1"])
    await attempts.settle(
        connection,
        [
            Settlement("t1", TransactionStatus.FAILED, AttemptState.LANDED_ERR, 1, 1, "x"),
            Settlement("t2", TransactionStatus.FAILED, AttemptState.DEAD, 0, 0, "x"),
        ],
    )
    await attempts.pending(connection, [1, 2])
    await attempts.last_landed_slot(connection, "w", 1)
    await transactions.get(connection, "t1")
    await transactions.by_action_key(connection, "a")
    await everything_held(connection)
    await transactions.history(connection, None, 50, None)
    await transactions.history(connection, None, 50, "t1")
    await transactions.history(connection, "w", 50, None)
    await transactions.history(connection, "w", 50, "t1")
    for wallet, before in product((None, "w"), (None, "t1")):
        await transactions.history_ids(connection, wallet, 50, before)
    await transactions.of_ids(connection, ["t1"])
    await idempotency.claim(connection, "s", "f", "t1", 1)
    await idempotency.lookup(connection, "s")
    await idempotency.finish(connection, "s", 200, "{}")


@pytest.mark.sqlite("its query plans")
async def test_no_statement_of_the_money_path_scans(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(
            text("INSERT INTO wallets VALUES ('w', 'w', 'w', '[]', 1, 1, x'00', x'00', NULL, '{}')")
        )
    steps = [
        (statement, step)
        for statement, plan in await query_plans(database, everything)
        for step in plan
        # These indexes hold the unfinished transactions and the open holds only.
        if not step.startswith((*OF_OPEN, *OF_NEEDS))
    ]
    assert len(steps) > 14
    assert [each for each in steps if each[1].startswith("SCAN")] == []
