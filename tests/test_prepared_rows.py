"""A statement for each of many rows, on both databases: the same rows, one statement on the server,
and all or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, MetaData, Table, Text, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.prepared import ForEachRow

things = Table(
    "things",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("number", BigInteger),
    Column("name", Text),
)
TYPES = {column.name: column.type for column in things.columns}
ADD = ForEachRow(TYPES, lambda row: insert(things).from_select(list(row), select(*row.values())))
COUNT_UP = ForEachRow(
    {"of": Text(), "by": BigInteger()},
    lambda row: (
        update(things).where(things.c.id == row["of"]).values(number=things.c.number + row["by"])
    ),
)
ODD = 'a "quote", a \\ stroke, ünï ✓ \U0001f600, \x01, a\nline, %s :name {}'


@pytest.fixture
async def database(either_database: Database) -> Database:
    async with either_database.write() as connection:
        await connection.run_sync(things.create)
    return either_database


async def rows_of(connection: AsyncConnection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.execute(select(things).order_by(things.c.id))]


def rows(*values: tuple[str, int | None, str | None]) -> Sequence[dict[str, Any]]:
    return [dict(zip(TYPES, each, strict=True)) for each in values]


async def test_each_row_is_written_as_it_is_given(database: Database) -> None:
    given = [("a", 2**63 - 1, ODD), ("b", -(2**63), None), ("c", None, ""), ("d", 0, "null")]
    async with database.write() as connection:
        await ADD.run(connection, [])
        await ADD.run(connection, rows(*given))
        assert await rows_of(connection) == given
        await COUNT_UP.run(connection, [{"of": "d", "by": 5}, {"of": "b", "by": 1}])
        await COUNT_UP.run(connection, [{"of": "d", "by": 2}, {"of": "nobody", "by": 1}])
    async with database.read() as connection:
        assert [row[:2] for row in await rows_of(connection)] == [
            ("a", 2**63 - 1), ("b", 1 - 2**63), ("c", None), ("d", 7)
        ]  # fmt: skip


async def test_where_one_row_is_refused_none_is_written(database: Database) -> None:
    with pytest.raises(IntegrityError) as refused:
        async with database.write() as connection:
            await ADD.run(connection, rows(("a", 1, "one"), ("b", 2, "secret"), ("b", 3, "secret")))
    assert "secret" not in str(refused.value)
    async with database.read() as connection:
        assert await rows_of(connection) == []


async def test_text_that_no_row_can_hold_is_refused(database: Database) -> None:
    if not database.shared:
        pytest.skip("SQLite holds it")
    with pytest.raises(DBAPIError):
        async with database.write() as connection:
            await ADD.run(connection, rows(("a", 1, "nothing"), ("b", 1, "\x00")))
    async with database.read() as connection:
        assert await rows_of(connection) == []


async def test_the_server_runs_one_statement_however_many_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not database.shared:
        pytest.skip("SQLite has no round trips")
    async with database.write() as connection:
        await connection.execute(
            text("CREATE TABLE runs AS SELECT 0 AS runs"),
        )
        await connection.execute(
            text(
                "CREATE FUNCTION count_run() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN UPDATE runs SET runs = runs + 1; RETURN NULL; END'"
            )
        )
        await connection.execute(
            text(
                "CREATE TRIGGER counted AFTER INSERT ON things"
                " FOR EACH STATEMENT EXECUTE FUNCTION count_run()"
            )
        )
        await ADD.run(connection, rows(*((f"t{number}", number, None) for number in range(300))))
        assert len(await rows_of(connection)) == 300
        assert (await connection.execute(text("SELECT runs FROM runs"))).scalar_one() == 1
