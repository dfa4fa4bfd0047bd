"""What a service does for a request does not grow with what it has stored.

The statements are those that reach the drivers while a service with a history is asked everything,
so a new one is held to this by running. SQLite says how many steps of its virtual machine each
took; PostgreSQL, told to avoid them, where it still must walk a table.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from benchmarks.growth_rows import Sizes
from tests.promises import promise
from tests.store.grown_homes import NAMES, WHOLE, Grown, a_day, grown
from tests.support.database import Statements

pytestmark = promise("history-costs-nothing")


SMALL = Sizes(records=1_000, wallets=100, keys=50, agents=10, totals=100, days=30)
# As much in a day for four times as long, by the same callers, with ever new wallets.
LONG = Sizes(records=4_000, wallets=400, keys=50, agents=10, totals=400, days=120)

# What grows with each request, cycle or minute, and what is made by the thousand.
GROWING = frozenset({
    "agent_usage", "agents", "attempts", "audit", "audit_heads", "credentials", "decisions",
    "reservation_totals", "holds", "idempotency", "judged_effects", "memory", "opened_accounts",
    "paid_recipients", "payments", "pockets", "reservations", "transactions", "wallets",
    "webhook_deliveries", "webhook_nonces",
})  # fmt: skip
# Indexes of what is open alone, which is little.
OPEN = frozenset({
    "ix_transactions_pending", "uq_holds_open", "ix_pockets_open", "uq_attempts_live",
    "ix_webhook_deliveries_waiting", "ix_payments_kept",
})  # fmt: skip
# What is said of all agents and keys, as many as somebody made: counts by status, whose limits
# bound what can leave a wallet.
OF_ALL = re.compile(
    r"SELECT (agents\.status, count\(|DISTINCT agents\.llm_provider)"
    r"|.* FROM credentials (WHERE credentials\.role IS (NOT )?NULL ORDER BY|LEFT OUTER JOIN)"
)


async def _seen(home: Grown) -> dict[str, dict[str, Any]]:
    """label -> statement -> parameters, of a day."""
    found: dict[str, dict[str, Any]] = {}

    def keep(label: str, statements: Statements) -> None:
        found.setdefault(label, {}).update(statements.seen)

    await a_day(home, keep)
    return found


def _of_history(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Statements that must not walk a table."""
    return {
        statement: parameters
        for label, statements in found.items()
        if label not in WHOLE | NAMES
        for statement, parameters in statements.items()
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", statement)
        and not OF_ALL.match(" ".join(statement.split()))
    }


def _is_page(statement: str, steps: list[str]) -> bool:
    """Whether it reads along an index, and no further than its page: what it would pass over on the
    way is counted by the steps."""
    asked = " LIMIT " in " ".join(statement.split())
    return asked and not any("TEMP B-TREE" in step for step in steps)


def _walks(step: str) -> bool:
    """Whether a step of SQLite's plan reads a growing table from one end to the other."""
    scan = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step)
    return scan is not None and scan[1] in GROWING and scan[2] not in OPEN


@pytest.mark.more
@pytest.mark.sqlite("its query plans")
async def test_no_statement_of_a_day_walks_a_table_on_sqlite(tmp_path: Path) -> None:
    home = await grown(tmp_path / "home", SMALL)
    statements = _of_history(await _seen(home))
    assert len(statements) > 80
    walked = {}
    connection = sqlite3.connect(home.home / "solward.db")
    for statement, parameters in statements.items():
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        steps = [step for *_numbers, step in plan]
        if not _is_page(statement, steps) and any(map(_walks, steps)):
            walked[statement] = steps
    connection.close()
    assert walked == {}


@pytest.mark.more
@pytest.mark.sqlite("it counts the steps of its virtual machine")
async def test_a_request_takes_as_many_steps_after_a_long_history(tmp_path: Path) -> None:
    taken: list[dict[str, int]] = []
    for name, sizes in (("small", SMALL), ("long", LONG)):
        steps: dict[str, int] = {}

        def keep(label: str, statements: Statements, into: dict[str, int] = steps) -> None:
            into[label] = into.get(label, 0) + sum(statements.steps.values())

        await a_day(await grown(tmp_path / name, sizes), keep)
        taken.append(steps)
    few, many = taken
    assert few.keys() == many.keys()
    grew = {
        label: (few[label], many[label])
        for label in few.keys() - WHOLE - NAMES
        if many[label] > 1.2 * few[label] + 300
    }
    assert grew == {}
    # The counting itself counts.
    assert many["GET /wallets"] > 2 * few["GET /wallets"]


@pytest.mark.more
async def test_no_statement_of_a_day_walks_a_table_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    home = await grown(tmp_path / "home", SMALL, postgres_url)
    statements = _of_history(await _seen(home))
    assert len(statements) > 80
    walked = {}
    address = postgres_url.replace("postgresql+psycopg:", "postgresql:", 1)
    with psycopg.connect(address) as connection:
        # However few rows there are, an index is taken where there is one.
        connection.execute("SET enable_seqscan = off")
        for statement, parameters in statements.items():
            rows = connection.execute(f"EXPLAIN {statement}", parameters).fetchall()
            plan = [line for (line,) in rows]
            scans = [re.search(r"Seq Scan on (\w+)", line) for line in plan]
            if any(scan and scan[1] in GROWING for scan in scans):
                walked[statement] = plan
    assert walked == {}
