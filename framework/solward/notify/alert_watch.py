"""Conditions that no transaction tells, looked at from time to time and raised as alerts.

Each process that has an alerts' webhook looks, and raises a condition when it begins: one that goes
on is raised once, one that ended and came back again. What watches the metrics has the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from solward.agents.store import agents, jobs
from solward.audit import alerts
from solward.audit.alerts import AUDIT_BROKEN, Alert
from solward.database.database import Database
from solward.notify.alert_webhook import AlertWebhook
from solward.plugins import Problem
from solward.resources.agents import AgentStatus
from solward.support.tasks import in_background
from solward.telemetry import metrics
from solward.types.errors import StoreError

LOOK_S = 15.0
# A condition that may pass by itself counts once it was found in so many looks in a row.
LOOKS = 2
# Of those, which do: a ledger that answers late, a queue between two workers.
_PASSING = frozenset({Alert.LEDGER_AWAY, Alert.JOBS_STALLED, Alert.WORKER_MISSING})

_log = structlog.get_logger(__name__)

_Condition = tuple[Alert, str]


@dataclass(slots=True)
class Watch:
    """Looks at one process.

    Attributes:
        ledger_health: `{healthy, network, slot}`.
        problems: what plugins are not loaded, or were disabled.
        crashes: how often the process of each distribution's plugins ended by itself.
        nodes_away: the RPC nodes that have not answered for a while, by name.
    """

    database: Database
    webhook: AlertWebhook
    ledger_health: Callable[[], Awaitable[Mapping[str, Any]]]
    problems: Callable[[], Sequence[Problem]]
    crashes: Callable[[], Mapping[str, int]]
    nodes_away: Callable[[], Sequence[str]] = tuple
    look_s: float = LOOK_S
    _found: dict[_Condition, int] = field(default_factory=dict)
    _crashes: dict[str, int] = field(default_factory=dict)
    _broken: float = field(default_factory=lambda: _broken_chains())

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Inside the block, look again and again."""
        async with in_background(self._watch(), "solward-alert-watch"):
            yield

    async def look(self) -> None:
        """Look once, and raise what is new.

        Raises:
            StoreError: nothing was raised; the next look finds it again.
        """
        now = await self._conditions()
        found = {each: self._found.get(each, 0) + 1 for each in now}
        new = [
            each for each, looks in found.items() if looks == (LOOKS if each[0] in _PASSING else 1)
        ]
        crashes = dict(self.crashes())
        new += [
            (Alert.PLUGIN_CRASHED, f"The process of {name} ended by itself")
            for name, count in crashes.items()
            if count > self._crashes.get(name, 0)
        ]
        broken = _broken_chains()
        if new:
            async with self.database.write() as connection:
                for alert, detail in new:
                    alerts.raise_alert(connection, alert, detail=detail)
        if broken > self._broken:
            # No event: the audit log is what was tampered with.
            detail = "The end of a chain of the audit log is not authentic"
            await self.webhook.note(AUDIT_BROKEN, detail)
        # Only now: what could not be stored is new in the next look too.
        self._found, self._crashes, self._broken = found, crashes, broken

    async def _conditions(self) -> list[_Condition]:
        found: list[_Condition] = []
        health = await self.ledger_health()
        if not health["healthy"]:
            found.append((Alert.LEDGER_AWAY, f"No RPC node of {health['network']} answers"))
        found += [
            (Alert.RPC_NODE_AWAY, f"The RPC node {name} does not answer, or is of another cluster")
            for name in self.nodes_away()
        ]
        found += [(Alert.PLUGIN_PROBLEM, str(problem)) for problem in self.problems()]
        if self.database.shared:
            found += await self._queue()
        return list(dict.fromkeys(found))

    async def _queue(self) -> list[_Condition]:
        async with self.database.read() as connection:
            running = (await agents.count_by_status(connection)).get(AgentStatus.RUNNING.value)
            workers = await jobs.count_workers(connection)
            counts = await jobs.count(connection)
        if running and not workers:
            return [(Alert.WORKER_MISSING, "Agents are to run, and no worker lives")]
        if counts.get("stalled"):
            return [
                (Alert.JOBS_STALLED, "Cycles of workers that are gone are taken up by no other")
            ]
        return []

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except StoreError as error:
                _log.warning("alerts_not_watched", error=str(error))
            except Exception:
                _log.exception("alerts_not_watched")
            await asyncio.sleep(self.look_s)


def _broken_chains() -> float:
    value = metrics.REGISTRY.get_sample_value("solward_alerts_total", {"alert": AUDIT_BROKEN})
    return value or 0.0
