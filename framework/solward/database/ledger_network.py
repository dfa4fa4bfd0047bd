"""The network of a database: one for good, set by the first start that finds its ledger.

What a database keeps is of one ledger: transactions in flight, what their limits' windows hold, and
grants and limits that somebody chose for that network's money. On another network a transaction in
flight would be found expired, its money counted back, and land all the same; and an agent that was
tried with play money would go on with real money.
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
    """Return the network that a database is bound to; None for one without.

    Args:
        network: as `SOLANA_NETWORK`; a localnet is any ledger of one's own.

    Raises:
        ConfigError: the database is of another network.
    """
    async with database.read() as connection:
        bound: str | None = (await connection.execute(_SELECT)).scalar_one()
    mismatch = _mismatch(bound, network, shared=database.shared)
    if mismatch is not None:
        raise ConfigError(f"{mismatch.found}. {mismatch.advice}")
    return bound


async def bind_network(database: Database, network: str) -> None:
    """Bind a database without a network to this one, once its ledger proved to be that network's:
    a wrong `SOLANA_NETWORK` is told by the ledger, and is then to be corrected.

    Raises:
        ConfigError: as `check_network`.
    """
    if await check_network(database, network) is not None:
        return
    async with database.write() as connection:
        # The row is locked: of two first starts one binds, and the other reads what it bound.
        unbound = update(ledger_network).where(ledger_network.c.network.is_(None))
        await connection.execute(unbound.values(network=network))
    await check_network(database, network)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A database of another network than that of the settings."""

    found: str
    advice: str


async def network_mismatch(
    connection: AsyncConnection, network: str, *, shared: bool
) -> Mismatch | None:
    """Return why a service on this network cannot start on the database, or None if it can.

    Args:
        shared: whether it is a server's, which `DATABASE_URL` names, or a file in the home.
    """
    bound: str | None = (await connection.execute(_SELECT)).scalar_one()
    return _mismatch(bound, network, shared=shared)


def _mismatch(bound: str | None, network: str, *, shared: bool) -> Mismatch | None:
    if bound in (None, network):
        return None
    place = "DATABASE_URL" if shared else "SOLWARD_HOME"
    return Mismatch(
        f"SOLANA_NETWORK is {network}, and the database of {place} is of {bound}: its"
        " transactions, limits and grants are that network's",
        f"Set SOLANA_NETWORK to {bound}, or {place} to one for {network}",
    )
