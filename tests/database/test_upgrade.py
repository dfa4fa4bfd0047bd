"""A database that the first version made, with a life in it, goes on under this one."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.database.releases import (
    OLD_AUDIT,
    connected,
    goes_on,
    make_at,
    pays,
    rows_of,
    stored_home,
    tables_of,
    taken_back,
)
from tests.support import database as databases
from tests.support.agents import hire
from tests.support.services import serving_api

from solward.agents.agent import Agent
from solward.agents.decisions import Decision, MemoryEntry
from solward.audit.log import AuditLog
from solward.database.database import Database
from solward.database.schema import HEAD
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.errors import AuditBroken
from solward.types.record import TransactionRecord
from solward_cli.up.seller import listen_for_buyers, site_of

RECIPIENT = "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T"
STRATEGY = f"always do transfer to={RECIPIENT} amount=0.01"
FIRST = "0001"
VERSION = "SELECT version_num FROM alembic_version"
AUDIT = f"SELECT {', '.join(OLD_AUDIT)} FROM audit"


async def lived(service: Solward, cycles: int) -> tuple[Agent, tuple[Decision, ...]]:
    """An agent that has run some cycles, and what it decided in them."""
    agent = await hire(service, strategy=STRATEGY, loopIntervalMs=1000)
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
    [(cycle_no,)] = rows_of(tmp_path, "SELECT cycle_no FROM agents")
    records = rows_of(tmp_path, "SELECT id FROM transactions")
    audit = rows_of(tmp_path, f"{AUDIT} ORDER BY seq")
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
        spent = (await service.agents.limits(agent.id))["dailySpendingLimitSol"]
        assert (spent["spent"], spent["reserved"]) == (paid * Decimal("0.01"), 0)
        log = await service.audit.verify(earlier=audit[-1][-1])
        assert {chain.partition(":")[0] for chain in log.heads} == {"", "agent", "wallet"}
        told = [entry.event for entry in await service.audit.latest(500)]
        assert told.count("audit:authenticated") == 1

    assert rows_of(tmp_path, VERSION) == [(HEAD,)]
    if not databases.ON_POSTGRES:
        assert rows_of(tmp_path, "PRAGMA foreign_key_check") == []
    kept = rows_of(tmp_path, f"{AUDIT} WHERE chain = '' AND number = seq ORDER BY seq")
    assert kept[: len(audit)] == audit


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
    numbers = [entry.seq for entry in await AuditLog(database).latest()]
    assert numbers[2:] == [3, 2, 1]
    assert numbers[:2] == (
        [5, 4] if not databases.ON_POSTGRES else sorted(numbers[:2], reverse=True)
    )
    async with database.write() as connection:
        await connection.execute(text("UPDATE audit SET data = '{}' WHERE seq = 2"))
    with pytest.raises(AuditBroken, match=r"broken at entry 2\b"):
        await AuditLog(database).verify()
    await database.close()


async def test_an_empty_log_of_an_earlier_release_goes_on(tmp_path: Path) -> None:
    make_at(tmp_path, "0002")
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
        # It runs meanwhile, and takes fences.
        assert changed.to_json() == (await service.agents.get(agent.id)).to_json()
        assert changed.to_json()["llmBudget"]["maxTokensPerDay"] == 1000


async def test_an_upgrade_cut_off_leaves_the_old_database_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solward.database import schema as module

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
    with connected(tmp_path) as connection:
        assert "llm_options" not in tables_of(connection).tables["agents"].columns
    assert rows_of(tmp_path, VERSION) == [(FIRST,)]
    monkeypatch.undo()
    async with Solward.open(settings(tmp_path), demo=True) as service:
        assert (await service.agents.get(agent.id)).llm_options == {}


@pytest.mark.sqlite("a stored file")
async def test_a_home_that_the_last_release_stored_goes_on(tmp_path: Path) -> None:
    facts = stored_home("2ccf004-sqlite", tmp_path / "home")
    shop = listen_for_buyers()
    given: dict[str, Any] = {
        "api_key_store": "database",
        "max_transactions_per_minute": 1000,
        "payments_private_sites": (site_of(shop),),
    }
    async with serving_api(tmp_path / "home", demo=True, **given) as api:
        await goes_on(api, facts)
        await pays(api, facts["treasury"], shop)
    # Whom wallets paid under the old release they have paid.
    paid = set(rows_of(tmp_path / "home", "SELECT wallet_id, address FROM paid_recipients"))
    sent = (
        "SELECT wallet_id, json_extract(details, '$.to') FROM transactions"
        " WHERE type IN ('transfer', 'token_transfer') AND status = 'confirmed'"
    )
    assert set(rows_of(tmp_path / "home", sent)) <= paid
    assert rows_of(tmp_path / "home", "PRAGMA integrity_check") == [("ok",)]
    assert rows_of(tmp_path / "home", "PRAGMA foreign_key_check") == []
