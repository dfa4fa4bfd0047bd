"""A thousand running agents in one process: cycles a second, lag, processor, memory, health.

    python -m benchmarks.fleet --seconds 120

Once with the in-process `rules` provider, once through litellm and a loopback server that speaks
the vendors' wire format; `make bench` runs both for a shorter time.

Beside them stands the bare Quart handler, measured right before and right after: cycles a second
are a part of its requests a second, as the rows of `rest` are, up to the cycles that are due.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from benchmarks import load
from benchmarks.load import free_port
from benchmarks.report import Ratio, at_most
from benchmarks.rest import ECHO
from tests.support.vendors.process import vendor_process

AGENTS = 1_000
INTERVAL_MS = 1_000
# 600 cycles a second where the bare handler does 1,300 requests.
OF_BARE = 600 / 1_300
# Of the cycles that are due: more than these cannot be asked for, however fast the bare handler is.
OF_DUE = 0.95
BARE_REQUESTS = 3_000
HEALTH_P99_MS = 100.0
SETTLING_S = 5.0
# The first thought waits for litellm's import, in its own process.
THINKING_S = 20.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was measured over `seconds`.

    Attributes:
        cpu_ms: processor time of the service's own process for each cycle.
        loop_p99_ms: how much later than asked a sleep of its event loop ended.
        turns: cycles of the agent with the fewest and of the one with the most.
        rss_mb: resident memory at the middle and at the end, in MB.
    """

    seconds: float
    cycles_per_s: float
    cpu_ms: float
    lag_ms: tuple[float, float]
    loop_p99_ms: float
    turns: tuple[int, int]
    health_p99_ms: float
    rss_mb: tuple[float, float]

    def __str__(self) -> str:
        p50, p99 = self.lag_ms
        middle, end = self.rss_mb
        return (
            f"{self.cycles_per_s:,.0f} cycles/s over {self.seconds:.0f} s, "
            f"{self.cpu_ms:.2f} ms CPU a cycle, lag p50 {p50:.0f} ms p99 {p99:.0f} ms, "
            f"loop p99 {self.loop_p99_ms:.0f} ms, "
            f"{self.turns[0]} to {self.turns[1]} cycles an agent, "
            f"health p99 {self.health_p99_ms:.1f} ms, memory {middle:.0f} -> {end:.0f} MB"
        )


@contextmanager
def fleet(
    home: Path, port: int, arguments: list[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """The process with every agent running."""
    script = str(Path(__file__).with_name("fleet_process.py"))
    command = [sys.executable, script, str(home), str(port), *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        try:
            assert process.stdout is not None
            while "running" not in json.loads(process.stdout.readline() or '{"running": 0}'):
                pass
            yield process
        finally:
            process.terminate()


async def observe(
    process: subprocess.Popen[str], port: int, seconds: float, settling_s: float = SETTLING_S
) -> Fleet:
    """Watch a fleet for `seconds`, asking its health twenty times a second."""
    await asyncio.sleep(settling_s)
    before, began = _ask(process), time.perf_counter()
    health: list[float] = []
    rss: list[float] = []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        for part in (1, 2):
            while time.perf_counter() - began < seconds * part / 2:
                asked = time.perf_counter()
                async with client.get("/api/v1/health") as response:
                    await response.read()
                health.append((time.perf_counter() - asked) * 1_000)
                await asyncio.sleep(POLL_S)
            rss.append(_rss_mb(process.pid))
    after, took = _ask(process), time.perf_counter() - began
    lags, turns = sorted(after["lags_ms"]), after["cycles"]
    return Fleet(
        seconds=took,
        cycles_per_s=sum(turns) / took,
        cpu_ms=(after["cpu_s"] - before["cpu_s"]) / sum(turns) * 1_000,
        lag_ms=(_at(lags, 0.5), _at(lags, 0.99)),
        loop_p99_ms=_at(sorted(after["loop_ms"]), 0.99),
        turns=(min(turns), max(turns)),
        health_p99_ms=_at(sorted(health), 0.99),
        rss_mb=(rss[0], rss[1]),
    )


async def in_process(tmp: Path, seconds: float) -> Fleet:
    """Agents on the `rules` provider."""
    port = free_port()
    with fleet(tmp / "rules", port, [], {}) as process:
        return await observe(process, port, seconds)


async def through_litellm(tmp: Path, seconds: float, agents: int = AGENTS) -> Fleet:
    """Agents on the `openai` provider in two model hosts, and a loopback server that answers at
    once."""
    port = free_port()
    arguments = ["--provider", "openai", "--model", "gpt-4.1-mini", "--agents", str(agents)]
    with vendor_process() as vendor:
        environment = {"OPENAI_API_KEY": "key", "MODEL_PROCESSES": "2"} | vendor.base_urls
        with fleet(tmp / "openai", port, arguments, environment) as process:
            return await observe(process, port, seconds, THINKING_S)


async def beside_bare(running: Awaitable[Fleet]) -> tuple[Fleet, float]:
    """What was measured of `running`, and the bare handler's requests a second before and after it,
    their mean."""
    before = await _bare_per_s()
    found = await running
    return found, statistics.mean((before, await _bare_per_s()))


def cycles_of_bare(
    name: str, found: Fleet, bare_per_s: float, agents: int, at_least: float
) -> Ratio:
    """Cycles a second of `agents` as a part of the bare handler's requests, up to those due."""
    due = agents * 1_000 / INTERVAL_MS
    against = min(bare_per_s, OF_DUE * due / at_least)
    return Ratio(f"{name} / bare Quart", found.cycles_per_s, against, "1/s", at_least)


async def measure(tmp: Path, seconds: float = 20.0) -> Iterator[Ratio]:
    """Cycles a second in process and through a vendor; health answers while they run."""
    own, bare = await beside_bare(in_process(tmp, seconds))
    print(f"1,000 agents at 1 s on rules: {own}", flush=True)
    vendor = await through_litellm(tmp, seconds)
    print(f"1,000 agents at 1 s through litellm: {vendor}", flush=True)
    return iter(
        [
            cycles_of_bare("cycles of 1,000 agents on rules", own, bare, AGENTS, OF_BARE),
            Ratio(
                "... litellm and loopback / rules",
                vendor.cycles_per_s,
                own.cycles_per_s,
                "1/s",
                0.05,
            ),
            at_most("... health p99, rules", HEALTH_P99_MS, own.health_p99_ms, "ms"),
            at_most("... health p99, litellm", HEALTH_P99_MS, vendor.health_p99_ms, "ms"),
            Ratio("... memory: middle / end", own.rss_mb[0], own.rss_mb[1], "MB", 0.95),
        ]
    )


async def _bare_per_s() -> float:
    with load.bare() as url:
        async with load.client(f"{url}/") as client:
            return await load.per_second(client, [ECHO] * BARE_REQUESTS)


def _ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    told: dict[str, Any] = json.loads(process.stdout.readline())
    return told


def _rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _at(ordered: list[Any], share: float) -> float:
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0)
    with tempfile.TemporaryDirectory() as tmp:
        for ratio in await measure(Path(tmp), parser.parse_args().seconds):
            print(ratio, flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
