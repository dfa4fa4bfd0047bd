"""HTTP/2 over TLS: a connection's requests are bounded, and not connections alone."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hyperframe.frame import ContinuationFrame, HeadersFrame
from quart import Quart
from tests.server.test_http_server import BOUNDS, Seen, application

from solward.serving.bounds import Bounds
from solward.serving.loop import serve_http
from solward_server.listening import listen

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """The server's, with a certificate of its own, and a client's that trusts it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(certificate.public_bytes(pem))
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, private)
    server.set_alpn_protocols(["h2", "http/1.1"])
    client = ssl.create_default_context(cafile=cert)
    client.set_alpn_protocols(["h2"])
    return server, client


class Client:
    """A client of HTTP/2 that keeps to no bound unless a test has it do so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        # Nothing that it sends is checked here: that is the server's part.
        config = h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.bodies: dict[int, bytes] = {}
        self.statuses: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def ask(self, path: str, *, ends: bool = True, method: str = "GET") -> int:
        stream = self.h2.get_next_available_stream_id()
        names = (":method", ":path", ":scheme", ":authority")
        head = list(zip(names, (method, path, "https", "a"), strict=True))
        self.h2.send_headers(stream, head, end_stream=ends)
        self.bodies[stream] = b""
        return stream

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def read(self) -> bool:
        """Read once; False where the server has closed the connection."""
        try:
            data = await asyncio.wait_for(self.reader.read(65_536), 10)
        except ConnectionError:
            return False
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.statuses[event.stream_id] = dict(event.headers)[b":status"]
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
        with contextlib.suppress(ConnectionError):
            await self.flush()
        return data != b""

    async def answer(self, stream: int) -> tuple[bytes, bytes]:
        """The status and the body of an answer."""
        while stream not in self.ended:
            assert await self.read()
        return self.statuses[stream], self.bodies[stream]

    async def until_closed(self) -> None:
        """Read until the server has closed the connection."""
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            while await self.read():
                pass


@asynccontextmanager
async def serving(app: Quart, contexts: Contexts, bounds: Bounds = BOUNDS) -> AsyncIterator[Client]:
    stop, listening = asyncio.Event(), listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    task = asyncio.create_task(serve_http(app, listening, stop.wait, bounds, tls=contexts[0]))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=contexts[1])
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
        stop.set()
        await asyncio.wait_for(task, 15)


class Counted:
    """How many requests of an application run, ran and ran at one time."""

    def __init__(self) -> None:
        self.app = application()
        self.running = self.most = self.all = 0
        self.may_end = asyncio.Event()
        self.may_clean = asyncio.Event()
        self.may_clean.set()

        @self.app.get("/counted")
        async def counted() -> str:
            self.all += 1
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.may_end.wait()
            finally:
                await self.may_clean.wait()
                self.running -= 1
            return "counted"


@pytest.mark.more
async def test_a_thousand_streams_are_answered_a_hundred_at_a_time(contexts: Contexts) -> None:
    counted = Counted()
    async with serving(counted.app, contexts) as client:
        await client.flush()
        assert await client.read()
        assert client.h2.remote_settings.max_concurrent_streams == BOUNDS.streams
        counted.may_end.set()
        streams: list[int] = []
        for _ in range(10):
            streams += [client.ask("/counted") for _ in range(BOUNDS.streams)]
            await client.flush()
            for each in streams[-BOUNDS.streams :]:
                assert await client.answer(each) == (b"200", b"counted")
        assert (counted.all, counted.running) == (1_000, 0)
        assert counted.most <= BOUNDS.streams


async def test_a_client_with_a_thousand_streams_at_once_is_closed(contexts: Contexts) -> None:
    counted = Counted()
    async with serving(counted.app, contexts) as client:
        # Before it has read how many it may have.
        for _ in range(1_000):
            client.ask("/counted")
        await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
        assert counted.most <= 2 * BOUNDS.streams
        async with asyncio.timeout(5):
            while counted.running:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("at_once", [1, 2_000])
async def test_a_client_that_resets_what_it_asked_is_closed(
    contexts: Contexts, at_once: int
) -> None:
    counted = Counted()
    async with serving(counted.app, contexts) as client:
        with contextlib.suppress(ConnectionError):
            for number in range(2_000):
                client.h2.reset_stream(client.ask("/counted"))
                if number % at_once == 0:
                    await client.flush()
                    await asyncio.sleep(0)
            await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
        assert counted.all <= 4 * BOUNDS.streams
        assert not counted.running


async def test_requests_that_are_reset_count_until_their_views_have_ended(
    contexts: Contexts,
) -> None:
    counted = Counted()
    counted.may_clean.clear()
    async with serving(counted.app, contexts, replace(BOUNDS, streams=10)) as client:
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                asked = client.ask("/counted")
                await client.flush()
                await asyncio.sleep(0.002)
                client.h2.reset_stream(asked)
        await asyncio.wait_for(client.until_closed(), 10)
        assert 10 < counted.most <= 20
        counted.may_clean.set()


async def test_a_client_that_resets_little_is_kept(contexts: Contexts) -> None:
    counted = Counted()
    async with serving(counted.app, contexts, replace(BOUNDS, streams=10)) as client:
        for _ in range(30):
            given_up = client.ask("/counted")
            await client.flush()
            client.h2.reset_stream(given_up)
            asked = client.ask("/second")
            await client.flush()
            assert await client.answer(asked) == (b"200", b"of nobody")


def _begun(client: Client) -> bytes:
    """A head without its end."""
    frame = HeadersFrame(1, client.h2.encoder.encode([(":method", "GET")]))
    frame.flags.add("END_STREAM")
    return frame.serialize()


async def test_a_head_without_end_is_not_kept(contexts: Contexts) -> None:
    async with serving(application(), contexts) as client:
        await client.flush()
        client.writer.write(_begun(client))
        with contextlib.suppress(ConnectionError):
            for _ in range(5_000):
                client.writer.write(ContinuationFrame(1, b"").serialize())
                await client.writer.drain()
        await asyncio.wait_for(client.until_closed(), 10)


async def test_a_head_that_unpacks_to_too_much_is_refused(contexts: Contexts) -> None:
    counted = Counted()
    async with serving(counted.app, contexts) as client:
        names = [
            (":method", "GET"),
            (":path", "/counted"),
            (":scheme", "https"),
            (":authority", "a"),
        ]
        # 4 KiB that the table keeps, and a byte for each time that they are meant.
        client.h2.send_headers(1, names + [("x", "a" * 4_000)] * 100, end_stream=True)
        await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
        assert not counted.all


async def test_a_head_that_trickles_has_its_time(contexts: Contexts) -> None:
    async with serving(application(), contexts, replace(BOUNDS, head_s=0.3)) as client:
        await client.flush()
        reading = asyncio.create_task(client.until_closed())
        async with asyncio.timeout(10):
            for byte in _begun(client) * 1_000:
                client.writer.write(bytes([byte]))
                if (await asyncio.wait((reading,), timeout=0.02))[0]:
                    break
        assert reading.done()


@pytest.mark.parametrize("path", ["/f\xe4rst", "/\u20ac"])
async def test_a_path_of_other_letters_ends_the_connection_without_a_word(
    contexts: Contexts, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(application(), contexts) as client:
        client.ask(path)
        await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
    assert not caplog.records


async def test_a_websocket_is_refused(contexts: Contexts) -> None:
    async with serving(application(), contexts) as client:
        await client.flush()
        assert await client.read()
        names = (":method", ":protocol", ":path", ":scheme", ":authority", "sec-websocket-version")
        values = ("CONNECT", "websocket", "/first", "https", "a", "13")
        client.h2.send_headers(1, list(zip(names, values, strict=True)))
        await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
        assert client.statuses in ({1: b"400"}, {})


async def test_a_client_that_leaves_no_window_is_cut_off(contexts: Contexts) -> None:
    async with serving(application(), contexts, replace(BOUNDS, unread_s=0.3)) as client:
        client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        client.ask("/first")
        await client.flush()
        await asyncio.wait_for(client.until_closed(), 10)
        assert client.ended == set()


async def test_a_body_that_comes_after_the_answer_harms_no_other_stream(
    contexts: Contexts,
) -> None:
    async with serving(application(), contexts) as client:
        early = client.ask("/unread", ends=False, method="POST")
        await client.flush()
        while client.bodies[early] != b"answered":
            assert await client.read()
        other = client.ask("/second")
        client.h2.send_data(early, bytes(10_000), end_stream=True)
        await client.flush()
        assert await client.answer(early) == (b"200", b"answered")
        assert await client.answer(other) == (b"200", b"of nobody")


async def test_a_request_that_runs_at_the_stop_is_answered(contexts: Contexts) -> None:
    seen, stop, listening = Seen(), asyncio.Event(), listen("127.0.0.1", 0)
    port, app = listening.getsockname()[1], application(seen)
    task = asyncio.create_task(serve_http(app, listening, stop.wait, BOUNDS, tls=contexts[0]))
    client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=contexts[1]))
    slow = client.ask("/slow")
    await client.flush()
    await asyncio.wait_for(seen.entered.wait(), 5)
    stop.set()
    await asyncio.sleep(0)
    seen.may_end.set()
    assert await client.answer(slow) == (b"200", b"slow")
    client.writer.close()
    await asyncio.wait_for(task, 10)
