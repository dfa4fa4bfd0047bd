"""Builders of instructions that move assets, and open and close accounts, from addresses as text.
solders and `spl.token` encode them."""

from __future__ import annotations

import secrets
from typing import Final

from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountWithSeedParams,
    TransferParams,
    create_account_with_seed,
    transfer,
)
from spl.token import instructions as spl
from spl.token.models import CloseAccountParams, SyncNativeParams, TransferCheckedParams

_key: Final = Pubkey.from_string


def pay(source: str, target: str, lamports: int) -> Instruction:
    """Send lamports from an address that has a key."""
    params = TransferParams(from_pubkey=_key(source), to_pubkey=_key(target), lamports=lamports)
    return transfer(params)


def new_seed() -> str:
    """Return a random seed for an address: 128 bits as hex, the maximum of 32 bytes."""
    return secrets.token_hex(16)


def create_seeded(owner: str, seed: str, program: str, lamports: int, size: int) -> Instruction:
    """Create an account of a program at the address derived from an owner and a seed."""
    payer, of = _key(owner), _key(program)
    return create_account_with_seed(
        CreateAccountWithSeedParams(
            from_pubkey=payer,
            to_pubkey=Pubkey.create_with_seed(payer, seed, of),
            base=payer,
            seed=seed,
            lamports=lamports,
            space=size,
            owner=of,
        )
    )


def open_associated(payer: str, owner: str, mint: str, program: str) -> Instruction:
    """Open the associated account of `owner`, or check that `owner` still owns it."""
    return spl.create_idempotent_associated_token_account(
        _key(payer), _key(owner), _key(mint), _key(program)
    )


def send_tokens(
    mint: str, program: str, decimals: int, source: str, target: str, owner: str, units: int
) -> Instruction:
    """Move units between token accounts; with the same account twice, assert that it has them."""
    return spl.transfer_checked(
        TransferCheckedParams(
            program_id=_key(program),
            source=_key(source),
            mint=_key(mint),
            dest=_key(target),
            owner=_key(owner),
            amount=units,
            decimals=decimals,
        )
    )


def sync_native(account: str, program: str) -> Instruction:
    """Add lamports that were sent to a wrapped SOL account to the account's token amount."""
    return spl.sync_native(SyncNativeParams(program_id=_key(program), account=_key(account)))


def close_account(account: str, program: str, owner: str, target: str) -> Instruction:
    """Close a token account; its lamports go to `target`."""
    return spl.close_account(
        CloseAccountParams(
            program_id=_key(program), account=_key(account), dest=_key(target), owner=_key(owner)
        )
    )
