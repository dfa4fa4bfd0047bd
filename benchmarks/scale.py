"""Many agents on PostgreSQL: real processes, and the embedded mode in the same run.

    python -m benchmarks.scale --seconds 600 --workers 2 --case 1000,1000,0 --case 10000,30000,3

A case is agents, milliseconds between their cycles, seconds their model thinks. Each has its own
database on a PostgreSQL that waits for its disk, a ledger, an API process and workers, and then
`benchmarks.fleet` with the same agents on SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psycopg
from benchmarks.fleet import Fleet, fleet, observe
from benchmarks.load import Request, answer, client, free_port
from benchmarks.report import Ratio
from benchmarks.scale_cluster import WALLETS, Case, Running, cluster, seed, start_all
from benchmarks.scale_measure import Reading, lag_s, read
from benchmarks.scripted_provider import NAME, installed
from tests.support.database import Postgres, postgres_server

CASES = ("1000,1000,0", "1000,5000,0", "10000,30000,3")
CONCURRENCY = 300  # the default of `solward worker`
SETTLING_S = 20.0
# Of what the embedded mode did, or of what was offered where that is less.
LEAST_SHARE = 0.25
LEAST_FAIR = 0.5
MOST_TURNS = 4
FLAT = 0.75
# Dead rows of the minute between two looks of the autovacuum.
UNVACUUMED_MB = 32


@dataclass(frozen=True, slots=True)
class Distributed:
    """A case on workers: readings at the start, the middle and the end, and how soon agents that
    were started meanwhile began, in seconds."""

    case: Case
    workers: int
    concurrency: int
    start: Reading
    middle: Reading
    end: Reading
    first_s: tuple[float, ...]

    @property
    def turns(self) -> list[int]:
        """Cycles of each agent, fewest first."""
        return sorted(self.end.cycles[each] - self.start.cycles[each] for each in self.end.cycles)

    @property
    def cycles_per_s(self) -> float:
        """Of all agents."""
        return sum(self.turns) / (self.end.at_s - self.start.at_s)

    def lines(self) -> Iterator[str]:
        """Everything measured, for reading."""
        start, end, turns = self.start, self.end, self.turns
        cycles = max(1, sum(turns))
        took = end.at_s - start.at_s
        yield (
            f"{self.case} on {self.workers} workers of {self.concurrency}: "
            f"{self.cycles_per_s:,.0f} of {self.case.offered:,.0f} cycles/s over {took:.0f} s, "
            f"{turns[0]} to {turns[-1]} cycles an agent"
        )
        p50, p99 = (lag_s(start, end, share) for share in (0.5, 0.99))
        first = f"{_at(self.first_s, 0.5):.2f} s p99 {_at(self.first_s, 0.99):.2f} s"
        yield f"  lag p50 {p50:.2f} s p99 {p99:.2f} s; start to first cycle p50 {first}"
        used = {part: end.cpu_s[part] - start.cpu_s[part] for part in end.cpu_s}
        each = ", ".join(
            f"{part} {s / cycles * 1_000:.2f} ms ({s / took:.0%})" for part, s in used.items()
        )
        yield f"  CPU a cycle: {each}"
        transactions = (end.transactions - start.transactions) / cycles
        wal = (end.wal - start.wal) / cycles
        yield f"  a cycle: {transactions:.2f} database transactions, {wal:,.0f} bytes of WAL"
        memory = ", ".join(
            f"{then:.0f} -> {now:.0f} MB"
            for then, now in zip(self.middle.rss_mb, end.rss_mb, strict=True)
        )
        yield f"  memory of workers, middle and end: {memory}; {end.connections} connections"
        for name in end.tables:
            sizes = " -> ".join(
                f"{rows:,} rows {size / 1e6:,.1f} MB"
                for rows, size in (each.tables[name] for each in (start, self.middle, end))
            )
            growth = (end.tables[name][1] - start.tables[name][1]) / cycles
            yield f"  {name}: {sizes} ({growth:,.0f} bytes a cycle)"

    def ratios(self, embedded: Fleet | None) -> Iterator[Ratio]:
        """What holds on any machine."""
        name = str(self.case)
        if embedded is not None:
            yield Ratio(
                f"{name}: workers / embedded",
                self.cycles_per_s,
                embedded.cycles_per_s,
                "1/s",
                LEAST_SHARE,
            )
        # Of fewer turns, where the window begins and ends decides.
        if self.turns[-1] >= MOST_TURNS:
            fewest, most = self.turns[0], self.turns[-1]
            yield Ratio("... fewest / most cycles an agent", fewest, most, "", LEAST_FAIR)
        for table in ("procrastinate_jobs", "agents", "audit_heads"):
            then, now = (each.tables[table][1] / 1e6 for each in (self.middle, self.end))
            name = f"... {table}: middle, or {UNVACUUMED_MB}, / end"
            yield Ratio(name, max(then, UNVACUUMED_MB), now, "MB", FLAT)
        then, now = (sum(each.rss_mb) for each in (self.middle, self.end))
        yield Ratio("... memory of workers: middle / end", then, now, "MB", FLAT)


async def distributed(
    case: Case, folder: Path, postgres: Postgres, workers: int, seconds: float, path: str
) -> Distributed:
    """One case on a cluster of its own."""
    # Cycles that think are under way together; a worker needs room for its share and half again.
    thinking = math.ceil(1.5 * case.offered * (case.think_s + 0.1) / workers)
    concurrency = max(CONCURRENCY, thinking)
    with cluster(folder, postgres, workers, concurrency, {"PYTHONPATH": path}) as (running, every):
        agents, probes = await seed(case, every)
        await start_all(case, agents, running)
        await asyncio.sleep(max(SETTLING_S, min(case.interval_ms / 1_000, seconds)))
        start = await asyncio.to_thread(read, running, agents)
        pause_s = seconds / len(probes)
        half = len(probes) // 2
        begun = await _start_each(running, probes[:half], pause_s)
        middle = await asyncio.to_thread(read, running, agents)
        begun |= await _start_each(running, probes[half:], pause_s)
        end = await asyncio.to_thread(read, running, agents)
        await asyncio.sleep(case.think_s + 3)
        first_s = _first_cycles(running, begun)
    return Distributed(case, workers, concurrency, start, middle, end, first_s)


async def embedded(case: Case, folder: Path, seconds: float, path: str) -> Fleet:
    """The same agents in one process on SQLite."""
    port = free_port()
    arguments = ["--agents", str(case.agents), "--wallets", str(WALLETS)]
    arguments += ["--interval-ms", str(case.interval_ms), "--provider", NAME, "--model", NAME]
    arguments += ["--llm-options", json.dumps({"seconds": case.think_s})]
    with fleet(folder / "embedded", port, arguments, {"PYTHONPATH": path}) as process:
        settling_s = max(SETTLING_S, min(case.interval_ms / 1_000, seconds))
        return await observe(process, port, seconds, settling_s)


async def _start_each(running: Running, probes: list[str], pause_s: float) -> dict[str, float]:
    """Start agents one after the other over REST; when each was asked for (Unix seconds)."""
    begun: dict[str, float] = {}
    async with client(running.api) as opened:
        for probe in probes:
            begun[probe] = time.time()
            await answer(opened, Request("POST", f"/api/v1/agents/{probe}/start"))
            await asyncio.sleep(max(0.0, begun[probe] + pause_s - time.time()))
    return begun


def _first_cycles(running: Running, begun: Mapping[str, float]) -> tuple[float, ...]:
    """From each start to when the first cycle looked around; what never did is left out."""
    query = "SELECT agent_id, observations FROM decisions WHERE agent_id = ANY(%s)"
    with psycopg.connect(running.dsn) as connection:
        rows = connection.execute(query, (list(begun),)).fetchall()
    looked = {
        agent: datetime.fromisoformat(json.loads(seen)["timestamp"]).timestamp()
        for agent, seen in rows
    }
    if len(looked) < len(begun):
        print(f"{len(begun) - len(looked)} started agents had no cycle in time", flush=True)
    return tuple(sorted(looked[agent] - begun[agent] for agent in looked))


def _at(ordered: tuple[float, ...], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else math.nan


async def _measure(options: argparse.Namespace, tmp: Path) -> bool:
    held = True
    path = installed(tmp / "site")
    sys.path.insert(0, str(tmp / "site"))
    with postgres_server(durable=True) as postgres:
        for number, case in enumerate(options.case or map(_case, CASES)):
            folder = tmp / str(number)
            folder.mkdir()
            done = await distributed(case, folder, postgres, options.workers, options.seconds, path)
            print(*done.lines(), sep="\n", flush=True)
            one = None
            if not options.no_embedded:
                one = await embedded(case, folder, options.seconds, path)
                print(f"  embedded: {one}", flush=True)
            for ratio in done.ratios(one):
                held = held and ratio.holds
                print(ratio, flush=True)
    return held


def _case(given: str) -> Case:
    agents, interval_ms, think_s = given.split(",")
    return Case(int(agents), int(interval_ms), float(think_s))


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--case", type=_case, action="append", metavar="AGENTS,MS,SECONDS")
    parser.add_argument("--no-embedded", action="store_true")
    with tempfile.TemporaryDirectory() as tmp:
        return 0 if asyncio.run(_measure(parser.parse_args(), Path(tmp))) else 1


if __name__ == "__main__":
    sys.exit(_main())
