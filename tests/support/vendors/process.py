"""The vendor server as a process of its own, for end-to-end tests and benchmarks.

    python tests/support/vendors/process.py --port 0 --latency-ms 200 \\
        --tool transfer --arguments '{"to": "...", "amount": 0.01}' --every 10

It prints {"port": ..., "base_urls": {...}} as one line and serves until SIGTERM. A request whose
key names no scenario gets the tool call `wait`, or a text where no tool is offered. With `--tool`,
one request in N gets that call instead, drawn by a seeded generator: agents asked in a steady order
all get their share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.vendors.server import Script
    from tests.support.vendors.wire import Answer, CapturedRequest

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class VendorProcess:
    """A server running elsewhere."""

    port: int
    base_urls: dict[str, str]
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """The address without a path; /stats and /captured are below it."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def vendor_process(*arguments: str) -> Iterator[VendorProcess]:
    """Run this script with `arguments` until left.

    Raises:
        RuntimeError: it ended before it served.
    """
    command = [sys.executable, str(Path(__file__)), *arguments]
    environment = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the vendor server ended with {process.wait(10)}")
            yield VendorProcess(process=process, **json.loads(line))
        finally:
            process.terminate()


def acting(tool: str | None, arguments: Any, every: int) -> Script:
    """Answer with `tool` to one request in `every`, else with `wait`; never over a scenario."""
    from tests.support.vendors.scenarios import FIXED, WAIT, scenario_of
    from tests.support.vendors.wire import Answer, Call

    chance = random.Random(20261121)

    def script(request: CapturedRequest) -> Answer | None:
        if scenario_of(request.key) is not None:
            return None
        if not request.tools:
            return FIXED["text"]
        if tool is not None and chance.randrange(every) == 0:
            return Answer(calls=(Call(tool, arguments),))
        return WAIT

    return script


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    from tests.support.vendors.scenarios import WAIT
    from tests.support.vendors.server import vendor_server

    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with vendor_server(
        acting(options.tool, options.arguments, options.every),
        default=WAIT,
        latency_s=options.latency_ms / 1000,
        keep=options.keep,
        port=options.port,
    ) as server:
        print(json.dumps({"port": server.port, "base_urls": server.base_urls}), flush=True)
        await ended.wait()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("at least 1")
    return number


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The four model vendors, scripted, on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before each answer")
    parser.add_argument("--tool", help="the skill to call")
    parser.add_argument("--arguments", type=json.loads, default={}, help="of the tool, as JSON")
    parser.add_argument("--every", type=_count, default=1, help="one request in N calls the tool")
    parser.add_argument("--keep", type=int, default=1000, help="how many requests /captured has")
    options = parser.parse_args()
    import uvloop

    uvloop.run(serve(options))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
