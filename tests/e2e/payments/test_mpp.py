"""Wallets buy by MPP from @solana/mpp and from solana-pay-kit, which was mpp-sdk for Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.e2e.payments.buyers import CLIENTS, Buyer, may_pay, purchase
from tests.e2e.payments.stage import LAMPORTS, Counterparts, Seller
from tests.promises import promise
from tests.support.examples import rest_is_long
from tests.support.processes import Service

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

# A signature, and what a compute unit's price adds to it.
MOST_FEE = 20_000


@dataclass(frozen=True)
class Shop:
    sellers: dict[str, Seller]
    service: Service


@pytest.fixture(scope="module")
def shop(stage: Counterparts, serving: Callable[..., Service]) -> Shop:
    sellers = {"npm": stage.mpp_npm(), "python": stage.mpp_python()}
    return Shop(sellers, serving(*(each.site for each in sellers.values())))


def buyer(stage: Counterparts, shop: Shop, lamports: int = 0) -> Buyer:
    sites = (each.site for each in shop.sellers.values())
    return Buyer.made(shop.service, stage.ledger, may_pay(*sites), lamports=lamports)


@promise("other-sellers-are-paid")
@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
@pytest.mark.parametrize("made", ["npm", "python"])
def test_a_wallet_without_sol_buys_where_the_seller_pays_the_fee(
    stage: Counterparts, shop: Shop, made: str, client: str
) -> None:
    bought = purchase(buyer(stage, shop), shop.sellers[made], "/sponsored", 50_000, client)
    assert (bought.payment["protocol"], bought.payment["mode"]) == ("mpp", "sponsored")
    assert bought.fee == 0


@promise("other-sellers-are-paid")
@pytest.mark.parametrize("client", rest_is_long(CLIENTS, "rest"))
@pytest.mark.parametrize("made", ["npm", "python"])
def test_a_wallet_with_sol_pays_the_fee_where_nobody_else_does(
    stage: Counterparts, shop: Shop, made: str, client: str
) -> None:
    payer = buyer(stage, shop, LAMPORTS)
    bought = purchase(payer, shop.sellers[made], "/unsponsored", 50_000, client)
    assert bought.payment["protocol"] == "mpp"
    assert 0 < bought.fee < MOST_FEE


@promise("push-shows-what-landed")
def test_a_wallet_that_sends_itself_shows_what_has_landed(
    stage: Counterparts, shop: Shop, serving: Callable[..., Service]
) -> None:
    sites = [each.site for each in shop.sellers.values()]
    service = serving(*sites, arming="pushing")
    payer = Buyer.made(service, stage.ledger, may_pay(*sites), lamports=LAMPORTS)
    for made, path in (("npm", "/unsponsored"), ("python", "/push")):
        bought = purchase(payer, shop.sellers[made], path, 50_000)
        assert (bought.payment["protocol"], bought.payment["mode"]) == ("mpp", "push")
        assert 0 < bought.fee < MOST_FEE
    # It takes no push, and does not say so before it is paid: why push is chosen last.
    lost = payer.paid(f"{shop.sellers['python'].url}/unsponsored")
    assert lost["response"]["status"] == 402
    assert payer.ended(lost["payment"]["id"])["served"] == "no"
    assert payer.spent() == payer.counted() == 150_000


@pytest.mark.parametrize("made", ["npm", "python"])
def test_equal_charges_are_paid_each_without_a_memo(
    stage: Counterparts, shop: Shop, made: str
) -> None:
    payer = buyer(stage, shop, LAMPORTS)
    for path in ("/sponsored", "/sponsored", "/unsponsored", "/unsponsored"):
        purchase(payer, shop.sellers[made], path, 50_000)
    assert [each["memo"] for each in payer.ledger.history(payer.address)[:4]] == [None] * 4
    assert payer.spent() == payer.counted() == 200_000


def test_what_the_seller_calls_the_order_is_the_memo(stage: Counterparts, shop: Shop) -> None:
    payer = buyer(stage, shop)
    for _ in range(2):
        purchase(payer, shop.sellers["npm"], "/order", 30_000)
    assert [each["memo"] for each in payer.ledger.history(payer.address)[:2]] == ["[7] order 7"] * 2


def test_a_split_is_part_of_the_price(stage: Counterparts, shop: Shop) -> None:
    seller, payer = shop.sellers["npm"], buyer(stage, shop)
    taken, parted = stage.ledger.usdc(seller.pay_to), stage.ledger.usdc(seller.split)
    payment = payer.ended(payer.paid(f"{seller.url}/split")["payment"]["id"])
    assert (payment["state"], payment["served"]) == ("landed", "yes")
    assert stage.ledger.usdc(seller.pay_to) - taken == 30_000
    assert stage.ledger.usdc(seller.split) - parted == 20_000
    assert payer.spent() == payer.counted() == 50_000


def test_sol_is_paid_with_where_the_seller_asks_for_it(stage: Counterparts, shop: Shop) -> None:
    seller = shop.sellers["npm"]
    sol = {"SOL": {"perTx": "0.01", "per": {"24h": "0.01"}}}
    payer = Buyer.made(
        shop.service, stage.ledger, may_pay(seller.site, assets=sol), lamports=LAMPORTS
    )
    before = stage.ledger.sol(seller.pay_to)
    payment = payer.paid(f"{seller.url}/sol", most="0.001 SOL")["payment"]
    assert payer.ended(payment["id"])["state"] == "landed"
    assert stage.ledger.sol(seller.pay_to) - before == 1_000_000
    assert 0 < LAMPORTS - 1_000_000 - stage.ledger.sol(payer.address) < MOST_FEE


@promise("answers-read-by-protocol")
def test_a_protocol_can_be_named(stage: Counterparts, shop: Shop) -> None:
    seller, payer = shop.sellers["npm"], buyer(stage, shop)
    assert "no_offer" in payer.refused(f"{seller.url}/sponsored", protocol="x402")
    assert (payer.spent(), payer.counted()) == (0, 0)
    bought = purchase(payer, seller, "/sponsored", 50_000, protocol="mpp")
    assert bought.payment["protocol"] == "mpp"
