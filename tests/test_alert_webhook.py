"""The alerts' webhook tells a real receiver of what matters, in few messages, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from sqlalchemy import insert, select, text, update
from tests.promises import promise
from tests.support.clock import until
from tests.support.database import WALLET_ROW, AuditLog, agent_row
from tests.support.processes import free_port
from tests.support.repository import ROOT
from tests.support.services import STRANGER, serving_api
from tests.support.webhooks import (
    FAST,
    ONCE_MORE,
    TOKEN,
    day_ends,
    deliveries_ended,
    delivery_states,
    webhook_process,
)

from solward.agents import queue
from solward.agents import store as agents
from solward.audit import alerts
from solward.audit.alerts import AUDIT_BROKEN, Alert
from solward.client import AlertDelivery, verify_alerts
from solward.database import outbox
from solward.database.database import Database
from solward.database.tables import alert_groups as groups_table
from solward.database.tables import wallets
from solward.notify import alerts as alert_webhook
from solward.notify import deliveries as store
from solward.notify.alerts import (
    EVENTS,
    MOST_LINES,
    MOST_TEXT,
    NAMES,
    AlertWebhook,
    Group,
    Note,
    Watch,
    message_body,
    safe_text,
)
from solward.notify.deliveries import Pace
from solward.notify.webhook import Webhook
from solward.settings import Settings
from solward.support.durations import HOUR_MS
from solward.telemetry import metrics
from solward.telemetry.scrub import conceal
from solward.types.errors import ConfigError, StoreError

SECRET = "a-secret-of-the-alerts-of-32-bytes!!"


@dataclass
class Receiver:
    """Hears messages; answers what `answers` says next, 204 after that."""

    heard: list[AlertDelivery] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    shape: str = "json"

    def __post_init__(self) -> None:
        app = web.Application()
        app.router.add_post(f"/{TOKEN}", self._hear)
        self.server = TestServer(app)

    async def _hear(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(json.loads(body))
        if self.shape == "json":
            self.heard.append(verify_alerts(SECRET, request.headers, body))
        return web.Response(status=self.answers.pop(0) if self.answers else 204)

    @property
    def url(self) -> str:
        return str(self.server.make_url(f"/{TOKEN}"))

    @property
    def told(self) -> list[tuple[str, int]]:
        return [(line["name"], line["count"]) for each in self.heard for line in each.alerts]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with made.server:
        yield made


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


def webhook(database: Database, url: str, pace: Pace = FAST, **options: Any) -> AlertWebhook:
    options = {"interval_ms": 1, "dashboard": "https://dashboard.example"} | options
    return AlertWebhook(database, url, SECRET, pace=pace, **options)


def blocked(wallet: str = "w-1", rule: str = "daily_limit", error: str = "Over") -> dict[str, Any]:
    return {
        "id": "t-1",
        "walletId": wallet,
        "principal": "key:k-1",
        "type": "transfer",
        "status": "blocked",
        "error": error,
        "guardrailsApplied": ["max_per_tx", rule],
    }


async def tell(database: Database, event: str, *data: dict[str, Any]) -> None:
    async with database.write() as connection:
        for each in data:
            outbox.record(connection, event, each)


async def waiting(database: Database) -> int:
    async with database.read() as connection:
        found = await connection.execute(select(groups_table.c.count))
        return sum(found.scalars())


@contextlib.asynccontextmanager
async def enqueuing(database: Database, **options: Any) -> AsyncIterator[None]:
    """What is to be told is stored, and nothing is sent: a process that dies right after it."""
    database.before_commit = webhook(database, "http://127.0.0.1:9", **options)._store_recorded
    yield
    database.before_commit = None


async def age(database: Database, ms: int) -> None:
    """Let so much time go by for the groups."""
    rows = groups_table.c
    earlier = {name: rows[name] - ms for name in ("first_ms", "last_ms", "told_ms", "next_ms")}
    async with database.write() as connection:
        await connection.execute(update(groups_table).values(earlier))


async def test_a_refusal_is_told_with_its_rule_signed_and_without_more_than_it_needs(
    database: Database, receiver: Receiver
) -> None:
    async with webhook(database, receiver.url).delivering():
        await tell(database, "transaction:blocked", blocked())
        await deliveries_ended(database, "delivered")
    (delivery,) = receiver.heard  # its signature was checked as it came
    (line,) = delivery.alerts
    assert {name: line[name] for name in line if not name.endswith("At")} == {
        "name": "transaction:blocked",
        "count": 1,
        "rule": "daily_limit",
        "walletId": "w-1",
        "principal": "key:k-1",
        "transactionId": "t-1",
        "detail": "Over",
    }
    assert line["firstAt"] == line["lastAt"]
    assert delivery.left_out == 0
    assert delivery.dashboard_url == "https://dashboard.example"


@pytest.mark.more
@promise("refusal-flood-few-messages")
async def test_ten_thousand_refusals_are_few_messages_with_their_count(
    database: Database, receiver: Receiver
) -> None:
    many = 10_000 if not database.shared else 1_000
    sender = webhook(database, receiver.url, interval_ms=60_000)
    async with sender.delivering():
        await tell(database, "transaction:blocked", blocked(error="the first"))
        await deliveries_ended(database, "delivered")
        for _ in range(10):
            await tell(database, "transaction:blocked", *[blocked()] * (many // 10))
        assert await waiting(database) == many
        assert len(receiver.heard) == 1
        await age(database, 60_000)
        await deliveries_ended(database, "delivered", "delivered")
    assert receiver.told == [("transaction:blocked", 1), ("transaction:blocked", many)]


@promise("refusal-flood-few-messages")
async def test_what_goes_on_is_told_less_and_less_often_and_anew_after_an_hour_of_quiet(
    database: Database,
) -> None:
    minute = 60_000
    waits = []
    async with enqueuing(database):
        for _ in range(9):
            await tell(database, "transaction:blocked", blocked())
            async with database.write() as connection:
                wait = await alert_webhook.next_group_due(connection, minute)
            assert wait is not None
            waits.append(round(wait / minute))
            await age(database, wait)
            async with database.write() as connection:
                assert len(await alert_webhook.take_groups(connection, minute)) == 1
        assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]
        await age(database, HOUR_MS + 1)
        async with database.write() as connection:
            assert await alert_webhook.take_groups(connection, minute) == []
        await tell(database, "transaction:blocked", blocked())
        async with database.read() as connection:
            assert await alert_webhook.next_group_due(connection, minute) == 0


@promise("flood-delays-no-other")
async def test_another_kind_is_told_after_the_interval_though_a_flood_goes_on(
    database: Database, receiver: Receiver
) -> None:
    async with enqueuing(database):
        for wallet in ("w-1", "w-2"):
            await tell(database, "transaction:blocked", blocked(wallet))
        async with database.write() as connection:
            assert len(await alert_webhook.take_groups(connection, 60_000)) == 2
        await tell(database, "transaction:blocked", *[blocked()] * 50)
        switch = {"walletId": None, "reason": "odd", "principal": "admin"}
        await tell(database, "switch:frozen", switch)
        async with database.write() as connection:
            assert await alert_webhook.take_groups(connection, 60_000) == []
        await age(database, 60_000)
        async with database.write() as connection:
            taken = await alert_webhook.take_groups(connection, 60_000)
    assert [(each.name, each.count) for each in taken] == [
        ("transaction:blocked", 50),
        ("switch:frozen", 1),
    ]


@promise("message-of-bounded-lines")
async def test_a_message_is_bounded_and_says_how_many_it_leaves_out(
    database: Database, receiver: Receiver
) -> None:
    many = MOST_LINES + 7
    async with enqueuing(database):
        await tell(database, "transaction:blocked", *[blocked(f"w-{n}") for n in range(many)] * 2)
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    (body,) = receiver.bodies
    assert len(body["alerts"]) == MOST_LINES
    assert body["leftOut"] == {"lines": 7, "count": 14}
    assert receiver.heard[0].left_out == 14


@promise("one-message-per-interval")
async def test_while_the_receiver_is_away_one_message_waits_and_the_rest_gathers(
    database: Database,
) -> None:
    late = Receiver()
    late.server = TestServer(late.server.app, port=free_port())
    url = f"http://127.0.0.1:{late.server.port}/{TOKEN}"
    failed = metrics.WEBHOOK_DELIVERIES.labels("alerts", "failed")
    before = failed._value.get()
    async with webhook(database, url).delivering(), AsyncExitStack() as stack:
        await tell(database, "transaction:blocked", blocked())
        await until(lambda: failed._value.get() > before)
        for _ in range(5):
            await tell(database, "transaction:blocked", blocked())
        assert await delivery_states(database) == ["waiting"]
        async with database.read() as connection:
            assert await store.waiting_counts(connection) == {"alerts": (1, True)}
        await stack.enter_async_context(late.server)
        await until(lambda: sum(count for _, count in late.told) == 6)
    assert late.told == [("transaction:blocked", 1), ("transaction:blocked", 5)]


@promise("alert-survives-kill")
async def test_what_cannot_be_stored_to_be_told_does_not_happen(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise StoreError("full")

    monkeypatch.setattr(alert_webhook, "add_notes", refuse)
    async with webhook(database, receiver.url).delivering():
        with pytest.raises(StoreError, match="full"):
            await tell(database, "transaction:blocked", blocked())
    assert await AuditLog(database).latest(5) == []


async def test_a_process_that_dies_right_after_the_commit_has_lost_nothing(
    database: Database, receiver: Receiver
) -> None:
    async with enqueuing(database):
        await tell(database, "transaction:blocked", blocked())
    assert await delivery_states(database) == []
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    assert receiver.told == [("transaction:blocked", 1)]


async def test_after_a_day_it_is_given_up_with_an_alert(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers = [500, 500]
    async with webhook(database, receiver.url, ONCE_MORE).delivering():
        await tell(database, "transaction:blocked", blocked())
        await day_ends(database)
        await until(lambda: ("alerts_given_up", 1) in receiver.told)
    entries = [entry.to_json() for entry in await AuditLog(database).latest(5)]
    (alert,) = [entry["data"] for entry in entries if entry["event"] == "alert:raised"]
    assert alert["alert"] == "alerts_given_up"
    assert re.fullmatch(
        r"ALERT_WEBHOOK_URL did not accept alerts in 2 tries; the last failure: HTTP 500",
        alert["detail"],
    )


async def test_both_webhooks_of_one_process_tell_their_own(
    database: Database, receiver: Receiver
) -> None:
    places = {"dashboard": "https://dashboard.example", "api": "https://api.example"}
    approvals = Webhook(database, "http://127.0.0.1:9/", SECRET, pace=FAST, **places)
    data = {"id": "h-1", "walletId": "w-1", "principal": "service", "asked": "key:k-1"}
    async with approvals.delivering(), webhook(database, receiver.url).delivering():
        await tell(database, "hold:created", data | {"sentence": "Pay 5 USDC."})
        await until(lambda: receiver.heard)
        async with database.read() as connection:
            assert (await store.waiting_counts(connection))["approvals"][0] == 1
    (line,) = receiver.heard[0].alerts
    assert (line["name"], line["holdId"], line["detail"]) == ("hold:created", "h-1", "Pay 5 USDC.")


async def test_only_what_is_named_is_told(database: Database, receiver: Receiver) -> None:
    async with enqueuing(database, names=("ledger_away", "switch:frozen")):
        await tell(database, "transaction:blocked", blocked())
        async with database.write() as connection:
            alerts.raise_alert(connection, Alert.LEDGER_AWAY, detail="away")
            alerts.raise_alert(connection, Alert.PLUGIN_PROBLEM, detail="broken")
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    assert receiver.told == [("ledger_away", 1)]


async def test_of_paused_schedules_those_that_paused_themselves_are_told(
    database: Database, receiver: Receiver
) -> None:
    schedule = {"scheduleId": "s-1", "walletId": "w-1", "name": "dca", "reason": "It failed"}
    async with enqueuing(database):
        await tell(database, "schedule:paused", schedule | {"principal": "admin"})
        assert await waiting(database) == 0
        await tell(database, "schedule:paused", schedule | {"principal": "service"})
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    assert receiver.heard[0].alerts[0]["detail"] == "It failed"


@promise("no-secret-in-alerts")
async def test_a_strangers_words_are_one_bounded_line_without_secrets(
    database: Database, receiver: Receiver
) -> None:
    hidden = "hunter2-hunter2-hunter2"
    conceal([hidden])
    words = f"a\nb\u202e\u0007 {hidden} " + "x" * 100_000
    async with enqueuing(database):
        await tell(database, "transaction:blocked", blocked(error=words))
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    detail = receiver.heard[0].alerts[0]["detail"]
    assert detail.startswith("a b\ufffd\ufffd ")
    assert len(detail) == MOST_TEXT
    assert hidden not in str(receiver.bodies)
    assert detail.isprintable()


@promise("no-secret-in-alerts")
def test_for_slack_no_word_of_a_stranger_is_markup() -> None:
    shown_fields = json.dumps(
        {"rule": "r", "detail": safe_text("<!channel> `x` *bold* <http://e.example|ok>")}
    )
    groups = [Group("transaction:blocked", shown_fields, 3, 0, 0)] * (MOST_LINES + 1)
    body = json.loads(message_body(groups, "slack", "https://dashboard.example"))
    lines = body["text"].splitlines()
    first = lines[1]
    assert first == (
        "• *transaction:blocked* x3  rule `r`  "
        "`&lt;!channel&gt; 'x' *bold* &lt;http://e.example|ok&gt;`"
    )
    assert lines[-1] == "• and 3 more of 1 others"


@pytest.mark.more
@promise("told-by-one-process")
async def test_two_processes_on_one_database_tell_each_once(
    postgres_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            database = await Database.open(postgres_url, tmp_path)
            stack.push_async_callback(database.close)
            await stack.enter_async_context(webhook(database, receiver.url).delivering())
            opened.append(database)
        one, two = opened
        both = [blocked("w-1"), blocked("w-2")]
        # In both orders at once: the groups' rows are taken in one.
        await asyncio.gather(
            *(
                tell(opened[n % 2], "transaction:blocked", *(both if n % 3 else both[::-1]))
                for n in range(40)
            )
        )
        await until(lambda: sum(count for _, count in receiver.told) >= 80)
        assert await waiting(one) == await waiting(two) == 0
    assert sum(count for _, count in receiver.told) == 80
    assert len({each.id for each in receiver.heard}) == len(receiver.heard)


class Service:
    """What a watch looks at."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.healthy = True
        self.problems: Sequence[Any] = ()
        self.crashes: dict[str, int] = {}

    async def ledger_health(self) -> dict[str, Any]:
        return {"healthy": self.healthy, "network": "devnet", "slot": 1}


def watch_of(
    service: Service, sender: AlertWebhook, away: Callable[[], Sequence[str]] = tuple
) -> Watch:
    return Watch(
        service.database,
        sender,
        service.ledger_health,
        lambda: service.problems,
        lambda: service.crashes,
        away,
    )


async def watched(database: Database) -> Service:
    if database.shared:
        async with database.write() as connection:
            await queue.prepare(connection)
    return Service(database)


async def raised(database: Database) -> list[str]:
    entries = [entry.to_json() for entry in await AuditLog(database).latest(100)]
    return [each["data"]["alert"] for each in entries if each["event"] == "alert:raised"][::-1]


@promise("alerts-begin-and-end")
async def test_conditions_are_raised_when_they_begin_and_again_when_they_come_back(
    database: Database,
) -> None:
    service, away = await watched(database), []
    watch = watch_of(service, webhook(database, "http://127.0.0.1:9"), lambda: away)
    service.healthy = False
    await watch.look()
    assert await raised(database) == []  # it may pass
    for _ in range(3):
        await watch.look()
    assert await raised(database) == ["ledger_away"]
    service.healthy = True
    service.problems = ["acme: its process ended"]
    service.crashes = {"acme": 2}
    away.append("rpc.example")
    for _ in range(2):
        await watch.look()
    assert await raised(database) == [
        "ledger_away", "rpc_node_away", "plugin_problem", "plugin_crashed",
    ]  # fmt: skip
    service.healthy, service.problems, service.crashes = False, (), {"acme": 3}
    for _ in range(2):
        await watch.look()
    assert (await raised(database))[4:] == ["plugin_crashed", "ledger_away"]


async def test_what_could_not_be_stored_is_raised_by_the_next_look(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await watched(database)
    service.problems = ["acme: broken"]
    watch = watch_of(service, webhook(database, "http://127.0.0.1:9"))

    def refuse(*_: object, **_said: object) -> None:
        raise StoreError("full")

    with monkeypatch.context() as patch:
        patch.setattr(alerts, "raise_alert", refuse)
        with pytest.raises(StoreError):
            await watch.look()
    await watch.look()
    assert await raised(database) == ["plugin_problem"]


async def test_a_broken_chain_is_told_without_an_event(
    database: Database, receiver: Receiver
) -> None:
    sender = webhook(database, receiver.url)
    watch = watch_of(await watched(database), sender)
    metrics.ALERTS.labels(AUDIT_BROKEN).inc()
    async with sender.delivering():
        await watch.look()
        await watch.look()
        await deliveries_ended(database, "delivered")
    assert receiver.told == [(AUDIT_BROKEN, 1)]
    assert await raised(database) == []


@pytest.mark.more
@promise("health-shows-webhooks")
async def test_a_service_tells_of_refusals_freezes_and_limits_and_health_says_how_it_goes(
    tmp_path: Path, receiver: Receiver
) -> None:
    given = {"alert_webhook_url": receiver.url, "alert_webhook_secret": SECRET}
    given["daily_spending_limit_sol"] = "1"
    receiver.answers = [500] * 3
    async with serving_api(tmp_path / "home", **given) as api:
        wallet = await api.wallet(2)
        health = (await api.get("/health", token=None)).json
        assert health["webhooks"] == {"alerts": "ok"}
        await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 3})
        await until(lambda: receiver.heard)
        async with asyncio.timeout(20):
            while health["webhooks"] != {"alerts": "failing"}:
                health = (await api.get("/health", token=None)).json
        assert health["status"] == "ok"
        (line,) = receiver.heard[0].alerts
        assert (line["name"], line["rule"], line["walletId"]) == (
            "transaction:blocked", "max_per_tx", wallet,
        )  # fmt: skip
        for _ in range(2):
            sent = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.4})
            assert sent.status == 200
        await api.post("/freeze", {"reason": "looks odd"})
        async with api.service.database.read() as connection:
            found = await connection.execute(
                select(groups_table.c.name, groups_table.c.count).where(groups_table.c.count > 0)
            )
            assert sorted(map(tuple, found)) == [("daily_limit_near", 1), ("switch:frozen", 1)]
    assert SECRET not in str(receiver.bodies)


async def test_half_of_it_another_address_and_unknown_names_are_refused(
    database: Database,
) -> None:
    both = {"alert_webhook_url": "http://[::1]:9/a", "alert_webhook_secret": SECRET}
    assert Settings().alert_webhook is None
    assert AlertWebhook.from_settings(database, Settings()) is None
    assert Settings(**both).alert_webhook == tuple(both.values())
    for name in both:
        with pytest.raises(ConfigError, match="or neither"):
            Settings(**{name: both[name]}).alert_webhook  # noqa: B018
    with pytest.raises(ConfigError, match="expected https://"):
        Settings(alert_webhook_url="http://alerts.example.com/")
    with pytest.raises(ConfigError, match="at least 32 bytes"):
        Settings(alert_webhook_secret="short")
    same = both | {"approval_webhook_secret": SECRET, "approval_webhook_url": "http://[::1]:9/"}
    with pytest.raises(ConfigError, match="could approve"):
        Settings(**same).alert_webhook  # noqa: B018
    with pytest.raises(ConfigError, match=r"ALERT_WEBHOOK_NAMES: .*got 'nothing'"):
        AlertWebhook.from_settings(
            database, Settings(**both, alert_webhook_names="ledger_away, nothing")
        )
    assert len(set(NAMES)) == len(NAMES) == len(EVENTS) + len(Alert) + 1


async def test_the_command_sends_one_message_and_says_what_became_of_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from solward_cli import main

    async def run() -> Any:
        monkeypatch.setenv("ALERT_WEBHOOK_URL", receiver.url)
        monkeypatch.setenv("ALERT_WEBHOOK_SECRET", SECRET)
        return await asyncio.to_thread(CliRunner().invoke, main, ["alerts", "test"])

    monkeypatch.chdir(tmp_path)
    result = await run()
    assert result.exit_code == 0
    (delivery,) = receiver.heard
    assert result.output.startswith("Accepted in ")
    assert delivery.id in result.output
    assert delivery.alerts[0]["name"] == "test"
    receiver.answers = [500]
    result = await run()
    assert (result.exit_code, result.output) == (1, "Rejected: HTTP 500.\n")
    assert TOKEN not in result.output
    monkeypatch.delenv("ALERT_WEBHOOK_URL", raising=False)
    result = await asyncio.to_thread(CliRunner().invoke, main, ["alerts", "test"])
    assert result.exit_code == 2
    assert "ALERT_WEBHOOK_URL" in result.output


@promise("alert-survives-kill")
@pytest.mark.more
@pytest.mark.sqlite("the process's own file")
async def test_a_process_that_is_killed_after_the_commit_tells_it_at_its_next_start(
    tmp_path: Path, receiver: Receiver
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    def start(what: str) -> subprocess.Popen[bytes]:
        return webhook_process("alerts", home, receiver.url, SECRET, what)

    with start("tell") as process:
        assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL
    assert receiver.heard == []
    with start("send") as process:
        await until(lambda: receiver.heard)
        process.kill()
    assert receiver.told == [("transaction:blocked", 1)]


async def test_notes_of_one_key_in_one_transaction_are_one_row(database: Database) -> None:
    async with database.write() as connection:
        await alert_webhook.add_notes(connection, [Note("k", "n", "{}", 2)])
        await alert_webhook.add_notes(connection, [Note("k", "n", '{"detail":"x"}', 3)])
    async with database.write() as connection:
        (group,) = await alert_webhook.take_groups(connection, 1)
    assert (group.count, group.fields) == (5, '{"detail":"x"}')


async def test_agents_without_a_worker_and_jobs_of_dead_ones_are_raised(
    postgres_url: str, tmp_path: Path
) -> None:
    database = await Database.open(postgres_url, tmp_path)
    watch = watch_of(await watched(database), webhook(database, "http://127.0.0.1:9"))
    async with database.write() as connection:
        await connection.execute(insert(wallets).values(WALLET_ROW))
        await agents.insert_agent(connection, agent_row())
    for _ in range(2):
        await watch.look()
    assert await raised(database) == ["worker_missing"]
    dead = "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour')"
    async with database.write() as connection:
        await connection.execute(text(dead))
        await connection.execute(text(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, status, worker_id)"
            " SELECT :queue, :task, 'doing', max(id) FROM procrastinate_workers"
        ), {"queue": agents.QUEUE, "task": agents.TASK})  # fmt: skip
        await connection.execute(text("INSERT INTO procrastinate_workers DEFAULT VALUES"))
    for _ in range(2):
        await watch.look()
    assert await raised(database) == ["worker_missing", "jobs_stalled"]
    await database.close()


@pytest.mark.more
async def test_the_example_receiver_prints_each_line_once(database: Database) -> None:
    port = free_port()
    program = ROOT / "examples" / "alert_webhook" / "receiver.py"
    environment = os.environ | {
        "ALERT_WEBHOOK_SECRET": SECRET, "RECEIVER_PORT": str(port), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with webhook(database, f"http://127.0.0.1:{port}/").delivering():
            await tell(database, "transaction:blocked", blocked(error="h\u00e9"))
            async with asyncio.timeout(30):
                line = await process.stdout.readline()
        assert line.decode().strip() == "1 transaction:blocked w-1 'h\\xe9'"
    finally:
        process.kill()
        await process.wait()
