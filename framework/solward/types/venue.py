"""The types of swap venues: declaration, quote and swap. Amounts are smallest units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from solward.types.bounds import Address, Addresses, Name, WireBytes
from solward.types.errors import LedgerUnavailable
from solward.types.manifest import Manifest, secret_text

if TYPE_CHECKING:
    import httpx
    from solders.instruction import Instruction

    from solward.types.ledger import ReadLedger

BEST_VENUE = "best"
"""Value of `SWAP_VENUE`: use the venue with the best offer."""

FUNDS_FIRST = "funds_first"
"""Code of the `SkillError` by which `venue_instructions` requires a taker that already has what it
sells. After the pocket is funded, it is called again, and then `venue_swap`."""


@dataclass(frozen=True, slots=True)
class VenueSpec:
    """A venue's declaration; `name` equals the entry point's name.

    Attributes:
        manifest: the plugin's needs; None: no network. A manifest need not name the configured
            address.
        base_url: the `https://` address of the venue's API, at one of the manifest's sites; None if
            it has no API.
        base_url_env: environment variable with another address; None if it cannot be configured.
        secret_env: environment variable of the venue's key, one of the manifest's `secrets`. The
            configured address gets it instead of the manifest's site.
        pools_env: environment variable with the addresses of the pools it trades with, separated by
            commas; its name ends in `_POOLS`. A venue with this variable is asked only if it is
            set.
    """

    name: Name
    manifest: Manifest | None = None
    base_url: str | None = None
    base_url_env: Name | None = None
    secret_env: Name | None = None
    pools_env: Name | None = None


class _NoLedger:
    """The ledger of a context that has no ledger: every read fails."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise LedgerUnavailable("The venue has no access to the ledger")


@dataclass(frozen=True, slots=True)
class VenueContext:
    """The capabilities that a venue has during a call.

    Attributes:
        http: a client bound to the venue's address; without an address, requests need whole URLs.
        secrets: variable -> secret, None if not set; read them with `secret`.
        storage: as `SkillContext.storage`; None if the manifest declares no `storage_mb`.
        ledger: read access to the ledger.
        pools: the addresses of `VenueSpec.pools_env`, in the operator's order.
        options: variable -> the service's own setting for a built-in venue.
    """

    http: httpx.AsyncClient
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False, compare=False)
    storage: Path | None = None
    ledger: ReadLedger = field(default_factory=_NoLedger, repr=False, compare=False)
    pools: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def secret(self, name: str) -> str:
        """Return a secret, as `SkillContext.secret` does."""
        return secret_text(self.secrets, name)


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    """A request for a quote to sell exactly `amount` units of `input_mint`."""

    input_mint: Address
    output_mint: Address
    amount: int
    slippage_bps: int


@dataclass(frozen=True, slots=True)
class Quote:
    """A venue's offer. Amounts are smallest units.

    Attributes:
        in_amount: units of `input_mint` that are sold.
        out_amount: units of `output_mint` that are expected.
        minimum_out: least units after slippage. A swap that brings less does not land.
        slippage_bps: the allowed slippage, in basis points.
        price_impact: how far this trade moves the price, as a fraction: `Decimal("0.01")` is 1%.
        raw: the venue's own data, which it gets back with the quote.
    """

    input_mint: Address
    output_mint: Address
    in_amount: int
    out_amount: int
    minimum_out: int
    slippage_bps: int
    price_impact: Decimal
    raw: Mapping[str, Any] = field(default_factory=dict)


_Table = Annotated[tuple[Address, ...], Meta(max_length=256)]


@dataclass(frozen=True, slots=True)
class SwapInstructions:
    """A venue's swap as instructions; only `swap` is signed, and Solward makes the rest.

    Attributes:
        quote: the offer that these instructions fulfil, which may be newer than the requested one.
        swap: the swap instruction; its only signer is the taker.
        accounts: mints for which the taker needs an associated token account before the swap.
        tables: lookup table address -> its addresses in order, for compiling.
        compute_units: the compute unit limit to set, None for the default.
    """

    quote: Quote
    swap: Instruction
    accounts: Addresses = ()
    tables: Annotated[Mapping[Address, _Table], Meta(max_length=64)] = field(default_factory=dict)
    compute_units: int | None = None


@dataclass(frozen=True, slots=True)
class SwapTransaction:
    """The venue's whole transaction, which lacks only the wallet's signature."""

    wire: WireBytes
    last_valid_block_height: int
