"""Transaction records, newest first, of one wallet or of all, and those that fit a filter."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Sequence

from quart import Blueprint, Response, request

from solward.resources.examples import WALLET
from solward.resources.fields import nullable
from solward.resources.schema import array, identifier, ref, response_object
from solward.service.record_filter import RecordFilter
from solward.support.clock import iso, now_ms
from solward.support.known_addresses import KnownAddress, KnownAddresses
from solward.types.errors import InvalidRequest, NotFound, WalletNotFound
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType, recipient_of
from solward.types.roles import Role
from solward.vault.store import contacts as contact_store
from solward.vault.store import names as name_store
from solward.vault.store import transactions as transaction_store
from solward_server import history_csv
from solward_server.history_csv import Naming
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import (
    list_response,
    query_choice,
    query_flag,
    query_limit,
    query_text,
    query_time,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import (
    BEFORE_RECORD,
    FEES,
    FILTERS,
    LIMIT,
    OF_WALLET,
    WALLET_ADDRESS,
    WALLET_ID,
)

MAX_FILTER = 200
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
CSV = "text/csv"


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /transactions` and `GET /wallets/:id/transactions`; `before=<id>` pages."""
    routes = Blueprint("transactions", __name__)
    exporting = asyncio.Lock()

    @routes.get("/transactions")
    @keyed(Role.READ)
    async def across_wallets() -> Response:
        return await _listing(context, caller().wallet_id)

    @routes.get("/transactions.csv")
    @keyed(Role.READ)
    async def export() -> Response:
        wanted = await read_filter(context, caller().wallet_id)
        records = context.service.filtered_transactions(wanted)
        # Read before the status is sent, so that an error has its own status.
        first = await anext(records)
        body: AsyncGenerator[bytes, None] | bytes = _exported(
            context, first, records, exporting, named=caller().key is None
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

    @routes.get("/wallets/<wallet_id>/transactions")
    @keyed(Role.READ)
    async def of_wallet(wallet_id: str) -> Response:
        await context.wallet(wallet_id)
        return await _listing(context, wallet_id)

    return routes


# What makes a list a filtered one, which goes by time and says where its next page begins.
_FILTERS = frozenset(each["name"] for each in (*FILTERS, OF_WALLET))


async def _listing(context: RouteContext, wallet_id: str | None) -> Response:
    fee, before = query_flag("fees"), query_text("before")
    if before is not None and caller().wallet_id is not None:
        await _check_own(context, before, caller().wallet_id)
    if not _FILTERS.isdisjoint(request.args):
        wanted = await read_filter(context, wallet_id)
        texts, behind = await context.service.filtered_transactions_json(
            wanted, limit=query_limit(), before=before, fee=fee
        )
        return list_response("transactions", texts, {"next": behind})
    records = await context.service.transactions_json(
        wallet_id, limit=query_limit(), before=before, fee=fee
    )
    return list_response("transactions", records)


async def _check_own(context: RouteContext, before: str, wallet_id: str | None) -> None:
    """Raise as for no record where a key that is confined to a wallet names one of another: a page
    behind it would say when that was made."""
    try:
        record = await context.service.record(before)
    except NotFound:
        record = None
    if record is None or record.wallet_id != wallet_id:
        raise InvalidRequest("before must be the id of a transaction")


async def _exported(
    context: RouteContext,
    first: Sequence[TransactionRecord],
    others: AsyncGenerator[list[TransactionRecord], None],
    exporting: asyncio.Lock,
    *,
    named: bool,
) -> AsyncGenerator[bytes, None]:
    """The lines of a page at a time, so that no more of a long history is held.

    Args:
        exporting: of whoever makes a page: all exports together take half of the event loop's time
            at most.
        named: whether the reader may know what wallets and recipients are called.
    """
    service = context.service
    async with service.database.read() as connection:
        decimals = await transaction_store.launched_decimals(connection)
        called = await contact_store.listed(connection) if named else []
    yield history_csv.header()
    page: Sequence[TransactionRecord] | None = first
    async with contextlib.aclosing(others):
        while page is not None:
            async with _pausing(exporting):
                naming = Naming(service.tokens, decimals)
                if named and page:
                    wallets = await _wallets_of(context, page)
                    # As no contact is called: who holds a key names wallets too.
                    own = [KnownAddress(each.address, f"wallet {each.name}") for each in wallets]
                    names = {each.id: each.name for each in wallets}
                    addresses = KnownAddresses([*own, *called])
                    naming = Naming(service.tokens, decimals, names, addresses)
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
) -> list[name_store.WalletName]:
    paid = (recipient_of(each.type, each.details) for each in page)
    addresses = {each for each in paid if each is not None}
    async with context.service.database.read() as connection:
        ids = {each.wallet_id for each in page}
        return await name_store.wallet_names(connection, ids, addresses)


async def read_filter(context: RouteContext, wallet_id: str | None) -> RecordFilter:
    """The filter of the query string, of a wallet that the route or the key names, else of the
    query's own.

    Raises:
        InvalidRequest: naming the field.
        WalletNotFound: no such wallet, or not this key's.
    """
    asked = query_text("walletId")
    if asked is not None and wallet_id not in (None, asked):
        raise WalletNotFound
    if asked is not None:
        await context.wallet(asked)
    agent_id, recipient = query_text("agentId"), query_text("recipient")
    if agent_id is not None and _UUID.fullmatch(agent_id) is None:
        raise InvalidRequest("agentId must be the id of an agent")
    if recipient is not None and not 0 < len(recipient) <= MAX_FILTER:
        raise InvalidRequest(f"recipient must be a string of 1 to {MAX_FILTER} characters")
    since_ms, until_ms = query_time("since"), query_time("until")
    if since_ms is not None and until_ms is not None and until_ms <= since_ms:
        raise InvalidRequest("until must be later than since")
    type_, status = query_choice("type", TransactionType), query_choice("status", TransactionStatus)
    return RecordFilter(
        wallet_id=wallet_id if asked is None else asked,
        agent_id=None if agent_id is None else agent_id.lower(),
        recipient=None if recipient is None else await context.recipient(recipient, "recipient"),
        type=type_,
        status=status,
        since_ms=since_ms,
        until_ms=until_ms,
    )


_LIST = success(
    response_object(
        {
            "transactions": array(ref("Transaction"), "Newest first."),
            "next": nullable(
                identifier(
                    "Only in the answer to a filter: `before` of its next page, null where no "
                    "older record fits. A page may have fewer records than `limit`, or none, and "
                    "one behind it."
                )
            ),
        },
        optional=["next"],
    ),
    {
        "transactions": [
            {
                "id": "93698b99-39ce-4d15-841f-684b9de7d8bc",
                "walletId": WALLET,
                "principal": "admin",
                "type": "transfer",
                "status": "blocked",
                "details": {
                    "from": WALLET_ADDRESS,
                    "to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
                    "amount": 5,
                },
                "guardrailsApplied": ["max_per_tx"],
                "timestamp": "2026-11-21T10:34:55.479Z",
                "error": "5 SOL is more than the 2 SOL allowed per transaction (limit of the "
                "wallet)",
            }
        ]
    },
)
_BAD_REQUEST = [
    "limit must be a whole number from 1 to 500",
    "before must be the id of a transaction",
    "fees must be true or false",
    "status must be one of pending, confirmed, failed, blocked",
    "since must be an ISO 8601 time with a zone, such as 2026-12-31T00:00:00Z",
]

_LINES = (
    "time,status,type,amount,unit,...\r\n2026-11-21T10:34:55.479Z,blocked,transfer,5,SOL,...\r\n"
)

PATHS = {
    "/transactions.csv": {
        "get": operation(
            "exportTransactions",
            "Records as CSV",
            tag="transactions",
            access=Access.KEY,
            description="All that fit, newest first. A key that is confined to one wallet gets "
            "that wallet's, and no key gets names.",
            parameters=[OF_WALLET, *FILTERS],
            response={
                "description": "RFC 4180 in UTF-8, with a header.",
                "content": {CSV: {"schema": {"type": "string"}, "example": _LINES}},
            },
            errors={400: _BAD_REQUEST[3:], 404: NO_WALLET},
        )
    },
    "/transactions": {
        "get": operation(
            "listTransactions",
            "Records of all wallets",
            tag="transactions",
            access=Access.KEY,
            description="A key that is confined to one wallet sees that wallet's.",
            parameters=[LIMIT, BEFORE_RECORD, FEES, OF_WALLET, *FILTERS],
            response=_LIST,
            errors={400: _BAD_REQUEST, 404: NO_WALLET},
        )
    },
    "/wallets/{walletId}/transactions": {
        "get": operation(
            "listWalletTransactions",
            "Records of one wallet",
            tag="transactions",
            access=Access.KEY,
            parameters=[WALLET_ID, LIMIT, BEFORE_RECORD, FEES, *FILTERS],
            response=_LIST,
            errors={400: _BAD_REQUEST, 404: NO_WALLET},
        )
    },
}
