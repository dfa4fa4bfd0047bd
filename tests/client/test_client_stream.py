"""Server-sent events out of bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from solward.client import SolwardClient, Unauthorized
from solward.client.http import EventParser, ServerSentEvent
from solward.resources.declare import answer_example
from solward.resources.events import AuditPage

EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
STREAM = (
    b"retry: 2000\n\n"
    b": a comment\n\n"
    b'id: 1\nevent: wallet:created\ndata: {"name":"a"}\n\n'
    b'data:{"text":"line\xe2\x80\xa8separator \xc2\x85 \xc3\xa9"}\r\n\r\n'
    b"event: two\rdata: one\rdata: two\r\r"
    b"event: crlf\r\ndata: one\r\ndata: two\r\n\r\n"
    b"id: 2\nevent: no data\n\n"
    b"id: 3\ndata: cut off"
)
EXPECTED = [
    ServerSentEvent("1", "wallet:created", '{"name":"a"}'),
    ServerSentEvent(None, "message", '{"text":"line\u2028separator \x85 é"}'),
    ServerSentEvent(None, "two", "one\ntwo"),
    ServerSentEvent(None, "crlf", "one\ntwo"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_read_however_their_bytes_are_cut(size: int) -> None:
    events = EventParser()
    told = [
        event
        for start in range(0, len(STREAM), size)
        for event in events.feed(STREAM[start : start + size])
    ]
    assert told == EXPECTED


class Broken(httpx.AsyncByteStream):
    """Events, and then a connection that is cut."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in self._numbers:
            yield f"id: {number}\nevent: key:revoked\ndata: {{}}\n\n".encode()
        raise httpx.ReadError("cut")


async def test_a_stream_that_broke_is_taken_up_after_its_last_event() -> None:
    asked: list[tuple[str | None, str | None]] = []
    newest = answer_example(AuditPage)
    newest["entries"][0]["seq"] = 7
    answers = iter(
        [
            httpx.Response(200, json=newest),
            httpx.Response(200, headers=EVENT_STREAM, stream=Broken(8, 10)),
            httpx.Response(502, text="nobody is there"),
            httpx.Response(200, headers=EVENT_STREAM, stream=Broken()),
            httpx.Response(200, headers=EVENT_STREAM, stream=Broken(11)),
            httpx.Response(401, json={"error": "the secret was changed"}),
        ]
    )

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            asked.append((request.headers.get("Last-Event-ID"), request.url.params.get("types")))
        return next(answers)

    told = []

    async def listen(client: SolwardClient) -> None:
        async for event in client.events(types=["key:revoked"]):
            told.append(event.seq)

    async with SolwardClient("http://there", "t", transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(Unauthorized, match="the secret was changed"):
            await listen(client)
    assert told == [8, 10, 11]
    after = [number for number, _ in asked]
    assert after == ["7", "10", "10", "10", "11"]
    assert {types for _, types in asked} == {"key:revoked"}
