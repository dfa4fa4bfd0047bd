"""A service whose schedules are due by a clock that the test sets, and run when it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.api import Answer, Api, settings

from solward.schedules.run import ScheduleHook, no_hook
from solward.schedules.service import ScheduleService
from solward.service.service import Solward
from solward.support.clock import iso, ms_of
from solward_server.app import create_app

START = ms_of("2026-06-01T12:00:00Z")
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(slots=True)
class Clock:
    """By which schedules are due."""

    ms: int = START

    async def __call__(self, _connection: AsyncConnection) -> int:
        return self.ms


@dataclass(frozen=True, slots=True)
class Timetable:
    """An API, and its schedules' clock."""

    api: Api
    clock: Clock

    @property
    def service(self) -> Solward:
        return self.api.service

    @property
    def schedules(self) -> ScheduleService:
        return self.service.schedules

    async def at(self, ms: int) -> None:
        """Set the clock, and run what is due to its end."""
        self.clock.ms = ms
        await self.run_due()

    async def passes(self, ms: int) -> None:
        """Let time pass, and run what is due then to its end."""
        await self.at(self.clock.ms + ms)

    async def run_due(self) -> None:
        while await self.schedules.runner.turn() == 0 or self.schedules.runner.is_busy:
            await self.schedules.runner.settled()

    async def add(
        self, wallet: str, body: Mapping[str, Any], *, token: str | None = None
    ) -> dict[str, Any]:
        """A new schedule, as its route shows it."""
        answer = await self.post(wallet, "", body, token=token)
        assert answer.status == 200, answer.text
        made: dict[str, Any] = answer.json
        return made

    async def post(
        self, wallet: str, path: str, body: Any = None, *, token: str | None = None
    ) -> Answer:
        options = {} if token is None else {"token": token}
        return await self.api.post(f"/wallets/{wallet}/schedules{path}", body, **options)

    async def get(self, wallet: str, schedule: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"/wallets/{wallet}/schedules/{schedule}")).json
        return found

    async def runs(self, wallet: str, schedule: str) -> list[dict[str, Any]]:
        answer = await self.api.get(f"/wallets/{wallet}/schedules/{schedule}/runs")
        assert answer.status == 200, answer.text
        found: list[dict[str, Any]] = answer.json["runs"]
        return found


async def timed(service: Solward, clock: Clock) -> None:
    """Let a service's schedules be due by a clock, and run when they are told to."""
    await service.schedules.close()
    service.schedules = ScheduleService(service, service.process.id, clock)


@asynccontextmanager
async def timetable(
    home: Path, clock: Clock | None = None, *, hook: ScheduleHook = no_hook, **given: Any
) -> AsyncIterator[Timetable]:
    """An API on the embedded ledger."""
    clock = Clock() if clock is None else clock
    async with Solward.open(settings(home, **given), schedule_hook=hook) as service:
        await timed(service, clock)
        app = create_app(service)
        async with app.test_app():
            yield Timetable(Api(app, service), clock)


def due(ms: int) -> str:
    """A due time as routes show it."""
    return iso(ms)
