"""The built-in skills without transactions: three read the wallet and the ledger, one waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward import (
    WRAPPED_SOL_MINT,
    Mint,
    SkillContext,
    SkillSpec,
    Stake,
    StakeState,
    TokenBalance,
    format_amount,
    format_sol,
    from_units,
    hookimpl,
    read_mint,
)

NO_TOKENS = "No token holdings."

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
_NEXT_STEPS = {
    StakeState.ACTIVATING: "active from the next epoch; unstake_sol deactivates it",
    StakeState.ACTIVE: "unstake_sol deactivates it",
    StakeState.DEACTIVATING: "wait until it is inactive, usually at the end of the epoch",
    StakeState.INACTIVE: "withdraw_stake brings it back to the wallet",
}


@dataclass(frozen=True, slots=True, eq=False)
class ReadingSkill:
    """A skill that only reads: its declaration, and the function that returns its outcome."""

    spec: SkillSpec
    outcome: Callable[[Mapping[str, Any], SkillContext], Awaitable[str]]

    @hookimpl
    def skill_spec(self) -> SkillSpec:
        """Return the skill's declaration."""
        return self.spec

    @hookimpl
    async def skill_execute(self, params: dict[str, Any], context: SkillContext) -> str:
        """Run the skill and return its outcome."""
        return await self.outcome(params, context)


async def _list_balances(_params: Mapping[str, Any], context: SkillContext) -> str:
    """List the wallet's name and address, its SOL with 4 decimals, and a line for each token."""
    balances = await context.balances()
    lines = [
        f"Wallet: {context.wallet.name} ({context.wallet.address})",
        f"SOL balance: {format_sol(balances.lamports, 4)} SOL",
    ]
    if not balances.tokens:
        return "\n".join([*lines, NO_TOKENS])
    return "\n".join([*lines, "Tokens:", *map(_holding_line, balances.tokens)])


def _holding_line(token: TokenBalance) -> str:
    symbol = f" ({token.symbol})" if token.symbol else ""
    return f"- {token.mint}{symbol}: {format_amount(token.ui)}, {token.decimals} decimals"


async def _list_stakes(_params: Mapping[str, Any], context: SkillContext) -> str:
    stakes = await context.stakes()
    if not stakes:
        return "The wallet has no stake accounts. stake_sol makes one."
    lines = [
        f"- {stake.address}: {format_sol(stake.lamports)} SOL, {stake.state}"
        f" ({_next_step(stake, context.wallet.address)})"
        for stake in stakes
    ]
    return "\n".join(["Stake accounts:", *lines])


def _next_step(stake: Stake, wallet: str) -> str:
    is_inactive = stake.state is StakeState.INACTIVE
    if (stake.withdrawer if is_inactive else stake.staker) != wallet:
        return "under another's authority"
    if is_inactive and stake.is_locked:
        return "locked: it cannot be withdrawn yet"
    return _NEXT_STEPS[stake.state]


async def _describe_token(params: Mapping[str, Any], context: SkillContext) -> str:
    address = context.tokens.resolve(params["token"], "token")
    mint = await read_mint(context.ledger, address, "token")
    balances = await context.balances()
    held = [token.ui for token in balances.tokens if token.mint == address]
    lines = [
        f"Token: {_token_title(mint, context)}",
        f"Mint: {mint.address}",
        f"Program: {mint.program_name}",
        f"Decimals: {mint.decimals}",
        f"Supply: {format_amount(from_units(mint.supply, mint.decimals))}",
        f"Mint authority: {mint.mint_authority or 'none (the supply is fixed)'}",
        f"Freeze authority: {mint.freeze_authority or 'none'}",
        f"Wallet holds: {format_amount(sum(held, Decimal(0)))}",
    ]
    if address == WRAPPED_SOL_MINT:
        sol = format_sol(balances.lamports, 4)
        lines.append(f"This is wrapped SOL; natively the wallet has {sol} SOL.")
    return "\n".join(lines)


def _token_title(mint: Mint, context: SkillContext) -> str:
    listed = context.tokens.symbol_of(mint.address)
    if listed is not None:
        return listed
    if mint.symbol is None:
        return "unknown symbol"
    # Anybody can write any symbol into a mint's own metadata.
    title = f"calls itself {mint.symbol}" + (f" ({mint.name})" if mint.name else "")
    real = context.tokens.alike(mint.symbol)
    if real is None:
        return title
    return f"{title}, and is NOT {real.symbol}, whose mint is {real.mint}"


async def _waiting_reason(params: Mapping[str, Any], _context: SkillContext) -> str:
    """Return the given reason as the outcome, so that the agent's memory has it."""
    reason = params.get("reason", "").strip()
    return f"Waited: {reason}" if reason else "Waited: no action this cycle."


CHECK_BALANCE = ReadingSkill(
    SkillSpec(
        name="check_balance",
        description=(
            "Read the wallet's SOL balance and token holdings. Use it before a swap or a transfer."
        ),
        parameters=_NO_PARAMETERS,
        examples=({},),
    ),
    _list_balances,
)

LIST_STAKES = ReadingSkill(
    SkillSpec(
        name="list_stakes",
        description=(
            "List the wallet's stake accounts: address, SOL balance, state (activating, active,"
            " deactivating or inactive), and what can be done with each."
        ),
        parameters=_NO_PARAMETERS,
        examples=({},),
    ),
    _list_stakes,
)

TOKEN_INFO = ReadingSkill(
    SkillSpec(
        name="token_info",
        description=(
            "Look a token up on the ledger: its program, decimals, supply, who may mint or freeze"
            " it, and what the wallet holds of it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "token": {
                    "type": "string",
                    "description": "Mint address, or a symbol known on this network such as USDC.",
                    "minLength": 1,
                    "maxLength": 64,
                },
            },
            "required": ["token"],
            "additionalProperties": False,
        },
        examples=({"token": "USDC"},),
    ),
    _describe_token,
)

WAIT = ReadingSkill(
    SkillSpec(
        name="wait",
        description="Do nothing this cycle. Use it when no action is clearly better than waiting.",
        parameters={
            "type": "object",
            "properties": {
                "reason": {
                    "type": "string",
                    "description": "Why waiting is best now.",
                    "maxLength": 1000,
                },
            },
            "additionalProperties": False,
        },
        timeout_s=5.0,
        examples=({}, {"reason": "The price is falling."}),
    ),
    _waiting_reason,
)
