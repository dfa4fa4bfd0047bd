"""Bytes that two servers could read differently, offers of other protocols, and cut answers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import uvloop
from hypercorn.asyncio.lifespan import Lifespan
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from quart import Response
from tests.server.test_http_server import BOUNDS, Seen, _answer, application, get, served, serving

CHUNKED = b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZED = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
OFFER = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def test_hypercorns_parts_are_where_the_loop_takes_them_from() -> None:
    """None of them is exported: this fails with the release that moves one."""
    assert list(inspect.signature(TCPServer).parameters) == [
        "app", "loop", "config", "context", "state", "reader", "writer",
    ]  # fmt: skip
    assert list(inspect.signature(Lifespan).parameters) == [
        "app",
        "config",
        "loop",
        "lifespan_state",
    ]
    # What a connection stands in for.
    assert {name for name in vars(WorkerContext(None)) if not name.startswith("_")} == {
        "max_requests", "requests", "terminate", "terminated",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (SIZED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/first"), 400),
        (SIZED + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + get("/first"), 400),
        (SIZED + b"X: 1\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("/first"), 400),
        (SIZED + b"Transfer-Encoding: identity\r\n\r\nhello" + get("/first"), 400),
        (SIZED + b"Content-Length: 6\r\n\r\nhello!" + get("/first"), 400),
        (SIZED + b"Transfer-Encoding : chunked\r\n\r\nhello" + get("/first"), 400),
        (SIZED.replace(b"5", b"0x5") + b"\r\nhello" + get("/first"), 400),
        (SIZED.replace(b"5", b"5, 6") + b"\r\nhello" + get("/first"), 400),
        (CHUNKED.replace(b": chunked", b": chunked, chunked") + b"0\r\n\r\n", 501),
        (CHUNKED.replace(b": chunked", b": xchunked") + b"0\r\n\r\n", 501),
        (CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n" + get("/first"), 400),
        (CHUNKED + b"-1\r\nhello\r\n0\r\n\r\n" + get("/first"), 400),
        (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n" + get("/first"), 400),
        (CHUNKED + b"1" * 21 + b"\r\nhello\r\n0\r\n\r\n" + get("/first"), 400),
        (CHUNKED + b"5\nhello\r\n0\r\n\r\n" + get("/first"), 400),
        (CHUNKED + b"5\r\nhelloXX0\r\n\r\n" + get("/first"), 400),
        (b"GET /first HTTP/1.1\r\nHost: a\r\n X: folded\x00\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (PREFACE, 400),
        (b"GET /first HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n", 400),
        (b"GET /first HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400),
        (b"GET /first HTTP/1.1\r\nHost: a\r\n" + b"a:\n" * 300 + b"\r\n", 400),
    ],
    ids=lambda value: None,
)
async def test_a_framing_that_is_not_plain_is_refused_and_nothing_behind_it_is_read(
    sent: bytes, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with served(application()) as (reader, writer):
        writer.write(sent)
        answer = bytearray()
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.wait_for(reader.read(1_000), 5):
                answer += part
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert answer.count(b"HTTP/1.1 ") == 1
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cut", [1, 7, 40, len(CHUNKED) + 1, len(CHUNKED) + 5])
async def test_a_chunked_body_comes_in_any_parts(cut: int) -> None:
    sent = (
        CHUNKED + b"5;name=\x00\r\nhello\r\n3\r\n123\r\n0\r\nX-Trailer: 1\r\n\r\n" + get("/second")
    )
    async with served(application()) as (reader, writer):
        writer.write(sent[:cut])
        await asyncio.sleep(0.01)
        writer.write(sent[cut:])
        assert await _answer(reader) == b"8"
        assert await _answer(reader) == b"of nobody"


async def test_an_offer_of_http2_in_two_parts_is_answered_by_http1() -> None:
    head = b"GET /second HTTP/1.1\r\nHost: a\r\n" + OFFER + b"\r\n"
    async with served(application()) as (reader, writer):
        for _ in range(2):
            for cut in range(30, len(head), 11):
                writer.write(head[:cut])
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                writer.write(head[cut:])
                assert await _answer(reader) == b"of nobody"


@pytest.mark.parametrize(
    "behind",
    [
        b"GET /second HTTP/1.1\r\nHost: a\r\n" + OFFER + b"\r\n",
        b"GET /second HTTP/1.1\r\nHost: a\r\n" + OFFER.replace(b" h2c", b"\r\n h2c") + b"\r\n",
        PREFACE,
    ],
    ids=["upgrade", "folded", "preface"],
)
async def test_http2_is_never_begun_behind_another_request(behind: bytes) -> None:
    async with served(application()) as (reader, writer):
        writer.write(get("/first") + behind)
        assert await _answer(reader) == b"first"
        # Nothing takes up the offer.
        second = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert second.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 400 "))


async def test_a_post_that_offers_websockets_is_refused() -> None:
    async with served(application()) as (reader, writer):
        writer.write(SIZED + b"Connection: upgrade\r\nUpgrade: WebSocket\r\n\r\nhello")
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400 ")


async def test_a_stop_does_not_wait_for_a_request_behind_the_last_answer() -> None:
    seen = Seen()
    async with serving(application(seen)) as server:
        reader, writer = await server.connect()
        writer.write(get("/slow") + get("/second"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        server.stop.set()
        await asyncio.sleep(0)
        seen.may_end.set()
        assert await _answer(reader) == b"slow"
        await asyncio.wait_for(server.serving, BOUNDS.stop_s / 2)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_stop_ends_requests_whose_client_has_gone(run: Callable[[Any], None]) -> None:
    """uvloop has no socket any more where asyncio has one that is closed."""

    async def stop_behind_a_client_that_is_gone() -> None:
        seen = Seen()
        async with serving(application(seen), replace(BOUNDS, stop_s=0.2)) as server:
            _, writer = await server.connect()
            writer.write(get("/slow"))
            await asyncio.wait_for(seen.entered.wait(), 5)
            option = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
            writer.transport.abort()
            await asyncio.sleep(0.05)
            server.stop.set()
            await asyncio.wait_for(server.serving, 5)
            assert seen.ended.is_set()

    run(stop_behind_a_client_that_is_gone())


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_an_answer_that_is_cut_off_does_not_end_as_a_whole_one(version: bytes) -> None:
    seen = Seen()
    async with served(application(seen)) as (reader, writer):
        writer.write(get("/stream").replace(b"1.1", version))
        await asyncio.wait_for(reader.readuntil(b"begun"), 5)
        seen.may_end.set()
        # By HTTP/1.0 the end of the connection would be that of the answer.
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 5)


LAST = {
    "1.0": lambda sent: sent.replace(b"1.1", b"1.0"),
    "closed": lambda sent: sent.replace(b"Host", b"Connection: x, close\r\nHost"),
}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("behind", [b"\r\n", b"GARBAGE\r\n\r\n", get("/second")])
async def test_what_comes_behind_the_last_request_does_not_spoil_its_answer(
    last: str, behind: bytes
) -> None:
    """A payment that is made must not be answered by the 400 of what nobody asked."""
    seen = Seen()
    for at_once in (True, False):
        async with served(application(seen)) as (reader, writer):
            writer.write(LAST[last](get("/slow")) + behind * at_once)
            await asyncio.wait_for(seen.entered.wait(), 5)
            writer.write(behind)
            await asyncio.sleep(0.01)
            seen.may_end.set()
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"slow")
            assert answer.count(b"HTTP/1.1 ") == 1


async def test_empty_lines_before_a_request_are_ignored() -> None:
    async with served(application()) as (reader, writer):
        for _ in range(2):
            writer.write(b"\r\n\n" + get("/second"))
            assert await _answer(reader) == b"of nobody"


SPACES = b" " * 60_000


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + SPACES + b"\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + SPACES + b"\r\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + SPACES + b"b\x0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + SPACES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\na:" + b"b  " * 20_000 + b"\r\n\r\n",
        b"GET " + SPACES + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:" + SPACES + b"x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection:" + b"a, " * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade:" + b"websocke" * 7_000 + b"\r\n\r\n",
        CHUNKED + b"5;" + SPACES + b"\nx\r\n",
        CHUNKED + b"5" + SPACES + b"\nx\r\n",
        CHUNKED + b"1\r\na\r\n0\r\n" + b"a:" + SPACES + b"\0\r\n\r\n",
    ],
    ids=lambda value: None,
)
async def test_no_bytes_of_a_stranger_stop_the_others(sent: bytes) -> None:
    """h11 compares some lines with every way to split them: 31 s for one of 64 KB."""
    async with serving(application()) as server:
        _, stranger = await server.connect()
        stranger.write(get("/second") + sent)
        worst, until = 0.0, asyncio.get_running_loop().time() + 0.3
        while (now := asyncio.get_running_loop().time()) < until:
            await asyncio.sleep(0.005)
            worst = max(worst, asyncio.get_running_loop().time() - now)
        assert worst < 0.2
        stranger.close()


async def test_an_early_answer_is_read_whole_and_its_connection_is_kept() -> None:
    size = 300_000
    async with served(application()) as (reader, writer):
        writer.write(b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
        assert await _answer(reader) == b"answered"
        writer.write(bytes(size) + get("/second"))
        assert await _answer(reader) == b"of nobody"


async def test_a_body_that_nobody_reads_is_read_by_its_connection() -> None:
    """More parts than Hypercorn queues, of an application that answers without reading."""

    async def app(scope: object, _receive: object, send: object) -> None:
        if scope["type"] != "http":  # type: ignore[index]
            return
        await asyncio.sleep(0.05)
        start = {"type": "http.response.start", "status": 200}
        await send({**start, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]

    async with served(app) as (reader, writer):  # type: ignore[arg-type]
        for _ in range(2):
            writer.write(CHUNKED + b"1\r\na\r\n" * 100 + b"0\r\n\r\n")
            assert await _answer(reader) == b"ok"


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (get("/first"), 1),
        (get("/first") * 2, 2),
        (get("/last") * 2, 1),
        (get("/first").replace(b"Host", b"Connection: close\r\nHost") * 2, 1),
        (CHUNKED + b"zz\r\n", 1),
        (get("/first").replace(b"Host", b"Upgrade: websocket\r\nConnection: upgrade\r\nHost"), 1),
        (b"GET /fir", 0),
    ],
    ids=["one", "two", "closed by the view", "closed", "malformed", "no websocket", "half"],
)
async def test_nothing_is_left_of_a_connection(sent: bytes, answers: int) -> None:
    app = application()

    @app.get("/last")
    async def last() -> Response:
        return Response("last", 200, {"Connection": "close"})

    async with serving(app) as server:
        reader, writer = await server.connect()
        writer.write(sent)
        for _ in range(answers):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        writer.close()
        async with asyncio.timeout(5):
            while any("_Streams" in str(task.get_coro()) for task in asyncio.all_tasks()):
                await asyncio.sleep(0.01)


async def test_bytes_that_trickle_into_a_body_do_not_prolong_its_time() -> None:
    async with served(application(), replace(BOUNDS, body_s=0.2)) as (reader, writer):
        writer.write(SIZED.replace(b" 5", b" 60000") + b"\r\n")
        reading = asyncio.create_task(reader.read())
        async with asyncio.timeout(10):
            while not reading.done():
                writer.write(b"a")
                await asyncio.wait((reading,), timeout=0.02)
        assert reading.exception() is None or isinstance(reading.exception(), ConnectionError)
