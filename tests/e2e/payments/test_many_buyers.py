"""Ten who buy at once, of one seller, for more than they may: by the ledger each spends its window
to the unit, and not one unit more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.paying_service import Buyer, may_pay, rpc_of, with_ledger
from tests.support.payment_sellers import Ledger
from tests.support.service_process import Service
from tests.support.settling_seller import SettlingSeller

PRICE = 10_000
BUYERS = 10
# Requests of one buyer at once, which race for the rest of its window.
AT_ONCE = 5


@dataclass(frozen=True)
class Market:
    service: Service
    ledger: Ledger
    seller: SettlingSeller


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    seller = SettlingSeller()
    service = with_ledger(tmp_path / "service" / "home", seller.site)
    service.home.parent.mkdir()
    service.start()
    try:
        with Ledger.with_giver(rpc_of(service)) as ledger, seller.on(ledger):
            seller.price = PRICE
            # It does not wait for the ledger: what is sent lands.
            seller.act = lambda handed: seller.give(seller.settle(handed))
            yield Market(service, ledger, seller)
    finally:
        service.stop()


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(10, marks=[pytest.mark.more, pytest.mark.timeout(300)]),
        pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_ten_who_ask_at_once_spend_their_windows_to_the_unit(market: Market, calls: int) -> None:
    """Each may buy half as often as it asks."""
    window = PRICE * calls // 2
    grant = may_pay(market.seller.site, per_day=f"{window / 10**6:.6f}")
    buyers = [
        Buyer.made(market.service, market.ledger, grant, name=f"buyer-{number}")
        for number in range(BUYERS)
    ]

    def asks(buyer: Buyer) -> int:
        return buyer.pay(market.seller.url).status_code

    with ThreadPoolExecutor(BUYERS * AT_ONCE) as pool:
        asked = [pool.submit(asks, each) for _ in range(calls) for each in buyers]
        answers = Counter(each.result() for each in asked)
    assert answers == Counter({200: BUYERS * calls // 2, 500: BUYERS * calls // 2})
    for buyer in buyers:
        payments = [buyer.ended(each["id"]) for each in buyer.payments()]
        states = Counter(each["state"] for each in payments if each["status"] != "blocked")
        assert states == Counter({"landed": calls // 2})
        assert buyer.spent() == buyer.counted() == window
    assert market.seller.took == BUYERS * window
    assert len({each.wire for each in market.seller.handed}) == BUYERS * calls // 2
