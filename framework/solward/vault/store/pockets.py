"""Statements on wallets' pockets: their counters, and which pockets may hold something."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import ColumnElement, bindparam, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.records import TEXTS, Form, Records, enum_form
from solward.database.tables import pockets, transactions
from solward.vault.store.transactions import UNFINISHED


class PocketState(StrEnum):
    """The state of a pocket, by what it may hold."""

    SINGLE = "single"
    """One transaction opens and closes the pocket's accounts; when it ends, the pocket is empty."""
    FUNDING = "funding"
    """Empty: the transaction that fills the pocket is not signed yet."""
    OPEN = "open"
    """The pocket may hold something, so it is read and swept."""
    EMPTY = "empty"
    """The ledger showed that the pocket is empty."""


@dataclass(frozen=True, slots=True)
class PocketRow:
    """A pocket as stored; see the table `pockets`.

    Attributes:
        at_risk: asset ("SOL" or a mint) -> units that were put in and did not return.
        opened_by: principal that opened the position; None if not known.
    """

    wallet_id: str
    counter: int
    address: str
    transaction_id: str | None
    program: str | None
    position: str | None
    mints: tuple[str, ...]
    output_mint: str | None
    state: PocketState
    created_ms: int
    at_risk: Mapping[str, int] = field(default_factory=dict)
    opened_by: str | None = None


# The same text as the partial index has, so that both databases use the index.
_IS_OPEN = pockets.c.state == literal_column("'open'")

_POCKETS = Records(
    PocketRow, pockets, mints=TEXTS, state=enum_form(PocketState), at_risk=Form(dict, dict)
)
_SELECT = select(*_POCKETS.columns)
_INSERT = insert(pockets)
_LAST = select(func.max(pockets.c.counter)).where(pockets.c.wallet_id == bindparam("b_wallet"))
_USED = select(pockets.c.counter).where(
    pockets.c.wallet_id == bindparam("b_wallet"), pockets.c.counter == bindparam("b_counter")
)
# One wallet's pending transactions are few, and found by their own index.
_IN_USE = (
    select(pockets.c.state, pockets.c.output_mint)
    .join(transactions, pockets.c.transaction_id == transactions.c.id)
    .where(UNFINISHED, transactions.c.wallet_id == bindparam("b_wallet"))
)


async def add(connection: AsyncConnection, row: PocketRow) -> None:
    """Store a pocket before its key signs.

    Raises:
        sqlalchemy.exc.IntegrityError: the counter or the position is used already.
    """
    await connection.execute(_INSERT, _POCKETS.row(row))


async def last_counter(connection: AsyncConnection, wallet_id: str) -> int:
    """Return the highest counter a wallet has used; 0 if it has used none."""
    found = await connection.execute(_LAST, {"b_wallet": wallet_id})
    return int(found.scalar_one() or 0)


async def is_used(connection: AsyncConnection, wallet_id: str, counter: int) -> bool:
    """Return whether a counter is used; the answer stays true under the wallet's lock."""
    found = await connection.execute(_USED, {"b_wallet": wallet_id, "b_counter": counter})
    return found.first() is not None


@dataclass(frozen=True, slots=True)
class PocketsInUse:
    """The uses of a wallet's pockets by unfinished transactions.

    Attributes:
        bought: mints that unfinished swaps bring to the wallet's own accounts.
        asserts: whether a one-transaction swap asserts the sum on such an account.
        brings_home: whether a use in steps may return tokens of mints not known in advance.
    """

    bought: frozenset[str]
    asserts: bool
    brings_home: bool


async def read_in_use(connection: AsyncConnection, wallet_id: str) -> PocketsInUse:
    """Return the current uses of a wallet's pockets; the wallet's lock prevents changes."""
    rows = list(await connection.execute(_IN_USE, {"b_wallet": wallet_id}))
    bought = frozenset(row.output_mint for row in rows if row.output_mint is not None)
    single = PocketState.SINGLE.value
    return PocketsInUse(
        bought,
        asserts=any(row.state == single and row.output_mint is not None for row in rows),
        brings_home=any(row.state != single for row in rows),
    )


async def of_wallet(
    connection: AsyncConnection, wallet_id: str, *, open_only: bool = False
) -> list[PocketRow]:
    """Return a wallet's pockets, oldest first."""
    statement = _SELECT.where(pockets.c.wallet_id == wallet_id)
    if open_only:
        statement = statement.where(_IS_OPEN)
    return [
        _POCKETS.read(row)
        for row in await connection.execute(statement.order_by(pockets.c.counter))
    ]


async def of_transactions(
    connection: AsyncConnection, transaction_ids: Collection[str]
) -> dict[str, PocketRow]:
    """Return the pocket that each transaction used last, by transaction id."""
    statement = _SELECT.where(pockets.c.transaction_id.in_(transaction_ids))
    return {row.transaction_id: _POCKETS.read(row) for row in await connection.execute(statement)}


async def by_position(
    connection: AsyncConnection, wallet_id: str, program: str, position: str
) -> PocketRow | None:
    """Return the pocket of a position; None if the position has no pocket yet."""
    of_wallet = pockets.c.wallet_id == wallet_id
    return await _find(
        connection, of_wallet, pockets.c.program == program, pockets.c.position == position
    )


async def _find(connection: AsyncConnection, *conditions: ColumnElement[bool]) -> PocketRow | None:
    found = (await connection.execute(_SELECT.where(*conditions))).first()
    return None if found is None else _POCKETS.read(found)


async def mark_used_again(
    connection: AsyncConnection, row: PocketRow, transaction_id: str, mints: Collection[str]
) -> None:
    """Store that another transaction uses the pocket of a position."""
    await connection.execute(
        update(pockets)
        .where(pockets.c.wallet_id == row.wallet_id, pockets.c.counter == row.counter)
        .values(
            transaction_id=transaction_id,
            mints=list(dict.fromkeys((*row.mints, *mints))),
            state=PocketState.OPEN.value,
        )
    )


async def release(connection: AsyncConnection, transaction_ids: Collection[str]) -> None:
    """Store that the pockets of transactions that never landed are empty."""
    await connection.execute(
        update(pockets)
        .where(
            pockets.c.transaction_id.in_(transaction_ids),
            pockets.c.state == PocketState.FUNDING.value,
        )
        .values(state=PocketState.EMPTY.value)
    )


_OPEN = (
    update(pockets)
    .where(
        pockets.c.transaction_id == bindparam("b_transaction"),
        pockets.c.state == PocketState.FUNDING.value,
    )
    .values(state=PocketState.OPEN.value)
)


async def mark_funded(connection: AsyncConnection, transaction_id: str) -> None:
    """Store that the transaction that fills a pocket is signed."""
    await connection.execute(_OPEN, {"b_transaction": transaction_id})


async def by_address(connection: AsyncConnection, wallet_id: str, address: str) -> PocketRow | None:
    """Return a wallet's pocket by its address; None if the wallet has no such pocket."""
    return await _find(connection, pockets.c.wallet_id == wallet_id, pockets.c.address == address)


async def set_state(
    connection: AsyncConnection,
    wallet_id: str,
    counter: int,
    state: PocketState,
    at_risk: Mapping[str, int],
) -> None:
    """Store a pocket's state, and the units in it that did not return."""
    await connection.execute(
        update(pockets)
        .where(pockets.c.wallet_id == wallet_id, pockets.c.counter == counter)
        .values(state=state.value, at_risk=dict(at_risk))
    )


_COUNT_OPEN = select(func.count()).select_from(pockets).where(_IS_OPEN)


async def count_open(connection: AsyncConnection) -> int:
    """Count the pockets that may hold something."""
    return int((await connection.execute(_COUNT_OPEN)).scalar_one())
