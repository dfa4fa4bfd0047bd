"""Amounts, times and addresses as text, and the names that people gave principals and addresses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, Final

from solward.client import AdminCredential, Agent, ApiKey, Contact, Wallet
from solward.support.clean_text import one_line
from solward.types.address_book import AddressBook
from solward.types.roles import admin_principal, key_principal
from solward_dashboard.api import api

ASKING: Final = "Asking the service …"
"""Text of a list before the service's first answer, when the list is not known to be empty."""

# An instant in a sentence of the service: ISO 8601 in UTC.
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)
_LONGEST_CLAIM: Final = 32
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def sol(amount: Decimal | int, places: int = 4) -> str:
    """Return an amount of SOL, rounded down to `places` decimals."""
    cut = Decimal(amount).quantize(Decimal(1).scaleb(-places), rounding="ROUND_DOWN")
    return f"{cut:,f} SOL"


def plain(amount: Decimal | int) -> str:
    """Return a number with separators and all its digits."""
    return f"{Decimal(amount):,f}"


def exact(amount: Decimal | int) -> str:
    """Return a number like `plain`, without zeros at the end of its fraction."""
    text = plain(amount)
    return text.rstrip("0").rstrip(".") if "." in text else text


def dollars(amount: Decimal | int, price: Decimal | None) -> str:
    """Return ` ($210.33)`, to follow an amount of an asset; empty without a price.

    Args:
        price: dollars of one whole SOL or token; `api().day_totals()` has the current prices.
    """
    if price is None:
        return ""
    # A u64 of a token without decimals at the highest price has more digits than Decimal's default.
    with localcontext(prec=80):
        worth = (amount * price).quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
    return f" (${worth:,f})" if worth or not amount else " (less than $0.01)"


def short(text: str, ends: int = 4) -> str:
    """Return an address or an id with its middle left out."""
    return text if len(text) <= 2 * ends + 1 else f"{text[:ends]}…{text[-ends:]}"


def token_text(mint: str, symbol: str | None, claimed: object = None) -> str:
    """Return a token's known symbol, or the ends of its mint and the name that its maker gave it.

    Anybody can give a token any name, so such a name follows the mint and is marked.
    """
    if symbol is not None:
        return symbol
    named = one_line(str(claimed), _LONGEST_CLAIM) if claimed else ""
    return f'{short(mint)} ("{named}", unverified)'.lstrip() if named else short(mint)


def capital(text: str) -> str:
    """Return a text whose first letter is a capital letter."""
    return text[:1].upper() + text[1:]


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Return how long ago a moment was, in the largest unit that fits."""
    span = _span_text((now or datetime.now(UTC)) - moment)
    return f"{span} ago" if span else "now"


def time_left(until: datetime, now: datetime) -> str:
    """Return how long it is until a moment, in the largest unit that fits."""
    span = _span_text(until - now)
    return f"{span} left" if span else "expired"


def _span_text(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    found = (f"{seconds // size} {unit}" for size, unit in _STEPS if seconds >= size)
    return next(found, "")


def clock(moment: datetime) -> str:
    """Return the time of day in the machine's time zone."""
    return moment.astimezone().strftime("%H:%M:%S")


def day(moment: datetime) -> str:
    """Return the date and time of day in the machine's time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def second(moment: datetime, *, zone: bool = True) -> str:
    """Return the date and time as `day` does, to the second and with the zone's name."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S" + " %Z" * zone)


def midnight(day: str | None, *, days: int = 0) -> datetime | None:
    """Return when a date field's day begins, `days` days later; None if the field is empty."""
    try:
        first = date.fromisoformat(day or "") + timedelta(days)
        return datetime.combine(first, time()).astimezone()
    except (ValueError, OverflowError):
        return None


def local_times(text: str) -> str:
    """Return a text with its UTC times converted to the machine's time zone."""
    return _INSTANT.sub(_local_time, text)


def _local_time(found: re.Match[str]) -> str:
    try:
        return second(datetime.fromisoformat(found[0]))
    except (ValueError, OverflowError):
        # Other people's words may look like a time without being a valid one.
        return found[0]


def interval_text(milliseconds: int) -> str:
    """Return an interval, such as `every 5 s` or `every 2 min`."""
    for size, unit in ((3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds % size == 0:
            return f"every {milliseconds // size} {unit}"
    return f"every {milliseconds:,} ms"


def cut(text: str, longest: int = 240) -> str:
    """Return a text on one line, of at most `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def counted(count: int, name: str, plural: str = "") -> str:
    """Return `1 payment` or `2,000 payments`; `plural` if it is not `name` with an s."""
    return f"{count:,} {name if count == 1 else plural or f'{name}s'}"


def value_text(value: Any) -> str:
    """Return a value of a record's details as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal | int):
        return plain(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(value_text, value))
    return str(value)


_OF_ADMIN = "you (admin)"
# The event that deletes a principal, by the field of its data that has the principal's id.
_DELETED: Final = {
    "agentId": "agent:deleted",
    "keyId": "key:revoked",
    "adminId": "admin:revoked",
    "scheduleId": "schedule:deleted",
}
_MOST_DELETED: Final = 500


@dataclass(frozen=True, slots=True)
class People:
    """The names of principals and addresses.

    Attributes:
        names: principal or `wallet:<id>` -> name.
        book: the names of addresses.
        deleted: deleted principal -> the name it had; the last ones.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    book: AddressBook = field(default_factory=AddressBook)
    deleted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_lists(
        cls,
        wallets: Sequence[Wallet] = (),
        agents: Iterable[Agent] = (),
        keys: Iterable[ApiKey] = (),
        contacts: Iterable[Contact] = (),
        admins: Iterable[AdminCredential] = (),
    ) -> People:
        """Return the names in the service's lists; wallets' names precede contacts' names.

        Args:
            contacts: the known contacts, including the policy's address book.
        """
        names = {f"wallet:{each.id}": each.name for each in wallets}
        names |= {f"agent:{each.id}": each.name for each in agents}
        names |= {key_principal(each.id): each.name for each in keys}
        names |= {admin_principal(each.id): each.name for each in admins}
        return cls(names, AddressBook.from_lists(wallets, contacts))

    @classmethod
    async def ask(cls) -> People:
        """Fetch the service's lists and return their names."""
        lists, ended = await asyncio.gather(
            asyncio.gather(
                api().wallets.list(),
                api().agents.list(),
                api().keys.list(),
                api().contacts.list(),
                api().admins.list(),
            ),
            api().audit(types=[*_DELETED.values()], limit=_MOST_DELETED),
        )
        deleted = {
            f"{name.removesuffix('Id')}:{each.data[name]}": str(each.data.get("name", ""))
            for each in ended.entries
            # One entry that is not as it should be must not stop every page.
            if isinstance(each.data, Mapping)
            for name in _DELETED.keys() & each.data.keys()
        }
        return replace(cls.from_lists(*lists), deleted=deleted)

    def called(self, principal: str) -> str:
        """Return a principal's kind, and its name or id, and whether it was deleted."""
        kind, _, own_id = principal.partition(":")
        if not own_id:
            return _OF_ADMIN if principal == "admin" else principal
        if principal in self.deleted:
            return f"{kind} {self.deleted[principal]} (deleted)"
        return f"{kind} {self.names.get(principal, own_id)}"

    def wallet(self, wallet_id: str) -> str:
        """Return a wallet's name, or its id."""
        return self.names.get(f"wallet:{wallet_id}", wallet_id)

    def receiver(self, address: str) -> str:
        """Return the whole address after its name, or after a warning if it resembles another."""
        name = self.book.label(address)
        return address if name is None else f"{name}, {address}"

    def describe(self, address: str) -> str:
        """Return an address's name, or a warning if it has none or resembles a known address."""
        taken = self.book.find_lookalike(address)
        if taken is not None:
            return f"NOT {taken.name}: it looks alike, but is not {taken.address}"
        return self.book.called.get(address, "not one of your wallets or contacts")
