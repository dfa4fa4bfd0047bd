"""Language models: an agent's options and token budget, and what its completions used.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("llm_options", "llm_budget"):
        op.add_column("agents", sa.Column(column, sa.Text(), nullable=False, server_default="{}"))
    for column in ("input_tokens", "output_tokens", "cost_nanousd"):
        op.add_column("decisions", sa.Column(column, sa.BigInteger(), nullable=True))
    op.create_table(
        "agent_usage",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "hour", name=op.f("pk_agent_usage")),
    )


def downgrade() -> None:
    raise NotImplementedError("a database is not taken back to an older version")
