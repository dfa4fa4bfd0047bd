"""Sending tokens, of SPL Token and Token-2022 mints.

Who may receive follows the field's own tools (`spl-token transfer`, `getAssociatedTokenAddress`):
a wallet's address, whose associated account is opened where it is missing, or a token account of
the same mint. An address without a private key, or a program's account, is refused: what is sent
to it may be lost; the token account such an owner has already can be named instead.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeAlias

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from solward.operations.declared.tokens import TRANSFER_TOKEN
from solward.operations.plans import plans
from solward.operations.tokens import accounts_of, associated_account
from solward.operations.transfer import parse_address
from solward.solana.instructions import TOKEN_TRANSFER_CHECKED_WITH_FEE
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_instructions import create_associated, transfer_checked
from solward.solana.token_list import TokenList
from solward.solana.tokens import (
    NON_TRANSFERABLE,
    TRANSFER_FEE,
    Mint,
    associated_account_size,
    current_epoch,
    read_mint,
    token_account,
    transfer_fee,
)
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger, TokenHolding
from solward.types.money import format_amount, from_units, to_units
from solward.types.record import TransactionType
from solward.vault.money.request import Draft

# Data of TransferCheckedWithFee: its two numbers, then amount, decimals and fee.
_WITH_FEE = struct.Struct("<2sQBQ")


@plans(TRANSFER_TOKEN)
async def plan_transfer_token(
    wallet: str,
    *,
    ledger: ReadLedger,
    tokens: TokenList,
    mint: str,
    to: str,
    amount: Decimal | int,
) -> Draft:
    """Send `amount` whole tokens, from the wallet's associated account first.

    Of a mint with a transfer fee less arrives, which the details say; all of it leaves and counts.

    Args:
        mint: a mint address or a known symbol.
        to: a wallet's address, or a token account of the mint.

    Raises:
        InvalidRequest: no such mint, or one whose tokens do not move by themselves; wrapped SOL;
            the amount is none, more than the wallet holds, or no more than the mint's fee; `to` is
            the wallet itself, has no private key, or is an account that cannot hold the tokens.
        LedgerError: the ledger did not answer.
    """
    found = await read_mint(ledger, tokens.resolve(mint, "mint"))
    _check_mint(found)
    units = to_units(amount, found.decimals, "amount")
    recipient = parse_address(to, "to")
    owner, account = await _receiver(ledger, wallet, recipient, found)
    held = await accounts_of(ledger, wallet, found)
    balance = sum(holding.units for holding in held)
    if units > balance:
        raise InvalidRequest(
            f"amount is more than the {format_amount(from_units(balance, found.decimals))}"
            f" of {found.address} the wallet holds"
        )
    moves = await _moves(ledger, found, held, units)
    received = sum(moved - (fee or 0) for _, moved, fee in moves)
    if received < 1:
        raise InvalidRequest("amount is too small: the mint's transfer fee takes all of it")
    payer = Pubkey.from_string(wallet)
    rent = 0
    opening = []
    if str(account) != str(recipient):
        # Also where it exists: the program then checks that it is still the receiver's.
        program, address = Pubkey.from_string(found.program), Pubkey.from_string(found.address)
        create = create_associated(payer, owner, address, program)
        opening.append(create)
        rent = await _rent(ledger, owner, account, found)
    intent = Intent(
        type=TransactionType.TOKEN_TRANSFER,
        wallet=wallet,
        rent_lamports=rent,
        tokens_out={found.address: units},
        destinations=frozenset({str(recipient), str(owner), str(account)}),
        details={
            "from": wallet,
            "to": str(recipient),
            "mint": found.address,
            "amount": from_units(units, found.decimals),
            "received": from_units(received, found.decimals),
            "account": str(account),
        },
    )
    transfers = (_transfer(payer, found, account, *move) for move in moves)
    return Draft(intent, (*opening, *transfers))


def _check_mint(mint: Mint) -> None:
    if mint.address == WRAPPED_SOL_MINT:
        # SOL limits bound SOL however it is wrapped; sent as a token it would pass them by.
        raise InvalidRequest("mint: wrapped SOL is not sent as a token; unwrap it and send SOL")
    if NON_TRANSFERABLE in mint.extensions:
        raise InvalidRequest(f"mint: {mint.address} has tokens that cannot be transferred")
    if mint.runs_hook:
        # Its program wants accounts that the wallet's signature must not meet.
        raise InvalidRequest(
            f"mint: {mint.address} has a transfer hook, a program that each transfer must call, so"
            " it cannot be sent"
        )


async def _receiver(
    ledger: ReadLedger, wallet: str, recipient: Pubkey, mint: Mint
) -> tuple[Pubkey, Pubkey]:
    """Who will own the tokens, and in which token account."""
    state = await ledger.account(str(recipient))
    given = token_account(state)
    if given is not None:
        if given.mint != mint.address:
            raise InvalidRequest(
                f"to is a token account of {given.mint}, which cannot hold {mint.address}"
            )
        owner, account = Pubkey.from_string(given.owner), recipient
    elif not recipient.is_on_curve():
        raise InvalidRequest(
            "to is an address without a private key, which could not spend what it gets; a"
            " program's vault has a token account of the mint that can be named instead"
        )
    elif state is not None and state.owner != str(SYSTEM_PROGRAM):
        raise InvalidRequest(
            f"to is an account of the program {state.owner}; expected a wallet's address or a"
            f" token account of {mint.address}"
        )
    else:
        owner, account = recipient, associated_account(recipient, mint)
    if str(owner) == wallet:
        raise InvalidRequest("to is this wallet itself")
    return owner, account


async def _rent(ledger: ReadLedger, owner: Pubkey, account: Pubkey, mint: Mint) -> int:
    """Lamports that opening the receiver's associated account takes; 0 where it is open."""
    state = await ledger.account(str(account))
    existing = token_account(state)
    if existing is None:
        # Lamports somebody sent to the address before do not open it.
        return await ledger.rent_exempt_minimum(associated_account_size(mint))
    if existing.owner != str(owner):
        raise InvalidRequest(
            f"to: the associated token account {account} was given away to {existing.owner}"
        )
    return 0


_Move: TypeAlias = tuple[TokenHolding, int, int | None]
"""An account of the wallet, the units that leave it, and what the mint withholds of them; None
where it has no transfer fee."""


async def _moves(
    ledger: ReadLedger, mint: Mint, held: Sequence[TokenHolding], units: int
) -> list[_Move]:
    """The units by the accounts that they leave. The fee is rounded up in each transfer."""
    epoch = await current_epoch(ledger) if TRANSFER_FEE in mint.extensions else None
    moves: list[_Move] = []
    for holding in held:
        moved = min(units, holding.units)
        if moved:
            units -= moved
            fee = None if epoch is None else transfer_fee(mint, moved, epoch)
            moves.append((holding, moved, fee))
    return moves


def _transfer(
    payer: Pubkey, mint: Mint, account: Pubkey, holding: TokenHolding, units: int, fee: int | None
) -> Instruction:
    program, source = Pubkey.from_string(mint.program), Pubkey.from_string(holding.account)
    address = Pubkey.from_string(mint.address)
    if fee is None:
        return transfer_checked(program, source, address, account, payer, units, mint.decimals)
    # States the fee, and fails where another is in force as it lands: as said, or not at all.
    return Instruction(
        program,
        _WITH_FEE.pack(TOKEN_TRANSFER_CHECKED_WITH_FEE, units, mint.decimals, fee),
        [
            AccountMeta(source, is_signer=False, is_writable=True),
            AccountMeta(address, is_signer=False, is_writable=False),
            AccountMeta(account, is_signer=False, is_writable=True),
            AccountMeta(payer, is_signer=True, is_writable=False),
        ],
    )
