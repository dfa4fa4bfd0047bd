"""One loopback server that speaks OpenAI's, xAI's, Anthropic's and Gemini's wire protocols.

    async with vendor_server() as server:
        ...  # point a client at server.base_urls, with a key such as `key~429`
        assert server.requests[-1].tool_names == ("wait",)

Give it `script` to decide per request in Python; None from the script leaves it to the key.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat

import pytest
from aiohttp import web
from tests.support.http import served
from tests.support.vendors import anthropic_wire, gemini_wire, openai_wire
from tests.support.vendors.scenarios import FIXED, answer_for, scenario_of
from tests.support.vendors.wire import Answer, CapturedRequest, Vendor

Script = Callable[[CapturedRequest], Answer | Awaitable[Answer | None] | None]

WIRES = {
    "openai": openai_wire,
    "grok": openai_wire,
    "anthropic": anthropic_wire,
    "gemini": gemini_wire,
}


@dataclass(slots=True)
class VendorServer:
    """The running server: what it was asked, and what it answers without a script.

    `served` counts requests by vendor; `requests` holds the last `keep` of them (None: all);
    `strays` names the paths nobody serves, `faults` has what the script raised; `dripping`
    counts the answers that go on.
    """

    script: Script | None = None
    default: Answer = FIXED["text"]
    latency_s: float = 0.0
    drip_s: float = 0.2
    keep: int | None = None
    port: int = 0
    served: Counter[str] = field(default_factory=Counter)
    strays: list[str] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    requests: deque[CapturedRequest] = field(init=False)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    dripping: int = 0

    def __post_init__(self) -> None:
        self.requests = deque(maxlen=self.keep)

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_urls(self) -> dict[str, str]:
        """The environment variables that send each provider here."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_API_BASE": self.url,
            "XAI_API_BASE": f"{self.url}/xai/v1",
            "GEMINI_API_BASE": self.url,
        }

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Capture, decide, answer."""
        vendor = _vendor(http.path)
        if vendor is None:
            self.strays.append(http.path)
            return web.json_response({"error": {"message": f"no {http.path} here"}}, status=404)
        try:
            await http.read()
        except ConnectionResetError:
            # A client that was killed, as a fleet is at its end; nobody hears the answer.
            return web.Response(status=400)
        try:
            request = _capture(vendor, http, json.loads(await http.read()))
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            return web.json_response({"error": {"message": f"bad body: {fault!r}"}}, status=400)
        self.served[vendor] += 1
        serial = self.served.total()
        self.requests.append(request)
        answer = await self.decide(request)
        if self.latency_s or answer.delay_s:
            await asyncio.sleep(self.latency_s + answer.delay_s)
        return await self.send(http, request, answer, serial)

    async def show(self, http: web.Request) -> web.Response:
        """`GET /stats`: how many were served, by vendor. `GET /captured`: the requests kept."""
        if http.path == "/stats":
            return web.json_response({"served": self.served, "strays": self.strays})
        if http.path == "/captured":
            return web.json_response([asdict(request) for request in self.requests])
        self.strays.append(http.path)
        return web.json_response({"error": {"message": f"no {http.path} here"}}, status=404)

    async def decide(self, request: CapturedRequest) -> Answer:
        """What the vendor refuses by itself, then the script, the key's scenario, the default."""
        if not request.key:
            return Answer(status=401)
        if problem := WIRES[request.vendor].problem(request):
            return Answer(status=400, message=problem)
        if self.script is not None:
            try:
                told = self.script(request)
                if inspect.isawaitable(told):
                    told = await told
            except Exception as fault:
                self.faults.append(fault)
                return Answer(status=500, message=f"the script raised {fault!r}")
            if told is not None:
                return told
        scenario = scenario_of(request.key)
        if scenario is None:
            return self.default
        seen = self.seen[request.vendor, request.key]
        self.seen[request.vendor, request.key] += 1
        try:
            return answer_for(scenario, seen, self.default)
        except ValueError as fault:
            return Answer(status=400, message=str(fault))

    async def send(
        self, http: web.Request, request: CapturedRequest, answer: Answer, serial: int
    ) -> web.StreamResponse:
        """Put the answer on the wire, as it is or broken as it says."""
        wire = WIRES[request.vendor]
        if answer.fault == "garbage":
            page = "<html><body><h1>502 Bad Gateway</h1></body></html>"
            return web.Response(text=page, content_type="text/html", headers=answer.headers)
        if answer.status != 200:
            body = wire.error(request, answer)
            return web.json_response(body, status=answer.status, headers=answer.headers)
        kind = "application/json"
        if not request.stream:
            frames = [json.dumps(wire.complete(request, answer, serial)).encode()]
        elif request.vendor == "gemini" and http.query.get("alt") != "sse":
            frames = gemini_wire.array(request, answer, serial)
        else:
            kind = "text/event-stream"
            frames = wire.frames(request, answer, serial)
        if answer.fault == "drip":
            return await self.drip(http, b"".join(frames), kind)
        if answer.fault == "reset":
            return await _reset(http, b"".join(frames), kind)
        if not request.stream:
            return web.Response(body=frames[0], content_type=kind, headers=answer.headers)
        response = web.StreamResponse(headers={"Content-Type": kind, **answer.headers})
        # A client that has left, such as one that was stopped, is no fault here.
        with suppress(ConnectionResetError):
            await response.prepare(http)
            for frame in frames:
                await response.write(frame)
            await response.write_eof()
        return response

    async def drip(self, http: web.Request, body: bytes, kind: str) -> web.StreamResponse:
        """All but the last byte one by one, then blanks: the body never ends."""
        response = web.StreamResponse(headers={"Content-Type": kind})
        self.dripping += 1
        try:
            await response.prepare(http)
            for byte in chain((body[at : at + 1] for at in range(len(body) - 1)), repeat(b" ")):
                await response.write(byte)
                await asyncio.sleep(self.drip_s)
        except ConnectionResetError:
            pass
        finally:
            self.dripping -= 1
        return response


@asynccontextmanager
async def vendor_server(
    script: Script | None = None,
    *,
    default: Answer = FIXED["text"],
    latency_s: float = 0.0,
    drip_s: float = 0.2,
    keep: int | None = None,
    port: int = 0,
) -> AsyncIterator[VendorServer]:
    """Serve on 127.0.0.1 (a free port for 0) until left; open connections are cut then.

    Raises:
        Exception: the first thing `script` raised; a failed assertion in it fails its test.
    """
    server = VendorServer(script, default, latency_s, drip_s, keep)
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_route("POST", "/{path:.*}", server.handle)
    app.router.add_route("GET", "/{path:.*}", server.show)
    async with served(app, port) as url:
        server.port = int(url.rpartition(":")[2])
        yield server
    if server.faults:
        raise server.faults[0]


def _vendor(path: str) -> Vendor | None:
    if path.endswith("/v1/chat/completions"):
        return "grok" if path.startswith("/xai/") else "openai"
    if path == "/v1/messages":
        return "anthropic"
    model, _, method = path.rpartition("/models/")[2].partition(":")
    if "/models/" in path and model and method in ("generateContent", "streamGenerateContent"):
        return "gemini"
    return None


def _capture(vendor: Vendor, http: web.Request, body: dict[str, object]) -> CapturedRequest:
    headers = {name.lower(): value for name, value in http.headers.items()}
    if vendor == "gemini":
        return gemini_wire.capture(http.path, headers, http.query, body)
    if vendor == "anthropic":
        return anthropic_wire.capture(http.path, headers, body)
    return openai_wire.capture(vendor, http.path, headers, body)


async def _reset(http: web.Request, body: bytes, kind: str) -> web.StreamResponse:
    """Half the body of a stated length, then an RST instead of the rest."""
    response = web.StreamResponse(headers={"Content-Type": kind})
    response.content_length = len(body)
    with suppress(ConnectionResetError):
        await response.prepare(http)
        await response.write(body[: len(body) // 2])
    transport = http.transport
    if transport is not None:
        linger_for_nothing = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger_for_nothing
        )
        transport.abort()
    return response


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    async with vendor_server() as running:
        yield running
