"""The network of a database, set for good by the first start that reaches the ledger.

All data in a database is about one ledger: transactions in flight, reservations in limits' windows,
and grants and limits chosen for that network's money. On another network, a transaction in flight
would seem expired and its reservation would be released, although it may still land. An agent that
was tested with play money would continue with real money.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.tables import ledger_network
from solward.types.errors import ConfigError

_SELECT: Final = select(ledger_network.c.network)


async def check_network(database: Database, network: str) -> str | None:
    """Return the network to which a database is bound; None if it is not bound yet.

    Args:
        network: a value of `SOLANA_NETWORK`; `localnet` is any private ledger.

    Raises:
        ConfigError: the database is bound to another network.
    """
    async with database.read() as connection:
        bound: str | None = (await connection.execute(_SELECT)).scalar_one()
    mismatch = _find_mismatch(bound, network, shared=database.shared)
    if mismatch is not None:
        raise ConfigError(f"{mismatch.found}. {mismatch.advice}")
    return bound


async def bind_network(database: Database, network: str) -> None:
    """Bind a database that has no network yet to this one. Call it only once the ledger has proved
    to be of this network, so that a wrong `SOLANA_NETWORK` is found before.

    Raises:
        ConfigError: as `check_network`.
    """
    if await check_network(database, network) is not None:
        return
    async with database.write() as connection:
        # The row is locked: of two first starts, one binds, and the other reads that network.
        unbound = update(ledger_network).where(ledger_network.c.network.is_(None))
        await connection.execute(unbound.values(network=network))
    await check_network(database, network)


@dataclass(frozen=True, slots=True)
class NetworkMismatch:
    """The database's network is not the network of the settings."""

    found: str
    advice: str


async def network_mismatch(
    connection: AsyncConnection, network: str, *, shared: bool
) -> NetworkMismatch | None:
    """Return why a service on this network cannot start on the database, or None if it can.

    Args:
        shared: whether the database is on a server (`DATABASE_URL`), not a file in the home.
    """
    bound: str | None = (await connection.execute(_SELECT)).scalar_one()
    return _find_mismatch(bound, network, shared=shared)


def _find_mismatch(bound: str | None, network: str, *, shared: bool) -> NetworkMismatch | None:
    if bound in (None, network):
        return None
    place = "DATABASE_URL" if shared else "SOLWARD_HOME"
    return NetworkMismatch(
        f"SOLANA_NETWORK is {network}, but the database of {place} has transactions, limits and"
        f" grants of {bound}",
        f"Set SOLANA_NETWORK to {bound}, or {place} to one for {network}",
    )
