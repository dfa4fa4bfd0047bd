"""A warm call of a skill in its plugin host, against the same skill in the service's process."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Ratio, at_most

from solward.plugins import run_skill
from solward.testing.stand import open_stand

CALLS = 1_000
WARM = 100
# What a host may add to the middle call.
MOST_MS = 2.0

NAME = "bench_reads"
SOURCE = f"""
from solward import SkillSpec, hookimpl

@hookimpl
def skill_spec():
    return SkillSpec({NAME!r}, "Reads a balance.",
        {{"type": "object", "properties": {{}}, "additionalProperties": False}})

@hookimpl
async def skill_execute(params, context):
    return str(await context.ledger.balance(context.wallet.address))
"""


@contextmanager
def installed(folder: Path) -> Iterator[str]:
    """A distribution as pip would lay it out, until the block ends on this process's path.

    Yields:
        `PYTHONPATH` for processes that are to have it too.
    """
    info = folder / "bench_reads-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-reads\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[solward.skills]\n{NAME} = {NAME}\n")
    (folder / f"{NAME}.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
    finally:
        sys.path.remove(str(folder))


async def _timed(call: Callable[[], Awaitable[str]]) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1_000


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Calls in turn, so that whatever the machine does besides is shared by both."""
    with installed(tmp / "site"):
        async with open_stand(tmp / "plugin-hosts") as stand:
            wallet = await stand.wallet()
            hosted = stand.service.live.registry.skills[NAME]
            # A module is loaded into this process, a name is that of the service.
            own = stand.skill(importlib.import_module(NAME))

            async def run(skill: object) -> str:
                loaded = stand.skill(skill)
                context = wallet.context(loaded)
                return await run_skill(loaded, {}, context, emit=stand.service.events.publish)

            for skill in (hosted, own):
                for _ in range(WARM):
                    await run(skill)
            times = [
                (await _timed(lambda: run(hosted)), await _timed(lambda: run(own)))
                for _ in range(CALLS)
            ]
    in_host, here = (sorted(each)[CALLS // 2] for each in zip(*times, strict=True))
    print(f"middle call of a skill: {in_host:.2f} ms in its host, {here:.2f} ms here", flush=True)
    return iter(
        [at_most("a plugin host adds to a skill's call", MOST_MS, max(in_host - here, 0.001), "ms")]
    )
