"""solward_plugin_template: pay sellers that ask for a transfer and its signature in two headers.

A payment protocol reads what a seller answers with the status 402 (`payment_offers`), and writes
the headers by which the same request is made again as a paid one (`payment_headers`). It makes no
transaction and signs nothing: Solward pays the offer, within the caller's maximum and its grants.
"""

from __future__ import annotations

from typing import Any

from solward import (
    HttpAnswer,
    InvalidRequest,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    hookimpl,
    is_address,
    is_signature,
    read_json,
    read_units,
    write_json,
)

PAYMENT_REQUIRED = 402
PRICE = "Template-Price"
PAID = "Template-Paid"
RECEIPT = "Template-Receipt"


@hookimpl
def payment_spec() -> PaymentSpec:
    """Declare the protocol's name; a protocol gets no network, no secret and no wallet."""
    return PaymentSpec("solward_plugin_template")


@hookimpl
async def payment_offers(answer: HttpAnswer) -> list[PaymentOffer]:
    """Return the offer in the seller's header, or none if the answer has no such header."""
    text = answer.header(PRICE)
    if answer.status != PAYMENT_REQUIRED or text is None:
        return []
    price = read_json(text, PRICE)
    if not isinstance(price, dict):
        raise InvalidRequest(f"{PRICE} must be a JSON object")
    order = price.get("order")
    if not isinstance(order, str) or not order.isascii() or not order.isprintable():
        raise InvalidRequest(f"{PRICE}: order must be printable ASCII text")
    return [
        PaymentOffer(
            network=price.get("network", "mainnet-beta"),
            asset=address(price, "mint"),
            units=read_units(price.get("units"), f"{PRICE}: units"),
            pay_to=address(price, "payTo"),
            # The wallet sends the transaction, and shows its signature once it has landed.
            modes=(PaymentMode.PUSH,),
            # Solward passes this to `payment_headers`, even after a crash.
            raw={"order": order},
        )
    ]


@hookimpl
async def payment_headers(offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
    """Return the headers, the same for the same payment, because it may be shown again."""
    return {PAID: write_json({"order": offer.raw["order"], "signature": proof.signature})}


@hookimpl
async def payment_receipt(answer: HttpAnswer) -> PaymentReceipt | None:
    """Return the receipt in the seller's header; Solward believes the ledger, not the receipt."""
    text = answer.header(RECEIPT)
    return PaymentReceipt(signature=text) if is_signature(text) else None


def address(price: dict[str, Any], field: str) -> str:
    """Return a field that must be an address."""
    value = price.get(field)
    if not is_address(value):
        raise InvalidRequest(f"{PRICE}: {field} must be a base58 address of 32 bytes")
    return value
