"""An index of the events that are not written by the thousand.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_RARE = sa.text(
    "event NOT IN ('agent:decision', 'payment:answered', 'payment:handed_over', 'schedule:run',"
    " 'transaction:confirmed', 'transaction:pending')"
)


def upgrade() -> None:
    op.create_index("ix_audit_rare", "audit", ["seq"], sqlite_where=_RARE, postgresql_where=_RARE)
