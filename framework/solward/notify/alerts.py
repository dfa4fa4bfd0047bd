"""The alerts' webhook, which sends alerts and important events to an operator's receiver.

A note about an event is stored in the event's transaction, and grouped with others of the same
subject. A group is one row, so ten thousand refusals only increase a count. The next message has a
line for each group with new notes; the more often a group was sent, the longer it waits.
`solward.notify.deliveries` sends one message at a time. While the receiver is away, notes add up.

`Watch` looks for conditions that no transaction reveals, and raises them as alerts. Each process
with the webhook looks, and raises a condition once when it begins. If the condition ends and comes
back, it is raised again. Monitoring sees the same alerts in the metrics.
"""

from __future__ import annotations

import asyncio
import html
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import httpx
import structlog
from sqlalchemy import BigInteger, BindParameter, bindparam, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.agents import store as agents
from solward.audit import alerts
from solward.audit.acts import SERVICE
from solward.audit.alerts import AUDIT_BROKEN, Alert
from solward.database.database import Database, clock, try_lock_exclusive
from solward.database.records import insert_or_set, new_value
from solward.database.tables import alert_groups
from solward.notify import deliveries as store
from solward.notify.deliveries import (
    DeliveryClaim,
    Failure,
    Pace,
    Sender,
    new_client,
    read_status,
    send,
    signed_request,
)
from solward.resources.agents import AgentStatus
from solward.settings import Settings
from solward.support import jsontext
from solward.support.clean_text import one_line
from solward.support.clock import iso, now_ms
from solward.support.durations import HOUR_MS
from solward.support.tasks import in_background
from solward.telemetry import metrics
from solward.telemetry.scrub import scrub_start
from solward.types.errors import ConfigError, StoreError
from solward.types.events import EventKind
from solward.types.manifest import Problem
from solward.types.record import drop_none

Format = Literal["json", "slack"]

# The maximum number of lines in a message; further groups are only counted.
MOST_LINES = 50
# The maximum length of a text that a third party may have written.
MOST_TEXT = 300
# Notes that are stored within this time after the first go into the same message.
GATHER_S = 1.0

_Data = Mapping[str, Any]


def _fields(
    *same: str, by: Sequence[str] = (), **others: str
) -> tuple[dict[str, str], Sequence[str]]:
    """Return the event field of each line field, and the line fields that define a group together
    with the event's name. Fields in `same` have the same name in line and event."""
    return {field: field for field in same} | others, by


# Event -> the fields of its line. `detail` is the text of a line.
_LINES: Final[dict[str, tuple[dict[str, str], Sequence[str]]]] = {
    EventKind.TRANSACTION_BLOCKED: _fields(
        "rule", "walletId", "principal", transactionId="id", detail="error", by=["rule", "walletId"]
    ),
    EventKind.HOLD_CREATED: _fields(
        "walletId", principal="asked", holdId="id", detail="sentence", by=["walletId"]
    ),
    EventKind.SWITCH_FROZEN: _fields("walletId", "principal", detail="reason", by=["walletId"]),
    EventKind.SWITCH_THAWED: _fields("walletId", "principal", by=["walletId"]),
    EventKind.AGENT_ERROR: _fields("agentId", detail="error", by=["agentId"]),
    EventKind.SCHEDULE_PAUSED: _fields(
        "walletId", "scheduleId", detail="reason", by=["scheduleId"]
    ),
    EventKind.WALLET_EXPORTED: _fields("walletId", "principal", by=["walletId"]),
    EventKind.KEYSTORE_ROTATED: _fields("principal"),
    EventKind.ADMIN_CREATED: _fields("adminId", "principal", by=["adminId"]),
    EventKind.ADMIN_REVOKED: _fields("adminId", "principal", by=["adminId"]),
    EventKind.WEBHOOK_REFUSED: _fields("holdId", detail="reason"),
    EventKind.ALERT_RAISED: _fields(
        "walletId", "principal", "transactionId", "detail", by=["walletId", "principal"]
    ),
}
# The fields of a line that a message for Slack has before the detail.
_SHOWN = ("rule", "walletId", "agentId", "scheduleId", "adminId", "principal", "holdId")

EVENTS: Final = tuple(kind for kind in map(str, _LINES) if kind != EventKind.ALERT_RAISED)
"""The events to send besides alerts. A schedule's pause is sent only if the service paused it."""
TEST: Final = "test"
"""The name of the message that `solward alerts test` sends."""
NAMES: Final = (*EVENTS, *(alert.value for alert in alerts.Alert), alerts.AUDIT_BROKEN)
"""The names of all events and alerts that can be sent."""

# The longest wait of a group with new notes; a group without notes for this long is deleted.
LONGEST_WAIT_MS = HOUR_MS
# The maximum number of groups in one message.
MOST_TAKEN = 1_000

_LOCK = "alert_groups"
# Far longer than the longest wait, without an overflow.
_MOST_DOUBLED = 32

_NOW: BindParameter[int] = bindparam("now", type_=BigInteger)
_rows = alert_groups.c


class DeliveryResult(NamedTuple):
    """The result of a test delivery; `failure` is None if the receiver accepted it."""

    delivery: str
    failure: Failure | None
    seconds: float


class AlertWebhook(Sender):
    """The sender of alerts to the operator's webhook, one for each process.

    Args:
        names: those of `NAMES` to send.
        interval_ms: time between two messages.
    """

    channel = "alerts"

    def __init__(
        self,
        database: Database,
        url: str,
        secret: str,
        *,
        dashboard: str,
        pace: Pace,
        shape: Format = "json",
        interval_ms: int = 60_000,
        names: Sequence[str] = NAMES,
    ) -> None:
        super().__init__(database, pace)
        self._to = url, secret
        self._dashboard = dashboard
        self._shape = shape
        self._interval_ms = interval_ms
        self._names = frozenset(names)

    @classmethod
    def from_settings(
        cls, database: Database, settings: Settings, pace: Pace | None = None
    ) -> AlertWebhook | None:
        """Return the webhook that the settings name; None if they name none.

        Raises:
            ConfigError: a setting is missing, or names an event that is never sent.
        """
        configured = settings.alert_webhook
        if configured is None:
            return None
        unknown = [name for name in settings.alert_webhook_names if name not in NAMES]
        if unknown:
            raise ConfigError(
                f"ALERT_WEBHOOK_NAMES: expected some of {', '.join(NAMES)}; got {unknown[0]!r}"
            )
        return cls(
            database,
            *configured,
            dashboard=settings.dashboard_address,
            pace=pace or Pace(gather_s=GATHER_S),
            shape=settings.alert_webhook_format,
            interval_ms=settings.alert_webhook_interval_s * 1000,
            names=settings.alert_webhook_names or NAMES,
        )

    async def note(self, name: str, detail: str) -> None:
        """Store a note that has no event in the audit log; waits for the disk."""
        if name in self._names:
            async with self._database.write() as connection:
                fields = jsontext.dumps({"detail": safe_text(detail)})
                await add_notes(connection, [Note(name, name, fields)])
            self._woken.set()

    async def _request(self, claimed: DeliveryClaim) -> httpx.Request:
        return signed_request(*self._to, claimed)

    def _wants_event(self, event: str, data: Any) -> bool:
        if event not in _LINES:
            return False
        # A principal that pauses a schedule needs no note about it.
        if event == EventKind.SCHEDULE_PAUSED and data["principal"] != SERVICE:
            return False
        return _message_name(event, data) in self._names

    async def _store(self, connection: AsyncConnection, events: Sequence[tuple[str, Any]]) -> None:
        await add_notes(connection, _merge_notes(list(map(_note_from_event, events))))

    async def _prepare(self, connection: AsyncConnection) -> None:
        if await store.next_due(connection, self.channel) is not None:
            return
        groups = await take_groups(connection, self._interval_ms)
        if groups:
            delivery = str(uuid.uuid4())
            text = message_body(groups, self._shape, self._dashboard)
            await store.add(connection, self.channel, delivery, delivery, text)

    async def _next_due(self, connection: AsyncConnection) -> int | None:
        waiting = await store.next_due(connection, self.channel)
        if waiting is not None:
            return waiting
        return await next_group_due(connection, self._interval_ms)

    def _give_up(self, connection: AsyncConnection, claimed: DeliveryClaim, failure: str) -> None:
        alert = alerts.Alert.ALERTS_GIVEN_UP
        alerts.raise_alert(connection, alert, tries=claimed.tries, failure=failure)


async def send_test(settings: Settings) -> DeliveryResult:
    """Send the receiver one test message from this process; nothing is stored.

    Raises:
        ConfigError: the alerts' webhook is not configured, or only partly.
    """
    configured = settings.alert_webhook
    if configured is None:
        raise ConfigError("alerts have no receiver: set ALERT_WEBHOOK_URL and ALERT_WEBHOOK_SECRET")
    now, delivery = now_ms(), str(uuid.uuid4())
    fields = jsontext.dumps({"detail": "This is a test: alerts arrive here"})
    body = message_body(
        [Group(TEST, fields, 1, now, now)],
        settings.alert_webhook_format,
        settings.dashboard_address,
    )
    began = time.monotonic()
    claimed = DeliveryClaim(delivery, delivery, body, now, 1, now)
    async with new_client() as client:
        request = signed_request(*configured, claimed)
        failure = await send(client, request, read_status, Pace().timeout_s)
    return DeliveryResult(delivery, failure, time.monotonic() - began)


def message_body(groups: Sequence[Group], shape: Format, dashboard: str) -> str:
    """Return the body of a message about groups, as JSON text."""
    lines = [_message_line(group) for group in groups[:MOST_LINES]]
    more = groups[MOST_LINES:]
    left_out = {"lines": len(more), "count": sum(group.count for group in more)}
    if shape == "slack":
        return jsontext.dumps({"text": _slack_text(lines, left_out, dashboard)})
    body = {"event": "alerts", "alerts": lines, "leftOut": left_out, "dashboardUrl": dashboard}
    return jsontext.dumps(body)


def safe_text(text: str, most: int = MOST_TEXT) -> str:
    """Convert a third party's text for a message: to one line, shortened, without secrets."""
    return one_line(scrub_start(text, 4 * most), most)


def slack_plain(text: str) -> str:
    """Return a text for code in Slack; it is no markup there, and does not end the code."""
    return html.escape(text, quote=False).replace("`", "'")


def _message_name(event: str, data: _Data) -> str:
    return str(data["alert"]) if event == EventKind.ALERT_RAISED else event


def _note_from_event(told: tuple[str, _Data]) -> Note:
    event, data = told
    if event == EventKind.TRANSACTION_BLOCKED:
        data = {**data, "rule": data["guardrailsApplied"][-1]}
    shows, grouped_by = _LINES[event]
    fields = drop_none(**{field: data.get(source) for field, source in shows.items()})
    name = _message_name(event, data)
    key = jsontext.dumps([name, *(fields.get(field) for field in grouped_by)])
    if "detail" in fields:
        fields["detail"] = safe_text(str(fields["detail"]))
    return Note(key, name, jsontext.dumps(fields), 1 + int(data.get("unwritten") or 0))


def _merge_notes(notes: Sequence[Note]) -> list[Note]:
    by_key: dict[str, Note] = {}
    for each in notes:
        earlier = by_key.get(each.key)
        count = each.count + (0 if earlier is None else earlier.count)
        by_key[each.key] = replace(each, count=count)
    return list(by_key.values())


def _message_line(group: Group) -> dict[str, Any]:
    times = {"firstAt": iso(group.first_ms), "lastAt": iso(group.last_ms)}
    return {"name": group.name, "count": group.count, **times, **jsontext.loads(group.fields)}


def _slack_text(lines: Sequence[_Data], left_out: Mapping[str, int], dashboard: str) -> str:
    """Format lines for Slack, so that a third party's text is never markup or a link."""
    texts = []
    for line in lines:
        times = f" x{line['count']}" if line["count"] > 1 else ""
        about = [f"{field} `{slack_plain(str(line[field]))}`" for field in _SHOWN if field in line]
        detail = [f"`{slack_plain(line['detail'])}`"] if "detail" in line else []
        texts.append("• " + "  ".join([f"*{line['name']}*{times}", *about, *detail]))
    if left_out["lines"]:
        texts.append(f"• and {left_out['count']} more of {left_out['lines']} others")
    return "\n".join([f"Solward  {slack_plain(dashboard)}", *texts])


_NOTE = insert_or_set(
    alert_groups,
    ("key",),
    "last_ms",
    "fields",
    count=_rows.count + new_value(alert_groups, "count"),
    first_ms=case((_rows.count == 0, new_value(alert_groups, "first_ms")), else_=_rows.first_ms),
)
_DUE = select(func.min(_rows.next_ms)).where(_rows.count > 0)
_LAST = select(func.max(_rows.told_ms))
# Rows to which another transaction is adding are skipped until the next message. Nothing here waits
# for a lock, so no deadlock is possible.
_WAITING = (
    select(_rows.name, _rows.fields, _rows.count, _rows.first_ms, _rows.last_ms, _rows.key)
    .where(_rows.count > 0)
    .order_by(_rows.first_ms)
    .limit(MOST_TAKEN)
    .with_for_update(skip_locked=True)
)
_WAIT = bindparam("b_interval", type_=BigInteger).op("<<")(_rows.tells)
_TOLD = (
    update(alert_groups)
    .where(_rows.key.in_(bindparam("keys", expanding=True)))
    .values(
        count=0,
        told_ms=_NOW,
        tells=case((_rows.tells < _MOST_DOUBLED, _rows.tells + 1), else_=_rows.tells),
        next_ms=_NOW + case((_WAIT > LONGEST_WAIT_MS, LONGEST_WAIT_MS), else_=_WAIT),
    )
)
_FORGET = delete(alert_groups).where(_rows.count == 0, _rows.told_ms < bindparam("before"))


@dataclass(frozen=True, slots=True)
class Group:
    """The notes about one subject since they were last sent.

    Attributes:
        name: the name of the alert or event.
        fields: the latest note's fields, as JSON text.
        count: the number of notes.
        first_ms: time of the first note, by the database's clock.
        last_ms: time of the latest note.
    """

    name: str
    fields: str
    count: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Note:
    """An alert or event to send once it is committed; notes with the same `key` are one group."""

    key: str
    name: str
    fields: str
    count: int = 1


async def add_notes(connection: AsyncConnection, notes: Sequence[Note]) -> None:
    """Add notes to their groups, in the transaction of their events."""
    now = await clock(connection)
    # Sorted by key, so that two transactions that add to the same groups cannot deadlock.
    for each in sorted(notes, key=lambda note: note.key):
        told = {"first_ms": now, "last_ms": now, "told_ms": 0, "tells": 0, "next_ms": now}
        await connection.execute(_NOTE, asdict(each) | told)


async def next_group_due(connection: AsyncConnection, interval_ms: int) -> int | None:
    """Return the milliseconds until a message is due, at least 0; None if no group waits.

    Args:
        interval_ms: time between any two messages.
    """
    due = (await connection.execute(_DUE)).scalar()
    if due is None:
        return None
    last = (await connection.execute(_LAST)).scalar() or 0
    return max(0, max(int(due), int(last) + interval_ms) - await clock(connection))


async def take_groups(connection: AsyncConnection, interval_ms: int) -> list[Group]:
    """Take up to `MOST_TAKEN` groups for the next message, oldest first; none if no message is due.

    Only one of several processes gets a group. A group that was sent is due again after
    `interval_ms`, then after twice as long each time, up to `LONGEST_WAIT_MS`, but joins an earlier
    message about other groups. A group without notes for that long starts anew.
    """
    if not await try_lock_exclusive(connection, _LOCK):
        return []
    now = await clock(connection)
    await connection.execute(_FORGET, {"before": now - LONGEST_WAIT_MS})
    if await next_group_due(connection, interval_ms) != 0:
        return []
    rows = (await connection.execute(_WAITING)).all()
    if rows:
        values = {"keys": [row.key for row in rows], "now": now, "b_interval": interval_ms}
        await connection.execute(_TOLD, values)
    return [Group(*row[:-1]) for row in rows]


LOOK_S = 15.0
# A condition that may pass by itself is raised after this number of consecutive looks.
LOOKS = 2
# Such conditions: the ledger answers late, or the queue is between two workers.
_PASSING = frozenset({Alert.LEDGER_AWAY, Alert.JOBS_STALLED, Alert.WORKER_MISSING})

_log = structlog.get_logger(__name__)

_Condition = tuple[Alert, str]


@dataclass(slots=True)
class Watch:
    """A periodic check that raises alerts for the problems of one process.

    Attributes:
        ledger_health: returns `{healthy, network, slot}`.
        problems: returns the plugins that are not loaded, or were disabled.
        crashes: returns distribution -> number of times its plugin host ended by itself.
        nodes_away: returns the names of RPC nodes that have not answered for a while.
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
        """Call `look` every `look_s` seconds while the block runs."""
        async with in_background(self._watch_forever(), "solward-alert-watch"):
            yield

    async def look(self) -> None:
        """Check once, and raise alerts for problems that the last check did not find.

        Raises:
            StoreError: no alert was raised; the next look finds the conditions again.
        """
        now = await self._find_conditions()
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
            # This is a note without an event, because the audit log itself was tampered with.
            detail = "The end of a chain of the audit log is not authentic"
            await self.webhook.note(AUDIT_BROKEN, detail)
        # Set last, so that a condition without a stored alert is still new in the next look.
        self._found, self._crashes, self._broken = found, crashes, broken

    async def _find_conditions(self) -> list[_Condition]:
        found: list[_Condition] = []
        health = await self.ledger_health()
        if not health["healthy"]:
            found.append((Alert.LEDGER_AWAY, f"No RPC node of {health['network']} answers"))
        found += [
            (Alert.RPC_NODE_AWAY, f"The RPC node {name} does not answer, or is in another cluster")
            for name in self.nodes_away()
        ]
        found += [(Alert.PLUGIN_PROBLEM, str(problem)) for problem in self.problems()]
        if self.database.shared:
            found += await self._queue_conditions()
        return list(dict.fromkeys(found))

    async def _queue_conditions(self) -> list[_Condition]:
        async with self.database.read() as connection:
            running = (await agents.count_by_status(connection)).get(AgentStatus.RUNNING.value)
            workers = await agents.count_workers(connection)
            counts = await agents.count_jobs(connection)
        if running and not workers:
            return [(Alert.WORKER_MISSING, "Agents are started, but no worker is running")]
        if counts.get("stalled"):
            return [
                (Alert.JOBS_STALLED, "Cycles were assigned to dead workers, and to no other worker")
            ]
        return []

    async def _watch_forever(self) -> None:
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
