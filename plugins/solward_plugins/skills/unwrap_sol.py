"""unwrap_sol: turn wrapped SOL back into SOL."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee; the SOL comes back."""
    return SkillSpec(
        name="unwrap_sol",
        description=(
            "Turn all the wallet's wrapped SOL (wSOL) back into SOL. Its token account is closed"
            " and the rent of it comes back too."
        ),
        parameters=operation_parameters("unwrap_sol"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say how much SOL came back, from which account, and the signature."""
    record = await context.unwrap_sol()
    details = record.details
    amount, rent = format_amount(details["amount"]), format_amount(details["reclaimed"])
    what = (
        f"{amount} SOL from the wallet's wrapped SOL account {details['account']}, with {rent}"
        " SOL of rent."
    )
    return tell(record, f"Unwrapped {what}", f"the unwrapping of {what}")
