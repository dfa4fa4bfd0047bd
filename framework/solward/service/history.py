"""The history of transactions: the newest records, and pages of records that match a filter.

The work for a filtered page is bounded. The query walks one index, newest first: the wallet's index
if the filter names a wallet, else the recipient's, else the agent's, else that of all records. It
checks the other conditions on each record it walks, at most `MOST_WALKED` for one page. A page that
ends there says where the next page begins.

The JSON of an ended record is written once and cached. Otherwise `GET transactions?limit=50` in
`python -m benchmarks rest` reaches only 0.26 to 0.28 of the bare handler's rate, and the limit is
0.44; with cached texts it reaches 0.45 to 0.59.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.prepared import Prepared
from solward.database.tables import transactions
from solward.support import jsontext
from solward.types.errors import InvalidRequest, NotFound
from solward.types.record import PLUGIN_DETAILS, TransactionRecord, TransactionStatus
from solward.vault.store import transactions as store

MOST_WALKED = 2_000
"""The maximum number of records that are compared with the filter for one page."""

_LAST_MS = 2**62
# Fields with an index; a filter's first such field is walked. A key confined to a wallet walks only
# that wallet's records, so its next page never begins at the id of another wallet's record.
_INDEXED_FIELDS = ("wallet_id", "recipient", "agent_id")
# The conditions of the partial indexes.
_INDEXED = {
    "wallet_id": text("transactions.created_ms IS NOT NULL"),
    "recipient": text("transactions.recipient IS NOT NULL"),
    "agent_id": text("transactions.agent_id IS NOT NULL"),
}
_YES: ColumnElement[int] = literal_column("1").label("fits")
_NO: ColumnElement[int] = literal_column("0").label("place")
_FIELDS = (*_INDEXED_FIELDS, "type", "status", "principal", "rule", "q")
_COLUMNS = transactions.c
# A plugin's own words are not searched: they may name any address.
_SEARCHED = (
    *(_COLUMNS[name] for name in ("id", "type", "status", "principal", "signature", "error")),
    case((_COLUMNS.details.not_like(f'%"{PLUGIN_DETAILS}"%'), _COLUMNS.details), else_=""),
)
_ESCAPE = "!"
# Conditions on other fields than a column's value. The last rule of a refused record refused it.
_CONDITIONS = {
    "rule": and_(
        _COLUMNS.status == TransactionStatus.BLOCKED.value,
        cast(_COLUMNS.guardrails_applied, Text).like(bindparam("b_rule"), escape=_ESCAPE),
    ),
    "q": or_(*(func.lower(each).like(bindparam("b_q"), escape=_ESCAPE) for each in _SEARCHED)),
}

# The number of records that an export has in memory at once.
EXPORT_PAGE: Final = 50
# Enough for about 15,000 records.
MOST_BYTES = 16 * 1024 * 1024
# The bytes of a cache entry without its text: objects, the key and its place in the table.
_ENTRY_BYTES = 300

# The key of a text: the record's id, and whether the text has the fee.
Key = tuple[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """A filter for records; a field that is None matches every record.

    Attributes:
        recipient: the recipient's address.
        rule: the rule that refused the transaction.
        q: a text in one of the record's own texts, in any case.
        since_ms: the earliest time, in milliseconds since the Unix epoch.
        until_ms: the end of the time range, exclusive.
    """

    wallet_id: str | None = None
    agent_id: str | None = None
    recipient: str | None = None
    type: str | None = None
    status: str | None = None
    principal: str | None = None
    rule: str | None = None
    q: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page of records that match a filter.

    Attributes:
        ids: the records' ids, newest first.
        next: the id of the record after which older records may match; None on the last page.
    """

    ids: list[str]
    next: str | None


class TextCache:
    """A cache of the most recently used record texts, with a maximum size in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._read_texts: OrderedDict[Key, bytes] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> bytes | None:
        """Return the text of a key, None if it is not cached."""
        text = self._read_texts.get(key)
        if text is not None:
            self._read_texts.move_to_end(key)
        return text

    def put(self, key: Key, text: bytes) -> None:
        """Store a text, and drop the texts that were used longest ago."""
        if key in self._read_texts:
            return
        self._read_texts[key] = text
        self.bytes += len(text) + _ENTRY_BYTES
        while self.bytes > self._most_bytes:
            _key, dropped = self._read_texts.popitem(last=False)
            self.bytes -= len(dropped) + _ENTRY_BYTES


class History:
    """Reads the records of a database.

    `before` is the id of a record: a page has only older records. If it is not a record's id, the
    methods raise `InvalidRequest`.
    """

    def __init__(self, database: Database, most_bytes: int = MOST_BYTES) -> None:
        self._database = database
        # Only ended records are cached. They never change, because every UPDATE of a record, in any
        # process, requires that it is `pending`.
        self._cached_texts = TextCache(most_bytes)

    async def record(self, transaction_id: str) -> TransactionRecord:
        """Return the record with this id; raises `NotFound`."""
        async with self._database.read() as connection:
            record = await store.get(connection, transaction_id)
        if record is None:
            raise NotFound("Transaction not found")
        return record

    async def newest(
        self, wallet_id: str | None = None, *, limit: int = 50, before: str | None = None
    ) -> list[TransactionRecord]:
        """Return the records of one wallet or of all, newest first."""
        async with self._database.read() as connection:
            found = await store.history(connection, wallet_id, limit, before)
            if not found:
                await _check_before(connection, before)
        return found

    async def page(
        self, wallet_id: str | None, limit: int, before: str | None, *, fee: bool
    ) -> list[bytes]:
        """Return the records of `newest`, each as JSON text in UTF-8.

        Args:
            fee: see `TransactionRecord.to_json`.
        """
        async with self._database.read() as connection:
            ids = await store.history_ids(connection, wallet_id, limit, before)
            if not ids:
                await _check_before(connection, before)
            return await self._read_texts(connection, ids, fee=fee)

    async def filtered_page(
        self, wanted: RecordFilter, limit: int, before: str | None, *, fee: bool
    ) -> tuple[list[bytes], str | None]:
        """Return a page of matching records, and the next page's `before`, None on the last page.
        Every page may have fewer than `limit` records."""
        async with self._database.read() as connection:
            page = await filtered_ids(connection, wanted, limit, before)
            if not page.ids:
                await _check_before(connection, before)
            return await self._read_texts(connection, page.ids, fee=fee), page.next

    async def pages(self, wanted: RecordFilter) -> AsyncGenerator[list[TransactionRecord], None]:
        """Yield pages of all matching records, newest first; a page may be empty."""
        before: str | None = None
        while True:
            async with self._database.read() as connection:
                page = await filtered_ids(connection, wanted, EXPORT_PAGE, before)
                found = await store.of_ids(connection, page.ids)
            yield [found[each] for each in page.ids]
            if page.next is None:
                return
            before = page.next

    async def _read_texts(
        self, connection: AsyncConnection, ids: Sequence[str], *, fee: bool
    ) -> list[bytes]:
        """Return the texts of the records with these ids, in order, with at most one query."""
        texts = {id_: self._cached_texts.get((id_, fee)) for id_ in ids}
        missing = [id_ for id_, text in texts.items() if text is None]
        if missing:
            for id_, record in (await store.of_ids(connection, missing)).items():
                text = texts[id_] = jsontext.dumps(record.to_json(fee=fee)).encode()
                if record.status is not TransactionStatus.PENDING:
                    self._cached_texts.put((id_, fee), text)
        return [text for text in texts.values() if text is not None]


async def _check_before(connection: AsyncConnection, before: str | None) -> None:
    if before is not None and await store.get(connection, before) is None:
        raise InvalidRequest("before must be the id of a transaction")


async def filtered_ids(
    connection: AsyncConnection, wanted: RecordFilter, limit: int, before: str | None
) -> RecordPage:
    """Return the newest records that match and are older than `before`, with one query."""
    given = {name: value for name, value in asdict(wanted).items() if value is not None}
    names = tuple(name for name in _FIELDS if name in given)
    parameters: dict[str, Any] = {f"b_{name}": given[name] for name in names}
    if wanted.rule is not None:
        parameters["b_rule"] = f'%"{_escape_like(wanted.rule)}"]'
    if wanted.q is not None:
        parameters["b_q"] = f"%{_escape_like(wanted.q.lower())}%"
    parameters |= {
        "b_limit": limit,
        "b_since": wanted.since_ms or 0,
        "b_last": _LAST_MS if wanted.until_ms is None else wanted.until_ms - 1,
    }
    if before is not None:
        parameters["b_before"] = before
    statement, is_walked = _page_query(names, older=before is not None)
    if is_walked:
        parameters["b_most"] = MOST_WALKED
    rows = await statement.all(connection, parameters)
    # More records may follow a full page, and a page that ended with its walk.
    is_over = len(rows) < limit and not (is_walked and rows and rows[-1][2] == MOST_WALKED)
    return RecordPage([row[0] for row in rows if row[1]], None if is_over else rows[-1][0])


def _escape_like(text: str) -> str:
    """Return a text that LIKE takes as it is."""
    return re.sub("[%_!]", r"!\g<0>", text)


@functools.cache
def _page_query(names: tuple[str, ...], *, older: bool) -> tuple[Prepared, bool]:
    """Return the query for filters with these fields, and whether it may scan extra records."""
    walked = next((name for name in _INDEXED_FIELDS if name in names), None)
    columns = transactions.c
    start: Any = bindparam("b_last")
    conditions: list[Any] = [columns.created_ms >= bindparam("b_since")]
    if older:
        place = select(columns.created_ms, columns.seq).where(columns.id == bindparam("b_before"))
        moment = place.with_only_columns(columns.created_ms).scalar_subquery()
        seq = place.with_only_columns(columns.seq).scalar_subquery()
        # Only one bound is used, so that no database walks the range of the other bound.
        start = case((moment < start, moment), else_=start)
        conditions.append(or_(columns.created_ms < moment, columns.seq < seq))
    conditions.append(columns.created_ms <= start)
    if walked is not None:
        conditions.append(columns[walked] == bindparam(f"b_{walked}"))
        if walked in _INDEXED:
            conditions.append(_INDEXED[walked])
    order = (columns.created_ms.desc(), columns.seq.desc())
    others: list[ColumnElement[bool]] = [
        _CONDITIONS[name] if name in _CONDITIONS else columns[name] == bindparam(f"b_{name}")
        for name in names
        if name != walked
    ]
    if not others:
        found = select(columns.id, _YES, _NO).where(*conditions).order_by(*order)
        return Prepared(found.limit(bindparam("b_limit"))), False
    fits = case((and_(*others), 1), else_=0).label("fits")
    number = func.row_number().over(order_by=order).label("place")
    walk = (
        select(columns.id, fits, number)
        .where(*conditions)
        .order_by(*order)
        .limit(bindparam("b_most"))
        .subquery("walk")
    )
    found = (
        select(walk.c.id, walk.c.fits, walk.c.place)
        .where(or_(walk.c.fits == 1, walk.c.place == bindparam("b_most")))
        .order_by(walk.c.place)
    )
    return Prepared(found.limit(bindparam("b_limit"))), True
