"""close_token_account: close an empty token account and take its rent back."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee; the rent comes back."""
    return SkillSpec(
        name="close_token_account",
        description=(
            "Close the wallet's token account of a mint and take its rent back. The account must"
            " be empty: burn or swap what it holds first."
        ),
        parameters=operation_parameters("close_account"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say which account is closed, what came back, and the signature."""
    record = await context.close_account(mint=params["mint"])
    details = record.details
    what = f"the token account {details['account']} of {details['mint']}"
    back = f"{format_amount(details['reclaimed'])} SOL of rent"
    return tell(
        record,
        f"Closed {what}; {back} came back to the wallet.",
        f"the closing of {what}, which gives back {back}.",
    )
