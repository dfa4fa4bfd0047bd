"""What rules judge a transaction by: limits, usage and policy.

All amounts are integers of the smallest unit; addresses are base58 text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from solward.solana.fee_rates import DEFAULT_MAX_NETWORK_FEE


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """The limits of one scope (`wallet:<id>`, `agent:<id>`, `key:<id>`); None is no limit.

    Attributes:
        max_lamports_per_tx: lamports in one transaction.
        max_tx_per_minute: transactions in a sliding minute.
        daily_lamports: lamports in a rolling 24 hours.
        daily_tokens: mint -> units in a rolling 24 hours.
        daily_costs_lamports: lamports of fees and rent in a rolling 24 hours.
    """

    max_lamports_per_tx: int | None = None
    max_tx_per_minute: int | None = None
    daily_lamports: int | None = None
    daily_tokens: Mapping[str, int] = field(default_factory=dict)
    daily_costs_lamports: int | None = None


@dataclass(frozen=True, slots=True)
class ScopeUsage:
    """What one scope has used: transactions in a minute, amounts and costs in 24 hours.

    Attributes:
        next_tx_ms: milliseconds until the minute leaves room again, where it leaves none and
            that is known. For the text of the refusal; judges nothing.
    """

    tx_last_minute: int = 0
    lamports_last_day: int = 0
    tokens_last_day: Mapping[str, int] = field(default_factory=dict)
    next_tx_ms: int | None = None
    costs_last_day: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of rules that are not per scope; one value a process.

    Attributes:
        blocked_addresses: addresses nothing may be sent to or signed with.
        regulated_mints: mints that are moved though their issuer can take, stop or tax them.
        max_fee_lamports: most network fee of one transaction.
        max_rent_lamports: most rent of one transaction.
        max_accounts_created: most accounts one transaction may create.
        max_price_impact_bps: most that a swap may move the price, in basis points.
    """

    blocked_addresses: frozenset[str] = frozenset()
    regulated_mints: frozenset[str] = frozenset()
    max_fee_lamports: int = DEFAULT_MAX_NETWORK_FEE
    max_rent_lamports: int = 20_000_000
    max_accounts_created: int = 4
    max_price_impact_bps: int = 500
