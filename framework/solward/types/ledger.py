"""The narrow protocol of reading a Solana ledger, and a wrapper that can do nothing else.

Addresses are base58 text; amounts are lamports or token units. Every method may raise
`LedgerUnavailable` (no answer: nothing is known) or `LedgerRejected` (a JSON-RPC error object).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

from msgspec import Meta

from solward.types.bounds import Address

# The code of a method that no provider serves; JSON-RPC's own for a method that is not found.
NOT_SERVED: Final = -32601


@dataclass(frozen=True, slots=True)
class Account:
    """An account's state: lamports, owner program, raw data."""

    lamports: int
    owner: Address
    data: bytes


@dataclass(frozen=True, slots=True)
class TokenHolding:
    """One token account of a wallet.

    Attributes:
        decimals: of its mint; 0 where that was closed, as only one without units can be.
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
        commission_percent: of its stakers' rewards, which it keeps; 0 to 100.
        epoch_credits: (epoch, vote credits earned in it) of the latest epochs, five at most.
    """

    address: Address
    activated_stake: int
    commission_percent: int = 100
    epoch_credits: Annotated[tuple[tuple[int, int], ...], Meta(max_length=64)] = ()


class ReadLedger(Protocol):
    """Reading, safe to hand to a plugin."""

    async def balance(self, address: str) -> int:
        """Return lamports of an address, 0 when it does not exist."""

    async def account(self, address: str) -> Account | None:
        """Return an account's state, None when it does not exist."""

    async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
        """Many accounts' states, in as many calls of 100 as it takes."""

    async def holdings(self, owner: str) -> tuple[TokenHolding, ...]:
        """Token accounts of a wallet under both token programs, zero balances included."""

    async def slot(self) -> int:
        """Return the current slot at `confirmed`."""

    async def rent_exempt_minimum(self, size: int) -> int:
        """Return lamports an account of `size` bytes must hold, asked each time: a cluster may
        change what it asks for with each epoch."""

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """Accounts of a program with `size` bytes of data that hold the address `key` at
        `offset`; `LedgerRejected` with `NOT_SERVED` where no RPC provider serves the call."""

    async def stake_minimum_delegation(self) -> int:
        """Return lamports a stake must delegate at least."""

    async def vote_accounts(self) -> tuple[VoteAccount, ...]:
        """Vote accounts of the validators that are not delinquent."""


_READS: Final = frozenset(name for name in vars(ReadLedger) if not name.startswith("_"))


class ReadOnlyLedger:
    """Reads through another ledger, for plugins: it has the methods of `ReadLedger`, and no `send`,
    faucet or `close`.

    Each read calls `check` first, which raises where the reader's call has ended.
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
