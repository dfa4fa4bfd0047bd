"""Wallets buy from the sellers of npm: x402 in its present version and in its first."""

from __future__ import annotations

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


@promise("other-sellers-are-paid", "answers-read-by-protocol")
@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_wallet_without_sol_buys_an_answer(
    shop: Shop, buyer: Buyer, version: str, client: str
) -> None:
    seller = shop.sellers[version]
    assert "no_offer" in buyer.refused(f"{seller.url}/weather", protocol="mpp")
    bought = purchase(buyer, seller, "/weather?city=Rome", 50_000, client)
    assert (bought.body["city"], bought.body["degrees"]) == ("Rome", 21)
    assert (bought.payment["protocol"], bought.payment["mode"]) == ("x402", "sponsored")
    assert bought.fee == 0
