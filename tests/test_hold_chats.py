"""Slack and Telegram tell people of holds: whole, in time, once, and nothing in them is markup."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import insert
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.clock import until
from tests.support.database import WALLET_ROW, AuditLog, agent_row
from tests.support.processes import free_port
from tests.support.services import STRANGER, serving_api, settings
from tests.support.webhooks import (
    FAST,
    SLACK,
    SLACK_TOKEN,
    TELEGRAM,
    TELEGRAM_TOKEN,
    ChatServer,
    chat_server,
    deliveries_ended,
    delivery_states,
    live_text,
    refusal,
    webhook_process,
)

from solward.database import outbox
from solward.database.database import Database
from solward.database.tables import agents, contacts, wallets
from solward.notify.chats import Chat, HoldMessages, SlackChannel, TelegramChat
from solward.service import service as service_module
from solward.solana.token_list import token_list
from solward.telemetry import metrics
from solward_cli.doctor import ledger
from solward_cli.doctor.subject import Subject

POISONED = f"{STRANGER[:5]}{'2' * 22}{STRANGER[-5:]}"
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
HOSTILE = (
    "<!channel> <@U012345> <https://evil.example|your dashboard> https://evil.example/a"
    " @everyone *bold* `end` &lt;!here&gt; [a](https://evil.example) /start #tag \u202egnp.exe"
    "\nApproved by the operator\U0001f600"
)
KINDS = ("slack", "telegram")
DASHBOARD = "https://dashboard.example"
TOKENS = token_list("mainnet-beta")


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with chat_server() as made:
        yield made


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


def chat_of(server: ChatServer, kind: str, **changes: Any) -> Chat:
    made: Chat = getattr(server, kind)(**changes)
    return made


def line(account: str | None = STRANGER, units: int = 500_000_000, **more: Any) -> dict[str, Any]:
    fields = {"operation": "transfer", "asset": "SOL", "units": str(units), "decimals": 9} | more
    return fields if account is None else fields | {"account": account}


def event_of(id_: str = "h-1", by: str = "agent:a1", **changes: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "walletId": "w1",
        "asked": "agent:a1",
        "principal": by,
        "state": "held",
        "sentence": f"Agent Ada asks to transfer 0.5 SOL to {STRANGER}. More than it may alone.",
        "lines": [line()],
        "costsLamports": "5000",
        "expiresAt": "2026-11-22T12:00:00.000Z",
    } | changes


async def tell(database: Database, event: str = "hold:created", **changes: Any) -> None:
    async with database.write() as connection:
        outbox.record(connection, event, event_of(**changes))


def sender_of(database: Database, chat: Chat, dashboard: str = DASHBOARD) -> HoldMessages:
    return HoldMessages(database, chat, TOKENS, dashboard, FAST)


async def told(database: Database, chat: Chat, dashboard: str = DASHBOARD, **changes: Any) -> None:
    """Tell one chat of one hold."""
    async with sender_of(database, chat, dashboard).delivering():
        await tell(database, **changes)
        await deliveries_ended(database, "delivered")


async def alerts_of(database: Database) -> list[dict[str, Any]]:
    entries = [entry.to_json() for entry in await AuditLog(database).latest(20)]
    return [entry["data"] for entry in entries if entry["event"] == "alert:raised"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_has_what_a_person_needs_to_decide(
    database: Database, server: ChatServer, kind: str
) -> None:
    async with database.write() as connection:
        await connection.execute(insert(wallets), WALLET_ROW)
        await connection.execute(insert(agents), agent_row())
        row = {"address": STRANGER, "name": "alice", "skeleton": "alice", "created_ms": 1}
        await connection.execute(insert(contacts), row)
    usdc = line(POISONED, 2_500_000, asset=MINT, decimals=6, owner=POISONED)
    await told(database, chat_of(server, kind), lines=[line(), usdc])
    (body,) = server.sent
    assert body.get("channel", body.get("chat_id")) == (SLACK if kind == "slack" else TELEGRAM)
    text = body["text"].replace("`", "")
    assert "A transaction waits for a person" in text
    assert event_of()["sentence"] in text
    assert f"Leaves: 0.5 SOL to {STRANGER}\nNamed: alice\n" in text
    warned = f"to {POISONED}\nNamed: NOT alice, it only looks alike\n"
    assert f"2.5 USDC of the mint {MINT} {warned}" in text
    assert "Costs: at most 0.000005 SOL" in text
    assert "Asked by: agent Ada" in text
    assert "Decide until: 2026-11-22 12:00 UTC\n" in text
    assert f"{DASHBOARD}/holds/h-1" in live_text(body)


async def test_a_wallet_that_a_key_made_is_called_by_its_id(
    database: Database, server: ChatServer
) -> None:
    theirs = {"id": "w2", "public_key": STRANGER, "created_by": "key:k1", "name": "treasury"}
    own = {"public_key": MINT, "name": "treasury", "created_by": "admin"}
    async with database.write() as connection:
        await connection.execute(insert(wallets), [WALLET_ROW | own, WALLET_ROW | theirs])
    alike = f"{MINT[:5]}{'2' * 22}{MINT[-5:]}"
    await told(database, server.telegram(), lines=[line(), line(MINT), line(alike)])
    for text in ("wallet w2", "wallet treasury", "NOT wallet treasury, it only looks alike"):
        assert f"\nNamed: {text}\n" in server.texts[0]


async def test_names_are_read_as_it_is_sent_and_it_is_sent_without_them(
    database: Database, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reading of names is in a payment's transaction, so none delays or fails it."""
    asked: list[Any] = []

    async def unread(*given: Any) -> Any:
        asked.append(given)
        raise ValueError("an odd row")

    for name in ("wallets_like", "address_book_rows", "names_of_kind"):
        monkeypatch.setattr(f"solward.notify.chats.{name}", unread)
    sender = sender_of(database, server.telegram())
    async with database.write() as connection:
        outbox.record(connection, "hold:created", event_of())
        await sender._store_recorded(connection)
    assert asked == []
    async with sender.delivering():
        await deliveries_ended(database, "delivered")
    assert len(asked) == 1
    assert f"Leaves: 0.5 SOL to {STRANGER}\nCosts" in server.texts[0]
    assert "Asked by: agent:a1\n" in server.texts[0]


@promise("hostile-name-no-link")
async def test_small_amounts_hide_no_large_one(database: Database, server: ChatServer) -> None:
    unlisted = [line(units=10**18 + number, asset=POISONED, decimals=0) for number in range(60)]
    lines = [*unlisted, line(units=7 * 10**6, asset=MINT, decimals=6), line(units=1), line()]
    await told(database, server.telegram(), lines=lines)
    leaves = re.findall("Leaves: ([0-9.,]+ [a-zA-Z]+)", server.texts[0])
    assert leaves[:3] == ["0.5 SOL", "0.000000001 SOL", "7 USDC"]
    assert "more amounts" in server.texts[0]


@promise("dead-receiver-stops-no-other")
async def test_a_message_that_cannot_be_made_is_given_up_with_an_alert(
    database: Database, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: Any) -> Any:
        raise KeyError("an odd hold")

    monkeypatch.setattr("solward.notify.chats.hold_message", odd)
    sender = HoldMessages(database, server.slack(), TOKENS, "", replace(FAST, give_up_s=0))
    async with sender.delivering():
        await tell(database)
        await deliveries_ended(database, "given_up")
    (alert,) = await alerts_of(database)
    assert alert["detail"].endswith("the last failure: KeyError")


@pytest.mark.parametrize("kind", KINDS)
async def test_without_a_dashboard_it_names_the_commands(
    database: Database, server: ChatServer, kind: str
) -> None:
    await told(database, chat_of(server, kind), "")
    assert "solward hold show h-1" in server.texts[0]
    assert "solward hold approve h-1" in server.texts[0]
    assert "http" not in server.texts[0]


@promise("hostile-name-no-link")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hostile_name_makes_no_link_mention_or_line(
    database: Database, server: ChatServer, kind: str
) -> None:
    async with database.write() as connection:
        await connection.execute(insert(wallets), WALLET_ROW)
        await connection.execute(insert(agents), agent_row(name=HOSTILE))
        row = {"address": STRANGER, "name": HOSTILE, "skeleton": "x", "created_ms": 1}
        await connection.execute(insert(contacts), row)
    await told(
        database,
        chat_of(server, kind),
        event="hold:denied",
        sentence=HOSTILE,
        decidedBy=HOSTILE,
        note=HOSTILE,
    )
    (body,) = server.sent
    lines = live_text(body).split("\n")
    heading, link = lines[0].strip("*"), lines[-1].strip("<>")
    assert heading == "A held transaction was denied: nothing was sent"
    assert link == f"{DASHBOARD}/holds/h-1"
    assert lines[1:-1] == [
        ".", "Leaves: .", "Named: .", "Costs: at most .", "Asked by: .", "Decided by: .", "Note: .",
    ]  # fmt: skip
    if kind == "slack":
        assert re.findall("<[^>]*>", body["text"]) == [f"<{link}>"]
    assert "\u202e" not in body["text"]


@promise("hostile-name-no-link")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("letter", ["x", "&", "\U0001f600", "`", "\u0600"])
async def test_the_longest_texts_leave_room_for_amount_recipient_and_link(
    database: Database, server: ChatServer, kind: str, letter: str
) -> None:
    long = letter * 9_000
    async with database.write() as connection:
        await connection.execute(insert(wallets), WALLET_ROW)
        await connection.execute(insert(agents), agent_row(name=long))
        row = {"address": STRANGER, "name": long, "skeleton": "x", "created_ms": 1}
        await connection.execute(insert(contacts), row)
    lines = [line(units=2**64 - number, asset=MINT) for number in range(60)]
    await told(
        database, chat_of(server, kind), sentence=long, decidedBy=long, note=long, lines=lines
    )
    (text,) = server.texts
    shown = text.count(STRANGER)
    assert shown >= 8
    assert text.count(MINT) == text.count(" of the mint ") == shown
    assert f"and {60 - shown} more amounts: read the whole hold" in text
    assert f"{DASHBOARD}/holds/h-1" in text
    assert letter in text.partition("Leaves")[0] or letter == "`"


@promise("hostile-name-no-link")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asker", ["key", "key:gone", "site:evil.example", ""])
async def test_odd_lines_are_told_too(
    database: Database, server: ChatServer, kind: str, asker: str
) -> None:
    odd = [line(None), {"operation": "x", "asset": MINT, "units": "7"}, line(decimals=255)]
    changes = {"sentence": "", "asked": asker, "lines": [*odd, line("owned", owner=STRANGER)]}
    await told(database, chat_of(server, kind), **changes)
    assert f"0.5 SOL to {STRANGER}, in its token account owned" in server.texts[0]
    assert f"7 units of the mint {MINT}" in server.texts[0]


@promise("dead-receiver-stops-no-other")
async def test_one_dead_chat_stops_no_other_and_hears_it_once_it_is_up(
    database: Database, server: ChatServer
) -> None:
    port = free_port()
    dead = chat_of(server, "slack", origin=f"http://127.0.0.1:{port}")
    async with AsyncExitStack() as stack:
        for chat in (dead, server.telegram()):
            sender = sender_of(database, chat)
            await stack.enter_async_context(sender.delivering())
        with capture_logs() as lines:
            for number in range(20):
                await tell(database, id_=f"h-{number}")
            await until(lambda: len(server.sent) == 20)
            await until(lambda: len(lines) > 2)
        assert {each["error"] for each in lines} == {"ConnectError"}
        assert {each["webhook"] for each in lines} == {"slack"}
        assert all("chat_id" in each for each in server.sent)
        revived = await stack.enter_async_context(chat_server(port))
        await deliveries_ended(database, *["delivered"] * 40)
    assert len(revived.sent) == 20
    assert {each["channel"] for each in revived.sent} == {SLACK}


@promise("dead-receiver-stops-no-other")
async def test_a_chat_that_hangs_holds_up_no_newer_state_of_another(
    database: Database, server: ChatServer
) -> None:
    async with chat_server() as hanging, AsyncExitStack() as stack:
        hanging.hangs = True
        for chat in (hanging.slack(), server.telegram()):
            sender = sender_of(database, chat)
            await stack.enter_async_context(sender.delivering())
        await tell(database)
        await until(lambda: hanging.sent and server.sent)
        await tell(database, "hold:denied")
        await until(lambda: len(server.sent) == 2)
        hanging.never.set()
        await until(lambda: len(hanging.sent) == 2)
    assert "denied" in server.texts[1]
    assert "denied" in hanging.texts[1]


REFUSALS = [
    ("slack", {"token": "xoxb-1111111111-another"}, "HTTP 200: invalid_auth"),
    ("slack", {"to": "C9999999999"}, "HTTP 200: channel_not_found"),
    ("telegram", {"token": "1234567890:another"}, "HTTP 401: Unauthorized"),
    ("telegram", {"to": "@another"}, "HTTP 400: Bad Request: chat not found"),
]


@promise("webhook-in-no-log")
@pytest.mark.parametrize(("kind", "wrong", "failure"), REFUSALS)
async def test_what_can_never_succeed_is_given_up_at_once_with_an_alert(
    database: Database, server: ChatServer, kind: str, wrong: dict[str, str], failure: str
) -> None:
    given_up = metrics.WEBHOOK_DELIVERIES.labels(kind, "given_up")
    before = given_up._value.get()
    sender = sender_of(database, chat_of(server, kind, **wrong))
    with capture_logs() as lines:
        async with sender.delivering():
            await tell(database)
            await deliveries_ended(database, "given_up")
    assert server.sent == []
    assert len(server.asked) == 1
    assert given_up._value.get() == before + 1
    (alert,) = await alerts_of(database)
    assert alert["alert"] == "webhook_given_up"
    setting = "APPROVAL_SLACK_CHANNEL" if kind == "slack" else "APPROVAL_TELEGRAM_CHAT"
    assert alert["detail"] == (
        f"{setting} did not accept hold h-1 in 1 tries; the last failure: {failure}"
    )
    texts = f"{lines} {alert} {sender._chat!r}"
    for secret in (SLACK_TOKEN, TELEGRAM_TOKEN, *wrong.values()):
        assert secret not in texts or secret in (wrong.get("to"), SLACK, TELEGRAM)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rate_limit_is_obeyed(database: Database, server: ChatServer, kind: str) -> None:
    def limited() -> web.Response:
        if kind == "telegram":
            return refusal(429, "Too Many Requests: retry after 1", retry_after=1)
        body = {"ok": False, "error": "ratelimited"}
        return web.json_response(body, status=429, headers={"Retry-After": "1"})

    server.answers = [limited]
    began = time.monotonic()
    await told(database, chat_of(server, kind))
    assert time.monotonic() - began > 1
    assert len(server.sent) == 1
    assert len(server.asked) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answer",
    [
        web.Response,
        lambda: web.Response(text="<html>ok</html>"),
        lambda: web.Response(text="[" * 5000),
        lambda: web.json_response({"long": "x" * (80 << 10), "ok": True}),
        lambda: web.Response(text='{"ok": "true"}'),
        lambda: web.json_response({"ok": False, "error": ["odd"]}, status=500),
        lambda: web.json_response({"ok": False, "error_code": 502, "parameters": "odd"}),
        lambda: web.json_response({"ok": False, "error": "internal_error"}),
        lambda: web.Response(status=302, headers={"Location": "/elsewhere"}),
        lambda: web.json_response({"ok": False}, status=429, headers={"Retry-After": "-1"}),
    ],
)
async def test_any_other_answer_is_tried_again(
    database: Database, server: ChatServer, kind: str, answer: Any
) -> None:
    server.answers = [answer, answer]
    await told(database, chat_of(server, kind))
    assert len(server.asked) == 3
    assert "/elsewhere" not in server.asked


async def test_chats_and_webhook_each_get_the_newest_state(
    database: Database, server: ChatServer
) -> None:
    """A newer message supersedes the waiting one to the same chat alone."""
    slack = sender_of(database, server.slack())
    telegram = sender_of(database, server.telegram())
    for event in ("hold:created", "hold:expired"):
        async with database.write() as connection:
            outbox.record(connection, event, event_of())
            for each in (slack, telegram):
                await each._store_recorded(connection)
    assert sorted(await delivery_states(database)) == ["superseded"] * 2 + ["waiting"] * 2
    async with slack.delivering(), telegram.delivering():
        await until(lambda: len(server.sent) == 2)
    assert all("expired" in text for text in server.texts)


@promise("told-at-least-once")
@pytest.mark.more
@pytest.mark.sqlite("the process's own file")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_killed_after_the_commit_or_between_send_and_answer_tells_it_later(
    tmp_path: Path, server: ChatServer, kind: str
) -> None:
    token = SLACK_TOKEN if kind == "slack" else TELEGRAM_TOKEN
    for what, began in (("tell", 0), ("tell-and-send", 1)):
        home = tmp_path / what
        home.mkdir(mode=0o700)
        server.sent, server.hangs = [], True
        with webhook_process(kind, home, server.url, token, what) as process:
            if began:
                await until(lambda: server.sent)
                process.kill()
            assert await asyncio.to_thread(process.wait, 30) == -signal.SIGKILL
        assert len(server.sent) == began
        server.hangs = False
        with webhook_process(kind, home, server.url, token, "send") as process:
            await until(lambda began=began: len(server.sent) == began + 1, "the rest", 60)
            process.kill()
        assert len(set(server.texts)) == 1


@pytest.mark.more
@promise("webhook-in-no-log", "health-shows-webhooks")
async def test_a_service_tells_both_from_the_hold_to_the_end_of_its_payment(
    tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = service_module.chats_of

    def chats_of(*given: Any) -> list[Chat]:
        return [replace(each, origin=server.url) for each in made(*given)]

    monkeypatch.setattr(service_module, "chats_of", chats_of)
    given = {
        "approval_slack_token": SLACK_TOKEN,
        "approval_slack_channel": SLACK,
        "approval_telegram_token": TELEGRAM_TOKEN,
        "approval_telegram_chat": TELEGRAM,
        "dashboard_url": DASHBOARD,
    }
    limit = {"perTx": "2", "per": {"24h": "2"}, "hold": "0.2"}
    grant = {"may": ["transfer"], "assets": {"SOL": limit}, "to": ["any"]}

    def heard(words: str) -> list[str]:
        return [text for text in server.texts if words in text]

    async with serving_api(tmp_path / "home", **given) as api:
        wallet = await api.wallet(2)
        await api.post("/contacts", {"address": STRANGER, "name": "alice"})
        key = (await api.post("/keys", {"name": "payer", "grants": [grant]})).json["apiKey"]
        path, body = f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.5}
        held = await api.post(path, body, token=key)
        assert held.status == 202, held.text
        await until(lambda: len(heard("waits for a person")) == 2)
        hold = held.json["holdId"]
        for text in server.texts:
            assert held.json["sentence"] in text
            assert f"0.5 SOL to {STRANGER}" in text
            assert "Named: alice\n" in text.replace("`", "")
            assert "Asked by: " in text
            assert "key payer" in text
            assert f"{DASHBOARD}/holds/{hold}" in text
        decided = await api.post(f"/holds/{hold}/approve", {"note": "as agreed"})
        assert decided.json["state"] == "executed", decided.text
        await until(lambda: len(heard("is confirmed")) == 2)
        assert all("as agreed" in text for text in heard("is confirmed"))
        denied = await api.post(path, {**body, "amount": 0.6}, token=key)
        await api.post(f"/holds/{denied.json['holdId']}/deny", {})
        await until(lambda: len(heard("was denied")) == 2)
        # A payment that nobody held is no matter of theirs.
        before = len(server.sent)
        assert (await api.post(path, {**body, "amount": 0.1}, token=key)).status == 200
        assert (await api.get("/health", token=None)).json["webhooks"] == {
            "slack": "ok", "telegram": "ok",
        }  # fmt: skip
        shown = (await api.get("/settings")).text
        assert "APPROVAL_SLACK_TOKEN" in shown
        assert SLACK_TOKEN not in shown
        assert TELEGRAM_TOKEN not in shown
        assert len(server.sent) == before


async def test_the_doctor_checks_the_tokens_without_a_message(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chats = [chat_of(server, kind) for kind in KINDS]
    chats += [chat_of(server, kind, **wrong) for kind, wrong, _ in REFUSALS if "token" in wrong]
    chats.append(server.telegram(to="@another"))
    monkeypatch.setattr(ledger, "chats_of", lambda _: chats)
    async with Subject(settings(tmp_path)) as subject:
        lines = await ledger.chats(subject)
    assert [(each.status.value, each.found) for each in lines] == [
        ("ok", "slack accepts the token"),
        ("ok", "telegram accepts the token"),
        ("FAIL", "slack: HTTP 200: invalid_auth"),
        ("FAIL", "telegram: HTTP 401: Unauthorized"),
        ("FAIL", "telegram: HTTP 400: Bad Request: chat not found"),
    ]
    assert server.sent == []


def test_hosts_are_fixed_and_the_token_is_in_no_text_of_a_chat() -> None:
    for chat, token, host in (
        (SlackChannel, SLACK_TOKEN, "https://slack.com/api/"),
        (TelegramChat, TELEGRAM_TOKEN, "https://api.telegram.org/bot"),
    ):
        made = chat(token, "x")
        assert str(made.check().url).startswith(host)
        assert token not in repr(made)
