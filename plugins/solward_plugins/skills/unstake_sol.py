"""unstake_sol: start to take a stake back."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee."""
    return SkillSpec(
        name="unstake_sol",
        description=(
            "Deactivate a stake of the wallet's. It cools down until the end of the epoch; once"
            " list_stakes shows it inactive, withdraw_stake brings the SOL back."
        ),
        parameters=operation_parameters("unstake"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say which stake is deactivated, the signature, and what follows."""
    record = await context.unstake(stake_account=params["stakeAccount"])
    details = record.details
    amount = format_amount(details["amount"])
    what = f"stake account {details['stakeAccount']}, {amount} SOL delegated."
    told = tell(record, f"Unstaked {what}", f"the unstaking of {what}")
    return (
        f"{told} It can be withdrawn with withdraw_stake once list_stakes shows it inactive, at the"
        " end of the epoch as a rule."
    )
