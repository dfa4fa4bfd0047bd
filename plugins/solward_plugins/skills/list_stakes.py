"""list_stakes: the wallet's stake accounts and their states."""

from __future__ import annotations

from typing import Any

from solward import SkillContext, SkillSpec, Stake, StakeState, format_sol, hookimpl

_NEXT = {
    StakeState.ACTIVATING: "active in the next epoch; unstake_sol takes it back",
    StakeState.ACTIVE: "unstake_sol takes it back",
    StakeState.DEACTIVATING: "wait until it is inactive, at the end of the epoch as a rule",
    StakeState.INACTIVE: "withdraw_stake brings it back to the wallet",
}


@hookimpl
def skill_spec() -> SkillSpec:
    """Reads only."""
    return SkillSpec(
        name="list_stakes",
        description=(
            "List the wallet's stake accounts: address, SOL balance, state (activating, active,"
            " deactivating or inactive), and what can be done with each."
        ),
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        examples=({},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """One stake a line, with what comes next."""
    stakes = await context.stakes()
    if not stakes:
        return "The wallet has no stake accounts. stake_sol makes one."
    return "\n".join(["Stake accounts:", *(_line(stake, context) for stake in stakes)])


def _line(stake: Stake, context: SkillContext) -> str:
    said = f"- {stake.address}: {format_sol(stake.lamports)} SOL, {stake.state}"
    return f"{said} ({_next(stake, context.wallet.address)})"


def _next(stake: Stake, wallet: str) -> str:
    is_inactive = stake.state is StakeState.INACTIVE
    if (stake.withdrawer if is_inactive else stake.staker) != wallet:
        return "under another's authority"
    if is_inactive and stake.is_locked:
        return "locked: it cannot be withdrawn yet"
    return _NEXT[stake.state]
