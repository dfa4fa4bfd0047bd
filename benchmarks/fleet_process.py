"""A service process with many running agents that tells what their cycles did, as JSON lines.

    python benchmarks/fleet_process.py HOME PORT --agents 1000 --interval-ms 1000 --provider rules

It prints {"running": N} when every agent runs, and {"cycles", "lags_ms", "loop_ms", "cpu_s"} for
each line it is sent, with the cycles of each agent; the lag of a cycle is how long after its due
time it was entered, that of the loop how much later than asked a sleep ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import structlog
import uvloop

from solward.agents.cycle import Phase
from solward.runner import next_due_ms
from solward.service.service import Solward
from solward.settings import Settings
from solward.support.clock import now_ms
from solward_cli.entrypoint import freeze_gc
from solward_server.listening import listen
from solward_server.serve import serve

LOOP_S = 0.02


class Watch:
    """Counts the cycles of a fleet, and how late each began."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self.due: dict[str, int] = {}
        self._cycles: Counter[str] = Counter()
        self._lags_ms: list[int] = []
        self._loop_ms: list[float] = []

    async def watch_loop(self) -> None:
        """Note how late the event loop is, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOP_S
            await asyncio.sleep(LOOP_S)
            self._loop_ms.append((loop.time() - due) * 1_000)

    def __call__(self, agent_id: str, phase: Phase) -> None:
        """The service's phase hook."""
        due = self.due.get(agent_id)
        if due is None:
            return
        if phase is Phase.ENTERED:
            self._lags_ms.append(now_ms() - due)
        elif phase is Phase.REMEMBERED:
            self._cycles[agent_id] += 1
            self.due[agent_id] = next_due_ms(due, self._interval_ms, now_ms())

    def report(self) -> dict[str, Any]:
        """What happened since the last report."""
        counts = [self._cycles[agent_id] for agent_id in self.due]
        told = {
            "cycles": counts,
            "lags_ms": self._lags_ms,
            "loop_ms": self._loop_ms,
            "cpu_s": time.process_time(),
        }
        self._cycles, self._lags_ms, self._loop_ms = Counter(), [], []
        return told


async def run(options: argparse.Namespace) -> None:
    """Seed, start, report on request, until standard input ends."""
    watch = Watch(options.interval_ms)
    settings = Settings(_env_file=None, solward_home=Path(options.home), api_port=options.port)
    async with Solward.open(settings, demo=True, phase_hook=watch) as service:
        wallets = min(options.agents, options.wallets)
        ids = [(await service.wallets.create(f"w{number}")).id for number in range(wallets)]
        agents = [
            await _agent(service, number, ids[number % wallets], options)
            for number in range(options.agents)
        ]
        stop = asyncio.Event()
        server = asyncio.create_task(serve(service, listen("127.0.0.1", options.port), stop))
        for agent_id in agents:
            started = await service.agents.start(agent_id)
            assert started.next_run_ms is not None
            watch.due[agent_id] = started.next_run_ms
        freeze_gc()
        watching = asyncio.create_task(watch.watch_loop())
        _tell({"running": len(agents)})
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            _tell(watch.report())
        watching.cancel()
        stop.set()
        await server


async def _agent(service: Solward, number: int, wallet_id: str, options: argparse.Namespace) -> str:
    agent = await service.agents.create(
        {
            "name": f"a{number}",
            "walletId": wallet_id,
            "llmProvider": options.provider,
            "llmModel": options.model,
            "llmOptions": json.loads(options.llm_options),
            "strategy": "always do wait",
            "loopIntervalMs": options.interval_ms,
        }
    )
    return agent.id


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    """Read the arguments and run."""
    # Standard output is the report.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    parser = argparse.ArgumentParser()
    parser.add_argument("home")
    parser.add_argument("port", type=int)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--wallets", type=int, default=1_000)
    parser.add_argument("--interval-ms", type=int, default=1_000)
    parser.add_argument("--provider", default="rules")
    parser.add_argument("--model", default="rules")
    parser.add_argument("--llm-options", default="{}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
