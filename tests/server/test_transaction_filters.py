"""Filters of the transaction history, over HTTP."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from sqlalchemy import update
from tests.promises import promise
from tests.support.services import STRANGER, Api

from solward.database.tables import transactions
from solward.service import history

OTHER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


async def ids(api: Api, path: str = "/transactions", **query: Any) -> list[str]:
    """The records of every page, in their order."""
    token = {"token": query.pop("token")} if "token" in query else {}
    found: list[str] = []
    while True:
        answer = await api.get(f"{path}?{urlencode(query)}", **token)
        assert answer.status == 200, answer.text
        found += [each["id"] for each in answer.json["transactions"]]
        if answer.json["next"] is None:
            return found
        query["before"] = answer.json["next"]


async def paid(api: Api, wallet: str, to: str, amount: str) -> str:
    await api.post(f"/wallets/{wallet}/transfer", {"to": to, "amount": Decimal(amount)})
    return str((await api.records(wallet))[0]["id"])


@promise("filtered-newest-first")
async def test_each_filter_gives_what_fits_newest_first(api: Api) -> None:
    one, other = await api.wallet(2), await api.wallet(1)
    address = (await api.get(f"/wallets/{other}")).json["publicKey"]
    await api.post("/contacts", {"address": STRANGER, "name": "Landlord"})
    await api.call("PUT", "/policy", {"book": {"vendors": [OTHER]}, "grants": []})
    first = await paid(api, one, STRANGER, "0.1")
    refused = await paid(api, one, STRANGER, "5")
    inside = await paid(api, one, address, "0.1")
    last = await paid(api, other, OTHER, "0.1")
    (airdrop,) = [each["id"] for each in await api.records(other) if each["type"] == "airdrop"]

    assert await ids(api, recipient=STRANGER) == [refused, first]
    assert await ids(api, recipient="Landlord", limit=1) == [refused, first]
    assert await ids(api, recipient="@vendors") == [last]
    assert await ids(api, recipient=address) == [inside, airdrop]
    assert await ids(api, status="blocked") == [refused]
    assert await ids(api, recipient=STRANGER, status="confirmed") == [first]
    assert await ids(api, walletId=other) == [last, airdrop]
    assert await ids(api, f"/wallets/{other}/transactions", type="transfer") == [last]
    agent = str(uuid4())
    assert await ids(api, agentId=agent) == []
    async with api.service.database.write() as connection:
        of_agent = update(transactions).where(transactions.c.id == first)
        await connection.execute(of_agent.values(agent_id=agent))
    for written in (agent, agent.upper()):
        assert await ids(api, agentId=written) == [first]
    moment = (await api.records(other))[0]["timestamp"]
    assert await ids(api, since=moment) == [last]
    assert last not in await ids(api, until=moment, type="transfer")
    assert await ids(api, since=moment.replace("Z", "+00:00"), recipient=OTHER) == [last]
    # What is not filtered answers as ever.
    whole = (await api.get("/transactions?limit=2&fees=true")).json
    assert list(whole) == ["transactions"]


@promise("bad-filter-is-named")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("status=nope", "status must be one of pending, confirmed, failed, blocked"),
        ("type=gift", "type must be one of transfer, swap"),
        ("since=yesterday", "since must be an ISO 8601 time with its zone"),
        ("until=2026-01-01T00:00:00", "until must be an ISO 8601 time with its zone"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "until must be later than since"),
        ("agentId=", "agentId must be the id of an agent"),
        ("agentId=null", "agentId must be the id of an agent"),
        ("recipient=Nobody", "recipient must be an address, or the name of a contact"),
        ("status=blocked&status=failed", "status must be given once"),
        ("status=blocked&before=x", "before must be the id of a transaction"),
        ("status=blocked&limit=0", "limit must be a whole number from 1 to 500"),
    ],
)
async def test_a_bad_filter_is_named(shared_api: Api, query: str, named: str) -> None:
    answer = await shared_api.get(f"/transactions?{query}")
    assert answer.status == 400
    assert named in answer.error


@pytest.mark.asyncio(loop_scope="module")
async def test_a_name_of_two_wallets_names_none(shared_api: Api) -> None:
    for _ in range(2):
        await shared_api.post("/wallets", {"name": "twin"})
    answer = await shared_api.get("/transactions?recipient=twin")
    assert answer.status == 400
    assert "recipient is the name of 2 addresses; give one of them" in answer.error


async def test_a_confined_key_filters_its_own_wallet_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_WALKED", 1)
    own, foreign = await api.wallet(1), await api.wallet(1)
    mine, theirs = await paid(api, own, STRANGER, "0.1"), await paid(api, foreign, STRANGER, "0.1")
    key, _ = await api.key(walletId=own)
    assert await ids(api, recipient=STRANGER) == [theirs, mine]
    assert await ids(api, recipient=STRANGER, token=key) == [mine]
    assert (await api.get(f"/transactions?walletId={foreign}", token=key)).status == 404
    # Nor does a page tell it another wallet's record as the place of the next one.
    page = (await api.get(f"/transactions?recipient={OTHER}", token=key)).json
    assert page["transactions"] == []
    assert page["next"] in {each["id"] for each in await api.records(own)}
    # Names are the operator's.
    await api.post("/contacts", {"address": STRANGER, "name": "Landlord"})
    answer = await api.get("/transactions?recipient=Landlord", token=key)
    assert (answer.status, "recipient must be an address, base58" in answer.error) == (400, True)
    assert (await api.get("/transactions?walletId=nobody")).status == 404


@promise("confined-key-blind-before")
async def test_another_wallets_record_is_no_place_for_a_confined_key(api: Api) -> None:
    own, foreign = await api.wallet(1), await api.wallet(1)
    mine = await paid(api, own, STRANGER, "0.1")
    theirs = await paid(api, foreign, STRANGER, "0.1")
    key, _ = await api.key(walletId=own)
    # A page behind it would say when it was made, and that it was.
    for path in ("/transactions", f"/wallets/{own}/transactions"):
        for query in ("", "&status=confirmed"):
            for place in (theirs, "nothing"):
                answer = await api.get(f"{path}?before={place}{query}", token=key)
                assert answer.status == 400, (path, query)
                assert answer.error == "before must be the id of a transaction"
            page = await api.get(f"{path}?before={mine}{query}", token=key)
            assert page.status == 200
            assert mine not in {each["id"] for each in page.json["transactions"]}
