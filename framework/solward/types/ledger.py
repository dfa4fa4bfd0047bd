"""The protocol of reading a Solana ledger, and a wrapper that allows only these reads.

Addresses are base58 text; amounts are lamports or token units. Every method may raise
`LedgerUnavailable` (no answer: nothing is known) or `LedgerRejected` (a JSON-RPC error object).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

from msgspec import Meta

from solward.types.bounds import Address

# The error code if no RPC provider serves a method: JSON-RPC's "Method not found".
NOT_SERVED: Final = -32601


@dataclass(frozen=True, slots=True)
class Account:
    """The state of an account. `owner` is its program, `data` its raw data."""

    lamports: int
    owner: Address
    data: bytes


@dataclass(frozen=True, slots=True)
class TokenHolding:
    """One token account of a wallet.

    Attributes:
        account: address of the token account.
        program: the mint's token program.
        units: smallest units of the mint.
        decimals: decimals of the mint; 0 if the mint is closed.
    """

    account: Address
    mint: Address
    program: Address
    units: int
    decimals: int


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """A validator's vote account.

    Attributes:
        activated_stake: lamports that are active on it in this epoch.
        commission_percent: the part of its stakers' rewards that it keeps, 0 to 100.
        epoch_credits: pairs of an epoch and the vote credits earned in it, of the latest epochs,
            at most five.
    """

    address: Address
    activated_stake: int
    commission_percent: int = 100
    epoch_credits: Annotated[tuple[tuple[int, int], ...], Meta(max_length=64)] = ()


class ReadLedger(Protocol):
    """Reads of the ledger. Addresses are base58; amounts are lamports or smallest units.

    Each method raises `LedgerUnavailable` if no node answers, and `LedgerRejected` if the node
    answers with an error. In a plugin host, one call may make 1,000 reads; after that it gets
    `SkillError` `too_many_reads`.
    """

    async def balance(self, address: str) -> int:
        """Return the lamports of an address, 0 if there is no account."""

    async def account(self, address: str) -> Account | None:
        """Return an account, or None if it does not exist."""

    async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
        """Return many accounts by address, None for those that do not exist. Each 100 addresses
        are one read."""

    async def holdings(self, owner: str) -> tuple[TokenHolding, ...]:
        """Return a wallet's token accounts under both token programs, empty ones too."""

    async def slot(self) -> int:
        """Return the current slot at the commitment `confirmed`."""

    async def rent_exempt_minimum(self, size: int) -> int:
        """Return the lamports that an account of `size` bytes must hold. A cluster may change it
        with each epoch."""

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """Return the accounts of a program that have `size` bytes of data and the address `key`
        at byte `offset`. Raises `LedgerRejected` with the code -32601 if no RPC provider serves
        this call."""

    async def stake_minimum_delegation(self) -> int:
        """Return the least lamports that a stake must delegate."""

    async def vote_accounts(self) -> tuple[VoteAccount, ...]:
        """Return the vote accounts of the validators that are not delinquent."""


_READS: Final = frozenset(name for name in vars(ReadLedger) if not name.startswith("_"))


class ReadOnlyLedger:
    """Reads through another ledger, for plugins; it has only the methods of `ReadLedger`.

    Each read calls `check` first, which raises if the plugin's call has ended.
    """

    __slots__ = ("_check", "_ledger")

    def __init__(self, ledger: ReadLedger, check: Callable[[], None]) -> None:
        self._ledger = ledger
        self._check = check

    def __getattr__(self, name: str) -> Any:
        if name not in _READS:
            raise AttributeError(name)

        async def read(*given: Any, **named: Any) -> Any:
            self._check()
            return await getattr(self._ledger, name)(*given, **named)

        return read
