"""The shipped migrations make exactly the tables the code knows."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from solward.errors import StoreError
from solward.store.database import Database
from solward.store.schema import HEAD, MIGRATIONS
from solward.store.tables import metadata


def schema(path: Path) -> dict[str, list[str]]:
    """Each object's columns and constraints, without the whitespace and order of their writer.

    A column that a migration added stands behind the constraints.
    """
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    found = {
        name: sorted(re.split(r",(?![^(]*\))", re.sub(r'[\s"]+', "", sql)[:-1].partition("(")[2]))
        for name, sql in rows
        if not name.startswith("alembic_")
    }
    connection.close()
    return found


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


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    await (await Database.open(None, tmp_path)).close()
    connection = sqlite3.connect(tmp_path / "solward.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="revision 9999, made by a newer version"):
        await Database.open(None, tmp_path)


async def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "solward.db")
    connection.execute("CREATE TABLE wallets (id TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="another program's tables"):
        await Database.open(None, tmp_path)
    assert schema(tmp_path / "solward.db") == {"wallets": ["idTEXT"]}


async def test_a_migration_that_fails_leaves_an_empty_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solward.store import schema as module

    def fail_at_the_end(connection: object, versions: set[str]) -> None:
        run(connection, versions)  # type: ignore[arg-type]
        raise RuntimeError("cut off")

    run = module.run_migrations
    monkeypatch.setattr(module, "run_migrations", fail_at_the_end)
    with pytest.raises(RuntimeError, match="cut off"):
        await Database.open(None, tmp_path)
    assert schema(tmp_path / "solward.db") == {}
    monkeypatch.undo()
    await (await Database.open(None, tmp_path)).close()


async def test_a_database_in_place_opens_without_alembic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Database.open(None, tmp_path)).close()

    def never(*_: object) -> None:
        raise AssertionError("migrated again")

    monkeypatch.setattr("solward.store.schema.run_migrations", never)
    began = time.process_time()
    await (await Database.open(None, tmp_path)).close()
    assert time.process_time() - began < 0.3
