"""Wrapping by REST: what the contract answers, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.api import Api


async def test_wrapping_and_unwrapping_answer_their_records_in_full(api: Api) -> None:
    wallet = await api.wallet(1)
    wrapped = (await api.post(f"/wallets/{wallet}/wrap-sol", {"amount": 0.25})).json
    assert wrapped["amount"] == wrapped["details"]["amount"]
    assert (wrapped["type"], wrapped["status"]) == ("wrap_sol", "confirmed")
    (token,) = (await api.get(f"/wallets/{wallet}/balance")).json["tokens"]
    assert (token["symbol"], token["rawBalance"]) == ("SOL", "250000000")
    unwrapped = (await api.post(f"/wallets/{wallet}/unwrap-sol")).json
    assert (unwrapped["type"], unwrapped["account"]) == ("unwrap_sol", wrapped["account"])
    shown = [{key: value for key, value in answer.items() if key not in answer["details"]}
             for answer in (unwrapped, wrapped)]  # fmt: skip
    assert shown == (await api.records(wallet))[:2]
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    assert (str(balance["sol"]), balance["tokens"]) == ("0.99999", [])


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("wrap-sol", {}, "amount is required and must be a number"),
        ("wrap-sol", {"amount": "1"}, "amount must be a number"),
        ("wrap-sol", {"amount": True}, "amount must be a number"),
        ("wrap-sol", {"amount": 0}, "amount must be greater than 0"),
        ("wrap-sol", {"amount": -1}, "amount must be greater than 0"),
        ("wrap-sol", {"amount": 1e-10}, "amount has more than 9 decimals"),
        ("wrap-sol", {"amount": 18446744074}, "amount is larger than the ledger can hold"),
        ("unwrap-sol", None, "There is nothing to unwrap: the wallet has no wrapped SOL account"),
    ],
)
async def test_a_wrong_request_is_400_and_leaves_no_record(
    api: Api, path: str, body: Any, text: str
) -> None:
    wallet = await api.wallet()
    answer = await api.post(f"/wallets/{wallet}/{path}", body)
    assert (answer.status, answer.error) == (400, text)
    assert await api.records(wallet) == []
