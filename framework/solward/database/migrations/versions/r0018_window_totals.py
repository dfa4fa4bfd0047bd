"""Hourly totals of every scope that has windows; until now grants alone had them.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# Ordered by its bytes in every database, as reservations are added and totals are locked.
_BYTEWISE = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
# Rows by the hour since the epoch, and their units in two halves: sums of halves never overflow.
_ADD = (
    "INSERT INTO reservation_totals (scope, asset, hour, high, low, count)"
    " VALUES (NEW.scope, NEW.asset, NEW.created_ms / 3600000,"
    " NEW.units >> 32, NEW.units & 4294967295, 1)"
    " ON CONFLICT (scope, asset, hour) DO UPDATE"
    " SET high = reservation_totals.high + excluded.high,"
    " low = reservation_totals.low + excluded.low, count = reservation_totals.count + 1;"
)
_SUBTRACT = (
    "UPDATE reservation_totals SET high = high - (OLD.units >> 32),"
    " low = low - (OLD.units & 4294967295), count = count - 1"
    " WHERE scope = OLD.scope AND asset = OLD.asset AND hour = OLD.created_ms / 3600000;"
)
# What stands beside a transaction to find it again has no window, and is of all wallets: a row of
# totals would make each wait for every other.
_HAS_WINDOWS = (
    "substr({0}scope, 1, 6) <> 'skill:' AND substr({0}scope, 1, 7) <> 'plugin:'"
    " AND substr({0}scope, 1, 5) <> 'site:'"
)
# Event, what it does and of which row's scope.
_TRIGGERS = (
    ("added", "INSERT", _ADD, "NEW."),
    ("changed", "UPDATE", f"{_SUBTRACT} {_ADD}", "NEW."),
    ("removed", "DELETE", _SUBTRACT, "OLD."),
)


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    for name, _, _, _ in _TRIGGERS:
        op.execute(f"DROP TRIGGER grant_totals_{name}" + (" ON reservations" if postgres else ""))
        if postgres:
            op.execute(f"DROP FUNCTION grant_totals_{name}()")
    op.drop_table("grant_totals")
    op.create_table(
        "reservation_totals",
        sa.Column("scope", _BYTEWISE, nullable=False),
        sa.Column("asset", _BYTEWISE, nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "asset", "hour", name=op.f("pk_reservation_totals")),
        sqlite_with_rowid=False,
    )
    # Constants alone.
    op.execute(
        "INSERT INTO reservation_totals (scope, asset, hour, high, low, count)"  # noqa: S608
        " SELECT scope, asset, created_ms / 3600000, sum(units >> 32),"
        " sum(units & 4294967295), count(*) FROM reservations"
        f" WHERE {_HAS_WINDOWS.format('')} GROUP BY scope, asset, created_ms / 3600000"
    )
    for name, event, body, row in _TRIGGERS:
        named = f"reservation_totals_{name}"
        head = f"CREATE TRIGGER {named} AFTER {event} ON reservations FOR EACH ROW"
        when = f"WHEN ({_HAS_WINDOWS.format(row)})"
        if postgres:
            op.execute(
                f"CREATE FUNCTION {named}() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {body} RETURN NULL; END $$"
            )
            op.execute(f"{head} {when} EXECUTE FUNCTION {named}()")
        else:
            op.execute(f"{head} {when} BEGIN {body} END")
