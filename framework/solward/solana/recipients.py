"""Addresses that could not spend what they are sent."""

from __future__ import annotations

from typing import Final

from solward.solana.programs import LOADERS, SYSVAR_PROGRAM
from solward.solana.tokens import mint_account, token_account
from solward.types.errors import InvalidRequest
from solward.types.ledger import Account

_INSTEAD: Final = "expected a wallet's address"


def check_recipient(field: str, address: str, state: Account | None, mint: str = "") -> None:
    """Check that who has an address can spend what it gets, whatever the asset; pure.

    Args:
        state: its account. Without one, and where the System program owns it, it is a wallet's or
            a program's vault, such as that of a multisig.
        mint: of tokens that are sent; a token account of it may be named.

    Raises:
        InvalidRequest: naming `field`; a program, a sysvar, a mint, or a token account of another
            mint.
    """
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
