"""Requests of plugin hosts: where they go, what they carry, and what comes back.

A host's httpx and the service's egress talk over a real channel, the sites are real servers of this
machine with certificates of a private authority. The resolver is scripted; the dialler connects to
the site of that public address, so that a request to any other address goes nowhere.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.certificates import issued

import solward.context.http
from solward import Manifest, Secret, SkillError
from solward.context import Lifetime
from solward.hosts.egress import Egress, EgressCall
from solward.hosts.egress.connections import Limits, is_public
from solward.hosts.inside.calls import RequestRefused, install
from solward.hosts.wire import methods as m
from solward.hosts.wire.channel import Channel
from solward.hosts.wire.frames import FROM_HOST, PIECE, TO_HOST
from solward.support.streams import dial_tcp
from solward.telemetry import metrics

API, OTHER = "api.example.com", "other.example.com"
ADDRESS, OTHER_ADDRESS = "93.184.216.34", "2606:2800:220:1::1"
# Not 127.0.0.1, from which connections of this machine come.
LISTEN = "127.0.0.2"
SECRET = "sk-acme/0123456789+abcdef"
CAP = b"c" * 16
LIMITS = Limits(request_bytes=1 << 20, response_bytes=1 << 20, total_s=20.0)

Answer = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    """A request as it came."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for each, value in self.headers if each.lower() == name.lower()]
        assert len(found) < 2, f"{name} came more than once"
        return found[0] if found else None


async def ok(_request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")


def says(text: str | bytes, head: str = "HTTP/1.1 200 OK") -> Answer:
    body = text.encode() if isinstance(text, str) else text

    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    return answer


@dataclass
class Site:
    """A server on this machine."""

    answer: Answer = ok
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode("latin-1").split("\r\n")[:-2]
                pairs = [(name, value.strip()) for name, value in (x.split(":", 1) for x in lines)]
                request = Request(line, pairs, b"")
                if (length := request.header("content-length")) is not None:
                    request.body = await reader.readexactly(int(length))
                elif request.header("transfer-encoding") == "chunked":
                    while size := int(await reader.readline(), 16):
                        request.body += (await reader.readexactly(size + 2))[:-2]
                    await reader.readline()
                self.requests.append(request)
                await self.answer(request, writer)
                await writer.drain()
        except (asyncio.CancelledError, EOFError, ConnectionError, ssl.SSLError):
            pass
        finally:
            self.closed.set()
            writer.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of a private authority, and one it issued for the sites with its key."""
    return issued(tmp_path_factory.mktemp("ca"), API, OTHER)


@dataclass
class Net:
    """The sites, what their names mean, and what was dialled."""

    api: Site
    other: Site
    plain: Site
    egress: Egress
    names: dict[str, list[str]]
    channel: Channel
    dialled: list[str] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)
    calls: dict[bytes, EgressCall] = field(default_factory=dict)
    cap: bytes | None = CAP
    read: int = 0

    @property
    def call(self) -> EgressCall:
        return self.calls[CAP]

    @property
    def configured(self) -> str:
        return f"http://{LISTEN}:{self.plain.port}"

    def begin(self, manifest: Manifest | None, **call: Any) -> EgressCall:
        """The call that runs from now on."""
        given = {"tenant": "acme", "plugin": "acme-plugin"} | call
        self.calls[CAP] = EgressCall(manifest=manifest, **given)
        return self.call

    async def raw(self, request: m.HttpRequest, *body: bytes) -> tuple[int, bytes]:
        """A request past httpx, as a hostile host sends it."""

        async def uploads() -> AsyncIterator[bytes]:
            for each in body:
                yield each

        status, data = 0, b""
        made = self.channel.stream(m.HTTP_REQUEST, request, cap=CAP, uploads=uploads())
        async with aclosing(made) as pieces:
            async for piece in pieces:
                if isinstance(piece, m.HttpHead):
                    status = piece.status
                else:
                    data += piece
        return status, data


class Counting(httpcore.AsyncNetworkStream):
    """Counts what the service reads of a site."""

    def __init__(self, net: Net, stream: httpcore.AsyncNetworkStream) -> None:
        self.net, self.stream = net, stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self.stream.read(max_bytes, timeout)
        self.net.read += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self.stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self.stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await self.stream.start_tls(ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


@pytest.fixture
def httpx_as_it_was() -> Iterator[None]:
    kinds = (httpx.AsyncHTTPTransport, httpx.HTTPTransport)
    saved = {kind: dict(vars(kind)) for kind in kinds}
    certificates = solward.context.http.certificates
    yield
    solward.context.http.certificates = certificates
    for kind, members in saved.items():
        for name, member in members.items():
            if vars(kind)[name] is not member:
                setattr(kind, name, member)


@asynccontextmanager
async def network(authority: tuple[Path, Path], limits: Limits = LIMITS) -> AsyncIterator[Net]:
    ca, certificate = authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    sites = Site(), Site(), Site()
    servers = [
        await asyncio.start_server(site.serve, LISTEN, 0, ssl=tls, limit=1 << 20)
        for site, tls in zip(sites, (context, context, None), strict=True)
    ]
    for site, server in zip(sites, servers, strict=True):
        site.port = server.sockets[0].getsockname()[1]
    api, other, plain = sites
    at = {ADDRESS: api.port, OTHER_ADDRESS: other.port}

    async def resolve(host: str, _port: int) -> list[str]:
        net.looked_up.append(host)
        return net.names.get(host, [host])

    async def dial(address: str, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        net.dialled.append(address)
        there = (LISTEN, at[address]) if address in at else (address, port)
        return Counting(net, await dial_tcp(*there, timeout))

    trusted = ssl.create_default_context(cafile=ca)
    egress = Egress(limits, resolve=resolve, dial=dial, trusted=trusted)
    here, there = socket.socketpair()
    handlers = {m.HTTP_REQUEST.name: egress.handler(lambda each: net.calls[each.cap or b""])}
    service = Channel(here, handlers, receive_limit=FROM_HOST)
    host = Channel(there, {}, receive_limit=TO_HOST)
    names = {API: [ADDRESS], OTHER: [OTHER_ADDRESS]}
    net = Net(api, other, plain, egress, names, host)
    net.begin(Manifest(sites=(API, OTHER)))
    try:
        install(host, lambda: net.cap)
        yield net
    finally:
        await host.close()
        await service.close()
        await egress.close()
        for server in servers:
            server.close()


@pytest.fixture
async def net(authority: tuple[Path, Path], httpx_as_it_was: None) -> AsyncIterator[Net]:
    async with network(authority) as found:
        yield found


async def refused(work: Awaitable[object]) -> str:
    """The code with which a request was refused."""
    with pytest.raises(SkillError) as error:
        await work
    return error.value.code


async def get(url: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(follow_redirects=True) as client:
        return await client.get(url, **options)


# A request that is allowed.


async def test_a_host_without_sockets_gets_what_it_asks_of_a_declared_site(net: Net) -> None:
    net.api.answer = says('{"price": 3}', "HTTP/1.1 201 Made\r\nX-Their: own")
    async with httpx.AsyncClient(headers={"X-Mine": "1"}) as client:
        response = await client.post(f"https://{API}/v1/price?of=SOL", json={"of": "SOL"})
    assert (response.status_code, response.reason_phrase) == (201, "Made")
    assert (response.json(), response.headers["x-their"]) == ({"price": 3}, "own")
    [request] = net.api.requests
    assert request.line == "POST /v1/price?of=SOL HTTP/1.1"
    assert (request.header("host"), request.header("x-mine")) == (API, "1")
    assert request.body == b'{"of":"SOL"}'
    assert net.dialled == [ADDRESS]


async def test_bodies_pass_whole_in_pieces_both_ways(net: Net) -> None:
    sent = bytes(range(256)) * 3000

    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        await says(request.body)(request, writer)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(sent), 200_000):
            yield sent[start : start + 200_000]

    net.api.answer = echo
    async with httpx.AsyncClient() as client:
        assert (await client.post(f"https://{API}/", content=sent)).content == sent
        assert (await client.post(f"https://{API}/", content=pieces())).content == sent
    assert [each.header("transfer-encoding") for each in net.api.requests] == [None, "chunked"]


async def test_a_compressed_answer_is_decoded_in_the_host_alone(net: Net) -> None:
    # 20 MiB once decoded, against 1 MiB that may come.
    bomb = gzip.compress(bytes(20 << 20))
    net.api.answer = says(bomb, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip")
    assert await net.raw(m.HttpRequest("GET", f"https://{API}/")) == (200, bomb)


ANSWERED = {
    "with a length": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%04d",
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n%04d\r\n0\r\n\r\n",
    "after a hint": b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%04d",
}


@promise("answers-of-sites-are-own")
@pytest.mark.parametrize("form", ANSWERED)
@pytest.mark.parametrize("beyond", ["nothing", "the answer", "a byte"])
async def test_what_comes_beyond_an_answer_is_not_the_next_ones(
    net: Net, form: str, beyond: str
) -> None:
    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        said = ANSWERED[form] % len(net.api.requests)
        writer.write(said + {"nothing": b"", "the answer": said, "a byte": b"H"}[beyond])

    net.api.answer = answer
    async with httpx.AsyncClient() as client:
        for turn in range(1, 4):
            assert (await client.get(f"https://{API}/")).text == f"{turn:04d}"
    assert net.api.connections == (1 if beyond == "nothing" else 3)


@pytest.mark.parametrize("body", [b"", b"hi"])
async def test_the_head_of_an_answer_without_a_body_ends_it(net: Net, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"

    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)

    net.api.answer = answer
    async with httpx.AsyncClient() as client:
        for _ in range(2):
            assert (await client.head(f"https://{API}/")).status_code == 200
    assert net.api.connections == (2 if body else 1)


async def test_connections_are_used_again_and_never_by_another_tenant(net: Net) -> None:
    for tenant in ("acme", "acme", "rival"):
        net.begin(Manifest(sites=(API,)), tenant=tenant)
        assert (await get(f"https://{API}/")).text == "hi"
    assert len(net.dialled) == net.api.connections == 2


async def test_the_client_of_a_skills_call_works_in_a_host_and_ends_with_the_call(net: Net) -> None:
    lifetime = Lifetime()
    async with solward.context.http.CallClient(lifetime) as client:
        assert (await client.get(f"https://{API}/")).text == "hi"
        lifetime.end()
        assert await refused(client.get(f"https://{API}/")) == "call_ended"
        net.cap = None
        assert await refused(get(f"https://{API}/")) == "call_ended"
    assert len(net.api.requests) == 1


@pytest.mark.usefixtures("httpx_as_it_was")
def test_synchronous_httpx_says_what_to_use() -> None:
    install(None, lambda: CAP)  # type: ignore[arg-type]
    with pytest.raises(RequestRefused, match=r"context\.http or httpx\.AsyncClient") as error:
        httpx.get(f"https://{API}/")
    assert error.value.code == "sync_http"
    with pytest.raises(RequestRefused, match="proxy"):
        httpx.AsyncClient(proxy="http://127.0.0.1:1")


# Where requests go.


# The table of what is no declared site is in tests/registry/test_manifests.py.
@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/",
        "https://evil.example.com/",
        "https://api.example.com:0443/x",
        "https://evil.com@api.example.com/",
        "https://127.0.0.1/",
        "https://api.example.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\nGET /",
        "unix:///run/solward.sock",
    ],
)
async def test_a_hostile_url_is_dialled_nowhere(net: Net, url: str) -> None:
    net.begin(Manifest(sites=(API,)))
    assert (await net.raw(m.HttpRequest("GET", f"https://{API}/")))[0] == 200
    net.dialled.clear()
    net.looked_up.clear()
    if url == "https://api.example.com:0443/x":
        # Another spelling of the declared port is the declared site.
        assert (await net.raw(m.HttpRequest("GET", url)))[0] == 200
    else:
        code = await refused(net.raw(m.HttpRequest("GET", url)))
        assert code in ("https_only", "site_not_declared", "bad_http_request")
    assert (net.dialled, net.looked_up) == ([], [])


async def test_without_a_manifest_there_is_no_network(net: Net) -> None:
    net.begin(None, configured=(net.configured,))
    for url in (f"https://{API}/", net.configured):
        with pytest.raises(RequestRefused) as error:
            await get(url)
        assert error.value.code == "no_network"
    assert (net.dialled, net.looked_up) == ([], [])


REFUSED = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255",
    "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1",
    "100::1", "2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "ff0e::1",
    "2606:4700::1%lo", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_means_a_private_address_is_refused(net: Net, address: str) -> None:
    net.names[API] = [address]
    assert await refused(get(f"https://{API}/")) == "address_refused"
    assert net.dialled == []


def test_addresses_of_the_internet_are_public() -> None:
    import ipaddress

    for text in ("1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1", "2a00:1450:4001::200e"):
        assert is_public(ipaddress.ip_address(text))


async def test_of_many_addresses_only_the_public_ones_are_dialled(net: Net) -> None:
    net.names[API] = ["127.0.0.1", "fe80::1", ADDRESS, "10.0.0.1"]
    assert (await get(f"https://{API}/")).text == "hi"
    assert net.dialled == [ADDRESS]


async def test_the_address_that_was_checked_is_the_one_that_is_dialled(net: Net) -> None:
    # A name that changes its meaning at each look-up: one look-up a connection, and its answer
    # holds for it.
    meanings = [[ADDRESS], ["127.0.0.1"], [ADDRESS], ["169.254.169.254"]]

    class Rebinding(dict[str, list[str]]):
        def get(self, _host: str, _otherwise: Any = None) -> Any:
            return meanings.pop(0)

    net.names = Rebinding()

    async def once(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")

    net.api.answer = once
    for _ in range(2):
        assert (await get(f"https://{API}/")).text == "hi"
        assert await refused(get(f"https://{API}/")) == "address_refused"
    assert net.dialled == [ADDRESS, ADDRESS]
    assert len(net.looked_up) == 4


async def test_a_public_address_of_this_very_machine_is_refused(authority: Any) -> None:
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(_host: str, _port: int) -> list[str]:
        return [ADDRESS]

    async def dial(_address: str, _port: int, timeout: float | None) -> Any:
        return await dial_tcp("127.0.0.1", port, timeout)

    egress = Egress(LIMITS, resolve=resolve, dial=dial)
    call = EgressCall("acme", "acme-plugin", Manifest(sites=(API,)))
    asked = egress.request(call, m.HttpRequest("GET", f"https://{API}/"), nothing())
    assert await refused(anext(asked)) == "address_refused"
    await egress.close()
    server.close()
    assert site.requests == []


async def nothing() -> AsyncIterator[bytes]:
    return
    yield


async def test_a_certificate_for_another_name_is_no_connection(net: Net) -> None:
    net.begin(Manifest(sites=("third.example.com",)))
    net.names["third.example.com"] = [ADDRESS]
    with pytest.raises(httpx.ConnectError, match="certificate"):
        await get("https://third.example.com/")
    assert net.api.requests == []


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "https_only"),
        ("https://localhost:3001/api/v1/keys", "site_not_declared"),
        ("https://evil.example.com/", "site_not_declared"),
        ("//127.0.0.1/", "site_not_declared"),
        (f"https://{OTHER}/private", "address_refused"),
    ],
)
async def test_a_redirect_is_a_request_like_any_other(net: Net, location: str, code: str) -> None:
    net.names[OTHER] = ["10.0.0.1"]
    net.api.answer = says("", f"HTTP/1.1 302 Found\r\nLocation: {location}")
    assert await refused(get(f"https://{API}/")) == code
    assert net.dialled == [ADDRESS]


async def test_a_redirect_to_a_declared_site_is_followed_by_the_host(net: Net) -> None:
    net.api.answer = says("", f"HTTP/1.1 302 Found\r\nLocation: https://{OTHER}/x")
    assert (await get(f"https://{API}/")).text == "hi"
    assert net.other.requests[0].line == "GET /x HTTP/1.1"
    assert net.call.requests == 2


async def test_what_the_operator_configured_may_be_plain_and_private(net: Net) -> None:
    net.begin(Manifest(), configured=(f"{net.configured}/v1",))
    assert (await get(f"{net.configured}/v1/models")).text == "hi"
    assert net.plain.requests[0].header("host") == f"{LISTEN}:{net.plain.port}"
    net.begin(Manifest())
    assert await refused(get(f"{net.configured}/v1/models")) == "https_only"


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "::ffff:127.0.0.1"])
async def test_a_configured_name_means_no_address_of_a_link(net: Net, address: str) -> None:
    net.names["llm.corp.example"] = [address]
    net.begin(Manifest(), configured=("http://llm.corp.example",))
    assert await refused(get("http://llm.corp.example/")) == "address_refused"
    assert net.dialled == []


async def test_the_machines_resolver_says_what_a_name_means_to_this_machine() -> None:
    site, egress = Site(), Egress(LIMITS)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    url = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    call = EgressCall("acme", "acme-plugin", Manifest(sites=(API,)), (url,))
    asked = egress.request(call, m.HttpRequest("GET", url), nothing())
    assert [piece async for piece in asked][1:] == [b"hi"]
    nobody = EgressCall("acme", "acme-plugin", Manifest(sites=("name.invalid",)))
    asked = egress.request(nobody, m.HttpRequest("GET", "https://name.invalid/"), nothing())
    assert await refused(anext(asked)) == "http_connect_error"
    await egress.close()
    server.close()


async def test_neither_a_proxy_nor_netrc_of_the_environment_is_used(
    net: Net, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text(f"machine {API} login root password hunter2hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await net.raw(m.HttpRequest("GET", f"https://{API}/")))[0] == 200
    assert net.dialled == [ADDRESS]
    assert net.api.requests[0].header("authorization") is None


# What requests carry.


@pytest.mark.parametrize(
    "header",
    [
        (b"X-A", b"1\r\nX-Injected: 1"),
        (b"X-A", b"1\nX-Injected: 1"),
        (b"X-A", b"1\x00"),
        (b"X-A", b"1\rX-Injected: 1"),
        (b"X-A\r\nX-Injected", b"1"),
        (b"X-Injected: 1\r\nX-A", b"1"),
        (b"X A", b"1"),
        (b"", b"1"),
        (b"X-A:", b"1"),
        (b"Content-Length", b"+5"),
        (b"Content-Length", b"5, 5"),
        (b"content-length", b"5\x0b"),
    ],
)
async def test_a_header_holds_no_other_header(net: Net, header: tuple[bytes, bytes]) -> None:
    request = m.HttpRequest("POST", f"https://{API}/", (header,))
    assert await refused(net.raw(request, b"hello")) == "bad_http_request"
    assert net.dialled == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET / HTTP/1.1\r\n", ""])
async def test_a_method_is_one_that_passes_a_body_on(net: Net, method: str) -> None:
    assert await refused(net.raw(m.HttpRequest(method, f"https://{API}/"))) == "bad_http_request"


async def test_the_service_alone_says_whose_connection_it_is_and_where_a_body_ends(
    net: Net,
) -> None:
    hostile = (
        (b"Host", b"internal.example"),
        (b"Connection", b"keep-alive, X-Forwarded-For"),
        (b"Proxy-Authorization", b"Basic x"),
        (b"Transfer-Encoding", b"xchunked"),
        (b"Content-Length", b"5"),
        (b"TE", b"trailers"),
        (b"Upgrade", b"h2c"),
        (b"Expect", b"100-continue"),
    )
    request = m.HttpRequest("POST", f"https://{API}/", hostile)
    assert (await net.raw(request, b"hello"))[0] == 200
    [came] = net.api.requests
    assert came.headers == [("Host", API), ("Content-Length", "5")]
    assert came.body == b"hello"
    two = m.HttpRequest("POST", f"https://{API}/", ((b"Content-Length", b"5"),) * 2)
    assert await refused(net.raw(two, b"hello")) == "bad_http_request"


async def test_a_body_of_another_length_than_it_says_is_no_second_request(net: Net) -> None:
    smuggled = b"hello" + b"GET /admin HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
    for headers in (((b"Content-Length", b"5"),), ((b"Content-Length", b"500"),), ()):
        request = m.HttpRequest("POST", f"https://{API}/", headers)
        assert await refused(net.raw(request, smuggled)) == "bad_http_request"
    assert [each.line for each in net.api.requests if "admin" in each.line] == []


async def test_cookies_of_one_call_are_not_in_the_next(net: Net) -> None:
    net.api.answer = says("hi", "HTTP/1.1 200 OK\r\nSet-Cookie: session=1")
    for _ in range(2):
        await get(f"https://{API}/")
    assert [each.header("cookie") for each in net.api.requests] == [None, None]


# Secrets.


@pytest.fixture
def secret(net: Net) -> str:
    """What stands for the secret in the host."""
    manifest = Manifest((API, OTHER), secrets=(Secret("ACME_KEY", API),))
    placeholder = net.begin(manifest, values={"ACME_KEY": SECRET}).placeholder("ACME_KEY")
    assert placeholder is not None
    return placeholder


async def test_a_secret_is_put_into_headers_to_its_own_site_alone(net: Net, secret: str) -> None:
    headers = {"Authorization": f"Bearer {secret}", "X-Key": secret}
    for site in (API, OTHER):
        await get(f"https://{site}/?k={secret}", headers=headers)
        async with httpx.AsyncClient() as client:
            await client.post(f"https://{site}/", content=secret, auth=("me", secret))
    first, second = net.api.requests
    assert first.header("authorization") == f"Bearer {SECRET}"
    assert first.header("x-key") == SECRET
    # Neither in a query that the manifest does not name, nor in a body.
    assert first.line == f"GET /?k={secret} HTTP/1.1"
    assert second.body == secret.encode()
    assert second.header("authorization") == (
        "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    )
    for each in net.other.requests:
        assert SECRET not in repr(each)
        assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in repr(each)


async def test_a_secret_follows_no_redirect_to_another_site(net: Net, secret: str) -> None:
    net.api.answer = says("", f"HTTP/1.1 307 Go\r\nLocation: https://{OTHER}/x")
    await get(f"https://{API}/", headers={"X-Key": secret})
    assert net.api.requests[0].header("x-key") == SECRET
    assert net.other.requests[0].header("x-key") == secret


async def test_a_secret_stands_in_a_query_where_the_manifest_says_so(net: Net) -> None:
    manifest = Manifest((API,), secrets=(Secret("ACME_KEY", API, in_query=True),))
    placeholder = net.begin(manifest, values={"ACME_KEY": SECRET}).placeholder("ACME_KEY")
    await get(f"https://{API}/{placeholder}?key={placeholder}&b=1")
    [request] = net.api.requests
    assert request.line == (f"GET /{placeholder}?key=sk-acme%2F0123456789%2Babcdef&b=1 HTTP/1.1")


async def test_a_query_of_another_site_of_the_same_secret_keeps_what_stands_for_it(
    net: Net,
) -> None:
    both = (Secret("ACME_KEY", API, in_query=True), Secret("ACME_KEY", OTHER))
    call = net.begin(Manifest((API, OTHER), secrets=both), values={"ACME_KEY": SECRET})
    placeholder = str(call.placeholder("ACME_KEY"))
    await get(f"https://{OTHER}/?key={placeholder}", headers={"X-Key": placeholder})
    [request] = net.other.requests
    assert request.header("x-key") == SECRET
    assert request.line == f"GET /?key={placeholder} HTTP/1.1"


@promise("manifest-secrets-replaced")
async def test_a_secret_that_comes_back_does_not_come_into_the_host(net: Net, secret: str) -> None:
    # With two characters before it the secret's own form in base64 is not part of it.
    basic = base64.b64encode(f"u:{SECRET}".encode()).decode()
    quoted = "sk-acme%2F0123456789%2Babcdef"
    encoded = base64.b64encode(SECRET.encode()).decode()
    lower, slashed = quoted.lower(), SECRET.replace("/", "\\/")
    text = f"a{SECRET}b{quoted}c{encoded}d{basic}e{lower}f{slashed}g{SECRET[:-1]}"

    async def echo(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            f"HTTP/1.1 200 Thanks {SECRET}\r\nX-Echo: <{SECRET}>\r\nX-Basic: {basic}\r\n"
            f"Content-Length: {len(text)}\r\n\r\n".encode()
        )
        # In one-byte writes no read has a whole secret.
        for each in text.encode():
            writer.write(bytes([each]))
            await writer.drain()
            await asyncio.sleep(0)

    net.api.answer = echo
    response = await get(f"https://{API}/", headers={"X-Key": secret}, auth=("u", secret))
    hidden = (SECRET, quoted, encoded.rstrip("="), basic, lower, slashed)
    stars = "a{}b{}c{}==d{}e{}f{}g".format(*("*" * len(each) for each in hidden))
    assert response.text == stars + SECRET[:-1]
    assert response.headers["x-echo"] == f"<{secret}>"
    assert SECRET not in repr((response.headers.raw, response.extensions))
    assert basic not in repr(response.headers.raw)


async def test_a_secret_does_not_come_back_encoded_or_in_parts(net: Net, secret: str) -> None:
    body = gzip.compress(SECRET.encode())
    net.api.answer = says(body, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip")
    asked = {"X-Key": secret, "Accept-Encoding": "gzip", "Range": "bytes=0-5"}
    assert await refused(get(f"https://{API}/", headers=asked)) == "encoded_answer"
    [request] = net.api.requests
    assert request.header("accept-encoding") == "identity"
    assert request.header("range") is None
    # Where no secret goes nothing is asked for otherwise.
    await get(f"https://{OTHER}/", headers=asked)
    assert net.other.requests[0].header("accept-encoding") == "gzip"


async def test_a_stream_is_not_held_back_by_the_look_for_secrets(net: Net, secret: str) -> None:
    taken = asyncio.Event()

    async def trickle(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\ndata: one\n")
        await writer.drain()
        await asyncio.wait_for(taken.wait(), 10)
        writer.write(b"data: two\n")

    net.api.answer = trickle
    async with httpx.AsyncClient() as client:
        url, headers = f"https://{API}/", {"X-Key": secret}
        async with client.stream("GET", url, headers=headers) as response:
            lines = aiter(response.aiter_lines())
            assert await anext(lines) == "data: one"
            taken.set()
            assert await anext(lines) == "data: two"


async def test_a_placeholder_is_of_one_call_and_stands_for_what_is_declared(
    net: Net, secret: str
) -> None:
    first = net.call
    manifest = first.manifest
    assert net.begin(manifest, values={"ACME_KEY": SECRET}).placeholder("ACME_KEY") != secret
    # Of the call before, which is another's.
    await get(f"https://{API}/", headers={"X-Key": secret})
    assert net.api.requests[0].header("x-key") == secret
    assert first.placeholder("ACME_KEY") == secret
    assert first.placeholder("OTHER_KEY") is None
    unset = EgressCall("acme", "acme-plugin", manifest)
    assert unset.placeholder("ACME_KEY") is None
    undeclared = EgressCall("acme", "acme-plugin", Manifest((API,)), values={"ACME_KEY": SECRET})
    assert undeclared.placeholder("ACME_KEY") is None
    assert SECRET not in repr(first)


async def test_a_configured_address_gets_the_key_instead_of_the_vendor(net: Net) -> None:
    manifest = Manifest((API,), secrets=(Secret("ACME_KEY", API),))
    given = {"configured": (net.configured,), "values": {"ACME_KEY": SECRET}}
    call = net.begin(manifest, key="ACME_KEY", **given)
    headers = {"X-Key": str(call.placeholder("ACME_KEY"))}
    await get(net.configured, headers=headers)
    await get(f"https://{API}/", headers=headers)
    assert net.plain.requests[0].header("x-key") == SECRET
    assert net.api.requests[0].header("x-key") == headers["X-Key"]
    # A secret that is no provider's key goes to its own site all the same.
    headers = {"X-Key": str(net.begin(manifest, **given).placeholder("ACME_KEY"))}
    await get(net.configured, headers=headers)
    await get(f"https://{API}/", headers=headers)
    assert net.plain.requests[1].header("x-key") == headers["X-Key"]
    assert net.api.requests[1].header("x-key") == SECRET


async def test_a_secret_that_no_header_can_carry_is_not_quoted(net: Net) -> None:
    manifest = Manifest((API,), secrets=(Secret("ACME_KEY", API),))
    for value in ("sk-acme-0123456789\r\nX-Injected: 1", "sk-acme-0123456789 "):
        call = net.begin(manifest, values={"ACME_KEY": value})
        with pytest.raises(RequestRefused) as error:
            await get(f"https://{API}/", headers={"X-Key": str(call.placeholder("ACME_KEY"))})
        assert error.value.code == "secret_unusable"
        assert "ACME_KEY" in str(error.value)
        assert "0123456789" not in repr(error.value)
    assert net.dialled == []


async def test_an_operators_client_adds_headers_that_the_host_neither_sees_nor_sets(
    authority: Any,
) -> None:
    site = Site()
    server = await asyncio.start_server(site.serve, LISTEN, 0)
    url = f"http://{LISTEN}:{server.sockets[0].getsockname()[1]}"

    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\nSet-Cookie: session=1"
        await says(f"key {request.header('x-api-key')}", head)(request, writer)

    site.answer = echo
    egress = Egress(LIMITS)
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": SECRET}) as client:
        call = EgressCall("acme", "acme-plugin", Manifest(), (url,), client=client)
        request = m.HttpRequest("GET", f"{url}/quote?a=1", ((b"X-Api-Key", b"mine"),))
        pieces = [piece async for piece in egress.request(call, request, nothing())]
        assert client.cookies["session"] == "1"
        _ = [piece async for piece in egress.request(call, request, nothing())]
    server.close()
    assert site.requests[0].line == "GET /quote?a=1 HTTP/1.1"
    assert [each.header("x-api-key") for each in site.requests] == [SECRET, SECRET]
    assert [each.header("cookie") for each in site.requests] == [None, None]
    assert b"".join(pieces[1:]) == b"key " + b"*" * len(SECRET)


# Bounds.


def endlessly(head: bytes, more: bytes) -> Answer:
    async def endless(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(more)
            await writer.drain()

    return endless


async def test_an_endless_body_is_cut_off(net: Net) -> None:
    net.plain.answer = endlessly(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)
    net.begin(Manifest(), configured=(net.configured,))
    assert await refused(get(net.configured)) == "too_large"
    assert net.read < LIMITS.response_bytes + 2 * PIECE
    async with asyncio.timeout(10):
        await net.plain.closed.wait()


EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"


async def test_heads_before_an_answer_come_to_an_end(net: Net) -> None:
    net.api.answer = says("hi", (EARLY * 20).decode() + "HTTP/1.1 200 OK")
    for _ in range(3):
        assert (await get(f"https://{API}/")).text == "hi"
    assert len(net.dialled) == 1
    before = net.read
    net.api.answer = endlessly(b"", EARLY * 2_000)
    async with asyncio.timeout(10):
        assert await refused(get(f"https://{API}/")) == "too_large"
        await net.api.closed.wait()
    # What TLS reads ahead is not parsed.
    assert net.read - before < LIMITS.head_bytes * 4


async def test_what_stands_around_chunks_counts_as_well(net: Net) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    net.api.answer = endlessly(head, (b"1;" + b"x" * 4_000 + b"\r\nx\r\n") * 16)
    async with asyncio.timeout(10):
        assert await refused(get(f"https://{API}/")) == "too_large"


async def test_small_chunks_are_read_no_faster_than_the_service_can_spare(
    authority: tuple[Path, Path], httpx_as_it_was: None
) -> None:
    head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def chunks(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + b"1\r\nx\r\n" * 300 + b"0\r\n\r\n")

    async with network(authority, replace(LIMITS, chunks_a_second=400)) as net:
        net.api.answer = chunks
        begun = asyncio.get_running_loop().time()
        for _ in range(2):
            assert (await get(f"https://{API}/")).text == "x" * 300
        # 600, of which those of one second are free.
        assert asyncio.get_running_loop().time() - begun > 0.45


@pytest.mark.parametrize("length", [None, (2 << 20)])
async def test_a_request_that_is_too_large_is_cut_off(net: Net, length: int | None) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * PIECE

    headers = {} if length is None else {"Content-Length": str(length)}
    async with httpx.AsyncClient() as client:
        asked = client.post(f"https://{API}/", content=pieces(), headers=headers)
        assert await refused(asked) == "too_large"
    assert net.api.requests == []
    if length is not None:
        assert net.dialled == []


async def test_headers_are_bounded_both_ways(net: Net) -> None:
    many = tuple((f"X-{n}".encode(), b"x" * 4000) for n in range(9))
    assert await refused(net.raw(m.HttpRequest("GET", f"https://{API}/", many))) == "too_large"
    assert net.dialled == []
    for lines in (
        "\r\n".join(f"X-{n}: {'x' * 4000}" for n in range(9)),
        "\r\n".join(f"X-{n}: x" for n in range(200)),
        f"X-Long: {'x' * 20_000}",
        f"X-{'x' * 300}: 1",
    ):
        net.api.answer = says("hi", f"HTTP/1.1 200 OK\r\n{lines}")
        assert await refused(get(f"https://{API}/")) == "too_large"

    net.api.answer = endlessly(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"x" * 1000 + b"\r\n")
    assert await refused(get(f"https://{API}/")) == "too_large"
    # The channel stands: none of these was more than a frame takes.
    net.api.answer = ok
    assert (await get(f"https://{API}/")).text == "hi"


@pytest.mark.usefixtures("httpx_as_it_was")
async def test_a_host_that_does_not_read_holds_the_site_up_and_not_the_services_memory(
    authority: Any,
) -> None:
    sent = 0

    async def endless(_request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while sent < 128 << 20:
            writer.write(b"x" * PIECE)
            sent += PIECE
            await writer.drain()

    limits = Limits(response_bytes=256 << 20)
    async with network(authority, limits) as net:
        net.plain.answer = endless
        net.begin(Manifest(), configured=(net.configured,))
        async with httpx.AsyncClient() as client, client.stream("GET", net.configured) as response:
            assert response.status_code == 200
            before = -1
            while before < net.read:
                before = net.read
                # Long enough for 128 MiB to pass, if anything took them.
                await asyncio.sleep(0.2)
            # Credit for 32 pieces of 64 KiB, and what is on its way.
            assert net.read < 4 << 20
            taken = 0
            async for chunk in response.aiter_raw():
                taken += len(chunk)
                if taken > 16 << 20:
                    break
            assert net.read > 16 << 20
        async with asyncio.timeout(10):
            await net.plain.closed.wait()
    assert sent < 128 << 20


async def test_a_call_may_make_so_many_requests(net: Net) -> None:
    for _ in range(LIMITS.requests):
        await net.raw(m.HttpRequest("GET", f"https://{API}/"))
    assert await refused(get(f"https://{API}/")) == "too_many_requests"
    assert len(net.api.requests) == LIMITS.requests
    net.begin(Manifest(sites=(API,)))
    assert (await get(f"https://{API}/")).text == "hi"


@pytest.mark.usefixtures("httpx_as_it_was")
async def test_more_requests_than_may_run_at_once_wait(
    authority: Any,
) -> None:
    running = most = 0

    async def busy(_request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        await ok(_request, writer)

    async with network(authority, Limits(at_once=2)) as net:
        net.api.answer = busy
        found = await asyncio.gather(*(get(f"https://{API}/") for _ in range(7)))
    assert [each.text for each in found] == ["hi"] * 7
    assert most == 2


# Time, and what fails.


async def hangs(_request: Request, writer: asyncio.StreamWriter) -> None:
    await writer.wait_closed()


async def test_a_hosts_own_timeouts_hold(net: Net) -> None:
    net.api.answer = hangs
    with pytest.raises(httpx.ReadTimeout):
        await get(f"https://{API}/", timeout=0.1)

    async def half(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf")
        await hangs(_request, writer)

    net.api.answer = half
    with pytest.raises(httpx.ReadTimeout):
        await get(f"https://{API}/", timeout=0.1)


async def test_an_answer_in_drops_ends_with_its_call(net: Net) -> None:
    async def drops(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    net.api.answer = drops
    deadline = asyncio.get_running_loop().time() + 0.3
    net.begin(Manifest(sites=(API,)), limits=replace(LIMITS, total_s=0.3))
    with pytest.raises(httpx.ReadTimeout):
        await get(f"https://{API}/")
    assert asyncio.get_running_loop().time() < deadline + 5


async def test_no_request_outlives_its_call(net: Net) -> None:
    net.api.answer = hangs
    asked = asyncio.create_task(get(f"https://{API}/"))
    async with asyncio.timeout(10):
        while not net.api.requests:
            await asyncio.sleep(0.001)
        net.call.end()
        with pytest.raises(httpx.NetworkError):
            await asked
        await net.api.closed.wait()
    assert await refused(get(f"https://{API}/")) == "call_ended"


async def test_a_host_that_waits_no_longer_closes_the_connection(net: Net) -> None:
    net.api.answer = hangs
    asked = asyncio.create_task(get(f"https://{API}/"))
    async with asyncio.timeout(10):
        while not net.api.requests:
            await asyncio.sleep(0.001)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await net.api.closed.wait()


async def test_one_that_is_cancelled_while_it_closes_still_hangs_up(net: Net) -> None:
    async def interim(_request: Request, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    net.plain.answer = interim
    egress = Egress()
    call = EgressCall("acme", "acme-plugin", Manifest(), (net.configured,))
    request = m.HttpRequest("GET", f"{net.configured}/", ())

    async def reads() -> None:
        async for _ in egress.request(call, request, nothing()):
            pass

    for steps in range(6):
        asked = asyncio.create_task(reads())
        async with asyncio.timeout(10):
            while len(net.plain.requests) == steps:
                await asyncio.sleep(0.001)
            asked.cancel()
            for _ in range(steps):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked])
            await net.plain.closed.wait()
            net.plain.closed.clear()
    await egress.close()


async def test_what_fails_is_an_exception_of_httpx(net: Net) -> None:
    net.begin(Manifest(), configured=("http://127.0.0.2:1",))
    with pytest.raises(httpx.ConnectError):
        await get("http://127.0.0.2:1/")

    async def unknown(*_: object) -> list[str]:
        raise socket.gaierror("no such name")

    net.egress._resolve = unknown
    await net.egress.close()
    net.begin(Manifest(sites=(API,)))
    with pytest.raises(httpx.ConnectError):
        await get(f"https://{API}/")


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n", b""],
)
async def test_what_is_no_answer_is_a_protocol_error(net: Net, answer: bytes) -> None:
    async def says_so(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        raise ConnectionError

    net.api.answer = says_so
    with pytest.raises(httpx.RemoteProtocolError):
        await get(f"https://{API}/")


async def test_a_body_that_ends_early_is_no_whole_answer(net: Net) -> None:
    async def short(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nshort")
        await writer.drain()
        raise ConnectionError

    net.api.answer = short
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await get(f"https://{API}/")


async def test_what_was_refused_is_for_httpx_and_for_a_skills_caller(net: Net) -> None:
    with pytest.raises(httpx.TransportError) as error:
        await get("https://evil.example.com/")
    assert isinstance(error.value, SkillError)
    assert error.value.code == "site_not_declared"
    assert error.value.request.url == "https://evil.example.com/"


async def test_requests_are_counted_and_logged_without_their_path(net: Net, secret: str) -> None:
    def counted(outcome: str) -> float:
        labels = {"plugin": "acme-plugin", "outcome": outcome}
        found = metrics.REGISTRY.get_sample_value("solward_plugin_requests_total", labels)
        return found or 0.0

    before = [counted(each) for each in ("answered", "refused", "failed")]
    first, placed = net.call, {"X-Key": secret}
    with capture_logs() as logs:
        await get(f"https://{API}/private?token=abc", headers=placed)
        for _ in range(2):
            with pytest.raises(RequestRefused):
                await get("https://evil.example.com/private?token=abc")
        net.begin(first.manifest)
        net.names[API] = ["1.1.1.1"]
        net.egress._dial = failing
        await net.egress.close()
        with pytest.raises(httpx.ConnectError):
            await get(f"https://{API}/private?token=abc")
    after = [counted(each) for each in ("answered", "refused", "failed")]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 2, 1]
    # The first of a call alone, because a plugin decides how many there are.
    assert [each["problem"] for each in logs] == ["site_not_declared", "http_connect_error"]
    for hidden in ("private", "abc", SECRET):
        assert hidden not in repr(logs)


async def failing(*_: object) -> httpcore.AsyncNetworkStream:
    raise httpcore.ConnectError
