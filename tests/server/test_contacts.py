"""Contacts: names of recipients for people, which allow nothing."""

from __future__ import annotations

import asyncio

import pytest
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.services import STRANGER, Api

from solward.operations import contacts
from solward.support.base58 import is_address

OTHER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


async def name(api: Api, address: str, given: str) -> tuple[int, str]:
    answer = await api.post("/contacts", {"address": address, "name": given})
    return answer.status, answer.json.get("error", answer.json.get("name"))


def alike(address: str) -> str:
    """Another address with the same first and last four characters."""
    for place in range(10, 30):
        for letter in "abcdefgh":
            made = address[:place] + letter + address[place + 1 :]
            if made != address and is_address(made):
                return made
    raise AssertionError(address)


@promise("contacts-listed-and-audited")
async def test_contacts_are_named_renamed_listed_and_removed(api: Api) -> None:
    assert await name(api, STRANGER, "Landlord") == (200, "Landlord")
    assert await name(api, OTHER, "Accountant") == (200, "Accountant")
    assert await name(api, STRANGER, "The landlord") == (200, "The landlord")
    await api.call("PUT", "/policy", {"book": {"vendors": [STRANGER]}, "grants": []})
    listed = (await api.get("/contacts")).json
    assert [(each["name"], each["address"]) for each in listed["contacts"]] == [
        ("Accountant", OTHER),
        ("The landlord", STRANGER),
        ("@vendors", STRANGER),
    ]
    assert [each["createdAt"] is None for each in listed["contacts"]] == [False, False, True]
    removed = await api.call("DELETE", f"/contacts/{OTHER}")
    assert removed.json == {"address": OTHER, "removed": True}
    again = await api.call("DELETE", f"/contacts/{OTHER}")
    assert (again.status, again.error) == (404, "Contact not found")
    told = [
        each["data"]
        for each in (await api.get("/audit")).json["entries"]
        if each["event"] == "contact:changed"
    ]
    assert [(each.get("before"), each.get("after")) for each in told[:2]] == [
        ({"name": "Accountant"}, {"name": None}),
        ({"name": "Landlord"}, {"name": "The landlord"}),
    ]
    assert {each["principal"] for each in told} == {"admin"}


@promise("lookalike-contact-refused")
async def test_a_name_or_an_address_that_can_be_taken_for_another_is_refused(api: Api) -> None:
    made = (await api.post("/wallets", {"name": "till"})).json
    assert (await name(api, OTHER, "Landlord"))[0] == 200
    for given in ("landlord", "L4ndlord", "Lаndlоrd", "LANDLORD."):
        status, error = await name(api, STRANGER, given)
        assert (status, "name is, or looks like, that of" in error) == (400, True), given
    for given in ("@vendors", "", " Bob", "x" * 65, "\u202eBob", "***", STRANGER):
        assert (await name(api, STRANGER, given))[0] == 400, given
    for given in ("till", "Till", "t\u0456ll", "TILL."):
        error = "name is, or looks like, that of the wallet till of this service"
        assert await name(api, STRANGER, given) == (400, error), given
    # What the dashboard calls a wallet of the service, and what it shows of a nameless address.
    for given in ("wallet till", "Wallet savings", "w\u0430llet x", "wallet"):
        error = "name must not begin with the word wallet, as wallets of this service do"
        assert await name(api, STRANGER, given) == (400, error), given
    for given in (f"{OTHER} (Bob)", f"to:{OTHER}", f"{OTHER[:4]}\u2026{OTHER[-4:]}"):
        assert (await name(api, STRANGER, given))[0] == 400, given
    assert await name(api, STRANGER, "Walletsmith") == (200, "Walletsmith")
    status, error = await name(api, alike(OTHER), "Other")
    assert status == 400
    assert f"address looks like Landlord ({OTHER}) but differs" in error
    status, error = await name(api, alike(made["address"]), "Other")
    assert (status, "looks like a wallet of this service" in error) == (400, True)
    status, error = await name(api, made["address"], "Other")
    assert (status, "is a wallet of this service" in error) == (400, True)
    for address in ("nobody", OTHER[:-4], OTHER + "1"):
        status, error = await name(api, address, "Other")
        assert (status, error) == (400, "address must be an address, base58 of 32 bytes")


@promise("wallet-never-takes-contact")
async def test_no_wallet_takes_a_contacts_name_nor_an_address_or_an_id_as_its_own(
    api: Api,
) -> None:
    assert (await name(api, OTHER, "Landlord"))[0] == 200
    token, _ = await api.key()
    other = await api.wallet(0)
    for given in ("Landlord", "l4ndlord", " LANDLORD", "Landlord\u3164", "Land\uffa0lord"):
        made = await api.post("/wallets", {"name": given}, token=token)
        assert (made.status, made.error) == (400, "name is, or looks like, the name of a contact")
    for given in (OTHER, f" {OTHER}", f"main {OTHER}", f"\u3164{OTHER}", other, other.upper()):
        made = await api.post("/wallets", {"name": given}, token=token)
        assert (made.status, made.error) == (
            400,
            "name must not contain an address and must not be an id",
        )
    for given in (" @vendors", "\uff20vendors", "\ufe6bvendors"):
        made = await api.post("/wallets", {"name": given}, token=token)
        assert (made.status, "must not begin with @" in made.error) == (400, True), given
    # One of them keeps none of those that are made with it from being stored.
    names = ("one", "Landlord", "two")
    together = await asyncio.gather(*(api.post("/wallets", {"name": each}) for each in names))
    assert [each.status for each in together] == [200, 400, 200]


async def test_there_are_so_many_contacts_and_no_more(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contacts, "MAX_CONTACTS", 2)
    assert (await name(api, STRANGER, "One"))[0] == 200
    assert (await name(api, OTHER, "Two"))[0] == 200
    status, error = await name(api, str(Pubkey.new_unique()), "Three")
    assert (status, error) == (400, "There are 2 contacts; remove one first")
    assert (await name(api, OTHER, "Second"))[0] == 200


@promise("contact-allows-nothing")
async def test_a_contact_is_a_recipient_of_no_grant(api: Api) -> None:
    wallet = await api.wallet(1)
    assert (await name(api, STRANGER, "landlord"))[0] == 200
    grant = {
        "who": f"wallet:{wallet}",
        "may": ["transfer"],
        "assets": {"SOL": {"perTx": "1", "per": {"24h": "1"}}},
    }
    for named in ("@landlord", "landlord"):
        policy = {"grants": [grant | {"to": [named]}]}
        assert (await api.call("PUT", "/policy", policy)).status == 400, named
    # And one of the same name as an entry of the address book changes nothing of it.
    policy = {"book": {"landlord": [OTHER]}, "grants": [grant | {"to": ["@landlord"]}]}
    assert (await api.call("PUT", "/policy", policy)).status == 200
    body = {"to": STRANGER, "amount": 0.1}
    assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 500
    assert (await api.records(wallet))[0]["status"] == "blocked"
