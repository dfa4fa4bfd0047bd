"""Who may do little stops nobody and fills nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.plugins import DISTRIBUTION, SKILL, install_keeping
from tests.support.services import SECRET, Api, Carrier, serving_api

from solward.client import SolwardClient
from solward.client.errors import AmbiguousName
from solward.client.wallets import find_one
from solward.types.address_book import AddressBook
from solward.types.skill import Effects
from solward.vault.custody.export import choose

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
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
        "skill": "transfer",
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
        assert "may spend nothing, so it can only read" in answer.error
    assert (await api.get(f"/wallets/{wallet}", token=key)).json["tags"] == ["the operator's"]
    assert len((await api.get("/wallets")).json["wallets"]) == 1


@promise("small-key-changes-nothing")
@promise("read-only-key-changes-nothing")
async def test_a_key_that_may_spend_nothing_changes_no_plugins_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    install_keeping(home, tmp_path / "wheels")
    async with serving_api(home) as api:
        wallet = await api.wallet()
        path, store = f"/wallets/{wallet}/skills/{SKILL}", f"/wallets/{wallet}/plugins"
        store = f"{store}/{DISTRIBUTION}/store"
        called = {"name": SKILL, "arguments": {"wallet": wallet, "count": 2}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        assert api.service.live.registry.skills[SKILL].spec.effects is Effects.READ
        for terms, said in (
            ({"spendingLimitSol": 0}, "may spend nothing, so it can only read"),
            ({"grants": []}, "may spend nothing, so it can only read"),
            ({"readOnly": True}, "is read-only (readOnly) and cannot change anything"),
        ):
            key, _ = await api.key(**terms)
            answer = await api.post(path, {"count": 2}, token=key)
            assert (answer.status, said in answer.error) == (403, True), (terms, answer.text)
            tool = await api.call("POST", "/mcp", message, token=key, prefix="", headers=HEADERS)
            assert said in tool.text
            assert (await api.get(store)).json["entries"] == []
            # Solward's own skills that read are theirs.
            own = await api.post(f"/wallets/{wallet}/skills/check_balance", {}, token=key)
            assert own.status == 200, own.text
        key, _ = await api.key()
        assert (await api.post(path, {"count": 2}, token=key)).status == 200
        assert len((await api.get(store)).json["entries"]) == 2


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


async def named_alike(api: Api) -> tuple[str, str]:
    """Ids of the operator's wallet `treasury`, and of one that a key gave the same name; another
    wallet of the key has the beginning of the operator's id for its name."""
    token, _ = await api.key()
    taken = (await api.post("/wallets", {"name": "treasury"}, token=token)).json["walletId"]
    own = str((await api.post("/wallets", {"name": "treasury"})).json["walletId"])
    begins = await api.post("/wallets", {"name": own[:8]}, token=token)
    assert begins.status == 200, begins.text
    return own, str(taken)


@promise("keys-names-stand-in-no-way")
async def test_a_wallet_that_a_key_named_stands_in_the_way_of_none_of_the_operators(
    api: Api,
) -> None:
    own, taken = await named_alike(api)
    async with SolwardClient("http://solward.test", SECRET, transport=Carrier(api.app)) as client:
        for text in ("treasury", own[:8], own):
            assert (await client.wallets.find(text)).id == own
        assert (await client.wallets.find(taken)).id == taken
        listed = await client.wallets.list()
        assert (await client.wallets.list(limit=500))[::-1] == listed
    shown = AddressBook.from_lists(listed, ())
    assert shown.address("treasury") == {each.id: each.address for each in listed}[own]
    assert choose(await api.service.wallets.list(), "treasury").id == own
    # Only who asks for it is told who made a wallet: the contract's list has no such field.
    assert all("createdBy" not in each for each in (await api.get("/wallets")).json["wallets"])


@promise("keys-names-stand-in-no-way")
async def test_the_operators_policy_names_the_operators_wallet(api: Api) -> None:
    own, taken = await named_alike(api)
    for text, meant in (("treasury", own), (taken, taken)):
        draft = {"grants": [], "readOnly": [f"wallet:{text}"]}
        answer = await api.call("PUT", "/policy", draft)
        assert answer.status == 200, answer.text
        policy = (await api.get("/policy")).json["policy"]
        assert policy["readOnly"] == [f"wallet:{meant}"]


@promise("keys-names-stand-in-no-way")
async def test_two_wallets_that_the_operator_named_alike_are_told_apart_by_their_ids(
    api: Api,
) -> None:
    ids = [(await api.post("/wallets", {"name": "twin"})).json["walletId"] for _ in range(2)]
    async with SolwardClient("http://solward.test", SECRET, transport=Carrier(api.app)) as client:
        with pytest.raises(AmbiguousName) as refused:
            await client.wallets.find("twin")
    assert all(each in str(refused.value) for each in ids)


@promise("keys-names-stand-in-no-way")
async def test_a_schedule_that_a_key_named_after_the_operators_id_is_not_meant(api: Api) -> None:
    wallet = await api.wallet()
    path = f"/wallets/{wallet}/schedules"
    look = {"skill": "check_balance", "every": "1h"}
    own = (await api.post(path, look | {"name": "look"})).json["id"]
    token, _ = await api.key()
    made = await api.post(path, look | {"name": own[:8]}, token=token)
    assert made.status == 200, made.text
    async with SolwardClient("http://solward.test", SECRET, transport=Carrier(api.app)) as client:
        every = await client.schedules.list(wallet)
    found = find_one("schedule", own[:8], every, maker=lambda each: each.made_by)
    assert found.id == own
