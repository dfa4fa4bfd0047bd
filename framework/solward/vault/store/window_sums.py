"""Statements that sum scopes' time windows, from rows and hourly totals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import reservation_totals, reservations
from solward.support import jsontext
from solward.support.durations import HOUR_MS

# Units are stored as high * HALF + low, so that the sum of each half does not overflow.
HALF: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class WindowSum:
    """The units of an asset and the number of transactions in one window."""

    units: int = 0
    transactions: int = 0


# Adds the rows of the hour in which the window begins to the totals of the following hours. A row
# with a time after now, stamped by a clock ahead of ours, is in every window.
_SUM = (
    " SELECT i, sum(high) AS high, sum(low) AS low, sum(count) AS count FROM ("
    "SELECT needs.i AS i, rows.units >> 32 AS high, rows.units & 4294967295 AS low, 1 AS count"
    " FROM needs CROSS JOIN reservations AS rows WHERE rows.scope = needs.scope"
    " AND rows.asset = needs.asset AND rows.created_ms > needs.after"
    " AND rows.created_ms < (needs.after / 3600000 + 1) * 3600000"
    " UNION ALL SELECT needs.i, totals.high, totals.low, totals.count"
    " FROM needs CROSS JOIN reservation_totals AS totals WHERE totals.scope = needs.scope"
    " AND totals.asset = needs.asset AND totals.hour > needs.after / 3600000"
    ") AS parts GROUP BY i"
)
_NEEDS_SQLITE = (
    "WITH needs AS MATERIALIZED (SELECT key AS i, json_extract(value, '$[0]') AS scope,"
    " json_extract(value, '$[1]') AS asset, json_extract(value, '$[2]') AS after"
    " FROM json_each(:needs))"
)
_NEEDS_POSTGRES = (
    "WITH needs AS MATERIALIZED (SELECT i - 1 AS i, scope, asset, after FROM unnest("
    "CAST(:scopes AS text[]), CAST(:assets AS text[]), CAST(:afters AS bigint[]))"
    " WITH ORDINALITY AS each(scope, asset, after, i))"
)
_SUM_SQLITE = Prepared(text(_NEEDS_SQLITE + _SUM))
_SUM_POSTGRES = Prepared(text(_NEEDS_POSTGRES + _SUM))


async def sum_windows(
    connection: AsyncConnection, needs: Collection[tuple[str, str, int]], now_ms: int
) -> dict[tuple[str, str, int], WindowSum]:
    """Sum what each scope has counted of an asset in (now - length, now], in one query.

    Args:
        needs: (scope, asset, length of the window in ms) of each sum.
        now_ms: the time at which the windows end.
    """
    wanted = list(needs)
    if not wanted:
        return {}
    afters = [now_ms - length for _, _, length in wanted]
    if connection.dialect.name == "sqlite":
        rows = [
            [scope, asset, after] for (scope, asset, _), after in zip(wanted, afters, strict=True)
        ]
        found = await _SUM_SQLITE.all(connection, {"needs": jsontext.dumps_own(rows)})
    else:
        parameters = {
            "scopes": [scope for scope, _, _ in wanted],
            "assets": [asset for _, asset, _ in wanted],
            "afters": afters,
        }
        found = await _SUM_POSTGRES.all(connection, parameters)
    sums = dict.fromkeys(wanted, WindowSum())
    for i, high, low, count in found:
        sums[wanted[int(i)]] = WindowSum(units(high, low), int(count))
    return sums


_NEEDS_OF_WALLETS = (
    "WITH needs AS MATERIALIZED (SELECT 0 AS i, 'wallet:' || id AS scope,"
    " CAST(:asset AS text) AS asset, CAST(:after AS bigint) AS after FROM wallets)"
)
_SUM_OF_WALLETS = Prepared(text(_NEEDS_OF_WALLETS + _SUM))


async def sum_all_wallets(
    connection: AsyncConnection, asset: str, length_ms: int, now_ms: int
) -> int:
    """Return the units that all wallets together have counted of an asset in a window."""
    after = now_ms - length_ms
    row = await _SUM_OF_WALLETS.first(connection, {"asset": asset, "after": after})
    return 0 if row is None else units(row.high, row.low)


_HOURS = (
    select(
        reservation_totals.c.hour,
        reservation_totals.c.high,
        reservation_totals.c.low,
        reservation_totals.c.count,
    )
    .where(
        reservation_totals.c.scope == bindparam("scope"),
        reservation_totals.c.asset == bindparam("asset"),
        reservation_totals.c.hour > bindparam("hour"),
    )
    .order_by(reservation_totals.c.hour)
)
_ROWS = (
    select(reservations.c.created_ms, reservations.c.units)
    .where(
        reservations.c.scope == bindparam("scope"),
        reservations.c.asset == bindparam("asset"),
        reservations.c.created_ms > bindparam("after"),
        reservations.c.created_ms < bindparam("before"),
    )
    .order_by(reservations.c.created_ms)
)


async def room_at(
    connection: AsyncConnection,
    scope: str,
    asset: str,
    length_ms: int,
    excess: int,
    now_ms: int,
    *,
    transactions: bool = False,
) -> int | None:
    """Return the Unix milliseconds when `excess` will have left the window; None if never.

    Args:
        excess: units or transactions now above the limit; more than 0.
        transactions: True to count transactions, False to count units.
    """
    after = now_ms - length_ms
    hours = await connection.execute(
        _HOURS, {"scope": scope, "asset": asset, "hour": after // HOUR_MS}
    )
    parts = [(after // HOUR_MS, None), *((int(row.hour), row) for row in hours)]
    left = excess
    for hour, total in parts:
        if total is not None:
            inside = int(total[3]) if transactions else units(total[1], total[2])
            if inside < left:
                left -= inside
                continue
        parameters = {
            "scope": scope,
            "asset": asset,
            "after": max(after, hour * HOUR_MS - 1),
            "before": (hour + 1) * HOUR_MS,
        }
        for row in await connection.execute(_ROWS, parameters):
            left -= 1 if transactions else int(row.units)
            if left <= 0:
                return int(row.created_ms) + length_ms
    return None


# Goes from each scope to the next, because DISTINCT would read every hour of every scope. Scopes
# are ordered by their bytes, so the scopes of grants are neighbours.
_SCOPES = text(
    "WITH RECURSIVE scopes(scope) AS (SELECT min(scope) FROM reservation_totals"
    " WHERE scope >= 'grant:' AND scope < 'grant;' UNION ALL"
    " SELECT (SELECT min(totals.scope) FROM reservation_totals AS totals"
    " WHERE totals.scope > scopes.scope AND totals.scope < 'grant;')"
    " FROM scopes WHERE scopes.scope IS NOT NULL)"
    " SELECT scope FROM scopes WHERE scope IS NOT NULL"
)


async def grants_that_count(connection: AsyncConnection) -> frozenset[str]:
    """Return the scopes of grants that have hourly totals."""
    return frozenset((await connection.execute(_SCOPES)).scalars())


def halves(column: ColumnElement[int]) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """Return the sums `high` and `low` of a column of units; they cannot overflow."""
    high, low = column.op(">>")(literal_column("32")), column.op("&")(literal_column(str(HALF - 1)))
    return func.sum(high).label("high"), func.sum(low).label("low")


def units(high: Any, low: Any) -> int:
    """Return the units that the two sums of `halves` represent."""
    return int(high) * HALF + int(low)


_LOCK_TOTALS = Prepared(
    text(
        "SELECT 1 FROM reservation_totals AS totals"
        " WHERE (totals.scope, totals.asset, totals.hour) IN ("
        "SELECT rows.scope, rows.asset, rows.created_ms / 3600000 FROM reservations AS rows"
        " WHERE rows.transaction_id = ANY(CAST(:ids AS text[])))"
        " ORDER BY totals.scope, totals.asset, totals.hour FOR UPDATE OF totals"
    )
)


async def lock_totals(connection: AsyncConnection, transaction_ids: Collection[str]) -> None:
    """Lock the totals that will change with these transactions' reservations.

    All callers lock in one order, to prevent deadlocks. SQLite needs no lock: it has one writer.
    """
    if connection.dialect.name != "sqlite" and transaction_ids:
        await _LOCK_TOTALS.all(connection, {"ids": list(transaction_ids)})


_SEED_ROWS = insert(reservations)
_FORGET = delete(reservations).where(reservations.c.scope == bindparam("b_scope"))


async def replace_counted(
    connection: AsyncConnection, scope: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Replace the rows of a grant's scope in `reservations`."""
    await connection.execute(_FORGET, {"b_scope": scope})
    if rows:
        await connection.execute(_SEED_ROWS, list(rows))
