"""What guardrails judge: the declaration, what simulation showed, the limits, and what is spent.

All amounts are integers of the smallest unit; addresses are base58 text. Everything here is
data: no input or output, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Evaluated in this order and stored by these names in a record's `guardrailsApplied`.
RULES: Final = (
    "max_per_tx",
    "rate_limit",
    "daily_limit",
    "program_allowlist",
    "blocked_address",
    "spending_limit_check",
    "fee_limit",
    "simulated_effects",
    "authority_change",
)


@dataclass(frozen=True, slots=True)
class Intent:
    """What the caller declares a transaction will do to one wallet; anything more is blocked.

    Attributes:
        type: one of the contract's transaction types (`transfer`, `swap`, ...).
        wallet: base58 address of the wallet that pays and signs.
        lamports_out: SOL leaving as declared, in lamports, without fees and rent.
        rent_lamports: most rent the transaction may pay for accounts it creates, in lamports.
        tokens_out: mint -> most units that may leave (transfer, burn, swap input).
        tokens_in: mint -> least units that must arrive (swap output minimum).
        destinations: addresses that may receive; all are checked against the blocked ones.
        programs: programs beyond the default ones that it may call, top level or inner.
        may_close: token accounts of the wallet that may be closed back to the wallet.
        may_revoke: mints whose authority the wallet may give up.
        details: the record's `details`, JSON-able, amounts as Decimal.
    """

    type: str
    wallet: str
    lamports_out: int = 0
    rent_lamports: int = 0
    tokens_out: Mapping[str, int] = field(default_factory=dict)
    tokens_in: Mapping[str, int] = field(default_factory=dict)
    destinations: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()
    may_close: frozenset[str] = frozenset()
    may_revoke: frozenset[str] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account at one moment: lamports, base58 owner program, raw data."""

    lamports: int
    owner: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """One instruction as executed, top level or inner, with its accounts resolved.

    Attributes:
        program: base58 id of the program called.
        accounts: base58 addresses, in the instruction's order.
        data: the raw instruction data.
        top: index of the top-level instruction it is, or runs inside.
    """

    program: str
    accounts: tuple[str, ...]
    data: bytes
    top: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The accounts before and after a simulated transaction, and what it called inside.

    An account that does not exist (or has 0 lamports) is None; one that was not asked for is
    absent, which `analyse` refuses for every writable key of the transaction.

    Attributes:
        pre: address -> state before. Give every key of the transaction, readonly ones too.
        post: address -> state after; at least every writable key.
        inner: all inner instructions, in order (see `inner_from_json`).
    """

    pre: Mapping[str, AccountState | None]
    post: Mapping[str, AccountState | None]
    inner: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedKey:
    """One account of a transaction, lookup tables resolved; flags as the header asks."""

    address: str
    writable: bool
    signer: bool


@dataclass(frozen=True, slots=True)
class AuthorityChange:
    """Control over something of the wallet given away: what, which account, to whom."""

    kind: str  # owner, delegate, close_authority, mint_authority, freeze_authority, staker, ...
    account: str
    to: str | None


@dataclass(frozen=True, slots=True)
class Effects:
    """What a transaction does to the wallet, from its bytes and its simulation. Gross, not net.

    Attributes:
        lamports_out: lamports leaving the wallet, without the fee and without rent paid into
            accounts the wallet controls or creates; never netted against inflow.
        fee_lamports: the whole network fee, computed from the message.
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
        violations: what may never happen, whatever is declared (rule name, reason).
        created: new token and mint accounts the wallet paid for -> owner or mint authority.
        instruction_data: the data of every instruction, searched for blocked keys.
        decimals: mint -> decimals of the mints among the accounts. Words refusals, judges nothing.
    """

    lamports_out: int
    fee_lamports: int
    rent_lamports: int = 0
    accounts_created: int = 0
    tokens_out: Mapping[str, int] = field(default_factory=dict)
    tokens_in: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)
    authority_changes: tuple[AuthorityChange, ...] = ()
    programs: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    violations: tuple[tuple[str, str], ...] = ()
    created: Mapping[str, str] = field(default_factory=dict)
    instruction_data: tuple[bytes, ...] = ()
    decimals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """The limits of one scope (`wallet:<id>`, `agent:<id>`, `key:<id>`); None is no limit.

    Attributes:
        max_lamports_per_tx: lamports in one transaction.
        max_tx_per_minute: transactions in a sliding minute.
        daily_lamports: lamports in a rolling 24 hours.
        daily_tokens: mint -> units in a rolling 24 hours.
    """

    max_lamports_per_tx: int | None = None
    max_tx_per_minute: int | None = None
    daily_lamports: int | None = None
    daily_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What one scope has used when judged: transactions this minute, lamports and tokens today.

    Attributes:
        next_tx_ms: milliseconds until the minute leaves room again, where it leaves none and
            that is known. Words the refusal, judges nothing.
    """

    tx_last_minute: int = 0
    lamports_last_day: int = 0
    tokens_last_day: Mapping[str, int] = field(default_factory=dict)
    next_tx_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules' settings that are not per scope; one value a process, from its settings.

    Attributes:
        allowed_programs: the only programs a transaction may call. Those beyond
            `DEFAULT_PROGRAMS` must be named by the intent too: an intent narrows, never adds.
        blocked_addresses: addresses nothing may be sent to or signed with.
        max_fee_lamports: most network fee of one transaction.
        max_rent_lamports: most rent of one transaction.
        max_accounts_created: most accounts one transaction may bring into being.
    """

    allowed_programs: frozenset[str]
    blocked_addresses: frozenset[str] = frozenset()
    max_fee_lamports: int = 1_000_000
    max_rent_lamports: int = 20_000_000
    max_accounts_created: int = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome: the rules evaluated in order, and the one that refused with its reason."""

    applied: tuple[str, ...]
    rule: str | None = None
    reason: str | None = None

    @property
    def allowed(self) -> bool:
        """True when no rule refused."""
        return self.rule is None
