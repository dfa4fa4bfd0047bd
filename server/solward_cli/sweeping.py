"""Moving everything a wallet holds to one address, by the service and within its guardrails.

Each step is decided by what the wallet holds at that moment, so a sweep that was interrupted is
continued by the next one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from solward.client import (
    BadRequest,
    RateLimited,
    Refused,
    SolwardClient,
    TokenBalance,
    Transaction,
    Wallet,
)
from solward.ledger.token_list import WRAPPED_SOL_MINT
from solward.money import format_sol, from_units, lamports_to_sol, sol_to_lamports

# One signature, and no priority fee: what the engine's own transfers cost.
FEE = 5_000
# The least an account without data may hold: (0 + 128) bytes of rent at 6,960 lamports. The ledger
# refuses to leave less than this, unless nothing is left.
RENT_EXEMPT = 890_880
# A part smaller than this is mostly fee; it waits for a limit that has room.
LEAST_PART = 100_000

_POLL_S = 1.0
_DEFAULT_RETRY_S = 5.0
_BLOCKED = re.compile(r"Transaction blocked by guardrail (\w+): ")
_EXPORT = "or take the key along: stop the service and run solward wallet export"
_ADVICE = {
    "max_per_tx": f"raise MAX_SOL_PER_TRANSACTION, {_EXPORT}",
    "daily_limit": "sweep again when the 24 hours are over, raise DAILY_SPENDING_LIMIT_SOL or"
    f" TOKEN_LIMITS, {_EXPORT}",
    "spending_limit_check": "sweep with the admin secret, or an API key that may spend more",
    "blocked_address": "choose another address, or take it out of BLOCKED_ADDRESSES",
    "freeze": "lift the freeze: solward unfreeze",
}


@dataclass(frozen=True, slots=True)
class Left:
    """What stays in the wallet, why, and what to do about it."""

    what: str
    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class Room:
    """What the wallet's limits leave at a moment; None is no limit. SOL in lamports, else units."""

    per_tx: int | None
    today: int | None
    this_minute: int | None
    per_minute: int | None
    tokens: Mapping[str, int]
    frozen: bool

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Room:
        """From the answer of `GET /wallets/:id/limits`."""
        minute = raw["maxTransactionsPerMinute"]
        return cls(
            per_tx=_lamports(raw["maxSolPerTransaction"]["limit"]),
            today=_lamports(raw["dailySpendingLimitSol"]["left"]),
            this_minute=minute["left"],
            per_minute=minute["limit"],
            tokens={mint: int(each["left"]) for mint, each in raw["dailyTokens"].items()},
            frozen=raw["frozen"],
        )


def next_part(balance: int, room: Room) -> int:
    """Lamports to send next of `balance`, 0 where no limit leaves room or nothing is worth it.

    The last part leaves exactly nothing; what stays before it is as much as an account may hold.
    """
    most = balance - FEE
    caps = [cap for cap in (room.per_tx, room.today) if cap is not None]
    if most <= 0 or not caps or most <= min(caps):
        return max(0, most)
    part = min(*caps, most - RENT_EXEMPT)
    return part if part >= LEAST_PART else 0


@dataclass(slots=True)
class Sweep:
    """One sweep; `tell` is told each step, `left` gathers what stays."""

    client: SolwardClient
    wallet: Wallet
    to: str
    tell: Callable[[str], None]
    left: list[Left] = field(default_factory=list)
    sent: list[Transaction] = field(default_factory=list)

    async def run(self) -> None:
        """Stakes that are inactive, wrapped SOL, tokens, empty accounts, then SOL."""
        await self._stakes()
        await self._wrapped()
        await self._tokens()
        await self._empty_accounts()
        await self._sol()

    async def _stakes(self) -> None:
        wallets = self.client.wallets
        for stake in await wallets.stakes(self.wallet.id):
            what = f"stake {stake.address} ({stake.balance} SOL, {stake.state})"
            if stake.state == "inactive":
                await self._do(
                    f"withdraw {what}",
                    partial(wallets.withdraw_stake, self.wallet.id, stake_account=stake.address),
                )
            else:
                self.left.append(Left(what, "it is not inactive", unstaking(stake.state)))

    async def _wrapped(self) -> None:
        for token in await self._holdings():
            if token.mint == WRAPPED_SOL_MINT and token.units:
                await self._do(
                    f"unwrap {token.amount} SOL",
                    partial(self.client.wallets.unwrap_sol, self.wallet.id),
                )

    async def _tokens(self) -> None:
        for token in await self._holdings():
            if not token.units or token.mint == WRAPPED_SOL_MINT:
                continue
            name = token.symbol or token.mint
            room = await self._room()
            units = min(token.units, room.tokens.get(token.mint, token.units))
            if units:
                amount = from_units(units, token.decimals)
                await self._do(
                    f"send {amount} {name}",
                    partial(
                        self.client.wallets.token_transfer,
                        self.wallet.id,
                        mint=token.mint,
                        to=self.to,
                        amount=amount,
                    ),
                )
            if units < token.units:
                rest = from_units(token.units - units, token.decimals)
                why = "TOKEN_LIMITS leaves no more of it today"
                self.left.append(Left(f"{rest} {name}", why, _ADVICE["daily_limit"]))

    async def _empty_accounts(self) -> None:
        refused: set[str] = set()
        while True:
            empty = [
                token.mint
                for token in await self._holdings()
                if not token.units and token.mint not in refused
            ]
            if not empty:
                return
            for mint in empty:
                closed = await self._do(
                    f"close the empty account of {mint}",
                    partial(self.client.wallets.close_account, self.wallet.id, mint=mint),
                )
                if closed is None:
                    refused.add(mint)

    async def _sol(self) -> None:
        while True:
            balance = await self._balance()
            part = next_part(balance, await self._room())
            if part == 0:
                break
            made = await self._do(
                f"send {format_sol(part)} SOL",
                partial(
                    self.client.wallets.transfer,
                    self.wallet.id,
                    to=self.to,
                    amount=lamports_to_sol(part),
                ),
            )
            if made is None or made.status != "confirmed":
                return
        if balance:
            self.left.append(_held(balance, await self._room()))

    async def _do(
        self, what: str, make: Callable[[], Awaitable[Transaction]]
    ) -> Transaction | None:
        """Make one transaction once there is room for it; None where it is refused."""
        while True:
            await self._turn()
            self.tell(what)
            try:
                made = await make()
            except RateLimited as error:
                pause = error.retry_after_s or _DEFAULT_RETRY_S
                self.tell(f"waiting {pause:.0f} s: {error}")
                await asyncio.sleep(pause)
            except BadRequest as error:
                self.left.append(Left(what, str(error), _EXPORT.removeprefix("or ")))
                return None
            except Refused as error:
                blocked = _BLOCKED.match(str(error))
                rule = blocked[1] if blocked else ""
                if rule == "rate_limit":
                    # Somebody else took the turn that was free a moment ago.
                    await asyncio.sleep(_POLL_S)
                    continue
                advice = _ADVICE.get(rule, f"mend it and sweep again, {_EXPORT}")
                self.left.append(Left(what, str(error), advice))
                return None
            else:
                self.sent.append(made)
                if made.status == "pending":
                    why = "the ledger has not decided yet"
                    self.left.append(Left(what, why, "sweep again in a minute"))
                return made

    async def _turn(self) -> None:
        """Wait until the rate limit leaves room for a transaction."""
        told = False
        while (room := await self._room()).this_minute == 0:
            if not told:
                self.tell(
                    f"waiting: {room.per_minute} transactions a minute are allowed"
                    " (MAX_TRANSACTIONS_PER_MINUTE)"
                )
                told = True
            await asyncio.sleep(_POLL_S)

    async def _room(self) -> Room:
        return Room.of(await self.client.wallets.limits(self.wallet.id))

    async def _balance(self) -> int:
        sol = (await self.client.wallets.balance(self.wallet.id)).sol
        return sol_to_lamports(sol) if sol else 0

    async def _holdings(self) -> tuple[TokenBalance, ...]:
        return (await self.client.wallets.balance(self.wallet.id, empty=True)).tokens


def unstaking(state: str) -> str:
    """What to do about a stake in this state."""
    if state == "deactivating":
        return "sweep again when it is inactive, at the end of the epoch"
    return "unstake it with solward wallet unstake, and sweep again when it is inactive"


def _held(balance: int, room: Room) -> Left:
    what = f"{format_sol(balance)} SOL"
    if balance <= FEE:
        return Left(what, "it is not more than the fee of a transfer", "leave it")
    if room.today is not None and room.today < balance - FEE:
        why = f"daily_limit: {format_sol(room.today)} SOL may still be sent today"
        return Left(what, why, _ADVICE["daily_limit"])
    return Left(what, "max_per_tx leaves no part that the ledger takes", _ADVICE["max_per_tx"])


def _lamports(sol: Any) -> int | None:
    if sol is None:
        return None
    return sol_to_lamports(sol) if sol else 0
