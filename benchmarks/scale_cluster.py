"""A service on many processes to measure: PostgreSQL, a ledger, an API process and workers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import SECRET, free_port, process_of
from benchmarks.scripted_provider import NAME
from pydantic import SecretStr
from tests.support.database import DRIVER, Postgres
from tests.support.localnet import localnet_process

from solward.service.service import Solward
from solward.settings import Settings

# Agents beyond these share their wallets.
WALLETS = 1_000
# Started one by one over REST while the others run; each runs once.
PROBES = 60
PROBE_INTERVAL_MS = 3_600_000
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Case:
    """What is offered: so many agents, a cycle each interval, a model that thinks so long."""

    agents: int
    interval_ms: int
    think_s: float

    @property
    def offered(self) -> float:
        """Cycles a second."""
        return self.agents * 1_000 / self.interval_ms

    def __str__(self) -> str:
        thinking = f", a model of {self.think_s:g} s" if self.think_s else ""
        return f"{self.agents:,} agents at {self.interval_ms / 1_000:g} s{thinking}"


@dataclass(frozen=True, slots=True)
class Running:
    """Processes that run, and where they answer.

    Attributes:
        api: the address of the API.
        workers: the addresses of the workers' endpoints.
        pids: the processes of each part but PostgreSQL.
    """

    dsn: str
    api: str
    workers: tuple[str, ...]
    pids: Mapping[str, tuple[int, ...]]


@contextmanager
def cluster(
    folder: Path, server: Postgres, workers: int, concurrency: int, environment: Mapping[str, str]
) -> Iterator[tuple[Running, dict[str, str]]]:
    """Start everything but agents; also what a process of it has in its environment."""
    url = server.fresh()
    with ExitStack() as stack:
        stack.callback(server.drop, url)
        ledger = stack.enter_context(localnet_process(folder / "ledger"))
        every = {
            **os.environ,
            **environment,
            "DATABASE_URL": url,
            "SOLANA_RPC_URL": ledger.http,
            "SOLANA_NETWORK": "localnet",
            "SOLWARD_HOME": str(folder / "home"),
            "API_SECRET": SECRET,
            "API_KEY_STORE": "database",
            "SOLWARD_PLUGINS": "*",
        }
        solward = [sys.executable, "-m", "solward_cli"]
        port = free_port()
        start = [*solward, "server", "start", "--port", str(port), "--log-level", "warning"]
        api, api_pid = stack.enter_context(process_of(start, every, port, "/api/v1/health"))
        addresses, pids = [], []
        for _ in range(workers):
            port = free_port()
            start = [*solward, "worker", "--port", str(port), "--log-level", "warning"]
            start += ["--concurrency", str(concurrency)]
            address, pid = stack.enter_context(process_of(start, every, port, "/readyz"))
            addresses.append(address)
            pids.append(pid)
        parts = {"workers": tuple(pids), "api": (api_pid,), "ledger": (ledger.process.pid,)}
        yield Running(url.replace(DRIVER, "postgresql:", 1), api, tuple(addresses), parts), every


async def seed(case: Case, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The agents, and the probes to be started later; none runs yet."""
    settings = Settings(
        _env_file=None,
        database_url=SecretStr(environment["DATABASE_URL"]),
        solana_rpc_url=SecretStr(environment["SOLANA_RPC_URL"]),
        solana_network="localnet",
        solward_home=Path(environment["SOLWARD_HOME"]),
        solward_plugins=("*",),
    )
    room = asyncio.Semaphore(_AT_ONCE)
    async with Solward.open(settings) as service:

        async def wallet(number: int) -> str:
            async with room:
                return (await service.wallets.create(f"w{number}")).id

        async def agent(number: int, interval_ms: int) -> str:
            async with room:
                fields = {
                    "name": f"a{number}",
                    "walletId": wallets[number % len(wallets)],
                    "llmProvider": NAME,
                    "llmModel": NAME,
                    "llmOptions": {"seconds": case.think_s},
                    "strategy": "always do wait",
                    "loopIntervalMs": interval_ms,
                }
                return (await service.agents.create(fields)).id

        wallets = await asyncio.gather(*map(wallet, range(min(case.agents, WALLETS))))
        made = [agent(number, case.interval_ms) for number in range(case.agents)]
        agents = await asyncio.gather(*made)
        probes = [agent(number, PROBE_INTERVAL_MS) for number in range(PROBES)]
        return list(agents), await asyncio.gather(*probes)


async def start_all(case: Case, agents: list[str], running: Running) -> None:
    """Have every agent run, their turns spread evenly over an interval."""
    import psycopg

    async with await psycopg.AsyncConnection.connect(running.dsn) as connection:
        await connection.execute(
            "UPDATE agents SET status = 'running', desired_state = 'running',"
            " next_run_ms = %s + %s * given.number / %s"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS given (agent, number)"
            " WHERE agents.id = given.agent",
            (round(time.time() * 1_000), case.interval_ms, case.agents, agents),
        )
