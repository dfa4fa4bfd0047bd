"""The audit log as server-sent events, over a socket: no gap, no duplicate, no lingering reader."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.clock import until
from tests.support.database import AuditLog, audit_seq_at
from tests.support.services import NOBODY, Served, serving_events, settings

from solward.service.service import Solward
from solward.support import jsontext
from solward.types.events import EventKind
from solward_server.resources import events

ORIGIN = "http://localhost:3000"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with (
        Solward.open(settings(tmp_path / "home")) as service,
        serving_events(service) as opened,
    ):
        yield opened


@promise("events-stream-to-admin")
async def test_what_happens_is_told_once_in_order_with_exact_amounts(served: Served) -> None:
    async with served.listening() as heard:
        wallet = (await served.post("/wallets", {"name": "Ada"}))["walletId"]
        other = await served.post("/wallets")
        await served.post(f"/wallets/{wallet}/airdrop", {"amount": 2})
        paid = {"to": other["address"], "amount": Decimal("0.123456789")}
        sent = await served.post(f"/wallets/{wallet}/transfer", paid)
        await served.post(f"/wallets/{wallet}/transfer", paid | {"amount": Decimal("2.5")})
        await served.post(f"/wallets/{wallet}/transfer", paid | {"amount": Decimal("1.9")})
        told = await heard.events(8)
    listed = jsontext.loads((await served.client.get("/transactions")).content)["transactions"]
    records = {record["id"]: record for record in listed}
    assert await served.places(told) == list(range(1, 9))
    assert [kind for _, kind, _ in told] == [
        "wallet:created",
        "wallet:created",
        "transaction:pending",
        "transaction:confirmed",
        "transaction:pending",
        "transaction:confirmed",
        "transaction:blocked",
        "transaction:failed",
    ]
    datas = [data for _, _, data in told]
    assert datas[1] == {"walletId": other["walletId"], "name": other["name"],
                        "address": other["address"], "principal": "admin",
                        "after": {"tags": [], "imported": False}}  # fmt: skip
    assert datas[3:6:2] == [records[datas[3]["id"]], records[sent["id"]]]
    assert datas[5]["details"]["amount"] == Decimal("0.123456789")
    unsigned = {name: value for name, value in datas[5].items() if name != "signature"}
    assert datas[4] == unsigned | {"status": "pending"}
    assert datas[6:] == [records[data["id"]] for data in datas[6:]]
    assert await AuditLog(served.service.database).end() == told[-1][0]


async def test_an_agents_life_is_told(served: Served) -> None:
    wallet = (await served.post("/wallets"))["walletId"]
    body = agent_body(wallet, "openai", llmModel="m", strategy="wait")
    agent = (await served.post("/agents", body))["id"]
    async with served.listening() as heard:
        # Nothing is told where nothing changes: it never ran.
        for _ in range(2):
            await served.post(f"/agents/{agent}/stop")
        await served.client.delete(f"/agents/{agent}")
        (seq, deleted, gone) = await heard.event()
    assert (deleted, gone["agentId"], gone["principal"]) == ("agent:deleted", agent, "admin")
    assert await AuditLog(served.service.database).end() == seq


@pytest.mark.more
async def test_a_client_that_comes_back_gets_what_it_missed_and_nothing_twice(
    served: Served,
) -> None:
    """Cut off again and again while events pour in, by header or query, each comes once."""
    total, last = 300, 0
    got: list[int] = []
    writing = asyncio.create_task(served.append(total))
    for by_header in itertools.cycle((True, False)):
        if len(got) == total:
            break
        path = "/events" if by_header else f"/events?lastEventId={last}"
        headers = {"Last-Event-ID": str(last)} if by_header else {}
        async with served.listening(path, **headers) as heard:
            for _ in range(min(37, total - len(got))):
                last, _kind, data = await heard.event()
                got.append(data["number"])
    await writing
    assert got == list(range(total))


async def test_the_header_wins_over_the_address_a_browser_began_with(served: Served) -> None:
    await served.append(3)
    second = str(await audit_seq_at(served.service.database, 2))
    async with served.listening("/events?lastEventId=0", **{"Last-Event-ID": second}) as heard:
        assert await served.places([await heard.event()]) == [3]


async def test_a_log_longer_than_a_page_is_replayed_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 4)
    await served.append(10)
    async with served.listening("/events?lastEventId=0") as heard:
        assert await served.places(await heard.events(10)) == list(range(1, 11))
        await served.append(9)
        assert await served.places(await heard.events(9)) == list(range(11, 20))


@pytest.mark.more
async def test_a_reader_slower_than_what_happens_loses_nothing(served: Served) -> None:
    """More than the socket holds is written before the first line is read."""
    big = "x" * 60_000
    async with served.listening() as heard:
        audit = AuditLog(served.service.database)
        for number in range(400):
            await audit.append(EventKind.KEY_CREATED, {"n": number, "big": big})
        told = await heard.events(400)
    assert [data["n"] for _, _, data in told] == list(range(400))


async def test_only_the_kinds_asked_for_are_told(served: Served) -> None:
    async with served.listening("/events?types=wallet:created,%20key:revoked") as heard:
        await served.append(2)
        await served.post("/wallets")
        made = await heard.event()
        assert made[1] == "wallet:created"
        await served.append(1)
        await AuditLog(served.service.database).append(EventKind.KEY_REVOKED, {"keyId": NOBODY})
        revoked = await heard.event()
        assert revoked[1:] == ("key:revoked", {"keyId": NOBODY})
    assert await served.places([made, revoked]) == [3, 5]


@pytest.mark.parametrize(
    ("query", "header", "named"),
    [
        ("?lastEventId=abc", None, "lastEventId must be the number of an event"),
        ("?lastEventId=", None, "lastEventId must be"),
        ("?lastEventId=-1", None, "lastEventId must be"),
        ("?lastEventId={beyond}", None, "a whole number from 0 to {end}"),
        ("?lastEventId=" + "0" * 40 + "9", None, "lastEventId must be"),
        ("", "x", "Last-Event-ID must be"),
        ("", "9" * 40, "Last-Event-ID must be"),
        ("", "\u0661".encode().decode("latin-1"), "Last-Event-ID must be"),
        ("?types=wallet:made", None, "'wallet:made' is none"),
        ("?types=", None, ", transaction:pending, "),
        ("?types=wallet:created,,key:revoked", None, "types must be"),
    ],
)
async def test_what_cannot_be_resumed_or_told_is_refused_naming_it(
    served: Served, query: str, header: str | None, named: str
) -> None:
    await served.append(1)
    headers = [] if header is None else [(b"Last-Event-ID", header.encode("latin-1"))]
    end = await AuditLog(served.service.database).end()
    query = query.format(beyond=end + 1)
    answer = await served.client.get(f"/events{query}", headers=headers)
    assert answer.status_code == 400
    assert named.format(end=end) in answer.json()["error"]


async def test_a_silent_stream_has_a_heartbeat(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.HEARTBEAT_S == 15
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.02)
    async with served.listening() as heard:
        assert await heard.block() == {"retry": "2000"}
        assert [await heard.block() for _ in range(3)] == [{"": ""}] * 3
        await served.append(1)
        assert await served.places([await heard.event()]) == [1]


async def test_the_answer_is_a_stream_that_a_dashboard_of_another_origin_may_read(
    served: Served,
) -> None:
    async with served.listening(Origin=ORIGIN) as heard:
        headers = heard.response.headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["access-control-allow-origin"] == ORIGIN
    assert headers["access-control-allow-credentials"] == "true"
    head = await served.client.head("/events")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_client_that_goes_away_is_forgotten_at_once(served: Served) -> None:
    bus = served.service.events
    async with served.listening() as one, served.listening() as other:
        await asyncio.gather(one.block(), other.block())
        assert len(bus._subscriptions) == 2
    # Nothing happens meanwhile that would show the server that nobody reads.
    await until(lambda: len(bus._subscriptions) == 0)


@pytest.mark.more
async def test_streams_end_with_the_service_and_do_not_hold_it_up(served: Served) -> None:
    async with served.listening() as quiet, served.listening("/events?lastEventId=0") as busy:
        await asyncio.gather(quiet.block(), busy.block())
        await served.append(1)
        assert await served.places([await quiet.event()]) == [1]
        served.stop.set()
        async with asyncio.timeout(5):
            await served.ended
        with pytest.raises(EOFError):
            await quiet.block()
