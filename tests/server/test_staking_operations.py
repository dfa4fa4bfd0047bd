"""Staking and wrapping by REST: what the contract answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.promises import promise
from tests.support.services import Api

from solward.solana.stakes import RecordedStakes, read_stakes
from solward.types.errors import LedgerRejected
from solward.types.ledger import NOT_SERVED
from solward.vault.ledger.client import Ledger


def besides_details(answer: dict[str, Any], *more: str) -> dict[str, Any]:
    """The record in an answer as it is listed: without its fee, its details at the top level, and
    `more`."""
    return {
        name: value
        for name, value in answer.items()
        if name not in ("fee", *more) and name not in answer["details"]
    }


async def advance(api: Api) -> None:
    assert api.service.localnet is not None
    await api.service.localnet.advance_epochs(1)


async def states(api: Api, wallet: str) -> list[tuple[str, str, str]]:
    found = (await api.get(f"/wallets/{wallet}/stakes")).json
    assert list(found) == ["stakes"]
    for each in found["stakes"]:
        assert list(each) == ["address", "balance", "state"]
    return [(each["address"], str(each["balance"]), each["state"]) for each in found["stakes"]]


@promise("stake-fields", "unstake-and-withdraw")
async def test_a_stake_is_made_listed_unstaked_and_withdrawn(api: Api) -> None:
    wallet = await api.wallet(2)
    assert await states(api, wallet) == []
    staked = (await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5})).json
    account = staked["stakeAccount"]
    assert (staked["type"], staked["status"]) == ("stake", "confirmed")
    assert await states(api, wallet) == [(account, "1.5", "activating")]
    await advance(api)
    assert await states(api, wallet) == [(account, "1.5", "active")]

    asked = {"stakeAccount": account}
    answer = await api.post(f"/wallets/{wallet}/withdraw-stake", asked)
    expected = f"stakeAccount: {account} is active; unstake it first"
    assert (answer.status, answer.error) == (400, expected)
    unstaked = (await api.post(f"/wallets/{wallet}/unstake", asked)).json
    assert (unstaked["type"], unstaked["deactivated"]) == ("unstake", True)
    assert await states(api, wallet) == [(account, "1.5", "deactivating")]
    await advance(api)
    assert await states(api, wallet) == [(account, "1.5", "inactive")]

    withdrawn = (await api.post(f"/wallets/{wallet}/withdraw-stake", asked)).json
    assert (withdrawn["type"], withdrawn["withdrawn"]) == ("withdraw_stake", True)
    assert await states(api, wallet) == []
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    assert str(balance["sol"]) == "1.999985"
    assert (await api.records(wallet))[:3] == [
        besides_details(withdrawn, "withdrawn"),
        besides_details(unstaked, "deactivated"),
        besides_details(staked),
    ]


async def test_staking_twice_with_one_key_stakes_once(api: Api) -> None:
    wallet = await api.wallet(2)
    once = {"Idempotency-Key": "stake"}
    first = await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5}, headers=once)
    again = await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5}, headers=once)
    assert (again.status, again.text) == (200, first.text)
    assert len(await states(api, wallet)) == 1


@promise("wrap-and-unwrap")
async def test_wrapping_and_unwrapping_answer_their_records_in_full(api: Api) -> None:
    wallet = await api.wallet(1)
    wrapped = (await api.post(f"/wallets/{wallet}/wrap-sol", {"amount": 0.25})).json
    assert wrapped["amount"] == wrapped["details"]["amount"]
    assert (wrapped["type"], wrapped["status"]) == ("wrap_sol", "confirmed")
    (token,) = (await api.get(f"/wallets/{wallet}/balance")).json["tokens"]
    assert (token["symbol"], token["rawBalance"]) == ("SOL", "250000000")
    unwrapped = (await api.post(f"/wallets/{wallet}/unwrap-sol")).json
    assert (unwrapped["type"], unwrapped["account"]) == ("unwrap_sol", wrapped["account"])
    shown = [besides_details(unwrapped), besides_details(wrapped)]
    assert shown == (await api.records(wallet))[:2]
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    assert (str(balance["sol"]), balance["tokens"]) == ("0.99999", [])


async def test_stakes_are_of_the_records_where_no_provider_lists_them(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet, other = await api.wallet(2), await api.wallet(2)

    async def stake(by: str) -> str:
        answer = await api.post(f"/wallets/{by}/stake", {"amount": 1.5})
        assert answer.status == 200, answer.error
        return str(answer.json["stakeAccount"])

    withdrawn = await stake(wallet)
    for route in ("unstake", "withdraw-stake"):
        answer = await api.post(f"/wallets/{wallet}/{route}", {"stakeAccount": withdrawn})
        assert answer.status == 200, answer.error
        await advance(api)
    kept = await stake(wallet)
    anothers = await stake(other)

    async def refused(*_given: Any, **_named: Any) -> None:
        raise LedgerRejected(NOT_SERVED, "The RPC provider does not serve getProgramAccounts")

    monkeypatch.setattr(Ledger, "program_accounts", refused)
    found = (await api.get(f"/wallets/{wallet}/stakes")).json
    assert found["complete"] is False
    assert [(each["address"], each["state"]) for each in found["stakes"]] == [(kept, "activating")]

    async def recorded() -> list[str]:
        return [withdrawn, kept, anothers]

    owner = (await api.service.wallets.get(wallet)).address
    among = await read_stakes(RecordedStakes(api.service.ledger, recorded), owner)
    assert [each.address for each in among] == [kept]
    listed = await api.post(f"/wallets/{wallet}/skills/list_stakes", {})
    assert kept in listed.text
    assert withdrawn not in listed.text
