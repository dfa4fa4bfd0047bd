"""withdraw_stake: bring the SOL of an inactive stake back to the wallet."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee; the stake comes back."""
    return SkillSpec(
        name="withdraw_stake",
        description=(
            "Withdraw all SOL of an inactive stake account, its rent included, to the wallet, which"
            " closes the account. A stake that is not inactive must be unstaked first"
            " (unstake_sol)."
        ),
        parameters=operation_parameters("withdraw_stake"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say how much came back from which stake account, and the signature."""
    record = await context.withdraw_stake(stake_account=params["stakeAccount"])
    details = record.details
    amount = format_amount(details["amount"])
    what = f"{amount} SOL from stake account {details['stakeAccount']} to the wallet."
    return tell(record, f"Withdrew {what}", f"the withdrawal of {what}")
