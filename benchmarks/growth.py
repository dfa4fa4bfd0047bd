"""What requests take of the processor as the service's history grows, and what a transfer stores.

    python -m benchmarks.growth [--database postgresql] [--records 1000,10000,100000,1000000]

Not part of `make bench`, since a million records take minutes to make and 6 GB of disk. Each size
is a home of its own, made by statements (`benchmarks.growth_rows`), with a real service process on
it that is asked over HTTP, one request at a time. A request's figure is the processor time of the
service, and of PostgreSQL with all its processes, because other work on the machine moves that
least; the p99 beside it is what a caller waited. It draws the pictures of
docs/assurance/benchmarks.md.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psycopg
from benchmarks import load
from benchmarks.curves import curves
from benchmarks.growth_rows import Mine, Sizes, fill
from benchmarks.processes import cpu_s, tree
from solders.keypair import Keypair
from tests.support.database import Postgres, postgres_server
from tests.support.localnet import localnet_process

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
WARM, MOST, MOST_S = 5, 60, 10.0
STORED = 200
GRANT = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1000"}}}, "costs": "100"}
LIMITS = {"REQUESTS_PER_MINUTE": "1000000"}

PATHS = {
    "GET transactions": "transactions?limit=50",
    "GET a wallet's transactions": "wallets/{wallet}/transactions?limit=50",
    "GET balance": "wallets/{wallet}/balance",
    "GET wallets (50)": "wallets?limit=50",
    "GET a wallet's limits": "wallets/{wallet}/limits",
    "GET an agent's limits": "agents/{agent}/limits",
    "GET an agent's decisions": "agents/{agent}/decisions?limit=50",
    "GET holds": "holds?limit=50",
    "GET payments": "payments?limit=50",
    "GET audit": "audit?limit=50",
    "GET health": "health",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service runs.

    Attributes:
        variables: of its environment, beside those of every benchmark.
        postgres: None on SQLite.
    """

    home: Path
    variables: dict[str, str]
    postgres: Postgres | None = None

    @property
    def url(self) -> str:
        """As DATABASE_URL has it."""
        return self.variables.get("DATABASE_URL", f"sqlite:///{self.home / 'solward.db'}")


@dataclass(frozen=True, slots=True)
class Taken:
    """By one request, the mean, and the p99 of what callers waited; in milliseconds."""

    cpu_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Made:
    """What the service of a home made; `secret` is the key's."""

    mine: Mine
    secret: str


async def _make(url: str) -> Made:
    async with load.client(f"{url}/api/v1/") as client:
        wallet = (await load.answer(client, load.Request("POST", "wallets", {})))["walletId"]
        drop = load.Request("POST", f"wallets/{wallet}/airdrop", {"amount": 2})
        await load.answer(client, drop)
        fields = {"name": "mine", "rateLimit": 10_000, "spendingLimitSol": 1, "grants": [GRANT]}
        key = await load.answer(client, load.Request("POST", "keys", fields))
        agent = {"name": "mine", "walletId": wallet, "llmProvider": "openai", "llmModel": "model",
                 "strategy": "Do nothing."}  # fmt: skip
        made = await load.answer(client, load.Request("POST", "agents", agent))
    return Made(Mine(wallet, made["id"], key["id"]), key["apiKey"])


async def _routes(url: str, made: Made, cpu: Callable[[], float]) -> dict[str, Taken]:
    mine = made.mine
    transfer = {"to": str(Keypair().pubkey()), "amount": 0.001}
    requests = {
        name: load.Request("GET", path.format(wallet=mine.wallet, agent=mine.agent))
        for name, path in PATHS.items()
    }
    requests["POST transfer"] = load.Request("POST", f"wallets/{mine.wallet}/transfer", transfer)
    found = {}
    async with load.client(f"{url}/api/v1/") as client:
        for name, request in requests.items():
            found[name] = await _one(client, request, cpu)
    headers = {"Authorization": f"Bearer {made.secret}"}
    async with aiohttp.ClientSession(f"{url}/api/v1/", headers=headers) as client:
        found["POST transfer by a key"] = await _one(client, requests["POST transfer"], cpu)
    async with load.client(f"{url}/") as client:
        found["GET metrics"] = await _text(client, "metrics", cpu)
    return found


async def _one(
    client: aiohttp.ClientSession, request: load.Request, cpu: Callable[[], float]
) -> Taken:
    for _ in range(WARM):
        await load.answer(client, request)
    return await _repeat(lambda: load.answer(client, request), cpu)


async def _text(client: aiohttp.ClientSession, path: str, cpu: Callable[[], float]) -> Taken:
    async def ask() -> None:
        async with client.get(path) as response:
            await response.read()

    await ask()
    return await _repeat(ask, cpu)


async def _repeat(ask: Callable[[], object], cpu: Callable[[], float]) -> Taken:
    waited: list[float] = []
    before, started = cpu(), time.perf_counter()
    while len(waited) < MOST and time.perf_counter() - started < MOST_S:
        begun = time.perf_counter()
        await ask()  # type: ignore[misc]
        waited.append(time.perf_counter() - begun)
    cpu_ms = (cpu() - before) / len(waited) * 1_000
    return Taken(max(cpu_ms, 0.1), statistics.quantiles(waited, n=100)[-1] * 1_000)


def _stored(place: Place) -> dict[str, int]:
    """table -> bytes, with its indexes."""
    if place.postgres is None:
        with sqlite3.connect(place.home / "solward.db") as connection:
            rows = connection.execute(
                "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name)"
                " GROUP BY tbl_name"
            ).fetchall()
        connection.close()
    else:
        with psycopg.connect(place.url.replace("+psycopg", "", 1)) as session:
            rows = session.execute(
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
                " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            ).fetchall()
    return {str(name): int(size) for name, size in rows}


async def _bytes(place: Place) -> dict[str, float]:
    """table -> bytes that a transfer by a key under grants adds, the mean of `STORED`."""
    with load.service(place.home, **place.variables) as url:
        made = await _make(url)
        transfer = {"to": str(Keypair().pubkey()), "amount": 0.001}
        headers = {"Authorization": f"Bearer {made.secret}"}
        async with aiohttp.ClientSession(f"{url}/api/v1/", headers=headers) as client:
            path = f"wallets/{made.mine.wallet}/transfer"

            async def send(start: int) -> None:
                for number in range(start, start + STORED):
                    key = {"Idempotency-Key": f"a-key-of-the-callers-own-{number:08}"}
                    async with client.post(path, json=transfer, headers=key) as response:
                        if response.status != 200:
                            raise RuntimeError(await response.text())

            await send(0)
            before = _stored(place)
            await send(STORED)
            after = _stored(place)
    return {
        name: (after[name] - before.get(name, 0)) / STORED
        for name in after
        if after[name] > before.get(name, 0)
    }


async def _size(place: Place, records: int) -> tuple[float, dict[str, Taken]]:
    """Seconds to the first answer, and what each route takes."""
    with load.service(place.home, **place.variables) as url:
        made = await _make(url)
    begun = time.perf_counter()
    fill(place.url, Sizes.of(records), made.mine)
    print(f"{records:,} records made in {time.perf_counter() - begun:.0f} s", flush=True)
    begun = time.perf_counter()
    with load.service_process(place.home, **place.variables) as (url, pid):
        started_s = time.perf_counter() - begun
        postmaster = None if place.postgres is None else _postmaster(place)

        def cpu() -> float:
            pids = [pid] if postmaster is None else [pid, *tree(postmaster)]
            return sum(map(_cpu_of, pids))

        return started_s, await _routes(url, made, cpu)


def _cpu_of(pid: int) -> float:
    try:
        return cpu_s(pid)
    except OSError:
        return 0.0  # it ended meanwhile


def _postmaster(place: Place) -> int:
    with psycopg.connect(place.url.replace("+psycopg", "", 1)) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return int(Path(row[0], "postmaster.pid").read_text().split()[0])


def _places(database: str, tmp: Path, stack: ExitStack) -> Iterator[Place]:
    running = stack.enter_context(postgres_server()) if database == "postgresql" else None
    number = 0
    while True:
        number += 1
        home = tmp / str(number)
        home.mkdir(mode=0o700)
        if running is None:
            yield Place(home, LIMITS)
            continue
        ledger = stack.enter_context(localnet_process(home / "localnet.db", "--slot-ms", "100"))
        variables = LIMITS | {
            "DATABASE_URL": running.fresh(),
            "SOLANA_RPC_URL": ledger.http,
            "SOLANA_NETWORK": "localnet",
        }
        yield Place(home, variables, running)


async def measure(database: str, sizes: Sequence[int]) -> None:
    """Print and draw it."""
    title = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[database]
    with tempfile.TemporaryDirectory() as tmp, ExitStack() as stack:
        places = _places(database, Path(tmp), stack)
        stored = await _bytes(next(places))
        print(f"bytes a transfer by a key under grants, {title}:")
        for name, size in sorted(stored.items(), key=lambda each: -each[1]):
            print(f"  {name:<20} {size:>8,.0f}")
        print(f"  {'all':<20} {sum(stored.values()):>8,.0f}", flush=True)
        found: dict[str, list[Taken]] = {}
        for records in sizes:
            started_s, routes = await _size(next(places), records)
            print(f"{records:,} records, {title}: first answer after {started_s:.1f} s")
            for name, taken in routes.items():
                found.setdefault(name, []).append(taken)
                print(f"  {name:<30} {taken.cpu_ms:>8.1f} ms CPU {taken.p99_ms:>8.1f} ms p99")
    lines = {name: [each.cpu_ms for each in taken] for name, taken in found.items()}
    unit = "processor time of a request, ms"
    picture = curves(f"Requests on {title}", unit, sizes, lines, "records")
    (IMAGES / f"growth-{database}.svg").write_text(picture)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--records", default=",".join(map(str, SIZES)))
    given = parser.parse_args()
    sizes = [int(each) for each in given.records.split(",")]
    asyncio.run(measure(given.database, sizes))


if __name__ == "__main__":
    main()
