"""What must hold of one purchase by the ledger, whoever asked for it and by whatever protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.paying_service import Buyer, command, units
from tests.support.payment_sellers import Seller

CLIENTS = ("rest", "command")


@dataclass(frozen=True)
class Purchase:
    """What a buyer got, and what it cost by the ledger.

    Attributes:
        body: of the seller's answer.
        payment: as the service shows it.
        fee: lamports that the buyer paid beside the price.
    """

    body: Any
    payment: Any
    fee: int


def asked(buyer: Buyer, client: str, url: str, most: str, **request: Any) -> tuple[Any, Any]:
    """The seller's answer, and the payment, by one of `CLIENTS`."""
    if client == "rest":
        answer = buyer.paid(url, most=most, **request)
        assert answer["response"]["status"] == 200, answer
        return json.loads(answer["response"]["body"]), answer["payment"]
    options = ["--max", most, "--wallet", buyer.wallet]
    if "body" in request:
        options += ["-d", request["body"], "-H", "Content-Type: application/json"]
    if "protocol" in request:
        options += ["--protocol", request["protocol"]]
    ran = command(buyer, "pay", "curl", url, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout), buyer.payments()[0]


def purchase(
    buyer: Buyer,
    seller: Seller,
    path: str,
    price: int,
    client: str = "rest",
    most: str = "0.1 USDC",
    **request: Any,
) -> Purchase:
    """Buy once, and hold it against the ledger: the price left once, for one answer, and counts."""
    ledger = buyer.ledger
    left, taken, sol = buyer.left(), ledger.usdc(seller.pay_to), ledger.sol(buyer.address)
    counted, known = buyer.counted(), {each["signature"] for each in ledger.history(buyer.address)}
    body, payment = asked(buyer, client, f"{seller.url}{path}", most, **request)

    payment = buyer.ended(payment["id"])
    assert payment["status"] == "confirmed", payment
    assert (payment["state"], payment["served"]) == ("landed", "yes")
    assert payment["site"] == seller.site
    assert payment["payTo"] == seller.pay_to
    assert units(payment["amount"]) == price
    assert left - buyer.left() == price
    assert ledger.usdc(seller.pay_to) - taken == price
    assert buyer.counted() - counted == price
    # One transaction touched the wallet's account, and it is the one that the record names.
    [new] = [each for each in ledger.history(buyer.address) if each["signature"] not in known]
    assert new["err"] is None
    assert payment["signature"] == new["signature"]
    record = buyer.record(payment["id"])
    assert (record["status"], record["type"]) == ("confirmed", "payment")
    assert record["signature"] == new["signature"]
    return Purchase(body, payment, sol - ledger.sol(buyer.address))
