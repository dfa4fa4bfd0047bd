"""The audit chain shows every edit, removal, insertion and move, and where it happened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from solward.errors import AuditBroken
from solward.store import audit
from solward.store.database import Database

ENTRIES = 6


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(None, tmp_path)
    async with opened.write() as connection:
        for number in range(ENTRIES):
            data = {"cycle": number, "amount": Decimal("0.1"), "text": "é|\n"}
            await audit.append(connection, 1000 + number, "agent:decision", data)
    yield opened
    await opened.close()


async def verify(database: Database) -> int:
    async with database.read() as connection:
        return (await audit.verify(connection)).length


async def test_an_untouched_chain_is_whole(database: Database) -> None:
    assert await verify(database) == ENTRIES


async def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    async with database.read() as connection:
        chain = await audit.verify(connection)
    assert chain == audit.Chain(0, audit.GENESIS_HASH, None, None)
    await database.close()


async def test_a_chain_longer_than_a_page_is_read_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_PAGE", 4)
    assert await verify(database) == ENTRIES


COPY = (
    "INSERT INTO audit SELECT {new}, created_ms, event, data, previous_hash, 'x' || hash "
    "FROM audit WHERE seq = {old}"
)


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        pytest.param(["UPDATE audit SET data = '{}' WHERE seq = 3"], 3, id="edited data"),
        pytest.param(["UPDATE audit SET created_ms = 1 WHERE seq = 1"], 1, id="edited time"),
        pytest.param(["UPDATE audit SET event = 'x' WHERE seq = 6"], 6, id="edited event"),
        pytest.param(["UPDATE audit SET hash = 'x' WHERE seq = 2"], 2, id="edited hash"),
        pytest.param(["DELETE FROM audit WHERE seq = 1"], 1, id="first removed"),
        pytest.param(["DELETE FROM audit WHERE seq = 4"], 4, id="one removed"),
        pytest.param(["DELETE FROM audit WHERE seq > 4"], 5, id="end cut off"),
        pytest.param(["DELETE FROM audit"], 1, id="all removed"),
        pytest.param([COPY.format(new=7, old=6)], 7, id="one added"),
        pytest.param(
            [
                "UPDATE audit SET seq = seq + 100 WHERE seq > 3",
                COPY.format(new=4, old=3),
                "UPDATE audit SET seq = seq - 99 WHERE seq > 100",
            ],
            4,
            id="one inserted",
        ),
        pytest.param(
            [
                "UPDATE audit SET seq = 100 WHERE seq = 2",
                "UPDATE audit SET seq = 2 WHERE seq = 3",
                "UPDATE audit SET seq = 3 WHERE seq = 100",
            ],
            2,
            id="two exchanged",
        ),
        pytest.param(["UPDATE audit SET seq = seq - 1"], 1, id="all moved"),
        pytest.param(["DELETE FROM audit_head"], 7, id="head removed"),
        pytest.param(["UPDATE audit_head SET seq = 7"], 7, id="head moved"),
    ],
)
async def test_tampering_is_found_where_it_was_done(
    database: Database, tampering: list[str], broken: int
) -> None:
    async with database.write() as connection:
        for statement in tampering:
            await connection.execute(text(statement))
    with pytest.raises(AuditBroken, match=f"broken at entry {broken}\\b"):
        await verify(database)


async def test_an_append_goes_with_the_transaction_it_is_part_of(database: Database) -> None:
    async def undone() -> None:
        async with database.write() as connection:
            assert await audit.append(connection, 1, "x", {}) == ENTRIES + 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await undone()
    async with database.write() as connection:
        assert await audit.append(connection, 2, "y", None) == ENTRIES + 1
    assert await verify(database) == ENTRIES + 1


async def test_the_latest_come_newest_first_and_page_by_number(database: Database) -> None:
    async with database.read() as connection:
        page = await audit.latest(connection, 2)
        rest = await audit.latest(connection, 10, before=page[-1].seq)
    assert [entry.seq for entry in page + rest] == [6, 5, 4, 3, 2, 1]
    assert page[0].to_json() == {
        "seq": 6,
        "timestamp": "1970-01-01T00:00:01.005Z",
        "event": "agent:decision",
        "data": {"cycle": 5, "amount": Decimal("0.1"), "text": "é|\n"},
        "hash": page[0].hash,
    }
