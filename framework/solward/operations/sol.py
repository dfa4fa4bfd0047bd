"""Plans for SOL: transfers, airdrops, wrapping and unwrapping, and reclaiming the rent of token
accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from solders.compute_budget import set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from solward.operations.declared import (
    AIRDROP,
    MAX_AIRDROP_SOL,
    MOST_AT_ONCE,
    RECLAIM_RENT,
    TRANSFER,
    UNWRAP_SOL,
    WRAP_SOL,
)
from solward.operations.plans import plans
from solward.resources import wallets
from solward.resources.declare import answer_json
from solward.solana.builders import close_account, open_associated, pay, sync_native
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.protocol import LAMPORTS_PER_SIGNATURE, Token
from solward.solana.tokens import (
    TOKEN_ACCOUNT_RENT,
    Mint,
    TokenAccount,
    associated_address,
    mint_account,
    read_extensions,
    token_account,
)
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import Account, ReadLedger
from solward.types.money import LAMPORTS_PER_SOL, lamports_to_sol, sol_to_lamports
from solward.types.record import TransactionType
from solward.vault.money.request import Draft


def parse_address(value: object, field: str) -> Pubkey:
    """Return a caller's base58 address; raises `InvalidRequest` naming `field`."""
    if isinstance(value, str):
        try:
            return Pubkey.from_string(value)
        except ValueError:
            pass
    raise InvalidRequest(f"{field} must be a base58 Solana address")


@plans(TRANSFER)
def plan_transfer(wallet: str, *, to: str, amount: Decimal | int) -> Draft:
    """Declare and build a SOL transfer; raises `InvalidRequest` on a bad `to` or `amount`."""
    recipient = parse_address(to, "to")
    lamports = sol_to_lamports(amount, "amount")
    intent = Intent(
        type=TransactionType.TRANSFER,
        wallet=wallet,
        lamports_out=lamports,
        destinations=frozenset({str(recipient)}),
        details={"from": wallet, "to": str(recipient), "amount": lamports_to_sol(lamports)},
    )
    return Draft(intent, (pay(wallet, str(recipient), lamports),))


@plans(AIRDROP)
def plan_airdrop(wallet: str, network: str, *, amount: Decimal | int) -> tuple[Intent, int]:
    """Return the intent and the lamports of an airdrop from the faucet.

    Raises:
        InvalidRequest: `amount` is invalid or too large, or the network has no faucet.
    """
    if network == "mainnet-beta":
        raise InvalidRequest("airdrop is available on devnet, testnet and localnet only")
    lamports = sol_to_lamports(amount, "amount")
    if lamports > MAX_AIRDROP_SOL * LAMPORTS_PER_SOL:
        raise InvalidRequest(f"amount must be at most {MAX_AIRDROP_SOL} SOL for an airdrop")
    details = {"to": wallet, "amount": lamports_to_sol(lamports)}
    return Intent(type=TransactionType.AIRDROP, wallet=wallet, details=details), lamports


@plans(WRAP_SOL)
async def plan_wrap_sol(wallet: str, *, ledger: ReadLedger, amount: Decimal | int) -> Draft:
    """Add `amount` SOL to the wallet's wrapped SOL account, which is opened if missing.

    The idempotent create instruction is added even if the account exists, because it checks that
    the wallet still owns it.

    Raises:
        InvalidRequest: `amount` is invalid.
        LedgerError: the ledger did not answer.
    """
    lamports = sol_to_lamports(amount, "amount")
    account = associated_address(wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM)
    existing = await ledger.account(account)
    # Lamports that were sent to the address earlier do not open it.
    is_open = existing is not None and existing.owner == TOKEN_PROGRAM
    rent = 0 if is_open else TOKEN_ACCOUNT_RENT
    intent = Intent(
        type=TransactionType.WRAP_SOL,
        wallet=wallet,
        lamports_out=lamports,
        rent_lamports=rent,
        details={"amount": lamports_to_sol(lamports), "account": account},
    )
    return Draft(
        intent,
        (
            open_associated(wallet, wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM),
            pay(wallet, account, lamports),
            sync_native(account, TOKEN_PROGRAM),
        ),
    )


@plans(UNWRAP_SOL)
async def plan_unwrap_sol(wallet: str, *, ledger: ReadLedger) -> Draft:
    """Close the wallet's wrapped SOL account; its wrapped SOL and its rent become SOL again.

    Raises:
        InvalidRequest: there is no such account, or it is empty.
        LedgerError: the ledger did not answer.
    """
    account = associated_address(wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM)
    holdings = await ledger.holdings(wallet)
    units = next((each.units for each in holdings if each.account == account), None)
    if units is None:
        raise InvalidRequest("There is nothing to unwrap: the wallet has no wrapped SOL account")
    if units == 0:
        raise InvalidRequest(
            "There is nothing to unwrap: the wallet's wrapped SOL account is empty; closing the"
            f" token account of {WRAPPED_SOL_MINT} gives its rent back"
        )
    state = await ledger.account(account)
    held = state.lamports if state is not None else units
    intent = Intent(
        type=TransactionType.UNWRAP_SOL,
        wallet=wallet,
        may_close=frozenset({account}),
        details={
            "amount": lamports_to_sol(units),
            "account": account,
            "reclaimed": lamports_to_sol(max(0, held - units)),
        },
    )
    return Draft(intent, (close_account(account, TOKEN_PROGRAM, wallet, wallet),))


# Extensions that do not prevent closing a Token-2022 account: immutable owner, required memos, CPI
# guard, non-transferable tokens, hook, pause. Withheld fees are checked separately.
_CLOSE_WITH_IT: Final = frozenset({7, 8, 11, 13, 15, 27})
_WITHHELD_FEES: Final = 2
_DEFAULT_STATE: Final = 6
_FROZEN: Final = b"\x02"


@dataclass(frozen=True, slots=True)
class RentHeld:
    """The rent to reclaim from a token account: all of it if `closes`, else the excess."""

    account: str
    mint: str
    program: str
    lamports: int
    closes: bool

    @property
    def sol(self) -> Decimal:
        """`lamports` in SOL."""
        return lamports_to_sol(self.lamports)


@dataclass(frozen=True, slots=True)
class RentKept:
    """A token account whose rent cannot be reclaimed, and the reason."""

    account: str
    mint: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReclaimableRent:
    """The rent to reclaim from a wallet's token accounts, largest first, and the other accounts."""

    accounts: tuple[RentHeld, ...]
    kept: tuple[RentKept, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the answer of `GET /wallets/:id/reclaimable`."""
        return {
            "reclaimable": lamports_to_sol(sum(each.lamports for each in self.accounts)),
            "accounts": [answer_json(wallets.RentHeld, each) for each in self.accounts],
            "kept": [answer_json(wallets.RentKept, each) for each in self.kept],
        }


async def read_reclaimable(ledger: ReadLedger, wallet: str) -> ReclaimableRent:
    """Read the rent that can be reclaimed from a wallet's token accounts; raises `LedgerError`."""
    holdings = {each.account: each for each in await ledger.holdings(wallet)}
    mints = {each.mint for each in holdings.values()}
    states = await ledger.accounts([*holdings, *sorted(mints - holdings.keys())])
    sizes = sorted({len(state.data) for a in holdings if (state := states[a]) is not None})
    rents = await asyncio.gather(*(ledger.rent_exempt_minimum(size) for size in sizes))
    least = dict(zip(sizes, rents, strict=True))
    found: list[RentHeld] = []
    kept: list[RentKept] = []
    for address, holding in holdings.items():
        state = states[address]
        held = token_account(state, strict=True)
        # The account may have been closed meanwhile, or have another owner.
        if state is None or held is None or held.owner != wallet:
            continue
        is_native = held.rent_reserve is not None
        excess = 0 if is_native else state.lamports - least[len(state.data)]
        why = _why_open(held, state, mint_account(held.mint, states[held.mint]), wallet)
        if held.amount == 0 and why is None:
            found.append(RentHeld(address, held.mint, holding.program, state.lamports, closes=True))
            continue
        if held.amount == 0 and why is not None:
            kept.append(RentKept(address, held.mint, why))
        elif (held.rent_reserve or 0) > least[len(state.data)]:
            kept.append(
                RentKept(address, held.mint, "wrapped SOL gives its rent back when it is unwrapped")
            )
        if excess > 0:
            found.append(RentHeld(address, held.mint, holding.program, excess, closes=False))
    found.sort(key=lambda each: (-each.lamports, each.account))
    return ReclaimableRent(tuple(found), tuple(sorted(kept, key=lambda each: each.account)))


def _why_open(held: TokenAccount, state: Account, mint: Mint | None, wallet: str) -> str | None:
    """Return why an empty account of the wallet must stay open; None if it may be closed."""
    if held.close_authority not in (None, wallet):
        return f"only {held.close_authority} may close the account"
    if mint is not None and not held.is_frozen:
        defaults = zip(mint.extensions, mint.extension_values, strict=True)
        if (_DEFAULT_STATE, _FROZEN) in defaults:
            return "its mint freezes every new account, and this account was thawed"
    for kind, value in read_extensions(state.data):
        if kind == _WITHHELD_FEES:
            if any(value):
                return "the account holds transfer fees that were withheld for the mint"
        elif kind not in _CLOSE_WITH_IT:
            return f"the account has extension {kind}, with which it may not be closable"
    return None


@plans(RECLAIM_RENT)
async def plan_reclaim_rent(wallet: str, *, ledger: ReadLedger, take: str) -> Draft:
    """Take back as much rent as fits into one transaction, the largest amounts first.

    Raises:
        InvalidRequest: there is no rent to reclaim, or no more than the network's fee.
        LedgerError: the ledger did not answer.
    """
    found = await read_reclaimable(ledger, wallet)
    wanted = [each for each in found.accounts if take in ("all", _TAKEN[each.closes])]
    taken = wanted[:MOST_AT_ONCE]
    total = sum(each.lamports for each in taken)
    if total <= LAMPORTS_PER_SIGNATURE:
        few = f" beyond the network's fee, only {total} lamports" if total else ""
        kept = "".join(f"; {each.account} stays: {each.reason}" for each in found.kept[:3])
        raise InvalidRequest(f"There is no rent to reclaim{few}{kept}")
    draft = _reclaim_draft(wallet, taken, len(wanted) - len(taken))
    # A cluster with an older SPL Token program cannot withdraw the excess rent of its accounts.
    known = [each for each in wanted if each.closes or each.program != TOKEN_PROGRAM]
    if not known or len(known) == len(wanted):
        return draft
    otherwise = _reclaim_draft(wallet, known[:MOST_AT_ONCE], len(known[MOST_AT_ONCE:]))
    return Draft(draft.intent, draft.instructions, otherwise=otherwise)


# `closes` -> the value of `take`.
_TAKEN: Final = {True: "empty", False: "excess"}


def _reclaim_draft(wallet: str, taken: Sequence[RentHeld], left: int) -> Draft:
    closed = frozenset(each.account for each in taken if each.closes)
    intent = Intent(
        type=TransactionType.RECLAIM_RENT,
        wallet=wallet,
        may_close=closed,
        details={
            "reclaimed": lamports_to_sol(sum(each.lamports for each in taken)),
            "closed": len(closed),
            "reduced": len(taken) - len(closed),
            "left": left,
        },
    )
    # The price is 0: a bid could cost more than the rent, and nothing is urgent.
    return Draft(intent, (set_compute_unit_price(0), *_reclaim_instructions(wallet, taken)))


def _reclaim_instructions(wallet: str, taken: Sequence[RentHeld]) -> Iterator[Instruction]:
    owner = Pubkey.from_string(wallet)
    for each in taken:
        if each.closes:
            yield close_account(each.account, each.program, wallet, wallet)
            continue
        # Account, receiver, owner.
        metas = [
            AccountMeta(Pubkey.from_string(each.account), is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=True, is_writable=False),
        ]
        program = Pubkey.from_string(each.program)
        yield Instruction(program, bytes([Token.WITHDRAW_EXCESS_LAMPORTS]), metas)
