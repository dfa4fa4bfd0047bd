"""Sellers that settle what they please: nothing is paid twice, nothing leaves uncounted, and what
a seller says proves nothing."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from solders.signature import Signature
from tests.e2e.payments.buyers import Buyer, may_pay, rpc_of, with_ledger
from tests.e2e.payments.settling_seller import Handed, Reply, SettlingSeller
from tests.e2e.payments.stage import LAMPORTS, MINT, Counterparts, Ledger
from tests.promises import promise
from tests.support.processes import Service

pytestmark = [pytest.mark.more, pytest.mark.timeout(300)]

PRICE = 50_000


@dataclass(frozen=True)
class Place:
    """A service with its embedded ledger, whose word is enough to give money back."""

    service: Service
    ledger: Ledger
    seller: SettlingSeller

    def buyer(self, **options: Any) -> Buyer:
        """A wallet, without SOL where the seller pays its fees, and a key that may pay the seller a
        dollar a day."""
        grant = may_pay(self.seller.site, per_day="1")
        needed = LAMPORTS if self.seller.protocol == "mpp" else 0
        return Buyer.made(self.service, self.ledger, grant, **{"lamports": needed} | options)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home: Path = tmp_path_factory.mktemp("service") / "home"
    seller = SettlingSeller()
    service = with_ledger(home, seller.site).start()
    try:
        with Ledger.with_giver(rpc_of(service)) as ledger, seller.on(ledger):
            yield Place(service, ledger, seller)
    finally:
        service.stop()


@pytest.fixture
def place(opened: Place) -> Iterator[Place]:
    opened.seller.forget()
    opened.seller.on(opened.ledger)
    yield opened
    assert opened.seller.problems == []


@pytest.fixture(params=["x402", "mpp"])
def either(request: pytest.FixtureRequest, place: Place) -> Place:
    """With a seller that pays the network fee, and with one that has the wallet pay it."""
    place.seller.protocol = request.param
    return place


def landings(buyer: Buyer) -> int:
    """Transactions of the wallet's account that succeeded, but for that which filled it."""
    return sum(each["err"] is None for each in buyer.ledger.history(buyer.address)) - 1


def in_error(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    return seller.keeps


def without_a_word(_seller: SettlingSeller) -> Callable[[Handed], Reply]:
    return lambda _handed: Reply(0)


def serving_all_the_same(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    return lambda _handed: seller.give()


def with_a_signature_of_nothing(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    return lambda _handed: seller.give(str(Signature.new_unique()))


def with_another_buyers_payment(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    """The receipt of an equal payment to the same seller, which did land."""
    landed = seller.ledger.give(seller.pay_to, PRICE)
    return lambda _handed: seller.give(landed)


def asking_for_ever(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    return seller.asks_again


def with_a_byte_changed(seller: SettlingSeller) -> Callable[[Handed], Reply]:
    """One unit more than the wallet signed: its signature is not of that."""

    def act(handed: Handed) -> Reply:
        more = handed.wire.replace(
            bytes([12]) + PRICE.to_bytes(8, "little"),
            bytes([12]) + (PRICE + 1).to_bytes(8, "little"),
        )
        assert more != handed.wire
        return seller.give(seller.ledger.send(seller.signed(more)))

    return act


Ending = Callable[[SettlingSeller], Callable[[Handed], Reply]]
# What a seller does that never settles -> what the service says of its serving.
NEVER: dict[Ending, str] = {
    in_error: "no",
    without_a_word: "unknown",
    serving_all_the_same: "yes",
    with_a_signature_of_nothing: "yes",
    with_another_buyers_payment: "yes",
    asking_for_ever: "no",
    with_a_byte_changed: "yes",
}


@promise("given-back-once-dead")
def test_what_never_settles_counts_until_it_cannot_and_then_comes_back(either: Place) -> None:
    seller = either.seller
    acts = {f"/{ending.__name__}": ending(seller) for ending in NEVER}
    seller.act = lambda handed: acts[handed.path](handed)
    buyers = {ending: either.buyer() for ending in NEVER}

    def buys(ending: Ending) -> Any:
        url = f"http://{seller.site}/{ending.__name__}"
        return buyers[ending].paid(url)["payment"], buyers[ending].counted()

    with ThreadPoolExecutor(len(NEVER)) as pool:
        made = dict(zip(NEVER, pool.map(buys, NEVER), strict=True))
    for ending, (payment, counted) in made.items():
        # Whatever the seller says, while the bytes may land their amount is not to be spent again.
        assert (payment["status"], counted) == ("pending", PRICE), ending.__name__
        assert payment["served"] == NEVER[ending], ending.__name__
    assert sorted(each.path for each in seller.handed) == sorted(acts)
    for ending, (payment, _) in made.items():
        buyer = buyers[ending]
        ended = buyer.ended(payment["id"])
        assert (ended["status"], ended["state"]) == ("failed", "expired"), ending.__name__
        assert (buyer.counted(), buyer.spent(), landings(buyer)) == (0, 0, 0), ending.__name__
        assert len(buyer.payments()) == 1


@promise("ledger-alone-confirms")
def test_what_is_settled_late_is_found_and_counted(either: Place) -> None:
    seller, buyer = either.seller, either.buyer()
    seller.act = seller.keeps
    payment = buyer.paid(seller.url)["payment"]
    assert (payment["status"], payment["served"]) == ("pending", "no")
    # It has 150 blocks to land in, of which the answer took about 30.
    handed_at = either.ledger.call("getBlockHeight")
    while either.ledger.call("getBlockHeight") < handed_at + 60:
        time.sleep(0.05)
    either.ledger.landed(seller.settle(seller.handed[0]))
    ended = buyer.ended(payment["id"])
    assert (ended["status"], ended["state"], ended["served"]) == ("confirmed", "landed", "no")
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("settled-after-500-confirmed")
def test_what_is_settled_after_an_error_without_a_receipt_is_found(either: Place) -> None:
    seller, buyer = either.seller, either.buyer()
    seller.act = seller.fails_and_settles
    answer = buyer.paid(seller.url, key="asked for once")
    assert answer["response"]["status"] == 500
    ended = buyer.ended(answer["payment"]["id"])
    assert (ended["state"], ended["served"]) == ("landed", "no")
    # The same request again gets the stored answer, and nothing is shown or paid once more.
    assert buyer.paid(seller.url, key="asked for once")["response"] == answer["response"]
    assert (len(seller.handed), landings(buyer)) == (1, 1)
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("resent-bytes-pay-once")
def test_what_is_sent_twice_leaves_once(either: Place) -> None:
    seller, buyer = either.seller, either.buyer()

    def twice(handed: Handed) -> Reply:
        for _ in range(2):
            signature = either.ledger.landed(seller.settle(handed))
        seller.settle(handed)
        return seller.give(signature)

    seller.act = twice
    payment = buyer.paid(seller.url)["payment"]
    assert buyer.ended(payment["id"])["state"] == "landed"
    assert landings(buyer) == 1
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("resent-bytes-pay-once")
def test_what_two_facilitators_settle_leaves_once(place: Place, tmp_path: Path) -> None:
    seller, buyer = place.seller, place.buyer()
    others = Counterparts(place.ledger, tmp_path)
    sponsor = Keypair()
    place.ledger.give(str(sponsor.pubkey()), 0, LAMPORTS)
    seller.sponsor = sponsor
    try:
        both = [others.facilitator(each, sponsor)[1] for each in ("x402_python", "npm")]

        def settled_by(facilitator: str, handed: Handed) -> Any:
            offer = seller.offer()
            shown = {"transaction": base64.b64encode(handed.wire).decode()}
            payload = {
                "x402Version": 2,
                "resource": {"url": seller.url},
                "accepted": offer,
                "payload": shown,
            }
            asked = {"paymentPayload": payload, "paymentRequirements": offer}
            answer = httpx.post(f"{facilitator}/settle", json=asked, timeout=40)
            assert answer.status_code == 200, answer.text
            return answer.json()

        def act(handed: Handed) -> Reply:
            with ThreadPoolExecutor() as pool:
                told = list(pool.map(lambda each: settled_by(each, handed), both))
            [signature] = {each["transaction"] for each in told if each["success"]}
            return seller.give(signature)

        seller.act = act
        payment = buyer.paid(seller.url)["payment"]
    finally:
        others.stop()
    ended = buyer.ended(payment["id"])
    assert (ended["state"], ended["served"]) == ("landed", "yes")
    assert landings(buyer) == 1
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("landed-error-given-back")
def test_what_lands_with_an_error_comes_back(place: Place) -> None:
    """The money is gone by the time the seller settles: the network takes the sponsor's fee."""
    seller, buyer = place.seller, place.buyer(usdc=PRICE)

    def emptied_first(handed: Handed) -> Reply:
        with place.service.client() as admin:
            given = {"mint": str(MINT), "to": str(place.ledger.giver.pubkey()), "amount": 0.05}
            moved = admin.post(f"/wallets/{buyer.wallet}/token-transfer", json=given)
            assert moved.status_code == 200, moved.text
        return seller.give(seller.settle(handed))

    place.ledger.give(buyer.address, 0, LAMPORTS)
    seller.act = emptied_first
    payment = buyer.paid(seller.url)["payment"]
    ended = buyer.ended(payment["id"])
    assert (ended["status"], ended["state"]) == ("failed", "landed_error")
    assert (buyer.counted(), seller.took) == (0, 0)


@promise("price-rise-asks-person")
def test_a_price_that_rises_by_more_than_a_fifth_is_held(place: Place) -> None:
    seller, buyer = place.seller, place.buyer()
    buyer.ended(buyer.paid(seller.url)["payment"]["id"])
    seller.price = 60_000
    buyer.ended(buyer.paid(seller.url)["payment"]["id"])
    seller.price = 72_001
    held = buyer.pay(seller.url)
    assert held.status_code == 202, held.text
    assert len(seller.handed) == 2
    assert buyer.spent() == buyer.counted() == 110_000


@promise("expired-challenge-unpaid")
def test_a_challenge_that_has_expired_is_not_paid(place: Place) -> None:
    seller = place.seller
    seller.protocol = "mpp"
    buyer = place.buyer()
    seller.parameters = {"expires": "2020-01-01T00:00:00Z"}
    assert "(offer_expired)" in buyer.refused(seller.url)
    assert (seller.unpaid, seller.handed, buyer.payments()) == (1, [], [])
    assert buyer.spent() == buyer.counted() == seller.took == 0
    seller.parameters = {"expires": "2120-01-01T00:00:00Z"}
    assert buyer.ended(buyer.paid(seller.url)["payment"]["id"])["state"] == "landed"
    assert buyer.spent() == buyer.counted() == seller.took == PRICE


@promise("expired-challenge-unpaid")
def test_splits_cost_no_rent(place: Place) -> None:
    """Eight accounts opened at the wallet's cost would take a hundred times the price."""
    seller = place.seller
    seller.protocol = "mpp"
    buyer = place.buyer()
    lamports = place.ledger.call("getBalance", buyer.address)["value"]
    there = [str(place.ledger.buyer(0).pubkey()) for _ in range(8)]
    strangers = [str(Keypair().pubkey()) for _ in range(8)]

    def split(recipients: list[str], **more: Any) -> None:
        splits = [{"recipient": each, "amount": "1000"} | more for each in recipients]
        seller.details = {"splits": splits}

    for recipients in (strangers, there):
        split(recipients, ataCreationRequired=True)
        assert "(opens_accounts)" in buyer.refused(seller.url)
    split([*there[:7], strangers[0]])
    assert "does not exist, and the payment does not open it" in buyer.refused(seller.url)
    assert (seller.handed, buyer.spent(), buyer.counted()) == ([], 0, 0)
    assert place.ledger.call("getBalance", buyer.address)["value"] == lamports
    split(there)
    assert buyer.ended(buyer.paid(seller.url)["payment"]["id"])["state"] == "landed"
    assert buyer.spent() == buyer.counted() == PRICE
    assert [place.ledger.usdc(each) for each in (*there, seller.pay_to)] == [1_000] * 8 + [42_000]
    left = place.ledger.call("getBalance", buyer.address)["value"]
    assert 5_000 <= lamports - left < 6_000, "more than the network fee left"
