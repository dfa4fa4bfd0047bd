"""On PostgreSQL, where any number of processes write at once: who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import delete, insert, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.database import WALLET_ROW, agent_row

from solward.agents import remember as cycles
from solward.agents import store as agent_store
from solward.credentials.credentials import record_uses
from solward.database.database import Database
from solward.database.tables import credentials, wallets
from solward.types.errors import KeyRevoked
from solward.vault.store import spending
from solward.vault.store.wallets import set_ceilings

pytestmark = pytest.mark.more

KEY = {
    "id": "k",
    "hash": "h",
    "name": "bot",
    "wallet_id": None,
    "permissions": [],
    "rate_limit": 1,
    "spending_limit_lamports": 1,
    "max_costs_lamports": 1,
    "created_by": "admin",
    "created_ms": 1,
}

# Long enough for a statement that need not wait to have run many times over.
WAITS_S = 0.3


@pytest.fixture
async def database(postgres_database: Database) -> Database:
    async with postgres_database.write() as connection:
        for name in ("w1", "w2"):
            await connection.execute(
                insert(wallets).values(WALLET_ROW | {"id": name, "public_key": name})
            )
        await agent_store.insert_agent(connection, agent_row("a1", cycle_no=1, fence=1))
    return postgres_database


async def reserve(
    database: Database,
    wallet: str,
    keys: Sequence[str] = (),
    run: tuple[str, int, int] | None = None,
) -> str | None:
    """What a reservation does first; answers with the freeze's reason."""
    async with database.write() as connection:
        await spending.lock(connection, wallet, keys, run)
        return await spending.freeze_reason(connection, wallet)


async def waits(task: asyncio.Task[object]) -> bool:
    """Whether somebody is made to wait."""
    done, _ = await asyncio.wait({task}, timeout=WAITS_S)
    return not done


async def freeze(database: Database, scope: str) -> None:
    async with database.write() as connection:
        await spending.set_frozen(connection, scope, True, "stop")


@promise("freeze-comes-first")
@pytest.mark.parametrize("scope", ["service", "wallet:w1"])
async def test_a_freeze_is_in_force_when_it_is_answered(database: Database, scope: str) -> None:
    async with database.write() as connection:
        await spending.lock(connection, "w1")
        freezing = asyncio.create_task(freeze(database, scope))
        assert await waits(freezing)
        late = asyncio.create_task(reserve(database, "w1"))
        assert await waits(late)
        assert await spending.freeze_reason(connection, "w1") is None
    await freezing
    assert await late == "stop"
    assert await reserve(database, "w1") == "stop"
    assert await reserve(database, "w2") == ("stop" if scope == "service" else None)


@promise("wallet-ceilings-bind-everybody")
async def test_a_ceiling_is_in_force_when_it_is_answered(database: Database) -> None:
    async def lower() -> None:
        async with database.write() as connection:
            await set_ceilings(connection, "w1", {"maxSolPerTransaction": 5})

    async with database.write() as connection:
        await spending.lock(connection, "w1")
        lowering = asyncio.create_task(lower())
        assert await waits(lowering)
        assert (await spending.read_binding(connection, "w1")).ceilings == {}
    await lowering
    async with database.write() as connection:
        await spending.lock(connection, "w1")
        assert (await spending.read_binding(connection, "w1")).ceilings == {
            "maxSolPerTransaction": 5
        }


async def test_two_freezes_at_once_are_one(database: Database) -> None:
    for scope in ("service", "wallet:w1"):
        await asyncio.gather(*(freeze(database, scope) for _ in range(8)))
    assert await reserve(database, "w1") == "stop"


async def test_a_key_is_counted_over_all_its_wallets(database: Database) -> None:
    async with database.write() as connection:
        await spending.lock(connection, "w1", ["key:k"])
        same = asyncio.create_task(reserve(database, "w2", ["key:k"]))
        assert await waits(same)
        assert await reserve(database, "w2", ["key:other"]) is None
    await same


async def test_wallets_do_not_wait_for_each_other(database: Database) -> None:
    async with database.write() as connection:
        await spending.lock(connection, "w1")
        assert await reserve(database, "w2") is None
        same = asyncio.create_task(reserve(database, "w1"))
        assert await waits(same)
    await same


async def test_whoever_enters_a_cycle_waits_for_what_the_last_run_reserves(
    database: Database,
) -> None:
    async def enter() -> object:
        async with database.write() as connection:
            return await cycles.enter(connection, [("a1", 1)])

    async with database.write() as connection:
        await spending.lock(connection, "w1", run=("a1", 1, 1))
        entering: asyncio.Task[object] = asyncio.create_task(enter())
        assert await waits(entering)
    assert await entering != [None]


@promise("revoked-ends-what-began")
async def test_a_revocation_waits_for_what_the_key_reserves(database: Database) -> None:
    async with database.write() as connection:
        await connection.execute(insert(credentials).values(KEY))

    async def revoke() -> bool:
        async with database.write() as connection:
            return bool((await connection.execute(delete(credentials))).rowcount)

    async def use() -> None:
        async with database.write() as connection:
            await record_uses(connection, {"k": 5})

    async with database.write() as connection:
        await spending.lock(connection, "w1", ["key:k"], api_key=KEY["hash"])
        await use()
        revoking = asyncio.create_task(revoke())
        assert await waits(revoking)
    assert await revoking
    with pytest.raises(KeyRevoked):
        async with database.write() as connection:
            await spending.lock(connection, "w1", ["key:k"], api_key=KEY["hash"])


async def test_another_secret_waits_for_what_the_key_reserves_and_ends_what_waits_for_it(
    database: Database,
) -> None:
    async with database.write() as connection:
        await connection.execute(insert(credentials).values(KEY))

    async def rotate(to: str) -> None:
        async with database.write() as connection:
            await connection.execute(update(credentials).values(hash=to))

    async def use() -> None:
        async with database.write() as connection:
            await spending.lock(connection, "w1", ["key:k"], api_key=KEY["hash"])

    async with database.write() as connection:
        await spending.lock(connection, "w1", ["key:k"], api_key=KEY["hash"])
        rotating = asyncio.create_task(rotate("h2"))
        assert await waits(rotating)
    await rotating
    with pytest.raises(KeyRevoked):
        await use()

    # One that finds the key while its secret is changed is judged by what it becomes.
    async with database.write() as connection:
        await connection.execute(update(credentials).values(hash=KEY["hash"]))
    async with database.write() as connection:
        await connection.execute(update(credentials).values(hash="h3"))
        using = asyncio.create_task(use())
        assert await waits(using)
    with pytest.raises(KeyRevoked):
        await using


async def test_many_in_any_mixture_never_wait_for_ever(database: Database) -> None:
    async with database.write() as connection:
        for name in ("a2", "a3"):
            await agent_store.insert_agent(connection, agent_row(name, cycle_no=1, fence=1))

    async def enter(connection: AsyncConnection) -> None:
        await cycles.enter(connection, [(f"a{n}", 9) for n in (3, 1, 2)])

    async def one(number: int) -> None:
        wallet, agent = f"w{number % 2 + 1}", (f"a{number % 3 + 1}", 1, 1)
        if number % 10 == 9:
            async with database.write() as connection:
                await spending.set_frozen(connection, ("service", "wallet:w1")[number % 2], False)
        elif number % 3 == 0:
            async with database.write() as connection:
                await enter(connection)
        else:
            await reserve(database, wallet, ["key:b", "key:a"][: number % 3], agent)

    async with asyncio.timeout(60):
        await asyncio.gather(*(one(number) for number in range(300)))
