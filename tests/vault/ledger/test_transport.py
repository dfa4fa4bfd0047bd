"""The HTTP transport: what it sends, what it makes of a node that does not answer, whom it asks."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore
import pytest
from aiohttp import web
from tests.promises import promise
from tests.support.certificates import issued
from tests.support.clock import until
from tests.support.http import served
from tests.support.rpc import GENESIS, listening

from solward.support.streams import dial_tcp
from solward.support.tls import tls_context
from solward.telemetry.scrub import conceal
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger import connections
from solward.vault.ledger import transport as transports
from solward.vault.ledger.transport import HttpTransport


async def _answers(method: str, _params: object) -> object:
    return GENESIS if method == "getGenesisHash" else 7


@asynccontextmanager
async def _transport(url: str, retries: int = 0) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(url, 2.0, retries=retries)
    try:
        yield transport
    finally:
        await transport.close()


@promise("money-back-by-two-hosts", "two-hosts-give-back")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://RPC.example.com:8899/key", "rpc.example.com"),
        ("https://rpc.example.com./?api-key=k", "rpc.example.com"),
        ("https://user:key@rpc.example.com", "rpc.example.com"),
        ("http://127.0.0.1:1", "localhost"),
        ("http://127.9.9.9", "localhost"),
        ("http://[::1]:8899", "localhost"),
        ("http://[::ffff:127.0.0.1]:8899", "localhost"),
        ("http://localhost:2", "localhost"),
        ("http://[2001:DB8:0::1]", "2001:db8::1"),
    ],
)
def test_a_host_has_one_name_however_its_address_is_written(url: str, host: str) -> None:
    assert HttpTransport(url).origin == host


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_request_that_is_cut_off_is_repeated_as_often_as_said(retries: int) -> None:
    async with listening(_answers) as (node,), _transport(node.url, retries) as transport:
        node.faults["getSlot"] = "cut"
        with pytest.raises(LedgerUnavailable, match="did not answer getSlot"):
            await transport.call("getSlot", [])
        assert node.calls["getSlot"] == 1 + retries


async def test_an_airdrop_whose_answer_is_cut_off_is_not_asked_for_again() -> None:
    async with listening(_answers) as (node,), _transport(node.url, 1) as transport:
        node.faults["requestAirdrop"] = "cut"
        with pytest.raises(LedgerUnavailable, match="did not answer requestAirdrop"):
            await transport.call("requestAirdrop", [GENESIS, 1])
        assert node.calls["requestAirdrop"] == 1


@pytest.mark.parametrize("status", [200, 400])
async def test_an_errors_data_shows_no_secret_and_no_control_characters(status: int) -> None:
    secret = "canary-of-the-data-51c2"
    conceal([secret])
    said = {"err": {"Custom": 1}, "logs": [f"to {secret}\x1b[31m", "x" * 9_000], secret: [None]}

    async def refuses(request: web.Request) -> web.Response:
        return web.json_response(
            {"error": {"code": -32002, "message": "no", "data": data}}, status=status
        )

    data: object = said
    async with served(refuses) as url, _transport(url) as transport:
        with pytest.raises(LedgerRejected) as refused:
            await transport.call("getProgramAccounts", [])
        told = refused.value.data
        assert told["err"] == {"Custom": 1}
        assert secret not in repr(told)
        assert "\x1b" not in told["logs"][0]
        assert len(told["logs"][1]) == 500
        data = ["x"] * 100_000
        with pytest.raises(LedgerRejected) as refused:
            await transport.call("getProgramAccounts", [])
        assert refused.value.data is None


async def test_an_http_status_is_no_answer_and_not_repeated() -> None:
    async with listening(_answers) as (node,), _transport(node.url, 1) as transport:
        node.faults["getSlot"] = 503
        with pytest.raises(LedgerUnavailable, match=r"getSlot \(HTTP 503\)"):
            await transport.call("getSlot", [])
        assert node.calls["getSlot"] == 1


async def test_a_redirect_is_not_followed() -> None:
    async with listening(_answers) as (node,):

        async def away(_request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": node.url})

        async with served(away) as url, _transport(url) as transport:
            with pytest.raises(LedgerUnavailable, match="HTTP 307"):
                await transport.call("getSlot", [])
        assert not node.calls


async def test_errors_do_not_show_the_address() -> None:
    async with listening(_answers) as (node,):
        url = f"{node.url}/secret-key"
    async with _transport(url) as transport:
        with pytest.raises(LedgerUnavailable) as caught:
            await transport.call("getSlot", [])
    assert "secret-key" not in f"{caught.value!r}{caught.value.__cause__!r}"


async def test_it_asks_again_after_the_node_was_away() -> None:
    async with listening(_answers) as (node,), _transport(node.url) as transport:
        assert await transport.call("getSlot", []) == 7
        await node.stop()
        with pytest.raises(LedgerUnavailable):
            await transport.call("getSlot", [])
        await node.start()
        assert await transport.call("getSlot", []) == 7


async def test_the_environments_proxy_is_used_except_where_it_says_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        number = (await request.json())["id"]
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": 9})

    async with served(proxy) as url:
        monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
        monkeypatch.setenv("no_proxy", "127.0.0.1, other.test:8080, rpc.test:81")
        async with _transport("http://rpc.test/path") as transport:
            assert await transport.call("getSlot", []) == 9
        assert asked == ["http://rpc.test/path"]
        async with listening(_answers) as (node,):
            for no_proxy in ("127.0.0.1", f"rpc.test, 127.0.0.1:{node.port}", "*"):
                monkeypatch.setenv("no_proxy", no_proxy)
                async with _transport(node.url) as transport:
                    assert await transport.call("getSlot", []) == 7
        assert len(asked) == 1


# What a node may do with the bytes of its answer, said without a library of ours in between.

Say = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def _response(asked: bytes, result: int = 7) -> bytes:
    found = re.search(rb'"id":(\d+)', asked)
    assert found is not None
    return b'{"jsonrpc":"2.0","id":%s,"result":%d}' % (found[1], result)


def _answer(body: bytes, *headers: bytes) -> bytes:
    head = b"".join(b"%s\r\n" % each for each in headers)
    return b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


@dataclass(slots=True)
class RawNode:
    """A node that answers in bytes.

    Attributes:
        say: is given the bytes of each request.
        asked: the head of each request.
        opened: how many connections it took.
    """

    say: Say
    url: str = ""
    asked: list[bytes] = field(default_factory=list)
    opened: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._serve(reader, writer)))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    found = re.search(rb"(?i)content-length: (\d+)", head)
                    assert found is not None
                    body = await reader.readexactly(int(found[1]))
                    self.asked.append(head)
                    await self.say(head + body, writer)
                    await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def raw_node(say: Say, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawNode]:
    node = RawNode(say)
    server = await asyncio.start_server(node.accept, "127.0.0.1", 0, ssl=tls)
    node.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield node
    finally:
        server.close()
        await node.end()


async def _whole(asked: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(_answer(_response(asked)))


async def test_a_request_has_the_addresss_path_and_credentials_and_asks_for_plain_bytes() -> None:
    async with raw_node(_whole) as node:
        url = node.url.replace("http://", "http://us%40er:k%3Aey@") + "/path/?api-key=a%20b"
        async with _transport(url) as transport:
            assert await transport.call("getSlot", []) == 7
        [head] = node.asked
    first, *headers = head.decode().split("\r\n")
    assert first == "POST /path/?api-key=a%20b HTTP/1.1"
    assert f"Host: {node.url.removeprefix('http://')}" in headers
    assert "Content-Type: application/json" in headers
    assert "Accept-Encoding: identity" in headers
    credentials = base64.b64encode(b"us@er:k:ey").decode()
    assert f"Authorization: Basic {credentials}" in headers


@pytest.mark.parametrize("fails", [False, True])
async def test_a_request_leaves_in_one_write_whose_failure_hides_no_answer(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    sizes: list[int] = []

    async def recording(*args: Any) -> httpcore.AsyncNetworkStream:
        stream = await dial_tcp(*args)
        write = stream.write

        async def count(buffer: bytes, timeout: float | None = None) -> None:
            sizes.append(len(buffer))
            await write(buffer, timeout)
            if fails:
                # As where the node closed the connection after its answer.
                raise httpcore.WriteError

        monkeypatch.setattr(stream, "write", count)
        return stream

    monkeypatch.setattr(connections, "dial_tcp", recording)
    async with raw_node(_whole) as node, _transport(node.url) as transport:
        assert await transport.call("getHealth", ["x" * 1000]) == 7
    [size] = sizes
    assert size > 1000


async def test_connections_are_used_again_and_are_no_more_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transports, "CONNECTIONS", 3)

    async def slowly(asked: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        writer.write(_answer(_response(asked)))

    async with raw_node(slowly) as node, _transport(node.url) as transport:
        calls = [transport.call("getHealth", []) for _ in range(20)]
        assert await asyncio.gather(*calls) == [7] * 20
        assert node.opened == 3
        assert await transport.call("getHealth", []) == 7
        assert node.opened == 3


async def test_a_connection_that_is_idle_for_long_or_was_closed_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transports, "_IDLE_S", 0.05)

    async def closing(asked: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_answer(_response(asked)))
        if len(node.asked) == 2:
            writer.close()

    async with raw_node(closing) as node, _transport(node.url) as transport:
        for opened, pause_s in ((1, 0.2), (2, 0.03), (3, 0)):
            assert await transport.call("getHealth", []) == 7
            assert node.opened == opened
            await asyncio.sleep(pause_s)


async def test_an_answer_that_trickles_is_over_in_time() -> None:
    async def trickle(_asked: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with raw_node(trickle) as node:
        transport = HttpTransport(node.url, 0.3, retries=0)
        began = time.monotonic()
        with pytest.raises(LedgerUnavailable, match=r"getHealth \(TimeoutError\)"):
            await transport.call("getHealth", [])
        assert time.monotonic() - began < 1.5
        await transport.close()


async def test_the_wait_for_a_connection_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "CONNECTIONS", 1)

    async def never(_asked: bytes, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_node(never) as node:
        transport = HttpTransport(node.url, 0.2, retries=0)
        calls = [transport.call("getHealth", []) for _ in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in found] == [LedgerUnavailable] * 3
        # On a busy machine a second one gets the connection as the time of all ends.
        assert len(node.asked) < 3
        await transport.close()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (_answer(gzip.compress(b" " * (64 << 20)), b"Content-Encoding: gzip"), "is compressed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20), "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1", "RemoteProtocolError"),
        (b"garbage\r\n\r\n", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
        (b"HTTP/1.1 100 \r\n\r\n" * 100_000, "RemoteProtocolError"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 40_000,
            "longer than 32 MiB",
        ),
    ],
    ids=["bomb", "endless head", "cut off", "no HTTP", "nothing", "hints", "tiny chunks"],
)
async def test_what_is_no_bounded_answer_is_none(said: bytes, why: str) -> None:
    async def say(_asked: bytes, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
        writer.close()

    async with raw_node(say) as node:
        transport = HttpTransport(f"{node.url}/secret-key", 10.0, retries=0)
        with pytest.raises(LedgerUnavailable, match=f"getHealth.*{why}") as caught:
            await transport.call("getHealth", [])
        assert "secret-key" not in f"{caught.value!r}{caught.value.__cause__!r}"
        await transport.close()


async def test_callers_who_hang_up_take_no_connection_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transports, "CONNECTIONS", 4)

    async def soon(asked: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)
        writer.write(_answer(_response(asked)))

    async with raw_node(soon) as node, _transport(node.url) as transport:
        for turn in range(200):
            calls = [asyncio.create_task(transport.call("getHealth", [])) for _ in range(12)]
            for _ in range(turn % 20):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        answers = [transport.call("getHealth", []) for _ in range(12)]
        assert await asyncio.gather(*answers) == [7] * 12


async def test_who_is_cancelled_leaves_no_connection_to_the_next() -> None:
    async def late(asked: bytes, writer: asyncio.StreamWriter) -> None:
        if len(node.asked) == 1:
            await asyncio.sleep(0.3)
        writer.write(_answer(_response(asked, len(node.asked))))

    async with raw_node(late) as node, _transport(node.url) as transport:
        first = asyncio.create_task(transport.call("getHealth", []))
        await asyncio.sleep(0.1)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        assert await transport.call("getHealth", []) == 2
        assert node.opened == 2


TWICE = ("in one write", "before the next answer", "in parts", "cut off")


@promise("answers-are-own")
@pytest.mark.parametrize("how", TWICE)
@pytest.mark.parametrize("method", ["getHealth", "getSlot"])
async def test_an_answer_that_comes_twice_is_nobody_elses(how: str, method: str) -> None:
    answers: list[bytes] = []

    async def twice(asked: bytes, writer: asyncio.StreamWriter) -> None:
        answers.append(_answer(_response(asked, len(answers))))
        if how == "before the next answer":
            writer.write(answers[-2] if len(answers) % 2 == 0 else b"")
            await writer.drain()
        writer.write(answers[-1])
        if len(answers) % 2:
            return
        if how == "in parts":
            await writer.drain()
        if how in ("in one write", "in parts"):
            writer.write(answers[-1])
        elif how == "cut off":
            writer.write(answers[-1][:-3])

    async with raw_node(twice) as node, _transport(node.url) as transport:
        for _ in range(9):
            before = len(answers)
            [found] = await asyncio.gather(transport.call(method, []), return_exceptions=True)
            if found != before:
                assert how == "before the next answer"
                assert "for another request" in str(found)
        assert node.opened >= 4


@pytest.mark.parametrize(
    "response",
    [
        {"id": "1", "result": 8},
        {"id": True, "result": 8},
        {"id": 1.0, "result": 8},
        {"id": None, "result": 8},
        {"result": 8},
        {"id": 2, "error": {"code": -32602, "message": "invalid"}},
        {"id": None, "result": None, "error": None},
    ],
    ids=str,
)
async def test_a_response_to_another_id_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, response: Any
) -> None:
    monkeypatch.setattr(transports, "_NUMBERS", itertools.count(1))

    async def say(_asked: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_answer(json.dumps(response).encode()))

    async with raw_node(say) as node, _transport(node.url) as transport:
        with pytest.raises(LedgerUnavailable, match="is for another request"):
            await transport.call("getHealth", [])


async def test_an_error_may_have_no_id() -> None:
    async def say(_asked: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_answer(b'{"id":null,"error":{"code":-32602,"message":"invalid"}}'))

    async with raw_node(say) as node, _transport(node.url) as transport:
        with pytest.raises(LedgerRejected):
            await transport.call("getHealth", [])


async def test_one_response_to_a_batch_is_no_calls_result() -> None:
    async with raw_node(_whole) as node, _transport(node.url) as transport:
        calls = [transport.call("getSlot", []) for _ in range(2)]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, LedgerUnavailable)


async def test_a_proxy_gets_its_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_node(_whole) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://some:body@"))
        async with _transport("http://rpc.test/path") as transport:
            assert await transport.call("getSlot", []) == 7
        [head] = proxy.asked
    assert head.startswith(b"POST http://rpc.test/path HTTP/1.1\r\n")
    credentials = base64.b64encode(b"some:body").decode()
    assert f"Proxy-Authorization: Basic {credentials}".encode() in head


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Of a node called localhost, whose authority this process trusts."""
    authority, node = issued(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(node)
    return context


async def test_a_node_by_https_has_the_certificate_of_its_name(tls: ssl.SSLContext) -> None:
    async with raw_node(_whole, tls) as node:
        port = node.url.rpartition(":")[2]
        async with _transport(f"https://localhost:{port}") as transport:
            assert [await transport.call("getHealth", []) for _ in range(3)] == [7] * 3
        assert node.opened == 1
        async with _transport(f"https://127.0.0.1:{port}") as transport:
            with pytest.raises(LedgerUnavailable, match=r"getHealth \(ConnectError\)"):
                await transport.call("getHealth", [])
        assert len(node.asked) == 3


@pytest.mark.parametrize("status", [200, 407])
async def test_a_node_by_https_is_asked_through_a_tunnel_of_the_proxy(
    monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext, status: int
) -> None:
    heads: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %d \r\n\r\n" % status)
        if status != 200:
            writer.close()
            return
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copied(reader, there[1]), _copied(there[0], writer))

    async with raw_node(_whole, tls) as node:
        port = node.url.rpartition(":")[2]
        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        address = f"http://some:body@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("https_proxy", address)
        async with _transport(f"https://us:er@localhost:{port}/key") as transport:
            calls = [transport.call("getHealth", []) for _ in range(2)]
            found = await asyncio.gather(*calls, return_exceptions=True)
        proxy.close()
    told = b"CONNECT localhost:%s HTTP/1.1\r\n" % port.encode()
    credentials = b"Proxy-Authorization: Basic " + base64.b64encode(b"some:body")
    assert all(head.startswith(told) and credentials in head for head in heads)
    assert not any(base64.b64encode(b"us:er") in head or b"key" in head for head in heads)
    if status == 200:
        assert found == [7, 7]
        assert all(b"some:body" not in each and b"POST /key " in each for each in node.asked)
    else:
        assert [str(each) for each in found] == [
            "The ledger did not answer getHealth (ProxyError)"
        ] * 2
        assert not node.asked


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


async def test_a_names_next_address_is_asked_where_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_NEXT_ADDRESS_S", 0.1)
    loop = asyncio.get_running_loop()
    # Its queue is full, so that who connects waits.
    with socket.create_server(("127.0.0.3", 0), backlog=0) as silent:
        port = silent.getsockname()[1]
        queued = socket.create_connection(silent.getsockname())

        async def resolved(_host: str, _port: int, **_more: Any) -> list[Any]:
            return [(0, 0, 0, "", (each, port)) for each in ("127.0.0.2", "127.0.0.3", "127.0.0.1")]

        monkeypatch.setattr(loop, "getaddrinfo", resolved)
        server = await asyncio.start_server(RawNode(_whole).accept, "127.0.0.1", port)
        async with _transport(f"http://rpc.test:{port}") as transport:
            assert await transport.call("getHealth", []) == 7
        queued.close()
        server.close()


async def test_a_proxy_of_another_protocol_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    async with _transport("http://rpc.test") as transport:
        with pytest.raises(LedgerUnavailable, match="UnsupportedProtocol"):
            await transport.call("getHealth", [])


@promise("answers-are-own")
async def test_what_comes_before_the_handshake_of_tls_is_no_answer(tls: ssl.SSLContext) -> None:
    async def speaks_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_answer(b'{"jsonrpc":"2.0","id":1,"result":9}'))
        await writer.start_tls(tls)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"never")
        writer.close()

    server = await asyncio.start_server(speaks_first, "127.0.0.1", 0)
    stream = await dial_tcp("127.0.0.1", server.sockets[0].getsockname()[1], 5)
    await until(lambda: stream.is_readable)
    with pytest.raises(httpcore.ConnectError):
        await stream.start_tls(tls_context(), "localhost", 5)
    server.close()
