"""A third party's payment protocol in its plugin host: what it is given, what it may answer, and
what becomes of one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from tests.promises import promise
from tests.support.hosts import QUICK
from tests.support.payments import whole
from tests.support.plugins import HEAD, Shelf, shelf

from solward.hosts import plugins
from solward.hosts.plugins import PluginHosts, plugin_hosts
from solward.hosts.supervisor import Hosts
from solward.plugins import loaded as loaded_module
from solward.plugins import open_registry
from solward.plugins.discovery import environment
from solward.plugins.loaded import LoadedPayment
from solward.support.base58 import b58encode
from solward.types.errors import SkillError
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSplit,
)

pytestmark = pytest.mark.samples(
    "test_it_is_given_a_seller_s_answer_and_gives_offers_headers_and_a_receipt"
)

__all__ = ["shelf"]

SELLER = "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5"
SPONSOR = "2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk"
SIGNATURE = b58encode(bytes(range(64)))
URL = "https://api.example.com/x"

PROTOCOL = (
    HEAD
    + """
import os, pathlib, socket, time
import httpx
from solward import (
    PaymentMode, PaymentOffer, PaymentReceipt, PaymentSpec, PaymentSplit, read_json)

@hookimpl
def payment_spec():
    return PaymentSpec("acme")

@hookimpl
async def payment_offers(answer):
    wanted = answer.header("X-Acme")
    if wanted == "spin":
        while True:
            pass
    if wanted == "sleep":
        await asyncio.sleep(3600)
    if wanted == "die":
        os._exit(1)
    if wanted == "bug":
        raise ValueError("a seller's words")
    if wanted == "not a list":
        return (each for each in ())
    if wanted == "not offers":
        return [5]
    if wanted == "odd amount":
        return [offer(units="5")]
    if wanted == "fetch":
        async with httpx.AsyncClient() as http:
            await http.get("https://api.example.com/")
    if wanted == "read":
        return [offer(description=pathlib.Path(answer.body.decode()).read_text())]
    return [offer(raw={"body": answer.body.decode(), "headers": [list(each) for each in
        answer.headers], "method": answer.method, "status": answer.status, "half": 0.5})]

def offer(**fields):
    known = {"network": "devnet", "asset": "SOL", "units": 2**63,
        "pay_to": "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5",
        "modes": (PaymentMode.SPONSORED, PaymentMode.PUSH),
        "fee_payer": "2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk",
        "splits": (PaymentSplit("2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk", 1),)}
    return PaymentOffer(**{**known, **fields})

@hookimpl
async def payment_headers(offer, proof):
    shown = proof.wire.hex() if proof.wire else proof.signature
    return {"X-Acme-Paid": f"{offer.raw['half']} {offer.units} {shown}"}

@hookimpl
async def payment_receipt(offer, answer):
    if answer.status == 500:
        raise ValueError("no receipt")
    return PaymentReceipt(answer.header("X-Receipt"), "because")
"""
)


def asked(value: str = "", body: bytes = b"") -> HttpAnswer:
    return HttpAnswer(URL, "GET", 402, (("X-Acme", value), ("A", "1"), ("A", "2")), body)


@pytest_asyncio.fixture
async def hosts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PluginHosts]:
    monkeypatch.setattr(plugins, "Hosts", partial(Hosts, limits=QUICK))
    async with plugin_hosts() as made:
        yield made


@pytest_asyncio.fixture
async def acme(shelf: Shelf, hosts: PluginHosts) -> LoadedPayment:
    shelf.install("acme", {"acme": PROTOCOL}, "solward.payments")
    registry = await open_registry(entry_points=shelf.entry_points(), hosts=hosts)
    assert registry.problems == ()
    return registry.payments["acme"]


async def test_it_is_given_a_seller_s_answer_and_gives_offers_headers_and_a_receipt(
    acme: LoadedPayment,
) -> None:
    body = ("x" * (300 << 10)).encode()
    (offer,) = whole(await acme.offers(asked("é", body[:1000])))
    assert offer == PaymentOffer(
        "devnet",
        "SOL",
        2**63,
        SELLER,
        (PaymentMode.SPONSORED, PaymentMode.PUSH),
        fee_payer=SPONSOR,
        splits=(PaymentSplit(SPONSOR, 1),),
        raw=offer.raw,
    )
    assert offer.raw["headers"] == [["X-Acme", "é"], ["A", "1"], ["A", "2"]]
    assert (offer.raw["method"], offer.raw["status"]) == ("GET", 402)
    handed = PaymentProof(PaymentMode.SPONSORED, SPONSOR, wire=b"\x01\x02")
    assert await acme.headers(offer, handed) == {"X-Acme-Paid": f"0.5 {2**63} 0102"}
    pushed = PaymentProof(PaymentMode.PUSH, SPONSOR, signature=SIGNATURE)
    assert await acme.headers(offer, pushed) == {"X-Acme-Paid": f"0.5 {2**63} {SIGNATURE}"}
    served = HttpAnswer(URL, "GET", 200, (("x-receipt", SIGNATURE),), body)
    assert await acme.receipt(offer, served) == PaymentReceipt(SIGNATURE, "because")
    assert await acme.receipt(offer, HttpAnswer(URL, "GET", 500)) is None


@promise("protocol-gets-offer-only")
@pytest.mark.parametrize("value", ["bug", "odd amount", "not a list", "not offers", "fetch", "die"])
async def test_one_that_fails_says_so_and_is_asked_again(acme: LoadedPayment, value: str) -> None:
    with pytest.raises(SkillError, match="The payment protocol 'acme' failed") as failed:
        whole(await acme.offers(asked(value)))
    assert failed.value.code == "payment_protocol"
    assert "seller" not in str(failed.value)
    assert len(whole(await acme.offers(asked()))) == 1


@promise("protocol-gets-offer-only")
async def test_it_reads_no_file_of_the_service(acme: LoadedPayment, tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("5K...")
    with pytest.raises(SkillError, match=r"failed: (PermissionError|FileNotFoundError)"):
        whole(await acme.offers(asked("read", str(secret).encode())))


@promise("protocol-gets-offer-only", "hanging-hook-holds-nobody")
@pytest.mark.parametrize("value", ["sleep", "spin"])
async def test_one_that_hangs_is_not_waited_for_and_holds_up_nobody(
    acme: LoadedPayment, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_module, "PROTOCOL_TIME_LIMIT_S", 0.3)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    task = asyncio.create_task(others())
    with pytest.raises(SkillError, match=r"did not answer within 0\.3 s"):
        whole(await acme.offers(asked(value)))
    task.cancel()
    assert turns > 5


@promise("built-in-protocol-names-kept")
async def test_a_third_party_s_x402_never_takes_the_place_of_the_built_in_one(
    shelf: Shelf, hosts: PluginHosts
) -> None:
    source = PROTOCOL.replace('PaymentSpec("acme")', 'PaymentSpec("x402")')
    shelf.install("acme", {"x402": source}, "solward.payments")
    own = [
        each.entry_point
        for each in environment()[0]
        if each.entry_point.value.startswith("solward_plugins.payments")
    ]
    registry = await open_registry(entry_points=[*shelf.entry_points(), *own], hosts=hosts)
    [problem] = registry.problems
    assert (problem.code, problem.distribution) == ("name_conflict", "acme")
    assert list(registry.payments) == ["mpp", "x402"]
    assert {each.distribution for each in registry.payments.values()} == {"solward"}
