"""Every way in reads JSON by one strict parser: no text that another program may read otherwise."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from aiohttp import web
from click.testing import CliRunner
from tests.agents.test_held_outcomes import AGENT
from tests.mcp.test_mcp_http import post
from tests.promises import promise
from tests.support.http import served
from tests.support.mcp import stdio_process
from tests.support.services import SECRET, Api

from solward.agents.act import act
from solward.hosts.wire import values as wire
from solward.notify import webhook
from solward.service import cluster
from solward.service.token_refresh import parse_published
from solward.support import jsontext
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.provider import ToolCall
from solward.vault.ledger.transport import HttpTransport
from solward_cli import main
from solward_cli.mcp import ClientFile
from solward_cli.skills import parse_value
from solward_plugins.llm.answers import AnswerWatch
from solward_plugins.payments import x402
from solward_plugins.payments.reading import json_in_header
from solward_plugins.venues import jupiter
from solward_server.resources import PREFIX

DEEP: Final = b"[" * 65 + b"]" * 65
FAULTS: Final = {
    "doubled key": b'"x":{"a":1,"a":2}',
    "doubled by an escape": b'"x":{"a":1,"\\u0061":1}',
    "NaN": b'"x":NaN',
    "Infinity": b'"x":[-Infinity]',
    "depth": b'"x":' + DEEP,
    "great depth": b'"x":' + b"[" * 20_000 + b"]" * 20_000,
    "lone surrogate": b'"x":"a\\ud800b"',
    "lone surrogate in a key": b'"\\udfff":1',
    "no UTF-8": b'"x":"\xff"',
}
SIZE, MARK = "size", "byte order mark"
# What a caller's refusal names.
NAMED: Final = {
    "doubled key": "x.a stands twice",
    "doubled by an escape": "x.a stands twice",
    "NaN": "JSON",
    "Infinity": "JSON",
    "depth": "at most 64 arrays and objects",
    "great depth": "at most 64 arrays and objects",
    "lone surrogate": "x must not contain half of a surrogate pair",
    "lone surrogate in a key": "must not contain half of a surrogate pair",
    "no UTF-8": "",
}
RPC: Final = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


@dataclass
class Borders:
    """What each way in makes of a text: the refusal, or None where it is taken."""

    api: Api
    folder: Path
    stdio: subprocess.Popen[bytes]

    async def rest(self, text: bytes) -> str | None:
        return await self.posted("POST", "/wallets", text)

    async def posted(self, method: str, path: str, text: bytes) -> str | None:
        headers = {"Authorization": f"Bearer {SECRET}"}
        client = self.api.app.test_client()
        answer = await client.open(PREFIX + path, method=method, headers=headers, data=text)
        error = (await answer.get_json(force=True)).get("error")
        assert answer.status_code in ((400, 413) if error else (200,)), error
        return error

    async def webhook_answer(self, text: bytes) -> str | None:
        return refused(webhook._read_decision, text)

    async def mcp_http(self, text: bytes) -> str | None:
        answer = await post(self.api, data=text)
        if answer.status == 413:
            return answer.error
        return mcp_refusal(answer.json)

    async def mcp_stdio(self, text: bytes) -> str | None:
        assert self.stdio.stdin is not None
        assert self.stdio.stdout is not None
        self.stdio.stdin.write(text + b"\n")
        self.stdio.stdin.flush()
        return mcp_refusal(jsontext.loads(self.stdio.stdout.readline()))

    async def tool_arguments(self, text: bytes) -> str | None:
        """As a vendor sends them, read by the provider and, where it cannot, by the agent."""
        arguments = text.decode("utf-8", "surrogateescape")
        calls = [{"function": {"name": "look", "arguments": arguments}}]
        watch = AnswerWatch(is_stream=False)
        watch.status = 200
        watch.rewrite_answer(json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode())
        [call] = watch.calls

        async def run(*_: Any) -> str:
            return "done"

        for each in (call, ToolCall("look", arguments)):
            done = await act(AGENT, 1, each, run_skill=run, spends=False)
        return None if done.outcome == "done" else done.outcome

    async def cli_policy(self, text: bytes) -> str | None:
        path = self.folder / "policy.json"
        path.write_bytes(text)
        there = {"SOLWARD_API_URL": "http://127.0.0.1:9", "SOLWARD_API_KEY": SECRET}
        runner = CliRunner(env=there | {"SOLWARD_HOME": str(self.folder / "nobody")})
        result = await asyncio.to_thread(runner.invoke, main, ["policy", "check", str(path)])
        return None if "127.0.0.1:9" in result.output else result.output

    async def cli_host_file(self, text: bytes) -> str | None:
        path = self.folder / "host.json"
        path.write_bytes(text)
        return refused(lambda _: ClientFile.read(path, "mcpServers"), text)

    async def plugin_setting(self, text: bytes) -> str | None:
        path = "/plugins/skills/transfer/settings/name"
        said = await self.posted("PUT", path, text)
        # Its body was read.
        return None if said == "The skill transfer declares no settings" else said

    async def plugin_host(self, text: bytes) -> str | None:
        return refused(lambda _: wire.from_json(text.decode()), text)

    async def seller_body(self, text: bytes) -> str | None:
        return refused(x402._body, text)

    async def seller_header(self, text: bytes) -> str | None:
        header = base64.b64encode(text).decode()
        return refused(lambda _: json_in_header(header, "PAYMENT-REQUIRED", url=False), text)

    async def venue(self, text: bytes) -> str | None:
        return refused(lambda _: jupiter._parse_object(httpx.Response(200, content=text)), text)

    async def prices(self, text: bytes) -> str | None:
        there = httpx.MockTransport(lambda _: httpx.Response(200, content=text))
        async with httpx.AsyncClient(transport=there, base_url="http://prices") as client:
            try:
                await cluster._fetch_object(client, "/", {})
            except (ValueError, cluster.BadPriceAnswer) as error:
                return str(error)
        return None

    async def token_list(self, text: bytes) -> str | None:
        return refused(lambda _: parse_published(text, "devnet"), text)

    async def node(self, text: bytes) -> str | None:
        async def handle(request: web.Request) -> web.Response:
            number = (await request.json())["id"]
            return web.Response(body=text.replace(b'"id":0', b'"id":%d' % number))

        async with served(handle) as url:
            transport = HttpTransport(url, retries=0)
            try:
                assert await transport.call("getHealth", []) == "ok"
            except LedgerUnavailable as error:
                return str(error)
            finally:
                await transport.close()
        return None


def refused(read: Callable[[bytes], object], text: bytes) -> str | None:
    try:
        read(text)
    except (InvalidRequest, LedgerUnavailable, wire.Unreadable, ValueError) as error:
        return str(error)
    return None


def mcp_refusal(answer: dict[str, Any]) -> str | None:
    assert answer["jsonrpc"] == "2.0"
    if "result" in answer:
        return None
    assert answer["error"]["code"] == -32700
    return str(answer["error"]["message"])


@dataclass(frozen=True)
class Way:
    """A way in.

    Attributes:
        taken: a text that it takes.
        most: bytes that it takes.
        is_caller: what is wrong is told; elsewhere the answer is only unreadable.
    """

    read: Callable[[Borders, bytes], Awaitable[str | None]]
    taken: bytes = b"{}"
    most: int = jsontext.MAX_BYTES
    is_caller: bool = True


KIB: Final = 1024
WAYS: Final = {
    "REST": Way(Borders.rest, most=64 * KIB),
    "a webhook's answer": Way(Borders.webhook_answer, b'{"decision":"deny"}'),
    "MCP over HTTP": Way(Borders.mcp_http, RPC, 64 * KIB),
    "MCP on stdio": Way(Borders.mcp_stdio, RPC, 2 * KIB * KIB),
    "tool arguments": Way(Borders.tool_arguments),
    "a policy's file": Way(Borders.cli_policy),
    "an MCP host's file": Way(Borders.cli_host_file),
    "a plugin's setting": Way(Borders.plugin_setting, b'{"value":1}', 64 * KIB),
    "a plugin host": Way(Borders.plugin_host),
    "a seller's body": Way(Borders.seller_body, b'{"x402Version":1}', 64 * KIB),
    "a seller's header": Way(Borders.seller_header, most=64 * KIB),
    "a venue": Way(Borders.venue, most=4 * KIB * KIB, is_caller=False),
    "prices": Way(Borders.prices, is_caller=False),
    "a token list": Way(Borders.token_list, b'{"tokens":[]}'),
    "a node": Way(Borders.node, b'{"jsonrpc":"2.0","id":0,"result":"ok"}', is_caller=False),
}


@pytest.fixture(scope="module")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    with stdio_process(tmp_path_factory.mktemp("stdio")) as process:
        yield process


@pytest.fixture
def borders(shared_api: Api, stdio: subprocess.Popen[bytes], tmp_path: Path) -> Borders:
    return Borders(shared_api, tmp_path, stdio)


@promise("json-read-once")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WAYS)
async def test_what_two_programs_may_read_differently_is_refused(
    borders: Borders, name: str, fault: str
) -> None:
    way = WAYS[name]
    comma = b"" if way.taken == b"{}" else b","
    if name == "a plugin host" and fault == "no UTF-8":
        pytest.skip("msgpack's text is UTF-8")
    said = await way.read(borders, way.taken[:-1] + comma + FAULTS[fault] + b"}")
    assert said is not None
    if way.is_caller:
        assert NAMED[fault] in said, said


@promise("json-read-once")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", WAYS)
async def test_what_is_too_long_is_refused_and_a_mark_of_byte_order_is_not_read(
    borders: Borders, name: str
) -> None:
    way = WAYS[name]
    for taken in (way.taken, b"\xef\xbb\xbf" + way.taken, way.taken + b" \r"):
        assert await way.read(borders, taken) is None
    assert await way.read(borders, b"\xef\xbb\xbf" * 2 + way.taken) is not None
    assert await way.read(borders, way.taken + b" " * way.most) is not None
    assert await way.read(borders, way.taken) is None


@promise("node-answers-read-strictly")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("space", [b"", b" "], ids=["as msgspec writes it", "otherwise"])
def test_an_answer_of_a_node_is_read_strictly_however_it_is_written(
    fault: str, space: bytes
) -> None:
    taken = b'{"result":' + space + b'{"logs":["[[["],"fee":1.5,"slot":18446744073709551615}}'
    assert jsontext.read_fast(taken)["result"]["fee"] == 1.5
    with pytest.raises((ValueError, RecursionError)):
        jsontext.read_fast(taken[:-1] + b"," + FAULTS[fault] + b"}")


def test_a_typed_value_that_is_ambiguous_is_not_taken_as_text() -> None:
    assert parse_value("sol") == "sol"
    for text in ('{"a":1,"a":2}', '"\\ud800"'):
        with pytest.raises(Exception, match=r"stands twice|surrogate"):
            parse_value(text)
