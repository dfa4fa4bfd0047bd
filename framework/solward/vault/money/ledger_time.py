"""The ledger's first word on the time, for the windows of limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from solward.database.database import Database
from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.stakes import unix_time
from solward.support.tasks import in_background
from solward.types.errors import LedgerError
from solward.types.ledger import ReadLedger

RETRY_S = 5.0


@asynccontextmanager
async def ledger_time_read(ledger: ReadLedger, database: Database) -> AsyncIterator[None]:
    """Read the ledger's time once, in the background, as soon as the ledger answers.

    Afterwards it comes with every transaction that is judged. Without it, limits and budgets of a
    service that was stopped for a while would show what left their windows meanwhile.
    """
    async with in_background(_read(ledger, database), "solward-ledger-time"):
        yield


async def _read(ledger: ReadLedger, database: Database) -> None:
    while True:
        try:
            clock = await ledger.account(CLOCK_SYSVAR)
            database.windows.observe(unix_time(clock) * 1000)
        except LedgerError:
            await asyncio.sleep(RETRY_S)
        else:
            return
