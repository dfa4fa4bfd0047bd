"""Staking and wrapping by REST: what the contract answers, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.api import NOBODY, STRANGER, Api, serving_api

from solward.solana.stakes import RecordedStakes, read_stakes
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.types.ledger import NOT_SERVED
from solward.vault.ledger.client import RpcLedger


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


async def test_another_wallets_stake_is_not_to_be_touched(api: Api) -> None:
    owner, other = await api.wallet(2), await api.wallet(1)
    account = (await api.post(f"/wallets/{owner}/stake", {"amount": 1.5})).json["stakeAccount"]
    before = await api.records(other)
    for path, authority in (("unstake", "staker"), ("withdraw-stake", "withdrawer")):
        answer = await api.post(f"/wallets/{other}/{path}", {"stakeAccount": account})
        assert answer.status == 400
        assert answer.error.startswith(f"stakeAccount: the {authority} of {account} is ")
    assert await states(api, other) == []
    assert await api.records(other) == before


async def test_staking_twice_with_one_key_stakes_once(api: Api) -> None:
    wallet = await api.wallet(2)
    once = {"Idempotency-Key": "stake"}
    first = await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5}, headers=once)
    again = await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5}, headers=once)
    assert (again.status, again.text) == (200, first.text)
    assert len(await states(api, wallet)) == 1


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


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("stake", {}, "amount is required and must be a number"),
        ("stake", {"amount": "2"}, "amount must be a number"),
        ("stake", {"amount": True}, "amount must be a number"),
        ("stake", {"amount": -1}, "amount must be greater than 0"),
        ("stake", {"amount": 2.0000000001}, "amount has more than 9 decimals"),
        ("stake", {"amount": 1}, "amount must be at least 1.00228288 SOL: the network's minimum"
         " delegation of 1 SOL and 0.00228288 SOL of rent"),
        ("stake", {"amount": 2, "validator": 5}, "validator must be a string of 1 to 200"
         " characters"),
        ("stake", {"amount": 2, "validator": "me"}, "validator must be a base58 Solana address"),
        ("stake", {"amount": 2, "validator": STRANGER}, "validator must be a validator's vote"
         f" account; {STRANGER} is none on this network"),
        ("unstake", {}, "stakeAccount is required and must be a string"),
        ("unstake", {"stakeAccount": "me"}, "stakeAccount must be a base58 Solana address"),
        ("withdraw-stake", {}, "stakeAccount is required and must be a string"),
        ("withdraw-stake", {"stakeAccount": STRANGER}, "stakeAccount must be a stake account;"
         f" {STRANGER} is none on this network"),
        ("wrap-sol", {}, "amount is required and must be a number"),
        ("wrap-sol", {"amount": "1"}, "amount must be a number"),
        ("wrap-sol", {"amount": True}, "amount must be a number"),
        ("wrap-sol", {"amount": 0}, "amount must be greater than 0"),
        ("wrap-sol", {"amount": -1}, "amount must be greater than 0"),
        ("wrap-sol", {"amount": 1e-10}, "amount has more than 9 decimals"),
        ("wrap-sol", {"amount": 18446744074}, "amount is larger than the ledger can hold"),
        ("unwrap-sol", None, "There is nothing to unwrap: the wallet has no wrapped SOL account"),
    ],
)  # fmt: skip
async def test_a_wrong_request_is_400_and_leaves_no_record(
    shared_api: Api, path: str, body: Any, text: str
) -> None:
    wallet = await shared_api.wallet()
    answer = await shared_api.post(f"/wallets/{wallet}/{path}", body)
    assert (answer.status, answer.error) == (400, text)
    assert await shared_api.records(wallet) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_the_stakes_of_no_wallet_are_404(shared_api: Api) -> None:
    answer = await shared_api.get(f"/wallets/{NOBODY}/stakes")
    assert (answer.status, answer.error) == (404, "Wallet not found")


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

    monkeypatch.setattr(RpcLedger, "program_accounts", refused)
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


async def test_a_ledger_that_is_away_is_500_and_told(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = await api.wallet()

    async def away(*_given: Any, **_named: Any) -> None:
        raise LedgerUnavailable("The ledger did not answer")

    monkeypatch.setattr(RpcLedger, "program_accounts", away)
    monkeypatch.setattr(RpcLedger, "stake_minimum_delegation", away)
    answer = await api.get(f"/wallets/{wallet}/stakes")
    assert (answer.status, answer.error) == (500, "The ledger did not answer")
    answer = await api.post(f"/wallets/{wallet}/stake", {"amount": 2})
    assert (answer.status, answer.error) == (500, "The ledger did not answer")
    (record,) = await api.records(wallet)
    assert (record["type"], record["status"]) == ("stake", "failed")


async def test_a_stake_above_the_limit_is_blocked_with_its_rule(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_sol_per_transaction="1.2") as api:
        wallet = await api.wallet(2)
        answer = await api.post(f"/wallets/{wallet}/stake", {"amount": 1.5})
        assert answer.status == 500
        assert answer.error.startswith("Transaction blocked by guardrail max_per_tx: 1.5 SOL is")
        assert (await api.records(wallet))[0]["status"] == "blocked"
        assert await states(api, wallet) == []
