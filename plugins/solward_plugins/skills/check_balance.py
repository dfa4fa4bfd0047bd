"""check_balance: what the wallet holds."""

from __future__ import annotations

from solward import SkillContext, SkillSpec, TokenBalance, format_amount, format_sol, hookimpl

NO_TOKENS = "No token holdings."


@hookimpl
def skill_spec() -> SkillSpec:
    """Reads only."""
    return SkillSpec(
        name="check_balance",
        description=(
            "Read the wallet's SOL balance and token holdings. Use it before a swap or a transfer."
        ),
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        examples=({},),
    )


@hookimpl
async def skill_execute(context: SkillContext) -> str:
    """Wallet name and address, SOL with 4 decimals, a line per token."""
    balances = await context.balances()
    lines = [
        f"Wallet: {context.wallet.name} ({context.wallet.address})",
        f"SOL balance: {format_sol(balances.lamports, 4)} SOL",
    ]
    if not balances.tokens:
        return "\n".join([*lines, NO_TOKENS])
    return "\n".join([*lines, "Tokens:", *map(_line, balances.tokens)])


def _line(token: TokenBalance) -> str:
    symbol = f" ({token.symbol})" if token.symbol else ""
    return f"- {token.mint}{symbol}: {format_amount(token.ui)}, {token.decimals} decimals"
