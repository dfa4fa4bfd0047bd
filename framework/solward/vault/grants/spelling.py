"""How grants spell amounts, windows, times, assets and names; documents and sentences alike."""

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
from solward.types.guardrail import SOL, Operation
from solward.types.money import format_amount, from_units
from solward.vault.grants.model import Grant, Hours

_WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_WINDOW_UNITS = {"m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
APPROVE: Final = "approve"
"""Beside the operations in `may`: a key decides what is held for others."""
LONGEST_MS: Final = 30 * DAY_MS


@dataclass(frozen=True, slots=True)
class Names:
    """What the words of grants stand for, as the service knows it at one moment.

    Attributes:
        tokens: the symbols of the network; no other symbol is one.
        rows: kind (`wallet`, `agent`, `key`, `schedule`, `plugin` or `skill`) -> id -> name; a site
            is its own name. A distribution's and a skill's id is its name, as installed, or as
            grants name it already.
        mints: decimals of mints that `tokens` does not list.
        book: names of the address book, written without `@`.
    """

    tokens: TokenList
    rows: Mapping[str, Mapping[str, str]]
    mints: Mapping[str, int] = field(default_factory=dict)
    book: frozenset[str] = frozenset()

    def decimals(self, mint: str) -> int | None:
        """Of a mint that `tokens` does not list; None where it is no mint that is known."""
        listed = known_decimals(mint)
        return self.mints.get(mint) if listed is None else listed

    def ids(self, kind: str, text: str) -> Sequence[str]:
        """The one whose id is `text`, else all whose name it is."""
        found = self.rows.get(kind, {})
        if text in found:
            return [text]
        return [each for each, name in found.items() if name == text]

    def name(self, kind: str, own_id: str) -> str | None:
        """What people call it; None where it has no name beside its id."""
        name = self.rows.get(kind, {}).get(own_id)
        return None if name == own_id else name

    def in_book(self, name: str) -> bool:
        """Whether the address book has the name."""
        return name in self.book


def quoted(text: str) -> str:
    """Text by others between double quotes, on one line, so that it ends where the quote does.

    Quotes, backslashes and what does not print (line ends, control, direction and zero-width
    characters) are escaped as in JSON.
    """
    shown = (
        f"\\{each}" if each in '"\\' else each if each.isprintable() else json.dumps(each)[1:-1]
        for each in text
    )
    return f'"{"".join(shown)}"'


def may_words(grant: Grant) -> list[str]:
    """The words of `may`, in the order of `Operation`."""
    words = [operation.value for operation in Operation if operation in grant.may]
    return [*words, APPROVE] if grant.approves else words


def unit_name(asset: str, names: Names) -> str:
    """The symbol of a listed mint, the whole address of any other; `SOL`."""
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


def amount_text(units: int, decimals: int) -> str:
    """Smallest units as the text of whole units, exact."""
    return format_amount(from_units(units, decimals))


def window_text(length_ms: int) -> str:
    """`5m`, `24h`, `7d`: the largest unit that fits more than once."""
    for letter, unit in (("d", DAY_MS), ("h", HOUR_MS)):
        if length_ms % unit == 0 and (unit < DAY_MS or length_ms > unit):
            return f"{length_ms // unit}{letter}"
    return f"{length_ms // MINUTE_MS}m"


def window_ms(text: str) -> int | None:
    """The length of a window such as `24h`; None where it is not of `1m` to `30d`."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        return None
    length = int(match[1]) * _WINDOW_UNITS[match[2]]
    return length if length <= LONGEST_MS else None


def hours_text(hours: Hours) -> str:
    """Times of day such as `07:00-22:00 UTC`."""
    start, end = (f"{each // 60:02d}:{each % 60:02d}" for each in (hours.start, hours.end))
    return f"{start}-{end} UTC"


def time_text(ms: int) -> str:
    """ISO 8601 in UTC, with milliseconds only where it has some: `2026-12-31T00:00:00Z`."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    # `%Y` has no leading zeros on every machine.
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('.000')}Z"
