"""The process that calls the vendors: its answers, its failures, its end."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.support.llm_providers import KEY, VENDORS, asked_of, loaded
from tests.support.vendors.server import VendorServer, vendor_server

from solward import Completion, ProviderContext, ProviderError, Usage
from solward_plugins.llm import llm_process
from solward_plugins.llm.frames import Frame, Kind, pack, read

pytestmark = pytest.mark.samples(
    "test_an_answer_comes_from_another_process", "test_a_frame_cut_short_is_the_end"
)

OPENAI = VENDORS["openai"]
REQUEST = asked_of(OPENAI)


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    async with vendor_server() as running:
        yield running


def lent(server: VendorServer, scenario: str = "text:Fine.") -> ProviderContext:
    return ProviderContext(f"{KEY}~{scenario}", server.base_urls["OPENAI_BASE_URL"])


async def ask(server: VendorServer, scenario: str = "text:Fine.") -> Completion:
    return await loaded("openai").complete(REQUEST, {}, lent(server, scenario))


async def asked_of_server(server: VendorServer) -> None:
    async with asyncio.timeout(60):
        while not server.requests:
            await asyncio.sleep(0.01)


async def test_an_answer_comes_from_another_process(server: VendorServer) -> None:
    completion = await ask(server)
    assert completion.text == "Fine."
    assert completion.usage is not None
    assert llm_process.vendor_process().pid != os.getpid()
    code = "import sys, solward_plugins.providers.openai; assert 'litellm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_many_at_once_each_get_their_own_answer(server: VendorServer) -> None:
    answers = await asyncio.gather(*(ask(server, f"text:number{n}") for n in range(30)))
    assert [answer.text for answer in answers] == [f"number{n}" for n in range(30)]


async def test_an_answer_in_pieces_ends_with_its_usage(server: VendorServer) -> None:
    pieces = [piece async for piece in loaded("openai").stream(REQUEST, {}, lent(server))]
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == "Fine."
    assert isinstance(pieces[-1], Usage)


async def test_a_price_comes_from_the_other_process_once(server: VendorServer) -> None:
    provider = loaded("openai")
    price = await provider.price("gpt-5.2", {"maxTokens": 100})
    assert price is not None
    assert 0 < price.input_nanousd < price.output_nanousd
    assert price.max_output_tokens == 100
    longest = await provider.price("gpt-5.2", {})
    assert longest == replace(price, max_output_tokens=8_192)
    assert await provider.price("a-model-of-nobody", {}) is None
    for name in VENDORS:
        spec = loaded(name).spec
        assert await loaded(name).price(spec.default_model, {}) is not None, name


async def test_a_vendors_failure_is_the_same_here(server: VendorServer) -> None:
    with pytest.raises(ProviderError, match="refused the key in OPENAI_API_KEY") as refused:
        await ask(server, "401")
    assert not refused.value.retryable
    assert not refused.value.may_cost
    assert KEY not in repr(refused.value)


async def test_a_killed_process_is_told_as_a_failure_and_started_anew(
    server: VendorServer,
) -> None:
    waiting = asyncio.create_task(ask(server, "drip"))
    await asked_of_server(server)
    killed = llm_process.vendor_process()
    os.kill(killed.pid, signal.SIGKILL)
    with pytest.raises(ProviderError, match="The process that calls OpenAI ended") as gone:
        await waiting
    assert gone.value.retryable
    assert gone.value.may_cost
    assert (await ask(server)).text == "Fine."
    assert llm_process.vendor_process().pid != killed.pid


async def test_nobody_waiting_ends_the_work_over_there(server: VendorServer) -> None:
    await ask(server)
    waiting = asyncio.create_task(ask(server, "drip"))
    async with asyncio.timeout(60):
        while len(server.requests) < 2:
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await ask(server)).text == "Fine."


async def test_a_bug_over_there_is_told_without_its_text() -> None:
    request = replace(REQUEST, max_output_tokens=5)
    context = ProviderContext(KEY, "http://127.0.0.1:9/v1")
    with pytest.raises(RuntimeError, match=r"^TypeError in the process that calls OpenAI$"):
        await llm_process.complete(OPENAI, request, {"maxTokens": "many"}, context)


def test_the_process_ends_with_its_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "solward_plugins.llm.llm_process_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(pack(Frame(1, Kind.CANCEL)))
        process.stdin.flush()
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_frame_cut_short_is_the_end() -> None:
    whole = pack(Frame(7, Kind.PIECE, "text"))
    assert read(io.BytesIO(whole)) == Frame(7, Kind.PIECE, "text")
    assert [read(io.BytesIO(whole[:size])) for size in range(len(whole))] == [None] * len(whole)
