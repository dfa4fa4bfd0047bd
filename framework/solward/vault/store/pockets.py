"""Pockets of wallets: which counters are used, and what may still hold something."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.vault.store.tables import pockets, transactions
from solward.vault.store.transactions import UNFINISHED


class PocketState(StrEnum):
    """What a pocket may hold."""

    SINGLE = "single"
    """Nothing once its transaction has ended: that one opens and closes all its accounts."""
    OPEN = "open"
    """Perhaps something: it is looked at, and swept."""
    EMPTY = "empty"
    """Nothing: the ledger showed it."""


@dataclass(frozen=True, slots=True)
class PocketRow:
    """A pocket as stored; see the table."""

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


_INSERT = insert(pockets)
_LAST = select(func.max(pockets.c.counter)).where(pockets.c.wallet_id == bindparam("b_wallet"))
_USED = select(pockets.c.counter).where(
    pockets.c.wallet_id == bindparam("b_wallet"), pockets.c.counter == bindparam("b_counter")
)
# The pending transactions of one wallet are few, and found by their own index.
_BUYING = (
    select(transactions.c.id)
    .join(pockets, pockets.c.transaction_id == transactions.c.id)
    .where(
        UNFINISHED,
        transactions.c.wallet_id == bindparam("b_wallet"),
        pockets.c.output_mint == bindparam("b_mint"),
    )
    .limit(1)
)


async def add(connection: AsyncConnection, row: PocketRow) -> None:
    """Store a pocket before its key signs.

    Raises:
        sqlalchemy.exc.IntegrityError: the counter or the position is used.
    """
    await connection.execute(
        _INSERT,
        {
            "wallet_id": row.wallet_id,
            "counter": row.counter,
            "address": row.address,
            "transaction_id": row.transaction_id,
            "program": row.program,
            "position": row.position,
            "mints": list(row.mints),
            "output_mint": row.output_mint,
            "state": row.state.value,
            "created_ms": row.created_ms,
        },
    )


async def last_counter(connection: AsyncConnection, wallet_id: str) -> int:
    """The highest counter a wallet has used, 0 where it has used none."""
    found = await connection.execute(_LAST, {"b_wallet": wallet_id})
    return int(found.scalar_one() or 0)


async def is_used(connection: AsyncConnection, wallet_id: str, counter: int) -> bool:
    """Whether a counter is used; final under the wallet's lock (`spending.lock`)."""
    found = await connection.execute(_USED, {"b_wallet": wallet_id, "b_counter": counter})
    return found.first() is not None


async def purchase_in_flight(connection: AsyncConnection, wallet_id: str, mint: str) -> str | None:
    """The unfinished transaction whose pocket delivers `mint` to the wallet's own account."""
    found = await connection.execute(_BUYING, {"b_wallet": wallet_id, "b_mint": mint})
    return found.scalar_one_or_none()


async def of_wallet(
    connection: AsyncConnection, wallet_id: str, *, open_only: bool = False
) -> list[PocketRow]:
    """A wallet's pockets, oldest first."""
    statement = select(pockets).where(pockets.c.wallet_id == wallet_id)
    if open_only:
        statement = statement.where(pockets.c.state == PocketState.OPEN.value)
    found = await connection.execute(statement.order_by(pockets.c.counter))
    return [
        PocketRow(
            row.wallet_id,
            int(row.counter),
            row.address,
            row.transaction_id,
            row.program,
            row.position,
            tuple(row.mints),
            row.output_mint,
            PocketState(row.state),
            int(row.created_ms),
        )
        for row in found
    ]
