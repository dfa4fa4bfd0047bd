"""What people call agents, API keys, schedules and wallets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, Table, bindparam, null, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.prepared import Prepared
from solward.database.tables import agents, credentials, schedules, wallets
from solward.types.address_book import NamedWallet
from solward.types.roles import is_key

_NAMED = {"agent": agents, "key": credentials, "schedule": schedules, "wallet": wallets}
# What API keys make, they name.
_MAKERS = {"schedule": "made_by", "wallet": "created_by"}


_WALLETS = Prepared(
    select(wallets.c.id, wallets.c.name, wallets.c.public_key, wallets.c.created_by).where(
        or_(
            wallets.c.id.in_(bindparam("b_ids", expanding=True)),
            wallets.c.public_key.in_(bindparam("b_addresses", expanding=True)),
        )
    )
)


async def wallet_names(
    connection: AsyncConnection, ids: Collection[str], addresses: Collection[str]
) -> list[NamedWallet]:
    """The wallets of these ids, and those of these addresses."""
    parameters = {"b_ids": list(ids), "b_addresses": list(addresses)}
    return [NamedWallet(*row) for row in await _WALLETS.all(connection, parameters)]


def _rows(of: Any, kind: str) -> Any:
    maker = of.c[_MAKERS[kind]] if kind in _MAKERS else null()
    return select(of.c.id, of.c.name, maker.label("maker"))


def _called(kind: str, of: Table) -> Any:
    same = of.alias("same")
    return (
        _rows(same, kind)
        .join(of, of.c.name == same.c.name)
        .where(of.c.id.in_(bindparam("ids", expanding=True)))
    )


_CALLED = {kind: _called(kind, of) for kind, of in _NAMED.items()}


async def called_the_same(
    connection: AsyncConnection, kind: str, ids: Collection[str]
) -> dict[str, str]:
    """id -> name, of agents, keys, schedules or wallets of these ids, and of those of equal names.

    What an API key made and named as something of the operator's is named, is called by its id.

    Args:
        kind: `agent`, `key`, `schedule` or `wallet`.
    """
    return _names((await connection.execute(_CALLED[kind], {"ids": list(ids)})).all())


async def all_names(connection: AsyncConnection, kind: str) -> dict[str, str]:
    """id -> name, of all agents, keys, schedules or wallets; as `called_the_same`."""
    return _names((await connection.execute(_rows(_NAMED[kind], kind))).all())


def _names(rows: Sequence[Row[Any]]) -> dict[str, str]:
    own = {row.name for row in rows if not is_key(row.maker)}
    return {row.id: row.id if is_key(row.maker) and row.name in own else row.name for row in rows}
