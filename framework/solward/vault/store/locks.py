"""Named locks of a transaction on PostgreSQL, where there is no row to lock.

On SQLite the one writer at a time is all of them, and each of these does nothing.
"""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# PostgreSQL's advisory locks have two numbers: whose they are, and which. Two names of the same
# hash only wait for each other without need.
_OURS = 0x534F4C57  # "SOLW"
_EXCLUSIVE = text(f"SELECT pg_advisory_xact_lock({_OURS}, hashtext(:name))")
_TRY = text(f"SELECT pg_try_advisory_xact_lock({_OURS}, hashtext(:name))")
_PATIENT = text("SET LOCAL idle_in_transaction_session_timeout = 0")
_SHARED = text(f"SELECT pg_advisory_xact_lock_shared({_OURS}, hashtext(:name))")


async def exclusive(connection: AsyncConnection, name: str) -> None:
    """Hold a lock alone until the transaction ends."""
    if connection.dialect.name != "sqlite":
        await connection.execute(_EXCLUSIVE, {"name": name})


async def kept(connection: AsyncConnection, name: str) -> None:
    """As `exclusive`, in a transaction that does nothing else while others do the work."""
    await exclusive(connection, name)
    if connection.dialect.name != "sqlite":
        await connection.execute(_PATIENT)


async def try_exclusive(connection: AsyncConnection, name: str) -> bool:
    """Hold a lock alone until the transaction ends, unless somebody else has it: then False."""
    if connection.dialect.name == "sqlite":
        return True
    return bool((await connection.execute(_TRY, {"name": name})).scalar_one())


async def shared(connection: AsyncConnection, name: str) -> None:
    """Hold a lock beside others who share it until the transaction ends."""
    if connection.dialect.name != "sqlite":
        await connection.execute(_SHARED, {"name": name})
