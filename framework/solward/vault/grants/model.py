"""The types of grants: a grant, as it is stored too, a transaction as grants see it, a decision.

Amounts are integers of the asset's smallest unit, dollars micro-dollars, times milliseconds. The
names of stored fields are those of the document that people write (docs/reference/grants.md), the
values mints, ids and integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from solward.support import jsontext
from solward.support.durations import DAY_MS
from solward.types.guardrail import COSTS, GRANT_SCOPE, SOL, Line, Operation
from solward.types.money import SOL_DECIMALS

ANY_ASSET: Final = "*"
"""Every asset that a grant does not name, in dollars."""
USD: Final = "USD"
"""The asset under which dollars are counted."""
RATE: Final = "RATE"
"""The asset under which transactions are summed, one each."""
USD_DECIMALS: Final = 6
MAX_GRANTS: Final = 100
"""Most grants of one principal: a decision looks at each that matches."""
DEFAULT_COSTS_LAMPORTS: Final = 10_000_000
"""Fees and rent in 24 hours of a grant that says nothing of them."""
COSTS_WINDOW_MS: Final = DAY_MS
"""The window of every grant's costs."""
MAX_UNITS: Final = 2**62
"""Most units that a grant's number may mean; sums of columns stay below 2**63."""


class NewRecipient(StrEnum):
    """The treatment of a payment to somebody whom the wallet never paid."""

    ALLOW = "allow"
    HOLD = "hold"
    REFUSE = "refuse"


class Window(Struct, frozen=True, array_like=True):
    """A limit of `most` units, or transactions, in the `length_ms` before any moment."""

    length_ms: int
    most: int


class AssetLimit(Struct, frozen=True):
    """The amounts of one asset that may leave.

    Attributes:
        asset: `SOL`, a mint, or `ANY_ASSET`.
        decimals: of the asset as they were when the grant was written; 6 for dollars.
        windows: 1 to 4, the shortest first.
        per_tx: most in one transaction, None if the windows are enough.
        hold: more than this in one transaction waits for a person; None for never.
    """

    asset: str
    decimals: int
    windows: tuple[Window, ...] = msgspec.field(name="per")
    per_tx: int | None = msgspec.field(name="perTx", default=None)
    hold: int | None = None

    @property
    def counted_as(self) -> str:
        """The asset under which its charges are counted."""
        return USD if self.asset == ANY_ASSET else self.asset


class Hours(Struct, frozen=True, array_like=True):
    """A time of day in UTC, from `start` to before `end`, in minutes; it may pass midnight."""

    start: int
    end: int


class SwapBounds(Struct, frozen=True, rename="camel"):
    """Bounds of a swap, narrower than the service's; None if a grant has none.

    Attributes:
        into: mints that may be bought (`SOL` for SOL); empty for all.
    """

    slippage_bps: int | None = None
    impact_bps: int | None = None
    into: frozenset[str] = frozenset()


ANYBODY: Final = "any"
OWN: Final = "own"
"""Recipients: wallets of this service."""


class Grant(Struct, frozen=True):
    """One permission of one principal.

    Attributes:
        id: of its content, unique within the principal: an equal grant is the same grant.
        who: the principal, `agent:<id>`, `key:<id>`, `wallet:<id>`, `skill:<name>`,
            `plugin:<distribution>` or `site:<site>`.
        may: operations; a grant to transfer covers funding too. A site's is paying alone.
        approves: lets a key decide what is held for others.
        wallet: id of the only wallet it holds for, None for all.
        assets: asset or `ANY_ASSET` -> its limits.
        to: `ANYBODY`, `OWN`, addresses, `@name` of the address book.
        costs_lamports: network fees and rent in 24 hours.
        rates: transactions, by window.
        until_ms: it ends then; None for never.
        via: sites, as `site:<site>`, for whose requests alone it pays; `may` is paying alone then.
            Empty for all.
    """

    id: str
    who: str
    may: frozenset[Operation]
    approves: bool = False
    wallet: str | None = None
    assets: Mapping[str, AssetLimit] = msgspec.field(default_factory=dict)
    to: tuple[str, ...] = (ANYBODY,)
    new: NewRecipient = NewRecipient.ALLOW
    costs_lamports: int = msgspec.field(name="costs", default=DEFAULT_COSTS_LAMPORTS)
    rates: tuple[Window, ...] = msgspec.field(name="rate", default=())
    hours: Hours | None = None
    until_ms: int | None = msgspec.field(name="until", default=None)
    swap: SwapBounds | None = None
    via: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """The scope under which its charges are reserved."""
        return f"{GRANT_SCOPE}{self.who}#{self.id}"

    def limits(self) -> Iterator[tuple[str, int, Window]]:
        """Yield what each window counts (an asset, `USD`, `COSTS` or `RATE`), the decimals, and the
        window; only windows that bound something."""
        for limit in self.assets.values():
            for window in limit.windows:
                yield limit.counted_as, limit.decimals, window
        yield COSTS, SOL_DECIMALS, Window(COSTS_WINDOW_MS, self.costs_lamports)
        for window in self.rates:
            yield RATE, 0, window

    @property
    def longest_ms(self) -> int:
        """The length of its longest window."""
        return max(window.length_ms for _, _, window in self.limits())


def sorted_assets(assets: Sequence[str] | frozenset[str] | Mapping[str, Any]) -> list[str]:
    """Return SOL first, then mints, then `ANY_ASSET`."""
    return sorted(assets, key=lambda asset: (asset == ANY_ASSET, asset != SOL, asset))


def stored_form(grant: Grant) -> dict[str, Any]:
    """Return the grant as it is stored. Equal grants have equal forms: defaults are written, but
    for that of `via`."""
    stored: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(grant))
    stored["may"] = [operation.value for operation in Operation if operation in grant.may]
    stored["assets"] = [stored["assets"][asset] for asset in sorted_assets(grant.assets)]
    if grant.swap is not None:
        stored["swap"]["into"] = sorted_assets(grant.swap.into)
    if not grant.via:
        # Left out if empty, so that grants from before the field keep their ids.
        del stored["via"]
    return stored


def from_stored(stored: Mapping[str, Any]) -> Grant:
    """Return the grant with this stored form; raises `KeyError` or `ValueError` if it is none."""
    assets = {each["asset"]: each for each in stored["assets"]}
    grant = msgspec.convert({**stored, "assets": assets}, Grant)
    if stored_form(grant) != stored:
        # A field that is missing must not take its default, which may allow more.
        raise ValueError("this is not the stored form of a grant")
    return grant


def grant_id(grant: Grant) -> str:
    """Return 16 hex digits of a hash of all the grant says, but for its own id."""
    content = {name: value for name, value in stored_form(grant).items() if name != "id"}
    return hashlib.sha256(jsontext.dumps(content, canonical=True).encode()).hexdigest()[:16]


class SwapTerms(Struct, frozen=True, array_like=True):
    """The terms of a swap, in basis points; `into` is the mint that is bought (`SOL` for SOL)."""

    slippage_bps: int | None
    impact_bps: int | None
    into: str | None


@dataclass(frozen=True, slots=True)
class Case:
    """A transaction as grants judge it.

    Attributes:
        wallet_id: whose money it is.
        chain: every principal it needs, the wallet's first.
        lines: what leaves, by its bytes.
        costs_lamports: its network fee and rent, gross.
        now_ms: every clock's time; hours and dates must hold by each.
        swap: None if it is no swap.
        is_admins: the admin requests it, so nothing is held for a person.
        is_approved: a person approved exactly this.
        own: addresses in `lines` that are wallets of this service.
        paid: addresses in `lines` that this wallet has paid before.
        lookalikes: a recipient -> one paid before that looks like it.
        launched: mints in `lines` that this wallet launched.
        listed: mints that the network's token list has; None if swaps may buy any.
        book: name -> addresses.
        dollars: for each line, micro-dollars it is worth or why that is not known; empty if no
            grant in the chain needs it.
    """

    wallet_id: str
    chain: tuple[str, ...]
    lines: tuple[Line, ...]
    costs_lamports: int
    now_ms: tuple[int, ...]
    swap: SwapTerms | None = None
    is_admins: bool = False
    is_approved: bool = False
    own: frozenset[str] = frozenset()
    paid: frozenset[str] = frozenset()
    lookalikes: Mapping[str, str] = field(default_factory=dict)
    launched: frozenset[str] = frozenset()
    listed: frozenset[str] | None = None
    book: Mapping[str, frozenset[str]] = field(default_factory=dict)
    dollars: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Charge:
    """Units that a transaction counts in a grant; `asset` is an asset, `USD` or `COSTS`."""

    scope: str
    asset: str
    units: int


class Reason(StrEnum):
    """The reasons for which a line is refused or held: the keys of the table of sentences."""

    NO_GRANT = "no_grant"
    """The principal has none for this operation and asset."""
    DEFAULT = "default"
    """Without grants a token may not leave like this."""
    WALLET = "wallet"
    VIA = "via"
    """The grant pays for requests to other sites."""
    RECIPIENT = "recipient"
    NEW_RECIPIENT = "new_recipient"
    HOURS = "hours"
    ENDED = "ended"
    PER_TX = "per_tx"
    WINDOW = "window"
    RATE = "rate"
    COSTS = "costs"
    SLIPPAGE = "slippage"
    IMPACT = "impact"
    INTO = "into"
    DECIMALS = "decimals"
    PRICE = "price"
    ABOVE_HOLD = "above_hold"
    """The line fits, and is more than the amount above which a person is asked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The reason why one principal's grants refuse or hold a line, with the facts of its sentence.

    Attributes:
        who: the principal.
        line: None if the reason is the costs or the rate of the whole transaction.
        number: of the grant in its principal's list, from 1; None if no grant comes near.
        limit: the limit that binds, in smallest units.
        used: units of the limit used in the window, without this transaction.
        requested: units that this transaction would add.
        decimals: of `limit`, `used` and `requested`.
        window_ms: length of the window.
        room_ms: when the window has room again; None if that is not known.
        now_ms: when this was found; None if no time is said.
        detail: further words: why a price is not known, the paid address that a new one looks
            like, the hours or the date of the end in UTC, the wallet's id, the mint to buy, the
            sites in words.
        counted_as: what these three count: an asset, `USD`, `COSTS` or `RATE`; None for the line's
            asset, basis points and decimals.
    """

    why: Reason
    who: str
    line: Line | None = None
    number: int | None = None
    limit: int | None = None
    used: int | None = None
    requested: int | None = None
    decimals: int | None = None
    window_ms: int | None = None
    room_ms: int | None = None
    detail: str | None = None
    counted_as: str | None = None
    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of grants on a transaction; a refusal outweighs a hold.

    Attributes:
        is_judged: whether a grant or a default had something to judge.
        refused: None if nothing refuses it.
        held: why it waits for a person; empty if it does not.
        charges: to reserve if it is allowed or approved.
    """

    is_judged: bool
    refused: Finding | None = None
    held: tuple[Finding, ...] = ()
    charges: tuple[Charge, ...] = ()
