"""launch_token: create a token of the wallet's own."""

from __future__ import annotations

from typing import Any

from solward import Effects, SkillContext, SkillSpec, format_amount, hookimpl, operation_parameters
from solward_plugins.wording import tell


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the fee and the rent of two accounts."""
    return SkillSpec(
        name="launch_token",
        description=(
            "Create a new Token-2022 token, its name and symbol on chain, and mint the initial"
            " supply to the wallet, which stays its mint and freeze authority. Costs"
            " the rent of two accounts, which the network sets."
        ),
        parameters=operation_parameters("launch_token"),
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=({"name": "Example", "symbol": "EX", "decimals": 6, "initialSupply": 1000},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say the mint, which every later call needs, the account that holds it all, the signature."""
    record = await context.launch_token(
        name=params["name"],
        symbol=params["symbol"],
        decimals=params["decimals"],
        initial_supply=params["initialSupply"],
    )
    details = record.details
    what = (
        f"{details['name']} ({details['symbol']}). Mint: {details['mint']}."
        f" Decimals: {details['decimals']}. Supply: {format_amount(details['supply'])}, all in"
        f" the wallet's token account {details['account']}."
    )
    return tell(record, f"Launched {what}", f"the launch of {what}")
