"""Databases as earlier releases left them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from socket import socket
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, create_engine, func, insert, select, text, update
from tests.support import database as databases
from tests.support.services import STRANGER, Api

from solward.audit import log
from solward.database.schema import MIGRATIONS
from solward.support import jsontext
from solward.vault.custody import keyring
from solward.vault.custody.envelope import encrypt
from solward.vault.custody.service import KEY_FILE
from solward_cli.up.seller import selling, site_of
from solward_localnet.market import POOLS

STORED_HOMES = Path(__file__).parent / "stored_homes"
OLD_AUDIT = ("seq", "created_ms", "event", "data", "previous_hash", "hash")


@contextmanager
def connected(home: Path) -> Iterator[Connection]:
    """The database of a home, past Solward's own store; committed at the end."""
    engine = create_engine(databases.plain_url(home))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def rows_of(home: Path, statement: str) -> list[tuple[Any, ...]]:
    """What a statement finds."""
    with connected(home) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def tables_of(connection: Connection) -> MetaData:
    """The tables a database has."""
    found = MetaData()
    found.reflect(connection)
    return found


def make_at(home: Path, revision: str) -> None:
    """Bring a new database to one revision and no further."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    empty(home)
    with connected(home) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == revision


def empty(home: Path) -> None:
    """Leave nothing of a home's database."""
    for file in home.glob("solward.db*"):
        file.unlink()
    if databases.ON_POSTGRES:
        with connected(home) as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    else:
        (home / "solward.db").touch(0o600)


def taken_back(home: Path, revision: str) -> None:
    """Put what the database holds into one of `revision`, without what that did not have."""
    with connected(home) as connection:
        new = tables_of(connection)
        rows: dict[str, list[dict[str, Any]]] = {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in new.sorted_tables
        }
    make_at(home, revision)
    with connected(home) as connection:
        old = tables_of(connection)
        for table in old.sorted_tables:
            if table.name.startswith(("audit", "alembic")):
                continue
            names = {column.name for column in table.columns}
            assert names <= {column.name for column in new.tables[table.name].columns}
            for row in rows[table.name]:
                connection.execute(insert(table).values({name: row[name] for name in names}))
        for row in rows["keystore"]:
            kdf, verifier = before_audit_keys(home, row["kek_version"], row["kdf"])
            connection.execute(update(old.tables["keystore"]).values(kdf=kdf, verifier=verifier))
        one_chain(connection, old, sorted(rows["audit"], key=lambda row: int(row["seq"])))
        if databases.ON_POSTGRES:
            count_on(connection, old)
        assert len(old.tables["agents"].columns) < len(new.tables["agents"].columns)


def before_audit_keys(
    home: Path, version: int, kdf: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    """A keystore's parameters and verifier as the releases without an audit key wrote them."""
    kek, kdf = (home / KEY_FILE).read_bytes(), {"kind": kdf["kind"]}
    return kdf, encrypt(kek, keyring._KNOWN, keyring._bound(version, kdf))


def one_chain(connection: Connection, old: MetaData, entries: list[dict[str, Any]]) -> None:
    """The audit log as the first releases wrote it: one chain of all, whose numbers are hashed."""
    seq, previous = 0, "0" * 64
    for entry in entries:
        seq += 1
        row = {name: entry[name] for name in OLD_AUDIT} | {"seq": seq, "previous_hash": previous}
        hashed = [seq, row["created_ms"], row["event"], row["data"], previous]
        previous = hashlib.sha256(jsontext.dumps(hashed, canonical=True).encode()).hexdigest()
        connection.execute(insert(old.tables["audit"]).values(row | {"hash": previous}))
    head = {"id": 1, "seq": seq, "hash": previous}
    connection.execute(insert(old.tables["audit_head"]).values(head))


def count_on(connection: Connection, tables: MetaData) -> None:
    """Let what PostgreSQL numbers go on after the rows that are there."""
    for table in tables.sorted_tables:
        for column in table.primary_key.columns:
            sequence = connection.scalar(
                select(func.pg_get_serial_sequence(table.name, column.name))
            )
            if sequence is not None:
                connection.execute(select(func.setval(sequence, func.max(column))))


def stored_home(name: str, home: Path) -> dict[str, Any]:
    """Unpack one of `stored_homes` and return what was true of it when it was stored."""
    home.mkdir(mode=0o700)
    with tarfile.open(STORED_HOMES / f"{name}.tar.xz") as archive:
        archive.extractall(home, filter="data")
    facts: dict[str, Any] = jsontext.loads((home / "facts.json").read_text())
    return facts


async def goes_on(api: Api, facts: dict[str, Any]) -> None:
    """A stored home, opened, holds what it held, and all of it works."""
    for path, answer in facts["answers"].items():
        assert_within(answer, (await api.get(path)).json, path)
    ends = log.read_heads(api.service.settings.solward_home / "ends.json")
    await api.service.audit.verify(heads=ends)
    for each in facts["replays"]:
        again = await api.post(
            each["path"], data=each["body"].encode(), headers={"Idempotency-Key": each["key"]}
        )
        assert (again.status, again.text) == (each["status"], each["text"])
        assert again.headers["Idempotent-Replayed"] == "true"
    assert (await api.get("/wallets", token=facts["apiKey"])).status == 200

    treasury, till = (f"/wallets/{facts[name]}" for name in ("treasury", "till"))
    refused = await api.post(f"{till}/transfer", {"to": STRANGER, "amount": 0.25})
    assert (refused.status, "looks odd" in refused.error) == (500, True)
    assert (await api.post("/unfreeze", {"walletId": facts["till"]})).status == 200
    for wallet in (treasury, till):
        held = facts["answers"][f"{wallet}/balance"]["sol"]
        paid = await api.post(f"{wallet}/transfer", {"to": STRANGER, "amount": 0.25})
        assert (paid.status, paid.json["status"]) == (200, "confirmed")
        left = (await api.get(f"{wallet}/balance")).json["sol"]
        assert left == held - Decimal("0.25") - Decimal("0.000005")

    # The market of the ledger that release left is the program of this one.
    swapped = await api.post(
        f"{treasury}/swap", {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.5}
    )
    assert (swapped.status, swapped.json["status"]) == (200, "confirmed"), swapped.text

    agent = f"/agents/{facts['agent']}"
    decided = facts["answers"][f"{agent}/decisions?limit=500"]["decisions"]
    assert (await api.post(f"{agent}/start")).status == 200
    async with asyncio.timeout(30):
        while len(now := (await api.get(f"{agent}/decisions?limit=500")).json["decisions"]) <= len(
            decided
        ):
            await asyncio.sleep(0.05)
    assert (await api.post(f"{agent}/stop")).status == 200
    assert_within(decided, now[-len(decided) :], "decisions")
    (first, *_) = now[: -len(decided)][::-1]
    assert first["cycle"] == decided[0]["cycle"] + 1
    assert "Status: confirmed" in first["outcome"], first
    remembered = (await api.get(f"{agent}/memory")).json["memory"]
    assert_within(facts["answers"][f"{agent}/memory"]["memory"], remembered[-len(decided) :], agent)
    for wallet in (treasury, till):
        day = (await api.get(f"{wallet}/limits")).json["dailySpendingLimitSol"]
        assert day["reserved"] == 0
    await api.service.audit.verify(heads=ends)


async def pays(api: Api, wallet: str, shop: socket) -> None:
    """A wallet of a stored home pays the example's seller for a request, once it has a grant.

    Args:
        shop: where the seller listens; PAYMENTS_PRIVATE_SITES names it.
    """
    site = site_of(shop)
    limit = {"USDC": {"perTx": "0.05", "per": {"24h": "0.1"}}}
    grants = [{"may": ["pay"], "assets": limit, "via": [f"site:{site}"]}]
    assert (await api.call("PUT", f"/policy/wallet:{wallet}", {"grants": grants})).status == 200
    request = {"url": f"http://{site}/forecast", "max": "0.05 USDC"}
    usdc = str(POOLS[0].mint)

    async def held() -> Decimal:
        tokens = (await api.get(f"/wallets/{wallet}/balance")).json["tokens"]
        [found] = [Decimal(each["uiBalance"]) for each in tokens if each["mint"] == usdc]
        return found

    async with selling(api.service.localnet, shop):
        before = await held()
        for _ in range(2):
            answer = await api.post(
                f"/wallets/{wallet}/pay", request, headers={"Idempotency-Key": "forecast"}
            )
            assert answer.status == 200, answer.text
            assert answer.json["response"]["status"] == 200, answer.text
    assert await held() == before - Decimal("0.01")
    [payment] = (await api.get(f"/payments?walletId={wallet}")).json["payments"]
    assert (payment["state"], payment["served"]) == ("landed", "yes")


def assert_within(stored: Any, shown: Any, where: str) -> None:
    """What was shown is still shown; later releases may show more of it."""
    if isinstance(stored, dict):
        for name, value in stored.items():
            if name != "state":  # of a stake: epochs go on
                assert_within(value, shown[name], f"{where}.{name}")
    elif isinstance(stored, list):
        assert len(stored) == len(shown), where
        for number, (one, other) in enumerate(zip(stored, shown, strict=True)):
            assert_within(one, other, f"{where}[{number}]")
    else:
        assert stored == shown, where
