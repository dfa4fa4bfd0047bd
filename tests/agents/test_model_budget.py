"""A model's budget is reserved before the model is asked: nothing passes it together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.agents import BODY, Host, agents_of, agents_wallet
from tests.support.processes import written_log

from solward.agents import provider_call, store
from solward.agents.agent import Agent
from solward.agents.budget import ModelBudget
from solward.agents.service import AgentService
from solward.database.database import Database
from solward.hosts.wire.failures import HostBug
from solward.types.errors import ModelRefused, ProviderError, TokenBudgetReached
from solward.types.provider import Completion, ModelPrice, Usage

# A dollar for the longest answer; the prompt costs nothing, so that sums are round.
PRICE = ModelPrice(0, 10**12, 1_000)
HOUR = 3_600_000
KEY = "of-a-vendor-that-no-pattern-knows"


@pytest.fixture
async def host(database: Database) -> Host:
    await agents_wallet(database)
    return Host(database)


@pytest.fixture
async def service(host: Host) -> AsyncIterator[AgentService]:
    opened = agents_of(host)
    yield opened
    await opened.close()


async def running(service: AgentService, host: Host, **budget: Any) -> Agent:
    """An agent that has waited once, for nothing, and does not think again by itself."""
    host.answer = lambda: Completion("Waiting.", usage=Usage(0, 0, 0))
    agent = await service.create(BODY | {"llmBudget": budget, "loopIntervalMs": HOUR})
    await service.start(agent.id)
    await host.decisions(1)
    assert (await service.tokens(agent.id)).tokens == 0
    host.requests.clear()
    return agent


class Gate:
    """A provider that answers only once it is let."""

    def __init__(self, host: Host, usage: Usage | None) -> None:
        self.inside = 0
        self.go = asyncio.Event()
        self._usage = usage
        host.answer = self._answer

    async def _answer(self) -> Completion:
        self.inside += 1
        await self.go.wait()
        return Completion("Hi.", usage=self._usage)


async def decided(
    chats: list[asyncio.Task[str]], *gates: Gate
) -> tuple[list[asyncio.Task[str]], list[asyncio.Task[str]]]:
    """The refused and those that wait at a gate, once each is either."""
    async with asyncio.timeout(20):
        while sum(chat.done() for chat in chats) + sum(gate.inside for gate in gates) < len(chats):
            await asyncio.sleep(0.005)
    return [each for each in chats if each.done()], [each for each in chats if not each.done()]


async def used(service: AgentService, agent: Agent) -> dict[str, Any]:
    return (await service.tokens(agent.id)).to_json()


@promise("model-budget-reserved-first")
async def test_chats_at_once_never_pass_the_days_dollars_together(
    host: Host, service: AgentService
) -> None:
    host.price = PRICE
    agent = await running(service, host)
    gate = Gate(host, Usage(40, 60, 100_000_000))
    chats = [asyncio.create_task(service.chat(agent.id, "hello")) for _ in range(20)]
    refused, asked = await decided(chats, gate)
    assert (len(asked), gate.inside) == (5, 5)
    assert {str(task.exception()) for task in refused} == {
        "The day's model budget has no room: 5 of 5 USD are used"
    }
    assert (await used(service, agent))["usd"] == 5
    gate.go.set()
    assert await asyncio.gather(*asked) == ["Hi."] * 5
    assert gate.inside == 5
    # Settled to what was used: there is room again.
    assert await used(service, agent) == {"tokens": 500, "usd": Decimal("0.5"), "unpricedTokens": 0}
    assert await service.chat(agent.id, "hello") == "Hi."


async def test_an_answer_is_no_longer_than_what_is_left_pays_for(
    host: Host, service: AgentService
) -> None:
    host.price = PRICE
    agent = await running(service, host, maxUsdPerDay=Decimal("1.25"))
    gate = Gate(host, Usage(0, 1, 10**6))
    chats = [asyncio.create_task(service.chat(agent.id, "hello")) for _ in range(2)]
    await decided(chats, gate)
    assert sorted(each.max_output_tokens or 0 for each in host.requests) == [250, 1_000]
    gate.go.set()
    await asyncio.gather(*chats)
    # The prompt counts too: here it costs a dollar for about ten tokens.
    host.price = ModelPrice(10**14, 10**12, 1_000)
    with pytest.raises(TokenBudgetReached, match=r"has no room: 0\.002 of 1\.25 USD are used"):
        await service.chat(agent.id, "hello")


@promise("model-budget-reserved-first")
async def test_a_cycle_and_a_chat_share_the_budget_and_a_cut_cycle_stays_counted(
    host: Host, service: AgentService
) -> None:
    host.price = PRICE
    agent = await running(service, host, maxUsdPerDay=1)
    await service.stop(agent.id)
    thinking = host.think_for_ever()
    await service.start(agent.id)
    await thinking.wait()
    with pytest.raises(TokenBudgetReached):
        await service.chat(agent.id, "hello")
    # Another process sees what this one asks for, so its end leaves it counted.
    other = agents_of(host)
    assert (await used(other, agent))["usd"] == 1
    await service.stop(agent.id)
    await service.close()
    assert (await used(other, agent))["usd"] == 1
    await other.close()


async def talk(service: AgentService, agent: Agent, *, streamed: bool) -> None:
    """A chat that is heard to its end."""
    if not streamed:
        await service.chat(agent.id, "hello")
        return
    async with aclosing(service.chat_stream(agent.id, "hello")) as pieces:
        async for _ in pieces:
            pass


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_call_without_an_answer_costs(
    host: Host, service: AgentService, streamed: bool
) -> None:
    host.price = PRICE
    agent = await running(service, host, maxUsdPerDay=9)

    async def fails(error: Exception) -> Decimal:
        def answer() -> Any:
            raise error

        host.answer = answer
        with pytest.raises(ProviderError):
            await talk(service, agent, streamed=streamed)
        return Decimal((await used(service, agent))["usd"])

    assert await fails(ProviderError("refused the key")) == 0
    assert await fails(ProviderError("came too late", may_cost=True)) == 1
    assert await fails(RuntimeError("a bug of the provider's")) == 2
    # A refusal that the vendor counted; one that it refused to begin; one of unknown usage.
    dime = Usage(10, 1, 10**8)
    counted = ModelRefused("no", reason="safety", usage=dime, may_cost=True)
    assert await fails(counted) == Decimal("2.1")
    assert await fails(ModelRefused("no", reason="safety")) == Decimal("2.1")
    assert await fails(ModelRefused("no", reason="safety", may_cost=True)) == Decimal("3.1")
    # Out of range it is believed no more than an answer's.
    assert await fails(ModelRefused("no", reason="safety", usage=Usage(0, 0, -(10**12)))) == (
        Decimal("4.1")
    )
    # An answer that cannot be read costs what the vendor counted.
    unreadable = ProviderError("the model's answer cannot be read", usage=dime, may_cost=True)
    assert await fails(unreadable) == Decimal("4.2")
    # An answer of which the vendor reports no usage.
    host.answer = lambda: Completion("Hi.")
    await talk(service, agent, streamed=streamed)
    assert (await used(service, agent))["usd"] == Decimal("5.2")


OUT_OF_RANGE = [
    Usage(-(10**15), 0, 0),
    Usage(0, -1, 0),
    Usage(0, 0, -(10**12)),
    Usage(2**63, 0, 0),
    Usage(0, 0, 2**63),
    Usage(0.5, 0, 0),  # type: ignore[arg-type]
    Usage(None, 0, 0),  # type: ignore[arg-type]
    Usage(True, 0, 0),
]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_usage_out_of_range_gives_no_budget_back(
    host: Host, service: AgentService, streamed: bool
) -> None:
    host.price = PRICE
    agent = await running(service, host, maxUsdPerDay=len(OUT_OF_RANGE))
    for number, usage in enumerate(OUT_OF_RANGE, 1):
        host.answer = partial(Completion, "Hi.", usage=usage)
        with pytest.raises(
            ProviderError, match=r"the (input|output|cost)_.* of its usage is not from 0 to"
        ):
            await talk(service, agent, streamed=streamed)
        # What was reserved stays counted.
        assert (await used(service, agent))["usd"] == number, usage


async def test_a_price_out_of_range_is_none(host: Host, service: AgentService) -> None:
    agent = await running(service, host, maxUsdPerDay=1)
    for price in (ModelPrice(-1, 0, 1), ModelPrice(0, 2**63, 1), ModelPrice(0, 0, -1)):
        host.price = price
        assert await provider_call.price(host.registry, agent) is None


NO_PRICE = [
    (TimeoutError(), "no answer within 30 s"),
    (OSError(101, "Network is unreachable"), "[Errno 101] Network is unreachable"),
    (ProviderError("The model host\ncould not be started"), "The model host could not be start"),
    (ProviderError(f"401 of https://m.example/?key={KEY}"), "401 of https://m.example/?[redac"),
    (HostBug("ModuleNotFoundError"), "an internal error (ModuleNotFoundError)"),
    (RuntimeError(f"no route with the key {KEY}"), "an internal error (RuntimeError)"),
]


async def test_a_price_that_cannot_be_told_is_one_line_of_the_log_with_its_reason(
    host: Host, service: AgentService
) -> None:
    agent = await running(service, host, maxUsdPerDay=1)
    for error, reason in NO_PRICE:
        host.price = error
        with written_log("INFO") as log:
            assert await provider_call.price(host.registry, agent) is None
        (line,) = log.getvalue().splitlines()
        assert "warning" in line
        assert "provider_price_failed" in line
        assert reason in line
        assert KEY not in line


async def test_an_answer_that_its_reader_breaks_off_stays_counted(
    host: Host, service: AgentService
) -> None:
    host.price = PRICE
    agent = await running(service, host)
    host.answer = lambda: Completion("Hi there.", usage=Usage(90, 10, 10**8))
    async with aclosing(service.chat_stream(agent.id, "hello")) as pieces:
        assert await anext(pieces) == "Hi"
    assert (await used(service, agent))["usd"] == 1
    assert [piece async for piece in service.chat_stream(agent.id, "hello")] == ["Hi", "there."]
    assert (await used(service, agent))["usd"] == Decimal("1.1")


async def test_without_a_known_price_tokens_alone_are_reserved(
    host: Host, service: AgentService
) -> None:
    agent = await running(service, host, maxTokensPerDay=20_000)
    gate = Gate(host, Usage(400, 100))
    chats = [asyncio.create_task(service.chat(agent.id, "hello")) for _ in range(2)]
    await decided(chats, gate)
    held = await used(service, agent)
    assert 2 * 8_192 < held["tokens"] <= 20_000
    assert (held["usd"], held["unpricedTokens"]) == (0, 0)
    chats.append(asyncio.create_task(service.chat(agent.id, "hello")))
    await decided(chats, gate)
    # What the two left.
    assert 0 < (host.requests[-1].max_output_tokens or 0) < 8_192
    gate.go.set()
    await asyncio.gather(*chats)
    shown = await used(service, agent)
    assert shown == {"tokens": 500 * len(chats), "usd": 0, "unpricedTokens": 500 * len(chats)}
    # The default in dollars stops no model whose price nobody knows.
    assert await service.chat(agent.id, "hello") == "Hi."


async def test_where_nothing_can_be_limited_nothing_is_reserved(
    host: Host, service: AgentService
) -> None:
    agent = await running(service, host)
    thinking = host.think_for_ever()
    chat = asyncio.create_task(service.chat(agent.id, "hello"))
    await thinking.wait()
    assert host.requests[0].max_output_tokens is None
    assert (await used(service, agent))["tokens"] == 0
    chat.cancel()


async def test_more_than_was_reserved_counts_whole(host: Host, service: AgentService) -> None:
    host.price = PRICE
    agent = await running(service, host, maxUsdPerDay=2)
    host.answer = lambda: Completion("Hi.", usage=Usage(10, 3_000, 3 * 10**9))
    await service.chat(agent.id, "hello")
    assert (await used(service, agent))["usd"] == 3
    with pytest.raises(TokenBudgetReached, match="3 of 2 USD"):
        await service.chat(agent.id, "hello")


async def test_what_is_settled_leaves_no_rest_in_any_hour(
    host: Host, service: AgentService
) -> None:
    agent = await running(service, host, maxTokensPerDay=100_000)
    budget = ModelBudget(host.database, lambda: host.registry)  # type: ignore[arg-type]
    request = await service._chat_request(agent.id, "hello")
    assert request[2] is not None
    await budget.settle(request[2], Usage(0, 0, 0))
    assert await used(service, agent) == {"tokens": 0, "usd": 0, "unpricedTokens": 0}


@promise("model-budget-reserved-first")
@pytest.mark.more
async def test_processes_share_the_budget(postgres_url: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        hosts, services = [], []
        for _ in range(2):
            database = await Database.open(postgres_url, tmp_path)
            stack.push_async_callback(database.close)
            hosts.append(Host(database))
            services.append(agents_of(hosts[-1]))
            stack.push_async_callback(services[-1].close)
        await agents_wallet(hosts[0].database)
        for each in hosts:
            each.price = PRICE
        agent = await services[0].create(BODY)
        # Running, without the queue that would run its cycles.
        async with hosts[0].database.write() as connection:
            active = {"status": "running", "desired_state": "running"}
            await store.update_agent(connection, agent.id, active)
        gates = [Gate(each, Usage(0, 60, 60_000_000)) for each in hosts]
        chats = [asyncio.create_task(services[n % 2].chat(agent.id, "hello")) for n in range(30)]
        _refused, waiting = await decided(chats, *gates)
        assert len(waiting) == 5
        for gate in gates:
            gate.go.set()
        assert await asyncio.gather(*waiting) == ["Hi."] * 5
        assert sum(gate.inside for gate in gates) == 5
        for each in services:
            assert (await used(each, agent))["usd"] == Decimal("0.3")
