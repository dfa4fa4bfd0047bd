"""The loop's own cost: processor time of a cycle that decides to wait, one agent and a thousand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Ratio
from sqlalchemy import func, select

from solward.agents.cycle import run_cycle
from solward.database.tables import decisions
from solward.service.service import Solward
from solward.settings import Settings

CYCLES = 300
MANY = 1_000
INTERVAL_MS = 10_000
WATCHED_S = 12


async def _agents(service: Solward, count: int) -> list[str]:
    wallet = await service.wallets.create("bench")
    body = {
        "walletId": wallet.id,
        "llmProvider": "rules",
        "llmModel": "rules",
        "strategy": "always do wait",
        "loopIntervalMs": INTERVAL_MS,
    }
    return [(await service.agents.create(body | {"name": f"a{n}"})).id for n in range(count)]


async def _done(service: Solward) -> int:
    async with service.database.read() as connection:
        return int(
            (await connection.execute(select(func.count()).select_from(decisions))).scalar_one()
        )


async def one_agent_ms(home: Path) -> float:
    """Processor milliseconds a cycle, one agent, cycles back to back."""
    async with Solward.open(Settings(_env_file=None, solward_home=home), demo=True) as service:
        [agent] = await _agents(service, 1)
        await service.agents.start(agent)
        await service.agents.stop(agent)
        started = await service.agents.get(agent)
        await service.agents.start(agent)
        parts = service.agents.parts
        cycle = started.cycle_no + 1
        while (await service.agents.get(agent)).cycle_no < cycle:
            await asyncio.sleep(0.01)
        before = time.process_time()
        for number in range(cycle, cycle + CYCLES):
            if await run_cycle(agent, number, parts) is None:
                raise RuntimeError(f"cycle {number} did not run")
        return (time.process_time() - before) / CYCLES * 1_000


async def _many(home: Path) -> float:
    """Processor milliseconds a cycle, all agents running, each at its own pace."""
    async with Solward.open(Settings(_env_file=None, solward_home=home), demo=True) as service:
        for agent in await _agents(service, MANY):
            await service.agents.start(agent)
        while await _done(service) < MANY:
            await asyncio.sleep(0.1)
        cycles, before = await _done(service), time.process_time()
        await asyncio.sleep(WATCHED_S)
        spent = time.process_time() - before
        return spent / (await _done(service) - cycles) * 1_000


async def measure(tmp: Path) -> Iterator[Ratio]:
    """A cycle must not cost much more because others run too."""
    one, many = await one_agent_ms(tmp / "one"), await _many(tmp / "many")
    name = f"CPU of a cycle: 1 agent / {MANY:,} running"
    return iter([Ratio(name, one, many, "ms", 0.5)])
