"""What a wallet can lose is bounded by the bytes it signs: what that stores.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _pockets()
    _ledger_time()
    _audit_heads()
    _costs()
    _opened_accounts()


def _pockets() -> None:
    op.create_table(
        "pockets",
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("counter", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=True),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("position", sa.Text(), nullable=True),
        sa.Column("mints", sa.JSON(), nullable=False),
        sa.Column("output_mint", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("at_risk", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["wallet_id"], ["wallets.id"], name=op.f("fk_pockets_wallet_id")),
        sa.PrimaryKeyConstraint("wallet_id", "counter", name=op.f("pk_pockets")),
        sa.UniqueConstraint("address", name=op.f("uq_pockets_address")),
    )
    op.create_index(op.f("ix_pockets_transaction_id"), "pockets", ["transaction_id"])
    op.create_index(
        "ix_pockets_open",
        "pockets",
        ["wallet_id"],
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.add_column("attempts", sa.Column("step", sa.Text(), server_default="", nullable=False))
    op.create_index(
        "uq_pockets_position", "pockets", ["wallet_id", "program", "position"], unique=True
    )


def _ledger_time() -> None:
    """What is in a window was reserved at a time that the ledger had about reached."""
    op.create_table(
        "ledger_time",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_time")),
    )
    op.execute(
        "INSERT INTO ledger_time (id, ms) SELECT 1, coalesce(max(created_ms), 0) FROM reservations"
    )


def _audit_heads() -> None:
    """What authenticates where an audit chain ends; the keystore's first opening fills it in."""
    op.add_column(
        "audit_heads",
        sa.Column("service_number", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.add_column("audit_heads", sa.Column("service_hash", sa.Text(), nullable=True))
    op.add_column("audit_heads", sa.Column("mac", sa.Text(), nullable=True))


def _costs() -> None:
    op.add_column("api_keys", sa.Column("max_costs_lamports", sa.BigInteger(), nullable=True))


def _opened_accounts() -> None:
    op.create_table(
        "opened_accounts",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=False),
        sa.Column("rent_lamports", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account", name=op.f("pk_opened_accounts")),
    )
    op.create_index(op.f("ix_opened_accounts_created_ms"), "opened_accounts", ["created_ms"])


def downgrade() -> None:
    raise NotImplementedError("a database is not taken back to an older version")
