"""Upgrades a database to this version's schema with the shipped migrations."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.types.errors import StoreError

# The newest revision in migrations/versions (tested): with it, a start on an up-to-date database
# does not import alembic.
HEAD = "0019"

MIGRATIONS = Path(__file__).with_name("migrations")

# Events are numbered by transaction ids, which are low again after a dump was restored into another
# cluster; the offset that is added makes up for it.
_NEVER_BACK = text(
    "UPDATE audit_offset SET value = value + last.seq + 1 - (value + (last.xid << 16)) "
    "FROM (SELECT max(seq) AS seq, pg_current_xact_id()::text::bigint AS xid FROM audit) AS last "
    "WHERE last.seq >= value + (last.xid << 16)"
)

_VERSIONS = Table("alembic_version", MetaData(), Column("version_num", Text))


async def upgrade(connection: AsyncConnection) -> None:
    """Run what migrations are missing, inside the caller's write transaction.

    Raises:
        StoreError: the database belongs to a newer version of Solward, or is another program's.
    """
    await connection.run_sync(_upgrade)
    if connection.dialect.name != "sqlite":
        await connection.execute(_NEVER_BACK)


async def revision(connection: AsyncConnection) -> str | None:
    """The revision a database is at, None where it has none."""
    if not await connection.run_sync(lambda each: inspect(each).has_table(_VERSIONS.name)):
        return None
    return (await connection.execute(select(_VERSIONS.c.version_num))).scalar()


def _upgrade(connection: Connection) -> None:
    tables = set(inspect(connection).get_table_names())
    versions = (
        set(connection.scalars(select(_VERSIONS.c.version_num)))
        if "alembic_version" in tables
        else set()
    )
    if versions == {HEAD}:
        return
    if not versions and tables - {"alembic_version"}:
        raise StoreError("The database holds another program's tables; choose an empty one")
    run_migrations(connection, versions)


def run_migrations(connection: Connection, versions: set[str]) -> None:
    """Upgrade from `versions` (empty for a new database) to the newest revision."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    unknown = versions - known
    if unknown:
        raise StoreError(
            f"The database is at revision {', '.join(sorted(unknown))}, made by a newer version "
            f"of Solward; this one knows up to {HEAD}"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
