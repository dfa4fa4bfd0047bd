"""The shipped migrations make exactly the tables the code knows."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from tests.database.releases import connected, empty, make_at, tables_of
from tests.support.database import Postgres

from solward.database import schema as schema_module
from solward.database.database import Database
from solward.database.schema import HEAD, MIGRATIONS
from solward.database.tables import metadata
from solward.types.errors import StoreError

CATALOGUE = (
    "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name,"
    " is_identity, identity_generation FROM information_schema.columns"
    " WHERE table_schema = 'public' AND table_name <> 'alembic_version' ORDER BY 1, 2",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace AND contype <> 'n'"
    " AND conname NOT LIKE 'alembic%' ORDER BY 1, 2",
    "SELECT tablename, indexname, indexdef FROM pg_indexes"
    " WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1, 2",
)


def schema(path: Path) -> dict[str, list[str]]:
    """Each object's columns and constraints, without the whitespace and order of their writer.

    A column that a migration added stands behind the constraints.
    """
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'trigger'"
    )
    found = {
        name: sorted(re.split(r",(?![^(]*\))", re.sub(r'[\s"]+', "", sql)[:-1].partition("(")[2]))
        for name, sql in rows
        if not name.startswith("alembic_")
    }
    connection.close()
    return found


def catalogue(url: str) -> list[tuple[Any, ...]]:
    """Columns, constraints and indexes of a PostgreSQL database, as it writes them itself."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for part in CATALOGUE for row in connection.execute(text(part))]
    engine.dispose()
    return found


@pytest.mark.sqlite("its catalogue; PostgreSQL's is compared below")
async def test_migrations_and_tables_are_the_same(tmp_path: Path) -> None:
    await (await Database.open(None, tmp_path)).close()
    drawn = tmp_path / "drawn.db"
    engine = create_engine(f"sqlite:///{drawn}")
    metadata.create_all(engine)
    engine.dispose()
    assert schema(tmp_path / "solward.db") == schema(drawn)

    migrated = create_engine(f"sqlite:///{tmp_path / 'solward.db'}")
    with migrated.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    migrated.dispose()


@pytest.mark.sqlite("what copies them; PostgreSQL copies its own template")
async def test_what_tests_copy_is_what_the_migrations_make(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("made", "first", "copied")]
    for home in homes:
        home.mkdir()
    make_at(homes[0], HEAD)
    for home in homes[1:]:
        await (await Database.open(None, home)).close()
    made, _, copied = (list(sqlite3.connect(home / "solward.db").iterdump()) for home in homes)
    assert copied == made


@pytest.mark.more
async def test_on_postgres_migrations_and_tables_are_the_same(
    postgres_url: str, postgres: Postgres, tmp_path: Path
) -> None:
    await (await Database.open(postgres_url, tmp_path)).close()
    drawn = postgres.fresh()
    for url in (postgres_url, drawn):
        engine = create_engine(url)
        with engine.begin() as connection:
            if url == drawn:
                metadata.create_all(connection)
            context = MigrationContext.configure(connection, opts={"compare_server_default": True})
            assert compare_metadata(context, metadata) == []
        engine.dispose()
    assert catalogue(postgres_url) == catalogue(drawn)
    postgres.drop(drawn)


async def test_processes_that_start_together_migrate_once(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated = []

    def count(connection: Connection, versions: set[str]) -> None:
        migrated.append(versions)
        run(connection, versions)

    run = schema_module.run_migrations
    monkeypatch.setattr(schema_module, "run_migrations", count)
    opened = await asyncio.gather(*(Database.open(postgres_url, tmp_path) for _ in range(4)))
    assert migrated == [set()]
    for database in opened:
        await database.close()


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    await (await Database.open(None, tmp_path)).close()
    with connected(tmp_path) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="revision 9999, made by a newer version"):
        await Database.open(None, tmp_path)


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    empty(tmp_path)
    with connected(tmp_path) as connection:
        connection.execute(text("CREATE TABLE wallets (id TEXT)"))
    with pytest.raises(StoreError, match="another program's tables"):
        await Database.open(None, tmp_path)
    with connected(tmp_path) as connection:
        [table] = tables_of(connection).sorted_tables
        assert [column.name for column in table.columns] == ["id"]


async def test_a_migration_that_fails_leaves_an_empty_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_at_the_end(connection: Connection, versions: set[str]) -> None:
        run(connection, versions)
        raise RuntimeError("cut off")

    empty(tmp_path)
    run = schema_module.run_migrations
    monkeypatch.setattr(schema_module, "run_migrations", fail_at_the_end)
    with pytest.raises(RuntimeError, match="cut off"):
        await Database.open(None, tmp_path)
    with connected(tmp_path) as connection:
        assert not tables_of(connection).tables
    monkeypatch.undo()
    await (await Database.open(None, tmp_path)).close()


async def test_a_database_in_place_opens_without_alembic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Database.open(None, tmp_path)).close()

    def never(*_: object) -> None:
        raise AssertionError("migrated again")

    monkeypatch.setattr("solward.database.schema.run_migrations", never)
    await (await Database.open(None, tmp_path)).close()
