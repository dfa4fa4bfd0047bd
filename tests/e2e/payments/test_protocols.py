"""What sellers that others made answer is read by the built-in protocols, each by its own."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint

import httpx
import pytest
from tests.e2e.payments.stage import Counterparts, Seller
from tests.promises import promise

from solward.plugins import load_registry
from solward.types.payment import HttpAnswer, PaymentMode, PaymentOffer

# The first run makes the environments.
pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]

SPONSORED = (PaymentMode.SPONSORED,)
OWN_FEE = (PaymentMode.PUSH, PaymentMode.UNSPONSORED)
ROWS: dict[str, tuple[Callable[[Counterparts], Seller], str, str, tuple[PaymentMode, ...]]] = {
    "x402-python": (Counterparts.x402_python, "/weather", "x402", SPONSORED),
    "x402-python-memo": (Counterparts.x402_python, "/order", "x402", SPONSORED),
    "x402-npm": (Counterparts.x402_npm, "/weather", "x402", SPONSORED),
    "x402-v1": (Counterparts.x402_v1, "/weather", "x402", SPONSORED),
    "mpp-npm-sponsored": (Counterparts.mpp_npm, "/sponsored", "mpp", SPONSORED),
    "mpp-npm-memo": (Counterparts.mpp_npm, "/order", "mpp", SPONSORED),
    "mpp-npm": (Counterparts.mpp_npm, "/unsponsored", "mpp", OWN_FEE),
    "mpp-python": (Counterparts.mpp_python, "/sponsored", "mpp", SPONSORED),
    "mpp-python-push": (Counterparts.mpp_python, "/push", "mpp", OWN_FEE),
}


async def offers(url: str) -> dict[str, tuple[PaymentOffer, ...]]:
    """What each protocol reads of a seller's answer."""
    points = [
        EntryPoint(name, f"solward_plugins.payments.{name}", "solward.payments")
        for name in ("mpp", "x402")
    ]
    async with httpx.AsyncClient() as http:
        told = await http.get(url)
    headers = tuple(told.headers.multi_items())
    answer = HttpAnswer(url, "GET", told.status_code, headers, told.content)
    loaded = load_registry(entry_points=points).payments
    return {name: await protocol.offers(answer) for name, protocol in loaded.items()}


@promise("answers-read-by-protocol")
@pytest.mark.parametrize("name", ROWS)
async def test_a_seller_s_answer_is_read_by_its_protocol_and_no_other(
    stage: Counterparts, name: str
) -> None:
    make, path, protocol, modes = ROWS[name]
    seller = make(stage)
    found = await offers(f"{seller.url}{path}")
    [offer] = found.pop(protocol)
    assert list(found.values()) == [()]
    assert (offer.pay_to, offer.modes) == (seller.pay_to, modes)
    assert offer.units in (50_000, 30_000)
