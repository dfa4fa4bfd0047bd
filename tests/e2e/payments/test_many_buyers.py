"""Ten who buy at once for more than they may: by the ledger each spends its window, or all of them
the one that they share, to the unit, and not one unit more."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.payments.buyers import Buyer, armed, may_pay, rpc_of, with_ledger
from tests.e2e.payments.settling_seller import Reply, SettlingSeller
from tests.e2e.payments.stage import Ledger
from tests.promises import promise
from tests.support.processes import Service

PRICE = 10_000
BUYERS = 10
# Requests of one buyer at once, which race for the rest of its window; of all together they are
# fewer than the service makes at once.
AT_ONCE = 3


class CrowdSeller(SettlingSeller):
    """Asks nobody for a payment before so many wait for that, so that they all are judged at once;
    it does not wait for the ledger, since what it sends lands."""

    def __init__(self, crowd: int = 1) -> None:
        super().__init__()
        self._crowd = threading.Barrier(crowd)
        self.price = PRICE
        self.act = lambda handed: self.give(self.settle(handed))

    def asking(self) -> Reply:
        with suppress(threading.BrokenBarrierError):
            self._crowd.wait(4)
        return super().asking()


@dataclass(frozen=True)
class Market:
    """A service and sellers."""

    service: Service
    ledger: Ledger
    sellers: tuple[CrowdSeller, ...]

    @property
    def seller(self) -> CrowdSeller:
        return self.sellers[0]


@contextmanager
def opened(home: Path, *sellers: CrowdSeller, arming: str = "rules") -> Iterator[Market]:
    service = with_ledger(home, *(each.site for each in sellers))
    home.parent.mkdir()
    service.start(armed(arming))
    try:
        with Ledger.with_giver(rpc_of(service)) as ledger, ExitStack() as listening:
            for each in sellers:
                listening.enter_context(each.on(ledger))
            yield Market(service, ledger, sellers)
    finally:
        service.stop()


def crowded(market: Market, calls: int) -> tuple[list[Buyer], Counter[int]]:
    """Buyers that may each buy half as often as they ask, and what all their requests were
    answered."""
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
        return buyers, Counter(each.result() for each in asked)


@promise("ten-buyers-spend-exactly")
@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(10, marks=[pytest.mark.more, pytest.mark.timeout(300)]),
        pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_ten_who_ask_at_once_spend_their_windows_to_the_unit(tmp_path: Path, calls: int) -> None:
    window = PRICE * calls // 2
    seller = CrowdSeller(BUYERS * AT_ONCE)
    with opened(tmp_path / "service" / "home", seller) as market:
        buyers, answers = crowded(market, calls)
        assert answers == Counter({200: BUYERS * calls // 2, 500: BUYERS * calls // 2})
        for buyer in buyers:
            payments = [buyer.ended(each["id"]) for each in buyer.payments()]
            states = Counter(each["state"] for each in payments if each["status"] != "blocked")
            assert states == Counter({"landed": calls // 2})
            assert buyer.spent() == buyer.counted() == window
        assert seller.took == BUYERS * window
        assert len({each.wire for each in seller.handed}) == BUYERS * calls // 2


@pytest.mark.more
@pytest.mark.timeout(300)
def test_they_would_spend_more_if_they_were_judged_apart_from_what_they_reserve(
    tmp_path: Path,
) -> None:
    """That the test above can fail: a service that judges in one transaction and reserves in
    another lets through what it refuses."""
    seller = CrowdSeller(BUYERS * AT_ONCE)
    split = "mutant:split_reservation"
    with opened(tmp_path / "service" / "home", seller, arming=split) as market:
        _buyers, answers = crowded(market, 10)
        assert answers[200] > BUYERS * 10 // 2


@dataclass(frozen=True)
class AgentBuyer:
    """An agent that buys in each of its cycles, a second long at least, and a key that reads what
    its wallet did."""

    reader: Buyer
    agent: str

    @classmethod
    def made(cls, market: Market, seller: SettlingSeller, per_day: int, name: str) -> AgentBuyer:
        """A new wallet and its agent, which may pay `per_day` units; not started."""
        reader = Buyer.made(market.service, market.ledger, name=name)
        fields = {
            "name": name,
            "walletId": reader.wallet,
            "llmProvider": "rules",
            "llmModel": "rules",
            "strategy": f'always do pay_request url={seller.url} max="0.1 USDC"',
            "loopIntervalMs": 1_000,
            "maxTransactionsPerMinute": 100_000,
            "grants": [may_pay(seller.site, per_day=f"{per_day / 10**6:.6f}")],
        }
        with market.service.client() as admin:
            made = admin.post("/agents", json=fields)
        assert made.status_code == 200, made.text
        return cls(reader, made.json()["id"])

    def asked(self, admin: Any) -> int:
        """How many purchases its model has decided on, and seen the end of."""
        query: dict[str, Any] = {"limit": 500}
        decisions = admin.get(f"/agents/{self.agent}/decisions", params=query).json()["decisions"]
        return sum(each["action"].startswith("pay_request") for each in decisions)

    def landed(self) -> int:
        """Units of its payments, each of which must have landed; refused ones have none."""
        payments = [self.reader.ended(each["id"]) for each in self.reader.payments()]
        states = Counter(each["state"] for each in payments if each["status"] != "blocked")
        assert states.keys() <= {"landed"}
        return PRICE * states["landed"]


@promise("ten-buyers-spend-exactly")
@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(10, marks=[pytest.mark.more, pytest.mark.timeout(300)]),
        pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_ten_agents_that_buy_at_once_spend_their_windows_to_the_unit(
    tmp_path: Path, calls: int
) -> None:
    """Five have a window each, for half as often as they ask; five share that of a site, for three
    of four times that they ask."""
    window, shared = PRICE * calls // 2, PRICE * (5 * calls * 3 // 4)
    seller, other = CrowdSeller(), CrowdSeller()
    home = tmp_path / "service" / "home"
    with opened(home, seller, other) as market, market.service.client() as admin:
        rule = {
            "who": f"site:{other.site}",
            "may": ["pay"],
            "assets": {"USDC": {"per": {"24h": f"{shared / 10**6:.6f}"}}},
        }
        put = admin.put("/policy", json={"grants": [rule]})
        assert put.status_code == 200, put.text
        alone = [AgentBuyer.made(market, seller, window, f"alone-{number}") for number in range(5)]
        together = [
            AgentBuyer.made(market, other, PRICE * calls * 2, f"together-{number}")
            for number in range(5)
        ]
        agents = alone + together
        for each in agents:
            assert admin.post(f"/agents/{each.agent}/start").status_code == 200
        deadline = time.monotonic() + 6 * calls + 60
        while min(each.asked(admin) for each in agents) < calls:
            assert time.monotonic() < deadline, [each.asked(admin) for each in agents]
            time.sleep(0.2)
        for each in agents:
            assert admin.post(f"/agents/{each.agent}/stop").status_code == 200
        for each in alone:
            assert each.landed() == each.reader.spent() == window
        assert sum(each.landed() for each in together) == shared
        assert sum(each.reader.spent() for each in together) == shared
        assert (seller.took, other.took) == (5 * window, shared)
        shown = [each.wire for shop in (seller, other) for each in shop.handed]
        assert len(set(shown)) == len(shown) == (5 * window + shared) // PRICE
