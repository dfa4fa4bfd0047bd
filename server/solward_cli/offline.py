"""The database of a stopped service, for commands that must run alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from solward.types.errors import HomeLocked, KeystoreError

if TYPE_CHECKING:
    from pathlib import Path

    from solward.database.database import Database
    from solward.settings import Settings
    from solward.vault.custody import Wallets


@asynccontextmanager
async def offline_database(settings: Settings, *, begins: bool = False) -> AsyncIterator[Database]:
    """Open the settings' database, which no other process uses.

    On SQLite the home's lock proves it. On PostgreSQL no process holds a lease, and the lock
    keeps two such commands from running on one home.

    Args:
        begins: whether home and database are made where there are none, as by a service's first
            start. Other commands have nothing to do there, and would leave an empty service behind
            in a home that was mistyped.

    Raises:
        HomeLocked: a process runs on this home, or on this database.
        KeystoreError: no service was ever started there.
        ConfigError, StoreError: home or database cannot be used.
    """
    from solward.audit.acts import CLI, act_as
    from solward.database.database import Database
    from solward.settings.home import Home
    from solward.vault.store import processes

    if not begins:
        async with inspected_database(settings) as existing:
            await refuse_unused(existing, settings.solward_home)
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


@asynccontextmanager
async def inspected_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the settings' database for reading alone, also beside a running service.

    Raises:
        ConfigError, StoreError: there is none, or it cannot be read.
    """
    from solward.database.database import Database

    database = Database.inspect(settings.database_url, settings.solward_home)
    try:
        yield database
    finally:
        await database.close()


async def read_audit_key(settings: Settings, database: Database) -> None:
    """Have a database authenticate what it reads, by the keystore's secret."""
    from solward.vault.custody.keystore import audit_key
    from solward.vault.custody.service import key_source

    source = key_source(settings, settings.solward_home)
    database.audit_key = await audit_key(database, source)


@asynccontextmanager
async def offline_wallets(
    settings: Settings, *, begins: bool = False
) -> AsyncIterator[tuple[Database, Wallets]]:
    """As `offline_database`, with the keystore open: only then the audit log goes on."""
    from solward.vault.custody import Wallets

    async with offline_database(settings, begins=begins) as database:
        yield database, await Wallets.open(database, settings, settings.solward_home)


async def refuse_unused(database: Database, home: Path) -> None:
    """Refuse a database that no service ever used.

    Raises:
        KeystoreError: it has no keystore and no audit log.
    """
    from solward.audit.log import heads
    from solward.database.schema import has_schema
    from solward.vault.store.wallets import keystore_rows

    async with database.read() as connection:
        if await has_schema(connection) and (
            await keystore_rows(connection) or await heads(connection)
        ):
            return
    where = "the database of DATABASE_URL" if database.shared else f"SOLWARD_HOME {home}"
    raise KeystoreError(f"No service ever used {where}: it has no keystore and no wallet")
