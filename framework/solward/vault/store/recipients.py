"""Statements on the recipients that wallets have paid, and on recipients that are Solward's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import bindparam, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared, Row
from solward.database.records import insert_or_set
from solward.database.tables import paid_recipients, pockets, transactions, wallets
from solward.support import jsontext
from solward.types.address_book import SHOWN
from solward.types.record import TransactionStatus

_CONFIRMED = TransactionStatus.CONFIRMED.value


_NOT_YET = text(
    "NOT EXISTS (SELECT 1 FROM transactions WHERE transactions.id = paid_recipients.transaction_id"
    " AND transactions.status = :confirmed)"
).bindparams(confirmed=_CONFIRMED)


_NOTE_PAID = Prepared(
    insert_or_set(paid_recipients, ("wallet_id", "address"), "transaction_id", where=_NOT_YET)
)


async def note_paid(
    connection: AsyncConnection, wallet_id: str, addresses: Iterable[str], transaction_id: str
) -> None:
    """Store a transaction's recipients, except those that a confirmed transaction paid before."""
    rows = [
        {"wallet_id": wallet_id, "address": address, "transaction_id": transaction_id}
        for address in sorted(set(addresses))
    ]
    if rows:
        await _NOTE_PAID.many(connection, rows)


# A pocket always counts as a new recipient, because nobody knows whom its calls pay.
_NO_POCKET = ~(
    select(pockets.c.counter).where(pockets.c.address == paid_recipients.c.address).exists()
)
_PAID = Prepared(
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


async def paid_before(
    connection: AsyncConnection, wallet_id: str, addresses: Collection[str]
) -> tuple[frozenset[str], dict[str, str]]:
    """Return which of `addresses` a wallet has paid. Also return the other addresses with the same
    first and last characters as a paid address, each with that paid address."""
    known: set[str] = set()
    alike: dict[str, str] = {}
    for address in addresses:
        start = address[:SHOWN]
        # "~" is greater than every character of an address.
        parameters = {"b_wallet": wallet_id, "b_first": start, "b_last": f"{start}~"}
        for (found,) in await _PAID.all(connection, parameters):
            if found == address:
                known.add(address)
            elif found[-SHOWN:] == address[-SHOWN:]:
                alike.setdefault(address, found)
    return frozenset(known), {each: other for each, other in alike.items() if each not in known}


_OWN = Prepared(
    select(wallets.c.public_key, wallets.c.id, wallets.c.created_ms).where(
        wallets.c.public_key.in_(bindparam("addresses", expanding=True))
    )
)
# The pairs are joined, because SQLite reads the whole table for `IN` with row values.
_PAIRS = {
    "sqlite": "WITH pairs AS MATERIALIZED (SELECT json_extract(value, '$[0]') AS wallet_id,"
    " json_extract(value, '$[1]') AS address FROM json_each(:pairs))",
    "postgresql": "WITH pairs AS MATERIALIZED (SELECT pair ->> 0 AS wallet_id,"
    " pair ->> 1 AS address FROM json_array_elements(CAST(:pairs AS json)) AS pair)",
}
_OF_PAIRS = (
    " SELECT paid.wallet_id, paid.address, transactions.created_ms, transactions.id"
    " FROM pairs CROSS JOIN paid_recipients AS paid CROSS JOIN transactions"
    " WHERE paid.wallet_id = pairs.wallet_id AND paid.address = pairs.address"
    " AND transactions.id = paid.transaction_id AND transactions.status = :confirmed"
    " AND NOT EXISTS (SELECT 1 FROM pockets WHERE pockets.address = paid.address)"
)
_FIRST_PAID = {
    name: Prepared(text(pairs + _OF_PAIRS).bindparams(confirmed=_CONFIRMED))
    for name, pairs in _PAIRS.items()
}


async def own_wallets(connection: AsyncConnection, addresses: Collection[str]) -> dict[str, Row]:
    """Return the `addresses` that are wallets of this service, with `id` and `created_ms`."""
    if not addresses:
        return {}
    rows = await _OWN.all(connection, {"addresses": list(addresses)})
    return {row.public_key: row for row in rows}


async def first_payments(
    connection: AsyncConnection, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the pairs of wallet and address in which the wallet has paid the address, each with
    the time and the id of the first confirmed payment."""
    if not pairs:
        return {}
    wanted = {"pairs": jsontext.dumps([list(each) for each in pairs])}
    rows = await _FIRST_PAID[connection.dialect.name].all(connection, wanted)
    return {(row.wallet_id, row.address): (int(row.created_ms), row.id) for row in rows}


_KEYS = Prepared(
    union_all(
        select(wallets.c.public_key).where(
            wallets.c.public_key.in_(bindparam("addresses", expanding=True))
        ),
        select(pockets.c.address).where(
            pockets.c.address.in_(bindparam("addresses", expanding=True))
        ),
    )
)


async def own_addresses(connection: AsyncConnection, addresses: Collection[str]) -> frozenset[str]:
    """Return the `addresses` that are wallets of this service, or pockets of its wallets."""
    found = await _KEYS.all(connection, {"addresses": list(addresses)})
    return frozenset(address for (address,) in found)
