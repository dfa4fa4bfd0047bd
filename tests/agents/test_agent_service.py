"""The agents of one process: their states, on a real store, with a scripted provider."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.promises import promise
from tests.support.agents import BODY, Host, agents_of, agents_wallet

from solward.agents import store
from solward.agents.agent import Agent
from solward.agents.service import AgentService
from solward.database.database import Database
from solward.database.tables import audit
from solward.support import jsontext
from solward.types.errors import (
    InvalidRequest,
    ProviderError,
    TokenBudgetReached,
    WalletNotFound,
)
from solward.types.provider import Completion, ProviderContext, ToolCall, Usage

REMOVED = (
    "The provider 'scripted' is not loaded: install its plugin (`solward plugins list` shows which"
    " plugins are not loaded, and why), or give the agent another llmProvider"
)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    database = await Database.open(None, tmp_path)
    await agents_wallet(database)
    yield Host(database)
    await database.close()


@pytest.fixture
async def service(host: Host) -> AsyncIterator[AgentService]:
    opened = agents_of(host)
    yield opened
    await opened.close()


async def shown(service: AgentService, agent: Agent) -> tuple[str, str]:
    now = await service.get(agent.id)
    return now.status.value, now.desired_state.value


@promise("agents-survive-restart")
async def test_a_created_agent_is_idle_persisted_and_written_as_the_contract_says(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)

    body = (await service.get(agent.id)).to_json()
    assert body.pop("createdAt").endswith("Z")
    assert body == {
        "id": agent.id,
        "name": "Ada",
        "walletId": "w1",
        "llmProvider": "scripted",
        "llmModel": "model-1",
        "llmOptions": {},
        "llmBudget": {"maxUsdPerDay": Decimal(5)},
        "isLlm": True,
        "strategy": "Whatever the script says.",
        "guardrails": {
            "maxSolPerTransaction": Decimal(2),
            "maxTransactionsPerMinute": 5,
            "dailySpendingLimitSol": Decimal(10),
        },
        "loopIntervalMs": 3_600_000,
        "status": "idle",
    }
    assert await service.list() == (agent,)


async def test_bad_bodies_and_unknown_wallets_create_nothing(service: AgentService) -> None:
    with pytest.raises(InvalidRequest, match="llmProvider must be one of: scripted"):
        await service.create(BODY | {"llmProvider": "rules"})
    with pytest.raises(WalletNotFound):
        await service.create(BODY | {"walletId": "nobody"})
    assert await service.list() == ()


@promise("start-and-stop-repeat")
async def test_the_states_follow_the_contracts_table(host: Host, service: AgentService) -> None:
    agent = await service.create(BODY)
    assert await shown(service, agent) == ("idle", "stopped")
    for command, expected in [
        (service.start, ("running", "running")),
        (service.start, ("running", "running")),
        (service.stop, ("stopped", "stopped")),
        (service.stop, ("stopped", "stopped")),
        (service.start, ("running", "running")),
        (service.pause, ("paused", "paused")),
        (service.pause, ("paused", "paused")),
        (service.start, ("running", "running")),
        (service.pause, ("paused", "paused")),
        (service.stop, ("stopped", "stopped")),
    ]:
        await command(agent.id)
        assert await shown(service, agent) == expected
    with pytest.raises(InvalidRequest, match="Agent is not running"):
        await service.pause(agent.id)
    await service.delete(agent.id)
    told = [
        (event, data["status"])
        for event, data in host.published
        if event != "agent:decision" and "status" in data
    ]
    assert told == [
        ("agent:started", "running"),
        ("agent:stopped", "stopped"),
        ("agent:started", "running"),
        ("agent:paused", "paused"),
        ("agent:started", "running"),
        ("agent:paused", "paused"),
        ("agent:stopped", "stopped"),
    ]


@promise("decision-is-audited")
async def test_a_started_agent_decides_and_the_decision_is_audited(
    host: Host, service: AgentService
) -> None:
    host.answer = lambda: Completion("Pay now.", (ToolCall("pay", {"amount": Decimal("0.5")}),))
    agent = await service.create(BODY)

    await service.start(agent.id)
    await host.decisions(1)

    [decision] = await service.decisions(agent.id)
    assert (decision.cycle, decision.reasoning) == (1, "Pay now.")
    assert (decision.action, decision.outcome) == ('pay({"amount":0.5})', "Paid.")
    assert decision.observations["solBalance"] == 1
    [entry] = await service.memory(agent.id)
    assert entry.to_json() == {
        name: value
        for name, value in decision.to_json().items()
        if name not in ("agentId", "observations")
    }
    assert host.paid == [f"{agent.id}:1:pay"]
    async with host.database.read() as connection:
        rows = (await connection.execute(select(audit).order_by(audit.c.seq))).all()
    subject = {"agentId": agent.id, "name": agent.name, "principal": "service"}
    created = subject | {"after": jsontext.loads(jsontext.dumps(agent.to_audit()))}
    before, after = {"status": "idle"}, {"status": "running"}
    started = subject | after | {"before": before, "after": after}
    told = [
        ("agent:created", created),
        ("agent:started", started),
        ("agent:decision", decision.to_json()),
    ]
    assert [(row.event, jsontext.loads(row.data)) for row in rows] == told
    assert host.published == told


async def test_three_failed_cycles_show_error_and_start_recovers(
    host: Host, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.agents.cycle.backoff_ms", lambda interval, failures: 1)
    host.answer = lambda: ProviderError("no credit")
    agent = await service.create(BODY)
    await service.start(agent.id)
    await host.decisions(3)

    failed = await service.get(agent.id)
    assert failed.to_json()["status"] == "error"
    assert failed.to_json()["error"] == "no credit"
    assert failed.desired_state == "running"
    await host.decisions(1)
    errors = [data for event, data in host.published if event == "agent:error"]
    told = {"agentId": agent.id, "name": agent.name, "status": "error", "error": "no credit"}
    by = {"principal": f"agent:{agent.id}"}
    assert errors == [told | by | {"before": {"status": "running"}, "after": {"status": "error"}}]

    host.answer = lambda: Completion("Fine again.")
    await service.start(agent.id)
    async with asyncio.timeout(10):
        while (await service.decisions(agent.id, limit=1))[0].outcome == "no credit":
            await host.decisions(1)
    recovered = await service.get(agent.id)
    assert (recovered.status, recovered.failures, recovered.error) == ("running", 0, None)


async def test_stop_abandons_thinking_and_the_cycle_is_run_again_later(
    host: Host, service: AgentService
) -> None:
    thinking = host.think_for_ever()
    agent = await service.create(BODY)
    await service.start(agent.id)
    await thinking.wait()
    await service.stop(agent.id)
    assert await service.decisions(agent.id) == ()

    host.answer = lambda: Completion("Now.")
    await service.start(agent.id)
    await host.decisions(1)
    assert [decision.cycle for decision in await service.decisions(agent.id)] == [1]


async def test_a_change_holds_from_the_next_cycle_on(host: Host, service: AgentService) -> None:
    agent = await service.create(BODY)
    changed = await service.update(
        agent.id, {"strategy": "Another.", "guardrails": {"maxTransactionsPerMinute": 1}}
    )
    assert changed == await service.get(agent.id)
    assert changed.guardrails.max_tx_per_minute == 1
    await service.start(agent.id)
    await host.decisions(1)
    assert host.requests[0].strategy == "Another."
    assert "at most 1 transactions per minute" in host.requests[0].system


async def test_statistics_have_both_shapes(service: AgentService) -> None:
    agents = [await service.create(BODY) for _ in range(3)]
    await service.start(agents[0].id)
    await service.start(agents[1].id)
    await service.stop(agents[1].id)
    assert await service.statistics() == {
        "total": 3,
        "running": 1,
        "totalAgents": 3,
        "runningAgents": 1,
        "stoppedAgents": 1,
        "idleAgents": 1,
    }


@promise("chat-needs-running-agent", "chat-runs-no-tool")
async def test_chat_answers_while_running_and_runs_no_tools(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    with pytest.raises(InvalidRequest, match="Agent is not running"):
        await service.chat(agent.id, "hello")
    await service.start(agent.id)
    await host.decisions(1)
    host.answer = lambda: Completion("Hi.", (ToolCall("pay", {}),))

    assert await service.chat(agent.id, "hello") == "Hi."
    assert host.paid == []
    assert host.requests[-1].tools == ()
    assert "hello" in host.requests[-1].messages[0].content
    for wrong in ("", "  ", 5):
        with pytest.raises(InvalidRequest, match="message must be a non-empty string"):
            await service.chat(agent.id, wrong)  # type: ignore[arg-type]


async def test_an_uninstalled_provider_fails_the_cycle_and_says_so(
    host: Host, service: AgentService
) -> None:
    agent = await service.create(BODY)
    await service.start(agent.id)
    await host.decisions(1)
    await service.close()
    host.registry.providers.clear()
    async with host.database.write() as connection:
        await store.update_agent(connection, agent.id, {"next_run_ms": 0})
    restarted = agents_of(host)
    await restarted.resume()
    await host.decisions(1)
    await restarted.close()
    assert (await restarted.decisions(agent.id))[0].outcome == REMOVED
    await restarted.stop(agent.id)
    with pytest.raises(InvalidRequest, match=re.escape(REMOVED)):
        await restarted.start(agent.id)


async def test_starting_without_a_key_says_which_variable_to_set(
    host: Host, service: AgentService
) -> None:
    host.lent = ProviderContext()
    agent = await service.create(BODY)
    with pytest.raises(InvalidRequest, match="Set SCRIPTED_KEY to start an agent of the provider"):
        await service.start(agent.id)
    assert await shown(service, agent) == ("idle", "stopped")
    host.lent = ProviderContext(None, "http://127.0.0.1:8080/v1")
    await service.start(agent.id)
    await host.decisions(1)
    assert host.asked == [({}, host.lent)]


async def test_options_are_the_providers_own_and_reach_it(
    host: Host, service: AgentService
) -> None:
    with pytest.raises(InvalidRequest, match=r"llmOptions: .*speed"):
        await service.create(BODY | {"llmOptions": {"speed": 5}})
    agent = await service.create(BODY | {"llmOptions": {"effort": "low"}})
    assert (await service.get(agent.id)).to_json()["llmOptions"] == {"effort": "low"}
    with pytest.raises(InvalidRequest, match="llmOptions: "):
        await service.update(agent.id, {"llmOptions": {"effort": 5}})
    await service.update(agent.id, {"llmOptions": {"effort": "high"}})
    await service.start(agent.id)
    await host.decisions(1)
    assert host.asked == [({"effort": "high"}, host.lent)]


async def test_what_the_model_takes_is_recorded_and_a_used_up_day_asks_it_no_more(
    host: Host, service: AgentService
) -> None:
    host.answer = lambda: Completion("Waiting.", usage=Usage(900, 100, 2_500_000))
    budget = {"maxTokensPerDay": 1_300, "maxUsdPerDay": 1}
    agent = await service.create(BODY | {"llmBudget": budget, "loopIntervalMs": 1000})
    await service.start(agent.id)
    await host.decisions(2)
    await service.stop(agent.id)
    second, first = await service.decisions(agent.id)
    assert first.to_json()["usage"] == {
        "inputTokens": 900, "outputTokens": 100, "costUsd": Decimal("0.0025"),
    }  # fmt: skip
    assert host.requests[0].max_output_tokens is not None
    assert 0 < host.requests[0].max_output_tokens < 1_300
    assert second.usage is None
    assert second.outcome.startswith("Waiting: The token budget has no room")
    assert len(host.requests) == 1
    assert (await service.get(agent.id)).failures == 0
    assert (await service.tokens(agent.id)).to_json() == {
        "tokens": 1_000, "usd": Decimal("0.0025"), "unpricedTokens": 0,
    }  # fmt: skip
    await service.delete(agent.id)


async def test_a_price_nobody_knows_cannot_be_kept_within_a_limit_in_dollars(
    host: Host, service: AgentService
) -> None:
    host.answer = lambda: Completion("Hi.", usage=Usage(9, 1))
    agent = await service.create(BODY | {"llmBudget": {"maxUsdPerDay": 1}})
    await service.start(agent.id)
    await host.decisions(1)
    with pytest.raises(TokenBudgetReached, match="price of 'model-1' is not known"):
        await service.chat(agent.id, "hello")


async def test_a_chat_counts_whole_or_in_pieces(host: Host, service: AgentService) -> None:
    agent = await service.create(BODY)
    await service.start(agent.id)
    await host.decisions(1)
    host.answer = lambda: Completion("Hi there.", usage=Usage(90, 10, 7))
    assert await service.chat(agent.id, "hello") == "Hi there."
    assert [piece async for piece in service.chat_stream(agent.id, "hello")] == ["Hi", "there."]
    assert (await service.tokens(agent.id)).tokens == 200
    await service.stop(agent.id)
    with pytest.raises(InvalidRequest, match="Agent is not running"):
        await anext(service.chat_stream(agent.id, "hello"))
