"""The kit's checks of payment protocols: the built-in ones conform, and each mistake is found."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tests.plugins import test_mpp, test_x402

from solward import InvalidRequest, hookimpl
from solward.testing.conformance import Outcome, check_payment
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
)

pytestmark = pytest.mark.samples(
    "test_the_one_that_is_changed_here_conforms",
    "test_a_refusal_in_words_is_no_mistake",
    *(f"test_each_mistake_fails_its_own_check[{each}]" for each in range(2)),
)

URL = "https://api.example.com/"
SELLER = "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5"
ASKED = HttpAnswer(URL, "GET", 402, (("X-Price", "5"),))
RECEIPT = HttpAnswer(URL, "GET", 200, (("X-Receipt", "3" * 87),))

X402 = (
    [test_x402.answer(test_x402.REQUIRED), test_x402.answer(body=test_x402.REQUIRED_V1)],
    [test_x402.answer(status=200, PAYMENT_RESPONSE=test_x402.encoded(test_x402.SETTLED))],
)
MPP = (
    [
        test_mpp.asking(test_mpp.challenge()),
        test_mpp.asking(test_mpp.challenge(test_mpp.request(methodDetails=test_mpp.SPONSORED))),
    ],
    [test_mpp.receipt(test_mpp.encoded(test_mpp.RECEIPT))],
)


@pytest.mark.parametrize(("name", "cases"), [("x402", X402), ("mpp", MPP)], ids=["x402", "mpp"])
async def test_the_built_in_protocols_conform(name: str, cases: Any) -> None:
    answers, receipts = cases
    report = await check_payment(f"solward.payments:{name}", answers=answers, receipts=receipts)
    assert {each.check: each.outcome for each in report.findings} == {
        "contract": Outcome.OK,
        "offers": Outcome.OK,
        "headers": Outcome.OK,
        "receipts": Outcome.OK,
        "pure": Outcome.OK,
        "hostile_answers": Outcome.OK,
    }


async def test_without_answers_what_needs_them_is_skipped() -> None:
    report = await check_payment("solward.payments:x402")
    assert report.skipped == ("offers", "headers", "receipts", "pure")
    assert report.finding("hostile_answers").outcome is Outcome.OK


counter = itertools.count()


def offer(**fields: Any) -> PaymentOffer:
    known = {
        "network": "devnet",
        "asset": "SOL",
        "units": 5,
        "pay_to": SELLER,
        "modes": (PaymentMode.PUSH,),
    }
    return PaymentOffer(**{**known, **fields})


def protocol(
    offers: Callable[[HttpAnswer], Any] | None = None,
    headers: Callable[[PaymentOffer, PaymentProof], Any] | None = None,
    receipt: Callable[[HttpAnswer], Any] | None = None,
) -> ModuleType:
    """One that conforms, but for what is given."""
    plugin = ModuleType("tollgate")

    @hookimpl
    def payment_spec() -> PaymentSpec:
        return PaymentSpec("tollgate")

    @hookimpl
    async def payment_offers(answer: HttpAnswer) -> Any:
        if offers is not None:
            return offers(answer)
        if answer.status != 402 or answer.header("x-price") != "5":
            return []
        return [offer(raw={"half": 0.5})]

    @hookimpl
    async def payment_headers(offer: PaymentOffer, proof: PaymentProof) -> Any:
        if headers is not None:
            return headers(offer, proof)
        return {"X-Paid": f"{offer.raw['half']} {proof.signature}"}

    @hookimpl
    async def payment_receipt(offer: PaymentOffer, answer: HttpAnswer) -> Any:
        if receipt is not None:
            return receipt(answer)
        found = answer.header("x-receipt")
        return None if found is None else PaymentReceipt(found)

    for hook in (payment_spec, payment_offers, payment_headers, payment_receipt):
        setattr(plugin, hook.__name__, hook)
    return plugin


async def failed(plugin: ModuleType) -> dict[str, str]:
    """The details of the checks that failed."""
    report = await check_payment(plugin, answers=[ASKED], receipts=[RECEIPT], in_process=True)
    return {each: report.finding(each).detail for each in report.failed}


async def test_the_one_that_is_changed_here_conforms() -> None:
    assert await failed(protocol()) == {}


@pytest.mark.parametrize(
    ("plugin", "check", "words"),
    [
        (protocol(lambda _: []), "offers", r"answers\[0\]: it has no offer"),
        (protocol(lambda _: [offer(units=0)]), "offers", r"offers\[0\]\.units must be"),
        (
            protocol(lambda each: [offer(raw={"half": 1})] if each == ASKED else 1 / 0),
            "hostile_answers",
            "ZeroDivisionError",
        ),
        (
            protocol(lambda each: [offer(raw={"half": next(counter)})] if each == ASKED else []),
            "pure",
            "other offers when it is read again",
        ),
        (protocol(headers=lambda _offer, _proof: {"X-Paid": "yes"}), "headers", "the same headers"),
        (
            protocol(headers=lambda _offer, proof: {"X-Paid": f"{proof.signature}\n"}),
            "offers",
            "must be printable ASCII",
        ),
        (
            protocol(headers=lambda _offer, _proof: {"X-Paid": str(next(counter))}),
            "pure",
            "its headers differ",
        ),
        (protocol(receipt=lambda _: None), "receipts", r"receipts\[0\]: payment_receipt finds"),
        (
            protocol(receipt=lambda each: PaymentReceipt(each.headers[0][1])),
            "hostile_answers",
            "IndexError",
        ),
        (
            protocol(receipt=lambda each: PaymentReceipt("3" * 87) if each == RECEIPT else "no"),
            "hostile_answers",
            "must return PaymentReceipt or None",
        ),
    ],
    ids=range(10),
)
async def test_each_mistake_fails_its_own_check(plugin: ModuleType, check: str, words: str) -> None:
    found = await failed(plugin)
    assert list(found) == [check]
    assert re.search(words, found[check]), found


async def test_a_refusal_in_words_is_no_mistake() -> None:
    def picky(answer: HttpAnswer) -> Any:
        if answer != ASKED:
            raise InvalidRequest("X-Price must be 5")
        return [offer(raw={"half": 1})]

    assert await failed(protocol(picky)) == {}
