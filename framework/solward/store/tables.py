"""Every table of the service's database, for SQLite and PostgreSQL alike.

Times are integer milliseconds since the Unix epoch, amounts integer smallest units, identifiers
text. The alembic migrations create exactly this (tested).
"""

from __future__ import annotations

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
    text,
)
from sqlalchemy.dialects import postgresql

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite only numbers rows by itself for INTEGER PRIMARY KEY; PostgreSQL gets a bigint identity.
_Sequence = BigInteger().with_variant(Integer, "sqlite")
# Ordered by its bytes in every database: cycles find their actions by a range of the prefix.
_Bytewise = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

# Who works on this database. On SQLite there is one at a time, as the home's lock proves; on
# PostgreSQL each says every few seconds that it lives, by the database's clock.
processes = Table(
    "processes",
    metadata,
    Column("id", Text, primary_key=True),  # new at each start: a process is never taken for another
    Column("kind", Text, nullable=False),  # api, worker
    Column("host", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("lease_until_ms", BigInteger, nullable=False),
)

wallets = Table(
    "wallets",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("public_key", Text, nullable=False, unique=True),
    Column("tags", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # The envelope: the private key under a data key of its own, the data key under the
    # key-encryption key of `kek_version` (reference/reliability.md, key custody).
    Column("kek_version", Integer, nullable=False),
    Column("wrapped_data_key", LargeBinary, nullable=False),
    Column("sealed_key", LargeBinary, nullable=False),
)

keystore = Table(
    "keystore",
    metadata,
    Column("kek_version", Integer, primary_key=True),
    Column("kdf", JSON, nullable=False),
    Column("verifier", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

switches = Table(
    "switches",
    metadata,
    Column("scope", Text, primary_key=True),  # "service" or "wallet:<id>"
    Column("frozen", Boolean, nullable=False),
    Column("reason", Text),
    Column("changed_ms", BigInteger, nullable=False),
)

transactions = Table(
    "transactions",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("agent_id", Text),
    Column("principal", Text, nullable=False),
    Column("action_key", _Bytewise, unique=True),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("signature", Text),
    Column("details", Text, nullable=False),  # JSON with exact decimals (solward.jsontext)
    Column("guardrails_applied", JSON, nullable=False),
    Column("error", Text),
    Column("fee_lamports", BigInteger),
    Column("held_lamports", BigInteger, nullable=False),  # amount + fees + rent, then the debit
    Column("created_ms", BigInteger, nullable=False),
    Column("owner", Text),  # the process that drives it while it is pending
    Column("trace", Text),  # what asked for it: a request's id, or `agent:<id>:<cycle>`
    Index(None, "wallet_id", "seq"),
    # Reconciliation reads the unfinished only, however long the history is.
    Index(
        "ix_transactions_pending",
        "seq",
        sqlite_where=text("status = 'pending'"),
        postgresql_where=text("status = 'pending'"),
    ),
)

# One row per transaction and scope (`wallet:<id>`, `agent:<id>`, `key:<id>`) and asset ("SOL"
# or a mint). The SOL row always exists, so counting it gives the rate. Rows of a transaction
# that never landed are deleted; the others hold what counts against the limits.
reservations = Table(
    "reservations",
    metadata,
    Column("transaction_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("asset", Text, primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("units", BigInteger, nullable=False),
    Index(None, "scope", "asset", "created_ms", "units"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", _Sequence, primary_key=True, autoincrement=True),
    Column("transaction_id", Text, ForeignKey("transactions.id"), nullable=False),
    Column("attempt_no", Integer, nullable=False),
    Column("signature", Text, nullable=False, unique=True),
    Column("wire", LargeBinary, nullable=False),
    Column("blockhash", Text, nullable=False),
    Column("last_valid_block_height", BigInteger, nullable=False),
    Column("context_slot", BigInteger, nullable=False),
    Column("max_debit", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # signed, sent, unknown, landed_ok, landed_err, dead
    Column("created_ms", BigInteger, nullable=False),
    Index(
        "uq_attempts_live",
        "transaction_id",
        unique=True,
        sqlite_where=text("state IN ('signed', 'sent', 'unknown')"),
        postgresql_where=text("state IN ('signed', 'sent', 'unknown')"),
    ),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("scope", Text, primary_key=True),  # principal|method|path|key
    Column("fingerprint", Text, nullable=False),
    Column("transaction_id", Text, nullable=False),
    Column("status_code", Integer),
    Column("body", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("owner", Text),  # the process that runs a skill call of this key
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("wallet_id", Text),
    Column("permissions", JSON, nullable=False),
    Column("rate_limit", Integer, nullable=False),
    Column("spending_limit_lamports", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
)

# Transaction requests of keys in the last minute, where several processes count them together.
key_requests = Table(
    "key_requests",
    metadata,
    Column("id", _Sequence, primary_key=True, autoincrement=True),
    Column("key_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "key_id", "created_ms"),
)

agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("wallet_id", Text, ForeignKey("wallets.id"), nullable=False),
    Column("llm_provider", Text, nullable=False),
    Column("llm_model", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("guardrails", Text, nullable=False),  # JSON with exact decimals, as the caller gave it
    Column("llm_options", Text, nullable=False, server_default="{}"),  # JSON, the provider's own
    Column("llm_budget", Text, nullable=False, server_default="{}"),  # JSON of TokenBudget
    Column("loop_interval_ms", BigInteger, nullable=False),
    Column("status", Text, nullable=False),  # shown: idle, running, paused, stopped, error
    Column("desired_state", Text, nullable=False),  # durable wish: running, paused, stopped
    Column("created_ms", BigInteger, nullable=False),
    Column("next_run_ms", BigInteger),
    Column("cycle_no", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),  # cycles in a row that raised
    Column("error", Text),
    Column("entered_ms", BigInteger),  # when its cycle was entered; None while none runs
    Column("deferred_cycle", BigInteger),  # the newest cycle a worker's job was made for
    Index("ix_agents_due", "desired_state", "next_run_ms"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("cycle", BigInteger, primary_key=True),
    Column("observations", Text, nullable=False),
    Column("reasoning", Text, nullable=False),
    Column("action", Text),
    Column("outcome", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("input_tokens", BigInteger),  # None: no model was asked, or it did not say
    Column("output_tokens", BigInteger),
    Column("cost_nanousd", BigInteger),
    Index(None, "created_ms"),
)

# What agents used of their models, by the hour since the epoch, chats included.
agent_usage = Table(
    "agent_usage",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("hour", BigInteger, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost_nanousd", BigInteger, nullable=False),
    Column("unpriced_tokens", BigInteger, nullable=False),
)

memory = Table(
    "memory",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("cycle", BigInteger, primary_key=True),
    Column("reasoning", Text, nullable=False),
    Column("action", Text),
    Column("outcome", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# `seq` orders all of it; `number` counts within a chain, and the hashes run along the chain.
audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("chain", Text, nullable=False, server_default=""),
    Column("number", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Index(None, "chain", "number", unique=True),
)

# Where each chain ends, and what retention has cut from its beginning. Appending locks the row,
# and a chain cut short no longer fits it.
audit_heads = Table(
    "audit_heads",
    metadata,
    Column("chain", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("pruned_number", BigInteger, nullable=False, server_default="0"),
    Column("pruned_hash", Text),
)

# One row: what PostgreSQL adds to its transaction ids so that `seq` never goes back, not even
# where a dump was restored into another cluster.
audit_offset = Table(
    "audit_offset",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
)
