"""The network of a database, which its next start sets.

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_network",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("network", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_network")),
    )
    op.execute("INSERT INTO ledger_network (id, network) VALUES (1, NULL)")
