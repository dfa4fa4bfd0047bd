"""Who may do little stops nobody and fills nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.services import Api, serving_api

STRANGER = str(Keypair().pubkey())


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as made:
        yield made


async def pay(api: Api, wallet: str, amount: str, **options: Any) -> int:
    body = {"to": STRANGER, "amount": Decimal(amount)}
    return (await api.post(f"/wallets/{wallet}/transfer", body, **options)).status


@promise("small-key-changes-nothing")
@pytest.mark.parametrize("terms", [{"spendingLimitSol": 0}, {"grants": []}])
async def test_a_key_that_may_spend_nothing_changes_nothing(
    api: Api, terms: dict[str, Any]
) -> None:
    wallet = await api.wallet()
    await api.call("PATCH", f"/wallets/{wallet}", {"tags": ["the operator's"]})
    key, _ = await api.key(**terms)
    schedule = {
        "name": "rent",
        "operation": "transfer",
        "parameters": {"to": STRANGER, "amount": Decimal("0.01")},
        "every": "1d",
    }
    for method, path, body in (
        ("PATCH", f"/wallets/{wallet}", {"tags": ["x" * 100] * 100}),
        ("POST", "/wallets", {"name": wallet}),
        ("POST", f"/wallets/{wallet}/schedules", schedule),
    ):
        answer = await api.call(method, path, body, token=key)
        assert answer.status == 403, answer.text
        assert "may spend nothing, so it reads and changes nothing" in answer.error
    assert (await api.get(f"/wallets/{wallet}", token=key)).json["tags"] == ["the operator's"]
    assert len((await api.get("/wallets")).json["wallets"]) == 1


@promise("small-key-changes-nothing")
async def test_changes_are_charged_to_the_rate_of_the_key(api: Api) -> None:
    wallet = await api.wallet()
    key, _ = await api.key(rateLimit=3)
    path, statuses = f"/wallets/{wallet}", []
    for number in range(5):
        body = {"tags": [str(number)]}
        statuses.append((await api.call("PATCH", path, body, token=key)).status)
    assert statuses == [200, 200, 200, 429, 429]


@promise("airdrops-have-their-own-rate")
async def test_the_faucet_takes_no_turn_of_the_wallets(api: Api) -> None:
    wallet = await api.wallet(2)
    key, _ = await api.key(spendingLimitSol=0, rateLimit=100)
    statuses = [
        (await api.post(f"/wallets/{wallet}/airdrop", {"amount": 1}, token=key)).status
        for _ in range(6)
    ]
    # The first was the wallet's own start, as MAX_TRANSACTIONS_PER_MINUTE is 5.
    assert statuses == [200, 200, 200, 200, 500, 500]
    limits = (await api.get(f"/wallets/{wallet}/limits")).json
    assert limits["maxTransactionsPerMinute"]["used"] == 0
    assert await pay(api, wallet, "0.01") == 200


@promise("key-costs-within-its-limit")
async def test_a_key_of_one_lamport_uses_up_no_costs_of_the_wallet(api: Api) -> None:
    wallet = await api.wallet(2)
    key, _ = await api.key(spendingLimitSol=Decimal("0.000000001"), rateLimit=100)
    answer = await api.post(f"/wallets/{wallet}/wrap-sol", {"amount": Decimal("1e-9")}, token=key)
    assert (answer.status, "costs_limit" in answer.error) == (500, True), answer.text
    limits = (await api.get(f"/wallets/{wallet}/limits")).json
    assert limits["maxCostsSolPerDay"]["spent"] == 0


@promise("key-costs-within-its-limit")
async def test_a_key_with_the_contracts_defaults_makes_five_transactions_in_a_minute(
    api: Api,
) -> None:
    wallet = await api.wallet(2)
    key, _ = await api.key()
    statuses = [await pay(api, wallet, f"0.0{number}", token=key) for number in range(1, 7)]
    assert statuses == [200] * 5 + [500]
