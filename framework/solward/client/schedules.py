"""`client.schedules`: skills that run on a wallet at times."""

from __future__ import annotations

from datetime import datetime

from solward.client.arguments import json_fields, moment_text, segment
from solward.client.requests import ScheduleRequests
from solward.resources.schedules import Schedule, ScheduleRun

Moment = datetime | str


class Schedules(ScheduleRequests):
    """The schedules of wallets."""

    async def list(self, wallet_id: str) -> tuple[Schedule, ...]:
        """A wallet's schedules, oldest first."""
        raw = await self._http.get(_path(wallet_id))
        return self._http.read_list(Schedule.of, raw, "schedules")

    async def get(self, wallet_id: str, schedule_id: str) -> Schedule:
        """One schedule by its id; raises `NotFoundError`."""
        return self._http.read(Schedule.of, await self._http.get(_path(wallet_id, schedule_id)))

    async def pause(self, wallet_id: str, schedule_id: str) -> Schedule:
        """Run it no more until it is resumed; takes effect at once."""
        made = await self._http.send("POST", f"{_path(wallet_id, schedule_id)}/pause")
        return self._http.read(Schedule.of, made)

    async def resume(self, wallet_id: str, schedule_id: str) -> Schedule:
        """Run it again from the next due time on."""
        made = await self._http.send("POST", f"{_path(wallet_id, schedule_id)}/resume")
        return self._http.read(Schedule.of, made)

    async def run(
        self, wallet_id: str, schedule_id: str, *, idempotency_key: str | None = None
    ) -> Schedule:
        """Run it once more, now: `next_run_at` of the answer is the `due_at` of that run.

        Repeated with its key where a connection is lost, so that it is asked for once.

        Raises:
            BadRequest: it is not active.
            Conflict: a run of it goes on, or is due and about to begin.
        """
        path = f"{_path(wallet_id, schedule_id)}/run"
        return await self._http.pay(Schedule.of, path, {}, idempotency_key)

    async def delete(self, wallet_id: str, schedule_id: str) -> None:
        """Delete it with its runs; its transactions stay."""
        await self._http.send("DELETE", _path(wallet_id, schedule_id))

    async def runs(
        self, wallet_id: str, schedule_id: str, limit: int = 50, before: Moment | None = None
    ) -> tuple[ScheduleRun, ...]:
        """What became of its due times, newest first, of those before `before`."""
        query = json_fields(limit=limit, before=moment_text(before, "before"))
        raw = await self._http.get(f"{_path(wallet_id, schedule_id)}/runs", query)
        return self._http.read_list(ScheduleRun.of, raw, "runs")


def _path(wallet_id: str, schedule_id: str | None = None) -> str:
    path = f"/wallets/{segment(wallet_id, 'wallet_id')}/schedules"
    return path if schedule_id is None else f"{path}/{segment(schedule_id, 'schedule_id')}"
