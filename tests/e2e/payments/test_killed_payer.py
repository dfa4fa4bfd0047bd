"""Killed at every named point of paying, with sellers that settle before they answer, after, or
never: by the ledger a purchase is paid once at most, and what counts is what left."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.payments.buyers import Buyer, armed, beside, may_pay, rpc_of, with_ledger
from tests.e2e.payments.settling_seller import Handed, Reply, SettlingSeller
from tests.e2e.payments.stage import Counterparts, Ledger
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.processes import Service

from solward.vault.money.steps import Step

pytestmark = [pytest.mark.more, pytest.mark.timeout(1200)]

PRICE = 50_000
# In the order that a sponsored payment passes them.
STEPS = (
    Step.BUILT,
    Step.ASSESSED,
    Step.RESERVED,
    Step.SIGNED,
    Step.WRITTEN_AHEAD,
    Step.HANDED_OVER,
    Step.ANSWERED,
    Step.LANDED,
    Step.SETTLED,
)
# Reserved, and nothing was signed that could be shown.
RELEASED = (Step.RESERVED, Step.SIGNED)

SELLERS: dict[str, Callable[[SettlingSeller], Callable[[Handed], Reply]]] = {
    "before": lambda seller: seller.settles,
    "after": lambda seller: seller.settles_after,
    "never": lambda seller: seller.keeps,
}


@dataclass(frozen=True)
class Place:
    service: Service
    ledger: Ledger
    seller: SettlingSeller


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A service with its embedded ledger, which is killed with it."""
    home = tmp_path / "service" / "home"
    home.parent.mkdir()
    seller = SettlingSeller()
    service = with_ledger(home, seller.site).start()
    try:
        with Ledger.with_giver(rpc_of(service)) as ledger, seller.on(ledger):
            yield Place(service, ledger, seller)
    finally:
        service.stop(signal.SIGKILL)


def again_until_known(buyer: Buyer, url: str, key: str) -> httpx.Response:
    """The answer to the request made again once it is not in progress any more."""

    def asked() -> httpx.Response | None:
        answer = buyer.pay(url, key=key)
        return None if answer.status_code == 409 else answer

    known: httpx.Response = wait_until(asked, "the answer")
    return known


def killed(place: Place, step: Step, settling: str, turn: int) -> Callable[[], bool]:
    """One purchase, killed at `step`, asked for again with its key after a restart.

    Returns:
        What checks it by the ledger; it waits for the end of the payment, and says whether the
        seller was paid. On a busy machine a restart may take longer than the payment's bytes live:
        then nobody is.
    """
    service, seller = place.service, place.seller
    seller.forget()
    seller.on(place.ledger)
    seller.act = SELLERS[settling](seller)
    grant = may_pay(seller.site)
    buyer = Buyer.made(service, place.ledger, grant, name=f"{step}-{settling}-{turn}")
    key = f"{step}-{settling}-{turn}"
    service.stop()
    service.start(armed(f"kill:{step}:1"))
    # Steps after the answer may be passed when it is already given.
    with contextlib.suppress(httpx.TransportError):
        buyer.pay(seller.url, key=key)
    service.wait_killed()
    service.start()
    answer = again_until_known(buyer, seller.url, key)
    told = (answer.status_code, answer.text)
    handed, took = list(seller.handed), seller.pay_to

    def check() -> bool:
        payments = [buyer.ended(each["id"]) for each in buyer.payments()]
        assert len(payments) == 1, (told, payments)
        [payment] = payments
        paid = place.ledger.usdc(took)
        assert buyer.spent() == paid, (told, payment)
        assert paid in ((0, PRICE) if is_due(step, settling) else (0,)), (told, payment)
        assert buyer.counted() == paid, (told, payment)
        assert len({each.wire for each in handed}) <= 1, "two payments for one purchase"
        assert (payment["state"] == "landed") == bool(paid), payment
        if step in RELEASED:
            assert handed == []
            assert answer.status_code == 500
        succeeded = [each for each in place.ledger.history(buyer.address) if each["err"] is None]
        assert len(succeeded) == 1 + bool(paid), "but for the one that filled the account"
        return bool(paid)

    return check


def is_due(step: Step, settling: str) -> bool:
    """Whether the seller is paid where the service is back in time."""
    return settling != "never" and step not in RELEASED


def passed(settling: str) -> tuple[Step, ...]:
    """Those that a payment passes while somebody waits for it."""
    return STEPS if settling != "never" else STEPS[:-2]


@promise("kill-at-each-payment-step", "crash-leaves-one-payment")
@pytest.mark.parametrize(
    ("step", "settling"),
    [
        pytest.param(Step.ASSESSED, "before", marks=pytest.mark.long),
        pytest.param(Step.SIGNED, "before", marks=pytest.mark.long),
        (Step.WRITTEN_AHEAD, "before"),
        (Step.HANDED_OVER, "never"),
        (Step.ANSWERED, "after"),
        (Step.LANDED, "before"),
    ],
)
def test_a_purchase_killed_while_it_is_paid_is_paid_once_at_most(
    place: Place, step: Step, settling: str
) -> None:
    turns = range(3) if is_due(step, settling) else range(1)
    assert any(killed(place, step, settling, turn)() for turn in turns) == is_due(step, settling)


@promise("crash-leaves-one-payment")
@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "settling"), [(step, each) for each in SELLERS for step in passed(each)]
)
def test_every_point_twenty_times(place: Place, step: Step, settling: str) -> None:
    # What expires is waited for at the end, once for all turns.
    checks = [killed(place, step, settling, turn) for turn in range(1, 21)]
    paid = [check() for check in checks]
    assert any(paid) == is_due(step, settling)


@pytest.fixture
def away(stage: Counterparts, tmp_path: Path) -> Iterator[Place]:
    """A service beside a ledger that lives on when it is killed."""
    seller = SettlingSeller().on(stage.ledger)
    service = beside(tmp_path / "service" / "home", stage.ledger, seller.site)
    service.home.parent.mkdir()
    try:
        with seller:
            yield Place(service.start(), stage.ledger, seller)
    finally:
        service.stop(signal.SIGKILL)


def killed_before_the_answer(place: Place, act: Callable[[Handed, Buyer], Any]) -> Buyer:
    """A purchase whose seller takes the bytes, and whose service is killed before it answers."""
    service, seller = place.service, place.seller
    buyer = Buyer.made(service, place.ledger, may_pay(seller.site))
    done = threading.Event()

    def killing(handed: Handed) -> Reply:
        assert service.process is not None
        service.process.kill()
        service.process.wait(30)
        act(handed, buyer)
        done.set()
        return Reply(0)

    seller.act = killing
    with pytest.raises(httpx.TransportError):
        buyer.pay(seller.url, key="killed")
    assert done.wait(60)
    seller.act = seller.keeps
    return buyer


def found(place: Place, buyer: Buyer) -> None:
    """Its service lives again, and knows what left."""
    place.service.start()
    [payment] = buyer.payments()
    assert buyer.ended(payment["id"])["state"] == "landed"
    assert buyer.spent() == buyer.counted() == place.seller.took == PRICE


@promise("crash-leaves-one-payment")
def test_what_is_settled_while_the_service_is_dead_is_found_when_it_lives(away: Place) -> None:
    seller = away.seller
    buyer = killed_before_the_answer(
        away, lambda handed, _: away.ledger.landed(seller.settle(handed))
    )
    found(away, buyer)
    # Made again, the request shows the same payment or tells of it, and pays for nothing more.
    again_until_known(buyer, seller.url, "killed")
    assert len({each.wire for each in seller.handed}) == 1
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("strangers-hide-no-payment")
def test_a_payment_is_found_behind_a_thousand_rows_of_strangers(away: Place) -> None:
    def buried(handed: Handed, buyer: Buyer) -> None:
        away.ledger.landed(away.seller.settle(handed))
        away.ledger.strangers_rows(buyer.address, 1_001)

    found(away, killed_before_the_answer(away, buried))
