"""Every process on a database knows the slot in which a wallet's last transaction landed."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.vault.store.test_record_pages import PENDING, record, store

from solward.database.database import Database
from solward.types.money import COUNTED_MAX, U64_MAX
from solward.types.record import TransactionStatus
from solward.vault.store import attempts
from solward.vault.store.attempts import Attempt, AttemptState, Settlement


async def land(connection: AsyncConnection, number: int, slot: int | None) -> None:
    """A transaction of `record`'s wallet ends in a slot, or never landed."""
    state = AttemptState.DEAD if slot is None else AttemptState.LANDED_OK
    status = TransactionStatus.FAILED if slot is None else TransactionStatus.CONFIRMED
    name = f"t{number}"
    await attempts.write_ahead(connection, Attempt(name, 1, name, b"", "b", 1, 1, 1), 1)
    await attempts.settle(connection, [Settlement(name, status, state, 0, 0, landed_slot=slot)])


async def test_the_last_slot_is_of_the_wallets_own_and_late_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = [record(number, PENDING) for number in range(6)]
    await store(database, *pending)
    first_ms = pending[0].created_ms
    async with database.write() as connection:
        # Those of even numbers are one wallet's, which lands in another order than it was made.
        for number, slot in enumerate((90, 95, 70, U64_MAX, None, None)):
            monkeypatch.setattr(attempts, "clock_ms", lambda now=first_ms + number: now)
            await land(connection, number, slot)
        for wallet, since_ms, last in (
            ("w0", first_ms, 90),
            ("w0", first_ms + 1, 70),
            ("w0", first_ms + 3, 0),
            ("w1", first_ms, COUNTED_MAX),
            ("w2", first_ms, 0),
        ):
            assert await attempts.last_landed_slot(connection, wallet, since_ms) == last


async def test_a_landing_counts_from_when_it_is_known_not_from_when_its_record_was_made(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep of a purchase in steps lands long after its record was made, and so does what was
    signed before the cluster stood still."""
    made = record(0, PENDING)
    await store(database, made)
    late_ms = made.created_ms + 3_600_000
    monkeypatch.setattr(attempts, "clock_ms", lambda: late_ms)
    async with database.write() as connection:
        await land(connection, 0, 90)
        assert await attempts.last_landed_slot(connection, "w0", late_ms - 1_000) == 90
