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
from solward.support import jsontext
from solward.support.base58 import b58encode
from solward.types.errors import InvalidRequest
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

URL = "https://api.example.com/weather"
MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SELLER = "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5"
SPONSOR = "2WGcYYau2gLu2DUq68SxxXQmCgi77n8hFqqLNbNyg6Xk"
SIGNATURE = b58encode(bytes(range(64)))
WIRE = b"\x01" + bytes(200)

DETAILS: dict[str, Any] = {"network": "devnet", "decimals": 6, "tokenProgram": TOKEN}
REQUEST: dict[str, Any] = {
    "amount": "10000",
    "currency": MINT,
    "recipient": SELLER,
    "methodDetails": DETAILS,
}
SPONSORED = {**DETAILS, "feePayer": True, "feePayerKey": SPONSOR}


def encoded(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def challenge(request: Any = REQUEST, **more: str) -> str:
    parameters = {
        "id": "c-1",
        "realm": "api.example.com",
        "method": "solana",
        "intent": "charge",
        "request": encoded(request),
        **more,
    }
    return "Payment " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


def asking(*headers: str, status: int = 402) -> HttpAnswer:
    return HttpAnswer(URL, "GET", status, tuple(("WWW-Authenticate", each) for each in headers))


def request(**fields: Any) -> dict[str, Any]:
    return {**REQUEST, **fields}


def details(**fields: Any) -> dict[str, Any]:
    return request(methodDetails={**DETAILS, **fields})


@pytest.fixture(scope="module")
def protocol() -> LoadedPayment:
    point = EntryPoint("mpp", "solward_plugins.payments.mpp", "solward.payments")
    return load_registry(entry_points=[point]).payments["mpp"]


async def shown(
    protocol: LoadedPayment, offer: PaymentOffer, proof: PaymentProof
) -> tuple[str, dict[str, Any]]:
    [(name, value)] = (await protocol.headers(offer, proof)).items()
    scheme, _, text = value.partition(" ")
    assert (scheme, "=" in text) == ("Payment", False)
    credential: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return name, credential


async def test_a_charge_is_read_from_its_challenge(protocol: LoadedPayment) -> None:
    header = challenge(request(externalId="order 7"), expires="2026-11-23T04:05:06.789Z")
    (offer,) = whole(await protocol.offers(asking(header)))
    assert (offer.network, offer.asset, offer.units) == ("devnet", MINT, 10_000)
    assert (offer.pay_to, offer.fee_payer) == (SELLER, None)
    assert offer.modes == (PaymentMode.PUSH, PaymentMode.UNSPONSORED)
    assert (offer.memo, offer.nonce_memo) == ("order 7", False)
    assert (offer.decimals, offer.token_program) == (6, TOKEN)
    assert (offer.most_compute_units, offer.most_unit_price) == (200_000, 5_000_000)
    assert (offer.expires_ms, offer.opens_accounts) == (1_795_406_706_789, False)


async def test_without_an_external_id_there_is_no_memo_at_all(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(asking(challenge())))
    assert (offer.memo, offer.nonce_memo) == (None, False)


async def test_a_sponsored_charge_is_handed_over_and_never_sent(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(asking(challenge(request(methodDetails=SPONSORED)))))
    assert (offer.modes, offer.fee_payer) == ((PaymentMode.SPONSORED,), SPONSOR)
    with pytest.raises(InvalidRequest, match="mode push"):
        await protocol.headers(offer, PaymentProof(PaymentMode.PUSH, SELLER, signature=SIGNATURE))


@promise("offer-returned-unchanged")
@pytest.mark.parametrize("mode", list(PaymentMode), ids=str)
async def test_a_credential_has_the_challenge_as_it_came(
    protocol: LoadedPayment, mode: PaymentMode
) -> None:
    sponsored = mode is PaymentMode.SPONSORED
    wanted = request(methodDetails=SPONSORED if sponsored else DETAILS)
    header = challenge(wanted, expires="2026-11-23T04:05:06Z", opaque="e30", digest="sha-256=abc=")
    (offer,) = whole(await protocol.offers(asking(header)))
    push = mode is PaymentMode.PUSH
    proof = PaymentProof(mode, SELLER, None if push else WIRE, SIGNATURE if push else None)
    name, credential = await shown(protocol, offer, proof)
    assert name == "Authorization"
    assert credential["challenge"] == {
        "id": "c-1",
        "realm": "api.example.com",
        "method": "solana",
        "intent": "charge",
        "request": encoded(wanted),
        "expires": "2026-11-23T04:05:06Z",
        "opaque": "e30",
        "digest": "sha-256=abc=",
    }
    if push:
        assert credential["payload"] == {"type": "signature", "signature": SIGNATURE}
    else:
        transaction = base64.b64encode(WIRE).decode()
        assert credential["payload"] == {"type": "transaction", "transaction": transaction}


@promise("headers-stay-the-same")
async def test_headers_are_the_same_after_the_offer_was_stored(protocol: LoadedPayment) -> None:
    (offer,) = whole(await protocol.offers(asking(challenge(description=r"a \\ \"b\""))))
    stored = read_offer(jsontext.loads(jsontext.dumps(offer_json(offer))))
    proof = PaymentProof(PaymentMode.UNSPONSORED, SELLER, wire=WIRE)
    assert stored == offer
    assert await protocol.headers(stored, proof) == await protocol.headers(offer, proof)


async def test_a_credential_goes_into_the_header_that_the_seller_names(
    protocol: LoadedPayment,
) -> None:
    (offer,) = whole(await protocol.offers(asking(challenge(header="X-Payment-Credential"))))
    proof = PaymentProof(PaymentMode.UNSPONSORED, SELLER, wire=WIRE)
    name, credential = await shown(protocol, offer, proof)
    assert (name, credential["challenge"]["header"]) == ("X-Payment-Credential",) * 2
    with pytest.raises(InvalidRequest, match="header must be the name of a header"):
        whole(await protocol.offers(asking(challenge(header="X Y"))))
    with pytest.raises(InvalidRequest, match="must not contain Host"):
        whole(await protocol.offers(asking(challenge(header="Host"))))


ONE, TWO = challenge(), challenge(request(amount="2"))


@promise("challenges-share-headers")
@pytest.mark.parametrize(
    ("headers", "amounts"),
    [
        ((ONE, TWO), [10_000, 2]),
        ((f"{ONE}, {TWO}",), [10_000, 2]),
        ((f'Basic realm="a, Payment id=\\"x\\"", {TWO}, Negotiate YWJj=, {ONE} ,',), [2, 10_000]),
        ((f"Bearer, {TWO}",), [2]),
        ((f"{TWO}, Bearer",), [2]),
        ((f"Negotiate , ,{TWO.replace('Payment', 'pAYMENT')}",), [2]),
        ((TWO.replace(", ", " ,\t").replace("=", " = ", 2),), [2]),
        ((TWO.replace('method="solana"', "METHOD=solana"),), [2]),
        ((TWO.replace('"solana"', '"tempo"'), ONE), [10_000]),
        ((TWO.replace('"charge"', '"session"'),), []),
        ((f"{TWO.replace('Payment', 'Other')}, Payment",), []),
        (('Basic realm="Payments',), []),
        (('Basic realm="Payment request=1"',), []),
        (("Payment",), []),
        ((), []),
    ],
    ids=range(15),
)
async def test_challenges_may_share_a_header_with_each_other_and_other_schemes(
    protocol: LoadedPayment, headers: tuple[str, ...], amounts: list[int]
) -> None:
    offers = whole(await protocol.offers(asking(*headers)))
    assert [offer.units for offer in offers] == amounts


@pytest.mark.parametrize(
    "header",
    [
        f"Bearer {ONE}",
        ONE[:-1],
        ONE.replace(",", ";", 1),
        ONE.replace('"c-1"', '"c-1" x'),
        f'{ONE}, id="c-2"',
        f'{ONE}, ID="c-2"',
        f'{ONE}, "x"',
        f'realm="x", {ONE}',
        f"{ONE}, =",
        ONE.replace('"c-1"', '"\\ud800"'),
    ],
    ids=range(10),
)
async def test_what_is_not_written_as_challenges_are_is_refused(
    protocol: LoadedPayment, header: str
) -> None:
    with pytest.raises(InvalidRequest, match="WWW-Authenticate must be challenges"):
        whole(await protocol.offers(asking(header)))


async def test_escaped_characters_come_back_as_they_were_meant(protocol: LoadedPayment) -> None:
    header = challenge(description=r"caf\u00e9 \ud83d\ude00 \"q\" \\u")
    (offer,) = whole(await protocol.offers(asking(header)))
    assert offer.description == 'café 😀 "q" \\u'
    assert offer.raw["challenge"]["description"] == 'café 😀 "q" \\u'


@pytest.mark.parametrize(
    ("network", "currency", "asset"),
    [
        ("devnet", "sol", "SOL"),
        ("localnet", "SOL", "SOL"),
        ("devnet", "USDC", MINT),
        ("mainnet-beta", "usdc", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
        ("localnet", "USDC", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
        ("mainnet-beta", "PYUSD", "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo"),
    ],
)
async def test_a_currency_is_sol_a_mint_or_a_symbol_as_sellers_resolve_it(
    protocol: LoadedPayment, network: str, currency: str, asset: str
) -> None:
    wanted = request(currency=currency, methodDetails={"network": network})
    (offer,) = whole(await protocol.offers(asking(challenge(wanted))))
    assert (offer.network, offer.asset) == (network, asset)


async def test_mainnet_is_the_network_of_no_name_and_of_both_its_names(
    protocol: LoadedPayment,
) -> None:
    unnamed = (request(methodDetails={}), {k: REQUEST[k] for k in list(REQUEST)[:3]})
    for wanted in (*unnamed, details(network="mainnet"), details(network="mainnet-beta")):
        (offer,) = whole(await protocol.offers(asking(challenge(wanted))))
        assert offer.network == "mainnet-beta"


@promise("challenges-share-headers")
@pytest.mark.parametrize(
    "wanted",
    [
        details(network="base"),
        details(network=5),
        details(splits=[{"recipient": SPONSOR, "amount": "1", "memo": "for you"}]),
    ],
    ids=range(3),
)
async def test_a_charge_that_one_kind_of_transaction_cannot_pay_is_left_out(
    protocol: LoadedPayment, wanted: dict[str, Any]
) -> None:
    assert whole(await protocol.offers(asking(challenge(wanted)))) == ()


async def test_splits_are_parts_of_the_amount(protocol: LoadedPayment) -> None:
    splits = [
        {"recipient": SPONSOR, "amount": "100"},
        {"recipient": SELLER, "amount": "1", "ataCreationRequired": True},
    ]
    (offer,) = whole(await protocol.offers(asking(challenge(details(splits=splits)))))
    assert offer.units == 10_000
    assert offer.splits == (PaymentSplit(SPONSOR, 100), PaymentSplit(SELLER, 1))
    assert offer.opens_accounts is True
    (offer,) = whole(await protocol.offers(asking(challenge(details(splits=splits[:1])))))
    assert offer.opens_accounts is False


SPLIT = {"recipient": SPONSOR, "amount": "100"}
MALFORMED: list[tuple[Any, str]] = [
    *(
        (request(amount=amount), r"request\.amount must be digits")
        for amount in ("0", "01", "1_000", " 1", "1\n", "1e3", "\u0661", str(2**64), 5, None)
    ),
    (request(currency="BONK"), "currency"),
    (details(network="devnet") | {"currency": "PYUSD"}, "currency"),
    (request(currency=None), "currency"),
    (request(recipient=SELLER[:-4]), "recipient"),
    (request(recipient=None), "recipient"),
    (request(methodDetails=[]), "methodDetails"),
    (request(externalId="x" * 567), "externalId"),
    (request(externalId=7), "externalId"),
    (details(feePayer=1), r"methodDetails\.feePayer must be true or false"),
    (details(feePayer=True), "feePayerKey"),
    (details(feePayer=True, feePayerKey="x"), "feePayerKey"),
    (details(decimals=256), "decimals"),
    (details(decimals=6.0), "decimals"),
    (details(decimals="6"), "decimals"),
    (details(tokenProgram="token"), "tokenProgram"),
    (details(splits={}), "splits must be an array of at most 8"),
    (details(splits=[SPLIT] * 9), "splits must be an array of at most 8"),
    (details(splits=[SPLIT, {**SPLIT, "amount": "9900"}]), "must add up to less than amount"),
    (details(splits=[{**SPLIT, "amount": 100}]), r"splits\[0\]\.amount"),
    (details(splits=[{**SPLIT, "recipient": "x"}]), r"splits\[0\]\.recipient"),
    (details(splits=[{**SPLIT, "ataCreationRequired": "yes"}]), "ataCreationRequired"),
    (
        {**details(splits=[{**SPLIT, "ataCreationRequired": True}]), "currency": "sol"},
        "ataCreationRequired must be false for SOL",
    ),
    ([], "JSON object"),
    ("nonsense", "must be JSON"),
    (json.dumps(REQUEST)[:-1] + ', "amount": "1"}', "amount stands twice"),
    ({**REQUEST, "pad": "x" * (64 << 10)}, "at most 65536 bytes"),
]


@promise("amount-is-digits")
@pytest.mark.parametrize(("wanted", "words"), MALFORMED, ids=range(len(MALFORMED)))
async def test_a_malformed_charge_is_refused_by_the_field_s_name(
    protocol: LoadedPayment, wanted: Any, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        whole(await protocol.offers(asking(ONE, challenge(wanted))))
    assert str(refused.value).startswith("WWW-Authenticate: request")


@pytest.mark.parametrize("name", ["id", "realm", "request"])
async def test_a_challenge_lacks_nothing(protocol: LoadedPayment, name: str) -> None:
    for header in (challenge(**{name: ""}), challenge().replace(f'{name}="', f'{name}2="')):
        with pytest.raises(InvalidRequest, match=f"WWW-Authenticate: {name} is required"):
            whole(await protocol.offers(asking(header)))


@pytest.mark.parametrize("text", ["e30=\n", "e 30", "e30.", "e30==", "+/8", "e31"])
async def test_a_request_that_is_no_base64url_is_refused(
    protocol: LoadedPayment, text: str
) -> None:
    with pytest.raises(InvalidRequest, match="request must be a JSON object in base64url"):
        whole(await protocol.offers(asking(challenge().replace(encoded(REQUEST), text))))


@pytest.mark.parametrize(
    ("text", "expires_ms"),
    [
        ("2026-11-23T04:05:06Z", 1_795_406_706_000),
        ("2026-11-23T04:05:06.1Z", 1_795_406_706_100),
        ("2026-11-23T04:05:06.123456789Z", 1_795_406_706_123),
        ("2026-11-23T05:05:06.5+01:00", 1_795_406_706_500),
    ],
)
async def test_when_an_offer_ends_is_an_instant(
    protocol: LoadedPayment, text: str, expires_ms: int
) -> None:
    (offer,) = whole(await protocol.offers(asking(challenge(expires=text))))
    assert offer.expires_ms == expires_ms


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-11-23", "2026-11-23T04:05:06", "2026-13-01T00:00:00Z", "1795406706",
     "2026-11-23T04:05:60Z", "0001-01-01T00:00:00Z", "2026-11-23T04:05:06+99:00", "\u0662026"],
)  # fmt: skip
async def test_an_end_that_is_no_instant_is_refused(protocol: LoadedPayment, text: str) -> None:
    with pytest.raises(InvalidRequest, match="expires must be an RFC 3339 instant"):
        whole(await protocol.offers(asking(challenge(expires=text))))


async def test_of_more_charges_than_anybody_offers_the_first_count(protocol: LoadedPayment) -> None:
    for number in (32, 33):
        assert len(whole(await protocol.offers(asking(*[ONE] * number)))) == 32


ODD = challenge({**REQUEST, "amount": "1e9"})


@promise("odd-offer-stops-no-other")
@pytest.mark.parametrize(
    "headers",
    [
        (ODD, ONE),
        (ONE, ODD),
        (f"{ODD}, {ONE}",),
        (ONE, "Payment id=\x00"),
        (f"{ONE}, Basic realm=a b",),
        (challenge("nonsense"), ONE),
    ],
)
async def test_an_odd_challenge_hides_no_other(
    protocol: LoadedPayment, headers: tuple[str, ...]
) -> None:
    read = await protocol.offers(asking(*headers))
    offers = [each for each in read if not isinstance(each, InvalidRequest)]
    [expected] = whole(await protocol.offers(asking(ONE)))
    assert offers == [expected]
    [odd] = [str(each) for each in read if isinstance(each, InvalidRequest)]
    assert "WWW-Authenticate" in odd


async def test_only_a_402_asks_for_a_payment(protocol: LoadedPayment) -> None:
    assert whole(await protocol.offers(asking(ONE, status=401))) == ()


RECEIPT = {"method": "solana", "reference": SIGNATURE, "status": "success", "timestamp": "x"}
PROBLEM = {"type": "about:blank", "title": "Invalid Challenge", "detail": "it has expired"}


def receipt(value: str, status: int = 200) -> HttpAnswer:
    return HttpAnswer(URL, "GET", status, (("payment-receipt", value),))


def problem(body: bytes, kind: str = "application/problem+json; charset=utf-8") -> HttpAnswer:
    return HttpAnswer(URL, "GET", 402, (("content-type", kind),), body)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (receipt(encoded(RECEIPT)), PaymentReceipt(SIGNATURE)),
        (receipt(encoded(RECEIPT), 500), PaymentReceipt(SIGNATURE)),
        (receipt(encoded({**RECEIPT, "reference": "0xabc"})), None),
        (
            receipt(encoded({**RECEIPT, "status": "failed"})),
            PaymentReceipt(SIGNATURE, "the seller reports a failure"),
        ),
        (receipt("%%%"), None),
        (receipt(""), None),
        (problem(json.dumps(PROBLEM).encode()), PaymentReceipt(None, "it has expired")),
        (problem(b'{"title": "Invalid Challenge"}'), PaymentReceipt(None, "Invalid Challenge")),
        (problem(b"[]"), None),
        (problem(b"{"), None),
        (problem(json.dumps(PROBLEM).encode(), "text/html"), None),
        (HttpAnswer(URL, "GET", 200), None),
        (HttpAnswer(URL, "GET", 500, (), b"Internal Server Error"), None),
    ],
    ids=range(13),
)
async def test_what_a_seller_says_of_a_payment_is_a_receipt(
    protocol: LoadedPayment, answer: HttpAnswer, expected: PaymentReceipt | None
) -> None:
    (offer,) = whole(await protocol.offers(asking(ONE)))
    assert await protocol.receipt(offer, answer) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
FIELDS = ["amount", "currency", "recipient", "externalId", "description", "methodDetails"]
INNER = ["network", "decimals", "tokenProgram", "feePayer", "feePayerKey", "splits"]


async def offered(protocol: LoadedPayment, asked: HttpAnswer) -> tuple[PaymentOffer, ...]:
    """What is offered; nothing where it is refused in words."""
    try:
        return whole(await protocol.offers(asked))
    except InvalidRequest as refused:
        words = str(refused)
    assert words.startswith(("mpp: ", "WWW-Authenticate", "offers[", "headers must"))
    return ()


@given(field=st.sampled_from([*FIELDS, *INNER]), value=JSON)
async def test_whatever_a_field_is_the_offer_is_sound_or_refused_in_words(
    protocol: LoadedPayment, field: str, value: Any
) -> None:
    wanted = details(**{field: value}) if field in INNER else request(**{field: value})
    header = challenge(wanted)
    for offer in await offered(protocol, asking(header)):
        proof = PaymentProof(PaymentMode.UNSPONSORED, SELLER, wire=WIRE)
        if offer.fee_payer is None:
            _, credential = await shown(protocol, offer, proof)
            assert credential["challenge"]["request"] == encoded(wanted)


PIECES = ["Payment", "Basic", " ", ", ", ",", "=", '"', "\\", "id", "realm", "x", "YWJj=", ONE, "é"]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
async def test_noise_is_refused_or_offers_what_stands_there(
    protocol: LoadedPayment, pieces: list[str]
) -> None:
    offers = await offered(protocol, asking("".join(pieces)))
    assert len(offers) <= pieces.count(ONE)
    assert {offer.units for offer in offers} <= {10_000}
