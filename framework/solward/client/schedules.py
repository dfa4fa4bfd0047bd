"""`client.schedules`: skills that run on a wallet at times."""

from __future__ import annotations

from solward.client.arguments import segment
from solward.client.requests import ScheduleRequests
from solward.resources.schedules import RUN_SCHEDULE, Schedule


class Schedules(ScheduleRequests):
    """The schedules of wallets."""

    async def run(
        self, wallet_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> Schedule:
        """Run it once more, now: `next_run_at` of the answer is the `due_at` of that run.

        Repeated with its key where a connection is lost, so that it is asked for once.

        Raises:
            BadRequest: it is not active.
            Conflict: a run of it goes on, or is due and about to begin.
        """
        path = RUN_SCHEDULE.path.format(
            wallet_id=segment(wallet_id, "wallet_id"),
            schedule_id=segment(schedule_id, "schedule_id"),
        )
        return await self._http.pay(Schedule.of, path, {}, idempotency_key)
