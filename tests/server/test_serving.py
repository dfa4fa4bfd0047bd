"""Listening, telling the address, and ending without cutting anybody off."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import httpx
import pytest
from tests.promises import promise
from tests.support.services import SECRET, settings

from solward.service.service import Solward
from solward.settings.access import DEVELOPMENT_SECRET
from solward.types.errors import ConfigError
from solward_server.listening import listen
from solward_server.serve import Address, serve, stop_on_signals


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} on 127.0.0.1 is in use"):
            listen("127.0.0.1", port)


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Cannot listen on 203\.0\.113\.1"):
        listen("203.0.113.1", 0)


def test_addresses_are_written_as_urls() -> None:
    assert Address("::1", 3001).health == "http://[::1]:3001/api/v1/health"
    assert Address("127.0.0.1", 80).url == "http://127.0.0.1:80"


async def test_a_request_under_way_is_answered_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, stop = asyncio.Event(), asyncio.Event()
    address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    async with Solward.open(settings(tmp_path / "home")) as service:
        original = service.agents.list

        async def slow(wallet_id: str | None) -> object:
            entered.set()
            await stop.wait()
            await asyncio.sleep(0.05)
            return await original(wallet_id)

        monkeypatch.setattr(service.agents, "list", slow)
        listening = listen("127.0.0.1", 0)
        served = asyncio.create_task(serve(service, listening, stop, ready=address.set_result))
        url = (await address).url
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            health = await client.get("/api/v1/health")
            assert health.status_code == 200
            assert "server" not in health.headers
            request = asyncio.create_task(client.get("/api/v1/agents"))
            await entered.wait()
            stop.set()
            assert (await request).json() == {"agents": []}
            await asyncio.wait_for(served, 8)
            with pytest.raises(httpx.ConnectError):
                await client.get("/api/v1/health")


@promise("default-secret-stays-local")
async def test_the_development_secret_is_not_served_to_others(tmp_path: Path) -> None:
    given = settings(tmp_path / "home", api_host="0.0.0.0", api_secret=DEVELOPMENT_SECRET)
    async with Solward.open(given) as service:
        listening = listen("127.0.0.1", 0)
        with pytest.raises(ConfigError, match="API_SECRET"):
            await serve(service, listening, asyncio.Event())
        listening.close()


async def test_a_signal_sent_twice_at_once_is_one_wish() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        async with stop_on_signals() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.wait_for(stop.wait(), 5)
    finally:
        loop = asyncio.get_running_loop()
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
