"""The numbers of a refusal beside its sentence; what was refused before has none.

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("transactions", sa.Column("refusal_numbers", sa.JSON(), nullable=True))
