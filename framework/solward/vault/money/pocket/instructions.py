"""Builds the instructions that fill, empty and close a pocket's token accounts; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey
from spl.token.instructions import harvest_withheld_tokens_to_mint
from spl.token.models import HarvestWithheldTokensToMintParams

from solward.solana.builders import close_account, open_associated, pay, send_tokens
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import associated_address


@dataclass(frozen=True, slots=True)
class PocketToken:
    """A token that a pocket may hold.

    Attributes:
        program: the token's program.
        taxed: whether transfers withhold a fee, which must leave an account before it closes.
    """

    mint: str
    program: str
    decimals: int
    taxed: bool = False

    @property
    def is_sol(self) -> bool:
        """True for wrapped SOL."""
        return self.mint == WRAPPED_SOL_MINT

    def account(self, owner: str) -> str:
        """Return the associated token account of `owner`."""
        return associated_address(owner, self.mint, self.program)


@dataclass(frozen=True, slots=True)
class PocketHolding:
    """A pocket's balance of one token."""

    token: PocketToken
    units: int
    is_frozen: bool


def open_account(payer: str, owner: str, token: PocketToken) -> Instruction:
    """Return an instruction that opens the associated account of `owner` or checks its owner."""
    return open_associated(payer, owner, token.mint, token.program)


def send(token: PocketToken, source: str, target: str, owner: str, units: int) -> Instruction:
    """Return a transfer of units. Between an account and itself, it asserts the balance."""
    return send_tokens(token.mint, token.program, token.decimals, source, target, owner, units)


def close(token: PocketToken, pocket: str, wallet: str) -> Sequence[Instruction]:
    """Return instructions that close a pocket's token account and pay its SOL to the wallet."""
    account = token.account(pocket)
    closing = close_account(account, token.program, pocket, wallet)
    if not token.taxed:
        return (closing,)
    harvest = HarvestWithheldTokensToMintParams(
        program_id=Pubkey.from_string(token.program),
        mint=Pubkey.from_string(token.mint),
        sources=[Pubkey.from_string(account)],
    )
    return (harvest_withheld_tokens_to_mint(harvest), closing)


def funding(
    wallet: str, pocket: str, lamports: int, tokens: Sequence[tuple[PocketToken, int]]
) -> tuple[Instruction, ...]:
    """Return the instructions that fill a pocket with lamports, and with tokens in new accounts."""
    made: list[Instruction] = []
    for token, units in tokens:
        made.append(open_account(wallet, pocket, token))
        made.append(send(token, token.account(wallet), token.account(pocket), wallet, units))
    if lamports:
        made.append(pay(wallet, pocket, lamports))
    return tuple(made)


def return_instructions(
    wallet: str,
    pocket: str,
    lamports: int,
    holdings: Sequence[PocketHolding],
    there: Collection[str],
) -> tuple[Instruction, ...]:
    """Return the instructions that move everything to the wallet and close the pocket's accounts.

    Args:
        there: addresses of the wallet's existing associated accounts.
    """
    made: list[Instruction] = []
    for each in holdings:
        token = each.token
        if each.units and not token.is_sol:
            target = token.account(wallet)
            if target not in there:
                made.append(open_account(wallet, wallet, token))
            made.append(send(token, token.account(pocket), target, pocket, each.units))
        made.extend(close(token, pocket, wallet))
    if lamports:
        made.append(pay(pocket, wallet, lamports))
    return tuple(made)
