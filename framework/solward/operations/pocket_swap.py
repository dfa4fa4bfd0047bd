"""The instructions of a swap that wallet and pocket sign together, pure.

The wallet funds the pocket, the pocket trades, an assertion holds the trade to its minimum, and
what is left is closed back to the wallet: one transaction, which does all of it or nothing. The
venue's instruction does not name the wallet, so it can take only what the pocket holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from solward.solana.token_instructions import sync_native
from solward.types.errors import LedgerUnavailable
from solward.vault.money.pocket.instructions import PocketToken, close, open_account, send

# Accounts of the taker that a venue may ask for beside those of the two mints.
MAX_EXTRA_ACCOUNTS = 3

# What Solward's own instructions use beside the venue's: 13,000 to 23,000 were measured, and an
# associated account costs up to 10,000 more where its address is found late.
_OWN_UNITS = 100_000
_MAX_UNITS = 1_400_000


@dataclass(frozen=True, slots=True)
class PocketSwap:
    """A swap as it was quoted.

    Attributes:
        amount: units of `source` that leave the wallet.
        minimum: least units of `target` that must arrive.
        held: units the wallet's own account of `target` holds before; None where there is no
            account yet. Not read where the target is SOL.
        extra: further mints of which the venue needs an account of the pocket.
    """

    wallet: str
    pocket: str
    source: PocketToken
    target: PocketToken
    amount: int
    minimum: int
    held: int | None
    extra: tuple[PocketToken, ...] = ()

    @property
    def destination(self) -> str:
        """Where the venue delivers: the wallet's own account, for SOL the pocket's."""
        owner = self.pocket if self.target.is_sol else self.wallet
        return str(self.target.account(owner))

    @property
    def opens(self) -> tuple[PocketToken, ...]:
        """The accounts that are made for the pocket, at the wallet's cost."""
        return (self.source, *([self.target] if self.target.is_sol else []), *self.extra)

    def instructions(
        self, swap: Instruction, compute_units: int | None, *, close_source: bool = True
    ) -> tuple[Instruction, ...]:
        """Everything in order.

        Args:
            swap: the venue's.
            compute_units: what the venue says it needs, None where it says nothing.
            close_source: False leaves the pocket's input account: a single unit that somebody sends
                to it makes its close fail.
        """
        wallet, pocket = Pubkey.from_string(self.wallet), Pubkey.from_string(self.pocket)
        return (
            *_limit(compute_units),
            *self._fund(wallet, pocket),
            *self._prepare(wallet, pocket),
            swap,
            # Nothing that is not understood may stand between the assertion and the end.
            *self._finish(wallet, pocket, close_source),
        )

    def _fund(self, wallet: Pubkey, pocket: Pubkey) -> Iterator[Instruction]:
        source = self.source
        yield open_account(wallet, pocket, source)
        account = source.account(self.pocket)
        if source.is_sol:
            yield transfer(
                TransferParams(from_pubkey=wallet, to_pubkey=account, lamports=self.amount)
            )
            program = Pubkey.from_string(source.program)
            yield sync_native(program, account)
        else:
            yield send(source, source.account(self.wallet), account, wallet, self.amount)

    def _prepare(self, wallet: Pubkey, pocket: Pubkey) -> Iterator[Instruction]:
        if self.target.is_sol:
            yield open_account(wallet, pocket, self.target)
        elif self.held is None:
            yield open_account(wallet, wallet, self.target)
        for token in self.extra:
            yield open_account(wallet, pocket, token)

    def _finish(self, wallet: Pubkey, pocket: Pubkey, close_source: bool) -> Iterator[Instruction]:
        # A transfer to itself moves nothing, and fails where the account holds less.
        target, account = self.target, Pubkey.from_string(self.destination)
        owner, least = (
            (pocket, self.minimum) if target.is_sol else (wallet, (self.held or 0) + self.minimum)
        )
        yield send(target, account, account, owner, least)
        if target.is_sol:
            yield from close(target, pocket, wallet)
        for token in (*self.extra, *([self.source] if close_source else [])):
            yield from close(token, pocket, wallet)


def check_swap(swap: Instruction, wallet: str, pocket: str) -> None:
    """Refuse a venue's instruction that names the wallet or needs another signature.

    Raises:
        LedgerUnavailable: it is the venue's fault.
    """
    owner, taker = Pubkey.from_string(wallet), Pubkey.from_string(pocket)
    if swap.program_id == owner or any(meta.pubkey == owner for meta in swap.accounts):
        raise LedgerUnavailable("The venue's swap instruction names the wallet")
    if any(meta.is_signer and meta.pubkey != taker for meta in swap.accounts):
        raise LedgerUnavailable("The venue's swap instruction needs a signature of somebody else")


def _limit(compute_units: int | None) -> Sequence[Instruction]:
    if compute_units is None:
        return ()
    return (set_compute_unit_limit(max(1, min(_MAX_UNITS, compute_units + _OWN_UNITS))),)
