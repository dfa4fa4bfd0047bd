"""Cycles of 500 agents, due each second, through litellm and an OpenAI-compatible vendor.

Beside them stands the bare Quart handler, measured right before and right after: cycles a second
are a part of its requests a second, as the rows of `rest` are, up to the cycles that are due.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import fleet, load
from benchmarks.report import Ratio, at_most
from benchmarks.rest import ECHO

AGENTS = 500
# 150 cycles a second where the bare handler does 1,300 requests.
OF_BARE = 150 / 1_300
# Of the cycles that are due: more than these cannot be asked for, however fast the bare handler is.
OF_DUE = 0.95
LOOP_P99_MS = 80.0
BARE_REQUESTS = 3_000


async def measure(tmp: Path, seconds: float = 20.0) -> Iterator[Ratio]:
    """Cycles a second, and how late the service's event loop is meanwhile."""
    before = await _bare()
    found = await fleet.through_litellm(tmp / "vendor-cycles", seconds, AGENTS)
    after = await _bare()
    print(f"{AGENTS} agents at 1 s through litellm: {found}", flush=True)
    bare = min(statistics.mean((before, after)), OF_DUE * AGENTS / OF_BARE)
    name = f"cycles of {AGENTS} agents through a vendor"
    return iter(
        [
            Ratio(f"{name} / bare Quart", found.cycles_per_s, bare, "1/s", OF_BARE),
            at_most("... event loop late, p99", LOOP_P99_MS, found.loop_p99_ms, "ms"),
        ]
    )


async def _bare() -> float:
    with load.bare() as url:
        async with load.client(f"{url}/") as client:
            return await load.per_second(client, [ECHO] * BARE_REQUESTS)
