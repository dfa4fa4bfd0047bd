"""The database of a stopped service, for commands that must run alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solward.settings import Settings
    from solward.vault.store.database import Database


@asynccontextmanager
async def offline_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the settings' database, which no other process uses.

    On SQLite the home's lock proves it. On PostgreSQL no process holds a lease, and the lock
    keeps two such commands from running on one home.

    Raises:
        HomeLocked: a process runs on this home, or on this database.
        ConfigError, StoreError: home or database cannot be used.
    """
    from solward.audit.acts import CLI, act_as
    from solward.errors import HomeLocked
    from solward.settings.home import Home
    from solward.vault.store import processes
    from solward.vault.store.database import Database

    with Home.locked(settings.solward_home) as home:
        database = await Database.open(settings.database_url, home.path)
        try:
            act_as(CLI)
            if database.shared:
                async with database.read() as connection:
                    living = await processes.living(connection)
                if living:
                    raise HomeLocked(
                        f"The database is in use by {', '.join(living)}; stop every process of it"
                        " first (one that was killed counts for 10 seconds more)"
                    )
            yield database
        finally:
            await database.close()
