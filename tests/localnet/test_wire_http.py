"""The HTTP side over a real socket: methods, limits, CORS, keep-alive."""

import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.localnet.wire_ledger import ScriptedLedger

from solward_localnet.server import MAX_BODY_BYTES, Addresses, serving

GET_SLOT = {"jsonrpc": "2.0", "id": 1, "method": "getSlot"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(ScriptedLedger(), "127.0.0.1", 0) as addresses,
        httpx.AsyncClient(base_url=addresses.http) as client,
    ):
        yield client


async def test_a_call_is_answered_as_json(client: httpx.AsyncClient) -> None:
    response = await client.post("/", json=GET_SLOT)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"jsonrpc": "2.0", "result": 10, "id": 1}


async def test_an_error_of_the_ledger_is_still_status_200(client: httpx.AsyncClient) -> None:
    response = await client.post("/", json=GET_SLOT | {"method": "nope"})
    assert response.status_code == 200
    assert response.json()["error"] == {"code": -32601, "message": "Method not found"}


async def test_a_notification_has_an_empty_answer(client: httpx.AsyncClient) -> None:
    response = await client.post("/", json={"jsonrpc": "2.0", "method": "getSlot"})
    assert (response.status_code, response.content) == (200, b"")


async def test_health_is_ok(client: httpx.AsyncClient) -> None:
    response = await client.get("/health")
    assert (response.status_code, response.text) == (200, "ok")


async def test_other_methods_and_content_types_are_refused(client: httpx.AsyncClient) -> None:
    response = await client.get("/")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST, OPTIONS"
    response = await client.post("/", content=b"{}", headers={"content-type": "text/plain"})
    assert response.status_code == 415
    assert "application/json is required" in response.text


async def test_a_content_type_may_have_parameters(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert (await client.post("/", content=b"[]", headers=headers)).status_code == 200


async def test_every_origin_may_call(client: httpx.AsyncClient) -> None:
    headers = {
        "origin": "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,solana-client",
    }
    preflight = await client.options("/", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-headers"] == "content-type,solana-client"
    response = await client.post("/", json=GET_SLOT, headers={"origin": "http://a.example"})
    assert response.headers["access-control-allow-origin"] == "*"


async def test_a_body_may_have_50_kib_and_not_a_byte_more(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    full = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'.ljust(MAX_BODY_BYTES)
    assert (await client.post("/", content=full, headers=headers)).json()["result"] == 10
    response = await client.post("/", content=full + b" ", headers=headers)
    assert response.status_code == 413
    assert "at most 51200 bytes" in response.text
    assert (await client.post("/", json=GET_SLOT)).status_code == 200


async def test_a_body_of_undeclared_length_is_limited_too(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(60):
            yield bytes(1024)

    headers = {"content-type": "application/json"}
    response = await client.post("/", content=chunks(), headers=headers)
    assert response.status_code == 413


async def test_one_connection_carries_many_calls() -> None:
    limits = httpx.Limits(max_connections=1)
    async with (
        serving(ScriptedLedger(), "127.0.0.1", 0) as addresses,
        httpx.AsyncClient(base_url=addresses.http, limits=limits) as client,
    ):
        streams = set()
        for _ in range(5):
            response = await client.post("/", json=GET_SLOT)
            streams.add(response.extensions["network_stream"].get_extra_info("client_addr"))
        assert len(streams) == 1


async def test_a_taken_port_is_an_os_error_and_the_other_socket_is_let_go() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ws_port = taken.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            async with serving(ScriptedLedger(), "127.0.0.1", free, ws_port):
                pass
        socket.create_server(("127.0.0.1", free)).close()


async def test_the_websocket_port_follows_the_http_port() -> None:
    async with serving(ScriptedLedger(), "127.0.0.1", 0) as addresses:
        assert addresses.ws_port == addresses.http_port + 1
        assert addresses.ws == f"ws://127.0.0.1:{addresses.ws_port}"


async def test_ipv6_addresses_are_bracketed() -> None:
    assert Addresses("::1", 8899, 8900).http == "http://[::1]:8899"


async def test_what_is_served_ends_with_its_block() -> None:
    ledger = ScriptedLedger()
    async with httpx.AsyncClient() as client:
        async with serving(ledger, "127.0.0.1", 0) as addresses:
            assert (await client.get(f"{addresses.http}/health")).text == "ok"
        assert ledger.listeners == []
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{addresses.http}/health", headers={"connection": "close"})
