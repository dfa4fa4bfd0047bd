"""The types of swap venues: declaration, quote and transaction. Amounts are smallest units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class VenueSpec:
    """A venue's declaration; `name` equals the entry point's name.

    Attributes:
        programs: programs its transactions call; they join the policy's allowlist.
    """

    name: str
    programs: frozenset[str]


@dataclass(frozen=True, slots=True)
class VenueContext:
    """An HTTP client bound to the venue's configured address."""

    http: httpx.AsyncClient


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    """Sell exactly `amount` units of `input_mint`."""

    input_mint: str
    output_mint: str
    amount: int
    slippage_bps: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A venue's offer.

    Attributes:
        out_amount: units of `output_mint` expected.
        minimum_out: least units after slippage; the engine blocks a transaction with less.
        price_impact: fraction of the price moved by this trade, `Decimal("0.01")` is 1%.
        raw: the venue's own quote, passed back to it unchanged.
    """

    input_mint: str
    output_mint: str
    in_amount: int
    out_amount: int
    minimum_out: int
    slippage_bps: int
    price_impact: Decimal
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SwapTransaction:
    """The venue's transaction, complete but for the wallet's signature."""

    wire: bytes
    last_valid_block_height: int
