"""The HTTP transport: what it sends, what it makes of a node that does not answer, whom it asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.promises import promise
from tests.support.http import served
from tests.support.rpc import GENESIS, listening

from solward.types.errors import LedgerUnavailable
from solward.vault.ledger.transport import HttpTransport


async def _answers(method: str, _params: object) -> object:
    return GENESIS if method == "getGenesisHash" else 7


@asynccontextmanager
async def _transport(url: str, retries: int = 0) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(url, 2.0, retries=retries)
    try:
        yield transport
    finally:
        await transport.close()


@promise("money-back-by-two-hosts", "two-hosts-give-back")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://RPC.example.com:8899/key", "rpc.example.com"),
        ("https://rpc.example.com./?api-key=k", "rpc.example.com"),
        ("https://user:key@rpc.example.com", "rpc.example.com"),
        ("http://127.0.0.1:1", "localhost"),
        ("http://127.9.9.9", "localhost"),
        ("http://[::1]:8899", "localhost"),
        ("http://[::ffff:127.0.0.1]:8899", "localhost"),
        ("http://localhost:2", "localhost"),
        ("http://[2001:DB8:0::1]", "2001:db8::1"),
    ],
)
def test_a_host_has_one_name_however_its_address_is_written(url: str, host: str) -> None:
    assert HttpTransport(url).origin == host


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_request_that_is_cut_off_is_repeated_as_often_as_said(retries: int) -> None:
    async with listening(_answers) as (node,), _transport(node.url, retries) as transport:
        node.faults["getSlot"] = "cut"
        with pytest.raises(LedgerUnavailable, match="did not answer getSlot"):
            await transport.call("getSlot", [])
        assert node.calls["getSlot"] == 1 + retries


async def test_an_http_status_is_no_answer_and_not_repeated() -> None:
    async with listening(_answers) as (node,), _transport(node.url, 1) as transport:
        node.faults["getSlot"] = 503
        with pytest.raises(LedgerUnavailable, match=r"getSlot \(HTTP 503\)"):
            await transport.call("getSlot", [])
        assert node.calls["getSlot"] == 1


async def test_a_redirect_is_not_followed() -> None:
    async with listening(_answers) as (node,):

        async def away(_request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": node.url})

        async with served(away) as url, _transport(url) as transport:
            with pytest.raises(LedgerUnavailable, match="HTTP 307"):
                await transport.call("getSlot", [])
        assert not node.calls


async def test_errors_do_not_show_the_address() -> None:
    async with listening(_answers) as (node,):
        url = f"{node.url}/secret-key"
    async with _transport(url) as transport:
        with pytest.raises(LedgerUnavailable) as caught:
            await transport.call("getSlot", [])
    assert "secret-key" not in f"{caught.value!r}{caught.value.__cause__!r}"


async def test_it_asks_again_after_the_node_was_away() -> None:
    async with listening(_answers) as (node,), _transport(node.url) as transport:
        assert await transport.call("getSlot", []) == 7
        await node.stop()
        with pytest.raises(LedgerUnavailable):
            await transport.call("getSlot", [])
        await node.start()
        assert await transport.call("getSlot", []) == 7


async def test_the_environments_proxy_is_used_except_where_it_says_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response({"jsonrpc": "2.0", "id": "1", "result": 9})

    async with served(proxy) as url:
        monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with _transport("http://rpc.test/path") as transport:
            assert await transport.call("getSlot", []) == 9
        assert asked == ["http://rpc.test/path"]
        async with listening(_answers) as (node,), _transport(node.url) as transport:
            assert await transport.call("getSlot", []) == 7
        assert len(asked) == 1
