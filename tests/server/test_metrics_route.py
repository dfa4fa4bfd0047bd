"""`GET /metrics`: what happened is counted, by labels that cannot grow without bound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from tests.support.agents import agent_body
from tests.support.services import STRANGER, Answer, Api, serving_api

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(api: Api) -> Samples:
    answer = await api.get("/metrics", prefix="")
    assert answer.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


class Watched:
    """What was added to samples since it was made."""

    def __init__(self, before: Samples, after: Samples) -> None:
        self._before, self._after = before, after

    def __call__(self, name: str, **labels: str) -> float:
        key = (f"solward_{name}", frozenset(labels.items()))
        return self._after.get(key, 0) - self._before.get(key, 0)


async def test_a_payment_and_a_refusal_are_counted(api: Api) -> None:
    wallet = await api.wallet(2)
    before = await scraped(api)
    path = f"/wallets/{wallet}/transfer"
    assert (await api.post(path, {"to": STRANGER, "amount": 1})).status == 200
    assert (await api.post(path, {"to": STRANGER, "amount": 3})).status == 500
    added = Watched(before, await scraped(api))
    for status in ("pending", "confirmed", "blocked"):
        assert added("transactions_total", type="transfer", status=status) == 1, status
        assert added("audit_events_total", event=f"transaction:{status}") == 1, status
    assert added("transactions_total", type="transfer", status="failed") == 0
    assert added("guardrail_blocks_total", rule="max_per_tx") == 1
    assert added("attempts_ended_total", state="landed_ok") == 1
    assert added("confirmation_seconds_count") == 1
    route = "/api/v1/wallets/<wallet_id>/transfer"
    for status in ("200", "500"):
        assert added("http_requests_total", route=route, method="POST", status=status) == 1
    assert added("http_request_seconds_count", route=route, method="POST") == 2
    assert added("rpc_calls_total", method="sendTransaction", outcome="ok") == 1
    assert added("rpc_call_seconds_count", method="simulateTransaction") == 2
    assert added("database_transaction_seconds_count", kind="write") >= 4


async def test_gauges_say_what_the_database_and_the_ledger_hold(api: Api) -> None:
    body = agent_body(await api.wallet(), "openai", llmModel="m", strategy="wait")
    for _ in range(2):
        await api.post("/agents", body)
    samples = await scraped(api)
    assert samples["solward_agents", frozenset({("status", "idle")})] == 2
    assert samples["solward_agents", frozenset({("status", "running")})] == 0
    assert samples["solward_attempts_unknown", frozenset()] == 0
    assert samples["solward_transactions_in_flight", frozenset()] == 0
    assert samples["solward_ledger_healthy", frozenset()] == 1
    assert samples["solward_ledger_slot", frozenset()] > 0
    assert samples["solward_processes", frozenset({("kind", "api")})] == 1
    for state in ("held", "approved"):
        assert samples["solward_holds_open", frozenset({("state", state)})] == 0
    assert samples["solward_hold_oldest_seconds", frozenset()] == 0
    for reason in ("used", "until"):
        assert samples["solward_grants_near_end", frozenset({("reason", reason)})] == 0


async def test_skills_and_rate_limits_are_counted(api: Api) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key(rateLimit=1)
    before = await scraped(api)
    for skill, params in (
        ("wait", {"reason": "rest"}),
        ("transfer", {"to": STRANGER, "amount": 5}),
    ):
        await api.post(f"/wallets/{wallet}/skills/{skill}", params)
    answers: list[Answer] = [
        await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.1}, token=token)
        for _ in range(3)
    ]
    assert [answer.status for answer in answers] == [200, 429, 429]
    added = Watched(before, await scraped(api))
    assert added("skill_executions_total", skill="wait", outcome="ok") == 1
    assert added("skill_executions_total", skill="transfer", outcome="blocked") == 1
    assert added("skill_execution_seconds_count", skill="wait") == 1
    assert added("rate_limited_total") == 2


async def test_a_cycle_its_model_and_its_lag_are_counted(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        body = agent_body(await api.wallet(1), strategy="always do check_balance")
        agent = (await api.post("/agents", body)).json["id"]
        before = await scraped(api)
        with api.service.events.subscribe() as events:
            await api.post(f"/agents/{agent}/start")
            while (event := await events.next()) is not None and event.event != "agent:decision":
                pass
        await api.post(f"/agents/{agent}/stop")
        added = Watched(before, await scraped(api))
    assert added("agent_cycles_total", outcome="acted") == 1
    assert added("agent_cycle_seconds_count") == 1
    assert added("agent_cycle_lag_seconds_count") == 1
    assert added("provider_calls_total", provider="rules", outcome="ok") == 1


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/nowhere"), ("BREW", "/wallets"), ("DELETE", "/health")]
)
async def test_what_a_caller_makes_up_becomes_no_label(api: Api, method: str, path: str) -> None:
    await api.call(method, path)
    text = str([labels for _, labels in await scraped(api)])
    assert "nowhere" not in text
    assert "BREW" not in text


async def test_no_label_is_an_id_an_address_or_text(api: Api) -> None:
    wallet = await api.wallet(2)
    await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 1})
    await api.post(f"/wallets/{wallet}/skills/wait", {"reason": "a long rest"})
    await api.post(f"/wallets/{wallet}/skills/unheard-of", {})
    for name, labels in await scraped(api):
        for label, value in labels:
            assert len(value) < 64, (name, label, value)
            assert re.fullmatch(r"[\w:/<>.+-]*", value), (name, label, value)
            assert not re.search(r"[0-9a-f]{8}-|[1-9A-HJ-NP-Za-km-z]{32}", value), (name, value)
            assert value != "unheard-of"


async def test_openmetrics_is_answered_where_it_is_asked_for(api: Api) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}
    answer = await api.get("/metrics", prefix="", headers=headers)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.more
async def test_every_process_shows_the_queue_where_workers_run_the_cycles(
    tmp_path: Path, postgres_url: str
) -> None:
    rpc = {"solana_network": "localnet"}
    async with serving_api(tmp_path / "home", database_url=postgres_url, **rpc) as api:
        samples = await scraped(api)
        for status in ("todo", "doing", "stalled"):
            assert samples["solward_jobs", frozenset({("status", status)})] == 0
        assert samples["solward_processes", frozenset({("kind", "api")})] == 1
        assert samples["solward_processes", frozenset({("kind", "worker")})] == 0
        row = "INSERT INTO processes VALUES (:id, 'worker', 'elsewhere', 0, :until)"
        async with api.service.database.write() as connection:
            given = [{"id": "lives", "until": 2**62}, {"id": "is gone", "until": 1}]
            await connection.execute(text(row), given)
        samples = await scraped(api)
        assert samples["solward_processes", frozenset({("kind", "worker")})] == 1
