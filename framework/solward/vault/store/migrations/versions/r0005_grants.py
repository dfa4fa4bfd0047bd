"""Every asset is bounded: what grants, keys and their limits store.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Each of these makes the tables of one matter."""


def downgrade() -> None:
    raise NotImplementedError("a database is not taken back to an older version")
