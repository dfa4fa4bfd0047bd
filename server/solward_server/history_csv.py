"""Records as rows of CSV (RFC 4180): exact amounts with their units, times in UTC."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from solward.solana.token_list import TokenList, known_decimals
from solward.support.clock import iso
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest
from solward.types.money import SOL_DECIMALS, format_sol, to_units
from solward.types.record import (
    AssetAmount,
    TransactionRecord,
    TransactionStatus,
    amount_of,
    received_of,
    recipient_of,
)

COLUMNS: Final = (
    "time",
    "status",
    "type",
    "amount",
    "unit",
    "mint",
    "raw amount",
    "received",
    "received unit",
    "received mint",
    "raw received",
    "counterpart",
    "counterpart name",
    "wallet",
    "wallet name",
    "agent",
    "requested by",
    "fee SOL",
    "fee lamports",
    "signature",
    "rule",
    "reason",
    "transaction",
)
_SOL: Final = "SOL"
# What a spreadsheet takes for the beginning of a formula, also after it dropped a blank, and the
# full-width forms that some fold to it.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# One that separates by semicolons or tabs, as most of Europe's do, begins cells within a text, and
# knows no quotes but at the beginning of a cell.
_INNER: Final = re.compile(r"([;\t\r\n][\"\s]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


@dataclass(frozen=True, slots=True)
class Naming:
    """What the rows call addresses, wallets and mints.

    Attributes:
        decimals: of the tokens that wallets of the service launched, by mint.
        wallets: id -> name.
    """

    tokens: TokenList
    decimals: Mapping[str, int]
    wallets: Mapping[str, str] = field(default_factory=dict)
    known: AddressBook = field(default_factory=AddressBook)

    def counterpart(self, address: str) -> str:
        """The name of an address, or whose it only looks like."""
        other = self.known.taken_for(address)
        if other is not None:
            return f"not {other.name}, looks like it"
        return self.known.called.get(address, "")


def header() -> bytes:
    """The first line."""
    return _lines([COLUMNS])


def rows(records: Iterable[TransactionRecord], naming: Naming) -> bytes:
    """A line for each record."""
    return _lines(_row(each, naming) for each in records)


def harmless(text: str) -> str:
    """Text of a cell that no spreadsheet runs as a formula: where it begins like one, or only
    blanks stand before that, behind a single quote; so what begins like one in it behind a
    semicolon, a tab or a line end."""
    begins = text.lstrip(" \u00a0").startswith(_FORMULA)
    return ("'" if begins else "") + _INNER.sub(r"\1'", text)


def _lines(lines: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()


def _row(record: TransactionRecord, naming: Naming) -> tuple[str, ...]:
    details = record.details
    to = recipient_of(record.type, details) or details.get("validator")
    counterpart = to if isinstance(to, str) else ""
    fee = record.fee_lamports
    if fee is None or record.signature is None or record.status is TransactionStatus.BLOCKED:
        lamports, sol = "", ""
    else:
        lamports, sol = str(fee), format_sol(fee)
    is_blocked = record.status is TransactionStatus.BLOCKED
    is_confirmed = record.status is TransactionStatus.CONFIRMED
    rule = record.guardrails_applied[-1] if is_blocked and record.guardrails_applied else ""
    return (
        iso(record.created_ms),
        record.status.value,
        record.type,
        *_amount(amount_of(record.type, details), naming),
        # What is not confirmed brought nothing, whatever was asked for.
        *_amount(received_of(record.type, details) if is_confirmed else None, naming),
        harmless(counterpart),
        harmless(naming.counterpart(counterpart) if counterpart else ""),
        record.wallet_id,
        harmless(naming.wallets.get(record.wallet_id, "")),
        harmless(record.agent_id or ""),
        harmless(record.principal),
        sol,
        lamports,
        harmless(record.signature or ""),
        harmless(rule),
        harmless(record.error or ""),
        record.id,
    )


def _amount(found: AssetAmount | None, naming: Naming) -> tuple[str, str, str, str]:
    """Amount, unit, mint, smallest units; the last only where the mint's decimals are known."""
    if found is None:
        return "", "", "", ""
    amount = f"{found.amount:f}" if isinstance(found.amount, Decimal) else str(found.amount)
    asset = found.asset
    if asset is None:
        return harmless(amount), "", "", ""
    if asset == _SOL:
        return harmless(amount), _SOL, "", _raw(found, SOL_DECIMALS)
    decimals = naming.decimals.get(asset)
    if decimals is None:
        decimals = known_decimals(asset)
    unit = naming.tokens.symbol_of(asset) or ""
    return harmless(amount), harmless(unit), harmless(asset), _raw(found, decimals)


def _raw(found: AssetAmount, decimals: int | None) -> str:
    if decimals is None:
        return ""
    try:
        return str(to_units(found.amount, decimals, "amount")) if found.amount else "0"
    except InvalidRequest:
        # A plugin's own words may have any number.
        return ""
