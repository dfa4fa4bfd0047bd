"""`make bench`: every benchmark once, ratios against their limits.

Exits 1 when a ratio is below its limit. Absolute figures are printed for reading, and belong to
the machine they were read on.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    decisions,
    fleet,
    grants,
    history,
    hostile,
    loop,
    payments,
    plugin_hosts,
    swaps,
    transfers,
)


async def main() -> int:
    """Run them one after the other, so that none disturbs another."""
    held = True
    with tempfile.TemporaryDirectory() as tmp:
        for benchmark in (
            grants, decisions, transfers, swaps, payments, history, loop, plugin_hosts, hostile,
            fleet,
        ):  # fmt: skip
            for ratio in await benchmark.measure(Path(tmp)):
                held = held and ratio.holds
                print(ratio, flush=True)
    return 0 if held else 1


sys.exit(asyncio.run(main()))
