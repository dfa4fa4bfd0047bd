"""Moving everything a wallet holds to one address, by the service and within its guardrails.

Each step is decided by what the wallet holds at that moment, so a sweep that was interrupted is
continued by the next one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from solward.client import (
    BadRequest,
    Balance,
    RateLimited,
    Refused,
    SolwardClient,
    TokenBalance,
    Transaction,
    Wallet,
)
from solward.money import format_amount, format_sol, from_units, lamports_to_sol, sol_to_lamports
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_cli.wallet.sweep_limits import FEE, RENT_EXEMPT, Room, next_part

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


class _Again(Enum):
    """What to do after all that was refused for a reason that has passed."""

    AGAIN = "again"


_AGAIN = _Again.AGAIN


@dataclass(frozen=True, slots=True)
class Left:
    """What stays in the wallet, why, and what to do about it."""

    what: str
    why: str
    advice: str


@dataclass(slots=True)
class Sweep:
    """One sweep; `tell` is told each step, `left` gathers what stays."""

    client: SolwardClient
    wallet: Wallet
    to: str
    tell: Callable[[str], None]
    left: list[Left] = field(default_factory=list)
    sent: list[Transaction] = field(default_factory=list)
    _seen: Mapping[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        """Stakes that are inactive, wrapped SOL, tokens, empty accounts, then SOL."""
        await self._quiet()
        await self._stakes()
        await self._wrapped()
        await self._tokens()
        await self._empty_accounts()
        await self._sol()

    async def _quiet(self) -> None:
        """Wait for what an interrupted sweep, or anybody else, has on its way."""
        told = False
        while pending := [
            made
            for made in await self.client.wallets.transactions(self.wallet.id, limit=500)
            if made.status == "pending"
        ]:
            if not told:
                self.tell(f"waiting: {len(pending)} transactions of the wallet are on their way")
                told = True
            await asyncio.sleep(_POLL_S)

    async def _stakes(self) -> None:
        wallets = self.client.wallets
        await self._look()
        for stake in await wallets.stakes(self.wallet.id):
            what = f"stake {stake.address} ({format_amount(stake.balance)} SOL, {stake.state})"
            if stake.state == "inactive":
                await self._do(
                    f"withdraw {what}",
                    partial(wallets.withdraw_stake, self.wallet.id, stake_account=stake.address),
                )
            else:
                self.left.append(Left(what, "it is not inactive", unstaking(stake.state)))

    async def _wrapped(self) -> None:
        for token in (await self._look()).tokens:
            if token.mint == WRAPPED_SOL_MINT and token.units:
                await self._do(
                    f"unwrap {format_amount(token.amount)} SOL",
                    partial(self.client.wallets.unwrap_sol, self.wallet.id),
                )

    async def _tokens(self) -> None:
        done = {WRAPPED_SOL_MINT}
        while token := await self._next_token(done):
            name = token.symbol or token.mint
            units = min(token.units, (await self._room()).tokens.get(token.mint, token.units))
            if units:
                amount = from_units(units, token.decimals)
                send = partial(self.client.wallets.token_transfer, self.wallet.id, mint=token.mint)
                what = f"send {format_amount(amount)} {name}"
                if await self._do(what, partial(send, to=self.to, amount=amount)) is _AGAIN:
                    continue
            done.add(token.mint)
            if units < token.units:
                rest = format_amount(from_units(token.units - units, token.decimals))
                why = "TOKEN_LIMITS leaves no more of it today"
                self.left.append(Left(f"{rest} {name}", why, _ADVICE["daily_limit"]))

    async def _next_token(self, done: set[str]) -> TokenBalance | None:
        for token in (await self._look()).tokens:
            if token.units and token.mint not in done:
                return token
        return None

    async def _empty_accounts(self) -> None:
        refused: set[str] = set()
        while empty := [
            token.mint
            for token in (await self._look()).tokens
            if not token.units and token.mint not in refused
        ]:
            for mint in empty:
                closing = partial(self.client.wallets.close_account, self.wallet.id, mint=mint)
                if await self._do(f"close the empty account of {mint}", closing) is None:
                    refused.add(mint)

    async def _sol(self) -> None:
        while True:
            sol = (await self._look()).sol
            balance = sol_to_lamports(sol) if sol else 0
            part = next_part(balance, await self._room())
            if part == 0:
                break
            send = partial(self.client.wallets.transfer, self.wallet.id, to=self.to)
            made = await self._do(
                f"send {format_sol(part)} SOL", partial(send, amount=lamports_to_sol(part))
            )
            if made is None:
                return
        if balance:
            self.left.append(_held(balance, await self._room()))

    async def _do(
        self, what: str, make: Callable[[], Awaitable[Transaction]]
    ) -> Transaction | _Again | None:
        """Make one transaction once there is room for it.

        Returns:
            None where it is refused, or not decided yet, which `left` then tells; `_AGAIN` where
            it was refused because the wallet is not as it was: an interrupted sweep's last
            request had still been at work.
        """
        while True:
            await self._turn()
            self.tell(what)
            try:
                made = await make()
            except RateLimited as error:
                pause = error.retry_after_s or _DEFAULT_RETRY_S
                self.tell(f"waiting {pause:.0f} s: {error}")
                await asyncio.sleep(pause)
                continue
            except (BadRequest, Refused) as error:
                blocked = _BLOCKED.match(str(error))
                rule = blocked[1] if blocked else ""
                if rule == "rate_limit":
                    # Somebody else took the turn that was free a moment ago.
                    await asyncio.sleep(_POLL_S)
                    continue
                if self._seen != (await self._look()).raw:
                    return _AGAIN
                advice = _ADVICE.get(rule, f"mend it and sweep again, {_EXPORT}")
                self.left.append(Left(what, str(error), advice))
                return None
            self.sent.append(made)
            if made.status == "pending":
                why = "the ledger has not decided yet"
                self.left.append(Left(what, why, "sweep again in a minute"))
                return None
            return made

    async def _look(self) -> Balance:
        """What the wallet holds, by which the next step is decided."""
        held = await self.client.wallets.balance(self.wallet.id, empty=True)
        self._seen = held.raw
        return held

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


def unstaking(state: str) -> str:
    """What to do about a stake in this state."""
    if state == "deactivating":
        return "sweep again when it is inactive, at the end of the epoch"
    return "unstake it with solward wallet unstake, and sweep again when it is inactive"


def _held(balance: int, room: Room) -> Left:
    what = f"{format_sol(balance)} SOL"
    if balance < FEE + RENT_EXEMPT:
        why = f"an account pays a fee only where {format_sol(RENT_EXEMPT)} SOL stay"
        return Left(what, why, "send it 0.001 SOL and sweep again, or leave it")
    if room.today is not None and room.today < balance - FEE:
        why = f"daily_limit: {format_sol(room.today)} SOL may still be sent today"
        return Left(what, why, _ADVICE["daily_limit"])
    return Left(what, "max_per_tx leaves no part that the ledger takes", _ADVICE["max_per_tx"])
