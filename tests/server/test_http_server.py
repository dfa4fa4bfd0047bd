"""The bounds of connections, what is refused before the application, and the stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import pytest
from hypercorn.utils import LifespanFailureError
from quart import Quart, Response, request
from tests.promises import promise

from solward.serving.bounds import Bounds, Connection, Connections
from solward.serving.loop import serve_http
from solward_server.http import middleware
from solward_server.http.middleware import ObservedQuart
from solward_server.listening import listen

LARGE = 32 * 1024 * 1024
BOUNDS = Bounds(tick_s=0.02)
MAX_HEAD_BYTES = BOUNDS.head_bytes
_CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


@dataclass
class Seen:
    """What became of the requests of `application`."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)


class Served:
    """A server, and connections to it."""

    def __init__(self, port: int, stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
        self.stop, self.serving = stop, serving
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        self._writers.append(writer)
        return reader, writer

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def serving(app: Quart, bounds: Bounds = BOUNDS) -> AsyncIterator[Served]:
    """A server of the application, on any port."""
    stop, listening = asyncio.Event(), listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    task = asyncio.create_task(serve_http(app, listening, stop.wait, bounds))
    served = Served(port, stop, task)
    try:
        yield served
    finally:
        served.close()
        stop.set()
        await asyncio.wait_for(task, 10)


@asynccontextmanager
async def served(
    app: Quart, bounds: Bounds = BOUNDS
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of the application."""
    async with serving(app, bounds) as server:
        yield await server.connect()


def application(seen: Seen | None = None) -> Quart:
    app, seen = ObservedQuart(__name__), seen or Seen()

    @app.get("/scheme")
    async def scheme() -> str:
        return f"{request.scheme} {request.remote_addr}"

    @app.post("/unread")
    async def unread() -> str:
        return "answered"

    @app.post("/read")
    async def read() -> str:
        seen.entered.set()
        try:
            return str(len(await request.get_data()))
        finally:
            seen.ended.set()

    @app.get("/first")
    async def first() -> str:
        _CALLER.set("admin")
        return "first"

    @app.get("/second")
    async def second() -> str:
        return f"of {_CALLER.get()}"

    @app.get("/large")
    async def large() -> bytes:
        return bytes(LARGE)

    @app.get("/slow")
    async def slow() -> str:
        seen.entered.set()
        try:
            await seen.may_end.wait()
        finally:
            # What a view does when it is cut off: a rollback, which takes longer than the rest.
            await asyncio.sleep(0.1)
            seen.ended.set()
        return "slow"

    @app.get("/stream")
    async def stream() -> Response:
        async def parts() -> AsyncGenerator[bytes, None]:
            seen.entered.set()
            try:
                yield b"begun"
                await seen.may_end.wait()
                raise RuntimeError("the rest is not there")
            finally:
                seen.ended.set()

        response = Response(parts(), 200, content_type="text/plain")
        response.timeout = None
        return response

    return app


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the server has closed a connection."""
    noted, remove = asyncio.Event(), Connections.remove

    def note(self: Connections, lost: Connection) -> None:
        remove(self, lost)
        noted.set()

    monkeypatch.setattr(Connections, "remove", note)
    return noted


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /scheme HTTP/1.1\r\nHost: a\r\nX-Long: ",
        b"GET /scheme?",
        b"POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: ",
    ],
    ids=["header", "line", "trailer"],
)
async def test_no_more_of_a_head_is_kept_than_its_bound(begin: bytes) -> None:
    async with served(application()) as (_reader, writer):
        writer.write(begin)
        with pytest.raises(ConnectionError):
            await _flood(writer)


@promise("large-head-gets-431")
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_head_that_is_too_large_is_refused_with_431(at_once: bool) -> None:
    async with served(application()) as (reader, writer):
        writer.write(b"GET /scheme HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * (MAX_HEAD_BYTES + 1))
        if at_once:
            writer.write(b"\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_body_does_not_count_as_head() -> None:
    size = 4 * MAX_HEAD_BYTES
    async with served(application()) as (reader, writer):
        writer.write(b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        assert (await _answer(reader)) == str(size).encode()


@promise("trickling-client-closed")
@pytest.mark.parametrize(
    ("sent", "rest"),
    [
        (b"", b""),
        (b"GET /scheme HTTP/1.1\r\nX-Slow: ", b"a"),
        (b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n", b"a"),
        (get("/scheme") + b"GET /scheme HTTP/1.1\r\nX-Slow: ", b"a"),
        (get("/scheme"), b""),
    ],
    ids=["nothing", "a slow head", "a body after its response", "a slow second head", "idle"],
)
async def test_a_connection_that_waits_for_its_client_ends(sent: bytes, rest: bytes) -> None:
    async with served(application(), replace(BOUNDS, head_s=0.3, idle_s=0.3)) as (reader, writer):
        writer.write(sent)
        reading = asyncio.create_task(reader.read())
        async with asyncio.timeout(10):
            while not reading.done():
                # However little comes: the wait is for the whole.
                writer.write(rest)
                await asyncio.wait((reading,), timeout=0.02)
        # What was answered has been read; a byte sent after the end may reset it.
        assert reading.exception() is None or isinstance(reading.exception(), ConnectionError)


async def test_a_request_that_runs_is_not_waited_for_as_a_head() -> None:
    seen, bounds = Seen(), replace(BOUNDS, head_s=0.05, idle_s=0.05)
    async with served(application(seen), bounds) as (reader, writer):
        writer.write(get("/slow"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        # Connections that have nothing under way end meanwhile, several times over.
        for _ in range(10):
            await asyncio.sleep(BOUNDS.tick_s)
        seen.may_end.set()
        assert await _answer(reader) == b"slow"


@promise("unread-response-cut-off")
@pytest.mark.parametrize("header", ["", "Connection: close\r\n"], ids=["kept", "closing"])
async def test_a_client_that_does_not_read_its_response_is_cut_off(
    closed: asyncio.Event, header: str
) -> None:
    async with served(application(), replace(BOUNDS, unread_s=0.3)) as (_reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined] # of a socket
        writer.write(get("/large").replace(b"\r\n\r\n", f"\r\n{header}\r\n".encode()))
        await asyncio.wait_for(closed.wait(), 10)


async def test_a_response_that_takes_too_long_to_be_read_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, closed: asyncio.Event
) -> None:
    monkeypatch.setattr(middleware, "RESPONSE_TIMEOUT_S", 0.3)
    app, ended = ObservedQuart(__name__), asyncio.Event()

    @app.get("/parts")
    async def parts() -> Response:
        async def endless() -> AsyncGenerator[bytes, None]:
            try:
                while True:
                    yield bytes(MAX_HEAD_BYTES)
            finally:
                ended.set()

        return Response(endless(), 200)

    async with served(app) as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined] # of a socket
        writer.write(get("/parts"))
        await asyncio.wait_for(ended.wait(), 10)
        await asyncio.wait_for(closed.wait(), 10)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(ConnectionError):
            answer = await asyncio.wait_for(reader.read(), 10)
            assert not answer.endswith(b"0\r\n\r\n")


@promise("idle-connections-yield")
async def test_half_open_connections_are_closed_for_one_that_has_a_request() -> None:
    async with serving(application(), replace(BOUNDS, connections=8)) as server:
        kept_reader, kept = await server.connect()
        kept.write(get("/scheme"))
        await _answer(kept_reader)
        begun = b"GET /scheme HTTP/1.1\r\n"
        halves = []
        for _ in range(24):
            reader, writer = await server.connect()
            writer.write(begun)
            halves.append(reader)
            # Each has been read, so that none of them is younger to the server than it is.
            await asyncio.sleep(BOUNDS.crowded_s)
        asking_reader, asking = await server.connect()
        asking.write(get("/scheme"))
        assert await _answer(asking_reader) == b"http 127.0.0.1"
        # Those that have waited longest went first, and what is idle after what is half-open.
        for reader in halves[:16]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        kept.write(get("/scheme"))
        assert await _answer(kept_reader) == b"http 127.0.0.1"


@promise("idle-connections-yield")
async def test_requests_whose_bodies_do_not_come_are_closed_for_others() -> None:
    seen = Seen()
    head = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
    async with serving(application(seen), replace(BOUNDS, connections=8)) as server:
        running_reader, running = await server.connect()
        running.write(get("/slow"))
        readers = []
        for _ in range(24):
            reader, writer = await server.connect()
            # Behind a whole one, too, which is answered.
            writer.write((get("/scheme") if len(readers) % 2 else b"") + head + b"1")
            readers.append(reader)
            await asyncio.sleep(BOUNDS.crowded_s)
        whole_reader, whole = await server.connect()
        whole.write(head + b"12")
        assert await _answer(whole_reader) == b"2"
        for reader in readers[:16]:
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5)
        seen.may_end.set()
        assert await _answer(running_reader) == b"slow"


async def test_there_are_never_more_than_twice_as_many_connections() -> None:
    async with serving(application(), replace(BOUNDS, connections=4, crowded_s=60)) as server:
        waiting = {asyncio.create_task((await server.connect())[0].read()) for _ in range(20)}
        async with asyncio.timeout(5):
            while len(waiting) > 8:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        reader, writer = await server.connect()
        writer.write(get("/scheme"))
        assert await _answer(reader) == b"http 127.0.0.1"


async def test_a_request_that_runs_is_never_closed_for_another_connection() -> None:
    seen = Seen()
    async with serving(application(seen), replace(BOUNDS, connections=2)) as server:
        running_reader, running = await server.connect()
        running.write(get("/slow"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        waiting = {asyncio.create_task((await server.connect())[0].read()) for _ in range(12)}
        async with asyncio.timeout(5):
            while len(waiting) > 1:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        seen.may_end.set()
        assert await _answer(running_reader) == b"slow"


async def test_a_pipelined_request_has_nothing_of_the_one_before_it() -> None:
    async with served(application()) as (reader, writer):
        writer.write(get("/first") + get("/second") + get("/second"))
        assert await _answer(reader) == b"first"
        assert await _answer(reader) == b"of nobody"
        assert await _answer(reader) == b"of nobody"


async def test_headers_do_not_say_who_is_connected() -> None:
    async with served(application()) as (reader, writer):
        writer.write(
            b"GET /scheme HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n"
            b"X-Forwarded-For: 203.0.113.1\r\n\r\n"
        )
        assert await _answer(reader) == b"http 127.0.0.1"


_POST = b"POST /unread HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (
            b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n",
            400,
        ),
        (_POST + b"Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        (_POST + b"Content-Length: +1\r\n", 400),
        (_POST + b"Transfer-Encoding: chunked, identity\r\n", 501),
        (b"GET /scheme HTTP/1.1\r\nHost: a\r\nX : 1\r\n", 400),
        (b"GET /scheme HTTP/1.1\r\nHost: a\r\nX: 1\x002\r\n", 400),
        (b"GET /sch\xffeme HTTP/1.1\r\nHost: a\r\n", 400),
        (b"GET /sch\x00eme HTTP/1.1\r\nHost: a\r\n", 400),
        (b"GET /scheme HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
        (b"GET /scheme HTTP/1.1\r\n", 400),
        (b"GARBAGE\r\n", 400),
        (b"GET ?a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", 400),
        (b"GET http://[a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", 400),
        (
            b"GET /scheme HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            400,
        ),
    ],
    ids=[
        "two framings",
        "two lengths",
        "a sign",
        "chunked is not last",
        "a space",
        "NUL in a header",
        "no ASCII",
        "NUL in a target",
        "two hosts",
        "no host",
        "no request line",
        "no path",
        "no URL",
        "websocket",
    ],
)
async def test_what_two_servers_could_read_differently_is_refused(head: bytes, status: int) -> None:
    async with served(application()) as (reader, writer):
        writer.write(head + b"\r\n0\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 5)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_another_offered_protocol_is_ignored() -> None:
    async with served(application()) as (reader, writer):
        writer.write(
            b"GET /second HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        )
        assert await _answer(reader) == b"of nobody"


async def test_a_body_that_waits_for_100_is_asked_for() -> None:
    async with served(application()) as (reader, writer):
        writer.write(
            b"POST /read HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert asked.startswith(b"HTTP/1.1 100 ")
        writer.write(b"{}")
        assert await _answer(reader) == b"2"


@pytest.mark.parametrize(
    ("head", "rest"),
    [
        (_POST.replace(b"unread", b"read") + b"Content-Length: 9\r\n\r\n", None),
        (_POST.replace(b"unread", b"read") + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
        (get("/slow"), None),
    ],
    ids=["gone within its body", "a malformed body", "gone after its request"],
)
async def test_a_client_that_goes_away_ends_its_view(head: bytes, rest: bytes | None) -> None:
    seen = Seen()
    async with served(application(seen)) as (reader, writer):
        writer.write(head)
        await asyncio.wait_for(seen.entered.wait(), 5)
        if rest is None:
            writer.close()
        else:
            writer.write(rest)
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer.startswith(b"HTTP/1.1 400 ")
        await asyncio.wait_for(seen.ended.wait(), 5)


async def test_an_answer_that_comes_after_a_refusal_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, sent = ObservedQuart(__name__), asyncio.Event()

    @app.post("/late/<int:steps>")
    async def late(steps: int) -> str:
        await sent.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        return "late"

    async with serving(app) as server:
        # One of them comes between the refusal and the end of the connection.
        for steps in range(12):
            sent.clear()
            reader, writer = await server.connect()
            head = _POST.replace(b"unread", b"late/%d" % steps)
            writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
            await asyncio.sleep(0.02)
            writer.write(b"zz\r\n")
            sent.set()
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 200 "))
    assert not caplog.records


async def test_a_stream_ends_with_its_client() -> None:
    seen = Seen()
    async with served(application(seen)) as (reader, writer):
        writer.write(get("/stream"))
        await asyncio.wait_for(reader.readuntil(b"begun"), 5)
        writer.close()
        await asyncio.wait_for(seen.ended.wait(), 5)


async def test_a_stream_that_fails_does_not_look_whole() -> None:
    seen = Seen()
    async with served(application(seen)) as (reader, writer):
        writer.write(get("/stream"))
        await asyncio.wait_for(reader.readuntil(b"begun"), 5)
        seen.may_end.set()
        with contextlib.suppress(ConnectionError):
            rest = await asyncio.wait_for(reader.read(), 5)
            assert not rest.endswith(b"0\r\n\r\n")


async def test_a_stop_closes_what_is_idle_and_answers_what_runs() -> None:
    seen = Seen()
    async with serving(application(seen)) as server:
        idle_reader, idle = await server.connect()
        idle.write(get("/scheme"))
        await _answer(idle_reader)
        reader, writer = await server.connect()
        writer.write(get("/slow"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        server.stop.set()
        assert await asyncio.wait_for(idle_reader.read(), 5) == b""
        with pytest.raises(ConnectionError):
            await server.connect()
        seen.may_end.set()
        assert await _answer(reader) == b"slow"
        # The connection is not kept for another request.
        assert await asyncio.wait_for(reader.read(), 5) == b""
        await asyncio.wait_for(server.serving, 5)


async def test_a_request_that_outlasts_the_stop_ends_before_the_server_does() -> None:
    seen = Seen()
    async with serving(application(seen), replace(BOUNDS, stop_s=0.2)) as server:
        reader, writer = await server.connect()
        writer.write(get("/slow"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        server.stop.set()
        await asyncio.wait_for(server.serving, 10)
        assert seen.ended.is_set()
        # Not an answer that is not the view's: the caller asks again.
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_view_that_answers_after_its_call_was_cancelled_is_no_error() -> None:
    app, seen = Quart(__name__), Seen()

    @app.get("/slow")
    async def slow() -> str:
        seen.entered.set()
        await seen.may_end.wait()
        seen.ended.set()
        return "slow"

    async with serving(app, replace(BOUNDS, stop_s=0.1)) as server:
        _, writer = await server.connect()
        writer.write(get("/slow"))
        await asyncio.wait_for(seen.entered.wait(), 5)
        (view,) = (each for each in asyncio.all_tasks() if "handle_request" in repr(each))
        server.stop.set()
        await asyncio.wait_for(server.serving, 10)
        seen.may_end.set()
        await asyncio.wait({view}, timeout=5)
    assert seen.ended.is_set()
    # A failure of a task that nobody waits for would be reported.
    assert view.cancelled()


async def test_a_server_that_is_cancelled_stops_as_one_that_is_told_to() -> None:
    app, begun, ended = ObservedQuart(__name__), asyncio.Event(), asyncio.Event()

    @app.before_serving
    async def begin() -> None:
        begun.set()

    @app.after_serving
    async def end() -> None:
        ended.set()

    task = asyncio.create_task(serve_http(app, listen("127.0.0.1", 0), asyncio.Event().wait))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert ended.is_set()


async def test_an_application_that_cannot_begin_is_not_served() -> None:
    app = ObservedQuart(__name__)

    @app.before_serving
    async def begin() -> None:
        raise RuntimeError("no ledger")

    listening = listen("127.0.0.1", 0)
    with pytest.raises(LifespanFailureError, match="no ledger"):
        await serve_http(app, listening, asyncio.Event().wait)
    assert listening.fileno() == -1


async def _flood(writer: asyncio.StreamWriter) -> None:
    """Send 64 MiB, the server being in this event loop."""
    for _ in range(1_000):
        writer.write(b"a" * MAX_HEAD_BYTES)
        await writer.drain()
        await asyncio.sleep(0)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """The body of the next response."""
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
        return await reader.readexactly(int(length))
