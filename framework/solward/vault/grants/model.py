"""The types of grants: a grant (also in its stored form), a transaction as judged, a decision.

Amounts are integers of the asset's smallest unit, dollars are micro-dollars, and times are
milliseconds. Stored fields have the names of the document that people write
(docs/reference/grants.md); their values are mints, ids and integers.
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
"""Stands for every asset that a grant does not name, counted in dollars."""
USD: Final = "USD"
"""The asset under which dollars are counted."""
RATE: Final = "RATE"
"""The asset under which the number of transactions is summed."""
USD_DECIMALS: Final = 6
MAX_GRANTS: Final = 100
"""The maximum number of one principal's grants: a decision reads each grant that matches."""
DEFAULT_COSTS_LAMPORTS: Final = 10_000_000
"""The limit of fees and rent in 24 hours for a grant that does not state one."""
COSTS_WINDOW_MS: Final = DAY_MS
"""The window in which every grant limits costs."""
MAX_UNITS: Final = 2**62
"""The maximum units of a number in a grant, so that sums of columns stay below 2**63."""


class NewRecipient(StrEnum):
    """The treatment of a payment to somebody whom the wallet never paid."""

    ALLOW = "allow"
    HOLD = "hold"
    REFUSE = "refuse"


class Window(Struct, frozen=True, array_like=True):
    """A limit of `most` units or transactions within any period of `length_ms` milliseconds."""

    length_ms: int
    most: int


class AssetLimit(Struct, frozen=True):
    """The limits of one asset's amounts.

    Attributes:
        asset: `SOL`, a mint, or `ANY_ASSET`.
        decimals: the asset's decimals when the grant was written; 6 for dollars.
        windows: 1 to 4 windows, the shortest first.
        per_tx: maximum in one transaction; None if only the windows limit it.
        hold: a transaction of more than this waits for a person; None for never.
    """

    asset: str
    decimals: int
    windows: tuple[Window, ...] = msgspec.field(name="per")
    per_tx: int | None = msgspec.field(name="perTx", default=None)
    hold: int | None = None

    @property
    def counted_as(self) -> str:
        """The asset under which the limit's charges are counted."""
        return USD if self.asset == ANY_ASSET else self.asset


class Hours(Struct, frozen=True, array_like=True):
    """A daily period in UTC minutes, from `start` to before `end`; the period may pass midnight."""

    start: int
    end: int


class SwapBounds(Struct, frozen=True, rename="camel"):
    """A grant's bounds of a swap, narrower than the service's; None for no bound.

    Attributes:
        into: mints that may be bought (`SOL` for SOL); empty for all mints.
    """

    slippage_bps: int | None = None
    impact_bps: int | None = None
    into: frozenset[str] = frozenset()


ANYBODY: Final = "any"
OWN: Final = "own"
"""The recipients that are wallets of this service."""


class Grant(Struct, frozen=True):
    """One permission that one principal has.

    Attributes:
        id: hash of the content, unique within the principal: an equal grant is the same grant.
        who: the principal, `agent:<id>`, `key:<id>`, `wallet:<id>`, `skill:<name>`,
            `plugin:<distribution>` or `site:<site>`.
        may: allowed operations; a grant to transfer covers funding too. A site's grant only pays.
        approves: lets an API key decide other principals' held transactions.
        wallet: id of the only wallet for which the grant is valid; None for all wallets.
        assets: asset or `ANY_ASSET` -> its limits.
        to: recipients: `ANYBODY`, `OWN`, addresses, `@name` of the address book.
        costs_lamports: maximum network fees and rent in 24 hours.
        rates: maximum number of transactions in each window.
        until_ms: when the grant ends; None for never.
        via: sites, as `site:<site>`: the grant pays only requests to these, and `may` is only
            paying. Empty for all sites.
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
        """The scope under which the grant's charges are reserved."""
        return f"{GRANT_SCOPE}{self.who}#{self.id}"

    def limits(self) -> Iterator[tuple[str, int, Window]]:
        """Yield, for each limiting window, what it counts (an asset, `USD`, `COSTS` or `RATE`), the
        decimals, and the window."""
        for limit in self.assets.values():
            for window in limit.windows:
                yield limit.counted_as, limit.decimals, window
        yield COSTS, SOL_DECIMALS, Window(COSTS_WINDOW_MS, self.costs_lamports)
        for window in self.rates:
            yield RATE, 0, window

    @property
    def longest_ms(self) -> int:
        """The length of the grant's longest window."""
        return max(window.length_ms for _, _, window in self.limits())


def sorted_assets(assets: Sequence[str] | frozenset[str] | Mapping[str, Any]) -> list[str]:
    """Return SOL first, then mints, then `ANY_ASSET`."""
    return sorted(assets, key=lambda asset: (asset == ANY_ASSET, asset != SOL, asset))


def stored_form(grant: Grant) -> dict[str, Any]:
    """Return the grant's stored form. Equal grants have equal forms: all defaults are written,
    except that of `via`."""
    stored: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(grant))
    stored["may"] = [operation.value for operation in Operation if operation in grant.may]
    stored["assets"] = [stored["assets"][asset] for asset in sorted_assets(grant.assets)]
    if grant.swap is not None:
        stored["swap"]["into"] = sorted_assets(grant.swap.into)
    if not grant.via:
        # An empty `via` is left out, so that grants from before the field keep their ids.
        del stored["via"]
    return stored


def from_stored(stored: Mapping[str, Any]) -> Grant:
    """Return the grant with this stored form; raises `KeyError` or `ValueError` if invalid."""
    assets = {each["asset"]: each for each in stored["assets"]}
    grant = msgspec.convert({**stored, "assets": assets}, Grant)
    if stored_form(grant) != stored:
        # A field that is missing must not take its default, which may allow more.
        raise ValueError("this is not the stored form of a grant")
    return grant


def grant_id(grant: Grant) -> str:
    """Return 16 hex digits of a hash of all the grant's fields except its id."""
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
        wallet_id: the wallet whose money leaves.
        chain: every principal that must allow it, the wallet first.
        lines: what leaves, by the transaction's bytes.
        costs_lamports: its network fee and rent, with no inflow subtracted.
        now_ms: the time by every clock; hours and dates must hold by each clock.
        swap: terms of the swap; None if the transaction is no swap.
        is_admins: whether the admin requests it, so that nothing is held for a person.
        is_approved: whether a person approved exactly this transaction.
        own: addresses in `lines` that are wallets of this service.
        paid: addresses in `lines` that this wallet has paid before.
        lookalikes: new recipient -> a similar address that was paid before.
        launched: mints in `lines` that this wallet launched.
        listed: mints in the network's token list; None if swaps may buy any mint.
        book: name in the address book -> addresses.
        dollars: each line's worth in micro-dollars, or why it is not known; empty if no grant in
            the chain needs it.
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
    """The units that a transaction counts in a grant; `asset` may also be `USD` or `COSTS`."""

    scope: str
    asset: str
    units: int


class Reason(StrEnum):
    """The reasons to refuse or hold a line; each has its sentence."""

    NO_GRANT = "no_grant"
    """The principal has no grant for this operation and asset."""
    DEFAULT = "default"
    """A principal without grants may not move a token by this operation."""
    WALLET = "wallet"
    VIA = "via"
    """The grant pays only for requests to other sites."""
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
    """The grant allows the line, but a person is asked above a lower amount."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The reason why a principal's grants refuse or hold a line, with the facts to explain it.

    Attributes:
        who: the principal.
        line: the line; None if the reason is the whole transaction's costs or rate.
        number: the grant's number in its principal's list, from 1; None if no grant comes near.
        limit: the limit that was reached, in smallest units.
        used: units used in the limit's window, without this transaction.
        requested: units that this transaction would add.
        decimals: decimals of `limit`, `used` and `requested`.
        window_ms: length of the window.
        room_ms: when the window has room again; None if that is not known.
        now_ms: the time of the finding; None if the sentence needs no time.
        detail: further words for the sentence: why a price is not known, the paid address that a
            new address looks like, the hours or the end date in UTC, the wallet's id, the mint to
            buy, or the sites in words.
        counted_as: what `limit`, `used` and `requested` count: an asset, `USD`, `COSTS` or `RATE`;
            None for the line's asset, basis points and decimals.
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
        held: why the transaction waits for a person; empty if it does not wait.
        charges: the charges to reserve if the transaction is allowed or approved.
    """

    is_judged: bool
    refused: Finding | None = None
    held: tuple[Finding, ...] = ()
    charges: tuple[Charge, ...] = ()
