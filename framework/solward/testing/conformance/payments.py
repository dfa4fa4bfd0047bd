"""Checks of a payment protocol: its offers, its headers for a payment, and its reading of bad
answers. A protocol is pure functions of sellers' answers, so no service or ledger is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, NamedTuple

from solward.plugins.loaded import LoadedPayment
from solward.support import jsontext
from solward.support.base58 import b58encode
from solward.testing.conformance.report import GIVEN_IN, Finding, errors_finding, finding
from solward.testing.conformance.watch import Watch, error_text
from solward.types.errors import InvalidRequest, SolwardError
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    offer_json,
    read_offer,
)

_PAYER = b58encode(bytes(range(32)))
# Two transactions to hand over, and two signatures, so that results can be told apart.
_WIRES = (b"\x01" + bytes(495), b"\x01" + bytes(range(250)) + bytes(245))
_SIGNATURES = (b58encode(bytes(range(64))), b58encode(bytes(range(64, 128))))

_BODIES = (
    b"",
    b"\xff",
    b"null",
    b"[]",
    b"{}",
    b"<html>402 Payment Required</html>",
    b"[" * 100_000,
    b"9" * 100_000,
    b'{"x402Version": 1, "accepts": 5}',
)
_VALUES = ("", " ", '"', "\\", "{}", "bnVsbA==", "é", "\x00", "x" * 100_000, "1_000", "٣")


class ExpectedOffer(NamedTuple):
    """The payment that an offer requires: `units` of `asset` in total, to `pay_to`."""

    asset: str
    units: int
    pay_to: str

    def __str__(self) -> str:
        return f"{self.units} units of {self.asset} to {self.pay_to}"


@dataclass(frozen=True, slots=True)
class PaymentCases:
    """The cases for a payment protocol.

    Attributes:
        answers: sellers' answers with the status 402, each with an offer of the protocol.
        receipts: sellers' answers to a paid request, each with a receipt of the protocol.
        expected: the offers expected in each of `answers`; None if not stated.
    """

    answers: Sequence[HttpAnswer] = ()
    receipts: Sequence[HttpAnswer] = ()
    expected: Sequence[Sequence[ExpectedOffer] | None] = ()


_NO_CASES = PaymentCases()


async def payment_findings(
    protocol: LoadedPayment, _watch: Watch, *, cases: PaymentCases = _NO_CASES, tiered: bool = False
) -> list[Finding]:
    """Return the findings of all checks of a loaded protocol, in a fixed order."""
    errors: list[SolwardError] = []
    impure: list[str] = []
    offers: list[PaymentOffer] = []
    bad_offers: list[str] = []
    for at, answer in enumerate(cases.answers):
        try:
            read, again = await protocol.offers(answer), await protocol.offers(answer)
        except Exception as error:
            bad_offers.append(f"answers[{at}]: {error_text(error)}")
            continue
        found = [each for each in read if isinstance(each, PaymentOffer)]
        problems = [str(each) for each in read if isinstance(each, InvalidRequest)]
        bad_offers += [f"answers[{at}]: {each}" for each in problems]
        if not read:
            bad_offers.append(f"answers[{at}]: it has no offer of this protocol")
        expected = cases.expected[at] if at < len(cases.expected) else None
        seen = [ExpectedOffer(each.asset, each.units, each.pay_to) for each in found]
        if expected is not None and seen != [*expected]:
            bad_offers.append(
                f"answers[{at}]: payment_offers must return {_offers_text(expected)};"
                f" it returned {_offers_text(seen)}"
            )
        same = [each for each in again if isinstance(each, PaymentOffer)]
        if found != same or len(read) != len(again):
            impure.append(f"answers[{at}] gives other offers when it is read again")
        offers += found
    bad_headers = [each async for each in _header_faults(protocol, offers, impure)]
    bad_receipts = [each async for each in _receipt_faults(protocol, offers, cases, impure)]
    hostile, tried = await _try_hostile_answers(protocol, offers, cases, errors)
    findings = [
        finding("offers", bad_offers, lacks=_skip_text(cases.answers, "answers")),
        finding("headers", bad_headers, lacks=_skip_text(offers, "answers")),
        finding("receipts", bad_receipts, lacks=_skip_text(cases.receipts and offers, "receipts")),
        finding("pure", impure, lacks=_skip_text(cases.answers, "answers")),
        finding("hostile_answers", hostile, f"{tried} answers"),
    ]
    return [*findings, errors_finding(errors)] if tiered else findings


def _offers_text(offers: Sequence[ExpectedOffer]) -> str:
    return " and ".join(map(str, offers)) or "nothing"


async def _header_faults(
    protocol: LoadedPayment, offers: Sequence[PaymentOffer], impure: list[str]
) -> AsyncIterator[str]:
    for at, offer in enumerate(offers):
        for mode in offer.modes:
            where = f"offer {at} ({mode.value})"
            try:
                shown = [await protocol.headers(offer, proof) for proof in _sample_proofs(mode)]
                stored = read_offer(jsontext.loads(jsontext.dumps(offer_json(offer))))
                again = await protocol.headers(stored, next(_sample_proofs(mode)))
            except Exception as error:
                yield f"{where}: {error_text(error)}"
                continue
            if again != shown[0]:
                impure.append(f"{where}: its headers differ after the offer was stored")
            if shown[0] == shown[1]:
                yield f"{where}: two payments have the same headers"


def _sample_proofs(mode: PaymentMode) -> Iterator[PaymentProof]:
    for wire, signature in zip(_WIRES, _SIGNATURES, strict=True):
        if mode is PaymentMode.PUSH:
            yield PaymentProof(mode, _PAYER, signature=signature)
        else:
            yield PaymentProof(mode, _PAYER, wire=wire)


async def _receipt_faults(
    protocol: LoadedPayment,
    offers: Sequence[PaymentOffer],
    cases: PaymentCases,
    impure: list[str],
) -> AsyncIterator[str]:
    for at, answer in enumerate(cases.receipts if offers else ()):
        found = await protocol.receipt(offers[0], answer)
        if found is None:
            yield f"receipts[{at}]: payment_receipt finds no receipt in it"
        if found != await protocol.receipt(offers[0], answer):
            impure.append(f"receipts[{at}] gives another receipt when it is read again")


async def _try_hostile_answers(
    protocol: LoadedPayment,
    offers: Sequence[PaymentOffer],
    cases: PaymentCases,
    errors: list[SolwardError],
) -> tuple[list[str], int]:
    """Return the faults in handling hostile answers, and the number of answers tried."""
    trouble: list[str] = []
    tried = 0
    plain = HttpAnswer("https://seller.invalid/", "GET", HTTPStatus.PAYMENT_REQUIRED)
    for answer in (each for base in (plain, *cases.answers) for each in _corrupted_answers(base)):
        tried += 1
        await _try_answer(protocol.offers, answer, trouble, errors)
    if not offers:
        return trouble, tried

    async def receipt(answer: HttpAnswer) -> None:
        # Call the hook itself, because `receipt` hides what it raises.
        found = await protocol.calls["payment_receipt"](offer=offers[0], answer=answer)
        if found is not None and not isinstance(found, PaymentReceipt):
            raise TypeError(
                f"payment_receipt must return PaymentReceipt or None, not {found!r:.80}"
            )

    for answer in (each for base in (plain, *cases.receipts) for each in _corrupted_answers(base)):
        tried += 1
        await _try_answer(receipt, answer, trouble, errors)
    return trouble, tried


async def _try_answer(
    ask: Callable[[HttpAnswer], Awaitable[Any]],
    answer: HttpAnswer,
    trouble: list[str],
    errors: list[SolwardError],
) -> None:
    try:
        await ask(answer)
    except InvalidRequest as error:
        errors.append(error)
    except Exception as error:
        shown = {name: value[:40] for name, value in answer.headers}
        trouble.append(f"{error_text(error)} (of {answer.status} {shown} {answer.body[:40]!r})")


def _corrupted_answers(answer: HttpAnswer) -> Iterator[HttpAnswer]:
    """Yield hostile variants of a seller's answer, each corrupted in one place."""
    yield replace(answer, status=200)
    yield replace(answer, headers=())
    yield replace(answer, headers=answer.headers * 2)
    for body in (*_BODIES, answer.body[:-1], answer.body + answer.body, answer.body[::-1]):
        yield replace(answer, body=body)
    for at, (name, value) in enumerate(answer.headers):
        for other in (*_VALUES, value[:-1], value[1:], value[::-1], value * 2, value.swapcase()):
            headers = (*answer.headers[:at], (name, other), *answer.headers[at + 1 :])
            yield replace(answer, headers=headers)


def _skip_text(found: Sequence[object], needs: str) -> str:
    """Return why a check cannot run without `needs`; empty if `found` has cases."""
    if found:
        return ""
    return (
        f"needs `{needs}` from sellers with offers of this protocol; a project gives them"
        f" in {GIVEN_IN}"
    )
