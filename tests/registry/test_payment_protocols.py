from __future__ import annotations

from typing import Any

import pytest
from tests.promises import promise
from tests.support.payments import whole
from tests.support.plugins import HEAD, Shelf

from solward.plugins import load_registry
from solward.plugins import loaded as loaded_module
from solward.plugins.loaded import LoadedPayment
from solward.plugins.payment_checks import checked_headers, checked_offers, checked_receipt
from solward.support import jsontext
from solward.support.base58 import b58encode
from solward.types.errors import InvalidRequest, SkillError
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSplit,
    offer_json,
    read_offer,
)

SELLER = "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5"
SPONSOR = "2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk"
SIGNATURE = "3" * 87
ANSWER = HttpAnswer("https://api.example.com/weather", "GET", 402)

PROTOCOL = (
    HEAD
    + """
from solward import PaymentMode, PaymentOffer, PaymentReceipt, PaymentSpec

@hookimpl
def payment_spec():
    return PaymentSpec("acme")

@hookimpl
async def payment_offers(answer):
    if answer.header("x-acme") == "exit":
        raise SystemExit
    if answer.header("x-acme") == "hang":
        await asyncio.sleep(3600)
    if answer.header("x-acme") == "refuse":
        raise InvalidRequest("X-Acme: no price")
    if answer.header("x-acme") == "bug":
        return [1]
    return [
        PaymentOffer(
            "devnet", "SOL", 5, "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5",
            (PaymentMode.PUSH,), raw={"id": answer.header("x-acme")},
        )
    ]

@hookimpl
async def payment_headers(offer, proof):
    return {"X-Acme-Paid": f"{offer.raw['id']} {proof.signature}"}

@hookimpl
async def payment_receipt(offer, answer):
    if answer.status == 500:
        raise RuntimeError("not today")
    return PaymentReceipt(answer.header("x-acme-receipt"))
"""
)


@pytest.fixture
def acme(shelf: Shelf) -> LoadedPayment:
    shelf.install("dist-p", {"acme": PROTOCOL}, "solward.payments")
    return load_registry(entry_points=shelf.entry_points()).payments["acme"]


def asked(value: str) -> HttpAnswer:
    return HttpAnswer(ANSWER.url, "GET", 402, (("X-Acme", value),))


async def test_a_protocol_is_called_through_its_own_hooks(acme: LoadedPayment) -> None:
    assert (acme.spec.name, acme.distribution, acme.version) == ("acme", "dist-p", "1.5")
    (offer,) = whole(await acme.offers(asked("n-1")))
    proof = PaymentProof(PaymentMode.PUSH, SPONSOR, signature=SIGNATURE)
    assert await acme.headers(offer, proof) == {"X-Acme-Paid": f"n-1 {SIGNATURE}"}
    served = HttpAnswer(ANSWER.url, "GET", 200, (("X-Acme-Receipt", SIGNATURE),))
    assert await acme.receipt(offer, served) == PaymentReceipt(SIGNATURE)
    no_signature = HttpAnswer(ANSWER.url, "GET", 200, (("X-Acme-Receipt", "thanks"),))
    assert await acme.receipt(offer, no_signature) is None


async def test_a_protocol_that_exits_or_hangs_disturbs_nobody(
    acme: LoadedPayment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SkillError, match="'acme' failed: PluginCrash") as failed:
        whole(await acme.offers(asked("exit")))
    assert failed.value.code == "payment_protocol"
    monkeypatch.setattr(loaded_module, "PROTOCOL_TIME_LIMIT_S", 0.05)
    with pytest.raises(SkillError, match=r"'acme' did not answer within 0\.05 s"):
        whole(await acme.offers(asked("hang")))


async def test_a_malformed_answer_is_told_with_the_protocol_s_name(acme: LoadedPayment) -> None:
    with pytest.raises(InvalidRequest, match="acme: X-Acme: no price"):
        whole(await acme.offers(asked("refuse")))
    with pytest.raises(InvalidRequest, match=r"^offers\[0\] must be a PaymentOffer, not int"):
        whole(await acme.offers(asked("bug")))


@promise("unshowable-offer-unpaid")
async def test_an_offer_that_could_not_be_shown_is_refused_before_it_is_paid(
    shelf: Shelf,
) -> None:
    headers = """return {"X-Acme-Paid": (proof.signature or "") + "x" * (16 * 1024 - 98)}"""
    before = """return {"X-Acme-Paid": f"{offer.raw['id']} {proof.signature}"}"""
    shelf.install("dist-p", {"acme": PROTOCOL.replace(before, headers)}, "solward.payments")
    acme = load_registry(entry_points=shelf.entry_points()).payments["acme"]
    # The longest signature of all has 88 characters; this one would have fitted.
    with pytest.raises(InvalidRequest, match="headers must have at most 16384 bytes"):
        whole(await acme.offers(asked("n-1")))


@promise("receipt-is-a-hint")
async def test_a_receipt_that_cannot_be_read_is_none(acme: LoadedPayment) -> None:
    (offer,) = whole(await acme.offers(asked("n-1")))
    assert await acme.receipt(offer, HttpAnswer(ANSWER.url, "GET", 500)) is None


async def test_headers_need_a_proof_that_fits_the_offer(acme: LoadedPayment) -> None:
    (offer,) = whole(await acme.offers(asked("n-1")))
    handed = PaymentProof(PaymentMode.SPONSORED, SPONSOR, wire=b"\x01")
    with pytest.raises(InvalidRequest, match="mode sponsored is not one of the offer's modes"):
        await acme.headers(offer, handed)
    with pytest.raises(InvalidRequest, match=r"proof\.signature must be set"):
        await acme.headers(offer, PaymentProof(PaymentMode.PUSH, SPONSOR, wire=b"\x01"))


def test_protocols_stand_in_one_order_whatever_is_installed_first(shelf: Shelf) -> None:
    for name in ("zeta", "alpha"):
        source = PROTOCOL.replace('PaymentSpec("acme")', f"PaymentSpec({name!r})")
        shelf.install(f"dist-{name}", {name: source}, "solward.payments")
    registry = load_registry(entry_points=shelf.entry_points())
    assert list(registry.payments) == ["alpha", "zeta"]
    assert list(registry.without_distributions({"dist-alpha"}).payments) == ["zeta"]


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ('PaymentSpec("acme")', 'PaymentSpec("other")', "bad_contract", "returns the name 'other'"),
        ('PaymentSpec("acme")', '"acme"', "bad_contract", "must return a PaymentSpec"),
        ("async def payment_headers", "def payment_headers", "bad_contract", "`async def`"),
        ("def payment_receipt", "def payment_recept", "bad_hook", "payment_recept is not a hook"),
        ("offer, proof", "offer, key", "bad_hook", "key"),
    ],
)
def test_a_protocol_out_of_contract_is_reported(
    shelf: Shelf, old: str, new: str, code: str, words: str
) -> None:
    shelf.install("dist-p", {"acme": PROTOCOL.replace(old, new)}, "solward.payments")
    registry = load_registry(entry_points=shelf.entry_points())
    (problem,) = registry.problems
    assert (problem.code, dict(registry.payments)) == (code, {})
    assert words in problem.detail


GOOD: dict[str, Any] = {
    "network": "devnet",
    "asset": SPONSOR,
    "units": 1_000,
    "pay_to": SELLER,
    "modes": (PaymentMode.SPONSORED,),
    "fee_payer": SPONSOR,
}
HOSTILE: list[tuple[str, Any]] = [
    ("network", "mainnet"),
    ("network", 5),
    ("network", "eip155:8453:more"),
    ("asset", "USDC"),
    ("asset", SPONSOR[:-1]),
    ("units", 0),
    ("units", 2**64),
    ("units", "1000"),
    ("units", True),
    ("units", 10.0),
    ("pay_to", "SOL"),
    ("pay_to", SELLER + "\n"),
    ("pay_to", "1" * 10_000),
    ("modes", ()),
    ("modes", ("sponsored",)),
    ("modes", (PaymentMode.SPONSORED, PaymentMode.SPONSORED)),
    ("modes", (PaymentMode.PUSH,)),
    ("fee_payer", None),
    ("fee_payer", "1" * 31),
    ("memo", ""),
    ("memo", "é" * 284),
    ("memo", "\ud800"),
    ("memo", b"bytes"),
    ("nonce_memo", 1),
    ("opens_accounts", "no"),
    ("splits", [()]),
    ("splits", [PaymentSplit(SELLER, 1)]),
    ("splits", ((SELLER, 1),)),
    ("decimals", 256),
    ("token_program", "Token"),
    ("most_compute_units", 1_400_001),
    ("most_unit_price", 0),
    ("expires_ms", -1),
    ("expires_ms", 1.5),
    ("resource", ""),
    ("description", None),
    ("raw", []),
    ("raw", {"a": object()}),
    ("raw", {"a": float("nan")}),
    ("raw", {"a": "x" * (32 << 10)}),
]


def offer(**fields: Any) -> PaymentOffer:
    return PaymentOffer(**{**GOOD, **fields})


@promise("out-of-range-refused")
@pytest.mark.parametrize(
    ("field", "value"), HOSTILE, ids=[f"{at}-{field}" for at, (field, _) in enumerate(HOSTILE)]
)
def test_an_offer_out_of_range_is_refused_by_the_field_s_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        whole(checked_offers([offer(), offer(**{field: value})]))
    named = {"modes": ("modes", "fee_payer")}.get(field, (field,))
    assert str(refused.value).startswith(tuple(f"offers[1].{each}" for each in named))


def test_splits_leave_something_for_who_is_paid() -> None:
    half = PaymentSplit(SPONSOR, 500)
    (found,) = whole(checked_offers([offer(splits=(half, PaymentSplit(SELLER, 499)))]))
    assert found.splits[0] is half
    one = PaymentSplit(SPONSOR, 1)
    for wrong in ((half, half), (PaymentSplit(SPONSOR, 0),), (PaymentSplit("x", 1),), (one,) * 9):
        with pytest.raises(InvalidRequest, match="splits"):
            whole(checked_offers([offer(splits=wrong)]))


def test_a_nonce_memo_is_refused_beside_a_memo() -> None:
    with pytest.raises(InvalidRequest, match="nonce_memo"):
        whole(checked_offers([offer(memo="order 7", nonce_memo=True)]))


def test_of_more_offers_than_anybody_makes_the_first_count() -> None:
    for number in (32, 33):
        assert len(whole(checked_offers([offer()] * number))) == 32
    with pytest.raises(InvalidRequest, match="must be a sequence, not dict"):
        whole(checked_offers({}))


def test_raw_that_refers_to_itself_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = [circle]
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    for raw in (circle, deep):
        with pytest.raises(InvalidRequest, match="raw must be a JSON object"):
            whole(checked_offers([offer(raw=raw)]))


def test_an_offer_is_the_same_after_it_was_stored() -> None:
    (first,) = checked_offers(
        [offer(raw={"n": 0.1, "big": 10**30, "list": (1, 2)}, description="a\x1b[2Jb\nc")]
    )
    assert first.description == "a\ufffd[2Jb c"
    assert read_offer(jsontext.loads(jsontext.dumps(offer_json(first)))) == first


@promise("protocol-gets-offer-only", "redirecting-headers-refused")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        [],
        {"A": "b\r\nHost: evil"},
        {"A": " b"},
        {"A": ""},
        {"A": "é"},
        {"A": b"b"},
        {"A b": "c"},
        {"Host": "evil.example"},
        {"content-LENGTH": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"A": "1", "a": "2"},
        {"A": "x" * (16 << 10)},
        {f"A{number}": "x" for number in range(9)},
    ],
    ids=range(15),
)
def test_headers_that_would_change_the_request_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^header"):
        checked_headers(headers)
    assert checked_headers({"Authorization": "Payment abc"}) == {"Authorization": "Payment abc"}


def test_a_receipt_names_a_signature_or_a_reason_or_is_none() -> None:
    signature = b58encode(bytes(range(64)))
    assert checked_receipt(PaymentReceipt(signature)) == PaymentReceipt(signature)
    assert checked_receipt(PaymentReceipt("no signature", "ran\x1b out")) == PaymentReceipt(
        None, "ran\ufffd out"
    )
    for nothing in (None, PaymentReceipt("x"), {"signature": signature}, PaymentReceipt(5, 6)):  # type: ignore[arg-type]
        assert checked_receipt(nothing) is None
