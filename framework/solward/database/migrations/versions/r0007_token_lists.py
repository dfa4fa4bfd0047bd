"""The operator's list of tokens by symbol, authenticated with the keystore's audit key.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "token_lists",
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("tokens", sa.JSON(), nullable=False),
        sa.Column("stored_ms", sa.BigInteger(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("network", name=op.f("pk_token_lists")),
    )
