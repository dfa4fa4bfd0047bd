"""A database that the first version made, with a life in it, goes on under this one."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from solward import jsontext
from solward.agents.decisions import Decision, MemoryEntry
from solward.agents.model import Agent
from solward.audit import AuditLog
from solward.errors import AuditBroken
from solward.record import TransactionRecord
from solward.service import Solward
from solward.settings import Settings
from solward.store.database import Database
from solward.store.schema import HEAD, MIGRATIONS
from solward.transactions.request import ADMIN

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
STRATEGY = f"always do transfer to={RECIPIENT} amount=0.01"
FIRST = "0001"
OLD_AUDIT = "seq, created_ms, event, data, previous_hash, hash"

Rows = Mapping[str, list[dict[str, Any]]]


def make_at(path: Path, revision: str) -> None:
    """A new database, brought to one revision and no further."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == revision
    engine.dispose()


def columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Each table's columns, without alembic's own."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for (table,) in tables
        if not table.startswith(("alembic_", "sqlite_"))
    }


def taken_back(home: Path, revision: str) -> None:
    """Put what the database holds into one of `revision`, without what that did not have."""
    new, old = home / "solward.db", home / "old.db"
    make_at(old, revision)
    with closing(sqlite3.connect(new)) as source, closing(sqlite3.connect(old)) as target:
        known = columns(source)
        for table, names in columns(target).items():
            if table.startswith("audit"):
                continue
            assert set(names) <= set(known[table])
            marks = ", ".join("?" * len(names))
            rows = source.execute(f"SELECT {', '.join(names)} FROM {table}")
            listed = ", ".join(names)
            target.executemany(f"INSERT INTO {table} ({listed}) VALUES ({marks})", rows)
        one_chain(source, target)
        target.commit()
        assert set(columns(target)["agents"]) < set(known["agents"])
    for file in home.glob("solward.db*"):
        file.unlink()
    old.chmod(0o600)
    old.rename(new)


def one_chain(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """The audit log as the first releases wrote it: one chain of all, whose numbers are hashed."""
    seq, previous = 0, "0" * 64
    for ms, event, data in source.execute("SELECT created_ms, event, data FROM audit ORDER BY seq"):
        seq += 1
        hashed = jsontext.dumps([seq, ms, event, data, previous], canonical=True)
        row = (seq, ms, event, data, previous, hashlib.sha256(hashed.encode()).hexdigest())
        target.execute(f"INSERT INTO audit ({OLD_AUDIT}) VALUES (?, ?, ?, ?, ?, ?)", row)
        previous = row[-1]
    target.execute("INSERT INTO audit_head (id, seq, hash) VALUES (1, ?, ?)", (seq, previous))


async def lived(service: Solward, cycles: int) -> tuple[Agent, tuple[Decision, ...]]:
    """An agent that has run some cycles, and what it decided in them."""
    wallet = await service.wallets.create("demo")
    await service.operations.airdrop(wallet.id, ADMIN, amount=2)
    agent = await service.agents.create(
        {
            "name": "Ada",
            "walletId": wallet.id,
            "llmProvider": "rules",
            "llmModel": "rules",
            "strategy": STRATEGY,
            "loopIntervalMs": 1000,
        }
    )
    await service.agents.start(agent.id)
    return agent, await decided(service, agent, cycles)


async def decided(service: Solward, agent: Agent, cycle: int) -> tuple[Decision, ...]:
    """All decisions, once the agent has made that of `cycle`."""
    async with asyncio.timeout(30):
        while True:
            found = await service.agents.decisions(agent.id, limit=500)
            if found and found[0].cycle >= cycle:
                return found
            await asyncio.sleep(0.02)


def entry(decision: Decision) -> MemoryEntry:
    return MemoryEntry(
        decision.cycle,
        decision.reasoning,
        decision.action,
        decision.outcome,
        decision.created_ms,
    )


def settings(home: Path) -> Settings:
    return Settings(_env_file=None, solward_home=home, max_transactions_per_minute=1000)


async def test_a_life_under_the_first_revision_goes_on_under_this_one(tmp_path: Path) -> None:
    async with Solward.open(settings(tmp_path), demo=True) as service:
        agent, _ = await lived(service, 2)
    taken_back(tmp_path, FIRST)
    with closing(sqlite3.connect(tmp_path / "solward.db")) as connection:
        [cycle_no] = connection.execute("SELECT cycle_no FROM agents").fetchone()
        records = connection.execute("SELECT id FROM transactions ORDER BY seq DESC").fetchall()
        audit = connection.execute(f"SELECT {OLD_AUDIT} FROM audit ORDER BY seq").fetchall()
    assert cycle_no >= 3

    async with Solward.open(settings(tmp_path), demo=True) as service:
        upgraded = await service.agents.get(agent.id)
        assert upgraded.llm_options == {}
        shown = upgraded.to_json()
        assert shown["llmOptions"] == {}
        assert shown["llmBudget"] == {}
        assert (upgraded.status, upgraded.strategy) == ("running", STRATEGY)

        after = await decided(service, agent, cycle_no)
        await service.agents.stop(agent.id)
        after = await service.agents.decisions(agent.id, limit=500)
        assert [each.cycle for each in after] == list(range(len(after), 0, -1))
        assert all("Status: confirmed" in each.outcome for each in after)
        assert await service.agents.memory(agent.id) == tuple(map(entry, after))
        assert (await service.agents.tokens(agent.id)).tokens == 0

        history: list[TransactionRecord] = await service.transactions(agent.wallet_id, limit=500)
        assert {identity for (identity,) in records} <= {record.id for record in history}
        paid = len([record for record in history if record.type == "transfer"])
        assert paid == len(after)
        assert await service.ledger.balance(RECIPIENT) == paid * 10_000_000
        left = (await service.balances(agent.wallet_id)).lamports
        assert left == 2 * 10**9 - paid * (10_000_000 + 5_000)
        spent = (await service.agent_limits(agent.id))["dailySpendingLimitSol"]
        assert (spent["spent"], spent["reserved"]) == (paid * Decimal("0.01"), 0)
        log = await service.audit.verify(earlier=audit[-1][-1])
        assert {chain.partition(":")[0] for chain in log.heads} == {"", "agent", "wallet"}

    with closing(sqlite3.connect(tmp_path / "solward.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        kept = f"SELECT {OLD_AUDIT} FROM audit WHERE chain = '' AND number = seq ORDER BY seq"
        assert connection.execute(kept).fetchmany(len(audit)) == audit


@pytest.mark.parametrize("revision", ["0001", "0002"])
async def test_the_one_audit_chain_of_earlier_releases_goes_on(
    tmp_path: Path, revision: str
) -> None:
    database = await Database.open(None, tmp_path)
    for number in range(3):
        await AuditLog(database).append("agent:stopped", {"agentId": "a", "number": number})
    await database.close()
    taken_back(tmp_path, revision)
    database = await Database.open(None, tmp_path)
    upgraded = await AuditLog(database).verify()
    assert {chain: head.number for chain, head in upgraded.heads.items()} == {"": 3}
    await AuditLog(database).append("key:created", {"keyId": "k"})
    await AuditLog(database).append("agent:stopped", {"agentId": "a"})
    log = await AuditLog(database).verify(upgraded.hash, upgraded.heads)
    assert {chain: head.number for chain, head in log.heads.items()} == {"": 4, "agent:a": 1}
    assert [entry.seq for entry in await AuditLog(database).latest()] == [5, 4, 3, 2, 1]
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit SET data = '{}' WHERE seq = 2"))
    with pytest.raises(AuditBroken, match=r"broken at entry 2\b"):
        await AuditLog(database).verify()
    await database.close()


async def test_an_empty_log_of_an_earlier_release_goes_on(tmp_path: Path) -> None:
    make_at(tmp_path / "solward.db", "0002")
    database = await Database.open(None, tmp_path)
    await AuditLog(database).append("key:created", {"keyId": "k"})
    assert (await AuditLog(database).verify()).heads[""].number == 1
    await database.close()


async def test_an_upgraded_agent_can_be_given_what_is_new(tmp_path: Path) -> None:
    async with Solward.open(settings(tmp_path), demo=True) as service:
        agent, _ = await lived(service, 1)
    taken_back(tmp_path, FIRST)
    async with Solward.open(settings(tmp_path), demo=True) as service:
        changed = await service.agents.update(
            agent.id, {"llmBudget": {"maxTokensPerDay": 1000}, "loopIntervalMs": 3_600_000}
        )
        assert changed == await service.agents.get(agent.id)
        assert changed.to_json()["llmBudget"]["maxTokensPerDay"] == 1000


async def test_an_upgrade_cut_off_leaves_the_old_database_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solward.store import schema as module

    async with Solward.open(settings(tmp_path), demo=True) as service:
        agent, _ = await lived(service, 1)
    taken_back(tmp_path, FIRST)

    def fail_at_the_end(connection: object, versions: set[str]) -> None:
        run(connection, versions)  # type: ignore[arg-type]
        raise RuntimeError("cut off")

    run = module.run_migrations
    monkeypatch.setattr(module, "run_migrations", fail_at_the_end)
    with pytest.raises(RuntimeError, match="cut off"):
        await Database.open(None, tmp_path)
    with closing(sqlite3.connect(tmp_path / "solward.db")) as connection:
        assert "llm_options" not in columns(connection)["agents"]
        version = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        assert version == [(FIRST,)]
    monkeypatch.undo()
    async with Solward.open(settings(tmp_path), demo=True) as service:
        assert (await service.agents.get(agent.id)).llm_options == {}
