"""Sellers that others made settle on a localnet what clients that others made pay."""

from __future__ import annotations

import pytest
from tests.e2e.payments.settling_seller import SettlingSeller
from tests.e2e.payments.stage import LAMPORTS, Counterparts, Seller

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


def buys(
    stage: Counterparts,
    seller: Seller,
    path: str,
    client: tuple[str, str],
    units: int = 50_000,
    lamports: int = 0,
    **given: object,
) -> int:
    """One answer for one payment by the ledger; the lamports that the buyer spent."""
    ledger = stage.ledger
    buyer = ledger.buyer(1_000_000, lamports)
    before, address = ledger.usdc(seller.pay_to), str(buyer.pubkey())
    answer = stage.bought(*client, buyer, url=f"{seller.url}{path}", **given)
    assert answer["status"] == 200, (answer, seller.log.read_text()[-2000:])
    assert answer["body"]["served"] >= 1
    assert ledger.usdc(address) == 1_000_000 - units
    assert ledger.usdc(seller.pay_to) - before == units
    return lamports - ledger.sol(address)


def test_x402_of_python_settles_what_its_client_pays(stage: Counterparts) -> None:
    seller = stage.x402_python()
    client = ("x402_python", "buyer.py")
    assert buys(stage, seller, "/weather?city=Rome", client) == 0
    assert buys(stage, seller, "/order", client, 30_000) == 0


def test_x402_of_npm_settles_what_its_client_pays(stage: Counterparts) -> None:
    seller = stage.x402_npm()
    assert buys(stage, seller, "/weather?city=Rome", ("npm", "x402_buyer.mjs")) == 0
    assert buys(stage, seller, "/weather", ("x402_python", "buyer.py")) == 0


def test_x402_of_the_first_version_settles_what_a_client_pays(stage: Counterparts) -> None:
    assert buys(stage, stage.x402_v1(), "/weather", ("npm", "x402_buyer.mjs")) == 0


def test_mpp_of_npm_settles_what_its_client_pays(stage: Counterparts) -> None:
    seller, client = stage.mpp_npm(), ("npm", "mpp_buyer.mjs")
    assert buys(stage, seller, "/sponsored", client) == 0
    assert buys(stage, seller, "/order", client, 30_000) == 0
    fee = buys(stage, seller, "/unsponsored", client, lamports=LAMPORTS)
    assert 0 < fee < 10_000
    assert buys(stage, seller, "/unsponsored", client, lamports=LAMPORTS, push=True) == fee


def test_mpp_of_python_settles_what_clients_pay(stage: Counterparts) -> None:
    seller = stage.mpp_python()
    assert buys(stage, seller, "/sponsored", ("pay_kit", "buyer.py")) == 0
    assert buys(stage, seller, "/unsponsored", ("pay_kit", "buyer.py"), lamports=LAMPORTS) > 0
    npm = ("npm", "mpp_buyer.mjs")
    assert buys(stage, seller, "/push", npm, lamports=LAMPORTS, push=True) > 0


def test_the_tests_own_seller_settles_what_clients_that_others_made_pay(
    stage: Counterparts,
) -> None:
    with SettlingSeller().on(stage.ledger) as seller:
        for number, client in enumerate((("x402_python", "buyer.py"), ("npm", "x402_buyer.mjs"))):
            buyer = stage.ledger.buyer(1_000_000)
            answer = stage.bought(*client, buyer, url=seller.url)
            assert answer == {"status": 200, "body": {"served": number + 1}}
            assert stage.ledger.usdc(str(buyer.pubkey())) == 950_000
        seller.protocol = "mpp"
        buyer = stage.ledger.buyer(1_000_000, LAMPORTS)
        answer = stage.bought("npm", "mpp_buyer.mjs", buyer, url=seller.url)
        assert answer == {"status": 200, "body": {"served": 3}}
        assert seller.took == 150_000
