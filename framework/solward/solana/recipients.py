"""Refuses recipients that cannot spend what they receive."""

from __future__ import annotations

from typing import Final

from solward.solana.programs import LOADERS, SYSVAR_PROGRAM
from solward.solana.tokens import mint_account, token_account
from solward.types.errors import InvalidRequest
from solward.types.ledger import Account

_INSTEAD: Final = "expected a wallet's address"


def check_recipient(field: str, address: str, state: Account | None, mint: str = "") -> None:
    """Check that a recipient can spend what it receives, for every asset; pure.

    Args:
        state: the account at the address. None, or one that the System program owns, passes: it
            is a wallet, or a program's vault such as a multisig's.
        mint: the mint of the tokens that are sent; its token accounts pass too.

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
