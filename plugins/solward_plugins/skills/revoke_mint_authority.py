"""revoke_mint_authority: give up for ever the right to mint, or to freeze, a token."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, hookimpl, operation_parameters
from solward_plugins.wording import tell

_MEANS = {
    "mint": "Its supply is fixed for ever.",
    "freeze": "Nobody can freeze its holders' accounts any more.",
}


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee, and a right."""
    return SkillSpec(
        name="revoke_mint_authority",
        description=(
            "Give up for ever the wallet's right to mint more of a token, or with authorityType"
            " freeze its right to freeze holders' accounts. It cannot be undone."
        ),
        parameters=operation_parameters("revoke_authority"),
        effects=Effects.SPEND,
        timeout_s=120.0,
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say which right is gone, what that means, and the signature."""
    record = await context.revoke_authority(
        mint=params["mint"], authority_type=params["authorityType"]
    )
    kind = record.details["authorityType"]
    what = f"the {kind} authority of {record.details['mint']}"
    return tell(record, f"Revoked {what}. {_MEANS[kind]}", f"the revocation of {what}.")
