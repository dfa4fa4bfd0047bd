"""`GET /metrics`, at the root, where Prometheus expects it; and the gauges of the database and the
ledger, which are read at each scrape.

Every process that serves metrics has these gauges. Gauges of the whole database are the same in all
processes, so a query must use their maximum, not their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from quart import Response, request

from solward import __version__
from solward.agents import store as agents
from solward.database.database import Database
from solward.notify import deliveries as webhook
from solward.resources.agents import AgentStatus
from solward.resources.declare import Call
from solward.service.service import Solward
from solward.telemetry import metrics
from solward.types.record import HoldState
from solward.types.roles import Role
from solward.vault.money.judge.granting import GrantEndCounter
from solward.vault.store import attempts, holds, pockets, processes
from solward.vault.store.attempts import AttemptState
from solward_server.http.auth import admin
from solward_server.openapi.route import Routes

_TEXT = {"schema": {"type": "string"}}
_SCRAPE: Call[Any] = Call(
    "getMetrics",
    "GET /metrics",
    "Metrics of this process for Prometheus.",
    None,
    name=None,
    about="As OpenMetrics if `Accept` asks for it, otherwise as text 0.0.4.",
)

routes = Routes("metrics", "Metrics for Prometheus; only for the admin.")
"""Routes for the admin only, because metrics contain amounts."""


@routes.serve(
    _SCRAPE,
    admin(Role.READ),
    response={
        "description": "The metrics.",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    },
)
async def scrape() -> Response:
    body, content_type = await metrics.scrape(request.headers.get("Accept", ""))
    return Response(body, content_type=content_type)


_KINDS = ("api", "worker")
_JOB_STATES = ("todo", "doing", "stalled")


@contextmanager
def filling_gauges(service: Solward, kind: str) -> Iterator[None]:
    """Let scrapes of this process include this service's gauges while the block runs.

    Args:
        kind: kind of this process, `api` or `worker`.
    """

    async def ledger() -> None:
        health = await service.display.health()
        metrics.LEDGER_HEALTHY.set(health["healthy"])
        if health["healthy"]:
            metrics.LEDGER_SLOT.set(health["slot"])

    ends = GrantEndCounter()

    async def database() -> None:
        await set_gauges(service.database, ends)

    metrics.describe_process(__version__, service.network, kind)
    with metrics.at_scrape(ledger), metrics.at_scrape(database):
        yield


async def set_gauges(database: Database, ends: GrantEndCounter) -> None:
    """Set the gauges that count rows in the database."""
    async with database.read() as connection:
        counts = await agents.count_by_status(connection)
        states = await attempts.live_states(connection)
        queued = await agents.count_jobs(connection) if database.shared else {}
        kinds = await processes.count_by_kind(connection)
        untold = await webhook.waiting_counts(connection)
        open_pockets = await pockets.count_open(connection)
        waiting, oldest_ms = await holds.backlog(connection, await database.moment(connection))
        used_up, ending = await ends.count(database, connection)
    for status in AgentStatus:
        metrics.AGENTS.labels(status.value).set(counts.get(status.value, 0))
    for state in (AttemptState.SIGNED, AttemptState.SENT, AttemptState.UNKNOWN):
        metrics.ATTEMPTS.labels(state.value).set(states.get(state.value, 0))
    for channel in get_args(webhook.Channel):
        metrics.WEBHOOK_WAITING.labels(channel).set(untold.get(channel, (0, False))[0])
    metrics.POCKETS_OPEN.set(open_pockets)
    for hold_state in HoldState:
        if hold_state.is_open:
            metrics.HOLDS_OPEN.labels(hold_state.value).set(waiting.get(hold_state.value, 0))
    metrics.HOLD_OLDEST.set(oldest_ms / 1_000)
    metrics.GRANTS_NEAR_END.labels("used").set(used_up)
    metrics.GRANTS_NEAR_END.labels("until").set(ending)
    metrics.ATTEMPTS_UNKNOWN.set(states.get(AttemptState.UNKNOWN.value, 0))
    if database.shared:
        for state_name in _JOB_STATES:
            metrics.JOBS.labels(state_name).set(queued.get(state_name, 0))
    for kind in _KINDS:
        metrics.PROCESSES.labels(kind).set(kinds.get(kind, 0))
