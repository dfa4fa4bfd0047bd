"""Cycles of 500 agents, due each second, through litellm and an OpenAI-compatible vendor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import fleet
from benchmarks.report import Ratio, at_most

AGENTS = 500
# 150 cycles a second where the bare handler does 1,300 requests.
OF_BARE = 150 / 1_300
LOOP_P99_MS = 80.0


async def measure(tmp: Path, seconds: float = 20.0) -> Iterator[Ratio]:
    """Cycles a second beside the bare handler, and how late the service's event loop is."""
    running = fleet.through_litellm(tmp / "vendor-cycles", seconds, AGENTS)
    found, bare = await fleet.beside_bare(running)
    print(f"{AGENTS} agents at 1 s through litellm: {found}", flush=True)
    name = f"cycles of {AGENTS} agents through a vendor"
    return iter(
        [
            fleet.cycles_of_bare(name, found, bare, AGENTS, OF_BARE),
            at_most("... event loop late, p99", LOOP_P99_MS, found.loop_p99_ms, "ms"),
        ]
    )
