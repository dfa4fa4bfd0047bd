"""Wallets buy from x402's own seller for FastAPI, which its own facilitator settles for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.e2e.payments.buyers import CLIENTS, Buyer, may_pay, purchase
from tests.e2e.payments.stage import Counterparts, Seller
from tests.promises import promise
from tests.support.examples import rest_is_long
from tests.support.processes import Service

from solward.client import SolwardClient

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Shop:
    seller: Seller
    service: Service


@pytest.fixture(scope="module")
def shop(stage: Counterparts, serving: Callable[..., Service]) -> Shop:
    seller = stage.x402_python()
    return Shop(seller, serving(seller.site))


@pytest.fixture
def buyer(stage: Counterparts, shop: Shop) -> Buyer:
    return Buyer.made(shop.service, stage.ledger, may_pay(shop.seller.site))


@promise("signature-absent-until-found", "other-sellers-are-paid")
@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
def test_a_wallet_without_sol_buys_an_answer(shop: Shop, buyer: Buyer, client: str) -> None:
    bought = purchase(buyer, shop.seller, "/weather?city=Rome", 50_000, client)
    assert (bought.body["city"], bought.body["degrees"]) == ("Rome", 21)
    assert (bought.payment["protocol"], bought.payment["mode"]) == ("x402", "sponsored")
    assert bought.payment["url"] == f"{shop.seller.url}/weather"
    assert bought.fee == 0


@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
def test_a_body_is_sent_with_the_payment(shop: Shop, buyer: Buyer, client: str) -> None:
    body = json.dumps({"text": "é 0.10"})
    bought = purchase(
        buyer,
        shop.seller,
        "/echo",
        70_000,
        client,
        method="POST",
        headers={"Content-Type": "application/json"},
        body=body,
    )
    assert bought.body["echo"] == {"text": "é 0.10"}


def test_the_memo_that_the_seller_wants_is_paid_with(shop: Shop, buyer: Buyer) -> None:
    assert purchase(buyer, shop.seller, "/order", 30_000).body["order"] == 7
    assert buyer.ledger.history(buyer.address)[0]["memo"] == "[7] order 7"


def test_the_name_that_the_seller_wants_of_each_payment_is_given(shop: Shop, buyer: Buyer) -> None:
    for _ in range(2):
        purchase(buyer, shop.seller, "/named", 20_000)


def test_equal_purchases_are_paid_each(shop: Shop, buyer: Buyer) -> None:
    for _ in range(3):
        purchase(buyer, shop.seller, "/weather", 50_000)
    for _ in range(2):
        purchase(buyer, shop.seller, "/order", 30_000)
    assert buyer.spent() == buyer.counted() == 210_000


async def test_the_typed_client_buys_the_same(shop: Shop, buyer: Buyer) -> None:
    async with SolwardClient(buyer.service.url.removesuffix("/api/v1"), buyer.token) as client:
        bought = await client.wallets.pay(
            buyer.wallet, url=f"{shop.seller.url}/weather", max="0.05 USDC"
        )
    assert bought.status == 200
    assert json.loads(bought.body)["degrees"] == 21
    assert bought.payment is not None
    assert buyer.ended(bought.payment.id)["state"] == "landed"
    assert buyer.spent() == buyer.counted() == 50_000


@promise("same-key-pays-once")
def test_one_key_buys_once_however_often_it_is_sent(shop: Shop, buyer: Buyer) -> None:
    url = f"{shop.seller.url}/weather"
    first = buyer.pay(url, key="one purchase")
    again = buyer.pay(url, key="one purchase")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["response"] == again.json()["response"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert buyer.spent() == buyer.counted() == 50_000


@promise("refused-payment-recorded")
def test_more_than_is_allowed_is_refused_and_nothing_is_signed(
    stage: Counterparts, shop: Shop
) -> None:
    poor = Buyer.made(shop.service, stage.ledger, may_pay(shop.seller.site, per_day="0.06"))
    url = f"{shop.seller.url}/weather"
    assert "max" in poor.refused(url, most="0.049999 USDC")
    assert poor.payments() == []
    poor.paid(url)
    refusal = poor.refused(url)
    assert "0.01 of 0.06 USDC left" in refusal or "0.06 USDC" in refusal, refusal
    assert poor.spent() == poor.counted() == 50_000
