"""The audit chains show every edit, removal, insertion and move, and where it happened."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.promises import promise
from tests.support.database import audit_places

from solward.audit import log as audit
from solward.audit.log import CheckedLog, Head
from solward.database import outbox
from solward.database.database import Database
from solward.support import jsontext
from solward.types.errors import AuditBroken

# Entry by entry to this one and the next, so that their places in the log and in their chains
# differ: chain "" has the odd ones of twelve.
CHAINS = ("", "wallet:a")
ENTRIES = 6
DATA = {"amount": Decimal("0.1"), "text": "é|\n"}


async def append(database: Database, *chains: str, ms: int = 1000) -> list[int]:
    """An entry in each of the chains named, in one transaction."""
    async with database.write() as connection:
        events = [(chain, "agent:decision", DATA) for chain in chains]
        return await outbox.append_many(connection, ms, events)


# Every character that text in a database can have.
LETTERS = "".join(map(chr, range(1, 0xD800))) + "".join(map(chr, range(0xE000, 0x11000)))


def test_an_entrys_hash_is_of_its_canonical_json_whatever_its_letters() -> None:
    fields = [2**62, 0, "agent:decision", LETTERS, "0" * 64]
    text = jsontext.dumps(fields, canonical=True)
    assert outbox.entry_hash(2**62, 0, *fields[2:]) == sha256(text.encode()).hexdigest()


@pytest.fixture
async def database(database: Database) -> Database:
    for number in range(ENTRIES):
        await append(database, *CHAINS, ms=1000 + number)
    return database


async def verify(database: Database) -> CheckedLog:
    async with database.read() as connection:
        return await audit.verify(connection)


async def tamper(database: Database, *statements: str) -> None:
    async with database.write() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def test_untouched_chains_are_whole(database: Database) -> None:
    log = await verify(database)
    assert (log.entries, log.first_ms, log.last_ms) == (12, 1000, 1005)
    assert {chain: head.number for chain, head in log.heads.items()} == dict.fromkeys(CHAINS, 6)
    assert (log.hash, log.pruned) == (log.heads[""].hash, 0)


async def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    database = await Database.open(None, tmp_path)
    log = await verify(database)
    assert log == CheckedLog(0, {}, None, None)
    assert log.hash == outbox.GENESIS_HASH
    await database.close()


@pytest.mark.parametrize("page", [1, 4, 6, 7])
async def test_a_log_longer_than_a_page_is_read_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(audit, "PAGE", page)
    assert (await verify(database)).entries == 12
    await tamper(database, "UPDATE audit SET data = '{}' WHERE chain = 'wallet:a' AND number = 6")
    with pytest.raises(AuditBroken, match="at entry 6 of wallet:a"):
        await verify(database)


async def test_the_entries_of_a_transaction_are_one_run_over_its_chains(database: Database) -> None:
    run = await append(database, "wallet:a", "", "agent:new", "wallet:a")
    assert run == list(range(run[0], run[0] + 4))
    assert await audit_places(database, *run) == [13, 14, 15, 16]
    log = await verify(database)
    assert {chain: head.number for chain, head in log.heads.items()} == {
        "": 7, "agent:new": 1, "wallet:a": 8
    }  # fmt: skip
    async with database.read() as connection:
        entries = await audit.entries_after(connection, run[0] - 1, 10)
    assert [each.seq for each in entries] == run
    assert [(each.chain, each.number) for each in entries] == [
        ("wallet:a", 7), ("", 7), ("agent:new", 1), ("wallet:a", 8)
    ]  # fmt: skip


OF_A = "chain = 'wallet:a' AND number"
COLUMNS = "created_ms, event, data, previous_hash"


def copied(chain: str, number: int, *, of: int) -> str:
    """Add an entry of its own hash to a chain, the rest as entry `of` of wallet:a has it."""
    return (
        f"INSERT INTO audit (seq, chain, number, {COLUMNS}, hash) "
        f"SELECT 100, '{chain}', {number}, {COLUMNS}, 'x' FROM audit WHERE {OF_A} = {of}"
    )


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        pytest.param([f"UPDATE audit SET data = '{{}}' WHERE {OF_A} = 3"], 3, id="edited data"),
        pytest.param([f"UPDATE audit SET created_ms = 1 WHERE {OF_A} = 1"], 1, id="edited time"),
        pytest.param([f"UPDATE audit SET event = 'x' WHERE {OF_A} = 6"], 6, id="edited event"),
        pytest.param([f"UPDATE audit SET hash = 'x' WHERE {OF_A} = 2"], 2, id="edited hash"),
        pytest.param([f"UPDATE audit SET seq = 99 WHERE {OF_A} = 2"], 2, id="edited place"),
        pytest.param([f"DELETE FROM audit WHERE {OF_A} = 1"], 1, id="first removed"),
        pytest.param([f"DELETE FROM audit WHERE {OF_A} = 4"], 4, id="one removed"),
        pytest.param([f"DELETE FROM audit WHERE {OF_A} > 4"], 5, id="end cut off"),
        pytest.param([f"DELETE FROM audit WHERE {OF_A} > 0"], 1, id="all of a chain removed"),
        pytest.param([copied("wallet:a", 7, of=6)], 7, id="one added"),
        pytest.param([copied("wallet:a", 0, of=1)], 1, id="one added before the first"),
        pytest.param([copied("wallet:a", -9, of=1)], 1, id="one added far before the first"),
        pytest.param(
            [
                f"UPDATE audit SET number = -number - 1 WHERE {OF_A} > 3",
                copied("wallet:a", 4, of=3),
                f"UPDATE audit SET number = -number WHERE {OF_A} < 0",
            ],
            4,
            id="one inserted",
        ),
        pytest.param(
            [
                f"UPDATE audit SET number = 100 WHERE {OF_A} = 2",
                f"UPDATE audit SET number = 2 WHERE {OF_A} = 3",
                f"UPDATE audit SET number = 3 WHERE {OF_A} = 100",
            ],
            2,
            id="two exchanged",
        ),
        pytest.param(
            [
                f"UPDATE audit SET number = -number WHERE {OF_A} > 0",
                f"UPDATE audit SET number = -number + 1 WHERE {OF_A} < 0",
            ],
            1,
            id="all moved on",
        ),
        pytest.param(
            ["UPDATE audit SET chain = 'wallet:a', number = 7 WHERE chain = '' AND number = 6"],
            7,
            id="moved to another chain",
        ),
        pytest.param(
            [
                "UPDATE audit SET chain = 'x' WHERE chain = '' AND number = 6",
                f"UPDATE audit SET chain = '' WHERE {OF_A} = 6",
                "UPDATE audit SET chain = 'wallet:a' WHERE chain = 'x'",
            ],
            6,
            id="two chains' entries exchanged",
        ),
        pytest.param(
            [
                f"UPDATE {table} SET chain = {name} WHERE chain = {given}"
                for name, given in (("'x'", "''"), ("''", "'wallet:a'"), ("'wallet:a'", "'x'"))
                for table in ("audit", "audit_heads")
            ],
            1,
            id="two chains exchanged",
        ),
        pytest.param(
            [
                f"UPDATE {table} SET chain = 'wallet:b' WHERE chain = 'wallet:a'"
                for table in ("audit", "audit_heads")
            ],
            1,
            id="a chain given to another wallet",
        ),
        pytest.param(
            ["UPDATE audit_heads SET number = 7 WHERE chain = 'wallet:a'"], 7, id="head moved"
        ),
        pytest.param(
            [
                "UPDATE audit_heads SET number = 5, hash = (SELECT hash FROM audit "
                f"WHERE {OF_A} = 5) WHERE chain = 'wallet:a'"
            ],
            7,
            id="head taken back",
        ),
        pytest.param(
            ["UPDATE audit_heads SET pruned_number = 1, pruned_hash = 'x' WHERE chain = ''"],
            2,
            id="pretended retention",
        ),
        pytest.param(
            [
                "INSERT INTO audit_heads (chain, number, hash) "
                "SELECT 'wallet:z', number, hash FROM audit_heads WHERE chain = ''"
            ],
            1,
            id="head of nothing",
        ),
    ],
)
async def test_tampering_is_found_where_it_was_done(
    database: Database, tampering: list[str], broken: int
) -> None:
    await tamper(database, *tampering)
    with pytest.raises(AuditBroken, match=f"broken at entry {broken}\\b"):
        await verify(database)


async def test_a_chain_whose_head_was_removed_is_found(database: Database) -> None:
    await tamper(database, "DELETE FROM audit_heads WHERE chain = 'wallet:a'")
    with pytest.raises(AuditBroken, match="a chain without a head: 'wallet:a'"):
        await verify(database)


async def test_a_chain_begun_again_under_its_old_name_is_found_by_its_old_head(
    database: Database,
) -> None:
    before = await verify(database)
    await tamper(
        database,
        "DELETE FROM audit WHERE chain = 'wallet:a'",
        "DELETE FROM audit_heads WHERE chain = 'wallet:a'",
    )
    assert not await continued(database, before, "wallet:a")
    for _ in range(ENTRIES + 1):
        await append(database, "wallet:a", ms=2000)
    assert not await continued(database, before, "wallet:a")
    assert await continued(database, before, "")
    if not database.shared:
        with pytest.raises(AuditBroken, match="18 entries were written, but its chains have 13"):
            await verify(database)


async def continued(database: Database, before: CheckedLog, chain: str) -> bool:
    async with database.read() as connection:
        log = CheckedLog(0, await audit.heads(connection), None, None)
        return await audit.has_head(connection, log, chain, before.heads[chain])


async def test_a_chain_continues_every_end_it_had_and_no_other(database: Database) -> None:
    before = await verify(database)
    await append(database, *CHAINS)
    for chain in CHAINS:
        assert await continued(database, before, chain)
    async with database.read() as connection:
        log = await audit.verify(connection)
        other = before.heads[""]
        assert not await audit.has_head(connection, log, "wallet:a", other)
        assert not await audit.has_head(connection, log, "", Head(5, other.hash))
        assert not await audit.has_head(connection, log, "", Head(8, other.hash))
        assert not await audit.has_head(connection, log, "agent:x", Head(1, other.hash))


async def test_the_latest_come_newest_first_and_page_by_number(database: Database) -> None:
    async with database.read() as connection:
        page = await audit.newest_entries(connection, 2)
        rest = await audit.newest_entries(connection, 20, before=page[-1].seq)
    numbers = [entry.seq for entry in page + rest]
    assert await audit_places(database, *numbers) == list(range(12, 0, -1))
    assert page[0].to_json() == {
        "seq": numbers[0],
        "timestamp": "1970-01-01T00:00:01.005Z",
        "event": "agent:decision",
        "data": DATA,
        "chain": "wallet:a",
        "number": 6,
        "hash": page[0].hash,
    }


async def test_each_chain_begins_with_a_hash_of_its_own() -> None:
    assert outbox.genesis("") == "0" * 64
    begins = {outbox.genesis(chain) for chain in ("", "wallet:a", "agent:a", "wallet:b")}
    assert len(begins) == 4


KEY = b"k" * 32


async def authenticated(database: Database, *chains: str) -> None:
    """An entry in each chain, with the audit key."""
    database.audit_key = KEY
    for chain in chains:
        async with database.write() as connection:
            await outbox.append_many(connection, 1, [(chain, "x", DATA)], KEY)


@pytest.mark.parametrize("on", ["sqlite", "postgresql"])
async def test_the_chain_without_a_name_is_not_taken_back_behind_the_others(
    request: pytest.FixtureRequest, on: str, tmp_path: Path
) -> None:
    """Not even to an end that was authentic once."""
    home = tmp_path / "keyed"
    home.mkdir()
    url = request.getfixturevalue("postgres_url") if on == "postgresql" else None
    opened = await Database.open(url, home)
    await authenticated(opened, "", "wallet:a", "")
    async with opened.write() as connection:
        kept = (await connection.execute(text("SELECT * FROM audit_heads WHERE chain = ''"))).one()
    await authenticated(opened, "", "wallet:a")
    async with opened.read() as connection:
        assert (await audit.verify(connection, KEY)).entries == 5
    names = ", ".join(f"{name} = :{name}" for name in kept._mapping)
    async with opened.write() as connection:
        await connection.execute(text("DELETE FROM audit WHERE chain = '' AND number > 2"))
        taken_back = f"UPDATE audit_heads SET {names} WHERE chain = ''"
        await connection.execute(text(taken_back), dict(kept._mapping))
    told = "at entry 3: the chain's end was cut: it had 3 entries when 'wallet:a' was written"
    async with opened.read() as connection:
        with pytest.raises(AuditBroken, match=told):
            await audit.verify(connection, KEY)
    # Grown again, it is another one than the others saw.
    async with opened.write() as connection:
        await outbox.append_many(connection, 2, [("", "y", None)], KEY)
    async with opened.read() as connection:
        with pytest.raises(AuditBroken, match="at entry 3: it was replaced"):
            await audit.verify(connection, KEY)
    await opened.close()


@promise("log-tampering-found")
async def test_a_process_without_the_key_cannot_go_on_from_an_authentic_end(
    tmp_path: Path,
) -> None:
    home = tmp_path / "keyed"
    home.mkdir()
    database = await Database.open(None, home)
    await authenticated(database, "wallet:a")
    with pytest.raises(RuntimeError, match="open the keystore before writing"):
        await append(database, "wallet:a")
    async with database.read() as connection:
        assert (await audit.verify(connection, KEY)).entries == 1
    await database.close()


async def test_another_key_authenticates_nothing(tmp_path: Path) -> None:
    home = tmp_path / "keyed"
    home.mkdir()
    database = await Database.open(None, home)
    await authenticated(database, "wallet:a")
    async with database.read() as connection:
        with pytest.raises(
            AuditBroken, match="entry 1 of wallet:a: the chain's end is not authenticated"
        ):
            await audit.verify(connection, b"x" * 32)
    await database.close()
