"""wrap_sol: turn SOL into wrapped SOL."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends SOL, which the wallet then holds as a token."""
    return SkillSpec(
        name="wrap_sol",
        description=(
            "Turn SOL into wrapped SOL (wSOL), the token form of SOL that some programs ask for."
            " The spending limits apply. unwrap_sol turns it back."
        ),
        parameters=operation_parameters("wrap_sol"),
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=({"amount": 1},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say how much was wrapped into which account, the signature, and the way back."""
    record = await context.wrap_sol(amount=params["amount"])
    details = record.details
    amount = format_amount(details["amount"])
    what = f"{amount} SOL into the wallet's wrapped SOL account {details['account']}."
    told = tell(record, f"Wrapped {what}", f"the wrapping of {what}")
    return f"{told} unwrap_sol turns all of it back into SOL."
