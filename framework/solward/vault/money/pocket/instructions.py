"""Instructions that fill, empty and close a pocket's token accounts, pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    harvest_withheld_tokens_to_mint,
    transfer_checked,
)
from spl.token.models import (
    CloseAccountParams,
    HarvestWithheldTokensToMintParams,
    TransferCheckedParams,
)

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import associated_address


@dataclass(frozen=True, slots=True)
class PocketToken:
    """A mint that a pocket deals in.

    Attributes:
        program: its token program.
        taxed: whether transfers withhold a fee, which must leave an account before its close.
    """

    mint: str
    program: str
    decimals: int
    taxed: bool = False

    @property
    def is_sol(self) -> bool:
        """Whether it stands for lamports."""
        return self.mint == WRAPPED_SOL_MINT

    def account(self, owner: str) -> Pubkey:
        """The associated token account of `owner`."""
        return Pubkey.from_string(associated_address(owner, self.mint, self.program))


@dataclass(frozen=True, slots=True)
class PocketHolding:
    """What a pocket's account of a token holds."""

    token: PocketToken
    units: int
    is_frozen: bool


def open_account(payer: Pubkey, owner: Pubkey, token: PocketToken) -> Instruction:
    """Open the associated account of `owner`, or check that it is still its own."""
    mint, program = Pubkey.from_string(token.mint), Pubkey.from_string(token.program)
    return create_idempotent_associated_token_account(payer, owner, mint, program)


def send(
    token: PocketToken, source: Pubkey, target: Pubkey, owner: Pubkey, units: int
) -> Instruction:
    """Move units between two accounts; to itself it asserts that the source holds them."""
    params = TransferCheckedParams(
        program_id=Pubkey.from_string(token.program),
        source=source,
        mint=Pubkey.from_string(token.mint),
        dest=target,
        owner=owner,
        amount=units,
        decimals=token.decimals,
    )
    return transfer_checked(params)


def close(token: PocketToken, pocket: Pubkey, wallet: Pubkey) -> Sequence[Instruction]:
    """Close the pocket's account to the wallet; wrapped SOL becomes the wallet's own."""
    program, account = Pubkey.from_string(token.program), token.account(str(pocket))
    closing = close_account(
        CloseAccountParams(program_id=program, account=account, dest=wallet, owner=pocket)
    )
    if not token.taxed:
        return (closing,)
    harvest = HarvestWithheldTokensToMintParams(
        program_id=program, mint=Pubkey.from_string(token.mint), sources=[account]
    )
    return (harvest_withheld_tokens_to_mint(harvest), closing)


def funding(
    wallet: str, pocket: str, lamports: int, tokens: Sequence[tuple[PocketToken, int]]
) -> tuple[Instruction, ...]:
    """The wallet fills a pocket: each token into an account opened for it, and lamports."""
    owner, taker = Pubkey.from_string(wallet), Pubkey.from_string(pocket)
    made: list[Instruction] = []
    for token, units in tokens:
        made.append(open_account(owner, taker, token))
        made.append(send(token, token.account(wallet), token.account(pocket), owner, units))
    if lamports:
        made.append(transfer(TransferParams(from_pubkey=owner, to_pubkey=taker, lamports=lamports)))
    return tuple(made)


def homeward(
    wallet: str,
    pocket: str,
    lamports: int,
    holdings: Sequence[PocketHolding],
    there: Collection[str],
) -> tuple[Instruction, ...]:
    """Every token and lamport to the wallet, and every account closed.

    Args:
        there: addresses of the wallet's associated accounts that exist.
    """
    owner, taker = Pubkey.from_string(wallet), Pubkey.from_string(pocket)
    made: list[Instruction] = []
    for each in holdings:
        token = each.token
        if each.units and not token.is_sol:
            target = token.account(wallet)
            if str(target) not in there:
                made.append(open_account(owner, owner, token))
            made.append(send(token, token.account(pocket), target, taker, each.units))
        made.extend(close(token, taker, owner))
    if lamports:
        made.append(transfer(TransferParams(from_pubkey=taker, to_pubkey=owner, lamports=lamports)))
    return tuple(made)
