"""The clock of the database's machine, set by hand: SQLite's is the process's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from solward.database import database


def set_clock(patch: pytest.MonkeyPatch, now_ms: Callable[[], int], sql: str) -> None:
    """Let databases say another time.

    Args:
        now_ms: what it is on SQLite.
        sql: what it is on PostgreSQL, an expression in milliseconds.
    """
    patch.setattr(database, "now_ms", now_ms)
    now, with_ledger_time = database._readings(sql)
    patch.setattr(database, "_NOW", now)
    patch.setattr(database, "_NOW_AND_LEDGER_TIME", with_ledger_time)
