"""Connections of the embedded ledger's and the dashboard's servers are bounded as the API's are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from tests.promises import promise
from tests.support.processes import NO_TLS
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward_dashboard import serve as dashboard
from solward_localnet import server as localnet

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
WHOLE = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
HALF_HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"


@pytest.fixture(params=["hypercorn", H11Protocol, HttpToolsProtocol])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server: that of API and ledger, or the dashboard's with one of its parsers."""
    if request.param != "hypercorn":
        monkeypatch.setattr(dashboard, "AutoHTTPProtocol", request.param)
    return request.param


class Served:
    """An application that reads each body, and answers when it may."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.may = asyncio.Event()
        self.may.set()
        self.running = 0
        self.size, self.parts = 2, 2
        self.sent = asyncio.Event()
        self.clients: list[Client] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        self.running += 1
        await self.may.wait()
        headers = [(b"content-length", str(self.size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = {"type": "http.response.body", "body": b"x" * (self.size // self.parts)}
        try:
            if self.parts == 2:
                await send({**body, "more_body": True})
            # uvicorn begins to send a part once the one before it has left its buffer.
            await send(body)
        finally:
            self.sent.set()

    async def open(self, sent: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append((reader, writer))
        writer.write(sent)
        await writer.drain()
        return reader, writer


@asynccontextmanager
async def serving(protocol: Any, bounds: Bounds) -> AsyncIterator[Served]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    app, stop = Served(listening.getsockname()[1]), asyncio.Event()
    if protocol == "hypercorn":
        task = asyncio.create_task(serve_http(app, listening, stop.wait, bounds))
    else:
        task = asyncio.create_task(_serve_by_uvicorn(app, listening, stop, bounds))
    try:
        async with asyncio.timeout(20):
            yield app
    finally:
        await close(app.clients)
        stop.set()
        await task


async def _serve_by_uvicorn(
    app: Served, listening: socket.socket, stop: asyncio.Event, bounds: Bounds
) -> None:
    config = uvicorn.Config(
        **dashboard.uvicorn_bounds(app, bounds), ws="none", lifespan="off", log_config=None,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve([listening]))
    await stop.wait()
    server.should_exit = True
    await task


async def close(clients: list[Client]) -> None:
    for _, writer in clients:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def closed(client: Client) -> bool:
    """Whether the server has closed it, without an answer."""
    try:
        return await client[0].read() == b""
    except ConnectionError:
        return True


async def answered(client: Client) -> bool:
    return (await client[0].readline()).startswith(b"HTTP/1.1 200")


@promise("dashboard-same-bounds")
async def test_half_open_connections_are_closed_for_one_that_has_a_request(protocol: Any) -> None:
    async with serving(protocol, Bounds(connections=4)) as served:
        idle = await served.open(REQUEST)
        assert await answered(idle)
        served.may.clear()
        running = await served.open(WHOLE)
        while served.running < 2:
            await asyncio.sleep(0.01)
        half = [await served.open(sent) for sent in (b"", HALF_HEAD, HALF_BODY) * 4]
        served.may.set()
        for _ in range(8):
            asking = await served.open(REQUEST)
            assert await answered(asking)
        assert sum([await closed_now(each) for each in half]) >= len(half) - 4
        assert await answered(running)


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY])
async def test_what_does_not_come_whole_in_time_is_closed(protocol: Any, sent: bytes) -> None:
    bounds = Bounds(head_s=0.1, body_s=0.1, tick_s=0.02)
    async with serving(protocol, bounds) as served:
        fresh, again = await served.open(sent), await served.open(REQUEST)
        assert await answered(again)
        again[1].write(sent or HALF_HEAD[:1])
        assert await closed(fresh)
        # Of one that was answered before, from its next request on.
        with contextlib.suppress(ConnectionError):
            rest = await again[0].read()
            assert rest.count(b"HTTP/1.1") == 0


async def test_an_idle_connection_is_not_waited_for_and_a_running_request_has_its_time(
    protocol: Any,
) -> None:
    bounds = Bounds(head_s=0.05, tick_s=0.01)
    async with serving(protocol, bounds) as served:
        idle = await served.open(REQUEST)
        assert await answered(idle)
        served.may.clear()
        running = await served.open(WHOLE)
        late = await served.open(HALF_HEAD)
        assert await closed(late)  # so the others were looked at too
        served.may.set()
        assert await answered(running)
        idle[1].write(REQUEST)
        assert b"HTTP/1.1 200" in await idle[0].readuntil(b"200")


async def test_a_head_without_an_end_is_cut_off_and_a_body_of_that_size_is_not(
    protocol: Any,
) -> None:
    bounds = Bounds(head_bytes=8_192)
    async with serving(protocol, bounds) as served:
        long = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
        assert await answered(await served.open(long))
        endless = await served.open(HALF_HEAD + b"X-A: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                endless[1].write(b"x" * 4_096)
                await endless[1].drain()
        with contextlib.suppress(ConnectionError):
            assert (await endless[0].read()).partition(b" ")[2][:3] in (b"", b"431")


@pytest.mark.parametrize("parts", [1, 2])
async def test_a_client_that_does_not_read_is_cut_off(protocol: Any, parts: int) -> None:
    bounds = Bounds(unread_s=0.1, tick_s=0.02)
    async with serving(protocol, bounds) as served:
        served.size, served.parts = 64 * 1024 * 1024, parts
        reader, _writer = await served.open(REQUEST)
        transport = reader._transport  # type: ignore[attr-defined]
        transport.pause_reading()
        # A second part waits for the client, for as long as it is connected.
        await served.sent.wait()
        await asyncio.sleep(0.3)
        transport.resume_reading()
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read()) < served.size


async def test_clients_that_do_not_read_are_closed_for_one_that_asks(protocol: Any) -> None:
    bounds = Bounds(connections=4, tick_s=0.05)
    async with serving(protocol, bounds) as served:
        served.size = 16 * 1024 * 1024
        for _ in range(8):
            reader, _writer = await served.open(REQUEST)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        served.size = 2
        for _ in range(4):
            assert await answered(await served.open(REQUEST))


async def test_requests_behind_one_that_runs_are_bounded() -> None:
    """uvicorn parses all that has come, and keeps each request that it cannot begin yet."""
    async with serving("uvicorn", Bounds()) as served:
        served.may.clear()
        client = await served.open(REQUEST * 5_000)
        assert await closed_now(client)
        served.may.set()
        assert await answered(await served.open(REQUEST))


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        # Without "Connection: upgrade" it is a request to uvicorn.
        b"Upgrade: WebSocket",
    ],
)
async def test_what_two_servers_could_read_differently_is_refused(
    protocol: Any, headers: bytes
) -> None:
    async with serving(protocol, Bounds()) as served:
        served.size = 2
        reader, _ = await served.open(
            b"POST / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n\r\n0\r\n\r\n"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        # What comes behind is no request.
        assert b"HTTP/1.1 200" not in await reader.read()
        assert await answered(await served.open(REQUEST))


@promise("dashboard-same-bounds")
async def test_the_embedded_ledger_answers_while_sockets_are_half_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(localnet, "BOUNDS", Bounds(connections=8))

    class Node:
        async def call(self, *_: Any) -> Any:
            return "ok"

        def subscribe(self, _listener: Any) -> Any:
            return lambda: None

    async with localnet.serving(Node(), "127.0.0.1", 0) as addresses:  # type: ignore[arg-type]
        half = [await asyncio.open_connection("127.0.0.1", addresses.http_port) for _ in range(20)]
        gone = [await closed_now(each) for each in half]
        async with httpx.AsyncClient(verify=NO_TLS, timeout=20) as client:
            for _ in range(10):
                assert (await client.get(f"{addresses.http}/health")).text == "ok"
        await close(half)
    assert sum(gone) >= len(half) - 8


async def closed_now(client: Client) -> bool:
    try:
        return await asyncio.wait_for(client[0].read(1), 0.2) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@promise("dashboard-same-bounds")
def test_the_dashboard_is_served_within_the_same_bounds() -> None:
    assert Bounds(body_s=30) == dashboard.BOUNDS
    assert Bounds(body_s=30, stop_s=1) == localnet.BOUNDS
