"""Requests over HTTP that wallets paid for, and what their sellers answered.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "payments",
        sa.Column("seq", _SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=False),
        sa.Column("wallet_id", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("offer", sa.Text(), nullable=False),
        sa.Column("asset", sa.Text(), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("decimals", sa.Integer(), nullable=False),
        sa.Column("pay_to", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_units", sa.BigInteger(), nullable=False),
        sa.Column("memo", sa.Text(), nullable=True),
        sa.Column("message_sha256", sa.Text(), nullable=False),
        sa.Column("signer_index", sa.Integer(), nullable=False),
        sa.Column("served", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=True),
        sa.Column("answer_status", sa.Integer(), nullable=True),
        sa.Column("answer_headers", sa.Text(), nullable=True),
        sa.Column("answer_body", sa.LargeBinary(), nullable=True),
        sa.Column("answered_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["transaction_id"],
            ["transactions.id"],
            name=op.f("fk_payments_transaction_id"),
        ),
        sa.ForeignKeyConstraint(["wallet_id"], ["wallets.id"], name=op.f("fk_payments_wallet_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_payments")),
        sa.UniqueConstraint("transaction_id", name=op.f("uq_payments_transaction_id")),
    )
    op.create_index(op.f("ix_payments_wallet_id_seq"), "payments", ["wallet_id", "seq"])
    op.create_index("ix_payments_price", "payments", ["wallet_id", "url", "asset", "seq"])
    op.create_index(op.f("ix_attempts_transaction_id"), "attempts", ["transaction_id"])
