from __future__ import annotations

import base64
import json
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.promises import promise
from tests.support.payments import whole

from solward.plugins import load_registry
from solward.plugins.loaded import LoadedPayment
from solward.solana.protocol import CHAIN_IDS
from solward.support import jsontext
from solward.support.base58 import b58encode
from solward.types.errors import InvalidRequest
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    offer_json,
    read_offer,
)

URL = "https://api.example.com/weather"
MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
SELLER = "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5"
SPONSOR = "2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk"
SIGNATURE = b58encode(bytes(range(64)))
PROOF = PaymentProof(PaymentMode.SPONSORED, SELLER, wire=b"\x02" + bytes(200))

ENTRY: dict[str, Any] = {
    "scheme": "exact",
    "network": CHAIN_IDS["devnet"],
    "asset": MINT,
    "amount": "10000",
    "payTo": SELLER,
    "maxTimeoutSeconds": 60,
    "extra": {"feePayer": SPONSOR},
}
REQUIRED: dict[str, Any] = {
    "x402Version": 2,
    "error": "Payment required",
    "resource": {"url": URL, "description": "Weather", "mimeType": "application/json"},
    "accepts": [ENTRY],
    "extensions": {"bazaar": {"info": {"input": {"type": "http"}}, "schema": {"minimum": 0.1}}},
}
ENTRY_V1 = {
    **{key: value for key, value in ENTRY.items() if key != "amount"},
    "network": "solana-devnet",
    "maxAmountRequired": "10000",
    "resource": URL,
    "description": "Weather",
}
REQUIRED_V1: dict[str, Any] = {"x402Version": 1, "error": "pay", "accepts": [ENTRY_V1]}


def encoded(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


def answer(required: Any = None, body: Any = b"", status: int = 402, **headers: str) -> HttpAnswer:
    every = [(name.replace("_", "-"), value) for name, value in headers.items()]
    if required is not None:
        every.append(("Payment-Required", encoded(required)))
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpAnswer(URL, "GET", status, tuple(every), data)


def entry(**fields: Any) -> dict[str, Any]:
    """A challenge of version 2 whose one entry differs in these fields."""
    return {**REQUIRED, "accepts": [{**ENTRY, **fields}]}


def extra(**fields: Any) -> dict[str, Any]:
    return entry(extra={"feePayer": SPONSOR, **fields})


@pytest.fixture(scope="module")
def protocol() -> LoadedPayment:
    point = EntryPoint("x402", "solward_plugins.payments.x402", "solward.payments")
    return load_registry(entry_points=[point]).payments["x402"]


async def shown(protocol: LoadedPayment, offer: PaymentOffer) -> tuple[str, dict[str, Any]]:
    [(name, value)] = (await protocol.headers(offer, PROOF)).items()
    return name, json.loads(base64.b64decode(value, validate=True))


async def test_an_offer_of_version_2_is_read_from_its_header(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(answer(REQUIRED)))
    assert (offer.network, offer.asset, offer.units) == ("devnet", MINT, 10_000)
    assert (offer.pay_to, offer.fee_payer) == (SELLER, SPONSOR)
    assert offer.modes == (PaymentMode.SPONSORED,)
    assert (offer.memo, offer.nonce_memo, offer.splits) == (None, True, ())
    assert (offer.most_compute_units, offer.most_unit_price) == (1_400_000, 5_000_000)
    assert (offer.resource, offer.description, offer.expires_ms) == (URL, "Weather", None)


@promise("offer-returned-unchanged")
async def test_version_2_is_shown_with_what_was_offered_unchanged(protocol: LoadedPayment) -> None:
    unknown = {**ENTRY, "sellersOwn": {"rate": 0.1, "list": [1, None, "é"]}}
    required = {**REQUIRED, "accepts": [entry(network="eip155:8453")["accepts"][0], unknown]}
    (offer,) = whole(await protocol.offers(answer(required)))
    name, payload = await shown(protocol, offer)
    assert name == "PAYMENT-SIGNATURE"
    assert payload == {
        "x402Version": 2,
        "payload": {"transaction": base64.b64encode(PROOF.wire or b"").decode()},
        "accepted": unknown,
        "resource": REQUIRED["resource"],
        "extensions": REQUIRED["extensions"],
    }


async def test_what_was_not_offered_is_not_shown(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(answer({"x402Version": 2, "accepts": [ENTRY]})))
    assert (offer.resource, offer.description) == (None, "")
    _, payload = await shown(protocol, offer)
    assert set(payload) == {"x402Version", "payload", "accepted"}


async def test_version_1_is_read_from_its_body_and_shown_by_its_header(
    protocol: LoadedPayment,
) -> None:
    (offer,) = whole(await protocol.offers(answer(body=REQUIRED_V1)))
    assert (offer.network, offer.units, offer.resource) == ("devnet", 10_000, URL)
    name, payload = await shown(protocol, offer)
    assert name == "X-PAYMENT"
    assert payload == {
        "x402Version": 1,
        "scheme": "exact",
        "network": "solana-devnet",
        "payload": {"transaction": base64.b64encode(PROOF.wire or b"").decode()},
    }


@promise("headers-stay-the-same")
@pytest.mark.parametrize("required", [REQUIRED, extra(rate=1e22, small=0.1, big=10**30)], ids="ab")
async def test_headers_are_the_same_after_the_offer_was_stored(
    protocol: LoadedPayment, required: dict[str, Any]
) -> None:
    (offer,) = whole(await protocol.offers(answer(required)))
    stored = read_offer(jsontext.loads(jsontext.dumps(offer_json(offer))))
    assert stored == offer
    assert await protocol.headers(stored, PROOF) == await protocol.headers(offer, PROOF)


@pytest.mark.parametrize(
    ("version", "network", "name"),
    [
        (2, CHAIN_IDS["mainnet-beta"], "mainnet-beta"),
        (2, CHAIN_IDS["testnet"], "testnet"),
        (2, "solana:4ysk5v1Pmz4u9iGbHjEUMyPmRWK6Zi9V", "solana:4ysk5v1Pmz4u9iGbHjEUMyPmRWK6Zi9V"),
        (1, "solana", "mainnet-beta"),
        (1, "solana-testnet", "testnet"),
    ],
)
async def test_networks_are_named_as_solana_names_them(
    protocol: LoadedPayment, version: int, network: str, name: str
) -> None:
    if version == 2:
        asked = answer(entry(network=network))
    else:
        asked = answer(body={**REQUIRED_V1, "accepts": [{**ENTRY_V1, "network": network}]})
    (offer,) = whole(await protocol.offers(asked))
    assert offer.network == name


@pytest.mark.parametrize(
    "asked",
    [
        answer(),
        answer(body=b"<html>402</html>"),
        answer(body={"error": "x402Version"}),
        answer(body=["x402Version"]),
        answer(REQUIRED, status=200),
        answer(body=REQUIRED_V1, status=500),
        answer(entry(network="eip155:8453", payTo="0x1")),
        answer(entry(scheme="upto")),
        answer(entry(network="solana-devnet")),
        answer(entry(network=7)),
        answer({**REQUIRED, "accepts": []}),
    ],
    ids=range(11),
)
async def test_what_is_no_offer_on_solana_offers_nothing(
    protocol: LoadedPayment, asked: HttpAnswer
) -> None:
    assert whole(await protocol.offers(asked)) == ()


AMOUNTS = [
    "0", "-1", "+1", "01", "1_000_000", " 1", "1 ", "1\n", "1e3", "1.0", "0x10", "\u0661\u0662",
    "１", "", str(2**64), "9" * 21, 1000, 10.5, True, None, ["1"],
]  # fmt: skip


@promise("amount-is-digits")
@pytest.mark.parametrize("amount", AMOUNTS, ids=range(len(AMOUNTS)))
async def test_an_amount_that_programs_read_differently_is_refused(
    protocol: LoadedPayment, amount: Any
) -> None:
    with pytest.raises(InvalidRequest, match=r"PAYMENT-REQUIRED: accepts\[0\]\.amount must be dig"):
        whole(await protocol.offers(answer(entry(amount=amount))))
    version_1 = {**REQUIRED_V1, "accepts": [{**ENTRY_V1, "maxAmountRequired": amount}]}
    with pytest.raises(InvalidRequest, match=r"body: accepts\[0\]\.maxAmountRequired must be dig"):
        whole(await protocol.offers(answer(body=version_1)))


async def test_the_most_that_a_token_can_count_is_an_amount(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(answer(entry(amount=str(2**64 - 1)))))
    assert offer.units == 2**64 - 1


MALFORMED: list[tuple[Any, str]] = [
    (entry(asset="USDC"), "asset"),
    (entry(asset=None), "asset"),
    (entry(payTo=SELLER[:-4]), "payTo"),
    (entry(payTo="0" + SELLER[1:]), "payTo"),
    (entry(payTo=f" {SELLER}"), "payTo"),
    (entry(extra=None), "extra"),
    (entry(extra={}), r"extra\.feePayer"),
    (extra(feePayer="1" * 31), r"extra\.feePayer"),
    (extra(memo="x" * 257), r"extra\.memo"),
    (extra(memo="é" * 129), r"extra\.memo"),
    (extra(memo=5), r"extra\.memo"),
    (entry(maxTimeoutSeconds=0), "maxTimeoutSeconds"),
    (entry(maxTimeoutSeconds="60"), "maxTimeoutSeconds"),
    ({**REQUIRED, "accepts": {}}, "accepts"),
    ({**REQUIRED, "accepts": ["exact"]}, "accepts"),
    ({**REQUIRED, "accepts": [{}] * 257}, "accepts must be an array of at most 256"),
    ({**REQUIRED, "resource": URL}, "resource"),
    ({**REQUIRED, "resource": {}}, r"resource\.url"),
    ({**REQUIRED, "extensions": []}, "extensions"),
    ({**REQUIRED, "x402Version": 1}, "x402Version must be 2"),
    ({**REQUIRED, "x402Version": "2"}, "x402Version must be 2"),
    ({**REQUIRED, "x402Version": True}, "x402Version must be 2"),
    ([REQUIRED], "JSON object"),
    ("{", "must be JSON"),
    ('{"x402Version": NaN}', "must be JSON"),
    ('{"x402Version": "\\ud800"}', "half of a surrogate pair"),
    (json.dumps(REQUIRED)[:-1] + ', "accepts": []}', "accepts stands twice"),
    (json.dumps(entry())[:-3] + f', "payTo": "{SPONSOR}"}}]}}', "must be JSON|stands twice"),
    ({**REQUIRED, "pad": "x" * (64 << 10)}, "at most 65536 bytes"),
    ("[" * 30_000 + "]" * 30_000, "at most 64 arrays and objects"),
    ({**REQUIRED, "extensions": {"a": json.loads("[" * 40 + "]" * 40)}}, "raw must be"),
]


ODD_ENTRIES: list[Any] = [
    "exact",
    None,
    {**ENTRY, "amount": "1e9"},
    {**ENTRY, "payTo": 5},
    {**ENTRY, "extra": []},
    {**ENTRY, "amount": str(10**30)},
    {**ENTRY, "asset": "x" * 10_000},
]


@promise("odd-offer-stops-no-other")
@pytest.mark.parametrize("odd", ODD_ENTRIES, ids=range(len(ODD_ENTRIES)))
async def test_an_odd_entry_hides_no_other(protocol: LoadedPayment, odd: Any) -> None:
    [expected] = whole(await protocol.offers(answer({**REQUIRED, "accepts": [ENTRY]})))
    for accepts in ([odd, ENTRY], [ENTRY, odd]):
        read = await protocol.offers(answer({**REQUIRED, "accepts": accepts}))
        [problem] = [str(each) for each in read if isinstance(each, InvalidRequest)]
        assert f"accepts[{accepts.index(odd)}]" in problem
        assert [each for each in read if not isinstance(each, InvalidRequest)] == [expected]


@promise("malformed-header-no-body")
@pytest.mark.parametrize(("required", "words"), MALFORMED, ids=range(len(MALFORMED)))
async def test_a_malformed_header_is_refused_and_no_body_is_taken_in_its_place(
    protocol: LoadedPayment, required: Any, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        whole(await protocol.offers(answer(required, body=REQUIRED_V1)))


@pytest.mark.parametrize(
    "header", ["", "!", "e30==", "e30===", "e3 0=", "e31=", "é", "e30=\n", "-_8="]
)
async def test_a_header_that_is_no_base64_is_refused(protocol: LoadedPayment, header: str) -> None:
    asked = answer(body=REQUIRED_V1, PAYMENT_REQUIRED=header)
    words = "must be a JSON object in base64$" if header else "must be JSON"
    with pytest.raises(InvalidRequest, match=f"PAYMENT-REQUIRED {words}"):
        whole(await protocol.offers(asked))


async def test_two_headers_are_refused_and_a_body_beside_one_counts_for_nothing(
    protocol: LoadedPayment,
) -> None:
    cheaper = {**REQUIRED_V1, "accepts": [{**ENTRY_V1, "maxAmountRequired": "1"}]}
    (offer,) = whole(await protocol.offers(answer(REQUIRED, body=cheaper)))
    assert (offer.units, offer.raw["version"]) == (10_000, 2)
    none = {**REQUIRED, "accepts": []}
    assert whole(await protocol.offers(answer(none, body=REQUIRED_V1))) == ()
    with pytest.raises(InvalidRequest, match="must be one header, not 2"):
        whole(await protocol.offers(answer(REQUIRED, payment_required=encoded(entry(amount="1")))))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**REQUIRED_V1, "x402Version": 2}, "x402Version must be 1"),
        (b'{"x402Version": 1, "x402Version": 1}', "x402Version stands twice"),
        (b'{"x402Version": 1', "body must be JSON"),
        (b'{"x402Version": 1, "a": "\xff"}', "body must be JSON"),
        (b'{"x402Version": 1, "a": "' + b"x" * (64 << 10) + b'"}', "at most 65536 bytes"),
    ],
    ids=range(5),
)
async def test_a_malformed_body_of_version_1_is_refused(
    protocol: LoadedPayment, body: Any, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        whole(await protocol.offers(answer(body=body)))


async def test_a_memo_that_the_seller_asks_for_is_the_memo(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(answer(extra(memo="order 7"))))
    assert (offer.memo, offer.nonce_memo) == ("order 7", False)
    (offer,) = whole(await protocol.offers(answer(extra(memo="x" * 256))))
    assert offer.memo == "x" * 256
    (offer,) = whole(await protocol.offers(answer(extra(memo=""))))
    assert (offer.memo, offer.nonce_memo) == (None, True)


async def test_an_identifier_is_added_where_one_is_required_and_is_the_payment_s_own(
    protocol: LoadedPayment,
) -> None:
    def required(**info: Any) -> dict[str, Any]:
        return {**REQUIRED, "extensions": {"payment-identifier": {"info": info, "schema": {}}}}

    (offer,) = whole(await protocol.offers(answer(required(required=True))))
    _, payload = await shown(protocol, offer)
    info = payload["extensions"]["payment-identifier"]["info"]
    assert info["required"] is True
    assert 16 <= len(info["id"]) <= 128
    assert (await shown(protocol, offer))[1] == payload
    other = PaymentProof(PaymentMode.SPONSORED, SELLER, wire=b"another")
    assert await protocol.headers(offer, other) != await protocol.headers(offer, PROOF)
    for given_by_seller in ({"required": False}, {"required": True, "id": "sellers-own-16-chars"}):
        (offer,) = whole(await protocol.offers(answer(required(**given_by_seller))))
        _, payload = await shown(protocol, offer)
        assert payload["extensions"]["payment-identifier"]["info"] == given_by_seller


SETTLED = {"success": True, "transaction": SIGNATURE, "network": CHAIN_IDS["devnet"], "payer": "x"}


@pytest.mark.parametrize(
    ("asked", "receipt"),
    [
        (answer(status=200, PAYMENT_RESPONSE=encoded(SETTLED)), PaymentReceipt(SIGNATURE)),
        (answer(status=200, X_PAYMENT_RESPONSE=encoded(SETTLED)), None),
        (answer(status=200), None),
        (answer(status=500), None),
        (answer({**REQUIRED, "error": "not of this answer"}, status=200), None),
        (
            answer(
                status=402,
                payment_response=encoded(
                    {"success": False, "errorReason": "transaction_failed", "transaction": ""}
                ),
            ),
            PaymentReceipt(None, "transaction_failed"),
        ),
        (
            answer(
                status=402,
                payment_response=encoded(
                    {"success": "true", "errorReason": None, "transaction": SIGNATURE}
                ),
            ),
            PaymentReceipt(SIGNATURE, "the seller reports a failure"),
        ),
        (
            answer({**REQUIRED, "error": "invalid_exact_svm_payload_memo_mismatch"}),
            PaymentReceipt(None, "invalid_exact_svm_payload_memo_mismatch"),
        ),
        (answer(status=200, PAYMENT_RESPONSE="%%%"), None),
        (answer(status=200, PAYMENT_RESPONSE=encoded({**SETTLED, "transaction": 5})), None),
        (answer(status=200, PAYMENT_RESPONSE=encoded({**SETTLED, "transaction": "lies"})), None),
    ],
    ids=range(11),
)
async def test_what_a_seller_says_of_a_payment_is_a_receipt(
    protocol: LoadedPayment, asked: HttpAnswer, receipt: PaymentReceipt | None
) -> None:
    (offer,) = whole(await protocol.offers(answer(REQUIRED)))
    assert await protocol.receipt(offer, asked) == receipt


async def test_a_receipt_of_version_1_stands_in_its_own_header(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(answer(body=REQUIRED_V1)))
    settled = answer(status=200, X_Payment_Response=encoded(SETTLED))
    assert await protocol.receipt(offer, settled) == PaymentReceipt(SIGNATURE)
    again = answer(body={**REQUIRED_V1, "error": "amount_insufficient"})
    assert await protocol.receipt(offer, again) == PaymentReceipt(None, "amount_insufficient")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)


async def offered(protocol: LoadedPayment, asked: HttpAnswer) -> tuple[PaymentOffer, ...]:
    """What is offered; nothing where it is refused in words."""
    try:
        return whole(await protocol.offers(asked))
    except InvalidRequest as refused:
        words = str(refused)
    assert words.startswith(("x402: ", "PAYMENT-REQUIRED: ", "body: ", "offers[", "headers must"))
    return ()


@promise("fields-sound-or-refused")
@given(field=st.sampled_from([*ENTRY, "extra.feePayer", "extra.memo"]), value=JSON)
async def test_whatever_a_field_is_the_offer_is_sound_or_refused_in_words(
    protocol: LoadedPayment, field: str, value: Any
) -> None:
    outer, _, inner = field.partition(".")
    required = extra(**{inner: value}) if inner else entry(**{outer: value})
    for offer in await offered(protocol, answer(required)):
        name, payload = await shown(protocol, offer)
        assert (name, payload["accepted"]) == ("PAYMENT-SIGNATURE", required["accepts"][0])


@given(header=st.text(max_size=200), body=st.binary(max_size=200))
async def test_noise_is_refused_or_offers_nothing(
    protocol: LoadedPayment, header: str, body: bytes
) -> None:
    assert await offered(protocol, answer(body=body)) == ()
    assert await offered(protocol, answer(body=body, PAYMENT_REQUIRED=header)) == ()
