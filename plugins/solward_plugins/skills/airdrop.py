"""airdrop: ask the test network's faucet for SOL."""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    SkillContext,
    SkillSpec,
    TransactionStatus,
    format_amount,
    hookimpl,
    operation_parameters,
)


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends nothing, but makes a transaction."""
    return SkillSpec(
        name="airdrop",
        description=(
            "Ask the development network's faucet for free test SOL. Consider it when the SOL"
            " balance is low. Not available on mainnet."
        ),
        parameters=operation_parameters("airdrop"),
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=({}, {"amount": 2}),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was received, or that it is still on its way."""
    record = await context.airdrop(amount=params["amount"])
    amount = format_amount(record.details["amount"])
    verb = "Received" if record.status is TransactionStatus.CONFIRMED else "Requested"
    return (
        f"{verb} an airdrop of {amount} SOL to {context.wallet.address}."
        f" Status: {record.status}. Signature: {record.signature}."
    )
