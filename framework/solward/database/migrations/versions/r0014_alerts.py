"""Alerts that wait to be told, grouped; deliveries of more than one webhook.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index(op.f("ix_webhook_deliveries_hold_id"), "webhook_deliveries")
    op.alter_column("webhook_deliveries", "hold_id", new_column_name="subject")
    op.add_column(
        "webhook_deliveries",
        sa.Column("channel", sa.Text(), server_default="approvals", nullable=False),
    )
    op.create_index(op.f("ix_webhook_deliveries_subject"), "webhook_deliveries", ["subject"])
    op.create_table(
        "alert_groups",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("told_ms", sa.BigInteger(), nullable=False),
        sa.Column("tells", sa.Integer(), nullable=False),
        sa.Column("next_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert_groups")),
    )
    op.create_index(op.f("ix_alert_groups_next_ms"), "alert_groups", ["next_ms"])
    op.create_index(op.f("ix_alert_groups_told_ms"), "alert_groups", ["told_ms"])
