"""Transaction records, newest first, of one wallet or of all, and those that fit a filter; what was
refused and why, and one transaction with what it could have taken."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from quart import Response, request

from solward.database import names as name_store
from solward.operations.policies.refusals import record_json
from solward.operations.policies.refusals import refusals as refusals_json
from solward.resources import transactions as calls
from solward.resources.declare import fields_of
from solward.resources.shared import OfWallet
from solward.service.history import RecordFilter
from solward.support.clock import iso, ms_of, now_ms
from solward.types.address_book import AddressBook, OwnWallet
from solward.types.errors import InvalidRequest, NotFound, WalletNotFound
from solward.types.record import TransactionRecord, recipient_of
from solward.types.roles import Role
from solward.vault.store import transactions as transaction_store
from solward_server import history_csv
from solward_server.history_csv import Naming
from solward_server.http.auth import caller, keyed
from solward_server.http.body import list_response, query_of
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.parameters import NOT_FOUND
from solward_server.openapi.route import Routes

CSV = "text/csv"
_LINES = (
    "time,status,type,amount,unit,...\r\n2026-11-21T10:34:55.479Z,blocked,transfer,5,SOL,...\r\n"
)
_BEFORE = "before must be the id of a transaction"

routes = Routes("transactions", "Records of everything that was asked for.")


@routes.serve(calls.LIST_TRANSACTIONS, keyed(Role.READ), {400: _BEFORE, 404: NO_WALLET})
async def across_wallets(context: RouteContext) -> Response:
    return await _listing(context, caller().wallet_id)


@routes.serve(calls.LIST_WALLET_TRANSACTIONS, keyed(Role.READ), {400: _BEFORE})
async def of_wallet(context: RouteContext, wallet_id: str) -> Response:
    await context.wallet(wallet_id)
    return await _listing(context, wallet_id)


@routes.serve(
    calls.EXPORT_TRANSACTIONS,
    keyed(Role.READ),
    {404: NO_WALLET},
    response={
        "description": "RFC 4180 in UTF-8, with a header.",
        "content": {CSV: {"schema": {"type": "string"}, "example": _LINES}},
    },
)
async def export(context: RouteContext) -> Response:
    asked = query_of(calls.TransactionFilter)
    wanted = await _record_filter(context, asked, caller().wallet_id)
    records = context.service.history.every(wanted)
    # Read before the status is sent, so that an error has its own status.
    first = await anext(records)
    body: AsyncGenerator[bytes, None] | bytes = _exported(
        context, first, records, named=caller().key is None
    )
    if request.method != "GET":
        # A HEAD request has no body to wait for.
        body = b""
    response = Response(body, 200, content_type=f"{CSV}; charset=utf-8; header=present")
    name = f"solward-transactions-{iso(now_ms())[:10]}.csv"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    # Their number is not known, so no time is too long for them.
    response.timeout = None
    return response


@routes.serve(calls.GET_TRANSACTION, keyed(Role.READ))
async def one(context: RouteContext, transaction_id: str) -> dict[str, Any]:
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


async def _listing(context: RouteContext, wallet_id: str | None) -> Response:
    asked = query_of(calls.ListedTransactions)
    page: Any = {"limit": asked.limit, "before": asked.before, "fee": asked.fees}
    if asked.before is not None and caller().wallet_id is not None:
        await _check_own(context, asked.before, caller().wallet_id)
    # A filtered list goes by time, and says where its next page begins.
    if any(getattr(asked, each.name) is not None for each in fields_of(calls.TransactionFilter)):
        wanted = await _record_filter(context, asked, wallet_id)
        texts, behind = await context.service.history.filtered_page(wanted, **page)
        return list_response("transactions", texts, {"next": behind})
    records = await context.service.history.page(wallet_id, **page)
    return list_response("transactions", records)


async def _check_own(context: RouteContext, before: str, wallet_id: str | None) -> None:
    """Raise as for no record where a key that is confined to a wallet names one of another: a page
    behind it would say when that was made."""
    try:
        record = await context.service.history.record(before)
    except NotFound:
        record = None
    if record is None or record.wallet_id != wallet_id:
        raise InvalidRequest(_BEFORE)


async def _exported(
    context: RouteContext,
    first: Sequence[TransactionRecord],
    others: AsyncGenerator[list[TransactionRecord], None],
    *,
    named: bool,
) -> AsyncGenerator[bytes, None]:
    """The lines of a page at a time, so that no more of a long history is held.

    Args:
        named: whether the reader may know what wallets and recipients are called.
    """
    service = context.service
    async with service.database.read() as connection:
        decimals = await transaction_store.launched_decimals(connection)
        called = await name_store.address_book_rows(connection) if named else []
    yield history_csv.header()
    page: Sequence[TransactionRecord] | None = first
    async with contextlib.aclosing(others):
        while page is not None:
            async with _pausing(context.exporting):
                naming = Naming(service.tokens, decimals)
                if named and page:
                    wallets = await _wallets_of(context, page)
                    names = {each.id: each.name for each in wallets}
                    book = AddressBook.of(wallets, called)
                    naming = Naming(service.tokens, decimals, names, book)
                lines = history_csv.rows(page, naming) if page else b""
                page = await anext(others, None)
            if lines:
                yield lines


@contextlib.asynccontextmanager
async def _pausing(turn: asyncio.Lock) -> AsyncGenerator[None, None]:
    """Pause for as long as the block took, before the next of the same turn begins.

    SQLite is read on the event loop, and a client that reads as fast as is written never lets a
    response wait: without a pause nothing else is served until the last record, nor is it noticed
    that the client has gone.
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
    """The filter of a wallet that the route or the key names, else of the query's own.

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
        since_ms=since_ms,
        until_ms=until_ms,
    )
