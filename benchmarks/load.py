"""Processes to measure, and a client that keeps a fixed number of requests under way."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx

SECRET = "a-secret-for-benchmarks-of-at-least-32-bytes"
CONCURRENCY = 16


def free_port() -> int:
    """A port nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(command: list[str], environment: dict[str, str], port: int) -> Iterator[str]:
    """A server process for as long as the block runs; yields its address."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{url}/api/v1/health", timeout=2).status_code == 200:
                    break
            except httpx.TransportError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def service(home: Path) -> Iterator[str]:
    """The service on a home of its own, its limits out of the way."""
    port = free_port()
    environment = os.environ | {
        "SOLWARD_HOME": str(home),
        "API_SECRET": SECRET,
        "MAX_TRANSACTIONS_PER_MINUTE": "1000000",
        "DAILY_SPENDING_LIMIT_SOL": "1000000",
    }
    command = [sys.executable, "-m", "solward_cli", "server", "start", "--port", str(port)]
    with served(command, environment, port) as url:
        yield url


@contextmanager
def bare() -> Iterator[str]:
    """The bare handler."""
    port = free_port()
    script = str(Path(__file__).with_name("bare.py"))
    with served([sys.executable, script, str(port)], dict(os.environ), port) as url:
        yield url


@asynccontextmanager
async def client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """An authorised client."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    limits = httpx.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=60, limits=limits
    ) as opened:
        yield opened


async def per_second(
    opened: httpx.AsyncClient, requests: list[Callable[[], httpx.Request]]
) -> float:
    """Requests a second with `CONCURRENCY` under way; every answer must be 200."""
    waiting = iter(requests)

    async def work() -> None:
        for make in waiting:
            answer = await opened.send(make())
            if answer.status_code != 200:
                raise RuntimeError(f"{answer.request.url}: {answer.status_code} {answer.text}")

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return len(requests) / (time.perf_counter() - started)
