"""Plugin hosts of tests: real processes with a tenant that does what it is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from solward.hosts.host import Host, HostConfig, SupervisionLimits
from solward.hosts.wire.methods import SKILL_EXECUTE, SkillExecute
from solward.hosts.wire.values import WalletView

TENANTS = Path(__file__).parents[1] / "hosts" / "tenants"
WALLET = WalletView(id="w", name="w", address="11111111111111111111111111111111")
# As in production, in less time.
QUICK = SupervisionLimits(
    answer_s=1.0,
    grace_s=0.5,
    idle_cpu_s=0.5,
    watch_s=0.1,
    lines_a_minute=20,
    flood_lines=5000,
    nice=0,
)


def config(name: str = "tip-jar", **changes: Any) -> HostConfig:
    """A host of the misbehaving tenant."""
    return HostConfig(name=name, tenant="misbehaving:serve", folder=str(TENANTS), **changes)


async def run(host: Host, skill: str, timeout_s: float | None = 20, **params: Any) -> Any:
    """What a skill of the misbehaving tenant returns."""
    request = SkillExecute(
        name=skill, params=json.dumps(params), wallet=WALLET, agent=None, tokens=()
    )
    answer = await host.call(SKILL_EXECUTE, request, timeout_s=timeout_s)
    return json.loads(answer.text)


def alive(pid: int) -> bool:
    """Whether a process exists that is more than its parent's note of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def gone(*pids: int) -> None:
    """Wait until the processes are, at most 10 s."""
    async with asyncio.timeout(10):
        while any(map(alive, pids)):
            await asyncio.sleep(0.01)
