"""`make bench`: every benchmark once, ratios against their limits.

    python -m benchmarks [NAME ...]

Exits 1 when a ratio is below its limit or a benchmark ended with an error. Absolute figures are
printed for reading, and belong to the machine they were read on. Each run is added to a file
(`benchmarks.runs`).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    decisions,
    fleet,
    grants,
    hostile,
    loop,
    many_records,
    models,
    payments,
    plugin_hosts,
    rest,
    runs,
    startup,
    swaps,
    transfers,
    vendor_cycles,
)
from benchmarks.report import Ratio

Benchmark = Callable[[Path], Awaitable[Iterable[Ratio]]]

BENCHMARKS: Mapping[str, Benchmark] = {
    module.__name__.rpartition(".")[2]: module.measure
    for module in (
        startup, rest, vendor_cycles, grants, decisions, transfers, swaps, payments, many_records,
        loop, plugin_hosts, hostile, models, fleet,
    )
}  # fmt: skip


async def measured(benchmarks: Mapping[str, Benchmark], kept_in: Path) -> bool:
    """Run them one after the other, so that none disturbs another, and keep what they found.

    Returns:
        Whether every benchmark ended and every ratio holds.
    """
    run = runs.begun()
    ratios: list[Ratio] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as tmp:
        for name, measure in benchmarks.items():
            try:
                for ratio in await measure(Path(tmp)):
                    ratios.append(ratio)
                    print(ratio, flush=True)
            except Exception:
                # The others still say what they find.
                traceback.print_exc()
                failed.append(name)
                print(f"{name} FAILED", flush=True)
    runs.keep(replace(run, ratios=tuple(ratios), failed=tuple(failed)), kept_in)
    return not failed and all(ratio.holds for ratio in ratios)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description="Benchmarks, each ratio against its limit.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--runs", type=Path, default=runs.RUNS, help="the file of past runs")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    chosen = {name: BENCHMARKS[name] for name in options.names or BENCHMARKS}
    return 0 if asyncio.run(measured(chosen, options.runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
