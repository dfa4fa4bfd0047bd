"""What a sweep does: its steps, what the wallet's limits leave, how SOL is split to fit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solward.client import SolwardClient, Wallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.money import format_amount, format_sol, sol_to_lamports

# Lamports of a transfer by the engine: one signature, no priority fee.
FEE = 5_000
# Least balance of an account without data: (0 + 128) bytes of rent at 6,960 lamports. The ledger
# refuses a transaction that leaves less, unless it leaves nothing.
RENT_EXEMPT = 890_880
# Smaller parts are not sent: much of each would be its fee.
LEAST_PART = 100_000


@dataclass(frozen=True, slots=True)
class Headroom:
    """What the wallet's limits leave now; None is no limit. SOL in lamports, tokens in units."""

    per_tx: int | None
    today: int | None
    this_minute: int | None
    per_minute: int | None
    tokens: Mapping[str, int]
    frozen: bool

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Headroom:
        """From the response of `GET /wallets/:id/limits`."""
        minute = raw["maxTransactionsPerMinute"]
        return cls(
            per_tx=_lamports(raw["maxSolPerTransaction"]["limit"]),
            today=_lamports(raw["dailySpendingLimitSol"]["left"]),
            this_minute=minute["left"],
            per_minute=minute["limit"],
            tokens={mint: int(each["left"]) for mint, each in raw["dailyTokens"].items()},
            frozen=raw["frozen"],
        )


def next_part(balance: int, headroom: Headroom) -> int:
    """Lamports to send next of `balance`; 0 where the limits leave none, or none can be sent.

    The last part empties the wallet; those before it leave enough to pay for the next.
    """
    spendable = balance - FEE
    caps = [cap for cap in (headroom.per_tx, headroom.today) if cap is not None]
    if spendable < RENT_EXEMPT:
        return 0
    if not caps or spendable <= min(caps):
        return spendable
    part = min(*caps, spendable - FEE - RENT_EXEMPT)
    return part if part >= LEAST_PART else 0


async def plan(client: SolwardClient, wallet: Wallet) -> list[str]:
    """The steps of a sweep as the wallet is now, one line each, with what would stay."""
    balance = await client.wallets.balance(wallet.id, empty=True)
    headroom = Headroom.of(await client.wallets.limits(wallet.id))
    pockets = await client.wallets.pockets(wallet.id)
    lines = [f"empty    {describe_pocket(pocket)}, and send what comes home" for pocket in pockets]
    for stake in await client.wallets.stakes(wallet.id):
        verb = "withdraw" if stake.state == "inactive" else "stays:  "
        advice = "" if stake.state == "inactive" else f"; {stake_advice(stake.state)}"
        lines.append(f"{verb} stake {stake.address}, {stake.balance} SOL, {stake.state}{advice}")
    for token in balance.tokens:
        amount, name = format_amount(token.amount), token.symbol or token.mint
        if not token.units:
            lines.append(f"close    the empty account of {name}")
        elif token.mint == WRAPPED_SOL_MINT:
            lines.append(f"unwrap   {amount} SOL")
        else:
            limited = headroom.tokens.get(token.mint, token.units) < token.units
            limit = ", as far as TOKEN_LIMITS leaves room today" if limited else ""
            lines.append(f"send     {amount} {name}{limit}, and close its account")
    if balance.sol:
        lines.append(f"send     {format_amount(balance.sol)} SOL less fees{_limits_text(headroom)}")
    return lines


def _limits_text(headroom: Headroom) -> str:
    limits = []
    if headroom.per_tx is not None:
        limits.append(f"at most {format_sol(headroom.per_tx)} SOL at once")
    if headroom.today is not None:
        limits.append(f"{format_sol(headroom.today)} SOL more today")
    if headroom.per_minute is not None:
        limits.append(f"{headroom.per_minute} transactions a minute")
    return f" ({', '.join(limits)})" if limits else ""


def describe_pocket(pocket: Mapping[str, Any]) -> str:
    """One pocket of `GET /wallets/:id/pockets`, with what was put in and not taken home."""
    position = f" of position {pocket['position']}" if "position" in pocket else ""
    held = ", ".join(
        f"{format_sol(int(units))} SOL" if asset == "SOL" else f"{units} units of {asset}"
        for asset, units in pocket["atRisk"].items()
    )
    return f"pocket {pocket['address']}{position} (put in: {held or 'unknown'})"


def stake_advice(state: str) -> str:
    """What to do about a stake in this state."""
    if state == "deactivating":
        return "sweep again when it is inactive, at the end of the epoch"
    return "unstake it with solward wallet unstake, and sweep again when it is inactive"


def _lamports(sol: Any) -> int | None:
    if sol is None:
        return None
    return sol_to_lamports(sol) if sol else 0
