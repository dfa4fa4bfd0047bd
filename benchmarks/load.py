"""Processes to measure, and a client that keeps a fixed number of requests under way."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx

SECRET = "a-secret-for-benchmarks-of-at-least-32-bytes"
CONCURRENCY = 16
SOLWARD = (sys.executable, "-m", "solward_cli")
HEALTH = "/api/v1/health"


def free_port() -> int:
    """A port nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process_of(
    command: list[str], environment: dict[str, str], port: int, ready: str
) -> Iterator[tuple[str, int]]:
    """A server process for as long as the block runs, once the path `ready` answers 200: its
    address and process id. Its log is shown where it does not serve."""
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not _answers(f"{url}{ready}"):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    text = log.read().decode(errors="replace")
                    raise RuntimeError(f"{' '.join(command)} does not serve:\n{text}")
                time.sleep(0.05)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def service(home: Path, **variables: str) -> Iterator[str]:
    """The service on a home of its own, its limits out of the way."""
    with service_process(home, **variables) as (url, _pid):
        yield url


@contextmanager
def service_process(home: Path, **variables: str) -> Iterator[tuple[str, int]]:
    """As `service`, with the process id."""
    port = free_port()
    command = [*SOLWARD, "server", "start", "--port", str(port)]
    with process_of(command, environment(home, **variables), port, HEALTH) as served_at:
        yield served_at


def environment(home: Path, **variables: str) -> dict[str, str]:
    """What a service on `home` has in its environment: a secret, and limits out of the way."""
    return {
        **os.environ,
        **variables,
        "SOLWARD_HOME": str(home),
        "API_SECRET": SECRET,
        "MAX_TRANSACTIONS_PER_MINUTE": "1000000",
        "DAILY_SPENDING_LIMIT_SOL": "1000000",
        "MAX_COSTS_SOL_PER_DAY": "1000000",
    }


@contextmanager
def bare() -> Iterator[str]:
    """The bare handler."""
    with bare_process() as (url, _pid):
        yield url


@contextmanager
def bare_process() -> Iterator[tuple[str, int]]:
    """As `bare`, with the process id."""
    port = free_port()
    script = str(Path(__file__).with_name("bare.py"))
    command = [sys.executable, script, str(port)]
    with process_of(command, dict(os.environ), port, HEALTH) as served_at:
        yield served_at


@asynccontextmanager
async def client(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """An authorised client; aiohttp, since a slower one would measure itself."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Request:
    """One request; the path is below the client's address."""

    method: str
    path: str
    json: Mapping[str, object] | None = None


async def answer(opened: aiohttp.ClientSession, request: Request) -> Any:
    """Send one request; its answer must be 200."""
    async with opened.request(request.method, request.path, json=request.json) as response:
        body = await response.json(content_type=None)
        if response.status != 200:
            raise RuntimeError(f"{request.path}: {response.status} {body}")
        return body


def unchecked(_answer: Any) -> None:
    """Take any answer with 200."""


async def per_second(
    opened: aiohttp.ClientSession,
    requests: Sequence[Request],
    check: Callable[[Any], None] = unchecked,
) -> float:
    """Requests a second with `CONCURRENCY` under way.

    Args:
        check: called with each answer; raises where it is not the one to be measured.
    """
    waiting = iter(requests)

    async def work() -> None:
        for request in waiting:
            check(await answer(opened, request))

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return len(requests) / (time.perf_counter() - started)
