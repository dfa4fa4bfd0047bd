"""What fails for a moment uses up no approval: it waits, says why, and is carried out later."""

from __future__ import annotations

import copy
import threading
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import structs
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.approvals import KEY, Desk, asks, guardrails, open_desk
from tests.support.clock import until
from tests.support.engine import fast_slots
from tests.support.grants import SaidPrices, grant, limit
from tests.support.swaps import USDC, open_swaps

from solward.operations.policies.changes import replace_set
from solward.solana.message import fee_terms
from solward.support.durations import MINUTE_MS
from solward.types.errors import (
    Held,
    InvalidRequest,
    LedgerUnavailable,
    SkillError,
    TransactionFailed,
)
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import Hold, HoldState
from solward.types.venue import Quote
from solward.vault.grants.model import ANY_ASSET, Window, grant_id
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.judge import plugin_rules, prices
from solward.vault.money.judge.prices import Prices
from solward.vault.money.request import ADMIN

# Less than any pause between the tries of a node that is behind.
QUICK: dict[str, Any] = {"priority_fee": "off", "confirm_wait_s": 0.5}


async def waits(desk: Desk, hold: Hold, why: str) -> None:
    """Approve a hold twice over; it waits for this reason, and nothing is recorded."""
    before = await desk.bench.history()
    waiting = await desk.approvals.approve(hold.id, "admin")
    assert waiting.state is HoldState.APPROVED
    assert waiting.reasons[0] == hold.reasons[0]
    assert waiting.reasons[1].startswith("it was approved, and waits: ")
    assert why in waiting.reasons[1]
    await again(desk)
    assert await desk.bench.history() == before


async def again(desk: Desk) -> Hold:
    await desk.approvals.sweep()
    await desk.approvals.close()
    (hold,) = await desk.all()
    return hold


def simulated(desk: Desk, change: Callable[[dict[str, Any]], object]) -> None:
    """Have the node change its answers to simulations."""

    async def fault(method: str, params: Any) -> Any:
        answer = copy.deepcopy(await desk.bench.wire.direct(method, params))
        change(answer["value"])
        return answer

    desk.bench.wire.faults["simulateTransaction"] = fault


@promise("approval-waits-for-what-passes")
@pytest.mark.parametrize(
    "error",
    [
        "AccountInUse",
        "BlockhashNotFound",
        "ClusterMaintenance",
        "WouldExceedMaxBlockCostLimit",
        {"ProgramExecutionTemporarilyRestricted": {"account_index": 1}},
    ],
)
async def test_a_simulation_that_fails_for_a_moment_uses_up_no_approval(
    tmp_path: Path, error: Any
) -> None:
    async with open_desk(tmp_path, **QUICK) as desk:
        # Between tries where a node does not know a blockhash.
        fast_slots(desk.bench.ledger)
        hold = await desk.held()
        simulated(desk, lambda value: value.update(err=error, accounts=None))
        await waits(desk, hold, next(iter(error)) if isinstance(error, dict) else error)
        desk.bench.wire.faults.clear()
        ended = await again(desk)
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, LAMPORTS_PER_SOL)


@promise("approval-waits-for-what-passes")
@pytest.mark.parametrize("accounts", ["null", "each null"])
async def test_a_simulation_without_accounts_is_no_answer(tmp_path: Path, accounts: str) -> None:
    def without(value: dict[str, Any]) -> None:
        given = value["accounts"]
        value["accounts"] = None if accounts == "null" else [None] * len(given)

    async with open_desk(tmp_path, **QUICK) as desk:
        hold = await desk.held()
        simulated(desk, without)
        await waits(desk, hold, "reported no accounts")
        desk.bench.wire.faults.clear()
        ended = await again(desk)
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, LAMPORTS_PER_SOL)


@promise("approval-waits-for-what-passes")
async def test_a_simulation_that_shows_what_would_fail_uses_the_approval_up(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path, **QUICK) as desk:
        hold = await desk.held()
        error = {"InstructionError": [0, {"Custom": 1}]}
        simulated(desk, lambda value: value.update(err=error, accounts=None))
        ended = await desk.approvals.approve(hold.id, "admin")
        assert ended.state is HoldState.REFUSED


@promise("approval-waits-for-what-passes")
@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (SkillError("request_failed", "The venue did not answer"), "The venue did not answer"),
        (LedgerUnavailable("The venue is away"), "The venue is away"),
        (httpx.ConnectError("secret address"), "it failed unexpectedly (ConnectError)"),
        (InvalidRequest("amount: too small to sell"), None),
    ],
)
@pytest.mark.parametrize("call", ["quote", "instructions"])
async def test_a_venue_that_fails_uses_up_no_approval_but_its_refusal_does(
    tmp_path: Path, call: str, failure: Exception, why: str | None
) -> None:
    async with open_swaps(tmp_path, plugin_guardrails=guardrails(asks)) as swaps:
        desk = Desk(swaps.bench, swaps.operations())
        with pytest.raises(Held) as raised:
            await swaps.swap("SOL", USDC, 1, actor=KEY)
        hold = raised.value.hold

        def fails(_quote: Quote) -> Quote:
            raise failure

        async def fails_to_make(*_given: Any) -> Any:
            raise failure

        if call == "quote":
            swaps.plugin.requote = fails
        else:
            swaps.plugin.remake = fails_to_make
        if why is None:
            refused = await desk.approvals.approve(hold.id, "admin")
            assert refused.state is HoldState.REFUSED
            return
        await waits(desk, hold, why)
        swaps.plugin.requote, swaps.plugin.remake = lambda quote: quote, None
        assert (await again(desk)).state is HoldState.EXECUTED
        await desk.approvals.close()


@promise("approval-waits-for-what-passes")
@pytest.mark.parametrize("answer", ["raises", "hangs", "refuses"])
async def test_a_rule_that_fails_uses_up_no_approval_but_its_refusal_does(
    tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict, goes_on = {"strict"}, threading.Event()

    def rule(_intent: Intent, _effects: TransactionEffects) -> str | None:
        if not strict:
            return None
        if answer == "raises":
            raise RuntimeError("its host is restarted")
        if answer == "hangs":
            goes_on.wait()
            return None
        return "the rule failed: this is the rule's own word"

    async with open_desk(tmp_path, rules=(asks, rule), **QUICK) as desk:
        strict.clear()
        hold = await desk.held()
        strict.add("strict")
        if answer == "refuses":
            refused = await desk.approvals.approve(hold.id, "admin")
            assert refused.state is HoldState.REFUSED
            return
        monkeypatch.setattr(plugin_rules, "TIME_LIMIT_S", 0.05)
        await waits(
            desk, hold, "the rule " + ("failed: RuntimeError" if answer == "raises" else "")
        )
        monkeypatch.undo()
        strict.clear()
        goes_on.set()
        # The thread that hung answers first.
        await until(lambda: not any(each.name == "guardrail" for each in threading.enumerate()))
        ended = await again(desk)
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, LAMPORTS_PER_SOL)


@promise("approval-waits-for-what-passes")
async def test_a_price_source_that_is_away_uses_up_no_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prices, "_KEPT_FAILURE_S", 0)
    source = SaidPrices()
    async with open_desk(tmp_path, prices=Prices([source]), **QUICK) as desk:
        hold = await desk.held()
        dollars = {ANY_ASSET: limit(ANY_ASSET, 1_000_000_000, decimals=6)}
        under = structs.replace(grant(KEY.principal, costs=50_000_000), assets=dollars)
        under = structs.replace(under, id=grant_id(under))
        await replace_set(desk.bench.database, KEY.principal, [under])
        await waits(desk, hold, "price")
        source.usd["SOL"] = Fraction(100), 9
        ended = await again(desk)
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, LAMPORTS_PER_SOL)


@promise("approval-waits-for-what-passes")
async def test_a_rate_of_a_grant_that_is_used_up_uses_up_no_approval(tmp_path: Path) -> None:
    """Above half a SOL a person is asked."""
    half = LAMPORTS_PER_SOL // 2
    sol = limit("SOL", 9 * LAMPORTS_PER_SOL, hold=half)
    often, once = (
        grant(KEY.principal, SOL=sol, rates=(Window(MINUTE_MS, most),)) for most in (2, 1)
    )
    async with open_desk(tmp_path, rules=(), **QUICK) as desk:
        desk.actors[KEY.principal] = replace(KEY, limits=())
        await replace_set(desk.bench.database, KEY.principal, [once])
        hold = await desk.held()
        await desk.ask(Decimal("0.5"))
        await waits(desk, hold, "allows 1 transaction in a minute")
        await replace_set(desk.bench.database, KEY.principal, [often])
        ended = await again(desk)
        assert (ended.state, await desk.paid()) == (HoldState.EXECUTED, LAMPORTS_PER_SOL + half)


@promise("approval-waits-for-what-passes", "bid-leaves-room")
@pytest.mark.parametrize("is_approved", [True, False])
@pytest.mark.parametrize("fault", ["away", "stale"])
async def test_a_bid_that_nobody_rebuilds_is_no_refusal_by_costs(
    tmp_path: Path, is_approved: bool, fault: str
) -> None:
    """The ledger fails as soon as a lower bid is to be tried."""
    ceiling = ScopeLimits(daily_costs_lamports=40_000)
    options: dict[str, Any] = {"priority_fee": 10**9, "confirm_wait_s": 0.5}
    async with open_desk(tmp_path, limits=ceiling, **options) as desk:
        hold = await desk.held()
        wire = desk.bench.wire

        async def fails(method: str, params: Any) -> Any:
            answer = copy.deepcopy(await wire.direct(method, params))
            bid = fee_terms(VersionedTransaction.from_bytes(b64decode(params[0])).message)
            # The lowered one, but not one without a bid, which measures.
            if 0 < bid.bid_lamports <= 35_000:
                if fault == "away":
                    raise LedgerUnavailable("The ledger did not answer simulateTransaction")
                answer["value"].update(err="BlockhashNotFound", accounts=None)
            return answer

        wire.faults["simulateTransaction"] = fails
        why = "did not answer" if fault == "away" else "BlockhashNotFound"
        if is_approved:
            await waits(desk, hold, why)
            wire.faults.clear()
            assert (await again(desk)).state is HoldState.EXECUTED
            return
        trial = await desk.bench.engine.dry_run(desk.bench.wallet.id, ADMIN, desk.bench.draft(2))
        assert why in (trial.failure or "")
        with pytest.raises(TransactionFailed, match=why):
            await desk.ask(2, ADMIN)
