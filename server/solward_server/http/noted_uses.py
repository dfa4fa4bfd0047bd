"""When credentials were last used: noted in memory, and many written together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database


class NotedUses:
    """Uses by credential's id, in milliseconds since the Unix epoch.

    Args:
        write: stores them.
    """

    def __init__(
        self,
        database: Database,
        write: Callable[[AsyncConnection, Mapping[str, int]], Awaitable[None]],
    ) -> None:
        self._database = database
        self._write = write
        self._noted: dict[str, int] = {}

    def note(self, credential_id: str, ms: int) -> None:
        """Note a use; written by the next `flush`."""
        self._noted[credential_id] = ms

    def forget(self, credential_id: str) -> None:
        """Write nothing of a credential that is gone."""
        self._noted.pop(credential_id, None)

    def latest(self, credential_id: str, stored_ms: int | None) -> int | None:
        """The last use, stored or noted; None where there is none."""
        noted = self._noted.get(credential_id)
        return stored_ms if noted is None else max(noted, stored_ms or 0)

    async def flush(self) -> None:
        """Write the noted uses in one transaction; kept for the next time when that fails."""
        if not self._noted:
            return
        uses, self._noted = self._noted, {}
        try:
            async with self._database.write() as connection:
                await self._write(connection, uses)
        except BaseException:
            self._noted = uses | self._noted
            raise
