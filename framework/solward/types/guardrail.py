"""The inputs of a guardrail: a transaction as declared, and its effects.

All amounts are integers of the smallest unit; addresses are base58 text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.types.bounds import Address, AddressMap, AddressSet, Items, Name, Units


@dataclass(frozen=True, slots=True)
class Intent:
    """The declared effects of a transaction on one wallet; a transaction with more is blocked.

    Attributes:
        type: one of the contract's transaction types (`transfer`, `swap`, ...).
        wallet: base58 address of the wallet that pays and signs.
        lamports_out: SOL declared to leave, in lamports, without fees and rent.
        rent_lamports: maximum rent that the transaction may pay for new accounts, in lamports.
        tokens_out: mint -> maximum units that may leave (transfer, burn, swap input).
        tokens_in: mint -> minimum units that must arrive (a swap's minimum output).
        destinations: addresses that may receive; none may be a blocked address.
        may_close: token accounts of the wallet that may be closed, their rent returning to it.
        may_revoke: mints whose authority the wallet may give up.
        details: the record's `details`, JSON-able, amounts as Decimal.
        price_impact_bps: how far a swap moves the price, in basis points, rounded up; None if not a
            swap.
        slippage_bps: how much less than quoted a swap may give, in basis points, or None.
    """

    type: Name
    wallet: Address
    lamports_out: int = 0
    rent_lamports: int = 0
    tokens_out: Units = field(default_factory=dict)
    tokens_in: Units = field(default_factory=dict)
    destinations: AddressSet = frozenset()
    may_close: AddressSet = frozenset()
    may_revoke: AddressSet = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)
    price_impact_bps: int | None = None
    slippage_bps: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A guardrail's answer if a person must decide. The transaction then waits and reserves
    nothing. It is not held if a rule refuses it, or if the operator makes it.

    Attributes:
        reason: why a person must decide; displayed to that person and to the requester.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Charged:
    """The amount of a transaction that one grant counts.

    Attributes:
        who: the grant's principal, such as `agent:<id>`.
        grant: the grant's id.
        asset: `SOL`, a mint, `USD` (micro-dollars) or `COSTS` (lamports of fee and rent).
        units: smallest units.
    """

    who: Name
    grant: Name
    asset: Address
    units: int


@dataclass(frozen=True, slots=True)
class Request:
    """The ids of a transaction's principals; None for a principal that it does not have.

    Attributes:
        wallet: the wallet that pays.
        agent: the agent that requested it in a cycle.
        key: the API key that requested it.
        skill: the running skill.
        plugin: the skill's distribution.
        charged: the grants that count it, and the amounts.
    """

    wallet: Name
    agent: Name | None = None
    key: Name | None = None
    skill: Name | None = None
    plugin: Name | None = None
    charged: tuple[Charged, ...] = ()


SOL: Final = "SOL"
"""The asset of SOL and of wrapped SOL, in lamports."""
COSTS: Final = "COSTS"
"""The asset under which network fees and rent are counted, in lamports."""
CEILINGS: Final = {
    "maxSolPerTransaction": "max_lamports_per_tx",
    "maxTransactionsPerMinute": "max_tx_per_minute",
    "dailySpendingLimitSol": "daily_lamports",
    "maxCostsSolPerDay": "daily_costs_lamports",
}
"""Ceiling of a wallet's own, by its name in requests -> the attribute of `ScopeLimits`."""
GRANT_SCOPE: Final = "grant:"
"""The prefix of scopes that count amounts in grants."""


class Operation(StrEnum):
    """The kind of effect that a `Line` has; grants use the same names."""

    TRANSFER = "transfer"
    """Units go to another owner, or into an account that is not provably the wallet's own."""
    FUND = "fund"
    """A transfer to another wallet of this service."""
    PAY = "pay"
    """Units go to a seller, for an HTTP request that the service itself makes."""
    SWAP = "swap"
    """Units are sold at a venue, in a swap that the service planned."""
    STAKE = "stake"
    """SOL goes into a stake account whose staker and withdrawer is the wallet."""
    WRAP = "wrap"
    """SOL goes into the wallet's own account of wrapped SOL."""
    BURN = "burn"
    """Units are destroyed."""
    LAUNCH = "launch"
    """A mint is made, minted to the wallet's own account, or given up; no units leave."""


@dataclass(frozen=True, slots=True)
class Line:
    """One amount that a transaction can take from a wallet, as its bytes show.

    Attributes:
        asset: `SOL` (wrapped SOL too) or the mint.
        units: lamports or the mint's smallest units; 0 for `Operation.LAUNCH`.
        account: the recipient: a wallet's address, a token or stake account, `venue:<name>` for a
            swap; None if there is no recipient.
        owner: the wallet whose associated account for the asset `account` is, if the bytes show
            it; None if they do not.
        decimals: the mint's decimals, if the bytes state them (the ledger then checks them); 9 for
            SOL.
        program: the mint's token program; None for SOL, unless it is wrapped.
    """

    operation: Operation
    asset: Address
    units: int
    account: Name | None = None
    owner: Address | None = None
    decimals: int | None = None
    program: Address | None = None


@dataclass(frozen=True, slots=True)
class Outflow:
    """The maximum that a transaction can take from a wallet, computed from its bytes alone.

    It holds for every state of the ledger, and amounts that come back do not lower it.

    Attributes:
        lamports: SOL that leaves, in lamports; wrapped SOL counts when it is wrapped and when it is
            sent.
        fee_lamports: the whole network fee.
        rent_lamports: rent of all accounts that it may open, existing or not, with any owner.
        tokens: mint -> units.
        lines: the amounts by operation and recipient, in the order of the instructions; their units
            add up to `lamports` and `tokens`.
    """

    lamports: int
    fee_lamports: int
    rent_lamports: int
    tokens: Units = field(default_factory=dict)
    lines: Annotated[tuple[Line, ...], Items] = ()

    @property
    def costs(self) -> int:
        """The sum of network fee and rent, in lamports."""
        return self.fee_lamports + self.rent_lamports


@dataclass(frozen=True, slots=True)
class AuthorityChange:
    """An authority over an account of the wallet that the transaction gives to another address."""

    kind: Name  # owner, delegate, close_authority, mint_authority, freeze_authority, staker, ...
    account: Address
    to: Address | None


# Keys inside instruction data count as addresses: about ten for each hundred bytes.
_MAX_NAMED: Final = Meta(max_length=16 << 10)


@dataclass(frozen=True, slots=True)
class TransactionEffects:
    """A transaction's effects on the wallet: their maximum by its bytes, and those of a simulation.

    Amounts are gross, not net. Limits count `outflow`, because simulated effects may change with
    the ledger's state before the transaction lands.

    Attributes:
        outflow: the maximum that the transaction can take, by its bytes. None if the bytes do not
            limit it, which is refused, and for the faucet's transaction.
        request: the requesting principals; given to the guardrails of plugins.
        tied: whether the state before and the simulation are from the same slot. If not, the
            difference may include other transactions, so it refuses nothing.
        lamports_out: lamports leaving the wallet, without the fee and without rent paid into
            accounts the wallet controls or creates; never netted against inflow.
        fee_lamports: the whole network fee, computed from the message; 0 if another key pays it.
        rent_lamports: lamports put into newly created accounts as rent.
        accounts_created: the number of new accounts.
        tokens_out: mint -> units leaving the wallet's token accounts (burns included). Wrapped
            SOL that was wrapped in the same transaction is in `lamports_out`, not here.
        tokens_in: mint -> units that the wallet gains. The wrapped SOL mint stands for all SOL that
            it gains, wrapped or not, before the fee.
        closed: the wallet's accounts that are closed -> the recipient of their lamports.
        authority_changes: the authorities given to others, delegates included.
        programs: every program called, top level and inner.
        addresses: every address touched or named: account keys with lookup tables resolved,
            owners of token accounts, keys inside instruction data.
        violations: effects that no declaration can allow (rule name, reason).
        created: new token and mint accounts the wallet paid for -> owner or mint authority.
        instruction_data: the data of every instruction, searched for blocked keys.
        decimals: mint -> its decimals, for mints among the accounts; for refusal texts only.
    """

    lamports_out: int
    fee_lamports: int
    rent_lamports: int = 0
    accounts_created: int = 0
    tokens_out: Units = field(default_factory=dict)
    tokens_in: Units = field(default_factory=dict)
    closed: AddressMap = field(default_factory=dict)
    authority_changes: tuple[AuthorityChange, ...] = ()
    programs: AddressSet = frozenset()
    addresses: Annotated[frozenset[Address], _MAX_NAMED] = frozenset()
    violations: tuple[tuple[Name, str], ...] = ()
    created: AddressMap = field(default_factory=dict)
    instruction_data: tuple[bytes, ...] = ()
    decimals: Units = field(default_factory=dict)
    outflow: Outflow | None = None
    tied: bool = True
    request: Request | None = None
