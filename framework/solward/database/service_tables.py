"""The service's tables beside the vault's: agents, their decisions and memory, credentials,
webhook.

Times are integer milliseconds since the Unix epoch, amounts integer smallest units, identifiers
text. The alembic migrations create exactly these (tested).
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
    Table,
    Text,
    text,
)

from solward.database.tables import Sequence, metadata

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
    Column("max_costs_lamports", BigInteger),  # null: made before there was a ceiling; the default
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("expires_ms", BigInteger),  # null: never
    Column("rotated_ms", BigInteger),  # null: it has its first secret
    Column("previous_hash", Text),  # of the secret before the latest rotation
    Column("previous_until_ms", BigInteger),
    Index(None, "previous_hash"),
    Index(None, "name"),
)

admin_credentials = Table(
    "admin_credentials",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),  # read, operate, policy
    Column("created_by", Text, nullable=False),  # `admin` or `admin:<id>`
    Column("created_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("expires_ms", BigInteger),  # null: never
)

# Transaction requests of keys in the last minute, counted here where several processes serve.
key_requests = Table(
    "key_requests",
    metadata,
    Column("id", Sequence, primary_key=True, autoincrement=True),
    Column("key_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "key_id", "created_ms"),
)

# All requests of keys by the second since the epoch, those of the last minute, where several
# processes serve.
key_traffic = Table(
    "key_traffic",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("second", BigInteger, primary_key=True, autoincrement=False),
    Column("requests", BigInteger, nullable=False),
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
    Column("llm_options", Text, nullable=False, server_default="{}"),  # JSON, the provider's schema
    Column("llm_budget", Text, nullable=False, server_default="{}"),  # JSON of TokenBudget
    Column("loop_interval_ms", BigInteger, nullable=False),
    Column("status", Text, nullable=False),  # idle, running, paused, stopped, error
    Column("desired_state", Text, nullable=False),  # running, paused, stopped
    Column("created_ms", BigInteger, nullable=False),
    Column("next_run_ms", BigInteger),
    Column("cycle_no", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),  # cycles in a row that raised
    Column("error", Text),
    Column("entered_ms", BigInteger),  # when its cycle was entered; None while none runs
    Column("deferred_cycle", BigInteger),  # the newest cycle that has a job in the queue
    Index("ix_agents_due", "desired_state", "next_run_ms"),
    Index(None, "name"),
    Index(None, "wallet_id"),
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
    Column("input_tokens", BigInteger),  # None: no model was called, or it reported none
    Column("output_tokens", BigInteger),
    Column("cost_nanousd", BigInteger),
    Index(None, "created_ms"),
)

# Agents' model usage by the hour since the epoch, chats included.
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

# What the webhooks tell, written with the event it tells of.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("channel", Text, nullable=False, server_default="approvals"),  # or: alerts
    Column("subject", Text, nullable=False),  # a hold; what is newer of it supersedes
    Column("body", Text, nullable=False),  # JSON, as it is signed
    Column("created_ms", BigInteger, nullable=False),
    Column("next_ms", BigInteger, nullable=False),  # not tried before
    Column("tries", Integer, nullable=False),  # begun; fences who lost the lease
    Column("state", Text, nullable=False),  # waiting, delivered, superseded, given_up
    Column("lease_until_ms", BigInteger, nullable=False),  # of the process that sends it; 0: none
    Index(None, "subject"),
    Index(None, "created_ms"),
    Index(
        "ix_webhook_deliveries_waiting",
        "next_ms",
        sqlite_where=text("state = 'waiting'"),
        postgresql_where=text("state = 'waiting'"),
    ),
)

# What the alerts' webhook has to tell, by what it is about: what came since it was last told is one
# line of the next message.
alert_groups = Table(
    "alert_groups",
    metadata,
    Column("key", Text, primary_key=True),
    Column("name", Text, nullable=False),  # of an alert or of an event
    Column("fields", Text, nullable=False),  # JSON, of the latest
    Column("count", BigInteger, nullable=False),  # since it was told
    Column("first_ms", BigInteger, nullable=False),  # of these
    Column("last_ms", BigInteger, nullable=False),
    Column("told_ms", BigInteger, nullable=False),  # 0: never
    Column("tells", Integer, nullable=False),  # how often it was told
    Column("next_ms", BigInteger, nullable=False),  # it makes no message before
    Index(None, "next_ms"),
    Index(None, "told_ms"),
)

# Nonces of accepted decisions, so that none is accepted twice.
webhook_nonces = Table(
    "webhook_nonces",
    metadata,
    Column("nonce", Text, primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "created_ms"),
)

# Commands that changed what is installed in folders of its own, each once, and what is installed
# after it. The newest of a distribution is what all processes agree on.
plugin_acts = Table(
    "plugin_acts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("distribution", Text, nullable=False),
    Column("made_ms", BigInteger, nullable=False),
    Column("version", Text),  # null: it was removed
    Column("digest", Text),  # null: likewise
    Column("enabled", Boolean, nullable=False),
    Column("guardrails", JSON, nullable=False),  # names
)

# Others' distributions in the environment of a process: version by name.
process_plugins = Table(
    "process_plugins",
    metadata,
    Column("process_id", Text, primary_key=True),
    Column("versions", JSON, nullable=False),
)

# What runs a skill at times. Its run and what it may spend are fenced as an agent's cycle.
schedules = Table(
    "schedules",
    metadata,
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
    Column("key_hash", Text),  # of the secret it ends with
    Column("created_ms", BigInteger, nullable=False),
    Column("next_due_ms", BigInteger),  # null: none
    Column("running_due_ms", BigInteger),  # the due time that was begun and has not ended
    Column("owner", Text),  # the process that runs it
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),  # of the running due time
    Column("runs", BigInteger, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Index("ix_schedules_due", "status", "next_due_ms"),
    Index(None, "wallet_id", "name", unique=True),
    Index(None, "made_by"),
    Index(None, "name"),
)

# What became of due times, the latest of each schedule.
schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("due_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("started_ms", BigInteger),  # null: nothing was run
    Column("ended_ms", BigInteger),
)
