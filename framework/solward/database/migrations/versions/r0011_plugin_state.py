"""What plugins keep for wallets, their settings, and which plugin asked for a record.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_BYTEWISE = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "plugin_stores",
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["wallet_id"], ["wallets.id"], name=op.f("fk_plugin_stores_wallet_id")
        ),
        sa.PrimaryKeyConstraint("wallet_id", "plugin", name=op.f("pk_plugin_stores")),
    )
    op.create_table(
        "plugin_entries",
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("key", _BYTEWISE, nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=True),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["wallet_id"], ["wallets.id"], name=op.f("fk_plugin_entries_wallet_id")
        ),
        sa.PrimaryKeyConstraint("wallet_id", "plugin", "key", name=op.f("pk_plugin_entries")),
    )
    op.create_table(
        "plugin_settings",
        sa.Column("plugin", sa.Text(), nullable=False),
        sa.Column("skill", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plugin", "skill", "name", name=op.f("pk_plugin_settings")),
    )
    op.add_column("transactions", sa.Column("plugin", sa.Text(), nullable=True))
    op.create_index(
        "ix_transactions_plugin",
        "transactions",
        ["wallet_id", "plugin", "seq"],
        sqlite_where=sa.text("plugin IS NOT NULL"),
        postgresql_where=sa.text("plugin IS NOT NULL"),
    )
