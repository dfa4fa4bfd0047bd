"""What fails for a moment uses up no approval: it waits, says why, and is carried out later."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.approvals import KEY, Desk, asks, guardrails, open_desk
from tests.support.swaps import USDC, open_swaps

from solward.types.errors import Held, InvalidRequest, LedgerUnavailable, SkillError
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import Hold, HoldState
from solward.types.venue import Quote
from solward.vault.money.judge import assess

# Less than any pause between the tries of a node that is behind.
QUICK: dict[str, Any] = {"priority_fee": "off", "confirm_wait_s": 0.5}


async def waits(desk: Desk, hold: Hold, why: str) -> None:
    """Approve a hold twice over; it waits for this reason, and nothing is recorded."""
    waiting = await desk.approvals.approve(hold.id, "admin")
    assert waiting.state is HoldState.APPROVED
    assert waiting.reasons[0] == hold.reasons[0]
    assert waiting.reasons[1].startswith("it was approved, and waits: ")
    assert why in waiting.reasons[1]
    await again(desk)
    assert await desk.bench.history() == []


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
    tmp_path: Path, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between tries where a node does not know a blockhash.
    monkeypatch.setattr(assess, "_SLOT_S", 0.01)
    async with open_desk(tmp_path, **QUICK) as desk:
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
        await waits(desk, hold, "simulateTransaction")
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
