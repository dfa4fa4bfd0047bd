"""Every asset is bounded: what grants, keys and their limits store.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Ordered by its bytes in every database.
_BYTEWISE = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    _grants()
    _grant_totals()
    _judged_effects()
    _paid_recipients()
    _launches()
    _webhook()
    _holds()
    _key_ends()
    _key_traffic()
    _wallet_creators()
    _position_owners()


def _grants() -> None:
    op.create_table(
        "grant_sets",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", name=op.f("pk_grant_sets")),
    )
    op.create_table(
        "address_book",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", "address", name=op.f("pk_address_book")),
    )
    op.create_table(
        "grant_version",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grant_version")),
    )
    op.execute("INSERT INTO grant_version (id, version) VALUES (1, 0)")


# Rows by the hour since the epoch, and their units in two halves: sums of halves never overflow.
_ADD = (
    "INSERT INTO grant_totals (scope, asset, hour, high, low, count)"
    " VALUES (NEW.scope, NEW.asset, NEW.created_ms / 3600000,"
    " NEW.units >> 32, NEW.units & 4294967295, 1)"
    " ON CONFLICT (scope, asset, hour) DO UPDATE SET high = grant_totals.high + excluded.high,"
    " low = grant_totals.low + excluded.low, count = grant_totals.count + 1;"
)
_SUBTRACT = (
    "UPDATE grant_totals SET high = high - (OLD.units >> 32),"
    " low = low - (OLD.units & 4294967295), count = count - 1"
    " WHERE scope = OLD.scope AND asset = OLD.asset AND hour = OLD.created_ms / 3600000;"
)
_OF_GRANTS = "substr({0}.scope, 1, 6) = 'grant:'"
# Name, event, what it does and of which row's scope.
_TRIGGERS = (
    ("grant_totals_added", "INSERT", _ADD, "NEW"),
    ("grant_totals_changed", "UPDATE", f"{_SUBTRACT} {_ADD}", "NEW"),
    ("grant_totals_removed", "DELETE", _SUBTRACT, "OLD"),
)


def _grant_totals() -> None:
    """Hourly sums of what grants are charged, so that a window of days is read in few rows."""
    op.create_table(
        "grant_totals",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "asset", "hour", name=op.f("pk_grant_totals")),
        sqlite_with_rowid=False,
    )
    postgres = op.get_bind().dialect.name == "postgresql"
    for name, event, body, row in _TRIGGERS:
        head = f"CREATE TRIGGER {name} AFTER {event} ON reservations FOR EACH ROW"
        when = f"WHEN ({_OF_GRANTS.format(row)})"
        if postgres:
            op.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {body} RETURN NULL; END $$"
            )
            op.execute(f"{head} {when} EXECUTE FUNCTION {name}()")
        else:
            op.execute(f"{head} {when} BEGIN {body} END")


def _judged_effects() -> None:
    op.create_table(
        "judged_effects",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("transaction_id", sa.Text(), nullable=False),
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.Column("costs_lamports", sa.BigInteger(), nullable=False),
        sa.Column("terms", sa.Text(), nullable=False),
        sa.Column("prices", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_judged_effects")),
        sa.UniqueConstraint("transaction_id", name=op.f("uq_judged_effects_transaction_id")),
    )
    op.create_index(op.f("ix_judged_effects_created_ms"), "judged_effects", ["created_ms"])


def _paid_recipients() -> None:
    op.create_table(
        "paid_recipients",
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("address", _BYTEWISE, nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("wallet_id", "address", name=op.f("pk_paid_recipients")),
    )
    # Whom wallets paid before this version; what it is called is of the service, not the plugin.
    postgres = op.get_bind().dialect.name == "postgresql"
    to = "details::json ->> 'to'" if postgres else "json_extract(details, '$.to')"
    # Constants alone.
    op.execute(
        f"INSERT INTO paid_recipients SELECT wallet_id, {to}, max(id) FROM transactions"  # noqa: S608
        " WHERE type IN ('transfer', 'token_transfer') AND status = 'confirmed'"
        f" AND {to} IS NOT NULL GROUP BY wallet_id, {to}"
    )


def _launches() -> None:
    """What a wallet launched it may burn, however long its history is."""
    op.create_index(
        "ix_transactions_launches",
        "transactions",
        ["wallet_id"],
        sqlite_where=sa.text("type = 'token_launch'"),
        postgresql_where=sa.text("type = 'token_launch'"),
    )


def _webhook() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hold_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_ms", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(op.f("ix_webhook_deliveries_hold_id"), "webhook_deliveries", ["hold_id"])
    op.create_index(op.f("ix_webhook_deliveries_created_ms"), "webhook_deliveries", ["created_ms"])
    op.create_index(
        "ix_webhook_deliveries_waiting",
        "webhook_deliveries",
        ["next_ms"],
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "webhook_nonces",
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("nonce", name=op.f("pk_webhook_nonces")),
    )
    op.create_index(op.f("ix_webhook_nonces_created_ms"), "webhook_nonces", ["created_ms"])


def _holds() -> None:
    """Transactions that wait for a person."""
    op.create_table(
        "holds",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("chain", sa.JSON(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("action_key", _BYTEWISE, nullable=True),
        sa.Column("recipe", sa.Text(), nullable=True),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("applied", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_ms", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("transaction_id", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("trace", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["wallet_id"], ["wallets.id"], name=op.f("fk_holds_wallet_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_holds")),
        sa.UniqueConstraint("id", name=op.f("uq_holds_id")),
        sa.UniqueConstraint("action_key", name=op.f("uq_holds_action_key")),
    )
    op.create_index(op.f("ix_holds_wallet_id_seq"), "holds", ["wallet_id", "seq"])
    is_open = sa.text("state IN ('held', 'approved')")
    op.create_index(
        "uq_holds_open",
        "holds",
        ["digest"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )


def _key_ends() -> None:
    """A key's expiry, and the secret that its latest rotation replaced."""
    for column in (
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("rotated_ms", sa.BigInteger(), nullable=True),
        sa.Column("previous_hash", sa.Text(), nullable=True),
        sa.Column("previous_until_ms", sa.BigInteger(), nullable=True),
    ):
        op.add_column("api_keys", column)
    op.create_index(op.f("ix_api_keys_previous_hash"), "api_keys", ["previous_hash"])


def _key_traffic() -> None:
    op.create_table(
        "key_traffic",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("second", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "second", name=op.f("pk_key_traffic")),
    )


def _wallet_creators() -> None:
    """Who made a wallet; of those that are there nobody is known, and they count for no key."""
    op.add_column("wallets", sa.Column("created_by", sa.Text(), nullable=True))
    op.create_index(op.f("ix_wallets_created_by"), "wallets", ["created_by"])
    op.create_index(op.f("ix_wallets_created_ms_id"), "wallets", ["created_ms", "id"])


def _position_owners() -> None:
    """Who opened a position, as far as it is known: whose last transaction it was."""
    op.add_column("pockets", sa.Column("opened_by", sa.Text(), nullable=True))
    op.execute(
        "UPDATE pockets SET opened_by = (SELECT transactions.principal FROM transactions"
        " WHERE transactions.id = pockets.transaction_id) WHERE position IS NOT NULL"
    )


def downgrade() -> None:
    raise NotImplementedError("a database is not taken back to an older version")
