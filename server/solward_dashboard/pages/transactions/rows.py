"""Transactions as rows of a table; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from solward.client import NetworkFee, Transaction, TransactionFilter
from solward.solana.token_list import TokenList
from solward.types.address_book import AddressBook
from solward.types.money import format_sol
from solward.types.record import PLUGIN_DETAILS, TransactionType, amount_of, leaves_of, recipient_of
from solward_dashboard.wording import local_times, short, value_text

_EXPLORER = "https://explorer.solana.com/tx/"
# Public networks; None is the explorer's default.
_CLUSTERS: Mapping[str, str | None] = {
    "mainnet-beta": None,
    "devnet": "devnet",
    "testnet": "testnet",
}
_NOBODY = AddressBook()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(TransactionFilter):
    """Criteria of the records shown; the recipient is an address.

    Attributes:
        text: what is searched for in the records that the page has.
    """

    since: datetime | None = None
    until: datetime | None = None
    text: str = ""

    def matches(self, record: Transaction, wallet: str) -> bool:
        """Whether a record, of the wallet of this name, matches."""
        found = {
            "wallet_id": record.wallet_id,
            "agent_id": record.agent_id,
            "recipient": recipient_of(record.type, record.details),
            "type": record.type,
            "status": record.status,
        }
        if any(getattr(self, name) not in (None, value) for name, value in found.items()):
            return False
        if self.since is not None and record.timestamp < self.since:
            return False
        if self.until is not None and record.timestamp >= self.until:
            return False
        search = self.text.strip().casefold()
        return not search or search in _searched(record, wallet).casefold()

    def server_filter(self) -> TransactionFilter:
        """What the service is asked for: all but the text."""
        return TransactionFilter(
            **{each.name: getattr(self, each.name) for each in fields(TransactionFilter)}
        )


def row(
    record: Transaction, wallet: str, tokens: TokenList, known: AddressBook = _NOBODY
) -> dict[str, str]:
    """One row of plain text: nothing from a ledger or a model is rendered as markup."""
    to = counterpart(record)
    return {
        "id": record.id,
        "at": record.timestamp.isoformat(),
        "time": record.timestamp.astimezone().strftime("%b %d %H:%M:%S"),
        "wallet": wallet,
        "type": record.type.replace("_", " "),
        "amount": amount(record, tokens),
        "status": record.status,
        "to": called(to, known),
        "alike": "yes" if known.taken_for(to) is not None else "",
        "fee": "" if record.fee is None else f"{format_sol(record.fee.lamports)} SOL",
        "why": local_times(record.error or ""),
        "signature": short(record.signature or "", 6),
    }


def moment(text: str | None) -> datetime | None:
    """A time with a zone out of a query; raises ValueError."""
    found = None if text is None else datetime.fromisoformat(text)
    if found is not None and found.tzinfo is None:
        raise ValueError("a time with a zone is expected")
    return found


def counterpart(record: Transaction) -> str:
    """Whom it pays, or whose validator it stakes with; empty where nobody."""
    to = recipient_of(record.type, record.details) or record.details.get("validator")
    return to if isinstance(to, str) else ""


def called(address: str, known: AddressBook, *, whole: bool = False) -> str:
    """An address with its name, or whose it only looks like.

    Args:
        whole: all of the address, behind or before what is said of it; else its ends, where it has
            no name.
    """
    name, other = known.called.get(address), known.taken_for(address)
    shown = address if whole else short(address)
    if other is not None:
        # What matters first: the ends are those that people know.
        return f"not {other.name}, looks like it: {shown}"
    if name is None:
        return shown
    return f"{address} ({name})" if whole else name


def amount(record: Transaction, tokens: TokenList) -> str:
    """A record's amount, with its unit where the record has one; of several assets one after the
    other."""
    found = amount_of(record.type, record.details)
    if found is None:
        several = leaves_of(record.details) if record.type == TransactionType.OTHER else ()
        return ", ".join(
            f"{value_text(each.amount)} {_unit(each.asset, tokens)}" for each in several
        )
    symbol = record.details.get("symbol") if record.type == TransactionType.TOKEN_LAUNCH else None
    unit = _unit(found.asset or "", tokens, symbol)
    return f"{value_text(found.amount)} {unit}".strip()


def _unit(asset: str, tokens: TokenList, symbol: object = None) -> str:
    return asset if asset == "SOL" else tokens.symbol_of(asset) or str(symbol or short(asset))


def details(record: Transaction, known: AddressBook = _NOBODY) -> list[tuple[str, str]]:
    """Every detail as (name, text), in the record's order; addresses with what they are called."""
    return [
        (name, called(value, known, whole=True) if isinstance(value, str) else value_text(value))
        for name, value in record.details.items()
    ]


def fee_facts(fee: NetworkFee) -> list[tuple[str, str]]:
    """The network's fee and compute units as (name, text)."""
    found = [("Network fee", f"{format_sol(fee.lamports)} SOL")]
    if fee.compute_units is not None:
        limit = "" if fee.compute_unit_limit is None else f" of {fee.compute_unit_limit:,}"
        found.append(("Compute units", f"{fee.compute_units:,}{limit}"))
    if fee.priority_fee_micro_lamports:
        price = f"{fee.priority_fee_micro_lamports:,} micro-lamports a compute unit"
        found.append(("Priority fee", price))
    return found


def explorer(record: Transaction, network: str) -> str | None:
    """The record's address in the public explorer; None on a local network."""
    if record.signature is None or network not in _CLUSTERS:
        return None
    cluster = _CLUSTERS[network]
    return f"{_EXPLORER}{record.signature}" + (f"?cluster={cluster}" if cluster else "")


def changed(
    known: Mapping[str, Transaction], records: Iterable[Transaction]
) -> tuple[list[Transaction], list[Transaction]]:
    """New records, and known ones that have changed."""
    records = list(records)
    new = [each for each in records if each.id not in known]
    updated = [each for each in records if each.id in known and known[each.id].raw != each.raw]
    return new, updated


def row_changes(
    matching: Mapping[str, Mapping[str, str]],
    shown: Collection[str],
    records: Iterable[Transaction],
) -> dict[str, list[Mapping[str, str]]]:
    """What the table adds, updates in place and removes, so that a row keeps the focus.

    Args:
        matching: id -> row of those of `records` that match the filter.
        shown: ids of those that have a row.
    """
    ids = [each.id for each in records]
    return {
        "add": [matching[each] for each in ids if each in matching and each not in shown],
        "update": [matching[each] for each in ids if each in matching and each in shown],
        "remove": [{"id": each} for each in ids if each not in matching and each in shown],
    }


def _searched(record: Transaction, wallet: str) -> str:
    # A plugin's own words find nothing: they may name any address.
    details = [each for name, each in record.details.items() if name != PLUGIN_DETAILS]
    parts: list[Any] = [record.id, wallet, record.type, record.signature, record.error]
    return " ".join(str(each) for each in [*parts, *details] if each is not None)
