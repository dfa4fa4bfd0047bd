"""Prepared statements on both databases: Core's parameters, rows and errors, in one transaction."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Enum,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql import ClauseElement

from solward.database.database import Database
from solward.database.prepared import Prepared
from solward.types.errors import StoreError


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


things = Table(
    "things",
    MetaData(),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, unique=True),
    Column("tags", JSON),
    Column("on", Boolean),
    Column("colour", Enum(Colour)),
    Column("body", LargeBinary),
    Column("price", Numeric(20, 4)),
)
ADD = Prepared(insert(things))
BY_ID = Prepared(select(things).where(things.c.id == bindparam("b_id")))
NAMES = Prepared(
    select(things.c.id, func.upper(things.c.name).label("loud"))
    .where(things.c.id.in_(bindparam("b_ids", expanding=True)), things.c.name != "nobody")
    .order_by(things.c.id)
)
RENAME = Prepared(
    update(things).where(things.c.id == bindparam("b_id")).values(name=bindparam("b_name"))
)
TAKE = Prepared(
    delete(things)
    .where(things.c.colour.in_(bindparam("b_colours", expanding=True)))
    .returning(things.c.id, things.c.tags)
)
COUNT = Prepared(select(func.count()).select_from(things))


@pytest.fixture
async def database(either_database: Database) -> Database:
    async with either_database.write() as connection:
        await connection.run_sync(things.metadata.create_all)
    return either_database


def thing(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}"} | values


async def count(database: Database) -> int:
    async with database.read() as connection:
        return int(await COUNT.scalar(connection))


FULL = {
    "id": 2**62,
    "name": "Zoë %(x)s ?",
    "tags": ["a", {"b": [1, None]}],
    "on": True,
    "colour": Colour.BLUE,
    "body": b"\x00\xff%",
    "price": Decimal("12.3400"),
}


@pytest.mark.parametrize("values", [FULL, dict.fromkeys(FULL) | {"id": 1}], ids=["full", "null"])
async def test_values_and_rows_have_cores_types(database: Database, values: dict[str, Any]) -> None:
    async with database.write() as connection:
        assert await ADD.run(connection, values) == 1
        prepared = await BY_ID.first(connection, {"b_id": values["id"]})
        core = (await connection.execute(select(things))).one()
        await connection.execute(delete(things))
        await connection.execute(insert(things), values)
        of_core = await BY_ID.first(connection, {"b_id": values["id"]})
    assert prepared == of_core == tuple(core) == tuple(values.values())
    assert prepared._asdict() == values
    assert [type(each) for each in prepared] == [type(each) for each in core]


@pytest.mark.parametrize("ids", [[], [3], [1, 3], [1, 2, 3, 9], list(range(200))], ids=len)
async def test_a_list_of_any_length_finds_what_core_finds(
    database: Database, ids: list[int]
) -> None:
    async with database.write() as connection:
        assert await ADD.many(connection, [thing(number) for number in range(5)]) == 5
        found = await NAMES.all(connection, {"b_ids": ids})
        core = await connection.execute(NAMES.statement, {"b_ids": ids})
        assert found == [tuple(row) for row in core]
    assert [row.id for row in found] == [number for number in ids if number < 5]
    assert [row.loud for row in found] == [f"N{number}" for number in ids if number < 5]


async def test_lists_of_many_lengths_are_few_texts(database: Database) -> None:
    names = Prepared(NAMES.statement)
    async with database.read() as connection:
        for length in range(300):
            await names.all(connection, {"b_ids": list(range(length))})
    assert len(names._plans) == 1 + 7 + 4


async def test_what_a_list_says_is_processed_and_rows_come_back(database: Database) -> None:
    async with database.write() as connection:
        await ADD.many(
            connection,
            [thing(1, colour=Colour.RED, tags=[1]), thing(2, colour=Colour.BLUE, tags=[2])],
        )
        taken = await TAKE.all(connection, {"b_colours": [Colour.BLUE]})
    assert taken == [(2, [2])]
    assert await count(database) == 1


async def test_the_rows_changed_are_counted(database: Database) -> None:
    async with database.write() as connection:
        assert await ADD.many(connection, []) == 0
        assert await ADD.many(connection, [thing(1)]) == 1
        assert await ADD.many(connection, [thing(2), thing(3)]) == 2
        renamed = [{"b_id": number, "b_name": f"x{number}"} for number in (1, 2, 7)]
        assert await RENAME.many(connection, renamed) == 2
        assert await RENAME.run(connection, {"b_id": 7, "b_name": "y"}) == 0
        assert await BY_ID.first(connection, {"b_id": 7}) is None
        assert await Prepared(select(things.c.name).limit(0)).scalar(connection) is None


async def test_columns_that_are_not_given_are_left_to_the_database(database: Database) -> None:
    async with database.write() as connection:
        await ADD.run(connection, {"id": 1})
        await ADD.run(connection, {"name": "n", "id": 2})
        rows = await Prepared(select(things.c.id, things.c.name).order_by(things.c.id)).all(
            connection
        )
    assert rows == [(1, None), (2, "n")]


async def test_a_parameter_that_does_not_belong_or_is_missing_is_an_error(
    database: Database,
) -> None:
    async with database.write() as connection:
        with pytest.raises(InvalidRequestError, match="nothing"):
            await ADD.run(connection, {"id": 1, "nothing": 2})
        with pytest.raises(InvalidRequestError, match="b_name"):
            await RENAME.run(connection, {"b_id": 1})


async def failing(database: Database, work: Callable[[AsyncConnection], Awaitable[Any]]) -> None:
    async with database.write() as connection:
        await ADD.run(connection, thing(1))
        await work(connection)


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
async def test_a_constraint_is_cores_error_without_a_value(database: Database, many: bool) -> None:
    async def twice(connection: AsyncConnection) -> None:
        rows = [{"id": 2, "name": "canary"}, {"id": 3, "name": "canary"}]
        if many:
            await ADD.many(connection, rows)
        for row in rows:
            await ADD.run(connection, row)

    with pytest.raises(IntegrityError) as caught:
        await failing(database, twice)
    error = caught.value
    for shown in (str(error), repr(error), str(error.orig), repr(error.orig), str(error.params)):
        assert "canary" not in shown
    assert "INSERT INTO things" in str(error)
    assert await count(database) == 0


async def test_a_failure_of_the_database_is_a_store_error(database: Database) -> None:
    async def broken(connection: AsyncConnection) -> None:
        if database.shared:
            await connection.execute(text("SET TRANSACTION READ ONLY"))
        else:
            await connection.execute(text("PRAGMA query_only = ON"))
        await ADD.run(connection, thing(2))

    with pytest.raises(StoreError, match=r"read-?only"):
        await failing(database, broken)
    assert await count(database) == 0


async def test_the_first_statement_begins_the_transaction(database: Database) -> None:
    async with database.read() as reader:
        assert await COUNT.scalar(reader) == 0
        async with database.write() as writer:
            await ADD.run(writer, thing(1))
        assert await COUNT.scalar(reader) == 0
    assert await count(database) == 1


async def test_core_and_prepared_statements_are_one_transaction(database: Database) -> None:
    async def mixed(connection: AsyncConnection) -> None:
        await connection.execute(insert(things), thing(2))
        assert await COUNT.scalar(connection) == 2
        seen = await connection.execute(select(func.count()).select_from(things))
        assert seen.scalar_one() == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing(database, mixed)
    assert await count(database) == 0


@pytest.mark.more
@pytest.mark.parametrize("cut", ["server", "caller"])
async def test_a_connection_that_was_lost_is_not_used_again(
    postgres_database: Database, cut: str
) -> None:
    begun = asyncio.Event()
    pid, sleep = Prepared(text("SELECT pg_backend_pid()")), Prepared(text("SELECT pg_sleep(60)"))
    pids: list[int] = []

    async def work() -> None:
        async with postgres_database.write() as connection:
            pids.append(await pid.scalar(connection))
            begun.set()
            await sleep.all(connection)

    task = asyncio.create_task(work())
    await begun.wait()
    if cut == "server":
        async with postgres_database.write() as connection:
            await connection.execute(text(f"SELECT pg_terminate_backend({pids[0]})"))
        with pytest.raises(StoreError):
            await task
    else:
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for _ in range(5):
        async with postgres_database.write() as connection:
            assert await pid.scalar(connection) not in pids


def test_a_statement_that_brings_no_list_has_none() -> None:
    statements: list[ClauseElement] = [ADD.statement, BY_ID.statement, RENAME.statement]
    assert [Prepared(each)._lists for each in statements] == [frozenset()] * 3
    assert NAMES._lists == {"b_ids"}
