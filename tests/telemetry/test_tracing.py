"""Traces reach a real collector: one for each request, whole, and without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from structlog.testing import capture_logs
from tests.support.agents import agent_body
from tests.support.http import Handler, served_in_thread
from tests.support.services import SECRET, STRANGER, serving_api

from solward.telemetry import tracing
from solward.telemetry.scrub import REDACTED, scrub_text

TOKEN = "collector-token-of-a-test"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Collector:
    """What an OTLP receiver was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Receiving(Handler):
            def post(self) -> None:
                collector.headers.append(
                    {name.lower(): each for name, each in self.headers.items()}
                )
                body = self.body()
                if self.path == "/v1/traces":
                    collector.bodies.append(body)
                self.reply(200)

        self.handler = Receiving
        self.url = ""

    def sent(self) -> list[Any]:
        """Each resource with its spans, decoded."""
        return [each for body in self.bodies
                for each in ExportTraceServiceRequest.FromString(body).resource_spans]  # fmt: skip

    def spans(self) -> list[Any]:
        return [span for each in self.sent() for scope in each.scope_spans for span in scope.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    with served_in_thread(made.handler) as made.url:
        yield made


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> Iterator[None]:
    """Send spans to the collector; all of them are there when the block has ended."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer%20{TOKEN}")
    stop = tracing.start("solward-api", "1.2.3")
    try:
        yield
    finally:
        stop()


def attributes(span: Any) -> dict[str, Any]:
    found = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = getattr(each.value, kind)
    return found


async def test_one_transfer_is_one_trace_with_all_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    async with serving_api(tmp_path / "home") as api:
        wallet = await api.wallet(2)
        with exporting(monkeypatch, collector):
            answer = await api.post(
                f"/wallets/{wallet}/transfer",
                {"to": STRANGER, "amount": 1},
                headers={"traceparent": PARENT, "X-Request-Id": "asked"},
            )
            assert answer.status == 200
    spans = {span.name: span for span in collector.spans()}
    request = spans["POST /api/v1/wallets/<wallet_id>/transfer"]
    assert {span.trace_id.hex() for span in spans.values()} == {PARENT.split("-")[1]}
    assert request.parent_span_id.hex() == PARENT.split("-")[2]
    assert attributes(request) == {"solward.request_id": "asked", "solward.status": 200}
    transaction = spans["transaction"]
    assert transaction.parent_span_id == request.span_id
    assert attributes(transaction) == {
        "solward.transaction_id": answer.json["id"],
        "solward.wallet_id": wallet,
        "solward.principal": "admin",
        "solward.type": "transfer",
        "solward.trace": "asked",
    }
    steps = ["assess", "reserve", "sign", "send", "confirm"]
    found = [spans[f"transaction.{step}"] for step in steps]
    assert {span.parent_span_id for span in found} == {transaction.span_id}
    begins = [span.start_time_unix_nano for span in found]
    assert begins == sorted(begins)
    calls = {attributes(span)["solward.method"]: span.parent_span_id
             for span in collector.spans() if span.name == "rpc"}  # fmt: skip
    assert calls["sendTransaction"] == spans["transaction.send"].span_id
    assert calls["simulateTransaction"] == spans["transaction.assess"].span_id
    # The one task that polls for every transaction belongs to no request's trace.
    assert "getSignatureStatuses" not in calls


@pytest.mark.more
async def test_a_cycle_is_one_trace_with_its_phases_its_model_and_its_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        body = agent_body(await api.wallet(2), strategy="always do wrap_sol amount=1")
        agent = (await api.post("/agents", body)).json["id"]
        with (
            exporting(monkeypatch, collector),
            api.service.events.subscribe() as events,
        ):
            await api.post(f"/agents/{agent}/start")
            while (event := await events.next()) is not None and event.event != "agent:decision":
                pass
            await api.post(f"/agents/{agent}/stop")
    spans = {span.name: span for span in collector.spans()}
    cycle = spans["agent.cycle"]
    assert attributes(cycle) == {"solward.agent_id": agent, "solward.cycle": 1}
    # Its own trace: whoever started the agent is not waiting for it.
    assert cycle.parent_span_id == b""
    names = ["agent.observe", "agent.think", "agent.act", "agent.remember", "provider.complete",
             "skill", "transaction", "transaction.sign"]  # fmt: skip
    assert {spans[name].trace_id for name in names} == {cycle.trace_id}
    assert spans["provider.complete"].parent_span_id == spans["agent.think"].span_id
    assert spans["skill"].parent_span_id == spans["agent.act"].span_id
    assert attributes(spans["transaction"])["solward.trace"] == f"agent:{agent}:1"


def leak(secret: str) -> None:
    """Let a secret into every part of a span."""
    with tracing.span("t", api_key=secret, note=f"with {secret}", missing=None) as span:
        span.set(more=f"Bearer {SECRET}")
        raise LookupError(f"refused {secret} at https://a:b@rpc.example/?key=canary")


async def test_no_secret_reaches_the_collector_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    vendor = "sk-" + "ab12" * 8
    async with serving_api(tmp_path / "home") as api:
        token, _ = await api.key()
        wallet = await api.wallet(2)
        with exporting(monkeypatch, collector):
            answer = await api.post(
                f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 1}, token=token
            )
            assert answer.status == 200
            with pytest.raises(LookupError):
                leak(vendor)
    raw = b"".join(collector.bodies)
    for secret in (vendor, SECRET, token, TOKEN, "canary", "a:b"):
        assert secret.encode() not in raw
    [span] = [span for span in collector.spans() if span.name == "t"]
    found = attributes(span)
    assert found["solward.api_key"] == REDACTED
    assert "solward.missing" not in found
    assert span.status.message.startswith("LookupError: refused")
    assert {headers["authorization"] for headers in collector.headers} == {f"Bearer {TOKEN}"}


async def test_the_collectors_token_leaves_the_environment_and_is_concealed(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with exporting(monkeypatch, collector):
        assert "OTEL_EXPORTER_OTLP_HEADERS" not in os.environ
        assert TOKEN not in scrub_text(f"401 for {TOKEN}")


def test_the_service_is_named_and_what_libraries_trace_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    from opentelemetry import trace

    with exporting(monkeypatch, collector):
        with trace.get_tracer("vendor").start_as_current_span("prompt"):
            pass
        with tracing.span("ours"):
            pass
    [sent] = collector.sent()
    resource = {each.key: each.value.string_value for each in sent.resource.attributes}
    assert (resource["service.name"], resource["service.version"]) == ("solward-api", "1.2.3")
    assert [span.name for span in collector.spans()] == ["ours"]


def test_a_malformed_traceparent_begins_a_trace_of_its_own(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    with exporting(monkeypatch, collector):
        for given in ("", "00-zz-xx-01", "x" * 10_000):
            with tracing.request_span("GET /", given):
                pass
    spans = collector.spans()
    assert len({span.trace_id for span in spans}) == 3
    assert all(span.parent_span_id == b"" for span in spans)


def test_without_an_endpoint_there_is_nothing_and_nothing_is_loaded() -> None:
    stop = tracing.start("solward-api", "1.2.3", {})
    assert tracing.span("a") is tracing.child_span("b") is tracing.request_span("c", PARENT)
    stop()
    program = (
        "import sys; from solward.telemetry import tracing; tracing.start('a', '1', {});"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "only the protocol http/protobuf is supported"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "only the protocol"),
    ],
)
def test_a_protocol_that_is_not_spoken_is_said(environ: dict[str, str], reason: str) -> None:
    with capture_logs() as logs:
        tracing.start("a", "1", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} | environ)()
    assert [line["event"] for line in logs] == ["traces_off"]
    assert reason in logs[0]["reason"]
    assert tracing.span("a") is tracing.span("b")


def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(tracing.importlib.util, "find_spec", gone)
    with capture_logs() as logs:
        tracing.start("a", "1", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"})()
    assert "solward[otel]" in logs[0]["reason"]


def test_a_collector_that_is_away_holds_up_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "STOP_WAIT_S", 0.05)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    stop = tracing.start("a", "1")
    with tracing.span("t"):
        pass
    with capture_logs() as logs:
        began = time.monotonic()
        stop()
        assert time.monotonic() - began < 1
    assert [line["event"] for line in logs] == ["traces_lost"]
    assert tracing.span("a") is tracing.span("b")
