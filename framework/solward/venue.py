"""The types of swap venues: declaration, quote and swap. Amounts are smallest units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solward.manifest import Manifest, secret_text

if TYPE_CHECKING:
    import httpx
    from solders.instruction import Instruction


@dataclass(frozen=True, slots=True)
class VenueSpec:
    """A venue's declaration; `name` equals the entry point's name.

    Attributes:
        manifest: what it needs; None: no network. With one, its configured address is allowed
            without being named.
    """

    name: str
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True)
class VenueContext:
    """An HTTP client bound to the venue's configured address, and what its manifest declares.

    Attributes:
        secrets: by variable, None where one is not set; ask `secret`.
        storage: as `SkillContext.storage`; None where the manifest declares no `storage_mb`.
    """

    http: httpx.AsyncClient
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False, compare=False)
    storage: Path | None = None

    def secret(self, name: str) -> str:
        """As `SkillContext.secret`."""
        return secret_text(self.secrets, name)


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
class SwapInstructions:
    """A venue's swap as instructions; only `swap` is signed for, everything else is Solward's own.

    Attributes:
        quote: the offer these instructions keep (may be newer than the quote passed in).
        swap: the one swap instruction; its only signer is the taker.
        accounts: mints for which the taker needs an associated token account beforehand.
        tables: lookup table address -> its addresses in order, for compiling.
        compute_units: the limit to set, None for the default.
    """

    quote: Quote
    swap: Instruction
    accounts: tuple[str, ...] = ()
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compute_units: int | None = None


@dataclass(frozen=True, slots=True)
class SwapTransaction:
    """The venue's transaction, complete but for the wallet's signature."""

    wire: bytes
    last_valid_block_height: int
