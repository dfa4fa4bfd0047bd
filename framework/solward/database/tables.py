"""The whole schema of the database: its tables, with their triggers and first rows.

The audit log's and the vault's tables come first, then those of agents, credentials, webhooks,
plugins and schedules. Times are integers in milliseconds since the Unix epoch, amounts are integers
in smallest units, identifiers are text.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    insert,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import SchemaItem

from solward.types.guardrail import CEILINGS
from solward.types.money import COUNTED_MAX


class _Ceilings(TypeDecorator[dict[str, int]]):
    """A wallet's own ceilings, as JSON: the ceiling's name -> lamports, or transactions.

    Ceilings that cannot be read are 0, so that nothing leaves the wallet, and no other is stopped.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: dict[str, int] | None, dialect: Dialect) -> str:
        """See `TypeDecorator`."""
        return json.dumps(value or {})

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, int] | None:
        """See `TypeDecorator`."""
        if value is None:
            return None
        with suppress(ValueError, RecursionError):
            found = json.loads(value)
            is_known = isinstance(found, dict) and found.keys() <= CEILINGS.keys()
            if is_known and all(type(each) is int and each >= 0 for each in found.values()):
                return dict(found)
        return dict.fromkeys(CEILINGS, 0)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Statements to run after the tables exist (triggers, first rows), by dialect; None is for both.
AFTERWARDS: list[tuple[str | None, str]] = []


class U64(TypeDecorator[int]):
    """Units, lamports and slots: unsigned 64-bit on the ledger, signed in the database.

    A value above `COUNTED_MAX` is stored and found as `COUNTED_MAX`, so that no value from a node
    or a stranger makes a statement fail.
    """

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """See `TypeDecorator`."""
        return None if value is None else min(value, COUNTED_MAX)


def _index_where(condition: str, name: str, *columns: str, unique: bool = False) -> Index:
    """Return a partial index of the rows that meet a condition, the same in both databases."""
    where = text(condition)
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


def _single_row(name: str, column: Column[Any], first: int | None) -> Table:
    """Return a table of one row, which exists from the start with the value `first`."""
    id_ = Column("id", Integer, primary_key=True, autoincrement=False)
    made = _table(name, id_, column)
    row = insert(made).values({"id": 1, column.name: first})
    AFTERWARDS.append((None, str(row.compile(compile_kwargs={"literal_binds": True}))))
    return made


# The hash of all that this module declares, in one row (`solward.database.schema`).
schema_hash = _table("schema_hash", Column("hash", Text, primary_key=True))

# Frequent kinds, which are written whenever an agent decides or money moves.
FREQUENT = (
    "agent:decision",
    "payment:answered",
    "payment:handed_over",
    "schedule:run",
    "transaction:confirmed",
    "transaction:pending",
)
# All other kinds: people's changes, refusals, failures. The condition is text, because a query uses
# the index of these kinds only if it has the same text.
RARE = f"event NOT IN ({', '.join(map(repr, FREQUENT))})"

# `seq` orders all entries; `number` counts within a chain, along which the hashes run.
audit = _table(
    "audit",
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("chain", Text, nullable=False, server_default=""),
    Column("number", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Index(None, "chain", "number", unique=True),
    # The kinds in this index are rare, so the index costs nothing when money moves.
    _index_where(RARE, "ix_audit_rare", "seq"),
)

# The end of each chain, and the number of entries that retention deleted. Appending locks the row;
# a truncated chain does not fit it. `mac` authenticates the row (`solward.database.outbox`).
audit_heads = _table(
    "audit_heads",
    Column("chain", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("pruned_number", BigInteger, nullable=False, server_default="0"),
    Column("pruned_hash", Text),
    Column("service_number", BigInteger, nullable=False, server_default="0"),
    Column("service_hash", Text),
    Column("mac", Text),
)

# One row: the offset that PostgreSQL adds to its transaction ids so that `seq` never goes back, not
# even if a dump is restored into another cluster.
audit_offset = _single_row("audit_offset", Column("value", BigInteger, nullable=False), 0)

# SQLite only numbers rows by itself for INTEGER PRIMARY KEY; PostgreSQL gets a bigint identity.
Sequence = BigInteger().with_variant(Integer, "sqlite")
# Ordered by its bytes in every database: cycles find their actions by a range of the prefix.
_Bytewise = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

# Processes on this database. On SQLite, a lock allows only one at a time. On PostgreSQL, each
# renews its lease every few seconds, by the database's clock.
processes = _table(
    "processes",
    Column("id", Text, primary_key=True),  # new at each start
    Column("kind", Text, nullable=False),  # api, worker
    Column("host", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("lease_until_ms", BigInteger, nullable=False),
)

wallets = _table(
    "wallets",
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("public_key", Text, nullable=False, unique=True),
    Column("tags", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # The envelope: the private key encrypted with its own data key, and the data key encrypted
    # with the key-encryption key of `kek_version`.
    Column("kek_version", Integer, nullable=False),
    Column("wrapped_data_key", LargeBinary, nullable=False),
    Column("sealed_key", LargeBinary, nullable=False),
    Column("created_by", Text),  # a principal; null for older wallets
    # Name of a ceiling of this wallet's own -> its lamports, or its transactions.
    Column("ceilings", _Ceilings, nullable=False, server_default="{}"),
    Index(None, "created_by"),
    Index(None, "created_ms", "id"),
    Index(None, "name"),
)

keystore = _table(
    "keystore",
    Column("kek_version", Integer, primary_key=True),
    Column("kdf", JSON, nullable=False),
    Column("verifier", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

switches = _table(
    "switches",
    Column("scope", Text, primary_key=True),  # "service" or "wallet:<id>"
    Column("frozen", Boolean, nullable=False),
    Column("reason", Text),
    Column("changed_ms", BigInteger, nullable=False),
)

# Symbols that the operator's list adds to the built-in ones (`solward.service.token_refresh`).
token_lists = _table(
    "token_lists",
    Column("network", Text, primary_key=True),
    Column("tokens", JSON, nullable=False),  # list of symbol, mint, decimals
    Column("stored_ms", BigInteger, nullable=False),
    Column("mac", Text, nullable=False),
)

# The one network of this database, in one row; null before the first start
# (`solward.database.ledger_network`).
ledger_network = _single_row("ledger_network", Column("network", Text), None)

# The latest accepted time of the ledger, in one row; 0 before the first.
ledger_time = _single_row("ledger_time", Column("ms", BigInteger, nullable=False), 0)

transactions = _table(
    "transactions",
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("agent_id", Text),
    Column("principal", Text, nullable=False),
    Column("action_key", _Bytewise, unique=True),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("signature", Text),
    Column("details", Text, nullable=False),  # JSON with exact decimals (solward.support.jsontext)
    Column("guardrails_applied", JSON, nullable=False),
    Column("error", Text),
    Column("fee_lamports", U64),  # an upper bound until it has landed
    Column("held_lamports", U64, nullable=False),  # amount + fees + rent, then the debit
    Column("created_ms", BigInteger, nullable=False),
    Column("owner", Text),  # the process that handles it while it is pending
    Column("trace", Text),  # its cause: a request's id, or `agent:<id>:<cycle>`
    Column("compute_units", U64),  # units used
    Column("compute_unit_limit", U64),
    Column("compute_unit_price", U64),  # micro-lamports
    Column("plugin", Text),  # the distribution of the third-party plugin that requested it
    Column("recipient", Text),  # the recipient by `record.recipient_of`
    Column("refusal_numbers", JSON),  # if blocked: the reason's numbers as texts by name
    Index(None, "wallet_id", "seq"),
    # A filtered history reads these indexes, newest first (`solward.service.history`).
    # Type and status are there too, so that counting a day reads this index alone.
    Index("ix_transactions_created_ms_seq", "created_ms", "seq", "type", "status"),
    # The condition is always true. It keeps SQLite from using this index for statements without a
    # time: those for a wallet's launches and stakes would read the whole history.
    Index(
        None,
        "wallet_id",
        "created_ms",
        "seq",
        sqlite_where=text("created_ms IS NOT NULL"),
    ),
    _index_where("agent_id IS NOT NULL", "ix_transactions_agent", "agent_id", "created_ms", "seq"),
    _index_where(
        "recipient IS NOT NULL", "ix_transactions_recipient", "recipient", "created_ms", "seq"
    ),
    # Records of a wallet by their requester, so that other requesters' records cost nothing.
    _index_where("plugin IS NOT NULL", "ix_transactions_plugin", "wallet_id", "plugin", "seq"),
    # Reconciliation reads only unfinished records, so a long history does not slow it.
    _index_where("status = 'pending'", "ix_transactions_pending", "seq"),
    # A day's refusals, however many other records it has.
    _index_where("status = 'blocked'", "ix_transactions_blocked", "created_ms", "seq"),
    # A wallet may burn the tokens that it launched; a long history does not slow the check.
    _index_where("type = 'token_launch'", "ix_transactions_launches", "wallet_id"),
    # A wallet's stakes, for RPC providers that do not list them.
    _index_where("type = 'stake'", "ix_transactions_stakes", "wallet_id"),
)

# Entries that plugins keep for wallets, by distribution (`solward.database.plugin_entries`).
plugin_entries = _table(
    "plugin_entries",
    Column("wallet_id", Text, ForeignKey("wallets.id"), primary_key=True),
    Column("plugin", Text, primary_key=True),
    Column("key", _Bytewise, primary_key=True),
    Column("value", Text, nullable=False),  # JSON with exact decimals
    Column("bytes", Integer, nullable=False),  # of key and value
    Column("version", BigInteger, nullable=False),
    Column("transaction_id", Text),  # the money call's record, if stored with it
    Column("changed_ms", BigInteger, nullable=False),
)

# The latest version of any entry, for each plugin and wallet, so that no version is given twice.
plugin_stores = _table(
    "plugin_stores",
    Column("wallet_id", Text, ForeignKey("wallets.id"), primary_key=True),
    Column("plugin", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
)

# The operator's settings of plugins' skills, in clear text or sealed under a key of the keystore.
plugin_settings = _table(
    "plugin_settings",
    Column("plugin", Text, primary_key=True),
    Column("skill", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text),  # JSON with exact decimals
    Column("sealed", LargeBinary),
    Column("changed_ms", BigInteger, nullable=False),
)

# One row per transaction and scope (`wallet:<id>`, `agent:<id>`, `key:<id>`, `skill:<name>`,
# `plugin:<distribution>`, `grant:<principal>#<grant>`) and asset ("SOL", a mint, "COSTS"; for
# grants also "USD"). The SOL row always exists, so counting these rows gives the rate. Rows of a
# transaction that certainly never landed are deleted; all others count against the limits.
reservations = _table(
    "reservations",
    Column("transaction_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("asset", Text, primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("units", U64, nullable=False),
    Index(None, "scope", "asset", "created_ms", "units"),
)

# For a principal with a row, only what its grants allow may leave.
grant_sets = _table(
    "grant_sets",
    Column("principal", Text, primary_key=True),
    Column("grants", Text, nullable=False),  # JSON, amounts in smallest units
    Column("changed_ms", BigInteger, nullable=False),
)

# The policy's groups, which grants call `@name`; only changes of the policy write them.
address_book = _table(
    "address_book",
    Column("name", Text, primary_key=True),
    Column("address", Text, primary_key=True),
)

# Names of recipients, in a table of their own, so that no name can become a member of a group.
contacts = _table(
    "contacts",
    Column("address", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("skeleton", Text, nullable=False, unique=True),  # equal for names that look alike
    Column("created_ms", BigInteger, nullable=False),
)

# One row with a number that every change of grants or groups increases, which ends caches.
grant_version = _single_row("grant_version", Column("version", BigInteger, nullable=False), 0)

# Scopes that only serve to find a transaction: they have no windows and no totals.
FOUND_BY: Final = ("skill:", "plugin:", "site:")

# Hourly totals of the reservations of every scope that has windows, by hour since the epoch.
# Triggers on `reservations` update them. Units are high * 2**32 + low, so that no sum of them
# overflows.
reservation_totals = _table(
    "reservation_totals",
    Column("scope", _Bytewise, primary_key=True),
    Column("asset", _Bytewise, primary_key=True),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    Column("high", BigInteger, nullable=False),
    Column("low", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,  # one tree, so that a window's hours are adjacent
)
_ADD = (
    "INSERT INTO reservation_totals (scope, asset, hour, high, low, count)"
    " VALUES (NEW.scope, NEW.asset, NEW.created_ms / 3600000,"
    " NEW.units >> 32, NEW.units & 4294967295, 1)"
    " ON CONFLICT (scope, asset, hour) DO UPDATE"
    " SET high = reservation_totals.high + excluded.high,"
    " low = reservation_totals.low + excluded.low, count = reservation_totals.count + 1;"
)
_SUBTRACT = (
    "UPDATE reservation_totals SET high = high - (OLD.units >> 32),"
    " low = low - (OLD.units & 4294967295), count = count - 1"
    " WHERE scope = OLD.scope AND asset = OLD.asset AND hour = OLD.created_ms / 3600000;"
)


def _define_totals_trigger(name: str, event: str, body: str, row: str) -> None:
    """Run `body` after each INSERT, UPDATE or DELETE of a reservation whose scope has windows.

    Args:
        row: NEW or OLD: the row whose scope decides.
    """
    found_by = (f"substr({row}.scope, 1, {len(each)}) <> '{each}'" for each in FOUND_BY)
    named = f"reservation_totals_{name}"
    head = (
        f"CREATE TRIGGER {named} AFTER {event} ON reservations"
        f" FOR EACH ROW WHEN ({' AND '.join(found_by)})"
    )
    function = f"{named}() RETURNS trigger LANGUAGE plpgsql AS"
    AFTERWARDS.extend(
        (
            ("sqlite", f"{head} BEGIN {body} END"),
            ("postgresql", f"CREATE FUNCTION {function} $$ BEGIN {body} RETURN NULL; END $$"),
            ("postgresql", f"{head} EXECUTE FUNCTION {named}()"),
        )
    )


_define_totals_trigger("added", "INSERT", _ADD, "NEW")
_define_totals_trigger("changed", "UPDATE", f"{_SUBTRACT} {_ADD}", "NEW")
_define_totals_trigger("removed", "DELETE", _SUBTRACT, "OLD")

# The input and result of grants' checks of each transaction with known bytes, in order of checking,
# so that other grants can be tried on the same input.
judged_effects = _table(
    "judged_effects",
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("transaction_id", Text, nullable=False, unique=True),  # or the hold's id
    Column("wallet_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("chain", Text, nullable=False),  # JSON
    Column("type", Text, nullable=False),
    Column("lines", Text, nullable=False),
    Column("costs_lamports", U64, nullable=False),
    Column("terms", Text, nullable=False),  # clocks, facts and sums used by the check
    Column("prices", Text, nullable=False),  # in dollars, if a grant counts in dollars
    Column("verdict", Text, nullable=False),  # allowed, held, or the rule that refused
    Index(None, "created_ms"),
)

# Recipients of a wallet's payments by transaction; a payment happened if that is confirmed.
paid_recipients = _table(
    "paid_recipients",
    Column("wallet_id", Text, primary_key=True),
    Column("address", _Bytewise, primary_key=True),
    Column("transaction_id", Text, nullable=False),
)

# Wallets' own token accounts, with the transaction that opened each and paid its rent. The rent is
# credited when the account is closed. Rows that are too old for a credit are deleted.
opened_accounts = _table(
    "opened_accounts",
    Column("account", Text, primary_key=True),
    Column("transaction_id", Text, nullable=False),
    Column("rent_lamports", U64, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "created_ms"),
)

# Keys derived from a wallet's key, for signatures that the wallet's key must not make
# (`solward.vault.custody.envelope`). The row is written before the key first signs, so that no
# counter is used twice.
pockets = _table(
    "pockets",
    Column("wallet_id", Text, ForeignKey("wallets.id"), primary_key=True),
    Column("counter", BigInteger, primary_key=True, autoincrement=False),
    Column("address", Text, nullable=False, unique=True),
    Column("transaction_id", Text),  # its first transaction; null if a restore skipped it
    Column("program", Text),  # with `position`: a position that stays
    Column("position", Text),
    Column("mints", JSON, nullable=False),  # mints of tokens that it may hold besides SOL
    Column("output_mint", Text),  # for a swap: mint that the wallet gets
    Column("state", Text, nullable=False),  # single, open, empty
    Column("at_risk", JSON, nullable=False),  # asset -> units still in the pocket
    Column("created_ms", BigInteger, nullable=False),
    Column("opened_by", Text),  # a principal; only it and the operator use the position
    Index(None, "transaction_id"),
    _index_where("state = 'open'", "ix_pockets_open", "wallet_id"),
    Index("uq_pockets_position", "wallet_id", "program", "position", unique=True),
)

attempts = _table(
    "attempts",
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("transaction_id", Text, ForeignKey("transactions.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    # Of a pocket used in steps: fund, call, sweep; hand_over where somebody else sends it; empty
    # where the attempt is the whole.
    Column("step", Text, nullable=False, server_default=""),
    Column("signature", Text, nullable=False, unique=True),
    Column("wire", LargeBinary, nullable=False),
    Column("blockhash", Text, nullable=False),
    Column("last_valid_block_height", U64, nullable=False),
    Column("context_slot", U64, nullable=False),
    Column("max_debit", U64, nullable=False),
    Column("state", Text, nullable=False),  # of attempts.AttemptState
    Column("landed_slot", U64),  # from a node; null until it has landed
    Column("landed_ms", BigInteger),  # when `landed_slot` was stored
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "transaction_id"),
    _index_where(
        "state IN ('signed', 'sent', 'unknown')", "uq_attempts_live", "transaction_id", unique=True
    ),
)

# HTTP requests that were paid for, one for each record of the type `payment`, and sellers' answers.
# The signed bytes are in the record's attempt. Its `signature` is the wallet's, which for a
# sponsored payment differs from the transaction's.
IS_KEPT: Final = "(offer <> '{}' OR answer_headers IS NOT NULL)"
payments = _table(
    "payments",
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("transaction_id", Text, ForeignKey("transactions.id"), nullable=False, unique=True),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("principal", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("mode", Text, nullable=False),  # of payment.PaymentMode
    Column("site", Text, nullable=False),
    Column("url", Text, nullable=False),  # without query and fragment
    Column("method", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),  # SHA-256 of the whole request, hex
    Column("offer", Text, nullable=False),  # JSON
    Column("asset", Text, nullable=False),
    Column("units", U64, nullable=False),
    Column("decimals", Integer, nullable=False),
    Column("pay_to", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("source_units", U64, nullable=False),  # the source's units at the assessment
    Column("memo", Text),
    Column("message_sha256", Text, nullable=False),  # SHA-256 of the signed bytes, hex
    Column("signer_index", Integer, nullable=False),  # index of the wallet's signature
    Column("served", Text, nullable=False),  # of payment.Served
    Column("hint", Text),  # the signature that the seller named
    Column("answer_status", Integer),
    Column("answer_headers", Text),  # JSON
    Column("answer_body", LargeBinary),
    Column("answered_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "wallet_id", "seq"),
    Index("ix_payments_price", "wallet_id", "url", "asset", "seq"),
    # Payments whose offer or answer is still stored.
    _index_where(IS_KEPT, "ix_payments_kept", "created_ms"),
    _index_where(IS_KEPT, "ix_payments_principal", "principal", "created_ms"),
)

# Transactions that wait for a person. Rows are never deleted: a request's Idempotency-Key may point
# at one.
holds = _table(
    "holds",
    Column("seq", Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("agent_id", Text),
    Column("principal", Text, nullable=False),
    Column("chain", JSON, nullable=False),
    Column("type", Text, nullable=False),
    Column("state", Text, nullable=False),  # of hold.HoldState
    Column("digest", Text, nullable=False),  # of the request and the shown effects
    Column("action_key", _Bytewise, unique=True),
    # How to make the transaction again, JSON with exact decimals; null if only its caller can.
    Column("recipe", Text),
    Column("shown", Text, nullable=False),  # JSON: the effects that a person sees
    Column("applied", JSON, nullable=False),  # rules that checked it
    Column("created_ms", BigInteger, nullable=False),  # these two by the windows' clock
    Column("expires_ms", BigInteger, nullable=False),
    Column("decided_by", Text),
    Column("decided_ms", BigInteger),
    Column("note", Text),
    Column("transaction_id", Text),
    Column("owner", Text),  # the process that executes it once approved
    Column("trace", Text),
    Index(None, "wallet_id", "seq"),
    Index(None, "principal", "seq"),
    Index(None, "transaction_id"),
    # Few holds are open at a time, so this index stays small.
    _index_where("state IN ('held', 'approved')", "uq_holds_open", "digest", unique=True),
)

idempotency = _table(
    "idempotency",
    # For callers principal|method|path|key; for the service action|key and cycle|agent|call.
    Column("scope", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("transaction_id", Text, nullable=False),
    Column("status_code", Integer),
    Column("contract_status", Integer),  # if it differs (ERROR_STATUS)
    Column("body", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("owner", Text),  # the process that runs a skill call of this key
)

# API keys and admin credentials.
credentials = _table(
    "credentials",
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("created_by", Text, nullable=False),  # `admin` or `admin:<id>`
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("expires_ms", BigInteger),  # null: never
    Column("rotated_ms", BigInteger),  # null: never rotated
    Column("previous_hash", Text),  # of the secret before the latest rotation
    Column("previous_until_ms", BigInteger),
    Column("role", Text),  # read, operate, policy; null: an API key, with the next columns
    Column("wallet_id", Text),
    Column("permissions", JSON, nullable=False),
    Column("rate_limit", Integer, nullable=False),
    Column("spending_limit_lamports", BigInteger, nullable=False),
    Column("max_costs_lamports", BigInteger, nullable=False),
    Column("read_only", Boolean, nullable=False, default=False),
    Index(None, "previous_hash"),
    Index(None, "name"),
    _index_where("role IS NOT NULL", "uq_credentials_admin", "name", unique=True),
)

# Keys' transaction requests in the last minute, counted here if several processes serve.
key_requests = _table(
    "key_requests",
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("key_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "key_id", "created_ms"),
)

# All requests of keys in the last minute, by second since the epoch, if several processes
# serve.
key_traffic = _table(
    "key_traffic",
    Column("key_id", Text, primary_key=True),
    Column("second", BigInteger, primary_key=True, autoincrement=False),
    Column("requests", BigInteger, nullable=False),
)

agents = _table(
    "agents",
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("llm_provider", Text, nullable=False),
    Column("llm_model", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("guardrails", Text, nullable=False),  # JSON with exact decimals, as the caller gave it
    Column("llm_options", Text, nullable=False, server_default="{}"),  # JSON, the provider's schema
    Column("llm_budget", Text, nullable=False, server_default="{}"),  # JSON of TokenBudget
    Column("loop_interval_ms", BigInteger, nullable=False),
    Column("status", Text, nullable=False),  # idle, running, paused, stopped, error
    Column("desired_state", Text, nullable=False),  # running, paused, stopped
    Column("created_ms", BigInteger, nullable=False),
    Column("next_run_ms", BigInteger),
    Column("cycle_no", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),  # consecutive cycles that raised an error
    Column("error", Text),
    Column("entered_ms", BigInteger),  # when its cycle was entered; None while none runs
    Column("deferred_cycle", BigInteger),  # the newest cycle that has a job in the queue
    Index("ix_agents_due", "desired_state", "next_run_ms"),
    Index(None, "name"),
    Index(None, "wallet_id"),
)

decisions = _table(
    "decisions",
    Column("agent_id", Text, primary_key=True),
    Column("cycle", BigInteger, primary_key=True),
    Column("observations", Text, nullable=False),
    Column("reasoning", Text, nullable=False),
    Column("action", Text),
    Column("outcome", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("input_tokens", BigInteger),  # None: no model was called, or no usage was reported
    Column("output_tokens", BigInteger),
    Column("cost_nanousd", BigInteger),
    Index(None, "created_ms"),
)

# Agents' model usage by the hour since the epoch, chats included.
agent_usage = _table(
    "agent_usage",
    Column("agent_id", Text, primary_key=True),
    Column("hour", BigInteger, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost_nanousd", BigInteger, nullable=False),
    Column("unpriced_tokens", BigInteger, nullable=False),
)

memory = _table(
    "memory",
    Column("agent_id", Text, primary_key=True),
    Column("cycle", BigInteger, primary_key=True),
    Column("reasoning", Text, nullable=False),
    Column("action", Text),
    Column("outcome", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# Deliveries of the webhooks, written in the transaction of their event.
webhook_deliveries = _table(
    "webhook_deliveries",
    Column("id", Text, primary_key=True),
    Column("channel", Text, nullable=False, server_default="approvals"),  # of deliveries.Channel
    Column("subject", Text, nullable=False),  # a hold; its newer deliveries supersede older ones
    Column("body", Text, nullable=False),  # JSON, as it is signed
    Column("created_ms", BigInteger, nullable=False),
    Column("next_ms", BigInteger, nullable=False),  # no attempt before this time
    Column("tries", Integer, nullable=False),  # attempts begun; fences off processes without lease
    Column("state", Text, nullable=False),  # waiting, delivered, superseded, given_up
    Column("lease_until_ms", BigInteger, nullable=False),  # the sending process's lease; 0: none
    Index(None, "subject"),
    Index(None, "created_ms"),
    _index_where("state = 'waiting'", "ix_webhook_deliveries_waiting", "next_ms"),
)

# Alerts that the webhook still has to send, by subject: all alerts of a subject since its last
# message become one line of the next message.
alert_groups = _table(
    "alert_groups",
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),  # of an alert or of an event
    Column("fields", Text, nullable=False),  # JSON, from the latest event
    Column("count", BigInteger, nullable=False),  # number since the last message
    Column("first_ms", BigInteger, nullable=False),  # time of the first of these
    Column("last_ms", BigInteger, nullable=False),
    Column("told_ms", BigInteger, nullable=False),  # 0: never
    Column("tells", Integer, nullable=False),  # number of messages about it
    Column("next_ms", BigInteger, nullable=False),  # no message before this time
    Index(None, "next_ms"),
    Index(None, "told_ms"),
)

# Nonces of accepted decisions, so that none is accepted twice.
webhook_nonces = _table(
    "webhook_nonces",
    Column("nonce", Text, primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "created_ms"),
)

# Commands that changed distributions in folders of their own, each once, with the state after the
# command. All processes follow a distribution's newest command.
plugin_acts = _table(
    "plugin_acts",
    Column("id", Text, primary_key=True),
    Column("distribution", Text, nullable=False),
    Column("made_ms", BigInteger, nullable=False),
    Column("version", Text),  # null: it was removed
    Column("digest", Text),  # null: likewise
    Column("enabled", Boolean, nullable=False),
    Column("guardrails", JSON, nullable=False),  # names
)

# Third-party distributions in the environment of a process: version by name.
process_plugins = _table(
    "process_plugins",
    Column("process_id", Text, primary_key=True),
    Column("versions", JSON, nullable=False),
)

# Schedules, which run a skill at set times. Their runs are fenced like an agent's cycle.
schedules = _table(
    "schedules",
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("skill", Text, nullable=False),
    Column("distribution", Text, nullable=False),
    Column("params", Text, nullable=False),  # JSON with exact decimals, as the caller gave it
    Column("first_ms", BigInteger, nullable=False),
    Column("has_start", Boolean, nullable=False),
    Column("end_ms", BigInteger),
    Column("every_ms", BigInteger),  # null: by `cron`
    Column("cron", Text),
    Column("time_zone", Text, nullable=False),
    Column("missed", Text, nullable=False),  # skip, once
    Column("max_runs", Integer),
    Column("status", Text, nullable=False),  # active, paused, ended
    Column("reason", Text),
    Column("made_by", Text, nullable=False),  # `admin` or `key:<id>`
    Column("key_hash", Text),  # hash of the key's secret; the schedule ends with it
    Column("created_ms", BigInteger, nullable=False),
    Column("next_due_ms", BigInteger),  # null: none
    Column("running_due_ms", BigInteger),  # the due time whose run has begun and not ended
    Column("owner", Text),  # the process that runs it
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),  # at the running due time
    Column("runs", BigInteger, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Index("ix_schedules_due", "status", "next_due_ms"),
    Index(None, "wallet_id", "name", unique=True),
    Index(None, "made_by"),
    Index(None, "name"),
)

# The outcomes of each schedule's latest due times.
schedule_runs = _table(
    "schedule_runs",
    Column("schedule_id", Text, primary_key=True),
    Column("due_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("started_ms", BigInteger),  # null: nothing was run
    Column("ended_ms", BigInteger),
)
