"""The seller by x402, with a facilitator's answers as its API has them: what it asks of it, and
when it serves."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from paid_api import Price
from paid_api.forecast import create_app
from paid_api.x402 import NETWORKS
from quart.testing import QuartClient
from quart.wrappers import Response

DEVNET = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
SELLER, MINT, FEE_PAYER = "Seller1", "Mint1", "FeePayer1"
PATH = "/x402/forecast"


@dataclass
class Facilitator:
    """What a facilitator answers, and what it was asked."""

    valid: dict[str, Any] = field(default_factory=lambda: {"isValid": True, "payer": "Buyer1"})
    settled: dict[str, Any] = field(
        default_factory=lambda: {"success": True, "transaction": "Signature1", "network": DEVNET}
    )
    versions: tuple[int, ...] = (2, 1)
    status: int = 200
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/supported":
            names = {2: DEVNET, 1: NETWORKS[DEVNET]}
            kinds = [
                {
                    "x402Version": version,
                    "scheme": "exact",
                    "network": names[version],
                    "extra": {"feePayer": FEE_PAYER},
                }
                for version in self.versions
            ]
            return httpx.Response(200, json={"kinds": kinds, "extensions": [], "signers": {}})
        self.asked.append((path, json.loads(request.content)))
        return httpx.Response(
            self.status, json={"/verify": self.valid, "/settle": self.settled}[path]
        )


@pytest.fixture
def facilitator() -> Facilitator:
    return Facilitator()


@pytest.fixture
async def seller(facilitator: Facilitator) -> AsyncIterator[QuartClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(facilitator.answer)) as http:
        app = create_app(
            pay_to=SELLER,
            price=Price(10_000, MINT, 6),
            network="devnet",
            facilitator_url="http://facilitator.example",
            http=http,
        )
        async with app.test_app() as running:
            yield running.test_client()


def decoded(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(text))
    return found


def encoded(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


async def paid(seller: QuartClient, version: int, **changed: Any) -> Response:
    """The answer to a request that shows a payment of a fresh offer."""
    offered = await seller.get(PATH)
    assert offered.status_code == 402
    payload: dict[str, Any] = {"x402Version": version, "payload": {"transaction": "AAAA"}}
    if version == 2:
        required = decoded(offered.headers["PAYMENT-REQUIRED"])
        payload |= {"accepted": required["accepts"][0], "resource": required["resource"]}
        header = "PAYMENT-SIGNATURE"
    else:
        [accepted] = (await offered.get_json())["accepts"]
        payload |= {"scheme": accepted["scheme"], "network": accepted["network"]}
        header = "X-PAYMENT"
    return await seller.get(PATH, headers={header: encoded(payload | changed)})


async def test_an_offer_names_price_and_fee_payer_in_both_versions(seller: QuartClient) -> None:
    answer = await seller.get(PATH)
    assert answer.status_code == 402
    shared = {
        "scheme": "exact",
        "asset": MINT,
        "payTo": SELLER,
        "maxTimeoutSeconds": 60,
        "extra": {"feePayer": FEE_PAYER},
    }
    second = decoded(answer.headers["PAYMENT-REQUIRED"])
    assert second["x402Version"] == 2
    assert second["accepts"] == [{**shared, "network": DEVNET, "amount": "10000"}]
    assert second["resource"]["url"] == f"http://localhost{PATH}"
    first = await answer.get_json()
    assert first["x402Version"] == 1
    assert first["accepts"] == [
        {
            **shared,
            "network": "solana-devnet",
            "maxAmountRequired": "10000",
            "resource": f"http://localhost{PATH}",
            "description": "Tomorrow's weather",
            "mimeType": "",
        }
    ]


@pytest.mark.parametrize("version", [2, 1])
async def test_who_pays_is_served_when_the_payment_has_settled(
    seller: QuartClient, facilitator: Facilitator, version: int
) -> None:
    answer = await paid(seller, version)
    assert answer.status_code == 200
    assert set(await answer.get_json()) == {"day", "forecast"}
    header = {2: "PAYMENT-RESPONSE", 1: "X-PAYMENT-RESPONSE"}[version]
    assert decoded(answer.headers[header]) == facilitator.settled
    (verify, body), (settle, same) = facilitator.asked
    assert (verify, settle) == ("/verify", "/settle")
    assert body == same
    assert body["x402Version"] == version
    assert body["paymentPayload"]["payload"] == {"transaction": "AAAA"}
    assert body["paymentRequirements"]["payTo"] == SELLER


@pytest.mark.parametrize("version", [2, 1])
async def test_one_settled_payment_is_served_once(seller: QuartClient, version: int) -> None:
    assert (await paid(seller, version)).status_code == 200
    again = await paid(seller, version)
    assert again.status_code == 402
    assert "served already" in (await again.get_json())["error"]


async def test_what_is_for_another_offer_is_not_even_verified(
    seller: QuartClient, facilitator: Facilitator
) -> None:
    required = decoded((await seller.get(PATH)).headers["PAYMENT-REQUIRED"])
    [offer] = required["accepts"]
    for changed in (
        {"amount": "1"},
        {"asset": "Mint2"},
        {"payTo": "Buyer1"},
        {"network": "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"},
        {"extra": {"feePayer": SELLER}},
    ):
        answer = await paid(seller, 2, accepted={**offer, **changed})
        assert answer.status_code == 402
        assert "something else" in (await answer.get_json())["error"]
    assert (await paid(seller, 2, x402Version=1)).status_code == 402
    assert (await paid(seller, 1, network="solana")).status_code == 402
    assert (await seller.get(PATH, headers={"PAYMENT-SIGNATURE": "!"})).status_code == 402
    assert facilitator.asked == []


async def test_what_the_facilitator_refuses_is_not_served(
    seller: QuartClient, facilitator: Facilitator
) -> None:
    facilitator.valid = {"isValid": False, "invalidReason": "transaction_simulation_failed"}
    answer = await paid(seller, 2)
    assert answer.status_code == 402
    assert (await answer.get_json())["error"] == "transaction_simulation_failed"
    assert [path for path, _ in facilitator.asked] == ["/verify"]


@pytest.mark.parametrize(
    "settled",
    [
        {"success": False, "errorReason": "settlement_pending", "transaction": "Signature1"},
        {"success": "true", "transaction": "Signature1"},
        {"success": True},
        {},
    ],
    ids=["pending", "no boolean", "no signature", "nothing"],
)
async def test_what_did_not_settle_is_not_served(
    seller: QuartClient, facilitator: Facilitator, settled: dict[str, Any]
) -> None:
    facilitator.settled = settled
    answer = await paid(seller, 2)
    assert answer.status_code == 402
    assert decoded(answer.headers["PAYMENT-RESPONSE"]) == settled


async def test_a_facilitator_that_is_away_serves_nobody(
    seller: QuartClient, facilitator: Facilitator
) -> None:
    facilitator.status = 500
    assert (await paid(seller, 2)).status_code == 503


async def test_a_facilitator_of_another_network_is_said(
    seller: QuartClient, facilitator: Facilitator
) -> None:
    facilitator.versions = ()
    answer = await seller.get(PATH)
    assert answer.status_code == 503
    assert "does not settle" in (await answer.get_json())["error"]


async def test_a_facilitator_of_version_two_alone_is_enough(
    seller: QuartClient, facilitator: Facilitator
) -> None:
    facilitator.versions = (2,)
    assert (await (await seller.get(PATH)).get_json())["accepts"] == []
    assert (await paid(seller, 2)).status_code == 200
