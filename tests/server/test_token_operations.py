"""The token operations by REST: what they answer beside their records."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import Api, serving_api


async def own_token(api: Api, wallet: str) -> str:
    """A token of the wallet's with 6 decimals, of which it holds 1000."""
    body = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": 1000}
    return str((await api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"])


@pytest.mark.more
async def test_an_answer_has_the_details_of_its_record_at_its_top(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_transactions_per_minute=6) as api:
        wallet = await api.wallet(1)
        mint = await own_token(api, wallet)
        for path, body in (
            ("mint-supply", {"amount": Decimal("2.5")}),
            ("burn", {"amount": Decimal("1002.5")}),
            ("revoke-authority", {"authorityType": "freeze"}),
            ("close-account", {}),
        ):
            answer = await api.post(f"/wallets/{wallet}/{path}", {"mint": mint} | body)
            assert answer.status == 200, (path, answer.text)
            assert answer.json["details"].items() <= answer.json.items(), path


@promise("revoke-authority-fields")
async def test_a_revocation_says_that_it_is_revoked_and_defaults_to_mint(api: Api) -> None:
    wallet = await api.wallet(1)
    mint = await own_token(api, wallet)
    answer = await api.post(f"/wallets/{wallet}/revoke-authority", {"mint": mint})
    assert (answer.json["revoked"], answer.json["authorityType"]) == (True, "mint")


@promise("launch-fields")
async def test_a_launch_answers_its_token_and_is_made_once_per_key(api: Api) -> None:
    wallet = await api.wallet(1)
    body = {"name": "Demo coin", "symbol": "DEMO"}
    once = {"Idempotency-Key": "launch"}
    answer = await api.post(f"/wallets/{wallet}/launch-token", body, headers=once)
    shown = {name: answer.json[name] for name in ("name", "symbol", "decimals", "supply")}
    assert shown == body | {"decimals": 9, "supply": 1_000_000}
    again = await api.post(f"/wallets/{wallet}/launch-token", body, headers=once)
    assert (again.status, again.text) == (200, answer.text)
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    (token,) = balance["tokens"]
    assert (token["mint"], token["uiBalance"]) == (answer.json["mint"], 1_000_000)
