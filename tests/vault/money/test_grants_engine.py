"""Grants on a real engine and ledger: what they let through, count, refuse, hold and give back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair
from sqlalchemy import select
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.grants import grant, limit
from tests.support.localnet import rent
from tests.support.tokens import TokenBench
from tests.vault.store.test_alerts import alerts

from solward.database.tables import judged_effects, reservations
from solward.operations.policies.changes import replace_policy, replace_set
from solward.support.durations import DAY_MS, HOUR_MS
from solward.types.errors import GuardrailBlocked, Held, TransactionFailed
from solward.types.guardrail import COSTS, Operation
from solward.types.record import TransactionRecord
from solward.vault.grants.model import Grant, NewRecipient
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.judge.granting import GrantEndCounter
from solward.vault.money.request import ADMIN, Actor
from solward.vault.store import window_sums

AGENT, KEY = "agent:a", "key:k"
UNITS = 10**6


def actor(who: str = AGENT, **more: Any) -> Actor:
    return Actor(who, limits=((who, ScopeLimits()),), **more)


async def under(bench: Bench, *grants: Grant, who: str = AGENT) -> None:
    await replace_set(bench.database, who, grants)


async def send(
    tokens: TokenBench,
    mint: str,
    whole: Any,
    who: Actor | None = None,
    to: str | None = None,
) -> TransactionRecord:
    params = {"mint": mint, "to": to or tokens.bench.recipient, "amount": Decimal(str(whole))}
    return await tokens.operations.perform("transfer_token", tokens.wallet, who or actor(), params)


async def counted(bench: Bench, of: Grant, asset: str, length_ms: int = DAY_MS) -> int:
    async with bench.database.read() as connection:
        now = (await bench.database.moment(connection)).window_ms
        need = (of.scope, asset, length_ms)
        return (await window_sums.sum_windows(connection, [need], now))[need].units


async def refused(call: Any, *words: str) -> TransactionRecord:
    """By grants, with these words; nothing was reserved."""
    with pytest.raises(GuardrailBlocked) as found:
        await call
    assert found.value.rule == "grants"
    assert found.value.record.guardrails_applied[-1] == "grants"
    for each in words:
        assert each in str(found.value)
    return found.value.record


# Without grants.


@promise("ungranted-burns-own-only", "no-grants-no-tokens")
@pytest.mark.parametrize("who", [AGENT, KEY])
async def test_without_grants_no_token_is_transferred(tokens: TokenBench, who: str) -> None:
    mint = await tokens.mint(units=5 * UNITS)
    record = await refused(send(tokens, mint, 1, actor(who)), "no grant to transfer", mint)
    assert record.guardrails_applied[-2:] == ("swap_bounds", "grants")
    assert await tokens.units(mint) == 5 * UNITS
    # Nor to another wallet of the service, nor what is merely the wallet's own mint.
    other = await tokens.bench.wallets.create("other")
    await refused(send(tokens, mint, 1, actor(who), to=other.address))
    await refused(
        tokens.operations.perform(
            "burn", tokens.wallet, actor(who), {"mint": mint, "amount": Decimal(1)}
        ),
        "burn",
    )
    # The operator's own transfer has ceilings alone, and SOL has ceilings for everybody.
    assert (await send(tokens, mint, 1, ADMIN)).guardrails_applied[-1] == "swap_bounds"
    sent = await tokens.bench.transfer(Decimal("0.1"), actor(who))
    assert sent.guardrails_applied[-1] == "swap_bounds"


@promise("ungranted-burns-own-only", "no-grants-no-tokens")
async def test_without_grants_a_wallet_burns_what_it_launched(tokens: TokenBench) -> None:
    launch = {"name": "Mine", "symbol": "MINE", "supply": Decimal(100), "decimals": 6}
    launched = await tokens.operations.perform("launch_token", tokens.wallet, actor(), launch)
    mint = str(launched.details["mint"])
    burn = {"mint": mint, "amount": Decimal(3)}
    burned = await tokens.operations.perform("burn", tokens.wallet, actor(), burn)
    assert burned.guardrails_applied[-1] == "grants"
    other = await tokens.mint(units=UNITS)
    # Its name says another's mint; that launches nothing.
    named = launch | {"name": other[:32]}
    await tokens.operations.perform("launch_token", tokens.wallet, actor(), named)
    await refused(
        tokens.operations.perform(
            "burn", tokens.wallet, actor(), {"mint": other, "amount": Decimal(1)}
        )
    )


# With grants.


async def test_a_grant_lets_through_what_fits_exactly_and_one_unit_more_not(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=50 * UNITS)
    made = grant(AGENT, **{mint: limit(mint, 8 * UNITS, per_tx=5 * UNITS)})
    await under(tokens.bench, made)
    await refused(send(tokens, mint, "5.000001"), "5.000001", "at once")
    await send(tokens, mint, 5)
    await refused(send(tokens, mint, "3.000001"), "24 hours")
    await send(tokens, mint, 3)
    assert await counted(tokens.bench, made, mint) == 8 * UNITS
    assert await counted(tokens.bench, made, "SOL") == 0
    assert await counted(tokens.bench, made, COSTS) > 0
    record = await refused(send(tokens, mint, "0.000001"))
    # A day from the first payment is another day's: a time alone would be taken for today's.
    assert re.search(r"; more at \d{4}-\d\d-\d\d \d\d:\d\d UTC\.$", record.error or "")


@promise("grants-bind-every-principal", "no-grants-no-tokens")
async def test_a_principal_with_an_empty_set_moves_nothing_and_pays_no_fee(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=5 * UNITS)
    await under(tokens.bench)
    before = await tokens.lamports()
    await refused(tokens.bench.transfer(Decimal("0.1"), actor()))
    await refused(send(tokens, mint, 1))
    # What takes nothing but the fee.
    wrapped = await tokens.operations.perform(
        "wrap_sol", tokens.wallet, ADMIN, {"amount": Decimal("0.1")}
    )
    assert wrapped.signature is not None
    paid = before - await tokens.lamports()
    await refused(tokens.operations.perform("unwrap_sol", tokens.wallet, actor(), {}), "a")
    assert before - await tokens.lamports() == paid


@promise("grants-bind-every-principal", "whole-chain-must-allow")
async def test_every_principal_of_the_chain_must_allow(tokens: TokenBench) -> None:
    bench = tokens.bench
    via = ("skill:pay", "plugin:acme")
    sets: dict[str, list[Grant]] = {}
    everyone = (f"wallet:{tokens.wallet}", AGENT, *via)
    for who in everyone:
        sets[who] = [grant(who, SOL=limit("SOL", 10**9))]
    await replace_policy(bench.database, sets, {})
    await bench.transfer(Decimal("0.1"), actor(via=via))
    for who in everyone:
        [full] = sets[who]
        assert await counted(bench, full, "SOL") == 10**8
    for who in everyone:
        await replace_policy(bench.database, sets | {who: []}, {})
        await refused(bench.transfer(Decimal("0.1"), actor(via=via)))
    # The operator is bound by the wallet's, the skill's and the plugin's.
    for who in (everyone[0], *via):
        await replace_policy(bench.database, {who: []}, {})
        await refused(bench.transfer(Decimal("0.1"), Actor("admin", via=via)))


# Recipients.


async def test_a_recipient_is_named_by_its_address_whatever_account_receives(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=50 * UNITS)
    bench, friend = tokens.bench, str(Keypair().pubkey())
    await under(bench, grant(AGENT, to=(friend,), **{mint: limit(mint, 8 * UNITS)}))
    await send(tokens, mint, 1, to=friend)
    # By then the account is there, and the bytes do not open it.
    await send(tokens, mint, 1, to=friend)
    await refused(send(tokens, mint, 1), bench.recipient)


async def test_own_wallets_are_funded_and_nobody_else(tokens: TokenBench) -> None:
    bench = tokens.bench
    other = await bench.wallets.create("other")
    await under(bench, grant(AGENT, [Operation.FUND], SOL=limit("SOL", 10**9)))
    await bench.transfer(Decimal("0.1"), actor(), to=other.address)
    await refused(bench.transfer(Decimal("0.1"), actor()))
    await under(bench, grant(AGENT, to=("own",), SOL=limit("SOL", 10**9)))
    await bench.transfer(Decimal("0.1"), actor(), to=other.address)
    await refused(bench.transfer(Decimal("0.1"), actor()))


async def test_somebody_new_is_refused_until_a_payment_to_them_is_confirmed(
    tokens: TokenBench,
) -> None:
    bench = tokens.bench
    await under(bench, grant(AGENT, new=NewRecipient.REFUSE, SOL=limit("SOL", 10**9)))
    await refused(
        bench.transfer(Decimal("0.1"), actor()), "grant 1 of agent a pays no new recipient."
    )
    await bench.transfer(Decimal("0.1"), ADMIN)
    await bench.transfer(Decimal("0.1"), actor())


async def test_a_person_is_asked_about_somebody_new_in_words_that_do_not_refuse(
    bench: Bench,
) -> None:
    await under(bench, grant(AGENT, new=NewRecipient.HOLD, SOL=limit("SOL", 10**9)))
    with pytest.raises(Held) as found:
        await bench.transfer(Decimal("0.1"), actor())
    (reason,) = found.value.hold.reasons
    assert reason.endswith(
        " was never paid from this wallet; grant 1 of agent a asks a person first."
    )


# What counts, and for how long.


@promise("concurrent-grants-hold")
async def test_what_the_ledger_never_had_is_given_back_to_grants(tokens: TokenBench) -> None:
    bench = tokens.bench
    made = grant(AGENT, SOL=limit("SOL", 10**9))
    await under(bench, made)

    async def refuse(_name: str, _params: Sequence[Any]) -> Any:
        raise RuntimeError("no key")

    bench.engine._signing._wallets.signer = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(TransactionFailed):
        await bench.transfer(Decimal("0.4"), actor())
    assert await counted(bench, made, "SOL") == 0
    assert await counted(bench, made, COSTS) == 0


async def test_fees_and_rent_count_as_costs_of_the_first_lines_grant(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=50 * UNITS)
    made = grant(AGENT, costs=2_100_000, **{mint: limit(mint, 8 * UNITS)})
    await under(tokens.bench, made)
    # The receiver's account costs rent, though not the wallet's.
    await send(tokens, mint, 1)
    assert rent(165) < await counted(tokens.bench, made, COSTS) <= 2_100_000
    await refused(send(tokens, mint, 1, to=str(Keypair().pubkey())), "fees and rent")


async def test_a_rate_counts_transactions_of_the_grant(tokens: TokenBench) -> None:
    from solward.vault.grants.model import Window

    bench = tokens.bench
    made = grant(AGENT, rates=(Window(HOUR_MS, 2),), SOL=limit("SOL", 10**9))
    await under(bench, made)
    for _ in range(2):
        await bench.transfer(Decimal("0.01"), actor())
    await refused(bench.transfer(Decimal("0.01"), actor()), "more at")


# What is judged is stored.


async def test_what_was_judged_is_stored_for_what_is_allowed_and_refused(
    tokens: TokenBench,
) -> None:
    bench = tokens.bench
    made = grant(AGENT, SOL=limit("SOL", 10**9))
    await under(bench, made)
    allowed = await bench.transfer(Decimal("0.1"), actor(via=("skill:s", "plugin:p")))
    blocked = await refused(bench.transfer(Decimal(2), actor()))
    async with bench.database.read() as connection:
        rows = (await connection.execute(select(judged_effects))).mappings().all()
        scopes = await connection.execute(
            select(reservations.c.scope, reservations.c.asset).where(
                reservations.c.transaction_id == allowed.id
            )
        )
        found = {tuple(row) for row in scopes}
    assert {row["transaction_id"]: row["verdict"] for row in rows} == {
        allowed.id: "allowed",
        blocked.id: "grants",
    }
    by_id = {row["transaction_id"]: row for row in rows}
    assert '"units":100000000' in by_id[allowed.id]["lines"]
    assert "skill:s" in by_id[allowed.id]["chain"]
    assert {("skill:s", "SOL"), ("plugin:p", "SOL"), (made.scope, "SOL")} <= found


async def test_a_dry_run_is_judged_by_grants_and_counts_nothing(tokens: TokenBench) -> None:
    bench = tokens.bench
    made = grant(AGENT, SOL=limit("SOL", 10**9))
    await under(bench, made)
    trial = await bench.engine.dry_run(bench.wallet.id, actor(), bench.draft(Decimal(2)))
    assert (trial.allowed, trial.verdict.rule) == (False, "grants")
    trial = await bench.engine.dry_run(bench.wallet.id, actor(), bench.draft(Decimal(1)))
    assert trial.allowed
    assert trial.verdict.applied[-1] == "grants"
    assert await counted(bench, made, "SOL") == 0


async def ends(bench: Bench) -> tuple[int, int]:
    counting = GrantEndCounter()
    async with bench.database.read() as connection:
        return await counting.count(bench.database, connection)


async def test_a_grant_near_its_end_is_told_once_and_counted(tokens: TokenBench) -> None:
    bench, mint = tokens.bench, await tokens.mint(units=50 * UNITS)
    made = grant(AGENT, **{mint: limit(mint, 10 * UNITS)})
    await under(bench, made)
    await send(tokens, mint, 8)
    assert await alerts(bench) == []
    assert await ends(bench) == (0, 0)
    ninth = await send(tokens, mint, 1)
    [told] = await alerts(bench)
    assert (told["alert"], told["transactionId"]) == ("grant_near_end", ninth.id)
    assert told["detail"].startswith(f"Grant 1 of {AGENT}: 1 of 10 ")
    assert await ends(bench) == (1, 0)
    await send(tokens, mint, 1)
    await refused(send(tokens, mint, 1), "0 of 10")
    assert len(await alerts(bench)) == 1


async def test_a_grant_that_ends_within_a_day_is_told_when_it_is_used(tokens: TokenBench) -> None:
    bench, mint = tokens.bench, await tokens.mint(units=50 * UNITS)
    async with bench.database.read() as connection:
        now = (await bench.database.moment(connection)).window_ms
    far = grant(AGENT, until_ms=now + 2 * DAY_MS, **{mint: limit(mint, 100 * UNITS)})
    await under(bench, far)
    await send(tokens, mint, 1)
    assert (await alerts(bench), await ends(bench)) == ([], (0, 0))
    soon = grant(AGENT, until_ms=now + DAY_MS - HOUR_MS, **{mint: limit(mint, 100 * UNITS)})
    await under(bench, soon, grant("key:other", until_ms=now - HOUR_MS))
    assert await ends(bench) == (0, 1)
    for _ in range(2):
        await send(tokens, mint, 1)
    [told] = await alerts(bench)
    assert told["alert"] == "grant_near_end"
    assert f"Grant 1 of {AGENT} ends at " in told["detail"]


async def test_another_process_judges_by_a_change_at_once(tokens: TokenBench) -> None:
    bench = tokens.bench
    made = grant(AGENT, SOL=limit("SOL", 10**9))
    await under(bench, made)
    await bench.transfer(Decimal("0.1"), actor())
    await under(bench)
    await refused(bench.transfer(Decimal("0.1"), actor()))
    await replace_set(bench.database, AGENT, None)
    sent = await bench.transfer(Decimal("0.1"), actor())
    assert "grants" not in sent.guardrails_applied


@promise("inflow-restores-nothing")
async def test_wrapped_sol_counts_where_sol_does(tokens: TokenBench) -> None:
    made = grant(AGENT, SOL=limit("SOL", 10**9))
    await under(tokens.bench, made)
    wrap = {"amount": Decimal("0.3")}
    await tokens.operations.perform("wrap_sol", tokens.wallet, actor(), wrap)
    assert await counted(tokens.bench, made, "SOL") == 3 * 10**8
    await tokens.operations.perform("unwrap_sol", tokens.wallet, actor(), {})
    # What comes back restores nothing.
    assert await counted(tokens.bench, made, "SOL") == 3 * 10**8
