"""Indexes and the recipient for a filtered history, and names for recipients.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TO = {"sqlite": "json_extract(details, '$.to')", "postgresql": "CAST(details AS json) ->> 'to'"}


def upgrade() -> None:
    op.create_table(
        "contacts",
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("skeleton", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("address", name=op.f("pk_contacts")),
        sa.UniqueConstraint("skeleton", name=op.f("uq_contacts_skeleton")),
    )
    op.add_column("transactions", sa.Column("recipient", sa.Text(), nullable=True))
    op.execute(
        f"UPDATE transactions SET recipient = {_TO[op.get_bind().dialect.name]}"  # noqa: S608
        " WHERE type IN ('transfer', 'token_transfer', 'airdrop', 'payment')"
    )
    op.create_index(op.f("ix_transactions_created_ms_seq"), "transactions", ["created_ms", "seq"])
    op.create_index(
        op.f("ix_transactions_wallet_id_created_ms_seq"),
        "transactions",
        ["wallet_id", "created_ms", "seq"],
        sqlite_where=sa.text("created_ms IS NOT NULL"),
    )
    op.create_index(
        "ix_transactions_agent",
        "transactions",
        ["agent_id", "created_ms", "seq"],
        sqlite_where=sa.text("agent_id IS NOT NULL"),
        postgresql_where=sa.text("agent_id IS NOT NULL"),
    )
    op.create_index(
        "ix_transactions_recipient",
        "transactions",
        ["recipient", "created_ms", "seq"],
        sqlite_where=sa.text("recipient IS NOT NULL"),
        postgresql_where=sa.text("recipient IS NOT NULL"),
    )
