"""Where tests keep their databases: SQLite files in each SOLWARD_HOME, or with
`SOLWARD_TEST_DATABASE=postgresql` a PostgreSQL database for each of them, with no test the wiser.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from tests.support.localnet_process import localnet_process
from tests.support.postgres_server import Postgres
from tests.support.queue_placement import Beside

from solward.agents import placement
from solward.agents.store import jobs
from solward.database import database, schema
from solward.database.database import Database

ON_POSTGRES = os.environ.get("SOLWARD_TEST_DATABASE", "sqlite") == "postgresql"

_PACE = {"LOCALNET_SLOT_MS": "--slot-ms", "LOCALNET_SLOTS_PER_EPOCH": "--slots-per-epoch"}

_parse = database._parse


class Homes:
    """What stands in for the SQLite file of each SOLWARD_HOME, and its ledger where processes need
    one that is nobody's own."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._template: str | None = None
        self._urls: dict[Path, str] = {}
        self._ledgers: dict[Path, tuple[str, ExitStack]] = {}

    def url(self, home: Path) -> str:
        """The DATABASE_URL of a home, of an empty database with its tables the first time."""
        home = home.absolute()
        if home not in self._urls:
            self._urls[home] = self._server.fresh(self._template)
        return self._urls[home]

    def ledger(self, home: Path, *options: str) -> str:
        """The SOLANA_RPC_URL of a home: a `solward localnet` that outlives its services."""
        home = home.absolute()
        if home not in self._ledgers:
            stack = ExitStack()
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            process = stack.enter_context(localnet_process(home / "localnet.db", *options))
            self._ledgers[home] = (process.http, stack)
        return self._ledgers[home][0]

    def prepare(self) -> None:
        """Make the template that holds the tables already."""
        url = self._server.fresh()

        async def migrate() -> None:
            opened = await Database.open(url, Path())
            async with opened.write() as connection:
                await jobs.prepare(connection)
            await opened.close()

        asyncio.run(migrate())
        self._template = url

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at its end each home that was new in it."""
        before = self._urls.keys() | self._ledgers.keys()
        yield
        for home in (self._urls.keys() | self._ledgers.keys()) - before:
            if home in self._ledgers:
                self._ledgers.pop(home)[1].close()
            if home in self._urls:
                self._server.drop(self._urls.pop(home))

    def parse(self, url: str | SecretStr | None, home: Path) -> URL:
        """As the store's own, with a home's database where none is named."""
        if url is None:
            return make_url(self.url(home))
        return _parse(url, home)


_homes: Homes | None = None


@contextmanager
def on_postgres(server: Postgres) -> Iterator[Homes]:
    """Give every home a database of `server` until the block ends."""
    global _homes
    _homes = Homes(server)
    _homes.prepare()
    with (
        _homes.scope(),
        mock.patch.object(database, "_parse", _homes.parse),
        mock.patch.object(placement, "default", Beside),
    ):
        yield _homes
    _homes = None


@contextmanager
def migrated_once() -> Iterator[None]:
    """Run the migrations of this process's first SQLite file alone, until the block ends: a new one
    gets what they left in it, which takes a tenth of the 90 ms."""
    run = schema.run_migrations
    left: list[str] = []

    def run_or_copy(connection: Connection, versions: set[str]) -> None:
        if versions or connection.dialect.name != "sqlite":
            run(connection, versions)
        elif left:
            for statement in left:
                connection.exec_driver_sql(statement)
        else:
            run(connection, versions)
            left.extend(_statements(connection))

    with mock.patch.object(schema, "run_migrations", run_or_copy):
        yield


def _statements(connection: Connection) -> Iterator[str]:
    """Those that make an empty SQLite file into what this one is."""
    made = connection.exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).all()
    for kind, name, statement in made:
        if name != "sqlite_sequence":
            yield statement
        if kind == "table":
            columns = ", ".join(
                f'quote("{row[1]}")'
                for row in connection.exec_driver_sql(f'PRAGMA table_info("{name}")')
            )
            for row in connection.exec_driver_sql(f'SELECT {columns} FROM "{name}"'):
                yield f'INSERT INTO "{name}" VALUES ({", ".join(row)})'


def database_of(home: Path) -> dict[str, str]:
    """The environment by which another process opens the database of `home`."""
    return {} if _homes is None else {"DATABASE_URL": _homes.url(home)}


def plain_url(home: Path) -> str:
    """Where anything but Solward finds the database of `home`."""
    return f"sqlite:///{home / 'solward.db'}" if _homes is None else _homes.url(home)


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What a process serving `home` needs beyond `given`: on PostgreSQL its database, and a ledger
    that is not the process's own."""
    if _homes is None or "DATABASE_URL" in given:
        return {}
    added = database_of(home)
    if "SOLANA_RPC_URL" not in given:
        options = [part for name in _PACE if name in given for part in (_PACE[name], given[name])]
        added["SOLANA_RPC_URL"] = _homes.ledger(home, *options)
        added["SOLANA_NETWORK"] = "localnet"
    return added
