"""Grants as stored, what they have counted, what was judged by them, and whom wallets paid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    TableClause,
    bindparam,
    column,
    delete,
    func,
    insert,
    literal,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from solward import jsontext
from solward.hold import HoldState
from solward.record import TransactionStatus
from solward.vault.store.tables import (
    address_book,
    grant_sets,
    grant_totals,
    grant_version,
    holds,
    judged_effects,
    paid_recipients,
    pockets,
    reservations,
    transactions,
    wallets,
)
from solward.vault.store.transactions import UNFINISHED

HOUR_MS = 3_600_000
# Ids of one query.
_PAGE = 500
SCOPE_PREFIX = "grant:"
# What the smallest units of a token and lamports are counted under.
_SOL = "SOL"
_HALF = 1 << 32

# The sets and the book.

VERSION = select(grant_version.c.version).where(grant_version.c.id == 1).scalar_subquery()
"""How often grants or book were changed."""
_COUNT_UP = (
    update(grant_version)
    .values(version=grant_version.c.version + 1)
    .returning(grant_version.c.version)
)
_SETS = select(grant_sets.c.principal, grant_sets.c.grants)
_SETS_OF = _SETS.where(grant_sets.c.principal.in_(bindparam("principals", expanding=True)))


async def version(connection: AsyncConnection) -> int:
    """How often grants or book were changed; what was read under another one may be wrong."""
    return int((await connection.execute(select(VERSION))).scalar_one())


async def count_up(connection: AsyncConnection) -> int:
    """Let every cache end; returns the new version."""
    return int((await connection.execute(_COUNT_UP)).scalar_one())


async def sets_of(
    connection: AsyncConnection, principals: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """principal -> its grants as stored, of those that are under grants."""
    rows = await connection.execute(_SETS_OF, {"principals": list(principals)})
    return {row.principal: jsontext.loads(row.grants) for row in rows}


async def all_sets(connection: AsyncConnection) -> dict[str, list[dict[str, Any]]]:
    """As `sets_of`, of every principal, in their order."""
    rows = await connection.execute(_SETS.order_by(grant_sets.c.principal))
    return {row.principal: jsontext.loads(row.grants) for row in rows}


async def put_set(
    connection: AsyncConnection,
    principal: str,
    grants: Sequence[Mapping[str, Any]] | None,
    changed_ms: int,
) -> None:
    """Replace a principal's grants; None takes it out of grants altogether."""
    await connection.execute(delete(grant_sets).where(grant_sets.c.principal == principal))
    if grants is not None:
        row = {
            "principal": principal,
            "grants": jsontext.dumps([dict(each) for each in grants]),
            "changed_ms": changed_ms,
        }
        await connection.execute(insert(grant_sets), [row])


class BookRow(NamedTuple):
    """One address of the book."""

    name: str
    address: str
    note: str | None


async def book(connection: AsyncConnection) -> list[BookRow]:
    """The address book, by names and addresses."""
    statement = select(address_book).order_by(address_book.c.name, address_book.c.address)
    return [BookRow(*row) for row in await connection.execute(statement)]


async def put_book(connection: AsyncConnection, rows: Iterable[BookRow]) -> None:
    """Replace the address book."""
    await connection.execute(delete(address_book))
    if found := [row._asdict() for row in rows]:
        await connection.execute(insert(address_book), found)


# What grants have counted.


@dataclass(frozen=True, slots=True)
class Counted:
    """A sum over one window: units of the asset, and transactions."""

    units: int = 0
    transactions: int = 0


# The rows of the hour in which the window begins, and the totals of those after it. What is stamped
# later than now, by a clock that was ahead, is in every window.
_SUM = (
    " SELECT i, sum(high) AS high, sum(low) AS low, sum(count) AS count FROM ("
    "SELECT needs.i AS i, rows.units >> 32 AS high, rows.units & 4294967295 AS low, 1 AS count"
    " FROM needs CROSS JOIN reservations AS rows WHERE rows.scope = needs.scope"
    " AND rows.asset = needs.asset AND rows.created_ms > needs.after"
    " AND rows.created_ms < (needs.after / 3600000 + 1) * 3600000"
    " UNION ALL SELECT needs.i, totals.high, totals.low, totals.count"
    " FROM needs CROSS JOIN grant_totals AS totals WHERE totals.scope = needs.scope"
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
_SUM_SQLITE = text(_NEEDS_SQLITE + _SUM)
_SUM_POSTGRES = text(_NEEDS_POSTGRES + _SUM)


async def counted(
    connection: AsyncConnection, needs: Collection[tuple[str, str, int]], now_ms: int
) -> dict[tuple[str, str, int], Counted]:
    """What each scope has counted of an asset in (now - length, now], in one query.

    Args:
        needs: scope of a grant, asset, and length of the window in ms.
        now_ms: where the windows end.
    """
    wanted = list(needs)
    if not wanted:
        return {}
    afters = [now_ms - length for _, _, length in wanted]
    if connection.dialect.name == "sqlite":
        rows = [
            [scope, asset, after] for (scope, asset, _), after in zip(wanted, afters, strict=True)
        ]
        found = await connection.execute(_SUM_SQLITE, {"needs": jsontext.dumps(rows)})
    else:
        parameters = {
            "scopes": [scope for scope, _, _ in wanted],
            "assets": [asset for _, asset, _ in wanted],
            "afters": afters,
        }
        found = await connection.execute(_SUM_POSTGRES, parameters)
    sums = {int(i): Counted(_units(high, low), int(count)) for i, high, low, count in found}
    return {need: sums.get(i, Counted()) for i, need in enumerate(wanted)}


_HOURS = (
    select(grant_totals.c.hour, grant_totals.c.high, grant_totals.c.low, grant_totals.c.count)
    .where(
        grant_totals.c.scope == bindparam("scope"),
        grant_totals.c.asset == bindparam("asset"),
        grant_totals.c.hour > bindparam("hour"),
    )
    .order_by(grant_totals.c.hour)
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
    """When enough has left the window for what does not fit now; None where it never does.

    Args:
        excess: by how many units, or transactions, it is too much now; more than 0.
        transactions: count these, not units.
    """
    after = now_ms - length_ms
    hours = await connection.execute(
        _HOURS, {"scope": scope, "asset": asset, "hour": after // HOUR_MS}
    )
    parts = [(after // HOUR_MS, None), *((int(row.hour), row) for row in hours)]
    left = excess
    for hour, total in parts:
        if total is not None:
            inside = int(total[3]) if transactions else _units(total[1], total[2])
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


_SCOPES = select(grant_totals.c.scope).distinct()


async def scopes_that_count(connection: AsyncConnection) -> frozenset[str]:
    """The scopes of grants in which anything counts."""
    return frozenset((await connection.execute(_SCOPES)).scalars())


def _units(high: Any, low: Any) -> int:
    return int(high) * _HALF + int(low)


_LOCK_TOTALS = text(
    "SELECT 1 FROM grant_totals AS totals WHERE (totals.scope, totals.asset, totals.hour) IN ("
    "SELECT rows.scope, rows.asset, rows.created_ms / 3600000 FROM reservations AS rows"
    " WHERE rows.transaction_id = ANY(CAST(:ids AS text[]))"
    " AND substr(rows.scope, 1, 6) = 'grant:')"
    " ORDER BY totals.scope, totals.asset, totals.hour FOR UPDATE OF totals"
)


async def lock_totals(connection: AsyncConnection, transaction_ids: Collection[str]) -> None:
    """Lock the totals that a change of these transactions' reservations changes.

    In one order, as reservations add to them, so that none deadlocks; nothing on SQLite, which has
    one writer.
    """
    if connection.dialect.name != "sqlite" and transaction_ids:
        await connection.execute(_LOCK_TOTALS, {"ids": list(transaction_ids)})


_SEED_ROWS = insert(reservations)
_FORGET = delete(reservations).where(reservations.c.scope == bindparam("b_scope"))


async def replace_counted(
    connection: AsyncConnection, scope: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Let a grant have counted exactly these rows of `reservations`."""
    await connection.execute(_FORGET, {"b_scope": scope})
    if rows:
        await connection.execute(_SEED_ROWS, list(rows))


# What was judged.


_JUDGED = {
    name: dialect.insert(judged_effects).on_conflict_do_nothing()
    for name, dialect in (("sqlite", sqlite), ("postgresql", postgresql))
}


async def note_judged(connection: AsyncConnection, row: Mapping[str, Any]) -> None:
    """Store what was judged, a row of the table, once for each transaction; a hold that is asked
    for again was judged before."""
    await connection.execute(_JUDGED[connection.dialect.name], row)


_COUNTING = (
    select(judged_effects, reservations.c.created_ms.label("reserved_ms"))
    .join(reservations, reservations.c.transaction_id == judged_effects.c.transaction_id)
    .where(
        reservations.c.scope == bindparam("b_scope"),
        reservations.c.asset == _SOL,
        reservations.c.created_ms > bindparam("b_after"),
    )
    .order_by(reservations.c.created_ms)
)
_LOCK_PENDING = (
    select(transactions.c.id)
    .where(transactions.c.id.in_(bindparam("ids", expanding=True)), UNFINISHED)
    .order_by(transactions.c.seq)
    .with_for_update()
)
_KEPT = select(reservations.c.transaction_id, reservations.c.asset, reservations.c.units).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope == literal("wallet:") + bindparam("b_wallet"),
)


@dataclass(frozen=True, slots=True)
class Counting:
    """A transaction that counts in a scope: as it was judged, and what of it still counts.

    Attributes:
        row: of `judged_effects`, column -> value.
        reserved_ms: the stamp of its reservations.
        kept: asset -> units, which its end may have lowered.
    """

    row: Mapping[str, Any]
    reserved_ms: int
    kept: Mapping[str, int]


async def counting(connection: AsyncConnection, scope: str, after_ms: int) -> list[Counting]:
    """The transactions that count in a scope since a time, oldest first."""
    rows = await connection.execute(_COUNTING, {"b_scope": scope, "b_after": after_ms})
    found = [dict(row._mapping) for row in rows]
    by_wallet: dict[str, list[str]] = {}
    for row in found:
        by_wallet.setdefault(row["wallet_id"], []).append(row["transaction_id"])
    kept: dict[str, dict[str, int]] = {}
    for wallet_id, ids in by_wallet.items():
        for start in range(0, len(ids), _PAGE):
            # Until the caller's transaction ends no end of theirs changes what still counts.
            await connection.execute(_LOCK_PENDING, {"ids": ids[start : start + _PAGE]})
            parameters = {"ids": ids[start : start + _PAGE], "b_wallet": wallet_id}
            for id_, asset, units in await connection.execute(_KEPT, parameters):
                kept.setdefault(id_, {})[asset] = int(units)
    return [
        Counting(row, int(row.pop("reserved_ms")), kept[row["transaction_id"]])
        for row in found
        if row["transaction_id"] in kept
    ]


class JudgedRow(NamedTuple):
    """What was judged, and what of it still counts.

    Attributes:
        row: of `judged_effects`, column -> value.
        kept: asset -> units of a transaction that failed, `COSTS` too; None where nothing ended it
            like this.
        is_done: the hold was approved, and what it asked for was judged for itself.
    """

    row: Mapping[str, Any]
    kept: Mapping[str, int] | None
    is_done: bool


_FIRST_JUDGED = select(func.min(judged_effects.c.seq), func.count()).where(
    judged_effects.c.created_ms > bindparam("b_after")
)
_PAGE_JUDGED = (
    select(judged_effects, transactions.c.status, holds.c.state)
    .outerjoin(transactions, transactions.c.id == judged_effects.c.transaction_id)
    .outerjoin(holds, holds.c.id == judged_effects.c.transaction_id)
    .where(judged_effects.c.seq >= bindparam("b_seq"))
    .order_by(judged_effects.c.seq)
    .limit(bindparam("b_size"))
)
_KEPT_BY_FAILED = select(
    reservations.c.transaction_id, reservations.c.asset, reservations.c.units
).where(
    reservations.c.transaction_id.in_(bindparam("ids", expanding=True)),
    reservations.c.scope.startswith("wallet:"),
)


async def first_judged(connection: AsyncConnection, after_ms: int) -> tuple[int, int]:
    """Since a time: the `seq` of what was judged first, and how much was; 0, 0 for nothing."""
    row = (await connection.execute(_FIRST_JUDGED, {"b_after": after_ms})).one()
    return int(row[0] or 0), int(row[1])


async def judged_page(connection: AsyncConnection, seq: int, size: int = _PAGE) -> list[JudgedRow]:
    """What was judged from `seq` on, in the order in which it was; at most `size`."""
    found = await connection.execute(_PAGE_JUDGED, {"b_seq": seq, "b_size": size})
    rows = [dict(row._mapping) for row in found]
    ended = {row["transaction_id"]: row.pop("status") for row in rows}
    states = {row["transaction_id"]: row.pop("state") for row in rows}
    failed = [id_ for id_, status in ended.items() if status == TransactionStatus.FAILED.value]
    kept: dict[str, dict[str, int]] = {id_: {} for id_ in failed}
    if failed:
        for id_, asset, units in await connection.execute(_KEPT_BY_FAILED, {"ids": failed}):
            kept[id_][asset] = int(units)
    return [
        JudgedRow(
            row,
            kept.get(row["transaction_id"]),
            states[row["transaction_id"]] == HoldState.EXECUTED.value,
        )
        for row in rows
    ]


# Whom wallets paid, and what they launched.

_CONFIRMED = TransactionStatus.CONFIRMED.value


_NOT_YET = text(
    "NOT EXISTS (SELECT 1 FROM transactions WHERE transactions.id = paid_recipients.transaction_id"
    " AND transactions.status = :confirmed)"
).bindparams(confirmed=_CONFIRMED)


def _note_paid(dialect: str) -> Any:
    statement = (sqlite if dialect == "sqlite" else postgresql).insert(paid_recipients)
    return statement.on_conflict_do_update(
        index_elements=["wallet_id", "address"],
        set_={"transaction_id": statement.excluded.transaction_id},
        where=_NOT_YET,
    )


_NOTE_PAID = {name: _note_paid(name) for name in ("sqlite", "postgresql")}


async def note_paid(
    connection: AsyncConnection, wallet_id: str, addresses: Iterable[str], transaction_id: str
) -> None:
    """Remember whom a transaction pays, unless a confirmed one paid them before."""
    rows = [
        {"wallet_id": wallet_id, "address": address, "transaction_id": transaction_id}
        for address in sorted(set(addresses))
    ]
    if rows:
        await connection.execute(_NOTE_PAID[connection.dialect.name], rows)


# Whom a pocket's calls pay is not known: that it was filled before says nothing, so it stays new.
_NO_POCKET = ~(
    select(pockets.c.counter).where(pockets.c.address == paid_recipients.c.address).exists()
)
# The first and last characters are what people compare.
_SHOWN = 4
_PAID = (
    select(paid_recipients.c.address)
    .join(transactions, transactions.c.id == paid_recipients.c.transaction_id)
    .where(
        paid_recipients.c.wallet_id == bindparam("b_wallet"),
        paid_recipients.c.address >= bindparam("b_first"),
        paid_recipients.c.address < bindparam("b_last"),
        transactions.c.status == _CONFIRMED,
        _NO_POCKET,
    )
    .order_by(paid_recipients.c.address)
)


async def paid(
    connection: AsyncConnection, wallet_id: str, addresses: Collection[str]
) -> tuple[frozenset[str], dict[str, str]]:
    """Which of `addresses` a wallet has paid, and of the others those that look like one it has:
    address -> the one paid, with the same first and last characters."""
    known: set[str] = set()
    alike: dict[str, str] = {}
    for address in addresses:
        start = address[:_SHOWN]
        # "~" follows every character of an address.
        parameters = {"b_wallet": wallet_id, "b_first": start, "b_last": f"{start}~"}
        for found in (await connection.execute(_PAID, parameters)).scalars():
            if found == address:
                known.add(address)
            elif found[-_SHOWN:] == address[-_SHOWN:]:
                alike.setdefault(address, found)
    return frozenset(known), {each: other for each, other in alike.items() if each not in known}


_OWN = select(wallets.c.public_key).where(
    wallets.c.public_key.in_(bindparam("addresses", expanding=True))
)


async def own(connection: AsyncConnection, addresses: Collection[str]) -> frozenset[str]:
    """Those of `addresses` that are wallets of this service."""
    if not addresses:
        return frozenset()
    rows = await connection.execute(_OWN, {"addresses": list(addresses)})
    return frozenset(rows.scalars())


# Whom a pocket's calls pay is not known: that it was filled before says nothing, so it stays new.
_NO_POCKET = (
    ~select(pockets.c.counter).where(pockets.c.address == paid_recipients.c.address).exists()
)
_WALLETS_MADE = select(wallets.c.public_key, wallets.c.created_ms).where(
    wallets.c.public_key.in_(bindparam("addresses", expanding=True))
)
_FIRST_PAID = (
    select(
        paid_recipients.c.wallet_id,
        paid_recipients.c.address,
        transactions.c.created_ms,
        transactions.c.id,
    )
    .join(transactions, transactions.c.id == paid_recipients.c.transaction_id)
    .where(
        paid_recipients.c.wallet_id.in_(bindparam("wallets", expanding=True)),
        paid_recipients.c.address.in_(bindparam("addresses", expanding=True)),
        transactions.c.status == _CONFIRMED,
        _NO_POCKET,
    )
)


async def wallets_made(connection: AsyncConnection, addresses: Collection[str]) -> dict[str, int]:
    """Those of `addresses` that are wallets of this service -> when they were made."""
    if not addresses:
        return {}
    rows = await connection.execute(_WALLETS_MADE, {"addresses": list(addresses)})
    return {row.public_key: int(row.created_ms) for row in rows}


async def first_paid(
    connection: AsyncConnection, wallet_ids: Collection[str], addresses: Collection[str]
) -> dict[tuple[str, str], tuple[int, str]]:
    """Wallet and address -> when a confirmed transaction first paid it, and its id."""
    if not addresses:
        return {}
    parameters = {"wallets": list(wallet_ids), "addresses": list(addresses)}
    rows = await connection.execute(_FIRST_PAID, parameters)
    return {(row.wallet_id, row.address): (int(row.created_ms), row.id) for row in rows}


_LAUNCHES = text("transactions.type = 'token_launch'")
_LAUNCHED = select(transactions.c.details).where(
    transactions.c.wallet_id == bindparam("b_wallet"),
    _LAUNCHES,
    transactions.c.status == _CONFIRMED,
    func.instr(transactions.c.details, bindparam("b_mint")) > 0,
)
_LAUNCHED_POSTGRES = select(transactions.c.details).where(
    transactions.c.wallet_id == bindparam("b_wallet"),
    _LAUNCHES,
    transactions.c.status == _CONFIRMED,
    func.strpos(transactions.c.details, bindparam("b_mint")) > 0,
)


async def launched(
    connection: AsyncConnection, wallet_id: str, mints: Collection[str]
) -> frozenset[str]:
    """Those of `mints` that a wallet launched: a confirmed record of it says so."""
    statement = _LAUNCHED if connection.dialect.name == "sqlite" else _LAUNCHED_POSTGRES
    found: set[str] = set()
    for mint in mints:
        rows = await connection.execute(statement, {"b_wallet": wallet_id, "b_mint": mint})
        # The text may have it elsewhere, such as in the name.
        if any(jsontext.loads(details).get("mint") == mint for details in rows.scalars()):
            found.add(mint)
    return frozenset(found)


# What people call principals.

_NAMED = {
    "agent": table("agents", column("id"), column("name")),
    "key": table("api_keys", column("id"), column("name")),
    "wallet": table("wallets", column("id"), column("name")),
}


def _called(of: TableClause) -> Any:
    same = of.alias("same")
    return (
        select(same.c.id, same.c.name)
        .join(of, of.c.name == same.c.name)
        .where(of.c.id.in_(bindparam("ids", expanding=True)))
    )


_CALLED = {kind: _called(of) for kind, of in _NAMED.items()}


async def called_the_same(
    connection: AsyncConnection, kind: str, ids: Collection[str]
) -> dict[str, str]:
    """id -> name, of agents, keys or wallets of these ids and of those with an equal name.

    Args:
        kind: `agent`, `key` or `wallet`.
    """
    rows = await connection.execute(_CALLED[kind], {"ids": list(ids)})
    return {row.id: row.name for row in rows}
