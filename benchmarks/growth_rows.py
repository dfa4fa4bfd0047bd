"""Rows of a service that has run for long, made by the database itself: a million records in a
minute or two, on SQLite and PostgreSQL.

What matters for plans and pages is as in earnest: identifiers without an order, one wallet with a
tenth of all records and many with few, a month of times in the order of `seq`, every status, texts
as long as real ones. Audit entries fit no chain, so `solward audit verify` refuses such a database.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from sqlalchemy.engine import URL, make_url

from solward.database.tables import FOUND_BY
from solward.service.retention import USAGE_KEPT_HOURS
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS, HOUR_MS
from solward.vault.store import window_sums

# Unfinished at the end, as a killed process leaves them.
PENDING = 20
OPEN_HOLDS = 20

_APPLIED = (
    '["max_per_tx", "rate_limit", "daily_limit", "program_allowlist", "blocked_address",'
    ' "spending_limit_check", "fee_limit", "simulated_effects", "authority_change", "costs_limit",'
    ' "swap_bounds"]'
)
_BLOCKED = "100 SOL is more than the 2 SOL allowed per transaction (limit of the wallet)"
_NUMBERS = """'{"asked": "100", "limit": "2", "unit": "SOL"}'"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows of each kind.

    Attributes:
        totals: grants' rows of `reservation_totals`, beside those of what was reserved.
        days: in which they were made, evenly.
    """

    records: int
    wallets: int
    keys: int
    agents: int
    totals: int
    days: int = 30

    @classmethod
    def of(cls, records: int) -> Sizes:
        """In the proportions of 1M records, 100k wallets, 10k keys, 100k counters."""
        return cls(records, records // 10, records // 100, max(records // 1_000, 10), records // 10)


@dataclass(frozen=True, slots=True)
class Mine:
    """Ids of what the service itself made, which can be used: a tenth of all records is this
    wallet's, and a part of them this agent's and this key's."""

    wallet: str
    agent: str
    key: str


class _SQLite:
    """SQLite's expressions; a column `n` counts the rows."""

    def __init__(self, url: URL) -> None:
        self._path = Path(str(url.database))
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        # A file that is lost with the machine is made anew, so nothing is written twice.
        for pragma in (
            "journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF",
            "foreign_keys = OFF", "cache_size = -800000", "temp_store = MEMORY",
        ):  # fmt: skip
            self.run(f"PRAGMA {pragma}")
        self._dropped: list[str] = []

    def run(self, statement: str) -> list[Any]:
        return self._connection.execute(statement).fetchall()

    def begin(self, most: int) -> None:
        self.run("BEGIN IMMEDIATE")
        self.run("CREATE TEMP TABLE numbers (n INTEGER PRIMARY KEY)")
        self.run(
            "INSERT INTO numbers WITH RECURSIVE r(n) AS"
            f" (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {most}) SELECT n FROM r"
        )
        # Indexes are faster made at once than row by row, and so are triggers' totals (`_totals`).
        for kind, name, sql in self.run(
            "SELECT type, name, sql FROM sqlite_schema"
            " WHERE sql IS NOT NULL AND type IN ('index', 'trigger')"
        ):
            self.run(f"DROP {kind} {name}")
            self._dropped.append(sql)

    def restore(self) -> None:
        for statement in self._dropped:
            self.run(statement)

    def end(self) -> None:
        # Without statistics, as the service keeps none.
        self.run("COMMIT")
        self.run("PRAGMA journal_mode = WAL")
        self._connection.close()
        # Otherwise the service's first checkpoint waits for the disk to take all of it.
        with self._path.open("rb") as made:
            os.fsync(made.fileno())

    def next(self, table: str, column: str) -> int:
        return int(self.run(f"SELECT coalesce(max({column}), 0) FROM {table}")[0][0])

    @staticmethod
    def digits(number: str, width: int) -> str:
        return f"printf('%0{width}d', {number})"

    @staticmethod
    def hexadecimal(number: str, width: int) -> str:
        return f"printf('%0{width}x', {number})"

    @staticmethod
    def blob(size: str) -> str:
        return f"randomblob({size})"

    @staticmethod
    def bytes(value: bytes) -> str:
        return f"x'{value.hex()}'"

    @staticmethod
    def json(text: str) -> str:
        return text

    false = "0"


class _Postgres:
    """PostgreSQL's expressions; a column `n` counts the rows."""

    def __init__(self, url: URL) -> None:
        address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection = psycopg.connect(address)
        self._dropped: list[str] = []

    def run(self, statement: str) -> list[Any]:
        cursor = self._connection.execute(statement.encode())
        return [] if cursor.description is None else cursor.fetchall()

    def begin(self, most: int) -> None:
        self.run(
            "SET LOCAL session_replication_role = replica; SET LOCAL maintenance_work_mem = '256MB'"
        )
        self.run(f"CREATE TEMP TABLE numbers AS SELECT generate_series(1, {most}) AS n")
        for name, definition in self.run(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
            " AND tablename NOT LIKE 'procrastinate%'"
            " AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ):
            self.run(f"DROP INDEX {name}")
            self._dropped.append(definition)

    def restore(self) -> None:
        for statement in self._dropped:
            self.run(statement)
        self.run("SET LOCAL session_replication_role = origin")

    def end(self) -> None:
        self._connection.commit()
        self._connection.autocommit = True
        # Identities go on after the rows that were given theirs.
        for table, column in self.run(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND (is_identity = 'YES'"
            " OR column_default LIKE 'nextval%') AND table_name NOT LIKE 'procrastinate%'"
        ):
            self.run(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
                f" (SELECT coalesce(max({column}), 0) + 1 FROM {table}))"
            )
        self.run("VACUUM ANALYZE")
        self._connection.close()

    def next(self, table: str, column: str) -> int:
        # Numbers of transactions are far above those of rows.
        if (table, column) == ("audit", "seq"):
            return 0
        return int(self.run(f"SELECT coalesce(max({column}), 0) FROM {table}")[0][0])

    @staticmethod
    def digits(number: str, width: int) -> str:
        return f"lpad(({number})::text, {width}, '0')"

    @staticmethod
    def hexadecimal(number: str, width: int) -> str:
        return f"lpad(to_hex(({number})::bigint), {width}, '0')"

    @staticmethod
    def blob(size: str) -> str:
        # Compresses as little as random bytes do, and takes less time than they.
        return (
            f"decode(substr(repeat(md5(n::text) || md5((n + 1)::text), ({size}) / 32 + 1), 1,"
            f" 2 * ({size})), 'hex')"
        )

    @staticmethod
    def bytes(value: bytes) -> str:
        return f"decode('{value.hex()}', 'hex')"

    @staticmethod
    def json(text: str) -> str:
        return f"({text})::json"

    false = "false"


def _scattered(number: str, below: int | str) -> str:
    """A number below `below` that looks like chance, the same each time."""
    return f"(({number}) * 2654435761 % 4294967291 % ({below}))"


@dataclass(frozen=True, slots=True)
class _Filling:
    db: _SQLite | _Postgres
    sizes: Sizes
    mine: Mine
    now_ms: int

    def id(self, kind: int, number: str) -> str:
        """Like a UUID, and without an order as those are."""
        head = self.db.hexadecimal(_scattered(f"({number}) + {kind}", 4294967291), 8)
        return f"{head} || '-{kind:04x}-4000-8000-' || {self.db.hexadecimal(number, 12)}"

    def address(self, number: str) -> str:
        """Base58 of 32 bytes."""
        return f"'4' || replace({self.db.digits(number, 43)}, '0', 'A')"

    def digest(self, number: str) -> str:
        """Like 32 bytes in hex."""
        parts = (
            self.db.hexadecimal(_scattered(f"({number}) + {each}", 4294967291), 16)
            for each in range(4)
        )
        return " || ".join(parts)

    def made(self, rows: int) -> str:
        """The time of row `n` of `rows`, as a whole number."""
        length = self.sizes.days * DAY_MS
        return f"CAST({self.now_ms - length} + {length} * (n * 1.0) / {rows} AS bigint)"

    def newer(self, days: int) -> str:
        """Which rows of `records` are not older."""
        return f"n > {self.sizes.records - self.sizes.records * days // self.sizes.days}"

    def insert(
        self, table: str, rows: int, columns: Mapping[str, str], where: str = "true"
    ) -> None:
        names, values = ", ".join(columns), ", ".join(columns.values())
        self.db.run(
            f"INSERT INTO {table} ({names}) SELECT {values} FROM numbers"
            f" WHERE n <= {rows} AND {where} ORDER BY n"
        )


def fill(address: str, sizes: Sizes, mine: Mine) -> None:
    """Fill the database of a service that is not running.

    Args:
        address: as DATABASE_URL has it.
        mine: who made it exists in it, the wallet by its id.
    """
    url = make_url(address)
    on_sqlite = url.get_backend_name() == "sqlite"
    db = _SQLite(url) if on_sqlite else _Postgres(url)
    most = max(sizes.records, 100 * sizes.agents, USAGE_KEPT_HOURS * sizes.agents)
    db.begin(most)
    filling = _Filling(db, sizes, mine, now_ms())
    for step in (_wallets, _keys, _agents, _records, _limits, _audit, _rest):
        step(filling)
    db.restore()
    _totals(filling)
    _grants(filling)
    db.end()


def _wallets(to: _Filling) -> None:
    (row,) = to.db.run("SELECT kek_version, name FROM wallets WHERE id = " + _text(to.mine.wallet))
    to.insert(
        "wallets",
        to.sizes.wallets,
        {
            "id": to.id(1, "n"),
            "name": "'wallet-' || n",
            "public_key": to.address("n"),
            "tags": to.db.json("'[\"fleet\"]'"),
            "created_ms": to.made(to.sizes.wallets),
            "kek_version": str(row[0]),
            "wrapped_data_key": to.db.blob("60"),
            "sealed_key": to.db.blob("60"),
            "created_by": f"'key:' || {to.id(2, f'n % {to.sizes.keys} + 1')}",
        },
    )
    to.insert(
        "switches",
        to.sizes.wallets,
        {
            "scope": f"'wallet:' || {to.id(1, 'n')}",
            "frozen": to.db.false,
            "changed_ms": str(to.now_ms),
        },
        "n % 100 = 0",
    )


def _keys(to: _Filling) -> None:
    to.insert(
        "credentials",
        to.sizes.keys,
        {
            "id": to.id(2, "n"),
            "hash": to.digest("n"),
            "name": "'key-' || n",
            "permissions": to.db.json('\'["read", "write"]\''),
            "rate_limit": "10",
            "spending_limit_lamports": "1000000000",
            "max_costs_lamports": "50000000",
            "read_only": "false",
            "created_by": "'admin'",
            "created_ms": to.made(to.sizes.keys),
            "last_used_ms": str(to.now_ms),
        },
    )


def _agents(to: _Filling) -> None:
    count = to.sizes.agents
    made = {
        "id": to.id(3, "n"),
        "name": "'agent-' || n",
        "wallet_id": to.id(1, "n"),
        "llm_provider": "'rules'",
        "llm_model": "'rules'",
        "strategy": "'Keep half of it in USDC; never more than 1 SOL a day.'",
        "guardrails": f"(SELECT guardrails FROM agents WHERE id = {_text(to.mine.agent)})",
        "loop_interval_ms": "60000",
        "status": "'stopped'",
        "desired_state": "'stopped'",
        "created_ms": str(to.now_ms),
        "cycle_no": str(to.sizes.records // count),
        "fence": "1",
        "failures": "0",
    }
    to.insert("agents", count, made)
    decided = {
        "agent_id": f"CASE WHEN n % 10 = 0 THEN {_text(to.mine.agent)}"
        f" ELSE {to.id(3, f'n % {count} + 1')} END",
        "cycle": "n",
        "reasoning": "'The balance is 1.25 SOL and 12 USDC, within the bounds; nothing to do.'",
        "action": "'wait {}'",
        "outcome": "'Waited.'",
        "created_ms": to.made(to.sizes.records),
    }
    recent = '{"type":"transfer","status":"confirmed","amount":0.001}'
    observed = (
        '{"walletName":"wallet","walletAddress":"So11111111111111111111111111111111111111112",'
        '"solBalance":1.25,"tokenBalances":[],"recentTransactions":['
        + ",".join([recent] * 5)
        + '],"cycle":1,"timestamp":"2026-11-23T08:00:00.000Z"}'
    )
    more = {"observations": f"'{observed}'", "input_tokens": "812",
            "output_tokens": "96", "cost_nanousd": "180000"}  # fmt: skip
    to.insert("decisions", to.sizes.records, decided | more)
    # Of each agent the newest hundred.
    to.insert(
        "memory",
        100 * count,
        decided | {"agent_id": to.id(3, f"n % {count} + 1"), "cycle": f"n / {count}"},
    )
    to.insert(
        "agent_usage",
        USAGE_KEPT_HOURS * count,
        {
            "agent_id": to.id(3, f"n % {count} + 1"),
            "hour": f"{to.now_ms // HOUR_MS} - n / {count}",
            "tokens": "54480",
            "cost_nanousd": "10800000",
            "unpriced_tokens": "0",
        },
    )


def _wire() -> bytes:
    """A transfer that expired long ago; who takes it over reads its message."""
    payer = Keypair.from_seed(bytes(32))
    instruction = transfer(
        TransferParams(from_pubkey=payer.pubkey(), to_pubkey=payer.pubkey(), lamports=1)
    )
    message = MessageV0.try_compile(payer.pubkey(), [instruction], [], Hash.default())
    return bytes(VersionedTransaction(message, [payer]))


def _records(to: _Filling) -> None:
    sizes, records = to.sizes, to.sizes.records
    db = to.db
    base = db.next("transactions", "seq")
    few = max(sizes.wallets // 100, 1)
    # Whose a record is: a tenth is of one wallet, four of a hundredth of them, half of anybody.
    wallet = (
        f"CASE WHEN n % 10 = 0 OR n > {records - PENDING} THEN {_text(to.mine.wallet)}"
        f" WHEN n % 10 < 5 THEN {to.id(1, _scattered('n', few) + ' + 1')}"
        f" ELSE {to.id(1, _scattered('n', sizes.wallets) + ' + 1')} END"
    )
    agent = (
        f"CASE WHEN n % 20 = 0 THEN {_text(to.mine.agent)}"
        f" ELSE {to.id(3, f'n % {sizes.agents} + 1')} END"
    )
    key = (
        f"CASE WHEN n % 30 = 10 THEN {_text(to.mine.key)}"
        f" ELSE {to.id(2, f'n % {sizes.keys} + 1')} END"
    )
    kind = (
        f"CASE WHEN n > {records - PENDING} THEN 'transfer' WHEN n % 50 = 1 THEN 'payment'"
        " WHEN n % 100 = 2 THEN 'swap'"
        " WHEN n % 2000 = 0 THEN 'stake' WHEN n % 2000 = 10 THEN 'token_launch'"
        " WHEN n % 10 = 7 THEN 'token_transfer' WHEN n % 20 = 8 THEN 'airdrop' ELSE 'transfer' END"
    )
    status = (
        f"CASE WHEN n > {records - PENDING} THEN 'pending' WHEN n % 100 < 90 THEN 'confirmed'"
        " WHEN n % 100 < 94 THEN 'failed' ELSE 'blocked' END"
    )
    sender, to_whom = to.address("n % 1000"), to.address(_scattered("n", sizes.wallets))
    details = f'\'{{"from":"\' || {sender} || \'","to":"\' || {to_whom} || \'","amount":0.001}}\''
    staked = f'\'{{"amount":1.5,"stakeAccount":"\' || {to.address("n")} || \'"}}\''
    principal = (
        f"CASE WHEN n % 10 < 5 THEN 'agent:' || {agent} WHEN n % 10 < 8 THEN 'key:' || {key}"
        " ELSE 'admin' END"
    )
    cycle = "CAST(n AS text)"
    to.insert(
        "transactions",
        records,
        {
            "seq": f"{base} + n",
            "id": to.id(4, "n"),
            "wallet_id": wallet,
            "agent_id": f"CASE WHEN n % 10 < 5 THEN {agent} END",
            "principal": principal,
            "action_key": f"CASE WHEN n % 10 < 5 THEN {agent} || ':' || {cycle} || ':transfer:1'"
            " END",
            "type": kind,
            "status": status,
            "signature": f"CASE WHEN n % 100 < 94 THEN '5' || replace({db.digits('n', 87)}, '0',"
            " 'B') END",
            "details": f"CASE WHEN n % 2000 = 0 THEN {staked} ELSE {details} END",
            "guardrails_applied": db.json(f"'{_APPLIED}'"),
            "error": f"CASE WHEN n % 100 >= 94 THEN '{_BLOCKED}' END",
            "refusal_numbers": f"CASE WHEN n % 100 >= 94 THEN {db.json(_NUMBERS)} END",
            "fee_lamports": "5000",
            "held_lamports": "1005000",
            "created_ms": to.made(records),
            "owner": "'0e9bd89e-4000-4000-8000-000000000000'",
            "trace": db.hexadecimal("n", 32),
            "compute_units": "663",
            "compute_unit_price": "0",
        },
    )
    to.insert(
        "attempts",
        records,
        {
            "id": f"{db.next('attempts', 'id')} + n",
            "transaction_id": to.id(4, "n"),
            "attempt_no": "1",
            "step": "''",
            "signature": f"'5' || replace({db.digits('n', 87)}, '0', 'B')",
            "wire": db.bytes(_wire()),
            "blockhash": to.address("n / 100"),
            "last_valid_block_height": "1",
            "context_slot": "1",
            "max_debit": "1005000",
            "state": f"CASE WHEN n > {records - PENDING} THEN 'sent' WHEN n % 100 < 90"
            " THEN 'landed_ok' ELSE 'landed_err' END",
            "created_ms": to.made(records),
        },
        f"(n % 100 < 94 OR n > {records - PENDING})",
    )
    to.insert(
        "idempotency",
        records,
        {
            "scope": f"'admin|POST|/api/v1/wallets/' || {to.id(1, 'n')} || '/transfer|key-' || n",
            "fingerprint": to.digest("n"),
            "transaction_id": to.id(4, "n"),
            "status_code": "200",
            "body": f"'{'x' * 300}' || {details} || '{'x' * 350}'",
            "created_ms": to.made(records),
        },
        "n % 4 = 0",
    )
    to.insert(
        "judged_effects",
        records,
        {
            "seq": f"{db.next('judged_effects', 'seq')} + n",
            "transaction_id": to.id(4, "n"),
            "wallet_id": wallet,
            "created_ms": to.made(records),
            "chain": f"'[\"wallet:' || {wallet} || '\"]'",
            "type": "'transfer'",
            "lines": '\'[{"operation":"transfer","asset":"SOL","units":1000000,'
            f'"account":"\' || {to_whom} || \'","decimals":9}}]\'',
            "costs_lamports": "5000",
            "terms": f'\'{{"said":"allowed","nowMs":[{to.now_ms},{to.now_ms}],"listed":null}}\'',
            "prices": "'{}'",
            "verdict": "'allowed'",
        },
        "n % 100 < 94",
    )
    to.insert(
        "payments",
        records,
        {
            "seq": f"{db.next('payments', 'seq')} + n",
            "transaction_id": to.id(4, "n"),
            "wallet_id": wallet,
            "principal": "'admin'",
            "protocol": "'x402'",
            "mode": "'sponsored'",
            "site": "'api.example.com'",
            "url": "'https://api.example.com/forecast/' || n % 10",
            "method": "'GET'",
            "fingerprint": to.digest("n"),
            "offer": f'\'{{"scheme":"exact","amount":"10000","payTo":"\' || {to_whom} || \'"}}\'',
            "asset": "'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'",
            "units": "10000",
            "decimals": "6",
            "pay_to": to_whom,
            "source": to_whom,
            "source_units": "1000000",
            "message_sha256": to.digest("n"),
            "signer_index": "1",
            "served": "'yes'",
            "answer_status": "200",
            "answer_headers": '\'[["content-type","application/json"]]\'',
            "answer_body": db.blob("4096"),
            "answered_ms": to.made(records),
            "created_ms": to.made(records),
        },
        "n % 50 = 1",
    )


def _limits(to: _Filling) -> None:
    """What counts against the limits: SOL and costs of each record, of its wallet and caller."""
    sizes, records = to.sizes, to.sizes.records
    made = to.made(records)
    caller = (
        f"CASE WHEN n % 20 = 0 THEN 'agent:' || {_text(to.mine.agent)}"
        f" WHEN n % 30 = 10 THEN 'key:' || {_text(to.mine.key)}"
        f" WHEN n % 10 < 5 THEN 'agent:' || {to.id(3, f'n % {sizes.agents} + 1')}"
        f" ELSE 'key:' || {to.id(2, f'n % {sizes.keys} + 1')} END"
    )
    few = max(sizes.wallets // 100, 1)
    wallet = (
        f"'wallet:' || CASE WHEN n % 10 = 0 THEN {_text(to.mine.wallet)}"
        f" WHEN n % 10 < 5 THEN {to.id(1, _scattered('n', few) + ' + 1')}"
        f" ELSE {to.id(1, _scattered('n', sizes.wallets) + ' + 1')} END"
    )
    for scope in (wallet, caller):
        for asset, units in (("SOL", "1000000"), ("COSTS", "5000")):
            to.insert(
                "reservations",
                records,
                {
                    "transaction_id": to.id(4, "n"),
                    "scope": scope,
                    "asset": f"'{asset}'",
                    "created_ms": made,
                    "units": units,
                },
                "n % 100 < 94",
            )
    to.insert(
        "paid_recipients",
        records,
        {
            "wallet_id": f"CASE WHEN n % 10 = 0 THEN {_text(to.mine.wallet)}"
            f" ELSE {to.id(1, _scattered('n', sizes.wallets) + ' + 1')} END",
            "address": f"{to.address(_scattered('n', 2**31))} ",
            "transaction_id": to.id(4, "n"),
        },
        "n % 5 = 0",
    )
    to.insert(
        "opened_accounts",
        records,
        {
            "account": to.address("n"),
            "transaction_id": to.id(4, "n"),
            "rent_lamports": "2039280",
            "created_ms": made,
        },
        "n % 10 = 7 AND " + to.newer(2),
    )


def _audit(to: _Filling) -> None:
    base = to.db.next("audit", "seq")
    wallet = to.id(1, _scattered("n", to.sizes.wallets) + " + 1")
    to.insert(
        "audit",
        to.sizes.records,
        {
            "seq": f"{base} + n",
            "chain": f"'wallet:' || {wallet}",
            "number": "n",
            "created_ms": to.made(to.sizes.records),
            "event": "'transaction:confirmed'",
            "data": f'\'{{"details":{{"amount":0.001,"from":"\' || {to.address("n % 1000")} ||'
            f' \'","to":"\' || {to.address("n")} || \'"}},"guardrailsApplied":{_APPLIED},'
            f'"id":"\' || {to.id(4, "n")} || \'","principal":"admin","status":"confirmed",'
            f'"type":"transfer","walletId":"\' || {wallet} || \'"}}\'',
            "previous_hash": to.digest("n"),
            "hash": to.digest("n + 1"),
        },
    )
    to.insert(
        "audit_heads",
        to.sizes.wallets,
        {
            "chain": f"'wallet:' || {to.id(1, 'n')}",
            "number": str(to.sizes.records),
            "hash": to.digest("n"),
        },
    )


def _rest(to: _Filling) -> None:
    sizes, records, db = to.sizes, to.sizes.records, to.db
    wallet = to.id(1, _scattered("n", sizes.wallets) + " + 1")
    made = to.made(records)
    shown = (
        '\'{"sentence":"Send 1.5 SOL to somebody new","reasons":["above 1 SOL"],"lines":[],'
        '"costsLamports":5000,"arrives":{},"details":{"amount":1.5},"keyless":true}\''
    )
    to.insert(
        "holds",
        records,
        {
            "seq": f"{db.next('holds', 'seq')} + n",
            "id": to.id(5, "n"),
            "wallet_id": f"CASE WHEN n % 1000 = 0 THEN {_text(to.mine.wallet)} ELSE {wallet} END",
            "principal": f"'key:' || CASE WHEN n % 2000 = 0 THEN {_text(to.mine.key)}"
            f" ELSE {to.id(2, f'n / 20 % {sizes.keys} + 1')} END",
            "chain": db.json("'[]'"),
            "type": "'transfer'",
            "state": f"CASE WHEN n > {records - 20 * OPEN_HOLDS} THEN 'held'"
            " WHEN n % 300 = 0 THEN 'denied' ELSE 'executed' END",
            "digest": to.digest("n"),
            "action_key": f"'held:' || {to.id(5, 'n')}",
            "shown": shown,
            "applied": db.json("'[\"max_per_tx\"]'"),
            "created_ms": made,
            "expires_ms": str(to.now_ms + DAY_MS),
            "transaction_id": f"CASE WHEN n % 300 = 0 THEN NULL ELSE {to.id(4, 'n')} END",
        },
        "n % 20 = 0",
    )
    to.insert(
        "pockets",
        records,
        {
            "wallet_id": to.id(1, f"n / 100 % {sizes.wallets} + 1"),
            "counter": "n",
            "address": to.address("n + 1000000000"),
            "transaction_id": to.id(4, "n"),
            "mints": db.json("'[]'"),
            "state": f"CASE WHEN n > {records - 1000} THEN 'open' ELSE 'empty' END",
            "at_risk": db.json("'{}'"),
            "created_ms": made,
        },
        "n % 100 = 2",
    )
    to.insert(
        "webhook_deliveries",
        records,
        {
            "id": to.id(6, "n"),
            "subject": to.id(5, "n"),
            "body": shown,
            "created_ms": made,
            "next_ms": made,
            "tries": "1",
            "state": "'delivered'",
            "lease_until_ms": "0",
        },
        "n % 100 = 0 AND " + to.newer(7),
    )
    to.insert(
        "webhook_nonces",
        records,
        {"nonce": to.id(7, "n"), "created_ms": made},
        "n % 100 = 0 AND " + to.newer(2),
    )


def _totals(to: _Filling) -> None:
    """What the triggers on `reservations` would have added up."""
    to.db.run("DELETE FROM reservation_totals")
    windows = " AND ".join(f"substr(scope, 1, {len(each)}) <> {_text(each)}" for each in FOUND_BY)
    hour = f"created_ms / {HOUR_MS}"
    to.db.run(
        "INSERT INTO reservation_totals (scope, asset, hour, high, low, count)"
        f" SELECT scope, asset, {hour}, sum(units / {window_sums.HALF}),"
        f" sum(units % {window_sums.HALF}), count(*)"
        f" FROM reservations WHERE {windows} GROUP BY scope, asset, {hour}"
    )


def _grants(to: _Filling) -> None:
    """Grants of a tenth of the keys, as this key has them, and what they counted."""
    granted = max(to.sizes.keys // 10, 1)
    to.db.run(
        "INSERT INTO grant_sets (principal, grants, changed_ms)"
        f" SELECT 'key:' || {to.id(2, 'n')}, grants, changed_ms FROM numbers CROSS JOIN grant_sets"
        f" WHERE n <= {granted} AND principal = {_text('key:' + to.mine.key)}"
    )
    to.insert(
        "reservation_totals",
        to.sizes.totals,
        {
            "scope": f"'grant:key:' || {to.id(2, f'n % {granted} + 1')} || '#0123456789abcdef'",
            "asset": "'SOL'",
            "hour": f"{to.now_ms // HOUR_MS} - n / {granted}",
            "high": "0",
            "low": "1000000",
            "count": "1",
        },
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
