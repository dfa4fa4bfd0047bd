"""Decisions of the approvals' webhook: who did not sign this one, now and for this hold, decides
nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import func, select, update
from tests.promises import promise
from tests.support.database import AuditLog
from tests.support.services import Answer, Api, serving_api

from solward.audit.acts import principal
from solward.client import sign_decision
from solward.database.database import Database
from solward.database.tables import webhook_nonces
from solward.notify.webhook import REFUSALS, Pace, SentDecision, Webhook
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward.support.webhook_signature import WINDOW_S, decision_signature, delivery_signature
from solward.types.errors import DecisionRefused, InvalidRequest

SECRET = "a-secret-of-the-webhook-of-32-bytes!"
OTHER = "another-secret-of-the-webhook-32-byt"
HOLD = "3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18"


@dataclass(frozen=True)
class Answered:
    id: str
    state: str


@dataclass
class People:
    """Carries out what is decided, and remembers by whom."""

    decided: list[tuple[str, ...]] = field(default_factory=list)

    async def approve(self, hold_id: str, approver: str, note: str | None) -> Answered:
        self.decided.append(("approve", hold_id, approver, str(note), principal()))
        return Answered(hold_id, "approved")

    async def deny(self, hold_id: str, approver: str, note: str | None) -> Answered:
        self.decided.append(("deny", hold_id, approver, str(note), principal()))
        return Answered(hold_id, "denied")


@pytest.fixture
def database(either_database: Database) -> Database:
    return either_database


@pytest.fixture
def webhook(database: Database) -> Webhook:
    return made(database)


def made(database: Database) -> Webhook:
    places = {"dashboard": "https://d.example", "api": "https://a.example"}
    return Webhook(database, "https://r.example", SECRET, pace=Pace(), **places)


def signed(
    decision: Literal["approve", "deny"] = "approve",
    hold_id: str = HOLD,
    note: str | None = None,
    *,
    later_s: float = 0,
    secret: str = SECRET,
) -> SentDecision:
    at = now_ms() / 1000 + later_s
    made = sign_decision(secret, hold_id, decision, note, clock=lambda: at)
    named = (made.headers[f"Solward-{name}"] for name in ("Timestamp", "Nonce", "Signature"))
    return SentDecision(hold_id, *named, body=made.body)


def resigned(sent: SentDecision) -> SentDecision:
    """Signed again as it is now, by whoever has the secret."""
    signature = decision_signature(SECRET, sent.hold_id, sent.timestamp, sent.nonce, sent.body)
    return replace(sent, signature=signature)


async def refusals(database: Database) -> list[dict[str, Any]]:
    """The audit log's, oldest first."""
    entries = [entry.to_json() for entry in await AuditLog(database).latest(100)]
    assert all("decision" not in str(entry["data"]) for entry in entries)
    return [entry["data"] for entry in reversed(entries) if entry["event"] == "webhook:refused"]


async def refused(webhook: Webhook, people: People, sent: SentDecision, reason: str) -> None:
    before = list(people.decided)
    with pytest.raises(DecisionRefused) as caught:
        await webhook.decide(people, sent)
    assert str(caught.value) == REFUSALS[reason]
    assert people.decided == before
    assert (await refusals(webhook._database))[-1]["reason"] == reason


async def test_a_signed_decision_is_carried_out_once_as_the_webhooks(webhook: Webhook) -> None:
    people = People()
    yes, no = signed("approve"), signed("deny", note="who is that?")
    assert await webhook.decide(people, yes) == Answered(HOLD, "approved")
    assert await webhook.decide(people, no) == Answered(HOLD, "denied")
    # Receivers send an empty note, too.
    assert await webhook.decide(people, signed("deny", note="")) == Answered(HOLD, "denied")
    assert people.decided == [
        ("approve", HOLD, "webhook", "None", "webhook"),
        ("deny", HOLD, "webhook", "who is that?", "webhook"),
        ("deny", HOLD, "webhook", "", "webhook"),
    ]
    assert await refusals(webhook._database) == []


@promise("decision-counts-once", "webhook-secret-decides-only")
async def test_a_decision_that_came_before_decides_nothing(webhook: Webhook) -> None:
    people, sent = People(), signed()
    await webhook.decide(people, sent)
    await refused(webhook, people, sent, "repeated")
    # The nonce is used up, whatever else is said with it.
    denial = resigned(replace(sent, body=b'{"decision":"deny"}'))
    await refused(webhook, people, denial, "repeated")
    elsewhere = resigned(replace(sent, hold_id=str(uuid.uuid4())))
    await refused(webhook, people, elsewhere, "repeated")


@promise("decision-counts-once")
async def test_of_many_repeated_at_once_one_decides(database: Database) -> None:
    people, sent = People(), signed()
    hooks = [made(database), made(database)]
    calls = (hook.decide(people, sent) for hook in hooks * 10)
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, Answered) for result in results) == 1
    assert sum(isinstance(result, DecisionRefused) for result in results) == 19
    assert len(people.decided) == 1


@promise("receiver-decides-holds", "decision-counts-once", "webhook-secret-decides-only")
async def test_who_signed_another_thing_decides_nothing(webhook: Webhook) -> None:
    people, sent = People(), signed("deny")
    later = str(int(sent.timestamp) + 1)
    for forged in (
        signed(secret=OTHER),
        replace(sent, body=sent.body.replace(b"deny", b"approve")),
        replace(sent, body=sent.body + b" "),
        replace(sent, hold_id=str(uuid.uuid4())),
        replace(sent, timestamp=later),
        replace(sent, nonce=sent.nonce[::-1]),
        replace(sent, signature=""),
        replace(sent, signature="v1="),
        replace(sent, signature=sent.signature.removeprefix("v1=")),
        replace(sent, signature=sent.signature.upper()),
        replace(sent, signature=sent.signature[:-1]),
        replace(sent, signature="v1=é"),
    ):
        await refused(webhook, people, forged, "signature")
        webhook._refusals.clear()
    # None of them used its nonce up.
    assert (await webhook.decide(people, sent)).state == "denied"


async def test_what_could_be_read_in_two_ways_is_refused_even_with_the_secret(
    webhook: Webhook,
) -> None:
    changes: list[dict[str, Any]] = [
        {"timestamp": ""},
        {"timestamp": "-1"},
        {"timestamp": "1e9"},
        {"timestamp": "١٢٣"},
        {"timestamp": "9" * 5000},
        {"nonce": ""},
        {"nonce": "short"},
        {"nonce": "x" * 129},
        {"nonce": "a-nonce:of-some-length"},
        {"hold_id": "a:b"},
    ]
    for change in changes:
        sent = resigned(replace(signed(), **change))
        await refused(webhook, People(), sent, "signature")
        webhook._refusals.clear()
    # Which nobody could sign.
    await refused(webhook, People(), replace(signed(), hold_id="\ud800"), "signature")


@promise("delivery-is-no-decision", "webhook-secret-decides-only")
async def test_a_delivery_sent_back_is_no_decision(webhook: Webhook) -> None:
    """Whoever reads a delivery on its way has a signature of the same secret in hand."""
    sent = signed()
    told = delivery_signature(SECRET, sent.timestamp, sent.nonce, sent.body)
    await refused(webhook, People(), replace(sent, signature=told), "signature")


@promise("decision-counts-once")
async def test_a_clock_that_is_five_minutes_apart_decides_nothing(webhook: Webhook) -> None:
    people = People()
    for later_s in (-WINDOW_S - 2, WINDOW_S + 2, -DAY_MS / 1000):
        sent = signed(later_s=later_s)
        await refused(webhook, people, sent, "time")
        await refused(webhook, people, sent, "time")
    for later_s in (-WINDOW_S + 5, WINDOW_S - 5):
        await webhook.decide(people, signed(later_s=later_s))
    assert len(people.decided) == 2


@promise("decision-counts-once")
async def test_a_clock_that_is_set_back_lets_no_decision_in_again(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    if webhook._database.shared:
        pytest.skip("a server's clock is not this process's to set")
    people, real = People(), now_ms()
    sent = signed()
    await webhook.decide(people, sent)

    def set_clock(ms: int) -> None:
        monkeypatch.setattr("solward.database.database.now_ms", lambda: ms)

    set_clock(real + DAY_MS)
    await webhook.decide(people, signed(later_s=DAY_MS / 1000))
    set_clock(real)
    await refused(webhook, people, sent, "repeated")


async def test_nonces_are_kept_for_two_days_and_no_longer(webhook: Webhook) -> None:
    people, database = People(), webhook._database
    await webhook.decide(people, signed())
    async with database.write() as connection:
        old = update(webhook_nonces).values(created_ms=now_ms() - 2 * DAY_MS - 60_000)
        await connection.execute(old)
    await webhook.decide(people, signed())
    async with database.read() as connection:
        count = await connection.execute(select(func.count()).select_from(webhook_nonces))
        assert count.scalar() == 1


async def test_what_is_signed_and_no_decision_is_named(webhook: Webhook) -> None:
    people = People()
    cases = {
        b"": "must be valid JSON",
        b"[]": "decision must be approve or deny",
        b"{}": "decision must be approve or deny",
        b'{"decision": ["approve"]}': "decision must be approve or deny",
        b'{"decision": "APPROVE"}': "decision must be approve or deny",
        b'{"decision": "deny", "decision": "approve"}': "without repeated fields",
        b'{"decision": "deny", "note": 1}': "note must be a string",
        b"[" * 60_000: "must be valid JSON",
    }
    for body, expected in cases.items():
        with pytest.raises(InvalidRequest, match=expected):
            await webhook.decide(people, resigned(replace(signed(), body=body)))
    assert people.decided == []


@promise("refused-decisions-logged")
async def test_refusals_of_strangers_do_not_fill_the_database(webhook: Webhook) -> None:
    people = People()
    for _ in range(50):
        with pytest.raises(DecisionRefused):
            await webhook.decide(people, signed(secret=OTHER, hold_id="x" * 128))
    told = await refusals(webhook._database)
    assert [each["unwritten"] for each in told] == [0] * 10
    webhook._refusals.clear()  # a minute later
    await refused(webhook, people, signed(secret=OTHER), "signature")
    (last,) = (await refusals(webhook._database))[10:]
    assert last == {
        "holdId": HOLD, "principal": "service", "reason": "signature", "unwritten": 40,
    }  # fmt: skip


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    given = {"approval_webhook_url": "http://127.0.0.1:9/", "approval_webhook_secret": SECRET}
    async with serving_api(tmp_path / "home", **given) as serving:
        yield serving


async def post(api: Api, sent: SentDecision, **options: Any) -> Answer:
    headers = {
        "Solward-Timestamp": sent.timestamp,
        "Solward-Nonce": sent.nonce,
        "Solward-Signature": sent.signature,
    }
    path = f"/holds/{sent.hold_id}/webhook"
    return await api.call("POST", path, data=sent.body, token=None, headers=headers, **options)


@promise("no-key-replaces-signature")
async def test_over_http_a_stranger_is_401_and_learns_nothing_of_holds(api: Api) -> None:
    for hold_id in (HOLD, "none", "%C3%A4"):
        answer = await post(api, replace(signed(secret=OTHER), hold_id=hold_id))
        assert (answer.status, answer.error) == (401, REFUSALS["signature"])
        assert answer.headers["WWW-Authenticate"] == "Solward-Signature"


@promise("no-key-replaces-signature")
@pytest.mark.more
async def test_no_token_stands_in_for_the_signature(api: Api) -> None:
    key, _ = await api.key()
    for token in (key, "a-secret-for-tests-of-at-least-32-bytes"):
        body = {"decision": "approve"}
        answer = await api.post(f"/holds/{HOLD}/webhook", body, token=token)
        assert (answer.status, answer.error) == (401, REFUSALS["signature"])


@pytest.mark.more
async def test_a_header_that_is_sent_twice_is_no_header(api: Api) -> None:
    sent = signed()
    headers = [
        ("Solward-Timestamp", sent.timestamp),
        ("Solward-Nonce", sent.nonce),
        ("Solward-Signature", sent.signature),
        ("Solward-Signature", sent.signature),
    ]
    client = api.app.test_client()
    answer = await client.post(f"/api/v1/holds/{HOLD}/webhook", headers=headers, data=sent.body)
    assert answer.status_code == 401


@pytest.mark.more
async def test_without_a_webhook_there_is_nothing_to_decide_by(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        answer = await post(api, signed())
        assert (answer.status, answer.error) == (404, "No webhook for approvals is configured")
