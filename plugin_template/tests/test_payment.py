from __future__ import annotations

from typing import Any

import pytest
from solward import HttpAnswer, InvalidRequest, PaymentMode, write_json
from solward.testing import conformance

from solward_plugin_template import payment

PRICE = {
    "network": "devnet",
    "mint": "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
    "units": "10000",
    "payTo": "7WduLbRfYhTJktjLw5FDEyrqoEv61aTTCuGAetgLjzN5",
    "order": "order-7",
}


def answer_with(**changed: Any) -> HttpAnswer:
    price = write_json({**PRICE, **changed})
    return HttpAnswer("https://api.example.com/", "GET", 402, (("Template-Price", price),))


SERVED = HttpAnswer("https://api.example.com/", "GET", 200, (("Template-Receipt", "3" * 87),))

# Reads, shows and distrusts as every protocol must.
test_it_conforms = conformance.payment_test(payment, answers=[answer_with()], receipts=[SERVED])


async def test_a_price_is_an_offer() -> None:
    [offer] = await payment.payment_offers(answer_with())
    assert (offer.units, offer.modes) == (10_000, (PaymentMode.PUSH,))


@pytest.mark.parametrize(
    "changed", [{"units": "1_000"}, {"units": 1000}, {"payTo": "me"}, {"order": None}]
)
async def test_a_price_that_is_malformed_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="Template-Price: "):
        await payment.payment_offers(answer_with(**changed))


async def test_an_answer_without_a_price_offers_nothing() -> None:
    assert await payment.payment_offers(SERVED) == []
