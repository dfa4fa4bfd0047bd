"""Wallets buy from the sellers of npm: x402 in its present version and in its first."""

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

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Shop:
    sellers: dict[str, Seller]
    service: Service


@pytest.fixture(scope="module")
def shop(stage: Counterparts, serving: Callable[..., Service]) -> Shop:
    sellers = {"v1": stage.x402_v1(), "v2": stage.x402_npm()}
    return Shop(sellers, serving(*(each.site for each in sellers.values())))


@pytest.fixture
def buyer(stage: Counterparts, shop: Shop) -> Buyer:
    return Buyer.made(
        shop.service, stage.ledger, may_pay(*(each.site for each in shop.sellers.values()))
    )


@promise("other-sellers-are-paid")
@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_wallet_without_sol_buys_an_answer(
    shop: Shop, buyer: Buyer, version: str, client: str
) -> None:
    bought = purchase(buyer, shop.sellers[version], "/weather?city=Rome", 50_000, client)
    assert (bought.body["city"], bought.body["degrees"]) == ("Rome", 21)
    assert (bought.payment["protocol"], bought.payment["mode"]) == ("x402", "sponsored")
    assert bought.fee == 0


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_body_is_sent_with_the_payment(shop: Shop, buyer: Buyer, version: str) -> None:
    request = {
        "method": "POST",
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps({"text": "hello"}),
    }
    bought = purchase(buyer, shop.sellers[version], "/echo", 70_000, **request)
    assert bought.body["echo"] == {"text": "hello"}


def test_the_memo_that_the_seller_wants_is_paid_with(shop: Shop, buyer: Buyer) -> None:
    for _ in range(2):
        assert purchase(buyer, shop.sellers["v2"], "/order", 30_000).body["order"] == 7
    assert buyer.ledger.history(buyer.address)[0]["memo"] == "[7] order 7"


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_equal_purchases_are_paid_each(shop: Shop, buyer: Buyer, version: str) -> None:
    for _ in range(2):
        purchase(buyer, shop.sellers[version], "/weather", 50_000)
    assert buyer.spent() == buyer.counted() == 100_000
