"""From the start of a process to its first answer, and the memory of all processes when idle.

`solward up` runs with everything: the demo's agent and seller, the ledger for other clients, the
dashboard, a third party's plugin in its host, and an agent whose model is a vendor's, so that the
model host has imported litellm. Memory is read once all of it is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
from benchmarks import load, processes
from benchmarks.plugin_hosts import installed
from benchmarks.report import Ratio, at_most
from tests.support.vendors.process import vendor_process

SERVER_S = 2.0
UP_S = 4.0
IDLE_MB = 400.0
# The fastest counts: whatever else the machine did made the others slower.
STARTS = 5
# Idle is where, over so long, in so many looks, a thread wanted a processor in this share of them:
# the demo's agent goes on.
_QUIET_S = 5.0
_LOOKS = 50
_BUSY_SHARE = 0.3
_WAIT_S = 120.0
_POLL_S = 0.005
_HOUR_MS = 3_600_000
# As the kernel names it: 15 letters at most.
MODEL_HOST = "host-litellm"


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Both starts, and the memory of the second."""
    return iter(await asyncio.to_thread(_measure, tmp))


def _measure(tmp: Path) -> list[Ratio]:
    with ExitStack() as stack:
        plugins = stack.enter_context(installed(tmp / "startup-site"))
        vendor = stack.enter_context(vendor_process())
        alone = Start("server", tmp / "startup-server", {})
        everything = Start(
            "up",
            tmp / "startup-up",
            vendor.base_urls | {"OPENAI_API_KEY": "key", "PYTHONPATH": plugins},
        )
        # The first start of a home makes its keys and tables, and compiles what is not yet.
        with alone.running():
            pass
        with everything.running() as first:
            _add_agent(first.url)
        servers: list[Running] = []
        ups: list[Running] = []
        for _ in range(STARTS):
            with alone.running() as running:
                servers.append(running)
            with everything.running() as running:
                ups.append(running)
        with everything.running() as running:
            idle = _idle(running.pid)
    for name, starts in (("server start", servers), ("up", ups)):
        least = min(each.cpu_s for each in starts)
        print(f"{name}: {least:.2f} s of the first process's CPU to the first answer")
    for each in idle:
        anonymous = each.anonymous / 1e6
        print(f"idle: {each.name:<16} {each.pss / 1e6:6.1f} MB, {anonymous:6.1f} MB in no file")
    total = sum(each.pss for each in idle) / 1e6
    models = sum(each.pss for each in idle if each.name == MODEL_HOST) / 1e6
    print(f"idle without litellm's processes: {total - models:.1f} MB")
    return [
        at_most(
            "server start to the first answer",
            SERVER_S,
            min(each.answered_s for each in servers),
            "s",
        ),
        at_most(
            "up with everything to the first answer",
            UP_S,
            min(each.answered_s for each in ups),
            "s",
        ),
        at_most(
            "up with everything to the first page", UP_S, min(each.page_s for each in ups), "s"
        ),
        at_most("memory of all idle processes", IDLE_MB, total, "MB"),
    ]


@dataclass(frozen=True, slots=True)
class Running:
    """A service that answered.

    Attributes:
        answered_s: from its start to health's first answer, which says `ok`.
        cpu_s: processor time of its first process by then.
        page_s: likewise to the dashboard's first page; 0 where none is served.
    """

    pid: int
    url: str
    answered_s: float
    cpu_s: float
    page_s: float


@dataclass(frozen=True, slots=True)
class Start:
    """`solward server start`, or `solward up --demo` with all that it serves, on one home."""

    command: Literal["server", "up"]
    home: Path
    variables: Mapping[str, str]

    @contextlib.contextmanager
    def running(self) -> Iterator[Running]:
        """Start it, wait for its answers, and end it when the block ends."""
        port, pages = load.free_port(), load.free_port()
        command = [*load.SOLWARD, *self._arguments(pages), "--port", str(port)]
        environment = load.environment(self.home, **self.variables)
        # As an installation has it, whose bytecode is compiled once.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            health = _first_answer(process, port, load.HEALTH)
            answered_s = time.perf_counter() - began
            cpu_s = processes.cpu_s(process.pid)
            if json.loads(health)["status"] != "ok":
                raise RuntimeError(f"its first answer is {health!r}")
            page_s = 0.0
            if self.command == "up":
                _first_answer(process, pages, "/")
                page_s = time.perf_counter() - began
            yield Running(process.pid, f"http://127.0.0.1:{port}", answered_s, cpu_s, page_s)
        finally:
            process.terminate()
            process.wait(30)

    def _arguments(self, pages: int) -> list[str]:
        if self.command == "server":
            return ["server", "start"]
        return ["up", "--demo", "--rpc-port", "0", "--dashboard-port", str(pages)]


def _first_answer(process: subprocess.Popen[bytes], port: int, path: str) -> bytes:
    """The body of the first answer with 200; a service listens before it answers."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == http.HTTPStatus.OK:
                return body
        except OSError:
            time.sleep(_POLL_S)
        finally:
            connection.close()
    raise RuntimeError(f"{path} on port {port} does not answer")


def _add_agent(url: str) -> None:
    """An agent on a vendor's model, which runs again after each start, and thinks once an hour."""
    with httpx.Client(
        base_url=f"{url}/api/v1/",
        headers={"Authorization": f"Bearer {load.SECRET}"},
        timeout=_WAIT_S,
    ) as client:
        wallet = client.post("wallets", json={}).raise_for_status().json()["walletId"]
        fields = {
            "name": "vendor",
            "walletId": wallet,
            "llmProvider": "openai",
            "llmModel": "gpt-4.1-mini",
            "strategy": "always do wait",
            "loopIntervalMs": _HOUR_MS,
        }
        agent = client.post("agents", json=fields).raise_for_status().json()
        client.post(f"agents/{agent['id']}/start").raise_for_status()


def _idle(pid: int) -> list[processes.Memory]:
    """The memory of a service and its children, once they do next to nothing."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        busy = 0
        for _ in range(_LOOKS):
            time.sleep(_QUIET_S / _LOOKS)
            busy += sum(map(processes.busy_threads, processes.tree(pid)))
        every = [processes.memory(each) for each in processes.tree(pid)]
        # A model host that has not started yet is not idle: litellm comes with it.
        if busy < _BUSY_SHARE * _LOOKS and any(each.name == MODEL_HOST for each in every):
            return every
    raise RuntimeError("its processes are not idle")
