"""A filtered history: pages of the records that fit, each of bounded work.

One index is walked, newest first by time: that of the wallet where one is asked for, else of the
recipient, else of the agent, else of all. What the index does not say is asked of each record that
is walked, of `MOST_WALKED` in one page; a page that ends there says where the next one goes on.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, func, literal_column, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import transactions

MOST_WALKED = 2_000
"""Records that one page looks at."""

_LAST_MS = 2**62
# What has an index of its own, first the one that is walked. A key that is confined to a wallet
# walks its own records alone, so no other's id is where its next page begins.
_WALKED = ("wallet_id", "recipient", "agent_id")
# As the partial indexes have it.
_INDEXED = {
    "wallet_id": text("transactions.created_ms IS NOT NULL"),
    "recipient": text("transactions.recipient IS NOT NULL"),
    "agent_id": text("transactions.agent_id IS NOT NULL"),
}
_YES: ColumnElement[int] = literal_column("1").label("fits")
_NO: ColumnElement[int] = literal_column("0").label("place")
_FIELDS = (*_WALKED, "type", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """What the records of a history have in common; None asks for nothing.

    Attributes:
        recipient: an address.
        since_ms: of milliseconds since the Unix epoch the first.
        until_ms: the first after the last.
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
        next: the record after which older ones may fit; None where there are none.
    """

    ids: list[str]
    next: str | None


async def filtered_ids(
    connection: AsyncConnection, wanted: RecordFilter, limit: int, before: str | None
) -> RecordPage:
    """The newest records that fit, older than the record `before`; one query."""
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
    """The statement for these fields, of rows `(id, fits, place)`, and whether it walks more
    records than it gives."""
    walked = next((name for name in _WALKED if name in names), None)
    columns = transactions.c
    start: Any = bindparam("b_last")
    conditions: list[Any] = [columns.created_ms >= bindparam("b_since")]
    if older:
        place = select(columns.created_ms, columns.seq).where(columns.id == bindparam("b_before"))
        moment = place.with_only_columns(columns.created_ms).scalar_subquery()
        seq = place.with_only_columns(columns.seq).scalar_subquery()
        # One bound, so that no database walks the other one's range.
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
