"""The tests' own seller is one that clients of others pay."""

from __future__ import annotations

import pytest
from tests.e2e.payments.settling_seller import SettlingSeller
from tests.e2e.payments.stage import LAMPORTS, Counterparts

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


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
