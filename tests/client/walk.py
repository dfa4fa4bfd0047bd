"""One call of every method of the client."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from solward.client import (
    BadRequest,
    Conflict,
    NotFoundError,
    SolwardClient,
    TransactionFilter,
    Wallet,
)
from solward.types.errors import InvalidRequest
from solward.types.roles import Role

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
# More than the least stake of the localnet, with its rent.
STAKE_SOL = Decimal("1.5")


async def walk(client: SolwardClient) -> None:
    """Call everything; what it answers is looked at where it can show a mistake."""
    health = await client.health()
    assert (health.status, health.network, health.ledger_healthy) == ("ok", "localnet", True)
    wallet = await client.wallets.create(name="walker")
    await _wallet(client, wallet)
    await _payments(client, wallet)
    await _tokens(client, wallet)
    await _stakes(client, wallet)
    await _schedules(client, wallet)
    await _agents(client, wallet)
    await _service(client, wallet)
    await _admins(client)
    await _policy(client, wallet)


async def _wallet(client: SolwardClient, wallet: Wallet) -> None:
    assert [each.id for each in await client.wallets.list()] == [wallet.id]
    assert (await client.wallets.get(wallet.id)).name == "walker"
    assert (await client.wallets.tag(wallet.id, tags=["a"])).tags == ("a",)
    assert (await client.wallets.airdrop(wallet.id, amount=2)).status == "confirmed"
    assert (await client.wallets.airdrop(wallet.id)).details["amount"] == 1
    sent = await client.wallets.transfer(wallet.id, to=STRANGER, amount=Decimal("0.1"))
    assert sent.details["to"] == STRANGER
    sold = await client.wallets.swap(
        wallet.id, input_token="SOL", output_token="USDC", amount="0.1", slippage_bps=100
    )
    assert sold.details["slippageBps"] == 100
    assert (await client.wallets.wrap_sol(wallet.id, amount="0.1")).type == "wrap_sol"
    assert (await client.wallets.unwrap_sol(wallet.id)).type == "unwrap_sol"
    limits = await client.wallets.limits(wallet.id)
    assert limits["maxSolPerTransaction"] == {"limit": 2}
    lowered = await client.wallets.set_ceilings(wallet.id, {"maxSolPerTransaction": Decimal("1.5")})
    assert lowered["maxSolPerTransaction"] == {"limit": Decimal("1.5")}
    assert (await client.wallets.pockets(wallet.id)).pockets == ()
    with pytest.raises(NotFoundError):
        await client.wallets.sweep_pocket(wallet.id, STRANGER)
    assert len(await client.wallets.transactions(wallet.id)) == 6
    records = await client.transactions.list()
    assert len(records) == 6
    one = await client.transactions.get(records[0].id)
    assert (one.transaction.id, one.rule) == (records[0].id, None)
    assert one.could_leave is not None
    # What is refused: tests/server/test_refusals.py.
    found = await client.transactions.refusals(limit=5, wallet_id=wallet.id)
    assert found.refusals == ()
    totals = await client.day_totals()
    assert totals.wallets >= 1
    assert sum(sum(each.values()) for each in totals.types.values()) >= 6
    (sol, *_) = (await client.balance_totals()).assets
    assert (sol.asset, sol.decimals) == ("SOL", 9)
    await _filters_and_contacts(client, wallet)
    text = await client.wallets.run_skill(wallet.id, "check_balance")
    assert "walker" in text


async def _filters_and_contacts(client: SolwardClient, wallet: Wallet) -> None:
    named = await client.contacts.put(address=STRANGER, name="Landlord")
    assert (named.address, named.name) == (STRANGER, "Landlord")
    (sent,) = await client.transactions.list(only=TransactionFilter(recipient="Landlord"))
    assert sent.details["to"] == STRANGER
    airdrops = TransactionFilter(type="airdrop", since=sent.timestamp - timedelta(days=1))
    assert len(await client.wallets.transactions(wallet.id, only=airdrops)) == 2
    page = await client.transactions.page(airdrops, limit=1)
    assert [each.type for each in page.transactions] == ["airdrop"]
    (older,) = (await client.transactions.page(airdrops, 5, page.next)).transactions
    assert page.next == page.transactions[0].id != older.id
    with pytest.raises(InvalidRequest, match="until must be a time with a zone"):
        await client.transactions.list(only=TransactionFilter(until=datetime(2026, 1, 1)))
    text = b"".join([piece async for piece in client.transactions.export(airdrops)])
    assert text.count(b"airdrop") == 2
    with pytest.raises(BadRequest, match="status must be one of"):
        await anext(client.transactions.export(TransactionFilter(status="no")))
    assert await client.contacts.list() == (named,)
    await client.contacts.remove(STRANGER)
    with pytest.raises(NotFoundError):
        await client.contacts.remove(STRANGER)


async def _payments(client: SolwardClient, wallet: Wallet) -> None:
    # Sellers that take money are in tests/e2e/payments.
    asked = {"url": "http://127.0.0.1:9/report", "max": "0.05 USDC"}
    with pytest.raises(BadRequest, match="https_only"):
        await client.wallets.pay(wallet.id, **asked)
    with pytest.raises(BadRequest, match="https_only"):
        await client.wallets.quote_payment(wallet.id, **asked)
    assert await client.payments.list(wallet_id=wallet.id) == ()
    with pytest.raises(NotFoundError):
        await client.payments.get("5b0c1a2e-7d64-4f5b-9a0e-1f6d2c3b4a59")


async def _tokens(client: SolwardClient, wallet: Wallet) -> None:
    made = await client.wallets.launch_token(
        wallet.id, name="Walk", symbol="WLK", decimals=6, initial_supply="10.5"
    )
    mint = made.details["mint"]
    assert made.details["supply"] == Decimal("10.5")
    more = await client.wallets.mint_supply(wallet.id, mint=mint, amount="0.5", decimals=6)
    assert more.details["amount"] == Decimal("0.5")
    sent = await client.wallets.transfer_token(wallet.id, mint=mint, to=STRANGER, amount="1.5")
    assert (sent.type, sent.details["amount"]) == ("token_transfer", Decimal("1.5"))
    given_up = await client.wallets.revoke_authority(wallet.id, mint=mint, authority_type="freeze")
    assert given_up.details["authorityType"] == "freeze"
    held = next(t for t in (await client.wallets.balance(wallet.id)).tokens if t.mint == mint)
    assert (await client.wallets.burn(wallet.id, mint=mint, amount=held.amount)).type == "burn"
    closed = await client.wallets.close_account(wallet.id, mint=mint)
    assert closed.details["reclaimed"] > 0
    other = await client.wallets.launch_token(wallet.id, name="Rent", symbol="RNT", decimals=0)
    empty = {"mint": other.details["mint"], "amount": other.details["supply"]}
    assert (await client.wallets.burn(wallet.id, **empty)).type == "burn"
    found = await client.wallets.reclaimable(wallet.id)
    [given] = [each for each in found.accounts if each.mint == empty["mint"]]
    assert given.closes
    back = await client.wallets.reclaim_rent(wallet.id, take="empty")
    assert (back.type, back.details["reclaimed"]) == ("reclaim_rent", found.reclaimable)


async def _schedules(client: SolwardClient, wallet: Wallet) -> None:
    made = await client.schedules.create(
        wallet.id, name="look", skill="check_balance", every="1h", parameters={}
    )
    assert [each.id for each in await client.schedules.list(wallet.id)] == [made.id]
    changed = await client.schedules.change(wallet.id, made.id, {"every": "2h"})
    assert (changed.when, changed.status) != (made.when, "paused")
    assert (await client.schedules.pause(wallet.id, made.id)).status == "paused"
    assert (await client.schedules.resume(wallet.id, made.id)).status == "active"
    assert (await client.schedules.get(wallet.id, made.id)).skill == "check_balance"
    assert await client.schedules.runs(wallet.id, made.id) == ()
    asked = await client.schedules.run(wallet.id, made.id, idempotency_key="look now")
    while not (runs := await client.schedules.runs(wallet.id, made.id)) or runs[0].ended_at is None:
        await asyncio.sleep(0.05)
    assert (runs[0].due_at, runs[0].status) == (asked.next_run_at, "succeeded")
    assert await client.schedules.run(wallet.id, made.id, idempotency_key="look now") == asked
    await client.schedules.delete(wallet.id, made.id)
    assert await client.schedules.list(wallet.id) == ()


async def _stakes(client: SolwardClient, wallet: Wallet) -> None:
    staked = await client.wallets.stake(wallet.id, amount=STAKE_SOL)
    account = staked.details["stakeAccount"]
    (stake,) = (await client.wallets.stakes(wallet.id)).stakes
    assert (stake.address, stake.balance, stake.state) == (account, STAKE_SOL, "activating")
    await client.wallets.unstake(wallet.id, stake_account=account)
    # It never became active, so it is inactive at once, or else with the next epoch.
    while (await client.wallets.stakes(wallet.id)).stakes[0].state != "inactive":
        await asyncio.sleep(0.05)
    back = await client.wallets.withdraw_stake(wallet.id, stake_account=account)
    assert back.details["amount"] == STAKE_SOL


async def _agents(client: SolwardClient, wallet: Wallet) -> None:
    templates = {each.name: each for each in await client.agents.templates()}
    template = templates["dollar-cost-averager"]
    assert template.can_leave["assets"]["SOL"] == {"most": "0.04"}
    assert "swap up to 0.01 SOL at once" in template.sentences[0]
    buyer = await client.agents.create(
        name="buyer",
        template=template.name,
        llm_provider="rules",
        llm_model="rules",
        strategy="always do wait",
        wallet_id=wallet.id,
    )
    assert (buyer.strategy, buyer.loop_interval_ms) == ("always do wait", template.loop_interval_ms)
    await client.agents.delete(buyer.id)
    made = await client.agents.create(
        name="ada",
        strategy="always do wait",
        wallet_id=wallet.id,
        llm_provider="rules",
        llm_model="rules",
        loop_interval_ms=1000,
        guardrails={"maxSolPerTransaction": Decimal("0.5")},
    )
    assert (made.status, made.is_llm, made.wallet_id) == ("idle", False, wallet.id)
    assert [each.id for each in await client.agents.list()] == [made.id]
    assert (await client.agents.start(made.id)).status == "started"
    assert "always do wait" in await client.agents.chat(made.id, "What are you doing?")
    assert (await client.agents.pause(made.id)).status == "paused"
    assert (await client.agents.start(made.id)).status == "started"
    while not await client.agents.decisions(made.id, limit=1):
        await asyncio.sleep(0.05)
    assert (await client.agents.stop(made.id)).status == "stopped"
    newest = (await client.agents.decisions(made.id))[0]
    assert (newest.agent_id, newest.action) == (made.id, "wait({})")
    assert (await client.agents.memory(made.id, limit=1))[0].cycle == newest.cycle
    assert await client.agents.decisions(made.id, before=1) == ()
    assert (await client.agents.limits(made.id))["agentId"] == made.id
    assert (await client.agents.change(made.id, name="eve")).name == "eve"
    assert (await client.agents.get(made.id)).status == "stopped"
    await client.agents.delete(made.id)
    assert await client.agents.list() == ()


async def _service(client: SolwardClient, wallet: Wallet) -> None:
    key = await client.keys.create(
        name="ci", rate_limit=2, spending_limit_sol=1, permissions=["read"], wallet_id=wallet.id
    )
    assert (await client.keys.own()).key is None
    (listed,) = await client.keys.list()
    assert (listed.id, listed.name, listed.wallet_id) == (key.id, "ci", wallet.id)
    assert (listed.permissions, listed.last_used_at) == (("read",), None)
    (detailed,) = await client.keys.list(details=True)
    assert detailed.details is not None
    assert detailed.details.spending_limit_sol.limit == 1
    assert (detailed.details.expires_at, detailed.details.rotated_at) == (None, None)
    rotated = await client.keys.rotate(key.id, overlap_seconds=60)
    assert (rotated.id, rotated.api_key == key.api_key) == (key.id, False)
    await client.keys.revoke(key.id)
    assert await client.keys.list() == ()
    assert "transfer" in {skill.name for skill in await client.skills()}
    quote = await client.quote({"inputToken": "SOL", "outputToken": "USDC", "amount": 1})
    assert quote.minimum_units > 0
    with pytest.raises(BadRequest, match="declares no settings"):
        await client.plugin_state.settings("transfer")
    with pytest.raises(BadRequest, match="declares no settings"):
        await client.plugin_state.set("transfer", "a", 1)
    with pytest.raises(BadRequest, match="declares no settings"):
        await client.plugin_state.unset("transfer", "a")
    assert await client.plugin_state.entries(wallet.id, "acme", prefix="a/") == ()
    assert not (await client.plugin_state.delete(wallet.id, "acme", key="a/b")).deleted
    await client.plugin_state.purge(plugin="acme")
    settings = {each.name: each for each in await client.settings()}
    assert (settings["API_SECRET"].secret, settings["API_SECRET"].value) == (True, None)
    report = await client.plugins()
    (rules,) = (each for each in report.plugins if each.name == "rules")
    assert (rules.kind, rules.is_llm, rules.secret_env, rules.configured) == (
        "provider",
        False,
        None,
        True,
    )
    assert rules.options is not None
    frozen = await client.freeze(wallet_id=wallet.id, reason="walked enough")
    assert (frozen.frozen, frozen.wallet_id, frozen.reason) == (True, wallet.id, "walked enough")
    (by_itself,) = (await client.frozen()).wallets
    assert (by_itself.wallet_id, by_itself.reason) == (wallet.id, "walked enough")
    assert (await client.unfreeze(wallet_id=wallet.id)).frozen is False
    assert (await client.frozen()).frozen_wallets == 0
    assert (await client.audit(limit=1)).entries[0].kind == "switch:thawed"
    # An endless answer would not end here; the refusal comes from the same route.
    with pytest.raises(BadRequest, match="types must be"):
        await anext(client.events(types=["nonsense"]))


async def _admins(client: SolwardClient) -> None:
    own = await client.admins.own()
    assert (own.role, own.admin) == (Role.POLICY, None)
    made = await client.admins.create(name="night", role=Role.READ)
    (listed,) = await client.admins.list()
    assert (listed.id, listed.name, listed.role) == (made.credential.id, "night", Role.READ)
    assert (await client.admins.revoke(listed.id)).made == ()
    assert await client.admins.list() == ()


async def _policy(client: SolwardClient, wallet: Wallet) -> None:
    says = "Key ci may transfer up to 1 SOL a day, to anybody; above 0.1 SOL a person is asked."
    key = await client.keys.create(name="ci", grants=[])
    (listed,) = await client.keys.list(details=True)
    assert listed.details is not None
    assert (listed.details.grants, listed.details.sentences) == ((), ("Key ci may only read.",))
    was = await client.policy.get()
    assert (was.read_only, was.sentences) == ((f"key:{key.id}",), ("Key ci may only read.",))
    checked = await client.policy.check({"grants": [says]})
    assert (checked.sentences, checked.version) == ((says,), None)
    found = await client.policy.read(sentence="ci can send 1 SOL a day, ask me above 0.1")
    assert [each.sentences for each in found.readings] == [(says,)]
    put = await client.policy.put("key:ci", [says], version=was.version)
    assert (put.grants, put.sentences) == (checked.grants, (says,))
    assert await client.policy.of("key:ci") == put
    now = await client.policy.get()
    assert now.version == put.version
    with pytest.raises(Conflict):
        await client.policy.replace(was.document)
    assert (await client.policy.replace(now.document)).grants == now.grants
    assert (await client.policy.replay(days=1, draft=now.document)).changed == 0
    # What one is asked and decided: tests/client/test_client_calls.py.
    assert await client.holds.list(wallet_id=wallet.id, is_open=True, limit=5) == ()
    for call in (client.holds.get, client.holds.approve, client.holds.deny):
        with pytest.raises(NotFoundError, match="Hold not found"):
            await call(wallet.id)
    await client.policy.put("key:ci", None)
