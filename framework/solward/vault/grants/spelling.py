"""The spelling of amounts, windows, times, assets and names in grants' documents and sentences.

In a sentence, a name that others chose (for an agent, API key or wallet) is quoted, escaped and
followed by the id, unless it is one plain ASCII word that names nothing else. Addresses are whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from solward.solana.token_list import TokenList, known_decimals
from solward.support.durations import DAY_MS, HOUR_MS, MINUTE_MS
from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, SOL, Operation
from solward.types.money import amount_text
from solward.types.site import SITE
from solward.vault.grants.model import RATE, USD, USD_DECIMALS, Hours

_WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_WINDOW_UNITS = {"m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
APPROVE: Final = "approve"
"""The word in `may` that lets an API key decide other principals' held transactions."""
LONGEST_MS: Final = 30 * DAY_MS
SENT: Final = frozenset({Operation.TRANSFER, Operation.FUND, Operation.PAY})
"""Operations whose sentence names the recipient."""
# A site receives payments and makes none.
BE_PAID: Final = "be paid"
THROUGH: Final = ", through "
ID_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_PLAIN: Final = re.compile(ID_PATTERN)
_ONE: Final = {"1m": "a minute", "1h": "an hour"}
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Names:
    """The meaning of the words in grants, as known to the service at one moment.

    Attributes:
        tokens: the network's token symbols; no other symbols are valid.
        rows: kind (`wallet`, `agent`, `key`, `schedule`, `plugin` or `skill`) -> id -> name; a site
            is its own name. The id of a distribution or skill is its name, as installed or as
            existing grants name it.
        mints: decimals of mints that `tokens` does not list.
        book: names of the address book, written without `@`.
    """

    tokens: TokenList
    rows: Mapping[str, Mapping[str, str]]
    mints: Mapping[str, int] = field(default_factory=dict)
    book: frozenset[str] = frozenset()

    def decimals(self, mint: str) -> int | None:
        """Return the decimals of a listed mint or of a mint in `mints`; None if not known."""
        listed = known_decimals(mint)
        return self.mints.get(mint) if listed is None else listed

    def ids(self, kind: str, text: str) -> Sequence[str]:
        """Return the id `text` if `text` is an id, else all ids with the name `text`."""
        found = self.rows.get(kind, {})
        if text in found:
            return [text]
        return [each for each, name in found.items() if name == text]

    def name(self, kind: str, own_id: str) -> str | None:
        """Return the name that people gave to this id; None if there is no name."""
        name = self.rows.get(kind, {}).get(own_id)
        return None if name == own_id else name

    def in_book(self, name: str) -> bool:
        """Return whether the address book has the name."""
        return name in self.book


def quoted(text: str) -> str:
    """Return untrusted text in double quotes on one line, so that the text cannot end the quote.

    Quotes, backslashes and unprintable characters (line ends, control, direction and zero-width
    characters) are escaped as in JSON.
    """
    shown = (
        f"\\{each}" if each in '"\\' else each if each.isprintable() else json.dumps(each)[1:-1]
        for each in text
    )
    return f'"{"".join(shown)}"'


def unit_name(asset: str, names: Names) -> str:
    """Return `SOL`, the symbol of a listed mint, or the whole address of any other mint."""
    if asset == SOL:
        return SOL
    symbol = names.tokens.symbol_of(asset)
    if symbol is not None and symbol.isascii() and symbol.isalnum():
        try:
            if names.tokens.resolve(symbol, "") == asset:
                return symbol
        except InvalidRequest:  # pragma: no cover - a list that does not know its own symbol
            pass
    return asset


def window_text(length_ms: int) -> str:
    """Return a window such as `5m`, `24h` or `7d`, in the largest whole unit; a day is `24h`."""
    for letter, unit in (("d", DAY_MS), ("h", HOUR_MS)):
        if length_ms % unit == 0 and (unit < DAY_MS or length_ms > unit):
            return f"{length_ms // unit}{letter}"
    return f"{length_ms // MINUTE_MS}m"


def window_ms(text: str) -> int | None:
    """Return the length of a window such as `24h`; None if it is not within `1m` to `30d`."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        return None
    length = int(match[1]) * _WINDOW_UNITS[match[2]]
    return length if length <= LONGEST_MS else None


def hours_text(hours: Hours) -> str:
    """Return times of day, such as `07:00-22:00 UTC`."""
    start, end = (f"{each // 60:02d}:{each % 60:02d}" for each in (hours.start, hours.end))
    return f"{start}-{end} UTC"


def time_text(ms: int) -> str:
    """Return a time as `2026-12-31T00:00:00Z` (ISO 8601), with milliseconds only if not zero."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    # `%Y` has no leading zeros on every machine.
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('.000')}Z"


def principal_name(who: str, names: Names) -> str:
    """Return a principal in words, such as `agent scout`."""
    kind, _, own_id = who.partition(":")
    # A site needs no quotes: its one spelling cannot contain other text.
    return f"{kind} {own_id if who.startswith(SITE) else named(kind, own_id, names)}"


def named(kind: str, own_id: str, names: Names) -> str:
    """Return a name chosen by others: plain if it is one unambiguous word, else with the id."""
    name = names.name(kind, own_id)
    if name is None or name == own_id:
        return plain(own_id)
    if _PLAIN.fullmatch(name) and tuple(names.ids(kind, name)) == (own_id,):
        return name
    return f"{quoted(name)} ({plain(own_id)})"


def plain(text: str) -> str:
    """Return one plain ASCII word unchanged, and any other text quoted."""
    return text if _PLAIN.fullmatch(text) else quoted(text)


def asset_unit(asset: str, names: Names, count: int = 2) -> str:
    """Return a unit: `USDC`, `SOL of fees and rent`, or for `RATE` `transaction(s)`."""
    if asset == RATE:
        return "transaction" if count == 1 else "transactions"
    return f"{SOL} of fees and rent" if asset == COSTS else unit_name(asset, names)


def amount_of(units: int, decimals: int, asset: str, names: Names) -> str:
    """Return an amount such as `1.5 USDC`; dollars as `$1.5`."""
    if asset == USD:
        return dollars(units)
    return f"{amount_text(units, decimals)} {asset_unit(asset, names)}"


def dollars(units: int) -> str:
    """Return micro-dollars as `$1.5`."""
    return f"${amount_text(units, USD_DECIMALS)}"


def hundredths(bps: int) -> str:
    """Return basis points as percent, without the sign."""
    return amount_text(bps, 2)


def length_text(window: str) -> str:
    """Return a window in words, such as `24 hours`, `a minute` or `7 days`."""
    return _ONE.get(window) or f"{window[:-1]} {_UNITS[window[-1]]}"


def joined(items: Sequence[str], last: str = " and ") -> str:
    """Return the items as `a, b and c`."""
    *first, end = items
    return f"{', '.join(first)}{last}{end}" if first else end


def capital(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
