"""The freeze switch."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from solward.database.database import Database
from solward.database.tables import switches as table
from solward.vault.store import spending


@pytest.mark.parametrize("scope", ["service", "wallet:a"])
async def test_either_scope_freezes_and_thaws(tmp_path: Path, scope: str) -> None:
    database = await Database.open(None, tmp_path)
    async with database.write() as connection:
        assert await spending.freeze_reason(connection, "a") is None
        await spending.set_frozen(connection, scope, True, "stolen laptop")
        assert await spending.freeze_reason(connection, "a") == "stolen laptop"
        await spending.set_frozen(connection, "wallet:b", True)
    async with database.write() as connection:
        await spending.set_frozen(connection, scope, False)
        assert await spending.freeze_reason(connection, "a") is None
        assert await spending.freeze_reason(connection, "b") == ""
    await database.close()


async def test_the_reason_is_kept_and_goes_with_the_thaw(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    reason = select(table.c.reason).where(table.c.scope == "service")
    async with database.write() as connection:
        await spending.set_frozen(connection, "service", True, "stolen laptop")
        assert (await connection.execute(reason)).scalar() == "stolen laptop"
        await spending.set_frozen(connection, "service", False)
        assert (await connection.execute(reason)).scalar() is None
    await database.close()
