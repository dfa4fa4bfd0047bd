"""What a call through litellm takes, in the service and in its model process, and their memory.

Processor time, which other work of the machine moves little: beside a whole cycle of an agent on
the `rules` provider, which is all of a cycle but the model. The request is a cycle's, with the
tools of every built-in skill.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import loop
from benchmarks.processes import cpu_s, memory
from benchmarks.report import Ratio, at_most
from tests.support.hosts import model_hosts
from tests.support.vendors.process import vendor_process

from solward.plugins import load_registry
from solward.types.provider import CompletionRequest, Message, ProviderContext

CALLS: Final = 200
ROUNDS: Final = 5
AT_ONCE: Final = 20
# 0.67 to 0.73 in six runs (2026-11-24); with twice the share of the model process it would be 0.43.
OF_A_CALL: Final = 0.55
MEMORY_MB: Final = 250.0


async def measure(tmp: Path) -> Iterator[Ratio]:
    """The least of the rounds, of cycles and of calls in turn; its calls are under way together."""
    cycle, service, process, memory_mb = await _rounds(tmp)
    print(f"a cycle on rules: {cycle:.2f} ms")
    print(f"a call through litellm: {service:.2f} ms service, {process:.2f} ms model process")
    return iter(
        [
            Ratio("CPU: rules' cycle / call by litellm", cycle, service + process, "ms", OF_A_CALL),
            at_most("... a model process's memory", MEMORY_MB, memory_mb, "MB"),
        ]
    )


async def _rounds(tmp: Path) -> tuple[float, float, float, float]:
    """Milliseconds of a cycle, and of a call in service and model process; its memory in MB."""
    tools = load_registry(["solward"]).tools()
    numbers = iter(range(1 << 30))

    def request() -> CompletionRequest:
        # No two alike, as no two agents' are.
        message = Message("user", f"{next(numbers)} {'observation ' * 60}")
        return CompletionRequest("gpt-4.1-mini", "strategy and rules " * 140, (message,), tools)

    with vendor_process("--keep", "10") as vendor:
        async with model_hosts() as (hosts, providers):
            lent = ProviderContext("a-key-of-the-vendor", vendor.base_urls["OPENAI_BASE_URL"])

            async def calls(count: int) -> None:
                for _ in range(count):
                    await providers["openai"].complete(request(), {}, lent)

            await calls(AT_ONCE)
            [pid] = [host.pid for host in hosts.hosts]
            assert pid is not None
            cycles, found = [], []
            for number in range(ROUNDS):
                cycles.append(await loop.one_agent_ms(tmp / f"rules-{number}"))
                before = time.process_time(), cpu_s(pid)
                await asyncio.gather(*(calls(CALLS // AT_ONCE) for _ in range(AT_ONCE)))
                after = time.process_time(), cpu_s(pid)
                found.append([(b - a) / CALLS * 1_000 for a, b in zip(before, after, strict=True)])
            service, process = min(found, key=sum)
            return min(cycles), service, process, memory(pid).pss / 1e6
