"""Procrastinate's tables on PostgreSQL: made by the release that is installed, compared with it at
each start, and brought up to it by `solward database upgrade`.

A release ships its migrations as files, and leaves it to others to know which of them a database
has. That is stored in `queue_migrations`, in the transaction that applies one.
"""

from __future__ import annotations

from pathlib import Path

from procrastinate import __version__ as release
from procrastinate.schema import SchemaManager
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database, lock_exclusive
from solward.types.errors import StoreError

# The last migration of procrastinate 3.10, which made the queues that lack `queue_migrations`.
_LAST_OF_3_10 = "03.04.00_50_post_add_retry_failed_job_procedure.sql"

_MAKE_APPLIED = text("CREATE TABLE queue_migrations (name text PRIMARY KEY)")
_APPLIED = text("SELECT name FROM queue_migrations")
_ADD_APPLIED = text("INSERT INTO queue_migrations (name) VALUES (:name)")
# Many statements in one text, which the driver takes only without parameters.
_SCRIPT = {"no_parameters": True}

# Finding an agent's job must not read the whole backlog. Rows of jobs live for a second, so dead
# ones pile up unless they are vacuumed early.
_TUNE = (
    "CREATE INDEX IF NOT EXISTS solward_jobs_lock ON procrastinate_jobs (lock) "
    "WHERE status IN ('todo', 'doing')",
    *(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, "
        "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0, "
        "autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000)"
        for table in ("procrastinate_jobs", "procrastinate_events")
    ),
)


async def prepare(connection: AsyncConnection) -> None:
    """Make the tables where they are missing; processes may start together.

    Raises:
        StoreError: they are older or newer than the installed release.
    """
    if missing := await _missing(connection):
        raise StoreError(
            f"The queue's tables in the database are older than procrastinate {release}, which is"
            f" installed, and lack its migration {missing[0].name}: stop every process, back up,"
            " and run solward database upgrade"
        )


async def upgrade(database: Database) -> list[str]:
    """Apply the migrations that the installed release ships and the database lacks, each in a
    transaction of its own; returns their names. Interrupted, it goes on where it was.

    Raises:
        StoreError: one could not be applied, or the tables are newer than the installed release.
    """
    applied: list[str] = []
    while True:
        async with database.write() as connection:
            missing = await _missing(connection)
            if not missing:
                return applied
            name = missing[0].name
            try:
                script = missing[0].read_text("utf-8")
                await connection.exec_driver_sql(script, execution_options=_SCRIPT)
            except DBAPIError as error:
                raise StoreError(f"The migration {name} failed: {error.orig}") from error
            await connection.execute(_ADD_APPLIED, {"name": name})
        applied.append(name)


async def _missing(connection: AsyncConnection) -> list[Path]:
    """The installed release's migrations that the database lacks, in their order; makes the tables
    where there are none."""
    await lock_exclusive(connection, "jobs")
    shipped = _shipped()
    names = [each.name for each in shipped]
    tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if "queue_migrations" not in tables:
        await connection.execute(_MAKE_APPLIED)
        made = names
        if "procrastinate_jobs" in tables:
            made = [each for each in names if each <= _LAST_OF_3_10]
        else:
            schema = SchemaManager.get_schema()
            await connection.exec_driver_sql(schema, execution_options=_SCRIPT)
            for statement in _TUNE:
                await connection.execute(text(statement))
        await connection.execute(_ADD_APPLIED, [{"name": each} for each in made])
    applied = set((await connection.execute(_APPLIED)).scalars())
    if unknown := applied.difference(names):
        raise StoreError(
            f"The queue's tables in the database are newer than procrastinate {release}, which is"
            f" installed and does not know their migration {max(unknown)}: install the release with"
            " which solward database upgrade was run"
        )
    return [each for each in shipped if each.name not in applied]


def _shipped() -> list[Path]:
    """The installed release's migrations, in their order: by version, then by number."""
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
