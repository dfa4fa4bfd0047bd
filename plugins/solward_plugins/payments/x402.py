"""x402: the scheme `exact` on Solana, of versions 1 and 2.

Version 2 is in the header PAYMENT-REQUIRED, and the body is then ignored; version 1 is in the body.
The payment is a token transfer. The facilitator, `extra.feePayer`, pays the network's fee.

The models of the package `x402` are not used: they drop unknown fields, which must be returned to
the seller unchanged, and they accept `pay_to` in addition to `payTo`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, TypeGuard

from solward import (
    CHAIN_IDS,
    HttpAnswer,
    InvalidRequest,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    hookimpl,
    read_json,
    read_units,
)
from solward_plugins.payments.reading import (
    MOST_ENTRIES,
    Object,
    address_of,
    cut_text,
    entry_or_problem,
    header_of_json,
    integer_of,
    json_in_header,
    list_of,
    object_of,
    optional_text,
    text_of,
)

_EXACT: Final = "exact"
_REQUIRED: Final = "PAYMENT-REQUIRED"
_VERSION: Final = "x402Version"
_PAYMENT: Final = {1: "X-PAYMENT", 2: "PAYMENT-SIGNATURE"}
_RESPONSE: Final = {1: "X-PAYMENT-RESPONSE", 2: "PAYMENT-RESPONSE"}
_AMOUNT: Final = {1: "maxAmountRequired", 2: "amount"}

# CAIP-2 ids are version 2's names of networks; version 1 has names of its own.
_NAMES: Final[dict[int, Mapping[str, str]]] = {
    1: MappingProxyType(
        {"solana": "mainnet-beta", "solana-devnet": "devnet", "solana-testnet": "testnet"}
    ),
    2: MappingProxyType({chain: name for name, chain in CHAIN_IDS.items()}),
}

# Bounds that the facilitators check.
_MOST_MEMO_BYTES: Final = 256
_MOST_UNIT_PRICE: Final = 5_000_000
_MOST_SECONDS: Final = 10**9

_IDENTIFIER: Final = "payment-identifier"


@hookimpl
def payment_spec() -> PaymentSpec:
    """Declare the protocol's name; it needs no settings."""
    return PaymentSpec("x402")


@hookimpl
async def payment_offers(answer: HttpAnswer) -> list[PaymentOffer | InvalidRequest]:
    """Return the entries of `accepts` that are `exact` on Solana."""
    if answer.status != HTTPStatus.PAYMENT_REQUIRED:
        return []
    headers = answer.all_headers(_REQUIRED)
    if headers:
        # With this header a body of version 1 is ignored, even if the header is malformed: whoever
        # can damage a header must not choose the version by that.
        if len(headers) > 1:
            raise InvalidRequest(f"{_REQUIRED} must be one header, not {len(headers)}")
        required = json_in_header(headers[0], _REQUIRED, url=False)
        _check_version(required, 2, _REQUIRED)
        return _read_offers(required, 2, _REQUIRED)
    body = _body(answer.body)
    if body is None:
        return []
    _check_version(body, 1, "body")
    return _read_offers(body, 1, "body")


@hookimpl
async def payment_headers(offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
    """Return the header with the unchanged entry and the transaction."""
    raw, wire = offer.raw, proof.wire or b""
    version: int = raw["version"]
    accepted: Object = raw["accepted"]
    payload: Object = {_VERSION: version}
    if version == 1:
        payload |= {"scheme": accepted["scheme"], "network": accepted["network"]}
    payload["payload"] = {"transaction": base64.b64encode(wire).decode()}
    if version == 2:
        payload["accepted"] = accepted
        if "resource" in raw:
            payload["resource"] = raw["resource"]
        if "extensions" in raw:
            payload["extensions"] = _add_identifier(raw["extensions"], wire)
    return {_PAYMENT[version]: header_of_json(payload, url=False)}


@hookimpl
async def payment_receipt(offer: PaymentOffer, answer: HttpAnswer) -> PaymentReceipt | None:
    """Return the settlement's transaction, or the reason why there was none."""
    version: int = offer.raw["version"]
    header = answer.header(_RESPONSE[version])
    if header is not None:
        settled = json_in_header(header, _RESPONSE[version], url=False)
        reason = None
        if settled.get("success") is not True:
            reason = cut_text(settled.get("errorReason")) or "the seller reports a failure"
        return PaymentReceipt(cut_text(settled.get("transaction")) or None, reason)
    if answer.status != HTTPStatus.PAYMENT_REQUIRED:
        return None
    header = answer.header(_REQUIRED)
    refusal = _body(answer.body) if header is None else json_in_header(header, _REQUIRED, url=False)
    return PaymentReceipt(None, cut_text((refusal or {}).get("error")) or None)


def _check_version(required: Object, version: int, field: str) -> None:
    found = required.get(_VERSION)
    if type(found) is not int or found != version:
        raise InvalidRequest(f"{field}: {_VERSION} must be {version}")


def _body(body: bytes) -> Object | None:
    """Return the body if it is one of x402; None for any other body."""
    if _VERSION.encode() not in body:
        return None
    found = read_json(body, "body")
    return found if isinstance(found, dict) and _VERSION in found else None


def _read_offers(required: Object, version: int, field: str) -> list[PaymentOffer | InvalidRequest]:
    beside: Object = {}
    if version == 2:
        for name in ("resource", "extensions"):
            if required.get(name) is not None:
                beside[name] = object_of(required[name], f"{field}: {name}")
    accepts = list_of(required.get("accepts"), f"{field}: accepts", MOST_ENTRIES)
    read = (
        entry_or_problem(_parse_offer, each, beside, version, f"{field}: accepts[{at}]")
        for at, each in enumerate(accepts)
    )
    return [each for each in read if each is not None]


def _is_solana(network: object, version: int) -> TypeGuard[str]:
    if not isinstance(network, str):
        return False
    return network in _NAMES[version] or (version == 2 and network.startswith("solana:"))


def _parse_offer(given: object, beside: Object, version: int, where: str) -> PaymentOffer | None:
    """Return the offer of an entry of `accepts`; None if it is not `exact` on Solana."""
    entry = object_of(given, where)
    network = entry.get("network")
    if entry.get("scheme") != _EXACT or not _is_solana(network, version):
        return None
    extra = object_of(entry.get("extra"), f"{where}.extra")
    memo = optional_text(extra.get("memo"), f"{where}.extra.memo", _MOST_MEMO_BYTES)
    if entry.get("maxTimeoutSeconds") is not None:
        # The transaction dies with its blockhash, whatever this is; the seller wants it back.
        integer_of(entry["maxTimeoutSeconds"], f"{where}.maxTimeoutSeconds", 1, _MOST_SECONDS)
    resource, description = _resource(entry, beside, version, where)
    return PaymentOffer(
        network=_NAMES[version].get(network, network),
        asset=address_of(entry.get("asset"), f"{where}.asset"),
        units=read_units(entry.get(_AMOUNT[version]), f"{where}.{_AMOUNT[version]}"),
        pay_to=address_of(entry.get("payTo"), f"{where}.payTo"),
        modes=(PaymentMode.SPONSORED,),
        fee_payer=address_of(extra.get("feePayer"), f"{where}.extra.feePayer"),
        memo=memo,
        nonce_memo=memo is None,
        most_unit_price=_MOST_UNIT_PRICE,
        resource=resource,
        description=description,
        raw={"version": version, "accepted": entry, **beside},
    )


def _resource(entry: Object, beside: Object, version: int, where: str) -> tuple[str | None, str]:
    """Return the URL and the description of the sold resource, both from the seller."""
    if version == 1:
        resource = optional_text(entry.get("resource"), f"{where}.resource")
        return resource, cut_text(entry.get("description"))
    if "resource" not in beside:
        return optional_text(entry.get("resource"), f"{where}.resource"), ""
    url = text_of(beside["resource"].get("url"), f"{_REQUIRED}: resource.url")
    return url, cut_text(beside["resource"].get("description"))


def _add_identifier(extensions: Mapping[str, Any], wire: bytes) -> Mapping[str, Any]:
    """Return the extensions unchanged, or with an identifier of this payment if the seller requires
    one; the identifier derives from the transaction, so it stays the same."""
    declared: Any = extensions.get(_IDENTIFIER)
    info = declared.get("info") if isinstance(declared, dict) else None
    if not isinstance(info, dict) or info.get("required") is not True or "id" in info:
        return extensions
    identifier = f"pay_{hashlib.sha256(wire).hexdigest()[:32]}"
    return {**extensions, _IDENTIFIER: {**declared, "info": {**info, "id": identifier}}}
