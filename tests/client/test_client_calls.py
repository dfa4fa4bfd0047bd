"""Every method of the client against the real application, and every route of it."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC
from decimal import Decimal
from typing import NamedTuple

import pytest
from quart import Quart
from tests.client.conftest import URL
from tests.client.walk import walk
from tests.promises import promise
from tests.support.services import Api, Carrier, cut, times

from solward.client import BadRequest, Conflict, Held, NotFoundError, SolwardClient, Transaction
from solward.client.errors import AmbiguousName
from solward.client.wallets import find_one, until_done
from solward.operations import sol

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"

# What describes the interface is for tools, and no call of it; a webhook's decision is signed.
NO_CALLS = {("GET", "/api/v1/openapi.json"), ("POST", "/api/v1/holds/<hold_id>/webhook")}


def routes_of(app: Quart) -> set[tuple[str, str]]:
    """Every method and path of the REST interface."""
    return {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1/")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def routes_called(carrier: Carrier, app: Quart) -> set[tuple[str, str]]:
    """The routes behind the requests that were made."""
    matcher = app.url_map.bind("solward.test")
    return {
        (request.method, matcher.match(request.url.path, request.method, return_rule=True)[0].rule)
        for request in carrier.requests
    }


class Called(NamedTuple):
    """What `find_one` looks at."""

    id: str
    name: str
    address: str


async def test_every_route_has_a_method_of_the_client(
    client: SolwardClient, carrier: Carrier, api: Api
) -> None:
    await walk(client)
    missing = routes_of(api.app) - routes_called(carrier, api.app) - NO_CALLS
    assert not missing


async def test_amounts_are_exact_both_ways(client: SolwardClient) -> None:
    wallet = await client.wallets.create(name="exact")
    await client.wallets.airdrop(wallet.id, amount=2)
    amount = Decimal("0.123456789")
    sent = await client.wallets.transfer(wallet.id, to=STRANGER, amount=amount)
    assert sent.details["amount"] == amount
    assert (sent.type, sent.status, sent.error) == ("transfer", "confirmed", None)
    assert (await client.wallets.balance(wallet.id)).sol == Decimal(2) - amount - Decimal(
        "0.000005"
    )


async def test_amounts_may_be_texts(client: SolwardClient, subtests: pytest.Subtests) -> None:
    for amount in ("0.25", Decimal("0.25"), "0.250"):
        with subtests.test(amount=amount):
            wallet = await client.wallets.create()
            await client.wallets.airdrop(wallet.id)
            sent = await client.wallets.transfer(wallet.id, to=STRANGER, amount=amount)
            assert sent.details["amount"] == Decimal("0.25")


async def test_answers_are_typed_and_keep_what_was_received(client: SolwardClient) -> None:
    wallet = await client.wallets.create(name="typed", tags=["one", "two"])
    assert (wallet.name, wallet.raw["walletId"]) == ("typed", wallet.id)
    assert wallet.created_at.tzinfo is UTC
    read = await client.wallets.get(wallet.id)
    assert (read.id, read.address, read.tags) == (wallet.id, wallet.address, ("one", "two"))
    await client.wallets.airdrop(wallet.id, amount=2)
    await client.wallets.swap(wallet.id, input_token="SOL", output_token="USDC", amount="0.1")
    balance = await client.wallets.balance(wallet.id)
    (token,) = balance.tokens
    assert token.symbol == "USDC"
    assert token.amount == Decimal(token.units).scaleb(-token.decimals)
    assert balance.raw["tokens"][0] == token.raw
    assert balance.usd is None
    priced = await client.wallets.balance(wallet.id, usd=True)
    # One USDC is a dollar on the localnet.
    assert priced.usd is not None
    assert priced.usd.assets[token.mint] == token.amount
    assert (set(priced.usd.assets), priced.usd.unpriced) == ({"SOL", token.mint}, {})
    newest = (await client.wallets.transactions(wallet.id, limit=1))[0]
    assert isinstance(newest, Transaction)
    assert newest.type == "swap"
    assert newest.guardrails_applied[0] == "max_per_tx"


async def test_lists_are_paged(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    for _ in range(3):
        await client.wallets.airdrop(wallet.id)
    newest, second = await client.wallets.transactions(wallet.id, limit=2)
    (third,) = await client.wallets.transactions(wallet.id, before=second.id)
    assert len({newest.id, second.id, third.id}) == 3
    assert (await client.transactions.list(limit=1))[0].id == newest.id
    assert (await client.transactions.list(limit=1, before=newest.id))[0].id == second.id
    entries = (await client.audit(limit=2)).entries
    assert [entry.seq for entry in entries] == [entries[0].seq, entries[0].seq - 1]
    assert (await client.audit(limit=1, before=entries[1].seq)).entries[0].seq == entries[1].seq - 1
    assert [(entry.chain, entry.number) for entry in entries] == [
        (f"wallet:{wallet.id}", number) for number in (6, 5)
    ]


async def test_a_dry_run_tells_and_sends_nothing(client: SolwardClient, carrier: Carrier) -> None:
    wallet = await client.wallets.create()
    await client.wallets.airdrop(wallet.id, amount=2)
    allowed = await client.wallets.dry_run.transfer(wallet.id, to=STRANGER, amount=1)
    assert allowed.allowed
    assert allowed.effects is not None
    assert allowed.effects["solOut"] == 1
    refused = await client.wallets.dry_run.transfer(wallet.id, to=STRANGER, amount=5)
    assert (refused.allowed, refused.rule) == (False, "max_per_tx")
    assert "2 SOL allowed per transaction" in (refused.reason or "")
    assert carrier.keys[-1] is None
    assert (await client.wallets.balance(wallet.id)).sol == 2
    assert len(await client.wallets.transactions(wallet.id)) == 1


async def test_wallets_and_agents_are_found_by_name_id_and_beginning(client: SolwardClient) -> None:
    one = await client.wallets.create(name="treasury")
    twins = [await client.wallets.create(name="twin") for _ in range(2)]
    for wanted in ("treasury", one.id, one.address, one.id[:8]):
        assert (await client.wallets.find(wanted)).id == one.id
    with pytest.raises(AmbiguousName) as several:
        await client.wallets.find("twin")
    assert all(twin.id in str(several.value) for twin in twins)
    for nobody in ("nobody", one.id[:3], "", "TREASURY"):
        with pytest.raises(NotFoundError):
            await client.wallets.find(nobody)
    agent = await client.agents.create(
        name="ada",
        strategy="always do wait",
        wallet_id=one.id,
        llm_provider="rules",
        llm_model="rules",
    )
    for wanted in ("ada", agent.id, agent.id[:8]):
        assert (await client.agents.find(wanted)).id == agent.id


def test_no_name_takes_the_place_of_another_wallets_id_or_address() -> None:
    one, other = "680f8a9b-7c36-4f4e-9d5d-0d2b6f4c1e11", "5f6c0a1b-7c36-4f4e-9d5d-0d2b6f4c1e12"

    def found(wanted: str, name: str) -> str:
        """The id that is found where the other wallet has this name."""
        wallets = [Called(other, name, "an address"), Called(one, "treasury", STRANGER)]
        return find_one("wallet", wanted, wallets, lambda each: each.address).id

    assert found(one, one) == one
    assert found(STRANGER, STRANGER) == one
    for squatted in (one[:4], one[:8], one[:-1]):
        with pytest.raises(AmbiguousName) as several:
            found(squatted, squatted)
        assert f"{one} ('treasury')" in str(several.value)
        assert f"{other} ({squatted!r})" in str(several.value)
    nowhere = "So11111111111111111111111111111111111111112"
    with pytest.raises(NotFoundError, match="No wallet has the address"):
        found(nowhere, nowhere)
    assert found(one[:3], one[:3]) == other


async def test_an_agents_floats_are_options_and_its_limits_are_exact(client: SolwardClient) -> None:
    agent = await client.agents.create(
        name="limited",
        strategy="always do wait",
        llm_provider="rules",
        llm_model="rules",
        max_sol_per_transaction="0.1",
        daily_spending_limit_sol=Decimal("0.7"),
        llm_budget={"maxTokensPerDay": 1000},
    )
    assert agent.guardrails["maxSolPerTransaction"] == Decimal("0.1")
    assert agent.guardrails["dailySpendingLimitSol"] == Decimal("0.7")
    assert agent.llm_budget == {"maxTokensPerDay": 1000, "maxUsdPerDay": 5}
    changed = await client.agents.change(agent.id, llm_budget={"maxTokensPerDay": None})
    assert changed.llm_budget == {"maxUsdPerDay": 5}
    with pytest.raises(TypeError, match=r"guardrails\.maxSolPerTransaction"):
        await client.agents.change(agent.id, guardrails={"maxSolPerTransaction": 0.1})


async def test_what_is_held_is_told_once_and_paid_once(
    client: SolwardClient, carrier: Carrier
) -> None:
    wallet = await client.wallets.create(name="held")
    await client.wallets.airdrop(wallet.id, amount=2)
    says = "Key ci may transfer up to 1 SOL a day, to anybody; above 0.1 SOL a person is asked."
    key = await client.keys.create(name="ci", grants=[says])
    async with SolwardClient(URL, key.api_key, transport=carrier) as asker:
        carrier.requests.clear()
        carrier.after = times(2, cut)
        with pytest.raises(Held) as caught:
            await asker.wallets.transfer(wallet.id, to=STRANGER, amount="0.2")
        held = caught.value
        # Asked again until it was answered, under one key, and not once more.
        assert (len(carrier.keys), set(carrier.keys)) == (3, {held.idempotency_key})
        (hold,) = await asker.holds.list(is_open=True)
        assert (hold.id, hold.state, held.state) == (held.hold_id, "held", "held")
        assert (str(held), held.expires_at) == (hold.sentence, hold.expires_at)
        assert (hold.lines[0]["account"], hold.lines[0]["units"]) == (STRANGER, "200000000")
        assert hold.costs_sol == Decimal("0.000005")
        again = {"to": STRANGER, "amount": "0.2", "idempotency_key": held.idempotency_key}
        with pytest.raises(Held) as caught:
            await asker.wallets.transfer(wallet.id, **again)
        assert caught.value.hold_id == hold.id
        decided = await client.holds.approve(hold.id, note="as agreed")
        assert (decided.state, decided.decided_by, decided.note) == (
            "executed", "admin", "as agreed",
        )  # fmt: skip
        paid = await asker.wallets.transfer(wallet.id, **again)
        assert (paid.id, paid.status) == (decided.transaction_id, "confirmed")
    with pytest.raises(Conflict, match="executed"):
        await client.holds.deny(hold.id)
    assert len(await client.wallets.transactions(wallet.id)) == 2
    assert copy.copy(held).hold_id == pickle.loads(pickle.dumps(held)).hold_id == hold.id


async def test_an_agents_and_a_keys_grants_go_in_and_come_back(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    says = "Agent ada may stake up to 1 SOL a day."
    agent = await client.agents.create(
        name="ada", strategy="wait", wallet_id=wallet.id, llm_provider="rules", llm_model="r",
        grants=[says],
    )  # fmt: skip
    assert (await client.policy.get()).sentences == (says,)
    await client.agents.change(agent.id, grants=[])
    assert (await client.policy.get()).sentences == ("Agent ada may only read.",)
    await client.agents.change(agent.id, name="ada")
    assert (await client.policy.get()).read_only == (f"agent:{agent.id}",)
    await client.policy.put("agent:ada", None)
    assert (await client.policy.get()).read_only == ()


@promise("reclaim-gives-the-excess")
async def test_rent_is_reclaimed_until_nothing_is_left(
    client: SolwardClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sol, "MOST_AT_ONCE", 1)
    wallet = await client.wallets.create(name="emptied")
    await client.wallets.airdrop(wallet.id, amount=1)
    for name in ("One", "Two", "Three"):
        made = await client.wallets.launch_token(wallet.id, name=name, symbol="X", decimals=0)
        mint, supply = made.details["mint"], made.details["supply"]
        await client.wallets.burn(wallet.id, mint=mint, amount=supply)
    found = (await client.wallets.reclaimable(wallet.id)).reclaimable
    reclaim_rent = client.wallets.reclaim_rent
    first, *others = await until_done(reclaim_rent, wallet.id, idempotency_key="r")
    assert [each.details["left"] for each in (first, *others)] == [2, 1, 0]
    assert sum(each.details["reclaimed"] for each in (first, *others)) == found
    # The same command again, as after a kill: its first call is known, and nothing is left.
    assert (await reclaim_rent(wallet.id, idempotency_key="r")).id == first.id
    with pytest.raises(BadRequest, match="There is no rent to reclaim"):
        await reclaim_rent(wallet.id)
