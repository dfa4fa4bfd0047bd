"""The approvals' webhook tells a real receiver of holds, whatever becomes of either side."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from sqlalchemy import text, update
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.clock import until
from tests.support.database import AuditLog, query_plans
from tests.support.processes import free_port
from tests.support.webhooks import (
    FAST,
    ONCE_MORE,
    TOKEN,
    day_ends,
    deliveries_ended,
    delivery_states,
    webhook_process,
)

from solward.client import Delivery, verify_delivery
from solward.database import outbox
from solward.database.database import Database
from solward.database.tables import webhook_deliveries
from solward.notify import deliveries as store
from solward.notify.deliveries import Pace
from solward.notify.webhook import Webhook
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.telemetry import metrics
from solward.types.errors import StoreError

SECRET = "a-secret-of-the-webhook-of-32-bytes!"


class Receiver:
    """Hears deliveries; answers what `answers` says next, 204 after that."""

    def __init__(self) -> None:
        self.heard: list[Delivery] = []
        self.answers: list[Callable[[web.Request], Any] | int] = []
        app = web.Application()
        app.router.add_post(f"/{TOKEN}", self._hear)
        app.router.add_route("*", "/elsewhere", self._elsewhere)
        self.server = TestServer(app)
        self.strayed = 0

    async def _hear(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.heard.append(verify_delivery(SECRET, request.headers, body))
        answer = self.answers.pop(0) if self.answers else 204
        if isinstance(answer, int):
            return web.Response(status=answer)
        made: web.StreamResponse = await answer(request)
        return made

    async def _elsewhere(self, _request: web.Request) -> web.Response:
        self.strayed += 1
        return web.Response()

    @property
    def url(self) -> str:
        return str(self.server.make_url(f"/{TOKEN}"))

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(each.event, each.hold["id"]) for each in self.heard]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with made.server:
        yield made


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


def webhook(database: Database, url: str, pace: Pace = FAST) -> Webhook:
    places = {"dashboard": "https://dashboard.example", "api": "https://api.example"}
    return Webhook(database, url, SECRET, pace=pace, **places)


def hold(id_: str) -> dict[str, Any]:
    return {"id": id_, "walletId": "w-1", "principal": "agent:scout", "sentence": "Pay é 5 USDC."}


def event_of(id_: str, by: str = "service") -> dict[str, Any]:
    """An event's data: in it the principal is who did it."""
    return hold(id_) | {"principal": by, "asked": "agent:scout"}


async def tell(database: Database, event: str, id_: str = "h-1") -> None:
    async with database.write() as connection:
        outbox.record(connection, event, event_of(id_))


@asynccontextmanager
async def enqueuing(database: Database) -> AsyncIterator[None]:
    """Events of holds are stored, and nothing is sent: what a process does that dies after it."""
    database.before_commit = webhook(database, "http://127.0.0.1:9")._store_recorded
    yield
    database.before_commit = None


async def test_a_hold_is_told_with_what_a_person_needs_and_a_signature(
    database: Database, receiver: Receiver
) -> None:
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created")
        await deliveries_ended(database, "delivered")
    (delivery,) = receiver.heard  # each was verified as it came
    assert delivery.event == "hold:created"
    assert delivery.hold == hold("h-1")
    assert delivery.by == "service"
    assert delivery.dashboard_url == "https://dashboard.example/holds/h-1"
    assert delivery.decision_url == "https://api.example/api/v1/holds/h-1/webhook"


async def test_only_holds_are_told_and_only_what_was_committed(
    database: Database, receiver: Receiver
) -> None:
    async with webhook(database, receiver.url).delivering():
        with contextlib.suppress(ZeroDivisionError):
            async with database.write() as connection:
                outbox.record(connection, "hold:created", event_of("h-0"))
                raise ZeroDivisionError
        await tell(database, "holdings:changed", "h-1")
        await tell(database, "hold:created", "h-2")
        await deliveries_ended(database, "delivered")
    assert receiver.told == [("hold:created", "h-2")]


@promise("told-with-its-change")
async def test_what_cannot_be_stored_for_delivery_does_not_happen(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise StoreError("full")

    monkeypatch.setattr(store, "add", refuse)
    async with webhook(database, receiver.url).delivering():
        with pytest.raises(StoreError, match="full"):
            await tell(database, "hold:created")
    assert await AuditLog(database).latest(5) == []


@promise("alert-survives-kill")
async def test_a_process_that_dies_while_it_sends_leaves_it_to_the_next(
    database: Database, receiver: Receiver
) -> None:
    async with enqueuing(database):
        await tell(database, "hold:created")
    assert await delivery_states(database) == ["waiting"]
    async with database.write() as connection:
        # The lease outlives the test: only the start on SQLite knows that its holder is gone.
        lease_ms = 300 if database.shared else DAY_MS
        assert len(await store.claim(connection, "approvals", 8, lease_ms)) == 1
    began = now_ms()
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "delivered")
    assert receiver.told == [("hold:created", "h-1")]
    assert not database.shared or now_ms() - began > 200


@promise("told-at-least-once", "webhook-in-no-log")
async def test_a_receiver_that_is_down_hears_it_once_it_is_up(database: Database) -> None:
    late = Receiver()
    late.server = TestServer(late.server.app, port=free_port())
    url = f"http://127.0.0.1:{late.server.port}/{TOKEN}"
    async with webhook(database, url).delivering(), AsyncExitStack() as stack:
        with capture_logs() as lines:
            await tell(database, "hold:created")
            await until(lambda: len(lines) > 2)
        await stack.enter_async_context(late.server)
        await deliveries_ended(database, "delivered")
    assert late.told == [("hold:created", "h-1")]
    assert {line["error"] for line in lines} == {"ConnectError"}
    assert TOKEN not in str(lines)
    assert SECRET not in str(lines)


@promise("told-at-least-once", "told-by-one-process")
async def test_a_failure_is_tried_again_with_the_same_id_and_a_new_signature(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers = [500, 404, 200]
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created")
        await deliveries_ended(database, "delivered")
    assert len(receiver.heard) == 3
    assert len({each.id for each in receiver.heard}) == 1


@promise("odd-item-stops-nobody")
async def test_a_delivery_that_cannot_be_ended_stops_none_that_is_sent_beside_it(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_try, failed = store.end_try, []

    async def odd_once(connection: Any, claimed: Any, *rest: Any) -> bool:
        if claimed.subject == "h-1" and not failed:
            failed.append(claimed.id)
            raise ValueError("no such end")
        return await end_try(connection, claimed, *rest)

    monkeypatch.setattr(store, "end_try", odd_once)
    async with enqueuing(database):
        for number in range(1, 6):
            await tell(database, "hold:created", f"h-{number}")
    with capture_logs() as lines:
        async with webhook(database, receiver.url, replace(FAST, lease_s=1)).delivering():
            await deliveries_ended(database, *["delivered"] * 5)
    # The others were told once, at once.
    told = [id_ for _, id_ in receiver.told]
    assert sorted(told) == ["h-1", "h-1", "h-2", "h-3", "h-4", "h-5"]
    crashed = [each for each in lines if each["event"] == "webhook_crashed"]
    assert [each["delivery"] for each in crashed] == failed


async def test_where_the_database_fails_after_it_was_taken_it_is_told_again_and_others_once(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_try, failed = store.end_try, []

    async def fail_once(connection: Any, claimed: Any, *rest: Any) -> bool:
        if claimed.subject == "h-1" and not failed:
            failed.append(claimed.id)
            raise StoreError("The database cannot be reached")
        return await end_try(connection, claimed, *rest)

    monkeypatch.setattr(store, "end_try", fail_once)
    async with enqueuing(database):
        await tell(database, "hold:created", "h-1")
        await tell(database, "hold:created", "h-2")
    async with webhook(database, receiver.url, replace(FAST, lease_s=1)).delivering():
        await deliveries_ended(database, "delivered", "delivered")
    assert sorted(id_ for _, id_ in receiver.told) == ["h-1", "h-1", "h-2"]
    assert {each.id for each in receiver.heard if each.hold["id"] == "h-1"} == {*failed}


@promise("webhook-address-is-fixed")
async def test_no_redirect_is_followed(database: Database, receiver: Receiver) -> None:
    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    receiver.answers = [redirect, redirect]
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created")
        await deliveries_ended(database, "delivered")
    assert len(receiver.heard) == 3
    assert receiver.strayed == 0


async def test_a_receiver_that_does_not_answer_in_time_is_asked_again(
    database: Database, receiver: Receiver
) -> None:
    gate = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response()

    receiver.answers = [wait]
    async with webhook(database, receiver.url, replace(FAST, timeout_s=0.5)).delivering():
        with capture_logs() as lines:
            await tell(database, "hold:created")
            await deliveries_ended(database, "delivered")
    gate.set()
    # On a busy machine the second one is not answered in time either.
    assert len(receiver.heard) >= 2
    assert {line["error"] for line in lines} == {"no answer in time"}


@promise("webhook-address-is-fixed")
async def test_of_the_answer_the_status_counts_and_nothing_is_read(
    database: Database, receiver: Receiver
) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 65536)
        return response

    receiver.answers = [endless]
    # A read of it would end by the timeout, as a failure.
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created")
        await deliveries_ended(database, "delivered")
    assert len(receiver.heard) == 1


@promise("newest-told-last")
async def test_what_is_newer_takes_the_place_of_what_still_waits(
    database: Database, receiver: Receiver
) -> None:
    async with enqueuing(database):
        await tell(database, "hold:created", "h-1")
        await tell(database, "hold:created", "h-2")
        await tell(database, "hold:denied", "h-1")
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "superseded", "delivered", "delivered")
    assert sorted(receiver.told) == [("hold:created", "h-2"), ("hold:denied", "h-1")]


@promise("newest-told-last")
async def test_a_holds_end_arrives_after_its_beginning(
    database: Database, receiver: Receiver
) -> None:
    gate, answered = asyncio.Event(), []

    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        answered.append(len(receiver.heard))
        return web.Response(status=503)  # it is not tried again either: the end is newer

    receiver.answers = [wait]
    pace = Pace(first_retry_s=0.02, timeout_s=20, poll_s=0.05)
    # Two senders: the second is free for the hold's end all the time.
    first, second = (webhook(database, receiver.url, pace) for _ in range(2))
    async with first.delivering():
        sending = asyncio.create_task(second._deliver_forever())
        await tell(database, "hold:created")
        await until(lambda: receiver.heard)
        await tell(database, "hold:denied")
        await tell(database, "hold:created", "h-2")
        await until(lambda: len(receiver.heard) == 2)
        gate.set()
        await until(lambda: len(receiver.heard) == 3)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert answered == [2]
    assert receiver.told == [
        ("hold:created", "h-1"), ("hold:created", "h-2"), ("hold:denied", "h-1"),
    ]  # fmt: skip


@promise("given-up-after-day")
async def test_after_a_day_it_is_given_up_with_an_alert(
    database: Database, receiver: Receiver
) -> None:
    async with enqueuing(database):
        await tell(database, "hold:created", "h-1")
        await tell(database, "hold:created", "h-2")
    async with database.write() as connection:
        old = update(webhook_deliveries).where(webhook_deliveries.c.subject == "h-1")
        await connection.execute(old.values(created_ms=now_ms() - DAY_MS))
    receiver.answers = [500, 500, 500]
    given_up = metrics.WEBHOOK_DELIVERIES.labels("approvals", "given_up")
    before = given_up._value.get()
    async with webhook(database, receiver.url).delivering():
        await deliveries_ended(database, "given_up", "delivered")
    assert given_up._value.get() == before + 1
    entries = [entry.to_json() for entry in await AuditLog(database).latest(5)]
    (alert,) = [entry["data"] for entry in entries if entry["event"] == "alert:raised"]
    assert alert["alert"] == "webhook_given_up"
    assert (alert["walletId"], alert["principal"]) == ("w-1", "agent:scout")
    assert alert["detail"].endswith(
        "did not accept hold h-1 in 1 tries; the last failure: HTTP 500"
    )


async def test_the_last_try_is_at_the_end_of_the_day(
    database: Database, receiver: Receiver
) -> None:
    receiver.answers = [500] * 9
    async with webhook(database, receiver.url, ONCE_MORE).delivering():
        await tell(database, "hold:created")
        await day_ends(database)
        await deliveries_ended(database, "given_up")
    assert len(receiver.heard) == 2


def test_waits_double_up_to_a_quarter_of_an_hour_and_differ() -> None:
    pace = Pace()
    waits = [[pace.retry_ms(tries) for _ in range(50)] for tries in (1, 2, 5, 30, 10_000)]
    for wait, longest in zip(waits, (5_000, 10_000, 80_000, 900_000, 900_000), strict=True):
        assert longest / 2 <= min(wait) < max(wait) <= longest


@promise("webhook-address-is-fixed")
async def test_proxies_of_the_environment_hear_nothing(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created")
        await deliveries_ended(database, "delivered")


async def test_what_ended_is_deleted_after_a_week(database: Database, receiver: Receiver) -> None:
    async with webhook(database, receiver.url).delivering():
        await tell(database, "hold:created", "h-1")
        await deliveries_ended(database, "delivered")
        async with database.write() as connection:
            old = now_ms() - store.KEPT_MS - 1000
            await connection.execute(update(webhook_deliveries).values(created_ms=old))
        await tell(database, "hold:created", "h-2")
        await deliveries_ended(database, "delivered")
    assert receiver.told == [("hold:created", "h-1"), ("hold:created", "h-2")]


@promise("told-at-least-once")
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
        ids = [f"h-{number}" for number in range(40)]
        await asyncio.gather(
            *(tell(opened[n % 2], "hold:created", id_) for n, id_ in enumerate(ids))
        )
        await deliveries_ended(opened[0], *["delivered"] * len(ids))
    assert sorted(id_ for _, id_ in receiver.told) == sorted(ids)
    assert len({each.id for each in receiver.heard}) == len(ids)


async def test_an_old_process_that_lost_its_lease_ends_nothing(database: Database) -> None:
    async with enqueuing(database):
        await tell(database, "hold:created")
    async with database.write() as connection:
        (lost,) = await store.claim(connection, "approvals", 8, 0)
    async with database.write() as connection:
        (taken,) = await store.claim(connection, "approvals", 8, 60_000)
        assert taken.tries == 2
        assert not await store.end_try(connection, lost, "delivered")
        waits = text("SELECT state FROM webhook_deliveries")
        assert (await connection.execute(waits)).scalar() == "waiting"
        assert await store.end_try(connection, taken, "delivered")


@pytest.mark.more
@pytest.mark.sqlite("the plans of its own planner")
async def test_every_statement_searches_an_index(tmp_path: Path) -> None:
    async def everything(connection: AsyncConnection) -> None:
        await store.add(connection, "approvals", "d-1", "h-1", "{}")
        (claimed,) = await store.claim(connection, "approvals", 8, 1000)
        await store.end_try(connection, claimed, "waiting", 1)
        await store.next_due(connection, "approvals")
        await store.waiting_counts(connection)
        await store.forget_old(connection)
        await store.take_nonce(connection, "n")

    database = await Database.open(None, tmp_path)
    plans = await query_plans(database, everything)
    await database.close()
    assert len(plans) > 8
    walked = [
        (statement, step)
        for statement, steps in plans
        for step in steps
        if step.startswith("SCAN") and "USING" not in step
    ]
    assert walked == []


def sender(home: Path, receiver: Receiver, what: str) -> subprocess.Popen[bytes]:
    return webhook_process("approvals", home, receiver.url, SECRET, what)


@promise("told-with-its-change")
@pytest.mark.more
@pytest.mark.sqlite("the process's own file")
async def test_a_process_that_is_killed_after_the_commit_or_while_it_sends_tells_it_later(
    tmp_path: Path, receiver: Receiver
) -> None:
    gate = asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response()

    for what, began in (("tell", 0), ("tell-and-send", 1)):
        home = tmp_path / what
        home.mkdir(mode=0o700)
        receiver.heard, receiver.answers = [], [wait]
        with sender(home, receiver, what) as process:
            if began:
                await until(lambda: receiver.heard)
                process.kill()
            assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL
        assert len(receiver.heard) == began
        receiver.answers = []
        with sender(home, receiver, "send") as process:
            await until(lambda began=began: len(receiver.heard) == began + 1)
            process.kill()
        assert {each.event for each in receiver.heard} == {"hold:created"}
        # A receiver that has seen the id ignores it.
        assert len({each.id for each in receiver.heard}) == 1
    gate.set()
