"""Server-sent events out of bytes."""

from __future__ import annotations

import pytest

from solward.client.sse import Events, ServerSent

STREAM = (
    b"retry: 2000\n\n"
    b": a comment\n\n"
    b'id: 1\nevent: wallet:created\ndata: {"name":"a"}\n\n'
    b'data:{"text":"line\xe2\x80\xa8separator \xc2\x85 \xc3\xa9"}\r\n\r\n'
    b"event: two\rdata: one\rdata: two\r\r"
    b"id: 2\nevent: no data\n\n"
    b"id: 3\ndata: cut off"
)
EXPECTED = [
    ServerSent("1", "wallet:created", '{"name":"a"}'),
    ServerSent(None, "message", '{"text":"line\u2028separator \x85 é"}'),
    ServerSent(None, "two", "one\ntwo"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_read_however_their_bytes_are_cut(size: int) -> None:
    events = Events()
    told = [
        event
        for start in range(0, len(STREAM), size)
        for event in events.feed(STREAM[start : start + size])
    ]
    assert told == EXPECTED
