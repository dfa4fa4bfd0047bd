"""What transactions use of the network: compute units, their limit and price.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("compute_units", "compute_unit_limit", "compute_unit_price"):
        op.add_column("transactions", sa.Column(name, sa.BigInteger(), nullable=True))
