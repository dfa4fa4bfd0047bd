"""The instructions of a sweep, pure: what takes home a pocket's tokens and lamports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM_ID
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address

from solward.solana.instructions import ASSOCIATED_TOKEN_CREATE_IDEMPOTENT, Token
from solward.solana.programs import ASSOCIATED_TOKEN_PROGRAM, WRAPPED_SOL_MINT

# Of the transfer fee extension: HarvestWithheldTokensToMint.
_HARVEST = bytes([Token.TRANSFER_FEE_EXTENSION, 4])


@dataclass(frozen=True, slots=True)
class Held:
    """A token account of a pocket.

    Attributes:
        taxed: whether the mint withholds a fee of transfers, which must leave before the close.
    """

    address: str
    mint: str
    program: str
    units: int
    decimals: int
    taxed: bool
    is_frozen: bool


def homeward(
    wallet: str, pocket: str, lamports: int, accounts: Sequence[Held], there: Collection[str]
) -> tuple[Instruction, ...]:
    """Every token and lamport to the wallet, and every account closed.

    Args:
        there: addresses of the wallet's associated accounts that exist.
    """
    made: list[Instruction] = []
    for each in accounts:
        target = associated(wallet, each.mint, each.program)
        # Closed with all it holds, wrapped SOL becomes the wallet's own.
        if each.units and each.mint != WRAPPED_SOL_MINT:
            if target not in there:
                made.append(_create(wallet, each, target))
            data = bytes([Token.TRANSFER_CHECKED]) + each.units.to_bytes(8, "little")
            made.append(
                _token(
                    each,
                    data + bytes([each.decimals]),
                    _writable(each.address),
                    _readonly(each.mint),
                    _writable(target),
                    _signer(pocket),
                )
            )
        if each.taxed:
            made.append(_token(each, _HARVEST, _writable(each.mint), _writable(each.address)))
        made.append(
            _token(
                each,
                bytes([Token.CLOSE_ACCOUNT]),
                _writable(each.address),
                _writable(wallet),
                _signer(pocket),
            )
        )
    if lamports:
        owner, home = Pubkey.from_string(pocket), Pubkey.from_string(wallet)
        made.append(transfer(TransferParams(from_pubkey=owner, to_pubkey=home, lamports=lamports)))
    return tuple(made)


def associated(owner: str, mint: str, program: str) -> str:
    """The associated token account of an owner."""
    keys = [Pubkey.from_string(key) for key in (owner, mint, program)]
    return str(get_associated_token_address(*keys))


def _create(wallet: str, held: Held, account: str) -> Instruction:
    payer = AccountMeta(Pubkey.from_string(wallet), is_signer=True, is_writable=True)
    return Instruction(
        Pubkey.from_string(ASSOCIATED_TOKEN_PROGRAM),
        ASSOCIATED_TOKEN_CREATE_IDEMPOTENT,
        [
            payer,
            _writable(account),
            _readonly(wallet),
            _readonly(held.mint),
            _readonly(str(SYSTEM_PROGRAM_ID)),
            _readonly(held.program),
        ],
    )


def _token(held: Held, data: bytes, *accounts: AccountMeta) -> Instruction:
    return Instruction(Pubkey.from_string(held.program), data, list(accounts))


def _writable(key: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(key), is_signer=False, is_writable=True)


def _readonly(key: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(key), is_signer=False, is_writable=False)


def _signer(key: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(key), is_signer=True, is_writable=False)
