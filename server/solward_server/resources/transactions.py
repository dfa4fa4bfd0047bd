"""Transaction records, newest first, of one wallet or of all, with filters; refusals and their
reasons; one transaction with what it could have taken; and records as CSV (RFC 4180): exact amounts
with their units, times in UTC."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import re
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from quart import Response, request

from solward.database import names as name_store
from solward.operations.policies.refusals import record_json
from solward.operations.policies.refusals import refusals as refusals_json
from solward.resources import transactions as calls
from solward.resources.declare import fields_of
from solward.resources.shared import OfWallet
from solward.service.history import RecordFilter
from solward.solana.token_list import TokenList, known_decimals
from solward.support.clock import iso, ms_of, now_ms
from solward.types.address_book import AddressBook, OwnWallet
from solward.types.errors import InvalidRequest, NotFound, WalletNotFound
from solward.types.money import SOL_DECIMALS, format_sol, to_units
from solward.types.record import (
    AssetAmount,
    TransactionRecord,
    TransactionStatus,
    amount_of,
    received_of,
    recipient_of,
)
from solward.types.roles import Role
from solward.vault.store import transactions as transaction_store
from solward_server.http.auth import caller, keyed
from solward_server.http.body import list_response, query_of
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import NOT_FOUND
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import Routes

CSV = "text/csv"
_LINES = (
    "time,status,type,amount,unit,...\r\n2026-11-21T10:34:55.479Z,blocked,transfer,5,SOL,...\r\n"
)
_BEFORE = "before must be the id of a transaction"

routes = Routes("transactions", "Records of all requested transactions.")


@routes.serve(calls.LIST_TRANSACTIONS, keyed(Role.READ), {400: _BEFORE, 404: NO_WALLET})
async def list_transactions(context: RouteContext) -> Response:
    return await _list_records(context, caller().wallet_id)


@routes.serve(calls.LIST_WALLET_TRANSACTIONS, keyed(Role.READ), {400: _BEFORE})
async def list_wallet_transactions(context: RouteContext, wallet_id: str) -> Response:
    await context.wallet(wallet_id)
    return await _list_records(context, wallet_id)


@routes.serve(
    calls.EXPORT_TRANSACTIONS,
    keyed(Role.READ),
    {404: NO_WALLET},
    response={
        "description": "CSV (RFC 4180) in UTF-8, with a header line.",
        "content": {CSV: {"schema": {"type": "string"}, "example": _LINES}},
    },
)
async def export(context: RouteContext) -> Response:
    asked = query_of(calls.TransactionFilter)
    wanted = await _record_filter(context, asked, caller().wallet_id)
    records = context.service.history.pages(wanted)
    # Read before the status is sent, so that an error has its own status.
    first = await anext(records)
    body: AsyncGenerator[bytes, None] | bytes = _csv_pages(
        context, first, records, named=caller().key is None
    )
    if request.method != "GET":
        # A HEAD request has no body to wait for.
        body = b""
    response = Response(body, 200, content_type=f"{CSV}; charset=utf-8; header=present")
    name = f"solward-transactions-{iso(now_ms())[:10]}.csv"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    # The number of records is not known, so the response has no time limit.
    response.timeout = None
    return response


@routes.serve(calls.GET_TRANSACTION, keyed(Role.READ))
async def get_transaction(context: RouteContext, transaction_id: str) -> dict[str, Any]:
    record = await context.service.history.record(transaction_id)
    found = await record_json(context.service.database, record)
    if caller().wallet_id not in (None, found["walletId"]):
        raise NotFound(NOT_FOUND["transaction_id"])
    return found


@routes.serve(calls.LIST_REFUSALS, keyed(Role.READ), {404: NO_WALLET})
async def refusals(context: RouteContext) -> dict[str, Any]:
    asked = query_of(OfWallet)
    wallet_id = asked.wallet_id or caller().wallet_id
    if wallet_id is not None:
        await context.wallet(wallet_id)
    return await refusals_json(context.service.database, wallet_id, asked.limit)


async def _list_records(context: RouteContext, wallet_id: str | None) -> Response:
    asked = query_of(calls.ListedTransactions)
    page: Any = {"limit": asked.limit, "before": asked.before, "fee": asked.fees}
    if asked.before is not None and caller().wallet_id is not None:
        await _check_before(context, asked.before, caller().wallet_id)
    # A filtered list goes by time, and says where its next page begins.
    if any(getattr(asked, each.name) is not None for each in fields_of(calls.TransactionFilter)):
        wanted = await _record_filter(context, asked, wallet_id)
        texts, behind = await context.service.history.filtered_page(wanted, **page)
        return list_response("transactions", texts, {"next": behind})
    records = await context.service.history.page(wallet_id, **page)
    return list_response("transactions", records)


async def _check_before(context: RouteContext, before: str, wallet_id: str | None) -> None:
    """Raise `InvalidRequest` unless `before` is a record of this wallet. Otherwise a key that is
    confined to it would learn when another wallet's record was made."""
    try:
        record = await context.service.history.record(before)
    except NotFound:
        record = None
    if record is None or record.wallet_id != wallet_id:
        raise InvalidRequest(_BEFORE)


async def _csv_pages(
    context: RouteContext,
    first: Sequence[TransactionRecord],
    others: AsyncGenerator[list[TransactionRecord], None],
    *,
    named: bool,
) -> AsyncGenerator[bytes, None]:
    """Yield the CSV lines of one page after the other, so that a long history fits the memory.

    Args:
        named: whether the reader may see the names of wallets and recipients.
    """
    service = context.service
    async with service.database.read() as connection:
        decimals = await transaction_store.launched_decimals(connection)
        called = await name_store.address_book_rows(connection) if named else []
    yield csv_header()
    page: Sequence[TransactionRecord] | None = first
    async with contextlib.aclosing(others):
        while page is not None:
            async with _pause_after(context.exporting):
                naming = RowNames(service.tokens, decimals)
                if named and page:
                    wallets = await _wallets_of(context, page)
                    names = {each.id: each.name for each in wallets}
                    book = AddressBook.from_lists(wallets, called)
                    naming = RowNames(service.tokens, decimals, names, book)
                lines = csv_rows(page, naming) if page else b""
                page = await anext(others, None)
            if lines:
                yield lines


@contextlib.asynccontextmanager
async def _pause_after(turn: asyncio.Lock) -> AsyncGenerator[None, None]:
    """Pause after the block for as long as it took, before another block takes the turn.

    SQLite is read on the event loop, and a response to a fast client never waits. Without a pause
    the process would serve nothing else until the last record, and would not notice that the
    client has gone.
    """
    async with turn:
        began = time.monotonic()
        yield
        await asyncio.sleep(time.monotonic() - began)


async def _wallets_of(
    context: RouteContext, page: Sequence[TransactionRecord]
) -> Sequence[OwnWallet]:
    paid = (recipient_of(each.type, each.details) for each in page)
    addresses = {each for each in paid if each is not None}
    async with context.service.database.read() as connection:
        ids = {each.wallet_id for each in page}
        return await name_store.wallet_names(connection, ids, addresses)


async def _record_filter(
    context: RouteContext, asked: calls.TransactionFilter, wallet_id: str | None
) -> RecordFilter:
    """Return the filter of a query; without `wallet_id`, the query may name a wallet.

    Raises:
        InvalidRequest: naming the field.
        WalletNotFound: no such wallet, or not this key's.
    """
    if asked.wallet_id is not None:
        if wallet_id not in (None, asked.wallet_id):
            raise WalletNotFound
        await context.wallet(asked.wallet_id)
    since_ms, until_ms = (
        None if each is None else ms_of(str(each)) for each in (asked.since, asked.until)
    )
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidRequest("until must be later than since")
    recipient = asked.recipient
    if recipient is not None:
        recipient = await context.recipient(recipient, "recipient")
    return RecordFilter(
        wallet_id=asked.wallet_id or wallet_id,
        agent_id=None if asked.agent_id is None else asked.agent_id.lower(),
        recipient=recipient,
        type=asked.type,
        status=asked.status,
        principal=asked.principal,
        rule=asked.rule,
        q=asked.q,
        since_ms=since_ms,
        until_ms=until_ms,
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
# What spreadsheets take for the beginning of a formula, also after dropping a blank, and the
# full-width forms that some fold to it.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# Spreadsheets that separate by semicolons or tabs, as most of Europe's do, begin cells within a
# text, and know quotes only at the beginning of a cell.
_INNER: Final = re.compile(r"([;\t\r\n][\"\s]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


@dataclass(frozen=True, slots=True)
class RowNames:
    """The names of addresses, wallets and mints in the rows.

    Attributes:
        decimals: decimals by mint, of tokens that the service's wallets launched.
        wallets: id -> name.
    """

    tokens: TokenList
    decimals: Mapping[str, int]
    wallets: Mapping[str, str] = field(default_factory=dict)
    known: AddressBook = field(default_factory=AddressBook)

    def counterpart(self, address: str) -> str:
        """Return the name of an address; for a look-alike, the name that it resembles."""
        other = self.known.find_lookalike(address)
        if other is not None:
            return f"not {other.name}, looks like it"
        return self.known.called.get(address, "")


def csv_header() -> bytes:
    """Return the CSV's header line."""
    return _csv_bytes([COLUMNS])


def csv_rows(records: Iterable[TransactionRecord], naming: RowNames) -> bytes:
    """Return a CSV line for each record."""
    return _csv_bytes(_record_cells(each, naming) for each in records)


def escape_cell(text: str) -> str:
    """Return a cell's text in a form that no spreadsheet runs as a formula. A single quote goes
    before a formula's first sign: at the beginning, also after blanks, and after a semicolon, a tab
    or a line end."""
    begins = text.lstrip(" \u00a0").startswith(_FORMULA)
    return ("'" if begins else "") + _INNER.sub(r"\1'", text)


def _csv_bytes(lines: Iterable[Iterable[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()


def _record_cells(record: TransactionRecord, naming: RowNames) -> tuple[str, ...]:
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
        *_amount_cells(amount_of(record.type, details), naming),
        # An unconfirmed transaction brought nothing, whatever was asked for.
        *_amount_cells(received_of(record.type, details) if is_confirmed else None, naming),
        escape_cell(counterpart),
        escape_cell(naming.counterpart(counterpart) if counterpart else ""),
        record.wallet_id,
        escape_cell(naming.wallets.get(record.wallet_id, "")),
        escape_cell(record.agent_id or ""),
        escape_cell(record.principal),
        sol,
        lamports,
        escape_cell(record.signature or ""),
        escape_cell(rule),
        escape_cell(record.error or ""),
        record.id,
    )


def _amount_cells(found: AssetAmount | None, naming: RowNames) -> tuple[str, str, str, str]:
    """Return the cells amount, unit, mint, and smallest units if the decimals are known."""
    if found is None:
        return "", "", "", ""
    amount = f"{found.amount:f}" if isinstance(found.amount, Decimal) else str(found.amount)
    asset = found.asset
    if asset is None:
        return escape_cell(amount), "", "", ""
    if asset == _SOL:
        return escape_cell(amount), _SOL, "", _units(found, SOL_DECIMALS)
    decimals = naming.decimals.get(asset)
    if decimals is None:
        decimals = known_decimals(asset)
    unit = naming.tokens.symbol_of(asset) or ""
    return escape_cell(amount), escape_cell(unit), escape_cell(asset), _units(found, decimals)


def _units(found: AssetAmount, decimals: int | None) -> str:
    if decimals is None:
        return ""
    try:
        return str(to_units(found.amount, decimals, "amount")) if found.amount else "0"
    except InvalidRequest:
        # A plugin's own words may have any number.
        return ""
