"""What a restored home and an exported key do to schedules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.promises import promise
from tests.schedules.test_schedules_pay import PAY, paid
from tests.support.cli import PASSPHRASE, TWICE, solward
from tests.support.services import HOUR, ScheduleClock, timetable

from solward.vault.custody import KeySource
from solward.vault.custody.export import export_wallet, newest_keystore
from solward.vault.custody.service import KEY_FILE


@pytest.mark.more
@promise("restore-pays-nothing-twice")
@pytest.mark.sqlite("`solward backup` is of a home with its files")
def test_a_restored_home_pays_nothing_that_was_paid_since_its_backup(tmp_path: Path) -> None:
    home, other, file = tmp_path / "home", tmp_path / "other", tmp_path / "home.backup"
    clock = ScheduleClock()

    async def made() -> str:
        async with timetable(home, clock) as table:
            wallet = await table.api.wallet(1)
            await table.add(wallet, PAY | {"every": "1h", "missed": "once"})
            return wallet

    async def goes_on(place: Path, wallet: str) -> None:
        async with timetable(place, clock) as table:
            await table.passes(HOUR)
            assert len(await paid(table, wallet)) == 1

    async def restored(wallet: str) -> None:
        async with timetable(other, clock) as table:
            (schedule,) = (await table.api.get(f"/wallets/{wallet}/schedules")).json["schedules"]
            # What was paid in the other home is due again in this one.
            await table.passes(60_000)
            (run,) = await table.runs(wallet, schedule["id"])
            assert (run["status"], "frozen" in run["text"]) == ("skipped", True)
            await table.api.post("/unfreeze")
            await table.run_due()
            assert await paid(table, wallet) == []

    wallet = asyncio.run(made())
    done = solward(home, "backup", str(file), typed=TWICE)
    assert done.exit_code == 0, done.output
    asyncio.run(goes_on(home, wallet))
    done = solward(other, "restore", str(file), typed=f"{PASSPHRASE}\n")
    assert done.exit_code == 0, done.output
    asyncio.run(restored(wallet))


@promise("key-export-pauses-schedules")
async def test_a_wallet_whose_key_was_exported_has_its_schedules_paused(tmp_path: Path) -> None:
    async with timetable(tmp_path / "home") as table:
        wallet, other = await table.api.wallet(1), await table.api.wallet(1)
        made = await table.add(wallet, PAY | {"every": "1h"})
        await table.add(other, PAY | {"every": "1h"})
        database = table.service.database
        source = KeySource(file=table.service.settings.solward_home / KEY_FILE)
        newest, found = await newest_keystore(database), await table.service.wallets.get(wallet)
        await export_wallet(database, source, newest, found, tmp_path / "key.json")
        await table.passes(HOUR)
        now = await table.get(wallet, made["id"])
        assert (now["status"], now["reason"]) == ("paused", "The wallet's key was exported")
        assert (len(await paid(table, wallet)), len(await paid(table, other))) == (0, 1)
