"""The client and a service in a process of its own: streams, restarts, and what a log shows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.processes import SECRET, Service, free_port, running

from solward.client import BadRequest, Event, SolwardClient, Unreachable
from solward.settings import Settings
from solward.settings.access import DEVELOPMENT_SECRET

pytestmark = pytest.mark.samples(
    "test_events_are_replayed_after_a_number_and_have_exact_amounts",
    "test_settings_name_the_service",
    "test_importing_the_client_brings_nothing_of_the_service",
)

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path / "home")


def client_of(service: Service) -> SolwardClient:
    return SolwardClient(service.url, SECRET, timeout_s=30)


@contextlib.asynccontextmanager
async def started(service: Service) -> AsyncIterator[None]:
    await asyncio.to_thread(service.start)
    try:
        yield
    finally:
        await asyncio.to_thread(service.stop)


async def test_events_go_on_after_a_restart_without_gap_or_duplicate(service: Service) -> None:
    told: list[Event] = []

    async def listen(client: SolwardClient) -> None:
        async with contextlib.aclosing(client.events(types=["wallet:created"])) as events:
            async for event in events:
                told.append(event)

    async with client_of(service) as client:
        async with started(service):
            await client.wallets.create(name="before anybody listened")
            listening = asyncio.create_task(listen(client))
            while not told:
                # The stream begins at a moment of its own; what comes later it must tell.
                await client.wallets.create(name="heard")
                await asyncio.sleep(0.1)
        async with started(service):
            for number in range(5):
                await client.wallets.create(name=f"later-{number}")
            async with asyncio.timeout(20):
                while told[-1].data["name"] != "later-4":
                    await asyncio.sleep(0.05)
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
            page = await client.audit()
            written = [e for e in reversed(page.entries) if e.kind == "wallet:created"]
    assert "before anybody listened" not in {event.data["name"] for event in told}
    assert [event.seq for event in told] == [e.seq for e in written[-len(told) :]]
    assert [event.data for event in told] == [e.data for e in written[-len(told) :]]


@pytest.mark.more
async def test_events_are_replayed_after_a_number_and_have_exact_amounts(service: Service) -> None:
    async with started(service), client_of(service) as client:
        wallet = await client.wallets.create(name="replayed")
        await client.wallets.airdrop(wallet.id, amount="0.123456789")
        told = []
        async with contextlib.aclosing(client.events(after=0)) as events:
            async for event in events:
                told.append(event)
                if event.kind == "transaction:confirmed":
                    break
        assert [event.kind for event in told][:2] == ["wallet:created", "transaction:pending"]
        assert told[-1].data["details"]["amount"] == Decimal("0.123456789")
        with pytest.raises(BadRequest, match="Last-Event-ID"):
            await anext(client.events(after=10_000))


async def test_events_of_a_service_that_is_not_there_end_at_once() -> None:
    async with SolwardClient(f"http://127.0.0.1:{free_port()}", SECRET) as client:
        for after in (None, 5):
            with pytest.raises(Unreachable, match="SOLWARD_API_URL"):
                await anext(client.events(after=after))


async def test_a_chat_is_streamed_and_refusals_keep_their_status(tmp_path: Path) -> None:
    # Its agent is driven by rules, and only this command brings their provider.
    arguments = ("up", "--demo", "--no-rpc", "--port", "0")
    with running(tmp_path / "home", *arguments) as (_, screen):
        address = re.search(r"^API: +(\S+)", screen, re.M)
        assert address is not None
        async with SolwardClient(address[1], DEVELOPMENT_SECRET) as client:
            (agent,) = await client.agents.list()
            pieces = [piece async for piece in client.agents.chat_stream(agent.id, "hello")]
            assert "".join(pieces).strip() == await client.agents.chat(agent.id, "hello")
            assert pieces[0].startswith("I am a rule-based demo")
            await client.agents.stop(agent.id)
            with pytest.raises(BadRequest, match="Agent is not running"):
                await client.agents.chat(agent.id, "hello")


async def test_a_payment_is_made_once_though_its_service_is_killed(service: Service) -> None:
    async with client_of(service) as client:
        await asyncio.to_thread(service.start)
        wallet = await client.wallets.create(name="survivor")
        await client.wallets.airdrop(wallet.id, amount=2)
        await asyncio.to_thread(service.stop)
        # It dies after the ledger has taken the transaction and before it answers.
        await asyncio.to_thread(service.start, "kill:sent:1")
        paying = asyncio.create_task(client.wallets.transfer(wallet.id, to=STRANGER, amount=1))
        await asyncio.to_thread(service.wait_killed)
        async with started(service):
            sent = await paying
            assert sent.status == "confirmed"
            assert (await client.wallets.balance(wallet.id)).sol == 1 - Decimal("0.000005")
            assert len(await client.wallets.transactions(wallet.id)) == 2


async def test_no_log_shows_the_token(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    # Another test of this process may have quietened them, as the service does.
    for name in ("", "httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    async with started(service), client_of(service) as client:
        await client.wallets.create(name="logged")
        await client.wallets.list()
    assert "/api/v1/wallets" in caplog.text
    assert SECRET not in caplog.text


def test_settings_name_the_service(tmp_path: Path) -> None:
    settings = Settings(
        _env_file=None,
        solward_home=tmp_path,
        solward_api_url="http://there:1/",
        solward_api_key="k",
    )
    assert SolwardClient.from_settings(settings).url == "http://there:1"
    assert settings.client_token == "k"


def test_importing_the_client_brings_nothing_of_the_service() -> None:
    program = "import sys, solward.client; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "httpx" in loaded
    assert not loaded & {"quart", "solders", "sqlalchemy", "pydantic", "jsonschema", "structlog"}
