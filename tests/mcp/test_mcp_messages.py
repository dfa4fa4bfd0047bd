"""Messages that are none of the protocol: one answer each, over HTTP and on stdio."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.mcp.test_mcp_http import post
from tests.promises import promise
from tests.support.mcp import stdio_process
from tests.support.services import STRANGER, Api

from solward.support import jsontext
from solward_mcp.server_sdk_1 import is_without_parameters

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
PING = b'{"jsonrpc":"2.0","id":"ping","method":"ping"}'
# (what is sent, code, id of the answer)
REFUSED: dict[bytes, tuple[int, Any]] = {
    b"{nonsense": (PARSE_ERROR, None),
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} 2': (PARSE_ERROR, None),
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}': (PARSE_ERROR, None),
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":1}}': (PARSE_ERROR, 1),
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}': (PARSE_ERROR, 1),
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}': (PARSE_ERROR, None),
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping","params":{"\\ud800":1}}': (PARSE_ERROR, None),
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"params":{}}': (PARSE_ERROR, 7),
    b'{"jsonrpc":"2.0","id":"n","method":"ping","params":{"a":NaN}}': (PARSE_ERROR, "n"),
    b"1": (INVALID_REQUEST, None),
    b"null": (INVALID_REQUEST, None),
    b"[]": (INVALID_REQUEST, None),
    b"[" + PING + b"," + PING + b"]": (INVALID_REQUEST, None),
    b"{}": (INVALID_REQUEST, None),
    b'{"id":5,"method":"ping"}': (INVALID_REQUEST, 5),
    b'{"jsonrpc":2.0,"id":5,"method":"ping"}': (INVALID_REQUEST, 5),
    b'{"jsonrpc":"2.0","id":5}': (INVALID_REQUEST, 5),
    b'{"jsonrpc":"2.0","id":5,"method":7}': (INVALID_REQUEST, 5),
    b'{"jsonrpc":"2.0","method":7}': (INVALID_REQUEST, None),
    b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}': (INVALID_REQUEST, "a"),
    b'{"jsonrpc":"2.0","id":"a","method":"ping","params":"x"}': (INVALID_REQUEST, "a"),
    **{
        b'{"jsonrpc":"2.0","id":' + each + b',"method":"ping"}': (INVALID_REQUEST, None)
        for each in (b"null", b"1.5", b"1.0", b"1e2", b"true", b"{}", b"[1]")
    },
}
REFUSED |= {
    b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":[0.01000000000000000000001]}}': (
        INVALID_REQUEST,
        3,
    ),
    b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":1e-399}}': (INVALID_REQUEST, 3),
    b'{"jsonrpc":"2.0","id":3,"method":"ping","error":{"code":1,"message":"x"}}': (
        INVALID_REQUEST,
        3,
    ),
    b'{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}': (INVALID_REQUEST, 3),
    b'{"jsonrpc":"2.0","id":3,"method":"ping","dryRun":true}': (INVALID_REQUEST, 3),
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"wait","dry_run":true}}': (
        INVALID_REQUEST,
        3,
    ),
}
REFUSED |= {
    b'{"jsonrpc":"2.0","id":3,"method":"%s","params":{"_meta":{"%s":1}}}' % (method, key): (
        INVALID_PARAMS,
        3,
    )
    for method in (b"tools/call", b"ping")
    for key in (b"solward/idempotency_key", b"Solward/idempotencyKey", b"solward/dryRun")
}
REFUSED |= {
    b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":{"b":[%s]}}}' % number: (code, 3)
    for number, code in (
        (b"1e399", INVALID_REQUEST),
        (b"-1e309", INVALID_REQUEST),
        (b"1.0E+400", PARSE_ERROR),
    )
}
NOTIFICATIONS = [
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    b'{"jsonrpc":"2.0","method":"notifications/unknown","params":{}}',
    b'{"jsonrpc":"2.0","id":9,"result":{}}',
]


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    with stdio_process(tmp_path_factory.mktemp("stdio")) as process:
        yield process


def said(process: subprocess.Popen[bytes], *messages: bytes) -> list[dict[str, Any]]:
    """What `solward mcp` answers before the last message, a ping, is answered."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n".join([*messages, PING, b""]))
    process.stdin.flush()
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1]["id"] != "ping":
        answers.append(jsontext.loads(process.stdout.readline()))
    return answers[:-1]


@promise("mcp-answers-what-it-cannot-read")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("sent", REFUSED)
async def test_what_is_no_request_has_one_answer(
    shared_api: Api, stdio: subprocess.Popen[bytes], sent: bytes
) -> None:
    code, id_ = REFUSED[sent]
    over_http = await post(shared_api, data=sent)
    assert over_http.status == 400
    assert over_http.headers["Content-Type"] == "application/json"
    for answer in (over_http.json, *said(stdio, sent)):
        assert (answer["error"]["code"], answer["id"]) == (code, id_)
        assert answer["error"]["message"].isprintable()
    assert len(said(stdio, sent, sent)) == 2


@promise("mcp-answers-what-it-cannot-read")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("sent", NOTIFICATIONS)
async def test_what_expects_no_answer_has_none(
    shared_api: Api, stdio: subprocess.Popen[bytes], sent: bytes
) -> None:
    over_http = await post(shared_api, data=sent)
    assert (over_http.status, over_http.text) == (202, "")
    assert said(stdio, sent, b"", b"  ") == []


@pytest.mark.parametrize(
    "sent",
    [
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","id":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":[1],"error":{"code":1,"message":"x"}}',
    ],
)
def test_an_id_that_is_none_ends_no_session(stdio: subprocess.Popen[bytes], sent: bytes) -> None:
    assert said(stdio, sent) == []


@promise("mcp-answers-what-it-cannot-read")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "sent",
    [
        b'{"jsonrpc":"2.0","id":9,"result":"sk-secret"}',
        b'{"jsonrpc":"2.0","id":9,"result":{"sk-secret":1e399}}',
        b'{"jsonrpc":"2.0","id":9,"error":"sk-secret"}',
        b'{"jsonrpc":"2.0","id":9,"error":{"code":1e399,"message":"sk-secret"}}',
        b'{"jsonrpc":"2.0","id":9,"error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":1e399,"result":{}}',
    ],
)
async def test_a_malformed_response_is_not_repeated(
    shared_api: Api, stdio: subprocess.Popen[bytes], sent: bytes
) -> None:
    over_http = await post(shared_api, data=sent)
    assert (over_http.status, over_http.json["error"]["code"]) == (400, INVALID_REQUEST)
    assert "id" not in over_http.json
    assert "errors.pydantic.dev" not in over_http.text
    assert said(stdio, sent) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "sent",
    [
        b'{"jsonrpc":"2.0","method":"notifications/initialized","params":[1]}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"a":"\\ud800"}}',
    ],
)
async def test_a_malformed_notification_is_answered_by_a_status_alone(
    shared_api: Api, stdio: subprocess.Popen[bytes], sent: bytes
) -> None:
    over_http = await post(shared_api, data=sent)
    assert over_http.status == 400
    assert "id" not in over_http.json
    assert said(stdio, sent) == []


@pytest.mark.parametrize(
    ("path", "is_written"),
    [
        ("/lib/mcp/shared/session.py", False),
        ("C:\\lib\\mcp\\shared\\session.py", False),
        ("/lib/solward_mcp/stdio.py", True),
    ],
)
def test_release_1_of_the_sdk_logs_no_parameters(path: str, is_written: bool) -> None:
    record = logging.LogRecord("root", logging.WARNING, path, 1, "Failed: sk-secret", (), None)
    assert is_without_parameters(record) is is_written


@promise("json-read-once")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "doubled", [b'"dry_run":true,"dry_run":false', b'"amount":0.1,"amount":0.2']
)
async def test_an_argument_that_stands_twice_pays_nothing(shared_api: Api, doubled: bytes) -> None:
    wallet = await shared_api.wallet(1)
    arguments = b'"wallet":"%s","to":"%s"' % (wallet.encode(), STRANGER.encode())
    if b"amount" not in doubled:
        arguments += b',"amount":0.1'
    for body in (
        b'{"name":"transfer","arguments":{%s,%s}}' % (arguments, doubled),
        b'{"name":"transfer","arguments":{},"arguments":{%s,"amount":0.1}}' % arguments,
    ):
        message = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%s}' % body
        answer = await post(shared_api, data=message)
        assert answer.json["error"]["code"] == PARSE_ERROR
        assert "stands twice" in answer.json["error"]["message"]
    assert [record["type"] for record in await shared_api.records(wallet)] == ["airdrop"]
