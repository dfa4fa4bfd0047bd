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
        lamports_out: SOL leaving as declared, in lamports, without fees and rent.
        rent_lamports: most rent the transaction may pay for accounts it creates, in lamports.
        tokens_out: mint -> most units that may leave (transfer, burn, swap input).
        tokens_in: mint -> least units that must arrive (swap output minimum).
        destinations: addresses that may receive; all are checked against the blocked ones.
        may_close: token accounts of the wallet that may be closed back to the wallet.
        may_revoke: mints whose authority the wallet may give up.
        details: the record's `details`, JSON-able, amounts as Decimal.
        price_impact_bps: how far a swap moves the price, in basis points, rounded up; None if it
            is no swap.
        slippage_bps: how much less than quoted a swap may give, in basis points; None likewise.
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
    """A guardrail's answer if a person must decide: the transaction waits, and reserves nothing. If
    a rule refuses, or the operator makes it, nothing is held.

    Attributes:
        reason: why, shown to who decides and to who asks.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Charged:
    """The amount that a transaction counts in one grant.

    Attributes:
        who: the principal whose grant it is, such as `agent:<id>`.
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
    """The principals of a transaction, by their ids; None if there is none.

    Attributes:
        wallet: whose money it is.
        agent: the agent whose cycle it is.
        key: the API key of the request.
        skill: the skill that runs.
        plugin: the distribution of that skill.
        charged: in which grants it counts.
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
GRANT_SCOPE: Final = "grant:"
"""What scopes begin with in which grants count."""


class Operation(StrEnum):
    """The effect of a line of a transaction, in the words of grants."""

    TRANSFER = "transfer"
    """Units go to somebody, or into an account that is not provably the wallet's own."""
    FUND = "fund"
    """A transfer to another wallet of this service."""
    PAY = "pay"
    """Units go to a seller, for a request over HTTP that the service makes itself."""
    SWAP = "swap"
    """Units are sold at a venue by a swap that the service planned."""
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
    """One thing that a transaction can take from a wallet, from its bytes.

    Attributes:
        asset: `SOL` (wrapped SOL too) or the mint.
        units: lamports or the mint's smallest units; 0 for `Operation.LAUNCH`.
        account: who receives: a wallet's address, a token or stake account, `venue:<name>` for a
            swap; None where nobody does.
        owner: the wallet whose associated account for the asset `account` is, if the bytes show
            it; None if they do not.
        decimals: the mint's, if the bytes state them, which the ledger checks as they land; 9 of
            SOL.
        program: the mint's token program; None for SOL that is not wrapped.
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
    """The most that a transaction can take from a wallet, from its bytes alone; gross.

    Whatever the state of the ledger when it lands, it takes no more. Nothing that comes back
    lowers it.

    Attributes:
        lamports: SOL paid away, in lamports; wrapped SOL counts when it is made and when it is
            sent.
        fee_lamports: the whole network fee.
        rent_lamports: rent of the accounts it may open, existing or not, whoever owns them.
        tokens: mint -> units.
        lines: the same by operation and recipient, in the order of the instructions; their units
            add up to `lamports` and `tokens`.
    """

    lamports: int
    fee_lamports: int
    rent_lamports: int
    tokens: Units = field(default_factory=dict)
    lines: Annotated[tuple[Line, ...], Items] = ()

    @property
    def costs(self) -> int:
        """Lamports of fee and rent."""
        return self.fee_lamports + self.rent_lamports


@dataclass(frozen=True, slots=True)
class AuthorityChange:
    """Authority over an account of the wallet that goes to another: kind, account, recipient."""

    kind: Name  # owner, delegate, close_authority, mint_authority, freeze_authority, staker, ...
    account: Address
    to: Address | None


# Keys inside instruction data count as addresses: about ten for each hundred bytes.
_MAX_NAMED: Final = Meta(max_length=16 << 10)


@dataclass(frozen=True, slots=True)
class TransactionEffects:
    """A transaction's effects on the wallet: the bound by its bytes, and what a simulation shows.

    Gross, not net. What is simulated is advisory: the ledger's state may change before the
    transaction lands. Limits count `outflow`.

    Attributes:
        outflow: the most the transaction can take, from its bytes; None if they cannot bound it,
            which is refused, and for the faucet's transaction.
        request: who asks for it; given to guardrails of plugins.
        tied: whether the state before and the simulation are of one slot. Where nodes are apart,
            other transactions show in the difference, and it refuses nothing.
        lamports_out: lamports leaving the wallet, without the fee and without rent paid into
            accounts the wallet controls or creates; never netted against inflow.
        fee_lamports: the whole network fee, computed from the message; 0 where another key pays.
        rent_lamports: lamports put into newly created accounts as rent.
        accounts_created: how many accounts come into being.
        tokens_out: mint -> units leaving the wallet's token accounts (burns included). Wrapped
            SOL that was wrapped in the same transaction is in `lamports_out`, not here.
        tokens_in: mint -> units by which the wallet's holding grows; under the wrapped SOL mint
            the SOL by which it grows, wrapped or not, before the fee.
        closed: the wallet's accounts that cease to exist -> who gets their lamports.
        authority_changes: control given away, delegates included.
        programs: every program called, top level and inner.
        addresses: every address touched or named: account keys with lookup tables resolved,
            owners of token accounts, keys inside instruction data.
        violations: effects that no declaration allows (rule name, reason).
        created: new token and mint accounts the wallet paid for -> owner or mint authority.
        instruction_data: the data of every instruction, searched for blocked keys.
        decimals: mint -> decimals of the mints among the accounts; for refusal texts only.
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
