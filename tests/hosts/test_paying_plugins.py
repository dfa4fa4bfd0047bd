"""`context.pay` in a plugin host: the service makes the request, and pays what was declared."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpcore
import pytest
from tests.hosts.test_egress import ADDRESS, API, LISTEN, Site, authority, says
from tests.promises import promise
from tests.support.hosts import Opened, opened_hosts
from tests.support.market import USDC
from tests.support.payments import OWNER, PRICE, SPONSOR, Shop
from tests.support.plugins import HEAD, Shelf, shelf, skill_source
from tests.support.sellers import Asked, FakeSeller, Reply, receipt

from solward.operations.payments.requests import Sites
from solward.service import service
from solward.types.errors import PaymentRefused, SkillError
from solward.vault.money.request import Actor

__all__ = ["authority", "shelf"]

URL = f"https://{API}/report?day=1"
pytestmark = pytest.mark.samples(
    "test_a_plugin_asks_and_the_service_makes_the_request",
    "test_what_may_not_be_paid_is_refused_with_its_code_in_the_plugin",
)
MANIFEST = f"Manifest(sites=({API!r},), operations=('pay',), assets=('USDC',))"


def source(name: str, body: str, manifest: str = MANIFEST, effects: str = "Effects.SPEND") -> str:
    made = skill_source(name, body=body, manifest=manifest, effects=effects)
    return f"{HEAD}\nfrom solward import Manifest\n{made}"


@pytest.fixture
async def seller(
    authority: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """A site of the Internet, as the service's payments find it."""
    ca, certificate = authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    made = Site(says("42", "HTTP/1.1 200 OK\r\nX-Report: 7"))
    server = await asyncio.start_server(made.serve, LISTEN, 0, ssl=context)
    found_at(monkeypatch, ca, server.sockets[0].getsockname()[1])
    yield made
    server.close()


def found_at(monkeypatch: pytest.MonkeyPatch, ca: Path, port: int) -> None:
    """Let services find every site at a port of this machine, by a public address."""

    async def resolve(_host: str, _port: int) -> list[str]:
        return [ADDRESS]

    async def dial(_address: str, _port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        return await httpcore.AnyIOBackend().connect_tcp(LISTEN, port, timeout)

    trusted = ssl.create_default_context(cafile=ca)
    monkeypatch.setattr(
        service, "Sites", partial(Sites, resolve=resolve, dial=dial, trusted=trusted)
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


async def test_a_plugin_asks_and_the_service_makes_the_request(
    shelf: Shelf, opened: Opened, seller: Site
) -> None:
    asks = f"""
        answer = await context.pay(
            url={URL!r}, method="POST", headers={{"X-Day": "1"}}, body="what?", max="0.01 USDC")
        assert type(answer).__name__ == "PaidAnswer"
        assert answer.payment is None
        assert not answer.truncated
        return f"{{answer.status}} {{answer.header('x-report')}} {{answer.body!r}}"
    """
    shelf.install("acme", {"asks": source("asks", asks)})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        assert await hosted.run("asks", wallet.id) == "200 7 b'42'"
        [request] = seller.requests
        assert request.line == "POST /report?day=1 HTTP/1.1"
        assert (request.header("x-day"), request.body) == ("1", b"what?")
        assert await wallet.records() == []


async def test_what_may_not_be_paid_is_refused_with_its_code_in_the_plugin(
    shelf: Shelf, opened: Opened, seller: Site
) -> None:
    seller.answer = says("pay me", "HTTP/1.1 402 Pay")
    asks = f"""
        from solward.types import errors
        try:
            await context.pay(url={URL!r}, max="0.01 USDC")
        except errors.PaymentRefused as error:
            assert error.code and error.reason, error
            raise
    """
    shelf.install("acme", {"asks": source("asks", asks)})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        with pytest.raises(PaymentRefused) as caught:
            await hosted.run("asks", wallet.id)
        assert caught.value.code
        assert await wallet.records() == []


@promise("manifest-bounds-operations")
@pytest.mark.parametrize(
    ("manifest", "request_", "code"),
    [
        (MANIFEST, "url='https://other.example.com/', max='1 USDC'", "site_not_declared"),
        (MANIFEST, f"url={URL!r}, max='1 SOL'", "asset_not_declared"),
        (
            MANIFEST.replace("pay", "transfer"),
            f"url={URL!r}, max='1 USDC'",
            "operation_not_declared",
        ),
        ("None", f"url={URL!r}, max='1 USDC'", "no_network"),
    ],
    ids=["site", "asset", "operation", "no-manifest"],
)
async def test_what_a_manifest_does_not_name_is_not_asked_for(
    shelf: Shelf, opened: Opened, seller: Site, manifest: str, request_: str, code: str
) -> None:
    shelf.install("acme", {"asks": source("asks", f"await context.pay({request_})", manifest)})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        with pytest.raises(SkillError) as caught:
            await hosted.run("asks", wallet.id)
        assert caught.value.code == code
        assert seller.requests == []


async def test_a_plugin_pays_once_however_often_its_call_is_repeated(
    shelf: Shelf, opened: Opened, authority: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = f"""
        answer = await context.pay(url={URL!r}, max="0.01 USDC")
        paid = answer.payment
        assert type(paid).__name__ == "PaymentView"
        assert (str(paid.amount), paid.symbol, paid.site) == ("0.01", "USDC", {API!r}), paid
        return f"{{answer.body.decode()}} {{paid.status}} {{paid.served}} {{paid.id}}"
    """
    shelf.install("acme", {"asks": source("asks", asks)})
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority[1])
    fake = FakeSeller(lambda _asked: Reply(500))
    server = await asyncio.start_server(fake.serve, LISTEN, 0, ssl=tls)
    found_at(monkeypatch, authority[0], server.sockets[0].getsockname()[1])
    async with opened(payments_localnet_as="devnet") as hosted:
        made = SimpleNamespace(service=hosted.stand.service)
        shop = Shop(cast(Any, made), fake, close=asyncio.Event().wait)

        async def sells(asked: Asked) -> Reply:
            if not asked.paid:
                return shop.asks(resource=URL)
            return Reply(200, (receipt(await shop.settle(asked)),), b"sunny")

        fake.answer = sells
        wallet = await hosted.stand.wallet()
        await wallet.run("swap", inputToken="SOL", outputToken="USDC", amount=Decimal("0.1"))
        # It opens the account that is paid.
        opens = {"mint": USDC, "to": str(OWNER.pubkey()), "amount": Decimal("0.001")}
        await wallet.run("transfer_token", **opens)
        await shop.call("requestAirdrop", str(SPONSOR.pubkey()), 1_000_000_000)
        actor = Actor("admin", action_key="call-7")
        first = await hosted.run("asks", wallet.id, actor=actor)
        assert first.startswith("sunny confirmed yes ")
        assert await hosted.run("asks", wallet.id, actor=actor) == first
        assert (len(shop.settled), await shop.earned()) == (1, PRICE + 1_000)
        (record,) = [each for each in await wallet.records() if each.type == "payment"]
        assert first.endswith(record.id)
    server.close()
