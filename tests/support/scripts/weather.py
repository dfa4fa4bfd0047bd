"""Bad weather between a service and its RPC: a proxy that does what real ones do under load.

    python tests/support/scripts/weather.py --upstream http://127.0.0.1:8899 --seed 7 --drop .05

For each JSON-RPC request it rolls seeded dice, once for each of `CHANCES`. `GET /counts` says what
it did, `PUT /weather` changes the chances (`{}`: none of it any more). Every other request, such as
those to the localnet's swap venue, passes untouched.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout, web

CHANCES = ("throttle", "fail", "drop", "deafen", "delay", "duplicate")
"""In this order, of which the first three keep a request from its ledger and exclude each other:
429; 500 or 503; the connection is closed unheard; it is closed once the ledger has answered; 50 to
800 ms pass first; a `sendTransaction` is forwarded twice."""

DELAY_S = (0.05, 0.8)


@dataclass(slots=True)
class Weather:
    """The dice, what they decided so far, and the address of the ledger behind.

    Args:
        chances: the probability of each of `CHANCES`; what is left out never happens.

    Raises:
        ValueError: a chance is unknown or no probability.
    """

    upstream: str
    chances: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    url: str = ""
    _dice: random.Random = field(init=False)
    _session: ClientSession | None = None

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self.change(self.chances)

    def change(self, chances: Mapping[str, float]) -> None:
        """From now on other chances."""
        for name, chance in chances.items():
            if name not in CHANCES or not 0 <= chance <= 1:
                raise ValueError(f"expected a probability of one of {CHANCES}; got {name}={chance}")
        self.chances = dict(chances)

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Serve one request."""
        try:
            body = await http.read()
        except ConnectionResetError:  # the client was killed
            return web.Response()
        method = _method(http, body)
        if method is None:
            return await self._forward(http, body)
        self.counts["requests"] += 1
        # Every die is rolled for every request, so that one seed has one course of events.
        rolled = {name: self._dice.random() for name in CHANCES}
        strength = self._dice.random()
        happens = {name for name in CHANCES if rolled[name] < self.chances.get(name, 0.0)}
        if method != "sendTransaction":
            happens.discard("duplicate")
        if "throttle" in happens:
            return self._refuse("throttle", 429)
        if "fail" in happens:
            return self._refuse("fail", 500 if strength < 0.5 else 503)
        if "drop" in happens:
            return self._close("drop", http)
        if "delay" in happens:
            self.counts["delay"] += 1
            least, most = DELAY_S
            await asyncio.sleep(least + (most - least) * strength)
        if "duplicate" in happens:
            self.counts["duplicate"] += 1
            await self._forward(http, body)
        answer = await self._forward(http, body)
        if "deafen" in happens:
            return self._close("deafen", http)
        self.counts["answered"] += 1
        return answer

    async def show(self, _http: web.Request) -> web.Response:
        """What happened so far."""
        return web.json_response({"seed": self.seed, "chances": self.chances, **self.counts})

    async def put(self, http: web.Request) -> web.Response:
        """Other chances, by a client."""
        try:
            self.change(await http.json())
        except (ValueError, TypeError, AttributeError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(self.chances)

    def _refuse(self, name: str, status: int) -> web.Response:
        self.counts[name] += 1
        return web.json_response({"error": name}, status=status)

    def _close(self, name: str, http: web.Request) -> web.Response:
        self.counts[name] += 1
        if http.transport is not None:
            http.transport.abort()
        return web.Response()

    async def _forward(self, http: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        headers = {"Content-Type": http.headers.get("Content-Type", "application/json")}
        url = self.upstream.rstrip("/") + http.path_qs
        try:
            async with self._session.request(http.method, url, data=body, headers=headers) as got:
                kind = got.content_type
                return web.Response(body=await got.read(), status=got.status, content_type=kind)
        except (ClientError, TimeoutError):
            self.counts["upstream_away"] += 1
            return web.json_response({"error": "the ledger is away"}, status=502)

    @asynccontextmanager
    async def blowing(self, port: int = 0) -> AsyncIterator[Weather]:
        """Listen on 127.0.0.1 (a free port for 0) until left; `url` says where."""
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_get("/counts", self.show)
        app.router.add_put("/weather", self.put)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        async with ClientSession(timeout=ClientTimeout(total=30)) as self._session:
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
                self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
                yield self
            finally:
                await runner.cleanup()


@contextlib.contextmanager
def weather_process(
    upstream: str, *, seed: int = 0, port: int = 0, **chances: float
) -> Iterator[str]:
    """The same in a process of its own; gives its address."""
    given = {"upstream": upstream, "seed": seed, "port": port, **chances}
    process = subprocess.Popen(
        [sys.executable, __file__, *(f"--{name}={value}" for name, value in given.items())],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, f"the proxy did not say where it listens: {line!r}"
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()


def _method(http: web.Request, body: bytes) -> str | None:
    """A JSON-RPC request's method, `batch` for many; None for what is none."""
    if http.method != "POST" or http.path != "/":
        return None
    try:
        request = json.loads(body)
        return "batch" if isinstance(request, list) else str(request["method"])
    except (ValueError, KeyError, TypeError):
        return None


async def _serve(weather: Weather, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with weather.blowing(port):
        print(f"weather at {weather.url}", flush=True)
        await stop.wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Bad weather before a JSON-RPC ledger.")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    for name in CHANCES:
        parser.add_argument(f"--{name}", type=float, default=0.0)
    given = parser.parse_args()
    chances = {name: getattr(given, name) for name in CHANCES}
    asyncio.run(_serve(Weather(given.upstream, chances, given.seed), given.port))


if __name__ == "__main__":
    main()
