"""Refuses recipients that cannot spend what they receive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from solward.solana.accounts import most_rent
from solward.solana.programs import (
    INCINERATOR,
    LOADERS,
    PROGRAM_NAMES,
    SYSVAR_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.solana.tokens import MULTISIG_BYTES, TokenAccount, mint_account, token_account
from solward.types.errors import InvalidRequest
from solward.types.ledger import Account

_INSTEAD: Final = "expected a wallet's address"


def check_recipient(
    field: str, address: str, state: Account | None, mint: str = "", *, is_owner: bool = False
) -> None:
    """Check that a recipient can spend what it receives, for every asset; pure.

    Args:
        state: the account at the address. None, or one that the System program owns, passes: it
            is a wallet, or a program's vault such as a multisig's.
        mint: the mint of the tokens that are sent; its token accounts pass too.
        is_owner: whether it is the owner of the token account that receives. A multisig of a token
            program spends tokens, and no SOL.

    Raises:
        InvalidRequest: naming `field`; the incinerator, a program, a sysvar, a mint, a token
            account of another mint, or any other account of a token program.
    """
    if address == INCINERATOR:
        raise InvalidRequest(f"{field}: {address} destroys what it gets; {_INSTEAD}")
    if state is None:
        return
    if state.owner in LOADERS:
        raise InvalidRequest(f"{field}: {address} is a program; {_INSTEAD}")
    if state.owner == SYSVAR_PROGRAM:
        raise InvalidRequest(f"{field}: {address} is a sysvar; {_INSTEAD}")
    if mint_account(address, state) is not None:
        raise InvalidRequest(f"{field}: {address} is the mint of a token; {_INSTEAD}")
    found = token_account(state)
    if found is not None and found.mint != mint:
        raise InvalidRequest(
            f"{field}: {address} is a token account of {found.mint}, which {found.owner} owns;"
            f" {_INSTEAD}{f', or a token account of {mint}' if mint else ''}"
        )
    is_multisig = len(state.data) == MULTISIG_BYTES
    if found is None and state.owner in TOKEN_PROGRAMS and not (is_owner and is_multisig):
        what = "a multisig" if is_multisig else "an account without tokens"
        raise InvalidRequest(
            f"{field}: {address} is {what} of the {PROGRAM_NAMES[state.owner]} program; {_INSTEAD}"
        )


def authority(state: Account | None) -> str | None:
    """Who spends what an account holds: the owner of a token account, the program of another; None
    where that is the account itself or a program that is known."""
    held = token_account(state)
    if held is not None:
        return held.owner
    return None if state is None or state.owner in PROGRAM_NAMES else state.owner


def check_receiver(
    field: str, address: str, states: Mapping[str, Account | None], *, is_sol: bool
) -> None:
    """Check that whoever a payment is for can spend it; pure.

    Args:
        address: the account that receives.
        states: after the payment, of it and its `authority`.
        is_sol: whether it gets SOL itself and no tokens.

    Raises:
        InvalidRequest: as `check_recipient`, of the account or the owner of the tokens; or the
            account is of no program.
    """
    state = states.get(address)
    held = token_account(state)
    if held is None or state is None:
        check_recipient(field, address, state)
        program = authority(state)
        owner = None if program is None else states.get(program)
        if program is not None and (owner is None or owner.owner not in LOADERS):
            raise InvalidRequest(
                f"{field}: {address} is owned by {program}, which is no program; {_INSTEAD}"
            )
        return
    if is_sol and not _holds_no_loose_sol(held, state):
        check_recipient(field, address, state)
    check_recipient(field, held.owner, states.get(held.owner), is_owner=True)


def _holds_no_loose_sol(held: TokenAccount, state: Account) -> bool:
    """Whether a token account's lamports are its rent, or synced to wrapped SOL."""
    if held.rent_reserve is not None:
        return state.lamports == held.amount + held.rent_reserve
    # One that was made while rent was at its highest keeps what it paid.
    return state.lamports <= most_rent(len(state.data))
