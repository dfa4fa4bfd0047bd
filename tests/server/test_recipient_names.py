"""A recipient by name: the same address or the same refusal on every surface, and no more money."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.services import SECRET, STRANGER, Api, Carrier, serving_api

from solward.client import ClientError, SolwardClient
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest, SolwardError
from solward_cli.named import find_recipient
from solward_mcp.session import WalletScope
from solward_mcp.tools import call_tool

OTHER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
THIRD = "Fb73vWgaqFqrgQhw8siHhR5txdYdMaMnSQVMfvyES5YV"
AMOUNT = "0.001"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path, max_transactions_per_minute=100) as made:
        yield made


@asynccontextmanager
async def client_of(api: Api, token: str = SECRET) -> AsyncIterator[SolwardClient]:
    async with SolwardClient("http://solward.test", token, transport=Carrier(api.app)) as client:
        yield client


# Each pays a recipient from a wallet, and returns the address that was paid or raises the refusal.


async def by_rest(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    path = f"/wallets/{wallet}/transfer"
    answer = await api.post(path, {"to": to, "amount": 0.001}, token=token)
    if answer.status != 200:
        raise InvalidRequest(answer.error)
    return str(answer.json["details"]["to"])


async def by_skill(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    path = f"/wallets/{wallet}/skills/transfer"
    answer = await api.post(path, {"to": to, "amount": 0.001}, token=token)
    if answer.status != 200:
        raise InvalidRequest(answer.error)
    return str((await api.records(wallet))[0]["details"]["to"])


async def by_client(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    async with client_of(api, token) as client:
        made = await client.wallets.transfer(wallet, to=to, amount=AMOUNT)
    return str(made.details["to"])


async def by_mcp(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    async with client_of(api, token) as client:
        arguments = {"wallet": wallet, "to": to, "amount": 0.001}
        answer = await call_tool(WalletScope(client), "transfer", arguments, None)
    if answer["isError"]:
        raise InvalidRequest(answer["content"][0]["text"])
    return str((await api.records(wallet))[0]["details"]["to"])


async def by_cli(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    async with client_of(api, token) as client:
        return (await find_recipient(client, to, {})).address


async def by_dashboard(api: Api, wallet: str, to: str, token: str = SECRET) -> str:
    async with client_of(api, token) as client:
        listed = await client.wallets.list(), await client.contacts.list()
    return AddressBook.from_lists(*listed).address(to, "to")


SURFACES = (by_rest, by_skill, by_client, by_mcp, by_cli, by_dashboard)
TAKES = "must be an address, or the name of a contact, of a wallet that no API key made or"


async def contact(api: Api, address: str, name: str) -> None:
    answer = await api.post("/contacts", {"address": address, "name": name})
    assert answer.status == 200, answer.text


async def group(api: Api, **book: list[str]) -> None:
    now = (await api.get("/policy")).json["policy"]
    answer = await api.call("PUT", "/policy", now | {"book": book})
    assert answer.status == 200, answer.text


@promise("recipient-by-name-everywhere")
@pytest.mark.parametrize("surface", SURFACES)
async def test_a_recipient_is_given_alike_on_every_surface(api: Api, surface: Any) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key()
    own = (await api.post("/wallets", {"name": "savings"})).json
    of_key = (await api.post("/wallets", {"name": "pocket"}, token=token)).json
    for _ in range(2):
        await api.post("/wallets", {"name": "twins"})
    await contact(api, OTHER, "Landlord")
    await group(api, host=[THIRD], vendors=[OTHER, THIRD])
    paid = {
        "Landlord": OTHER,
        "savings": own["address"],
        own["walletId"]: own["address"],
        of_key["walletId"]: of_key["address"],
        "@host": THIRD,
        STRANGER: STRANGER,
    }
    for text, address in paid.items():
        assert await surface(api, wallet, text) == address, text
    refused = {
        "twins": "is the name of 2 addresses; give one of them: ",
        "@vendors": "is the name of 2 addresses; give one of them: ",
        # Whoever holds a key would choose who is paid by it.
        "pocket": TAKES,
        "landlord": TAKES,
        "L\u0430ndlord": TAKES,
        "@nobody": TAKES,
        "host": TAKES,
    }
    before = len(await api.records(wallet))
    for text, error in refused.items():
        with pytest.raises(SolwardError) as told:
            await surface(api, wallet, text)
        assert re.match(rf"(to|TO '{text}') {re.escape(error)}", str(told.value)), text
    assert len(await api.records(wallet)) == before


@promise("keys-and-models-give-addresses")
@pytest.mark.parametrize("surface", [by_rest, by_skill, by_client, by_mcp, by_cli])
async def test_a_key_names_no_contact_and_learns_of_none(api: Api, surface: Any) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key()
    await contact(api, OTHER, "Landlord")
    said = set()
    for text in ("Landlord", "Nobody"):
        with pytest.raises((SolwardError, ClientError)) as told:
            await surface(api, wallet, text, token)
        said.add(str(told.value).replace(text, "..."))
    # The same is said of a contact's name and of nobody's.
    (only,) = said
    assert OTHER not in only
    assert [each["type"] for each in await api.records(wallet)] == ["airdrop"]


@promise("recipient-by-name-everywhere")
@pytest.mark.parametrize("route", ["transfer", "skills/transfer"])
async def test_a_request_that_is_sent_again_pays_nobody_else(api: Api, route: str) -> None:
    wallet = await api.wallet(1)
    await contact(api, OTHER, "Landlord")

    async def pay() -> Any:
        return await api.post(
            f"/wallets/{wallet}/{route}",
            {"to": "Landlord", "amount": 0.001},
            headers={"Idempotency-Key": "rent"},
        )

    first = await pay()
    assert first.status == 200, first.text
    await api.call("DELETE", f"/contacts/{OTHER}")
    assert (await pay()).text == first.text
    await contact(api, THIRD, "Landlord")
    assert (await pay()).text == first.text
    assert [each["details"].get("to") for each in await api.records(wallet)][:-1] == [OTHER]


@promise("recipient-by-name-everywhere")
async def test_a_schedule_pays_who_had_the_name_when_it_was_made(api: Api) -> None:
    wallet = await api.wallet(1)
    await contact(api, OTHER, "Landlord")
    path = f"/wallets/{wallet}/schedules"
    rent = {"to": "Landlord", "amount": 0.001}
    made = await api.post(
        path, {"name": "rent", "skill": "transfer", "every": "1h", "parameters": rent}
    )
    assert made.status == 200, made.text
    assert made.json["parameters"]["to"] == OTHER
    await contact(api, THIRD, "Baker")
    one = f"{path}/{made.json['id']}"
    changed = await api.call("PATCH", one, {"parameters": rent | {"to": "Baker"}})
    assert changed.json["parameters"]["to"] == THIRD
    for to in ("Nobody", "@none"):
        answer = await api.call("PATCH", one, {"parameters": rent | {"to": to}})
        assert (answer.status, TAKES in answer.error) == (400, True)
    assert (await api.get(one)).json["parameters"]["to"] == THIRD


@promise("recipient-by-name-everywhere")
async def test_the_name_of_a_removed_contact_is_nobodys_though_a_key_takes_it(api: Api) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key()
    await contact(api, OTHER, "Landlord")
    await api.call("DELETE", f"/contacts/{OTHER}")
    taken = await api.post("/wallets", {"name": "Landlord"}, token=token)
    assert taken.status == 200, taken.text
    for surface in SURFACES:
        with pytest.raises(SolwardError) as told:
            await surface(api, wallet, "Landlord")
        assert "that no API key made" in str(told.value)
    assert [each["type"] for each in await api.records(wallet)] == ["airdrop"]


async def test_of_several_who_take_a_name_at_once_one_has_it(api: Api) -> None:
    names = ("Landlord", "landlord", "L4ndlord", "Landlord.")
    addresses = (OTHER, THIRD, *(str(Keypair().pubkey()) for _ in range(2)))
    bodies = [{"address": each, "name": name} for each, name in zip(addresses, names, strict=True)]
    made = await asyncio.gather(*(api.post("/contacts", each) for each in bodies))
    assert sorted(each.status for each in made) == [200, 400, 400, 400]
    (one,) = (await api.get("/contacts")).json["contacts"]
    assert {"address": one["address"], "name": one["name"]} in bodies


# What grants allow is the policy's alone, whatever is named.


@promise("naming-widens-nothing")
async def test_no_naming_changes_what_a_grant_allows(api: Api) -> None:
    wallet = await api.wallet(1)
    grant = {
        "who": f"wallet:{wallet}",
        "may": ["transfer"],
        "assets": {"SOL": {"perTx": "0.1", "per": {"24h": "1"}}},
        "to": ["@vendors"],
    }
    document = {"book": {"vendors": [OTHER]}, "grants": [grant]}
    policy = (await api.call("PUT", "/policy", document)).json
    assert policy["policy"]["book"] == {"vendors": [OTHER]}

    async def holds() -> None:
        """The policy is what was put, and lets the vendor be paid, and nobody else."""
        assert (await api.get("/policy")).json == policy
        assert await by_rest(api, wallet, OTHER) == OTHER
        refused = await api.post(f"/wallets/{wallet}/transfer", {"to": THIRD, "amount": 0.001})
        assert (refused.status, "does not let wallet" in refused.error) == (500, True)

    async def named(address: str, name: str) -> int:
        return (await api.post("/contacts", {"address": address, "name": name})).status

    await holds()
    # By the group's name, with and without its sign, in other letters, and as one of its members.
    for name in ("@vendors", "\uff20vendors", "\ufe6bvendors", " @vendors", wallet):
        assert await named(THIRD, name) == 400, name
    assert await named(THIRD, "vendors") == 200
    await holds()
    # A name that two surfaces could read differently pays the contact, whom no grant allows.
    with pytest.raises(InvalidRequest, match="does not let wallet"):
        await by_rest(api, wallet, "vendors")
    assert await by_rest(api, wallet, "@vendors") == OTHER
    # A member is named, renamed to what a stranger was called, and loses its name.
    assert await named(THIRD, "Baker") == 200
    assert await named(OTHER, "vendors") == 200
    assert await named(OTHER, "Host") == 200
    listed = (await api.get("/contacts")).json["contacts"]
    assert [(each["name"], each["address"]) for each in listed] == [
        ("Baker", THIRD),
        ("Host", OTHER),
        ("@vendors", OTHER),
    ]
    await holds()
    assert await named(THIRD, "Host") == 400
    assert (await api.call("DELETE", f"/contacts/{OTHER}")).status == 200
    assert await named(THIRD, "Host") == 200
    await holds()
    audited = (await api.get("/audit")).json["entries"]
    assert len([each for each in audited if each["event"] == "policy:changed"]) == 2


@promise("naming-widens-nothing")
async def test_a_group_takes_addresses_by_a_change_of_the_policy_alone(api: Api) -> None:
    await contact(api, THIRD, "Landlord")
    put = {"book": {"vendors": [OTHER]}, "grants": [], "version": 0}
    assert (await api.call("PUT", "/policy", put)).status == 200
    # No name: one who is renamed would be paid by a document that is put again.
    for member in ("Landlord", {"address": THIRD, "name": "Landlord"}, "@vendors"):
        draft = put | {"book": {"vendors": [OTHER, member]}, "version": 1}
        answer = await api.call("PUT", "/policy", draft)
        assert (answer.status, "book.vendors[1]: an address" in answer.error) == (400, True)
    more = put | {"book": {"vendors": [OTHER, THIRD]}}
    assert (await api.call("PUT", "/policy", more)).status == 409
    for role in ("read", "operate"):
        made = await api.post("/admins", {"name": role, "role": role})
        token = made.json["adminSecret"]
        answer = await api.call("PUT", "/policy", more | {"version": 1}, token=token)
        assert answer.status == 403, role
        body = {"address": OTHER, "name": "Host"}
        assert (await api.post("/contacts", body, token=token)).status == 403, role
    assert (await api.get("/policy")).json["policy"]["book"] == {"vendors": [OTHER]}
    assert (await api.call("PUT", "/policy", more | {"version": 1})).status == 200
    changed = (await api.get("/audit")).json["entries"][0]["data"]
    assert (changed["who"], changed["principal"]) == ("book", "admin")
    assert changed["after"] == {"book": {"vendors": sorted([OTHER, THIRD])}}
