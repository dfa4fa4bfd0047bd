"""Requests to sellers: where they may go, and how much of an answer is believed."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import httpcore
import pytest
from tests.promises import promise
from tests.support.clock import until
from tests.support.sellers import Asked, FakeSeller, Reply, fake_seller

from solward.operations.payments.requests import (
    MAX_ANSWER_BYTES,
    SellerRequest,
    Sites,
    read_request,
)
from solward.types.errors import InvalidRequest, PaymentRefused
from solward.types.payment import PayRequest

BIG = b"x" * (MAX_ANSWER_BYTES + 5)


def asking(url: str, **fields: Any) -> SellerRequest:
    return read_request(PayRequest(url, **fields), needs_most=False)


@pytest.fixture
async def seller() -> AsyncIterator[FakeSeller]:
    async with fake_seller() as made:
        yield made


@pytest.fixture
async def sites(seller: FakeSeller) -> AsyncIterator[Sites]:
    made = Sites([seller.site])
    yield made
    await made.close()


async def refused(sites: Sites, request: SellerRequest, code: str, within_s: float = 5) -> str:
    with pytest.raises(PaymentRefused) as error:
        await sites.request(request, within_s)
    assert error.value.code == code
    assert str(error.value).endswith(f"({code})")
    return str(error.value)


async def test_a_request_arrives_as_it_was_given(seller: FakeSeller, sites: Sites) -> None:
    seller.says(Reply(201, (("X-Two", "a"), ("X-Two", "b")), b"made"))
    asked = asking(
        seller.url("/orders?q=a%20b"),
        method="post",
        headers={"Content-Type": "text/plain", "Authorization": "Bearer own"},
        body=b"one",
    )
    found = await sites.request(asked, 5)
    assert (found.answer.status, found.answer.body, found.truncated) == (201, b"made", False)
    assert found.answer.all_headers("x-two") == ("a", "b")
    (got,) = seller.asked
    assert (got.method, got.path, got.body) == ("POST", "/orders?q=a%20b", b"one")
    assert got.headers["content-type"] == "text/plain"
    assert got.headers["authorization"] == "Bearer own"
    assert got.headers["host"] == seller.site
    assert got.headers["accept-encoding"] == "identity"


@promise("seller-answer-is-bounded")
async def test_nothing_is_followed_remembered_or_decoded(seller: FakeSeller, sites: Sites) -> None:
    packed = gzip.compress(b"packed")
    seller.answer = lambda _asked: Reply(
        302,
        (("Location", "/other"), ("Set-Cookie", "a=1"), ("Content-Encoding", "gzip")),
        packed,
    )
    found = await sites.request(asking(seller.url()), 5)
    assert (found.answer.status, found.answer.body) == (302, packed)
    assert found.answer.header("Set-Cookie") is None
    await sites.request(asking(seller.url()), 5)
    assert [(each.path, each.headers.get("cookie")) for each in seller.asked] == [("/", None)] * 2


@promise("seller-answer-is-bounded")
async def test_a_body_is_read_up_to_its_bound(seller: FakeSeller, sites: Sites) -> None:
    seller.says(Reply(body=BIG))
    found = await sites.request(asking(seller.url()), 5)
    assert len(found.answer.body) == MAX_ANSWER_BYTES
    assert (found.truncated, found.broken) == (True, False)


async def test_an_answer_that_breaks_off_says_so(seller: FakeSeller, sites: Sites) -> None:
    seller.says(Reply(body=b"0123456789", cut=4))
    found = await sites.request(asking(seller.url()), 5)
    assert (found.answer.body, found.truncated, found.broken) == (b"0123", True, True)


@promise("seller-answer-is-bounded")
async def test_a_head_that_never_ends_is_refused(seller: FakeSeller, sites: Sites) -> None:
    seller.says(Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 50_000))
    await refused(sites, asking(seller.url()), "answer_too_large")


async def test_what_is_not_http_is_no_answer(seller: FakeSeller, sites: Sites) -> None:
    seller.says(Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"))
    await refused(sites, asking(seller.url()), "no_answer")


async def test_a_seller_that_does_not_answer_is_waited_for_so_long(
    seller: FakeSeller, sites: Sites
) -> None:
    never = asyncio.Event()
    seller.says(Reply(before=never.wait))
    await refused(sites, asking(seller.url()), "no_answer", 0.2)
    seller.says(Reply(between=never.wait))
    found = await sites.request(asking(seller.url()), 0.2)
    assert (found.answer.body, found.broken) == (b"", True)
    never.set()


@promise("slow-seller-stops-nobody")
async def test_who_asks_slow_sellers_often_keeps_only_itself_waiting(
    seller: FakeSeller, sites: Sites
) -> None:
    never = asyncio.Event()
    asked: list[str] = []

    def answer(each: Asked) -> Reply:
        asked.append(each.path)
        return Reply(before=never.wait) if each.path == "/slow" else Reply()

    seller.answer = answer
    # Of so many keys, each asks more often than one may at a time.
    waiting = [
        asyncio.ensure_future(
            sites.request(asking(seller.url("/slow")), 5, who=f"key:{number % 4}")
        )
        for number in range(40)
    ]
    await until(lambda: len(asked) == 16)
    for who in ("admin", "agent:a", "key:another"):
        found = await sites.request(asking(seller.url("/quick")), 1, who=who)
        assert found.answer.status == 200
    assert asked.count("/slow") == 16
    never.set()
    await asyncio.gather(*waiting)


async def test_nobody_listens(sites: Sites, seller: FakeSeller) -> None:
    free = Sites(["127.0.0.1:1"])
    text = await refused(free, asking("http://127.0.0.1:1/"), "no_answer")
    assert text == "127.0.0.1:1: The site could not be reached (no_answer)"


class Machine:
    """Names and connections of a test: what a name resolves to, and what was called."""

    def __init__(self, *answers: Iterable[str]) -> None:
        self.answers = [list(each) for each in answers]
        self.called: list[str] = []

    async def resolve(self, _host: str, _port: int) -> list[str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def dial(self, address: str, _port: int, _timeout: float | None) -> Any:
        self.called.append(address)
        raise httpcore.ConnectError


PRIVATE = {
    "loopback": "127.0.0.1",
    "another-loopback": "127.8.8.8",
    "this-host": "0.0.0.0",
    "ten": "10.0.0.1",
    "carrier": "100.64.0.1",
    "metadata": "169.254.169.254",
    "azure": "168.63.129.16",
    "seventeen": "172.16.0.1",
    "home": "192.168.1.1",
    "multicast": "224.0.0.1",
    "broadcast": "255.255.255.255",
    "v6-loopback": "::1",
    "v6-any": "::",
    "v6-local": "fe80::1",
    "v6-scoped": "fe80::1%eth0",
    "v6-private": "fd00:ec2::254",
    "v6-mapped": "::ffff:127.0.0.1",
    "v6-mapped-hex": "::ffff:7f00:1",
    "v6-nat64": "64:ff9b::7f00:1",
    "v6-6to4": "2002:7f00:1::",
    "v6-teredo": "2001::1",
    "v6-documentation": "2001:db8::1",
}


@promise("payments-go-to-public-https")
@pytest.mark.parametrize("address", PRIVATE.values(), ids=PRIVATE)
async def test_a_name_of_a_private_address_is_refused_and_never_called(address: str) -> None:
    machine = Machine([address])
    sites = Sites(resolve=machine.resolve, dial=machine.dial)
    text = await refused(sites, asking("https://api.example.com/"), "address_refused")
    assert "PAYMENTS_PRIVATE_SITES" in text
    assert machine.called == []


async def test_of_several_addresses_only_public_ones_are_called() -> None:
    machine = Machine(["10.0.0.1", "93.184.216.34", "::1"])
    sites = Sites(resolve=machine.resolve, dial=machine.dial)
    await refused(sites, asking("https://api.example.com/"), "no_answer")
    assert machine.called == ["93.184.216.34"]


@promise("name-change-gains-nothing", "payments-go-to-public-https")
async def test_a_name_that_changes_its_address_gains_nothing() -> None:
    machine = Machine(["93.184.216.34"], ["127.0.0.1"])
    sites = Sites(resolve=machine.resolve, dial=machine.dial)
    await refused(sites, asking("https://api.example.com/"), "no_answer")
    await refused(sites, asking("https://api.example.com/"), "address_refused")
    assert machine.called == ["93.184.216.34"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:7f00:1]"])
async def test_this_machine_is_not_called(host: str) -> None:
    machine = Machine(["-"])
    sites = Sites(dial=machine.dial)
    if "ffff" in host:
        with pytest.raises(InvalidRequest):
            asking(f"https://{host}/")
    else:
        await refused(sites, asking(f"https://{host}/"), "address_refused")
    assert machine.called == []


@promise("payments-go-to-public-https")
async def test_a_private_site_is_one_host_and_port(seller: FakeSeller) -> None:
    other = Sites([f"127.0.0.1:{seller.port + 1}"])
    await refused(other, asking(seller.url()), "https_only")
    await refused(other, asking(f"https://127.0.0.1:{seller.port}/"), "address_refused")
    assert seller.asked == []


@promise("payments-go-to-public-https")
async def test_http_is_for_loopback_addresses_alone() -> None:
    machine = Machine(["10.0.0.7"])
    sites = Sites(["shop.internal:8080"], resolve=machine.resolve, dial=machine.dial)
    await refused(sites, asking("http://shop.internal:8080/"), "https_only")
    await refused(sites, asking("https://shop.internal:8080/"), "no_answer")
    assert machine.called == ["10.0.0.7"]
    await refused(sites, asking("http://api.example.com/"), "https_only")


async def test_headers_of_a_payment_replace_the_callers_of_the_same_name(
    seller: FakeSeller, sites: Sites
) -> None:
    asked = asking(seller.url(), headers={"authorization": "Bearer own", "X-One": "1"})
    await sites.request(asked, 5, (("Authorization", "Payment abc"),))
    (got,) = seller.asked
    assert (got.headers["authorization"], got.headers["x-one"]) == ("Payment abc", "1")


async def test_connections_of_answers_that_were_cut_are_not_used_again(
    seller: FakeSeller, sites: Sites
) -> None:
    answers = [Reply(body=BIG), Reply(body=b"second")]
    seller.answer = lambda _asked: answers.pop(0)
    first = await sites.request(asking(seller.url()), 5)
    second = await sites.request(asking(seller.url()), 5)
    assert (first.truncated, second.answer.body) == (True, b"second")


@promise("answers-of-sites-are-own")
async def test_what_comes_beyond_an_answer_is_not_the_next_ones() -> None:
    turns, ended = 0, 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turns, ended
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                turns += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % turns * 2)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended += 1

    server = await asyncio.start_server(twice, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sites = Sites([f"127.0.0.1:{port}"])
    for turn in (b"1", b"2", b"3"):
        found = await sites.request(asking(f"http://127.0.0.1:{port}/"), 5)
        assert found.answer.body == turn
    await sites.close()
    await until(lambda: ended == 3)
    server.close()
