"""What a killed service left on disk: read from a copy, so that a restart finds it as it was."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from solward.audit import log as audit_log
from solward.database.database import Database
from solward.resources.agents import MEMORY_KEPT
from solward.support import jsontext

Entry = tuple[str, str | None, str, int]  # reasoning, action, outcome, created_ms

_DECISIONS = "SELECT cycle, reasoning, action, outcome, created_ms FROM {} WHERE agent_id = ?"
_PAYMENTS = """
    SELECT t.action_key, t.id, t.status, t.signature, t.fee_lamports, a.signature IS NOT NULL
    FROM transactions t LEFT JOIN attempts a ON a.transaction_id = t.id
    WHERE t.agent_id = ?
"""
_HELD_BY_THE_DEAD = """
    SELECT r.transaction_id FROM reservations r JOIN transactions t ON t.id = r.transaction_id
    WHERE t.status NOT IN ('pending', 'confirmed')
"""


@dataclass(frozen=True, slots=True)
class Payment:
    """What one cycle asked for; `signed` when its signed bytes were durable."""

    id: str
    status: str
    signature: str | None
    fee_lamports: int | None
    signed: bool


@dataclass(frozen=True, slots=True)
class Deeds:
    """One agent's: `cycle` is the one to run next, decisions and payments are by cycle."""

    cycle: int
    decisions: Mapping[int, Entry]
    payments: Mapping[int, Payment]

    @property
    def interrupted(self) -> Payment | None:
        """What the cycle to run had already asked for."""
        return self.payments.get(self.cycle)


def examine(home: Path) -> dict[str, Deeds]:
    """Every agent's deeds; asserts what must hold on disk at any moment whatever.

    No gap and no duplicate among the decisions, memory their newest, the audit chain whole with
    exactly them and every transaction's fate in it, one payment a cycle at most, nothing held for
    what has failed.
    """
    with TemporaryDirectory() as folder:
        for file in home.glob("solward.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder)
        copy = Path(folder)
        with closing(sqlite3.connect(copy / "solward.db")) as connection:
            agents = dict(connection.execute("SELECT id, cycle_no FROM agents").fetchall())
            deeds = {agent: _deeds(connection, agent, cycle) for agent, cycle in agents.items()}
            assert connection.execute(_HELD_BY_THE_DEAD).fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            _audited(connection, deeds)
            _told_of_transactions(connection)
        asyncio.run(_chain_is_whole(copy))
    return deeds


def _deeds(connection: sqlite3.Connection, agent: str, cycle: int) -> Deeds:
    entries = {
        table: {row[0]: row[1:] for row in connection.execute(_DECISIONS.format(table), [agent])}
        for table in ("decisions", "memory")
    }
    decisions, memory = entries["decisions"], entries["memory"]
    assert sorted(decisions) == list(range(1, cycle))
    newest = range(max(1, cycle - MEMORY_KEPT), cycle)
    assert memory == {number: decisions[number] for number in newest}
    payments: dict[int, Payment] = {}
    for action_key, identity, status, signature, fee, signed in connection.execute(
        _PAYMENTS, [agent]
    ):
        of_agent, number, skill, ordinal = action_key.split(":")
        assert (of_agent, skill, ordinal) == (agent, "transfer", "1")
        assert int(number) not in payments
        payments[int(number)] = Payment(identity, status, signature, fee, bool(signed))
    assert all(number <= cycle for number in payments)
    return Deeds(cycle, decisions, payments)


def _audited(connection: sqlite3.Connection, deeds: Mapping[str, Deeds]) -> None:
    told: list[tuple[Any, ...]] = []
    for event, data in connection.execute("SELECT event, data FROM audit"):
        body = jsontext.loads(data)
        assert event != "agent:error", body
        if event != "agent:decision":
            continue
        told.append((body["agentId"], body["cycle"], body["action"], body["outcome"]))
    decided = [
        (agent, cycle, action, outcome)
        for agent, deed in deeds.items()
        for cycle, (_reasoning, action, outcome, _ms) in deed.decisions.items()
    ]
    assert sorted(told) == sorted(decided)


def _told_of_transactions(connection: sqlite3.Connection) -> None:
    told: dict[str, list[str]] = {}
    rows = connection.execute(
        "SELECT event, data FROM audit WHERE event LIKE 'transaction:%' ORDER BY seq"
    )
    for event, data in rows:
        told.setdefault(jsontext.loads(data)["id"], []).append(event.removeprefix("transaction:"))
    stored = dict(connection.execute("SELECT id, status FROM transactions").fetchall())
    assert told == {
        transaction: ["pending"] if status == "pending" else ["pending", status]
        for transaction, status in stored.items()
    }


async def _chain_is_whole(home: Path) -> None:
    database = await Database.open(None, home)
    try:
        async with database.read() as reading:
            await audit_log.verify(reading)
    finally:
        await database.close()
