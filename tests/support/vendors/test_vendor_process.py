"""The vendor server as a process: what end-to-end tests and benchmarks rely on."""

from __future__ import annotations

import time

import httpx
import pytest
from tests.support.vendors.asking import VENDORS, ask, read
from tests.support.vendors.process import vendor_process


@pytest.mark.more
async def test_it_waits_by_default_chats_without_tools_and_follows_the_key() -> None:
    with vendor_process("--keep", "3") as running:
        assert running.base_urls["ANTHROPIC_API_BASE"] == running.url
        for vendor in VENDORS:
            waits = await ask(running.base_urls, vendor)
            chats = await ask(running.base_urls, vendor, tools=False, stream=True)
            fails = await ask(running.base_urls, vendor, "key~429")
            works = await ask(running.base_urls, vendor, "key~429")
            assert read(vendor, waits, False) == ("", [("wait", {"reason": "scripted"})])
            assert read(vendor, chats, True)[0]
            assert fails.status_code == 429
            assert read(vendor, works, False) == read(vendor, waits, False)
            with pytest.raises(httpx.ReadError):
                await ask(running.base_urls, vendor, "key~reset")
        stats = httpx.get(f"{running.url}/stats").json()
        captured = httpx.get(f"{running.url}/captured").json()
    assert stats == {"served": dict.fromkeys(VENDORS, 5), "strays": []}
    assert [request["key"] for request in captured] == ["key~429", "key~429", "key~reset"]
    assert captured[-1]["tools"][0]["name"] == "wait"


@pytest.mark.more
async def test_a_share_of_the_requests_acts() -> None:
    acting = ("--tool", "airdrop", "--arguments", '{"amount": 1}', "--every", "3")
    with vendor_process(*acting) as running:
        calls = [
            read("openai", await ask(running.base_urls, "openai"), False)[1][0] for _ in range(60)
        ]
    assert {name for name, _ in calls} == {"airdrop", "wait"}
    assert 8 <= calls.count(("airdrop", {"amount": 1})) <= 32


@pytest.mark.more
async def test_latency_is_before_every_answer() -> None:
    with vendor_process("--latency-ms", "150", "--tool", "wait") as running:
        began = time.monotonic()
        response = await ask(running.base_urls, "gemini")
        assert time.monotonic() - began >= 0.15
    assert read("gemini", response, False) == ("", [("wait", {})])


@pytest.mark.more
def test_it_ends_cleanly_when_told() -> None:
    with vendor_process() as running:
        running.process.terminate()
        assert running.process.wait(10) == 0


@pytest.mark.parametrize("wrong", [("--arguments", "{"), ("--every", "0"), ("--port", "x")])
def test_a_wrong_argument_is_refused(wrong: tuple[str, str]) -> None:
    with pytest.raises(RuntimeError, match="ended with 2"), vendor_process(*wrong):
        pass
