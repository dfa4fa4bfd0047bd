"""Many processes: owners of transactions, shared limits, an audit chain for each agent and wallet.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "processes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "key_requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_key_requests")),
    )
    op.create_index(
        op.f("ix_key_requests_key_id_created_ms"), "key_requests", ["key_id", "created_ms"]
    )
    op.add_column("transactions", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("transactions", sa.Column("trace", sa.Text(), nullable=True))
    op.add_column("idempotency", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column("agents", sa.Column("entered_ms", sa.BigInteger(), nullable=True))
    op.add_column("agents", sa.Column("deferred_cycle", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_decisions_created_ms"), "decisions", ["created_ms"])
    if postgres:
        op.alter_column(
            "transactions",
            "action_key",
            type_=postgresql.TEXT(collation="C"),
            existing_type=sa.Text(),
            existing_nullable=True,
        )
    _audit_chains()


def _audit_chains() -> None:
    """What there is becomes the chain "", which goes on; its entries and hashes stay as they are.

    The table is written anew: SQLite cannot add a column that may not be null and has no default.
    """
    op.rename_table("audit", "audit_before")
    if op.get_bind().dialect.name == "postgresql":
        # Its indexes keep their names otherwise, which the new table's are to have.
        for name in ("pk_audit", "uq_audit_hash"):
            op.execute(f"ALTER TABLE audit_before RENAME CONSTRAINT {name} TO {name}_before")
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chain", sa.Text(), server_default="", nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit")),
        sa.UniqueConstraint("hash", name=op.f("uq_audit_hash")),
    )
    op.execute(
        "INSERT INTO audit (seq, chain, number, created_ms, event, data, previous_hash, hash) "
        "SELECT seq, '', seq, created_ms, event, data, previous_hash, hash FROM audit_before"
    )
    op.drop_table("audit_before")
    op.create_index(op.f("ix_audit_chain_number"), "audit", ["chain", "number"], unique=True)
    op.create_table(
        "audit_heads",
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("pruned_number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pruned_hash", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_audit_heads")),
    )
    op.execute("INSERT INTO audit_heads (chain, number, hash) SELECT '', seq, hash FROM audit_head")
    op.drop_table("audit_head")
    op.create_table(
        "audit_offset",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_offset")),
    )
    op.execute("INSERT INTO audit_offset (id, value) VALUES (1, 0)")


def downgrade() -> None:
    raise NotImplementedError("a database is not taken back to an older version")
