"""Grants of payments on a real engine and ledger: who may pay which site what, and what counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
)
from sqlalchemy import select
from tests.promises import promise
from tests.support.grants import grant, limit
from tests.vault.money.handed_payments import PRICE, Shop, open_shop
from tests.vault.money.test_grants_engine import counted

from solward.database.tables import judged_effects, payments, reservations
from solward.operations.policies.changes import replace_policy, replace_set
from solward.types.errors import GuardrailBlocked, Held
from solward.types.guardrail import COSTS, Operation
from solward.types.payment import PaymentMode
from solward.types.record import TransactionStatus
from solward.vault.grants.model import Grant, NewRecipient
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import ADMIN, Actor

AGENT, KEY = "agent:a", "key:k"
SITE = "site:api.example.com"
PAY = [Operation.PAY]
AT_ONCE = 50


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path) as opened:
        yield opened


def actor(who: str = AGENT, *sites: str, **limits: Any) -> Actor:
    """Who pays for a request to the site, or to others."""
    return Actor(who, limits=((who, ScopeLimits(**limits)),), via=sites or (SITE,))


async def under(shop: Shop, *grants: Grant) -> None:
    sets: dict[str, list[Grant]] = {}
    for each in grants:
        sets.setdefault(each.who, []).append(each)
    await replace_policy(shop.bench.database, sets, {})


async def refused(shop: Shop, who: Actor, *words: str, **terms: Any) -> None:
    """By grants, in these words; nothing is reserved, signed or kept as a payment."""
    with pytest.raises(GuardrailBlocked) as found:
        await shop.hand_over(actor=who, **terms)
    assert found.value.rule == "grants"
    for each in words:
        assert each in str(found.value)
    async with shop.bench.database.read() as connection:
        for table in (payments, reservations):
            kept = select(table.c.transaction_id).where(
                table.c.transaction_id == found.value.record.id
            )
            assert (await connection.execute(kept)).first() is None


def at(shop: Shop, most: int, **more: Any) -> dict[str, Any]:
    return {shop.mint: limit(shop.mint, most, **more)}


@promise("sponsored-has-no-costs")
async def test_what_is_paid_counts_in_the_grant_to_the_unit_and_a_sponsored_one_costs_nothing(
    shop: Shop,
) -> None:
    made = grant(AGENT, PAY, via=(SITE,), costs=0, **at(shop, 2 * PRICE))
    await under(shop, made)
    handed = await shop.hand_over(actor=actor())
    await shop.settle(handed)
    assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED
    assert (await counted(shop.bench, made, shop.mint), await counted(shop.bench, made, COSTS)) == (
        PRICE,
        0,
    )
    async with shop.bench.database.read() as connection:
        judged = (await connection.execute(select(judged_effects))).one()
    assert judged.type == "payment"
    assert '"operation":"pay"' in judged.lines
    assert SITE in judged.chain
    await refused(shop, actor(), "has 0.01 of 0.02", units=PRICE + 1)
    await shop.hand_over(PRICE, actor=actor())
    await refused(shop, actor(), "has 0 of 0.02", units=1)


async def test_a_fee_of_its_own_is_a_cost_of_the_grant(shop: Shop) -> None:
    await under(shop, grant(AGENT, PAY, costs=0, **at(shop, PRICE)))
    await refused(shop, actor(), "pays no network fee", mode=PaymentMode.UNSPONSORED)
    await shop.hand_over(actor=actor())


@promise("via-pays-its-sites-only")
async def test_a_price_that_another_site_asks_is_not_paid_by_the_grant_of_one(shop: Shop) -> None:
    await under(shop, grant(AGENT, PAY, via=(SITE,), **at(shop, PRICE)))
    says = "Grant 1 lets agent a pay through api.example.com only."
    for other in ("site:api.example.com:8443", "site:evil.example", "site:example.com"):
        await refused(shop, actor(), says, site=other.removeprefix("site:"))
    await shop.hand_over(actor=actor())


async def test_a_seller_that_was_paid_once_is_nobody_new(shop: Shop) -> None:
    seller = str(shop.seller.pubkey())
    await under(shop, grant(AGENT, PAY, new=NewRecipient.REFUSE, **at(shop, PRICE)))
    await refused(shop, actor(), f"{seller} was never paid from this wallet")
    await shop.ended(await settled(shop, ADMIN))
    await shop.hand_over(actor=actor())


async def settled(shop: Shop, who: Actor) -> Any:
    handed = await shop.hand_over(actor=who)
    await shop.settle(handed)
    return handed


@promise("sponsored-has-no-costs")
async def test_what_a_person_is_asked_names_the_site_and_another_site_is_another_hold(
    shop: Shop,
) -> None:
    await under(shop, grant(AGENT, PAY, **at(shop, PRICE, hold=PRICE - 1)))
    held = []
    for site in (SITE, SITE, "site:b.example"):
        with pytest.raises(Held) as found:
            await shop.hand_over(actor=actor(), site=site.removeprefix("site:"))
        held.append(found.value.hold)
        asked = f"Agent a asks to pay 0.01 {shop.mint} to {shop.seller.pubkey()} (request "
        assert held[-1].sentence.startswith(asked)
        assert f", through {site.removeprefix('site:')}. 0.01 " in held[-1].sentence
        assert held[-1].lines[0]["operation"] == "pay"
    assert held[0].id == held[1].id != held[2].id


@promise("site-grants-bind-everyone")
async def test_a_site_under_grants_is_paid_no_more_by_all_together_and_the_admin(
    shop: Shop,
) -> None:
    await under(
        shop,
        grant(SITE, PAY, **at(shop, 2 * PRICE)),
        grant(AGENT, PAY, **at(shop, 9 * PRICE)),
        grant(KEY, PAY, **at(shop, 9 * PRICE)),
    )
    for who in (actor(AGENT), actor(KEY)):
        await shop.hand_over(actor=who)
    left = "Grant 1 of site api.example.com has 0 of 0.02"
    for who in (actor(AGENT), actor(KEY), ADMIN):
        await refused(shop, who, left)
    await replace_set(shop.bench.database, SITE, [])
    await refused(shop, ADMIN, "Site api.example.com has no grant to be paid")
    await shop.hand_over(site="b.example")


@promise("pay-is-no-transfer")
async def test_a_payment_to_a_wallet_of_the_service_is_paid_and_not_funded(shop: Shop) -> None:
    own = (await shop.bench.wallets.create("other")).address
    owner, mint = Pubkey.from_string(own), Pubkey.from_string(shop.mint)
    payer = shop.tokens.stranger.pubkey()
    await shop.tokens.land([create_idempotent_associated_token_account(payer, owner, mint)])
    draft = shop.draft(to=get_associated_token_address(owner, mint))
    assert draft.payment is not None
    draft = replace(
        draft,
        intent=replace(draft.intent, destinations=frozenset({own})),
        payment=replace(draft.payment, pay_to=own),
    )
    wallet = shop.bench.wallet.id
    for may, to, says in (
        ([Operation.FUND, Operation.TRANSFER], ("any",), "no grant to pay"),
        (PAY, (str(shop.seller.pubkey()),), f"to {own}"),
    ):
        await under(shop, grant(AGENT, may, to=to, **at(shop, PRICE)))
        with pytest.raises(GuardrailBlocked, match=says):
            await shop.bench.engine.hand_over(wallet, actor(), draft)
    await under(shop, grant(AGENT, PAY, to=("own",), **at(shop, PRICE)))
    handed = await shop.bench.engine.hand_over(wallet, actor(), draft)
    await shop.settle(handed)
    assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED


@promise("engine-sets-the-site")
async def test_the_site_of_a_payment_is_of_its_chain_whatever_its_caller_says(shop: Shop) -> None:
    await under(shop, grant(SITE, PAY, **at(shop, PRICE - 1)), grant(AGENT, PAY, **at(shop, PRICE)))
    for said in ((), ("site:other.example",)):
        await refused(shop, replace(actor(), via=said), "api.example.com")
    await under(shop, grant(AGENT, PAY, via=("site:other.example",), **at(shop, PRICE)))
    says = "Grant 1 lets agent a pay through other.example only."
    await refused(shop, actor(AGENT, "site:other.example"), says)


@promise("tiny-payments-add-up")
@pytest.mark.parametrize(
    "times",
    [
        pytest.param(300, marks=pytest.mark.more),
        pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
async def test_one_unit_many_times_is_counted_to_the_unit(shop: Shop, times: int) -> None:
    """A window of as many units as payments of one, asked for by fifty at once: each is signed,
    each lands, none is rounded away and none beyond the last is paid."""
    made = grant(AGENT, PAY, via=(SITE,), costs=0, **at(shop, times))
    await under(shop, made)
    landed: list[str] = []
    refusals = 0

    async def buys() -> None:
        nonlocal refusals
        try:
            handed = await shop.hand_over(1, actor=actor())
        except GuardrailBlocked:
            refusals += 1
            return
        signature = await shop.settle(handed)
        await shop.answer(handed, signature)
        ended = await shop.ended(handed, 60)
        assert (ended.status, ended.signature) == (TransactionStatus.CONFIRMED, signature)
        landed.append(signature)

    for _ in range(0, times + AT_ONCE, AT_ONCE):
        await asyncio.gather(*(buys() for _ in range(AT_ONCE)))
    assert (len(landed), len(set(landed)), refusals) == (times, times, AT_ONCE)
    assert await shop.received() == times
    assert await counted(shop.bench, made, shop.mint) == await shop.counted() == times
    await refused(shop, actor(), "has 0 of", units=1)


@pytest.mark.parametrize("who", [AGENT, KEY])
async def test_without_a_grant_no_token_is_paid(shop: Shop, who: str) -> None:
    await refused(shop, actor(who), f"has no grant to pay {shop.mint}")
    await under(shop, grant(who, [Operation.TRANSFER, Operation.FUND], **at(shop, PRICE)))
    await refused(shop, actor(who), f"has no grant to pay {shop.mint}")


async def test_a_grant_to_pay_does_not_let_transfer(shop: Shop) -> None:
    await under(shop, grant(AGENT, PAY, **at(shop, PRICE)))
    params = {"mint": shop.mint, "to": shop.bench.recipient, "amount": Decimal("0.001")}
    sender = replace(actor(), via=())
    with pytest.raises(GuardrailBlocked, match="no grant to transfer"):
        await shop.tokens.operations.perform("transfer_token", shop.tokens.wallet, sender, params)


async def test_a_seller_is_known_by_his_address_whoever_owns_the_site(shop: Shop) -> None:
    seller, other = str(shop.seller.pubkey()), str(Keypair().pubkey())
    await under(shop, grant(AGENT, PAY, to=(other,), **at(shop, PRICE)))
    await refused(shop, actor(), f"does not let agent a pay {shop.mint} to {seller}")
    await under(shop, grant(AGENT, PAY, to=(seller,), **at(shop, PRICE)))
    await shop.hand_over(actor=actor())


@promise("empty-grants-sign-nothing")
async def test_a_key_that_may_spend_nothing_pays_nothing_though_another_pays_the_fee(
    shop: Shop,
) -> None:
    await under(shop, grant(KEY, PAY, **at(shop, PRICE)))
    with pytest.raises(GuardrailBlocked, match="cannot sign a transaction") as found:
        await shop.hand_over(actor=actor(KEY, daily_lamports=0))
    assert found.value.rule == "spending_limit_check"
    await shop.hand_over(actor=actor(KEY))
