"""What the store says of agents as their cycles begin: of each its own, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.promises import promise
from tests.support.agents import hire, record_of

from solward.agents.observe import RECENT_TRANSACTIONS, PermissionReader, SnapshotReader
from solward.database.tables import transactions
from solward.operations.policies.grant_sentences import DEFAULTS_SENTENCE
from solward.service.service import Solward
from solward.settings import Settings
from solward.types.record import TransactionStatus
from solward.vault.store.transactions import insert_record


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Solward]:
    async with Solward.open(Settings(_env_file=None, solward_home=tmp_path), demo=True) as opened:
        yield opened


async def test_many_agents_are_read_in_one_transaction_and_each_gets_its_own(
    service: Solward,
) -> None:
    agents = [await hire(service, name=f"scout-{number}") for number in range(5)]
    busy = agents[3].wallet_id
    async with service.database.write() as connection:
        for number in range(RECENT_TRANSACTIONS + 2):
            await insert_record(
                connection, record_of(id=f"t{number}", wallet_id=busy), action_key=None
            )
    read = SnapshotReader(service.database, PermissionReader(service.database, service.tokens))
    kinds: list[str] = []
    service.database.on_transaction = kinds.append
    stored = await asyncio.gather(*map(read, agents))
    assert kinds == ["read"]
    newest = [f"t{number}" for number in range(RECENT_TRANSACTIONS + 1, 1, -1)]
    assert [each.id for each in stored[3].recent] == newest
    for agent, own in zip(agents, stored, strict=True):
        assert {each.wallet_id for each in own.recent} == {agent.wallet_id}
    assert {one.permissions.sentences for one in stored} == {(DEFAULTS_SENTENCE,)}


@promise("mark-changes-with-records")
async def test_the_mark_is_another_one_when_a_transaction_begins_and_when_it_ends(
    service: Solward,
) -> None:
    agent = await hire(service, name="scout")
    read = SnapshotReader(service.database, PermissionReader(service.database, service.tokens))
    marks = [(await read(agent)).mark]
    pending = record_of(wallet_id=agent.wallet_id, status=TransactionStatus.PENDING)
    async with service.database.write() as connection:
        await insert_record(connection, pending, action_key=None)
    marks.append((await read(agent)).mark)
    assert (await read(agent)).mark == marks[-1]
    async with service.database.write() as connection:
        await connection.execute(update(transactions).values(status="confirmed"))
    marks.append((await read(agent)).mark)
    assert len(set(marks)) == 3
