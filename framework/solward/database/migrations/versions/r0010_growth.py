"""Indexes for what was read by walking a table that grows, and for what is deleted of it.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_transactions_stakes",
        "transactions",
        ["wallet_id"],
        sqlite_where=sa.text("type = 'stake'"),
        postgresql_where=sa.text("type = 'stake'"),
    )
    op.create_index(
        "ix_payments_answers",
        "payments",
        ["answered_ms"],
        sqlite_where=sa.text("answer_headers IS NOT NULL"),
        postgresql_where=sa.text("answer_headers IS NOT NULL"),
    )
    op.create_index(op.f("ix_holds_principal_seq"), "holds", ["principal", "seq"])
    op.create_index(op.f("ix_wallets_name"), "wallets", ["name"])
    op.create_index(op.f("ix_api_keys_name"), "api_keys", ["name"])
    op.create_index(op.f("ix_agents_name"), "agents", ["name"])
    op.create_index(op.f("ix_agents_wallet_id"), "agents", ["wallet_id"])
