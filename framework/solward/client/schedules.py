"""`client.schedules`: skills that run on a wallet at times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from solward.client.arguments import json_fields, moment_text, refuse_floats, segment
from solward.client.http import Http
from solward.resources.answers import Answer, Raw, whole

Moment = datetime | str


def _when(raw: Raw) -> str:
    return f"every {raw['every']}" if "every" in raw else f"{raw['cron']} {raw['timeZone']}"


@dataclass(frozen=True, slots=True)
class Schedule(Answer):
    """A schedule; `status` is active, paused or ended.

    Attributes:
        when: `every 1h`, or `0 9 1 * * Europe/Berlin`.
        missed: what becomes of due times at which nothing ran: skip or once.
        reason: why it is paused or has ended.
        made_by: `admin` or `key:<id>`, whose rights it has.
        runs: how many were begun.
        failures: runs in a row that were refused or failed.
    """

    id: str
    name: str
    wallet_id: str
    skill: str
    parameters: Mapping[str, Any]
    when: str = field(metadata=whole(_when))
    missed: str
    max_runs: int | None
    status: str
    reason: str | None
    principal: str
    made_by: str
    created_at: datetime
    next_run_at: datetime | None
    is_running: bool
    runs: int
    failures: int


@dataclass(frozen=True, slots=True)
class ScheduleRun(Answer):
    """What became of a due time; `status` is running, succeeded, held, refused, failed or skipped.

    Attributes:
        text: the skill's answer, or why there is none.
        started_at: None where nothing was run.
        transaction_ids: the records it made, the first first.
    """

    due_at: datetime
    status: str
    text: str
    started_at: datetime | None
    ended_at: datetime | None
    transaction_ids: tuple[str, ...]


class Schedules:
    """The schedules of wallets."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, wallet_id: str) -> tuple[Schedule, ...]:
        """A wallet's schedules, oldest first."""
        raw = await self._http.get(_path(wallet_id))
        return self._http.read_list(Schedule.of, raw, "schedules")

    async def get(self, wallet_id: str, schedule_id: str) -> Schedule:
        """One schedule by its id; raises `NotFoundError`."""
        return self._http.read(Schedule.of, await self._http.get(_path(wallet_id, schedule_id)))

    async def create(
        self,
        wallet_id: str,
        *,
        name: str,
        skill: str,
        parameters: Mapping[str, Any] | None = None,
        every: str | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        start_at: Moment | None = None,
        end_at: Moment | None = None,
        max_runs: int | None = None,
        missed: Literal["skip", "once"] | None = None,
        grants: object = None,
    ) -> Schedule:
        """Run a skill at times, with the rights of this token.

        A name is a wallet's once, so that a call that is repeated makes no second schedule.

        Args:
            parameters: of the skill; numbers are int, Decimal or text, no float.
            every: `1m` to `30d`; either this or `cron`.
            cron: five fields, read in `time_zone`.
            missed: what becomes of due times at which nothing ran; `skip` where it is left out.
            grants: what alone it may do, of the operator alone.

        Raises:
            BadRequest: names the field; also where the wallet has one of this name.
        """
        refuse_floats(parameters or {}, "parameters")
        body = json_fields(
            name=name,
            skill=skill,
            parameters=parameters,
            every=every,
            cron=cron,
            time_zone=time_zone,
            start_at=moment_text(start_at, "start_at"),
            end_at=moment_text(end_at, "end_at"),
            max_runs=max_runs,
            missed=missed,
            grants=grants,
        )
        made = await self._http.send("POST", _path(wallet_id), body)
        return self._http.read(Schedule.of, made)

    async def change(self, wallet_id: str, schedule_id: str, fields: Mapping[str, Any]) -> Schedule:
        """Change fields, named as in the REST interface (docs/rest.md)."""
        refuse_floats(fields, "")
        made = await self._http.send("PATCH", _path(wallet_id, schedule_id), dict(fields))
        return self._http.read(Schedule.of, made)

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
