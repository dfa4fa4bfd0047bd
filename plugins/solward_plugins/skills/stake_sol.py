"""stake_sol: stake SOL with a validator."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends SOL, which stays the wallet's in a stake account."""
    return SkillSpec(
        name="stake_sol",
        description=(
            "Stake SOL with a validator, in a new stake account of the wallet's. The amount"
            " includes the account's rent, which the network sets. The spending limits apply."
            " To get it back: unstake_sol, wait until list_stakes shows it inactive, then"
            " withdraw_stake."
        ),
        parameters=operation_parameters("stake"),
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=({"amount": 2},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say the stake account, which unstaking needs, the validator, the signature, what follows."""
    record = await context.stake(amount=params["amount"], validator=params.get("validator"))
    details = record.details
    amount = format_amount(details["amount"])
    what = (
        f"{amount} SOL with validator {details['validator']}."
        f" Stake account: {details['stakeAccount']}."
    )
    told = tell(record, f"Staked {what}", f"the staking of {what}")
    named = params.get("validator") is not None
    why = "" if named else f" Why this validator: {details['validatorReason']}."
    return (
        f"{told}{why} It is activating and becomes active in the next epoch; unstake_sol with this"
        " stake account starts to take it back."
    )
