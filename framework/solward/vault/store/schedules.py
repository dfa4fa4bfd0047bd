"""Of the schedules' table the vault ends what may spend from a wallet."""

from __future__ import annotations

from sqlalchemy import column, null, table, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.types.events import EventKind

_SCHEDULES = table(
    "schedules",
    column("id"),
    column("name"),
    column("wallet_id"),
    column("status"),
    column("reason"),
    column("next_due_ms"),
)


async def pause_schedules(connection: AsyncConnection, wallet_id: str, reason: str) -> None:
    """Pause every active schedule of a wallet, and tell of it."""
    statement = (
        update(_SCHEDULES)
        .where(_SCHEDULES.c.wallet_id == wallet_id, _SCHEDULES.c.status == "active")
        .values(status="paused", reason=reason, next_due_ms=null())
        .returning(_SCHEDULES.c.id, _SCHEDULES.c.name)
    )
    for row in (await connection.execute(statement)).all():
        subject = {"scheduleId": row.id, "walletId": wallet_id, "name": row.name}
        record_act(connection, EventKind.SCHEDULE_PAUSED, subject | {"reason": reason})
