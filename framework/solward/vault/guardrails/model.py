"""What guardrails judge: the declaration, what simulation showed, the limits, and what is spent.

All amounts are integers of the smallest unit; addresses are base58 text. Everything here is
data: no input or output, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from solward.solana.accounts import Account

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
class Invocation:
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

    pre: Mapping[str, Account | None]
    post: Mapping[str, Account | None]
    inner: tuple[Invocation, ...] = ()


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
class ScopeUsage:
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
