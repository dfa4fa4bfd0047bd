"""One transaction, or one request, can be followed through the log by what asked for it."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.support.agents import agent_body
from tests.support.engine import open_bench
from tests.support.services import STRANGER, Api, serving_api

from solward.telemetry.logs import configure
from solward.vault.money.engine import Engine
from solward.vault.money.request import Actor
from solward.vault.money.send.takeover import Process

STEPS = ["transaction_reserved", "transaction_signed", "transaction_sent", "transaction_settled"]
MADE = re.compile(r"[0-9a-f]{32}")

Line = dict[str, Any]


class Log:
    """What was logged, as JSON lines."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        configure("INFO", as_json=True, stream=self._stream)

    def lines(self, **wanted: Any) -> list[Line]:
        """The lines with these fields, in their order."""
        read = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in read if wanted.items() <= line.items()]


@pytest.fixture
def log() -> Iterator[Log]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Log()
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as made:
        yield made


def steps(lines: list[Line]) -> list[str]:
    return [line["event"] for line in lines if line["event"].startswith("transaction_")]


async def test_every_step_of_a_requests_transfer_carries_the_requests_id(
    tmp_path: Path, log: Log
) -> None:
    async with serving_api(tmp_path / "home") as api:
        wallet = await api.wallet(2)
        path = f"/wallets/{wallet}/transfer"
        answer = await api.post(path, {"to": STRANGER, "amount": 1})
        asked = answer.headers["X-Request-Id"]
        assert MADE.fullmatch(asked)
        lines = log.lines(transaction_id=answer.json["id"])
        assert steps(lines) == STEPS
        for line in lines:
            assert line["trace"] == asked
            assert (line["wallet_id"], line["type"]) == (wallet, "transfer")
            assert line["principal"] == "admin"
            known = line["event"] != "transaction_reserved"
            assert line.get("signature") == (answer.json["signature"] if known else None)
        # Its end is stored by the one task that watches all of them, which serves no request.
        assert [line.get("request_id") for line in lines] == [asked, asked, asked, None]
        assert lines[-1]["status"] == "confirmed"

        refused = await api.post(path, {"to": STRANGER, "amount": 3})
        [line] = log.lines(trace=refused.headers["X-Request-Id"])
        assert line["event"] == "transaction_blocked"
        assert "2 SOL allowed per transaction" in line["error"]


async def test_every_step_of_a_cycles_transfer_carries_agent_and_cycle(
    tmp_path: Path, log: Log
) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        body = agent_body(await api.wallet(2), strategy="always do wrap_sol amount=1")
        agent = await one_cycle(api, body)
        lines = log.lines(trace=f"agent:{agent}:1")
        assert steps(lines) == STEPS
        assert len({line["transaction_id"] for line in lines}) == 1
        assert {line["agent_id"] for line in lines} == {agent}
        assert {line["principal"] for line in lines} == {f"agent:{agent}"}
        assert [line.get("cycle") for line in lines] == [1, 1, 1, None]
        assert not any("request_id" in line for line in lines)


async def one_cycle(api: Api, body: Any) -> str:
    """Run an agent until it has decided once; its id."""
    agent = str((await api.post("/agents", body)).json["id"])
    with api.service.events.subscribe() as events:
        await api.post(f"/agents/{agent}/start")
        while (event := await events.next()) is not None and event.event != "agent:decision":
            pass
    await api.post(f"/agents/{agent}/stop")
    return agent


async def test_who_takes_a_transaction_over_goes_on_with_its_trace(
    tmp_path: Path, log: Log
) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.01) as bench:
        bench.wire.away("sendTransaction")
        record = await bench.transfer(1, Actor("admin", trace="asked-here"))
        await bench.engine.sender.close()
        bench.wire.faults.clear()
        other = Process.new()
        options = bench.engine._options
        engine = Engine(bench.ledger, bench.database, bench.wallets, options, process=other)
        engine.start()
        await engine.reconcile(20)
        await engine.close()
    lines = log.lines(transaction_id=record.id)
    assert steps(lines) == [*STEPS[:3], "transaction_taken_over", STEPS[3]]
    assert {line["trace"] for line in lines if line["event"] in [*STEPS, "transaction_taken_over"]
            } == {"asked-here"}  # fmt: skip
    [line] = log.lines(event="transaction_taken_over")
    assert (line["by"], line["signature"]) == (other.id, record.signature)


@pytest.mark.parametrize("given", ["a", "9f1c-42.B_7", "x" * 128])
async def test_a_callers_own_id_is_kept(api: Api, given: str) -> None:
    answer = await api.get("/wallets", headers={"X-Request-Id": given})
    assert answer.headers["X-Request-Id"] == given


@pytest.mark.parametrize(
    "given", ["", " ", "x" * 129, "a b", "a;b", 'a"b', "{}", "é", "a,b", "<script>", "a/b"]
)
async def test_an_id_that_could_pass_for_something_else_is_replaced(api: Api, given: str) -> None:
    answer = await api.get("/wallets", headers={"X-Request-Id": given})
    assert MADE.fullmatch(answer.headers["X-Request-Id"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("DELETE", "/health", 405), ("GET", "/keys", 401)],
)
async def test_errors_carry_an_id_too_and_each_request_another(
    api: Api, method: str, path: str, status: int
) -> None:
    answers = [await api.call(method, path, token=None) for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == 2


async def test_a_bugs_traceback_names_the_request(
    api: Api, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_given: Any, **_named: Any) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(type(api.service.history), "page", broken)
    answer = await api.get("/transactions")
    assert answer.status == 500
    [line] = log.lines(request_id=answer.headers["X-Request-Id"])
    assert (line["event"], "LookupError: a bug" in line["exception"]) == ("request_crashed", True)
