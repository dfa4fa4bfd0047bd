"""`solward wallet sweep`: everything a wallet holds goes to one address, within the guardrails.

Each step follows from the wallet's balance at that moment, so a second run continues one that was
interrupted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from solward.resources.wallets import Pocket, Stake, TokenBalance, WalletLimits
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import MOST_RENT_PER_BYTE, rent_of
from solward.types.errors import InvalidRequest
from solward.types.money import (
    amount_text,
    format_amount,
    format_sol,
    from_units,
    lamports_to_sol,
    sol_to_lamports,
)
from solward_cli.entrypoint import yes_option
from solward_cli.named import RECIPIENT, argument
from solward_cli.render import Output, plain, visible
from solward_cli.service_call import EXIT_FAILED, ServiceCall, confirmed, service_call

if TYPE_CHECKING:
    from solward.client import Balance, SolwardClient, Transaction, Wallet
    from solward.types.address_book import NamedAddress

_POLL_S = 1.0
_DEFAULT_RETRY_S = 5.0
_BLOCKED = re.compile(r"Transaction blocked by guardrail (\w+): ")
_EXPORT = "or move the key itself: stop the service and run solward wallet export"
_ADVICE = {
    "max_per_tx": f"raise MAX_SOL_PER_TRANSACTION or the wallet's ceiling, {_EXPORT}",
    "daily_limit": "sweep again when the 24 hours are over, raise DAILY_SPENDING_LIMIT_SOL,"
    f" TOKEN_LIMITS or the wallet's ceiling, {_EXPORT}",
    "spending_limit_check": "sweep with the admin secret, or an API key that may spend more",
    "costs_limit": "sweep again when the 24 hours are over, raise MAX_COSTS_SOL_PER_DAY"
    f" or the wallet's ceiling, {_EXPORT}",
    "blocked_address": "choose another address, or remove this one from BLOCKED_ADDRESSES",
    "freeze": "lift the freeze: solward unfreeze",
}

# The fee of a transfer in lamports: one signature, no priority fee.
FEE = 5_000
# The ledger refuses a transaction that leaves an account less than its rent, unless it leaves
# nothing, or whose payer holds less when the fee is taken. No cluster asks for more than this.
MOST_RENT = rent_of(0, MOST_RENT_PER_BYTE)
# Smaller parts are not sent: much of each would be its fee.
LEAST_PART = 100_000


# The result of a step that made no transaction, because the wallet had changed.
_RETRY = "retry"
# Advice for a wallet that holds too little to pay a fee.
_MORE = "send the wallet 0.001 SOL and sweep again, or leave the rest"


@click.command()
@argument("wallet")
@click.argument("to", type=RECIPIENT)
@click.option("--dry-run", is_flag=True, help="Show what would be moved; move nothing.")
@yes_option
@service_call
async def sweep(
    call: ServiceCall, wallet: Wallet, to: NamedAddress, dry_run: bool, yes: bool
) -> Output:
    """Send everything that WALLET holds to TO, within the limits.

    Empties the wallet's pockets, withdraws inactive stakes, unwraps SOL, sends every token, closes
    the emptied accounts, and then sends all SOL but the fees, in as many transfers as the limits
    require; it waits for the rate limit. What a limit keeps back is listed with advice. If
    the sweep is interrupted, run it again.
    """
    from solders.pubkey import Pubkey

    try:
        Pubkey.from_string(to.address)
    except ValueError:
        raise InvalidRequest(f"TO must be a base58 Solana address; {to.address!r} is not") from None
    if to.address == wallet.address:
        raise InvalidRequest("TO is this wallet itself")
    await check_idle(call, wallet)
    steps = await list_steps(call.client, wallet)
    if dry_run:
        call.set_json({"dryRun": True, "to": to.address, "steps": steps})
        text = "\n".join((*steps, f"Recipient: {to.address}. Nothing was sent."))
        return plain(text if steps else "The wallet holds nothing.", lines=True)

    def print_step(step: str) -> None:
        click.echo(visible(step), err=True)

    if steps:
        for step in steps:
            print_step(step)
        confirmed(f"Send all of this from {visible(wallet.name)} to {to.address}?", yes)
    run = Sweep(call.client, wallet, to.address, print_step)
    await run.run()
    # Emptying a pocket may take several transactions, so its record has no signature.
    signatures = [record.signature for record in run.sent if record.signature is not None]
    left = [asdict(each) for each in run.left]
    call.set_json({"to": run.to, "signatures": signatures, "left": left})
    count = len(run.sent)
    transactions = "1 transaction" if count == 1 else f"{count} transactions"
    lines = [f"{transactions}, to {run.to}." if count else "Nothing was moved."]
    if not run.left:
        return plain(lines[0] if count else "The wallet holds nothing.")
    call.exit_code = EXIT_FAILED
    lines.append("Not moved:")
    for each in run.left:
        lines += [f"- {each.what}", f"    {each.why}", f"    {each.advice}"]
    return plain("\n".join(lines), lines=True)


async def check_idle(call: ServiceCall, wallet: Wallet) -> None:
    """Raise `InvalidRequest` while an agent or a schedule runs on the wallet, or it is frozen."""
    for agent in await call.client.agents.list():
        # An agent in `error` goes on with its cycles.
        if agent.wallet_id == wallet.id and agent.status in ("running", "error"):
            raise InvalidRequest(
                f"The agent {agent.name} runs on this wallet; stop it first: solward agent stop"
                f" {agent.id}"
            )
    for schedule in await call.client.schedules.list(wallet.id):
        if schedule.status == "active":
            raise InvalidRequest(
                f"The schedule {schedule.name} runs on this wallet; pause it first: solward"
                f" schedule pause {wallet.id} {schedule.id}"
            )
    if (await _read_limits(call.client, wallet)).frozen:
        raise InvalidRequest("Transactions of this wallet are frozen; first: solward unfreeze")


@dataclass(frozen=True, slots=True)
class Remainder:
    """An asset that stays in the wallet, with the reason and advice."""

    what: str
    why: str
    advice: str


@dataclass(slots=True)
class Sweep:
    """A sweep of one wallet, and its results.

    Attributes:
        print_step: called with each step, as text.
        left: what stays in the wallet.
        sent: the transactions that were made.
    """

    client: SolwardClient
    wallet: Wallet
    to: str
    print_step: Callable[[str], None]
    left: list[Remainder] = field(default_factory=list)
    sent: list[Transaction] = field(default_factory=list)
    _last_balance: Mapping[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        """Empty pockets, withdraw stakes, unwrap SOL, send tokens, close accounts, send SOL."""
        await self._wait_while(self._pending_reason)
        await self._empty_pockets()
        await self._withdraw_stakes()
        await self._unwrap_sol()
        await self._send_tokens()
        await self._close_accounts()
        await self._send_sol()

    async def _wait_while(self, reason: Callable[[], Awaitable[str | None]]) -> None:
        """Wait while `reason` returns a reason, and print the reason once."""
        printed = False
        while (why := await reason()) is not None:
            if not printed:
                self.print_step(f"waiting: {why}")
                printed = True
            await asyncio.sleep(_POLL_S)

    async def _pending_reason(self) -> str | None:
        records = await self.client.wallets.transactions(self.wallet.id, limit=500)
        pending = sum(record.status == "pending" for record in records)
        return f"{pending} transactions of the wallet are pending" if pending else None

    async def _rate_limit_reason(self) -> str | None:
        minute = (await _read_limits(self.client, self.wallet)).max_transactions_per_minute
        allowed = f"{minute.limit} transactions a minute are allowed"
        return f"{allowed} (MAX_TRANSACTIONS_PER_MINUTE)" if minute.left == 0 else None

    async def _empty_pockets(self) -> None:
        """Move the pockets' assets to the wallet, so that the rest of the sweep sends them."""
        from solward.client import NotFoundError, Unauthorized

        wallets = self.client.wallets
        await self._balance()
        for pocket in (await wallets.pockets(self.wallet.id)).pockets:
            what = describe_pocket(pocket)
            step = f"empty {what}"
            try:
                if await self._transact(step, wallets.sweep_pocket, pocket.address) is _RETRY:
                    # It was refused after the wallet had paid for some transactions of it.
                    self._report(what, "the pocket still holds a part", f"sweep again, {_EXPORT}")
            except NotFoundError:
                continue  # The last request of an interrupted sweep has emptied it meanwhile.
            except Unauthorized as error:
                self._report(what, str(error), "sweep with the admin secret")

    async def _withdraw_stakes(self) -> None:
        wallets = self.client.wallets
        await self._balance()
        for stake in (await wallets.stakes(self.wallet.id)).stakes:
            state = f"{format_amount(stake.balance)} SOL, {stake.shown_state}"
            what = f"stake {stake.address} ({state})"
            if stake.can_be_withdrawn:
                withdraw = wallets.withdraw_stake
                await self._transact(f"withdraw {what}", withdraw, stake_account=stake.address)
            else:
                reason = "it is locked" if stake.locked else "it is not inactive yet"
                self._report(what, reason, stake_advice(stake))

    async def _unwrap_sol(self) -> None:
        for token in (await self._balance()).tokens:
            if token.mint == WRAPPED_SOL_MINT and token.units:
                step = f"unwrap {format_amount(token.amount)} SOL"
                await self._transact(step, self.client.wallets.unwrap_sol)

    async def _send_tokens(self) -> None:
        done = {WRAPPED_SOL_MINT}
        send = self.client.wallets.transfer_token
        while held := [
            token
            for token in (await self._balance()).tokens
            if token.units and token.mint not in done
        ]:
            token = held[0]
            name = token.symbol or token.mint
            units = _sendable_units(await _read_limits(self.client, self.wallet), token)
            if units:
                amount = from_units(units, token.decimals)
                step = f"send {format_amount(amount)} {name}"
                fields: dict[str, Any] = {"mint": token.mint, "to": self.to, "amount": amount}
                if await self._transact(step, send, **fields) is _RETRY:
                    continue
            done.add(token.mint)
            if units < token.units:
                rest = amount_text(token.units - units, token.decimals)
                why = "TOKEN_LIMITS allows no more of this token today"
                self._report(f"{rest} {name}", why, _ADVICE["daily_limit"])

    async def _close_accounts(self) -> None:
        refused: set[str] = set()
        close = self.client.wallets.close_account
        while empty := [
            token.mint
            for token in (await self._balance()).tokens
            if not token.units and token.mint not in refused
        ]:
            for mint in empty:
                step = f"close the empty account of {mint}"
                if await self._transact(step, close, mint=mint) is None:
                    refused.add(mint)

    async def _send_sol(self) -> None:
        while True:
            sol = (await self._balance()).sol
            balance = sol_to_lamports(sol) if sol else 0
            part = next_part(balance, *_sol_limits(await _read_limits(self.client, self.wallet)))
            if part == 0:
                break
            record = await self._transact(
                f"send {format_sol(part)} SOL",
                self.client.wallets.transfer,
                advice=_MORE if part < MOST_RENT else None,
                to=self.to,
                amount=lamports_to_sol(part),
            )
            if record is None:
                return
        if balance:
            _, today = _sol_limits(await _read_limits(self.client, self.wallet))
            self.left.append(_sol_remainder(balance, today))

    def _report(self, what: str, why: str, advice: str) -> None:
        self.left.append(Remainder(what, why, advice))

    async def _transact(
        self,
        what: str,
        make: Callable[..., Awaitable[Transaction]],
        *given: Any,
        advice: str | None = None,
        **fields: Any,
    ) -> Transaction | str | None:
        """Make one transaction of the wallet once the rate limit has room.

        Args:
            advice: what to do if it is refused for a reason that `_ADVICE` does not have.

        Returns:
            None if it is refused or still pending, recorded in `left`; `_RETRY` if it was
            refused because the wallet has changed: an interrupted sweep's last request was still
            running.
        """
        from solward.client import BadRequest, RateLimited, Refused

        while True:
            await self._wait_while(self._rate_limit_reason)
            self.print_step(what)
            try:
                record = await make(self.wallet.id, *given, **fields)
            except RateLimited as error:
                pause = error.retry_after_s or _DEFAULT_RETRY_S
                self.print_step(f"waiting {pause:.0f} s: {error}")
                await asyncio.sleep(pause)
                continue
            except (BadRequest, Refused) as error:
                blocked = _BLOCKED.match(str(error))
                rule = blocked[1] if blocked else ""
                if rule == "rate_limit":
                    # Another client used the room that was left a moment ago.
                    await asyncio.sleep(_POLL_S)
                    continue
                if self._last_balance != (await self._balance()).raw:
                    return _RETRY
                other = advice or f"mend this and sweep again, {_EXPORT}"
                self._report(what, str(error), _ADVICE.get(rule, other))
                return None
            self.sent.append(record)
            if record.status == "pending":
                self._report(what, "the ledger has not decided yet", "sweep again in a minute")
                return None
            return record

    async def _balance(self) -> Balance:
        """Read the wallet's present balance, on which the next step depends."""
        balance = await self.client.wallets.balance(self.wallet.id, empty=True)
        self._last_balance = balance.raw
        return balance


async def _read_limits(client: SolwardClient, wallet: Wallet) -> WalletLimits:
    return WalletLimits.of(await client.wallets.limits(wallet.id))


def _sol_limits(limits: WalletLimits) -> tuple[int | None, int | None]:
    """Return the maximum lamports for one transaction and for today; None is no limit."""
    at_once, today = (
        None if sol is None else sol_to_lamports(sol) if sol else 0
        for sol in (limits.max_sol, limits.daily_spending_limit_sol.left)
    )
    return at_once, today


def _sendable_units(limits: WalletLimits, token: TokenBalance) -> int:
    """Return how many units of a token may leave today."""
    limit = limits.daily_tokens.get(token.mint)
    return token.units if limit is None else min(token.units, int(limit["left"]))


def _sol_remainder(balance: int, today: int | None) -> Remainder:
    what = f"{format_sol(balance)} SOL"
    if balance <= FEE:
        return Remainder(what, "it does not exceed the network's fee", _MORE)
    if today is not None and today < balance - FEE:
        why = f"daily_limit: {format_sol(today)} SOL may still be sent today"
        return Remainder(what, why, _ADVICE["daily_limit"])
    return Remainder(what, "max_per_tx allows no part that can be sent", _ADVICE["max_per_tx"])


def next_part(balance: int, at_once: int | None, today: int | None) -> int:
    """Return the lamports to send next; 0 if the limits leave none, or none can be sent.

    The last part empties the wallet; those before it leave enough to pay for the next. Whether a
    last one below `MOST_RENT` can be sent depends on the cluster's rent.
    """
    spendable = balance - FEE
    caps = [cap for cap in (at_once, today) if cap is not None]
    if spendable <= 0:
        return 0
    if not caps or spendable <= min(caps):
        return spendable
    part = min(*caps, spendable - FEE - MOST_RENT)
    return part if part >= LEAST_PART else 0


async def list_steps(client: SolwardClient, wallet: Wallet) -> list[str]:
    """List a sweep's steps for the wallet's present state, and the stakes that stay, as lines."""
    balance = await client.wallets.balance(wallet.id, empty=True)
    limits = await _read_limits(client, wallet)
    pockets = (await client.wallets.pockets(wallet.id)).pockets
    lines = [f"empty    {describe_pocket(pocket)}, and send its assets" for pocket in pockets]
    for stake in (await client.wallets.stakes(wallet.id)).stakes:
        verb = "withdraw" if stake.can_be_withdrawn else "stays:  "
        advice = "" if stake.can_be_withdrawn else f"; {stake_advice(stake)}"
        said = f"{stake.balance} SOL, {stake.shown_state}"
        lines.append(f"{verb} stake {stake.address}, {said}{advice}")
    for token in balance.tokens:
        amount, name = format_amount(token.amount), token.symbol or token.mint
        if not token.units:
            lines.append(f"close    the empty account of {name}")
        elif token.mint == WRAPPED_SOL_MINT:
            lines.append(f"unwrap   {amount} SOL")
        else:
            limited = _sendable_units(limits, token) < token.units
            limit = ", as far as TOKEN_LIMITS leaves room today" if limited else ""
            lines.append(f"send     {amount} {name}{limit}, and close its account")
    if balance.sol:
        lines.append(f"send     {format_amount(balance.sol)} SOL less fees{_limits_text(limits)}")
    return lines


def _limits_text(limits: WalletLimits) -> str:
    at_once, today = _sol_limits(limits)
    minute = limits.max_transactions_per_minute.limit
    said = []
    if at_once is not None:
        said.append(f"at most {format_sol(at_once)} SOL at once")
    if today is not None:
        said.append(f"{format_sol(today)} SOL more today")
    if minute is not None:
        said.append(f"{minute} transactions a minute")
    return f" ({', '.join(said)})" if said else ""


def describe_pocket(pocket: Pocket) -> str:
    """Describe a pocket of `GET /wallets/:id/pockets`, with the amounts that are still in it."""
    position = f" of position {pocket.position}" if pocket.position is not None else ""
    held = ", ".join(
        f"{format_sol(int(units))} SOL" if asset == "SOL" else f"{units} units of {asset}"
        for asset, units in pocket.at_risk.items()
    )
    return f"pocket {pocket.address}{position} (put in: {held or 'unknown'})"


def stake_advice(stake: Stake) -> str:
    """Say what to do about a stake that cannot be withdrawn."""
    if stake.locked and stake.state == "inactive":
        return "sweep again when its lockup has ended"
    if stake.state == "deactivating":
        return "sweep again when it is inactive, at the end of the epoch"
    return "unstake it with solward wallet unstake, and sweep again when it is inactive"
