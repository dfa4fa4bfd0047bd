"""The alerts' webhook: an operator's receiver is told of what matters without anybody watching.

What is told is noted in the transaction of the event that it tells of, and grouped
(`solward.notify.alert_groups`): a flood of one thing is one line with a count. One message at a
time is sent, as `solward.notify.webhook_sender` sends: while the receiver is away, alerts gather.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE
from solward.database import outbox
from solward.database.database import Database
from solward.notify import alert_groups
from solward.notify import deliveries as store
from solward.notify.alert_groups import Group, Note
from solward.notify.deliveries import Claimed
from solward.notify.webhook_sender import Pace, Sender, new_client, send
from solward.settings import Settings
from solward.support import jsontext
from solward.support.clock import iso, now_ms
from solward.telemetry.scrub import scrub_start
from solward.types.errors import ConfigError
from solward.types.events import Event, EventKind
from solward.vault.store import alerts

Format = Literal["json", "slack"]

# Lines of a message; the others of it are counted.
MOST_LINES = 50
# Characters of what may be a stranger's words.
MOST_TEXT = 300
# What comes within it of the first is told with it.
GATHER_S = 1.0

_RAISED = EventKind.ALERT_RAISED.value

_Data = Mapping[str, Any]

# Event -> which of its fields a line has, and which of them, after the event's name, say with what
# it is grouped. `detail` is the text of a line.
_FIELDS: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    EventKind.TRANSACTION_BLOCKED: (
        {
            "rule": "rule",
            "walletId": "walletId",
            "principal": "principal",
            "transactionId": "id",
            "detail": "error",
        },
        ("rule", "walletId"),
    ),
    EventKind.HOLD_CREATED: (
        {"walletId": "walletId", "principal": "asked", "holdId": "id", "detail": "sentence"},
        ("walletId",),
    ),
    EventKind.SWITCH_FROZEN: (
        {"walletId": "walletId", "principal": "principal", "detail": "reason"},
        ("walletId",),
    ),
    EventKind.SWITCH_THAWED: ({"walletId": "walletId", "principal": "principal"}, ("walletId",)),
    EventKind.AGENT_ERROR: ({"agentId": "agentId", "detail": "error"}, ("agentId",)),
    EventKind.SCHEDULE_PAUSED: (
        {"walletId": "walletId", "scheduleId": "scheduleId", "detail": "reason"},
        ("scheduleId",),
    ),
    EventKind.WALLET_EXPORTED: ({"walletId": "walletId", "principal": "principal"}, ("walletId",)),
    EventKind.KEYSTORE_ROTATED: ({"principal": "principal"}, ()),
    EventKind.ADMIN_CREATED: ({"adminId": "adminId", "principal": "principal"}, ("adminId",)),
    EventKind.ADMIN_REVOKED: ({"adminId": "adminId", "principal": "principal"}, ("adminId",)),
    EventKind.WEBHOOK_REFUSED: ({"holdId": "holdId", "detail": "reason"}, ()),
    EventKind.ALERT_RAISED: (
        {
            "walletId": "walletId",
            "principal": "principal",
            "transactionId": "transactionId",
            "detail": "detail",
        },
        ("walletId", "principal"),
    ),
}

EVENTS: Final = tuple(kind for kind in map(str, _FIELDS) if kind != _RAISED)
"""The events that are told beside alerts; of schedules those that paused themselves."""
TEST: Final = "test"
"""The name of what `solward alerts test` sends."""
NAMES: Final = (*EVENTS, *(alert.value for alert in alerts.Alert), alerts.AUDIT_BROKEN)
"""Everything that is told."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How one try to tell the receiver ended.

    Attributes:
        failure: what failed, without the receiver's address; None where it was taken.
    """

    delivery: str
    failure: str | None
    seconds: float


class AlertWebhook(Sender):
    """The alerts' webhook of one process.

    Args:
        names: of those of `NAMES` that are told.
        interval_ms: between two messages.
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
        super().__init__(database, url, secret, pace)
        self._dashboard = dashboard
        self._shape = shape
        self._interval_ms = interval_ms
        self._names = frozenset(names)

    @classmethod
    def of(
        cls, database: Database, settings: Settings, pace: Pace | None = None
    ) -> AlertWebhook | None:
        """The webhook that the settings name; None where they name none.

        Raises:
            ConfigError: they name half of it, or what is never told.
        """
        configured = settings.alert_webhook
        if configured is None:
            return None
        url, secret = configured
        unknown = [name for name in settings.alert_webhook_names if name not in NAMES]
        if unknown:
            raise ConfigError(
                f"ALERT_WEBHOOK_NAMES: expected some of {', '.join(NAMES)}; got {unknown[0]!r}"
            )
        return cls(
            database,
            url,
            secret,
            dashboard=settings.dashboard_address,
            pace=pace or Pace(gather_s=GATHER_S),
            shape=settings.alert_webhook_format,
            interval_ms=settings.alert_webhook_interval_s * 1000,
            names=settings.alert_webhook_names or NAMES,
        )

    async def note(self, name: str, detail: str) -> None:
        """Tell what no event of the audit log says; waits for the disk."""
        if name in self._names:
            async with self._database.write() as connection:
                fields = jsontext.dumps({"detail": shown(detail)})
                await alert_groups.note(connection, [Note(name, name, fields)])
            self._woken.set()

    def _concerns(self, event: Event) -> bool:
        return self._name_of(event.event, event.data) is not None

    async def _enqueue(self, connection: AsyncConnection) -> None:
        found = [
            note
            for event, data in outbox.recorded_events(connection)
            if (note := self._noted(event, data)) is not None
        ]
        if found:
            await alert_groups.note(connection, _together(found))

    def _name_of(self, event: str, data: Any) -> str | None:
        if event not in _FIELDS:
            return None
        # Whoever pauses a schedule knows of it.
        if event == EventKind.SCHEDULE_PAUSED and data["principal"] != SERVICE:
            return None
        name: str = data["alert"] if event == _RAISED else event
        return name if name in self._names else None

    def _noted(self, event: str, data: Any) -> Note | None:
        name = self._name_of(event, data)
        if name is None:
            return None
        if event == EventKind.TRANSACTION_BLOCKED:
            data = {**data, "rule": data["guardrailsApplied"][-1]}
        shows, grouped_by = _FIELDS[event]
        fields = {field: data.get(source) for field, source in shows.items()}
        fields = {field: value for field, value in fields.items() if value is not None}
        key = jsontext.dumps([name, *(fields.get(field) for field in grouped_by)])
        if "detail" in fields:
            fields["detail"] = shown(str(fields["detail"]))
        return Note(key, name, jsontext.dumps(fields), 1 + int(data.get("unwritten") or 0))

    async def _prepare(self, connection: AsyncConnection) -> None:
        if await store.next_due(connection, self.channel) is not None:
            return
        groups = await alert_groups.take(connection, self._interval_ms)
        if groups:
            delivery = str(uuid.uuid4())
            text = message(groups, self._shape, self._dashboard)
            await store.add(connection, self.channel, delivery, delivery, text)

    async def _next_due(self, connection: AsyncConnection) -> int | None:
        waiting = await store.next_due(connection, self.channel)
        if waiting is not None:
            return waiting
        return await alert_groups.next_due(connection, self._interval_ms)

    def _give_up(self, connection: AsyncConnection, claimed: Claimed, failure: str) -> None:
        alerts.alerts_given_up(connection, claimed.tries, failure)


async def send_test(settings: Settings) -> Sent:
    """Tell the receiver once, from here, that this works; nothing is stored.

    Raises:
        ConfigError: there is no alerts' webhook, or half of one.
    """
    configured = settings.alert_webhook
    if configured is None:
        raise ConfigError("set ALERT_WEBHOOK_URL and ALERT_WEBHOOK_SECRET: there is no receiver")
    now, delivery = now_ms(), str(uuid.uuid4())
    fields = jsontext.dumps({"detail": "Alerts of this service arrive here"})
    body = message(
        [Group(TEST, fields, 1, now, now)],
        settings.alert_webhook_format,
        settings.dashboard_address,
    )
    began = time.monotonic()
    async with new_client() as client:
        failure = await send(
            client, *configured, delivery, body.encode(), now // 1000, Pace().timeout_s
        )
    return Sent(delivery, failure, time.monotonic() - began)


def message(groups: Sequence[Group], shape: Format, dashboard: str) -> str:
    """The body that tells of groups, as JSON text."""
    lines = [_line(group) for group in groups[:MOST_LINES]]
    more = groups[MOST_LINES:]
    left_out = {"lines": len(more), "count": sum(group.count for group in more)}
    if shape == "slack":
        return jsontext.dumps({"text": _slack_text(lines, left_out, dashboard)})
    body = {"event": "alerts", "alerts": lines, "leftOut": left_out, "dashboardUrl": dashboard}
    return jsontext.dumps(body)


def shown(text: str) -> str:
    """What may be a stranger's words: on one line, bounded, without secrets."""
    text = scrub_start(text, 4 * MOST_TEXT)
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"


def _together(notes: Sequence[Note]) -> list[Note]:
    by_key: dict[str, Note] = {}
    for each in notes:
        earlier = by_key.get(each.key)
        count = each.count + (0 if earlier is None else earlier.count)
        by_key[each.key] = replace(each, count=count)
    return list(by_key.values())


def _line(group: Group) -> dict[str, Any]:
    times = {"firstAt": iso(group.first_ms), "lastAt": iso(group.last_ms)}
    return {"name": group.name, "count": group.count, **times, **jsontext.loads(group.fields)}


def _slack_text(lines: Sequence[_Data], left_out: Mapping[str, int], dashboard: str) -> str:
    """As Slack and what understands it show: no word of a stranger is markup or a link there."""
    texts = []
    for line in lines:
        times = f" x{line['count']}" if line["count"] > 1 else ""
        about = [
            f"{field} `{_plain(str(line[field]))}`"
            for field in (
                "rule",
                "walletId",
                "agentId",
                "scheduleId",
                "adminId",
                "principal",
                "holdId",
            )
            if field in line
        ]
        detail = [f"`{_plain(line['detail'])}`"] if "detail" in line else []
        texts.append("• " + "  ".join([f"*{line['name']}*{times}", *about, *detail]))
    if left_out["lines"]:
        texts.append(f"• and {left_out['count']} more of {left_out['lines']} others")
    return "\n".join([f"Solward  {_plain(dashboard)}", *texts])


def _plain(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("`", "'")):
        text = text.replace(character, entity)
    return text
