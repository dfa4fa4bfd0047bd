"""The history of transactions: its newest records, and pages of records that fit a filter.

A filtered page is of bounded work. One index is walked, newest first by time: that of the wallet
where one is asked for, else of the recipient, else of the agent, else of all. What the index does
not say is asked of each record that is walked, of `MOST_WALKED` in one page; a page that ends there
says where the next one goes on.

A record that has ended is written as JSON once. The row `GET transactions?limit=50` of
`python -m benchmarks rest` needs it: read and written anew each time, a page comes to 0.26 and 0.28
of the bare handler, where the limit is 0.44; with texts that are kept it comes to 0.45 to 0.59.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, case, func, literal_column, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.prepared import Prepared
from solward.database.tables import transactions
from solward.support import jsontext
from solward.types.errors import InvalidRequest, NotFound
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.store import transactions as store

MOST_WALKED = 2_000
"""The most records that one page looks at."""

_LAST_MS = 2**62
# Fields with an index; the first one of a filter is walked. A key confined to a wallet walks only
# that wallet's records, so its next page never begins at another wallet's id.
_WALKED = ("wallet_id", "recipient", "agent_id")
# The conditions of the partial indexes.
_INDEXED = {
    "wallet_id": text("transactions.created_ms IS NOT NULL"),
    "recipient": text("transactions.recipient IS NOT NULL"),
    "agent_id": text("transactions.agent_id IS NOT NULL"),
}
_YES: ColumnElement[int] = literal_column("1").label("fits")
_NO: ColumnElement[int] = literal_column("0").label("place")
_FIELDS = (*_WALKED, "type", "status")

# The records that an export holds in memory at once.
EXPORT_PAGE: Final = 50
# Enough for about 15,000 records.
MOST_BYTES = 16 * 1024 * 1024
# The bytes of an entry without its text: objects, the key and its place in the table.
_ENTRY_BYTES = 300

# A record's id, and whether the fee is in the text.
Key = tuple[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """A filter of a history; a field that is None matches every record.

    Attributes:
        recipient: an address.
        since_ms: the first moment, in milliseconds since the Unix epoch.
        until_ms: the first moment after the last.
    """

    wallet_id: str | None = None
    agent_id: str | None = None
    recipient: str | None = None
    type: str | None = None
    status: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page of a filtered history.

    Attributes:
        ids: of the records, newest first by time.
        next: the record after which older ones may fit; None if there are none.
    """

    ids: list[str]
    next: str | None


class KeptTexts:
    """The most recently used texts of records, in so many bytes of memory at most."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._texts: OrderedDict[Key, bytes] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> bytes | None:
        """Return the text of a key, None if it is not kept."""
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
        return text

    def keep(self, key: Key, text: bytes) -> None:
        """Keep a text, and drop those that were not used for the longest time."""
        if key in self._texts:
            return
        self._texts[key] = text
        self.bytes += len(text) + _ENTRY_BYTES
        while self.bytes > self._most_bytes:
            _key, dropped = self._texts.popitem(last=False)
            self.bytes -= len(dropped) + _ENTRY_BYTES


class History:
    """The records of a database.

    Of each call a key `before` is the record that those of a page are older than; raises
    `InvalidRequest` where it is none.
    """

    def __init__(self, database: Database, most_bytes: int = MOST_BYTES) -> None:
        self._database = database
        # What has ended is kept: every UPDATE of a record asks that it is `pending`, so that an
        # ended one never changes, whichever process ends it.
        self._kept = KeptTexts(most_bytes)

    async def record(self, transaction_id: str) -> TransactionRecord:
        """Return one record; raises `NotFound`."""
        async with self._database.read() as connection:
            record = await store.get(connection, transaction_id)
        if record is None:
            raise NotFound("Transaction not found")
        return record

    async def newest(
        self, wallet_id: str | None = None, *, limit: int = 50, before: str | None = None
    ) -> list[TransactionRecord]:
        """Return records newest first, of one wallet or all."""
        async with self._database.read() as connection:
            found = await store.history(connection, wallet_id, limit, before)
            if not found:
                await _check_place(connection, before)
        return found

    async def page(
        self, wallet_id: str | None, limit: int, before: str | None, *, fee: bool
    ) -> list[bytes]:
        """Return the records of `newest`, each as JSON in UTF-8.

        Args:
            fee: see `TransactionRecord.to_json`.
        """
        async with self._database.read() as connection:
            ids = await store.history_ids(connection, wallet_id, limit, before)
            if not ids:
                await _check_place(connection, before)
            return await self._texts(connection, ids, fee=fee)

    async def filtered_page(
        self, wanted: RecordFilter, limit: int, before: str | None, *, fee: bool
    ) -> tuple[list[bytes], str | None]:
        """Return a page of the records that fit, and the id after which the next page begins,
        None on the last one. A page that is not the last may have fewer than `limit` records."""
        async with self._database.read() as connection:
            page = await filtered_ids(connection, wanted, limit, before)
            if not page.ids:
                await _check_place(connection, before)
            return await self._texts(connection, page.ids, fee=fee), page.next

    async def every(self, wanted: RecordFilter) -> AsyncGenerator[list[TransactionRecord], None]:
        """Yield every record that fits, a page at a time, newest first; pages may be empty."""
        before: str | None = None
        while True:
            async with self._database.read() as connection:
                page = await filtered_ids(connection, wanted, EXPORT_PAGE, before)
                found = await store.of_ids(connection, page.ids)
            yield [found[each] for each in page.ids]
            if page.next is None:
                return
            before = page.next

    async def _texts(
        self, connection: AsyncConnection, ids: Sequence[str], *, fee: bool
    ) -> list[bytes]:
        """Return the records of these ids, in their order; one query reads those not kept."""
        texts = {id_: self._kept.get((id_, fee)) for id_ in ids}
        missing = [id_ for id_, text in texts.items() if text is None]
        if missing:
            for id_, record in (await store.of_ids(connection, missing)).items():
                text = texts[id_] = jsontext.dumps(record.to_json(fee=fee)).encode()
                if record.status is not TransactionStatus.PENDING:
                    self._kept.keep((id_, fee), text)
        return [text for text in texts.values() if text is not None]


async def _check_place(connection: AsyncConnection, before: str | None) -> None:
    if before is not None and await store.get(connection, before) is None:
        raise InvalidRequest("before must be the id of a transaction")


async def filtered_ids(
    connection: AsyncConnection, wanted: RecordFilter, limit: int, before: str | None
) -> RecordPage:
    """Return the newest records that fit, older than the record `before`; one query."""
    given = {name: value for name, value in asdict(wanted).items() if value is not None}
    names = tuple(name for name in _FIELDS if name in given)
    parameters: dict[str, Any] = {f"b_{name}": given[name] for name in names}
    parameters |= {
        "b_limit": limit,
        "b_since": wanted.since_ms or 0,
        "b_last": _LAST_MS if wanted.until_ms is None else wanted.until_ms - 1,
    }
    if before is not None:
        parameters["b_before"] = before
    statement, is_walked = _page(names, older=before is not None)
    if is_walked:
        parameters["b_most"] = MOST_WALKED
    rows = await statement.all(connection, parameters)
    # A full page may have more behind it, and so may one that ends where its walk did.
    is_over = len(rows) < limit and not (is_walked and rows and rows[-1][2] == MOST_WALKED)
    return RecordPage([row[0] for row in rows if row[1]], None if is_over else rows[-1][0])


@functools.cache
def _page(names: tuple[str, ...], *, older: bool) -> tuple[Prepared, bool]:
    """Return the statement for these fields, and whether it walks more records than it gives."""
    walked = next((name for name in _WALKED if name in names), None)
    columns = transactions.c
    start: Any = bindparam("b_last")
    conditions: list[Any] = [columns.created_ms >= bindparam("b_since")]
    if older:
        place = select(columns.created_ms, columns.seq).where(columns.id == bindparam("b_before"))
        moment = place.with_only_columns(columns.created_ms).scalar_subquery()
        seq = place.with_only_columns(columns.seq).scalar_subquery()
        # A single bound, so that no database walks the range of the other one.
        start = case((moment < start, moment), else_=start)
        conditions.append(or_(columns.created_ms < moment, columns.seq < seq))
    conditions.append(columns.created_ms <= start)
    if walked is not None:
        conditions.append(columns[walked] == bindparam(f"b_{walked}"))
        if walked in _INDEXED:
            conditions.append(_INDEXED[walked])
    order = (columns.created_ms.desc(), columns.seq.desc())
    others = [columns[name] == bindparam(f"b_{name}") for name in names if name != walked]
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
