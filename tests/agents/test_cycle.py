"""One cycle over injected parts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.agents import (
    AGENT,
    TOOLS,
    USDC,
    Notebook,
    Scripted,
    Skills,
    calls,
    done,
    parts,
    record_of,
)

from solward.agents.cycle import BACKOFF_CAP_MS, NextCycle, backoff_ms, run_cycle
from solward.agents.remember import EnteredCycle
from solward.agents.think import NO_REASONING
from solward.types.errors import LedgerUnavailable, ModelRefused, ProviderError, SkillNotFound
from solward.types.provider import Completion, ToolCall, Usage
from solward.types.record import TransactionStatus

NOW_MS = 1_700_000_001_000


@promise("observation-contents")
async def test_a_cycle_observes_thinks_acts_and_remembers() -> None:
    scripted, notebook, skills = (
        Scripted(calls("transfer", {"to": "x", "amount": Decimal("0.1")})),
        Notebook(),
        Skills(done),
    )

    upcoming = await run_cycle("a1", 3, parts(scripted, notebook, skills))

    assert upcoming == NextCycle(4, NOW_MS + 60_000)
    [decision] = notebook.decisions
    assert decision.cycle == 3
    assert decision.reasoning == "Because."
    assert decision.action == 'transfer({"to":"x","amount":0.1})'
    assert decision.outcome == "Sent."
    assert decision.observations == {
        "walletName": "demo",
        "walletAddress": "4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T",
        "solBalance": Decimal("1.5"),
        "tokenBalances": [{"mint": USDC, "symbol": "USDC", "uiBalance": Decimal("2.5")}],
        "recentTransactions": [
            {
                "type": "transfer",
                "status": "confirmed",
                "details": record_of().details,
                "timestamp": "2023-11-14T22:13:20.000Z",
            }
        ],
        "cycle": 3,
        "timestamp": "2023-11-14T22:13:21.000Z",
    }


@promise("model-is-given")
async def test_the_model_is_given_strategy_memory_tools_and_observation() -> None:
    scripted = Scripted(Completion("Waiting."))

    await run_cycle("a1", 1, parts(scripted))

    [request] = scripted.requests
    assert request.model == "model-1"
    assert request.tools == TOOLS
    assert request.strategy == "Keep half a SOL."
    assert request.observation["solBalance"] == Decimal("1.5")
    assert '"solBalance":1.5' in request.messages[0].content
    assert "No previous actions are recorded." in request.messages[0].content


async def test_the_call_carries_the_agents_limits_and_one_action_key_a_cycle() -> None:
    skills = Skills(done)

    await run_cycle("a1", 7, parts(Scripted(calls("transfer", {})), skills=skills))

    [(name, params, wallet_id, actor)] = skills.asked
    assert (name, params, wallet_id) == ("transfer", {}, "w1")
    assert actor.principal == "agent:a1"
    assert actor.agent_id == "a1"
    assert actor.action_key == "a1:7:transfer"
    assert actor.limits == (("agent:a1", AGENT.guardrails),)


@promise("one-tool-call-run")
async def test_no_tool_call_is_no_action_and_no_text_a_placeholder() -> None:
    notebook, skills = Notebook(), Skills(done)

    await run_cycle("a1", 1, parts(Scripted(Completion("  ")), notebook, skills))

    [decision] = notebook.decisions
    assert decision.action is None
    assert decision.outcome == "No action was taken."
    assert decision.reasoning == NO_REASONING == "No explicit reasoning was given."
    assert skills.asked == []


@promise("one-tool-call-run", "model-within-limits")
async def test_only_the_first_of_several_calls_is_run() -> None:
    skills = Skills(done)
    both = Completion(None, (ToolCall("transfer", {"n": 1}), ToolCall("transfer", {"n": 2})))

    await run_cycle("a1", 1, parts(Scripted(both), skills=skills))

    assert [params for _, params, _, _ in skills.asked] == [{"n": 1}]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ([1, 2], "Not executed: the arguments must be a JSON object"),
        ("[1]", "Not executed: the arguments must be a JSON object"),
        ("{broken", "Not executed: the arguments are not valid JSON"),
        ({"amount": float("nan")}, "Not executed: the arguments are not valid JSON"),
        ({"amount": Decimal("Infinity")}, "Not executed: the arguments are not valid JSON"),
        ({"to": "\ud800"}, "Not executed: the arguments are not valid JSON"),
        ({"to": object()}, "Not executed: the arguments are not valid JSON"),
    ],
)
async def test_bad_arguments_are_the_outcome_and_nothing_runs(arguments: Any, outcome: str) -> None:
    notebook, skills = Notebook(), Skills(done)

    await run_cycle("a1", 1, parts(Scripted(calls("transfer", arguments)), notebook, skills))

    assert notebook.decisions[0].outcome == outcome
    assert notebook.results[0].failures == 0
    assert skills.asked == []


async def test_arguments_are_exact_whether_text_or_floats() -> None:
    skills = Skills(done)
    scripted = Scripted(calls("transfer", '{"amount": 0.1}'), calls("transfer", {"amount": 0.1}))

    await run_cycle("a1", 1, parts(scripted, skills=skills))
    await run_cycle("a1", 2, parts(scripted, skills=skills))

    assert [params for _, params, _, _ in skills.asked] == [{"amount": Decimal("0.1")}] * 2


async def test_an_unknown_skill_is_the_outcome_and_no_error() -> None:
    async def unknown() -> str:
        raise SkillNotFound("steal", ["transfer"])

    notebook = Notebook()

    await run_cycle("a1", 1, parts(Scripted(calls("steal", {})), notebook, Skills(unknown)))

    assert notebook.decisions[0].outcome == "No skill named 'steal'; known: transfer"
    assert notebook.results[0].status == "running"


@promise("observation-contents")
async def test_think_still_runs_when_the_wallet_cannot_be_observed() -> None:
    async def away(wallet_id: str, mark: object) -> Any:
        raise LedgerUnavailable("the ledger did not answer")

    scripted, notebook = Scripted(Completion("Waiting.")), Notebook()

    await run_cycle("a1", 9, parts(scripted, notebook, balances=away))

    assert notebook.decisions[0].observations == {
        "error": "The wallet could not be observed: the ledger did not answer",
        "cycle": 9,
        "timestamp": "2023-11-14T22:13:21.000Z",
    }
    assert notebook.decisions[0].reasoning == "Waiting."
    assert notebook.results[0].failures == 0


async def test_a_bug_while_observing_is_shown_without_its_text() -> None:
    async def broken(wallet_id: str, mark: object) -> Any:
        raise RuntimeError("secret path")

    notebook = Notebook()

    await run_cycle("a1", 1, parts(Scripted(Completion("Hm.")), notebook, balances=broken))

    assert notebook.decisions[0].observations["error"] == (
        "The wallet could not be observed: an internal error"
    )


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (ProviderError("no credit"), "no credit"),
        (RuntimeError("secret"), "Provider 'scripted' failed with an internal error"),
    ],
)
async def test_a_failed_cycle_records_its_error_and_counts(raised: Exception, outcome: str) -> None:
    notebook = Notebook()

    upcoming = await run_cycle("a1", 1, parts(Scripted(raised), notebook))

    [decision], [result] = notebook.decisions, notebook.results
    assert (decision.action, decision.outcome) == (None, outcome)
    assert decision.observations["solBalance"] == Decimal("1.5")
    assert (result.status, result.failures, result.error) == ("running", 1, outcome)
    assert upcoming == NextCycle(2, NOW_MS + 60_000)


async def test_a_refusal_is_a_failed_cycle_with_its_reason_what_was_said_and_its_usage() -> None:
    notebook, usage = Notebook(), Usage(900, 4, 7)
    refusal = ModelRefused(
        "Vendor refused to answer this prompt (safety)",
        reason="safety", said=" I won't. ", usage=usage, may_cost=True,
    )  # fmt: skip

    with capture_logs() as logged:
        await run_cycle("a1", 1, parts(Scripted(refusal), notebook))

    [decision], [result] = notebook.decisions, notebook.results
    assert decision.outcome == "Vendor refused to answer this prompt (safety)"
    assert (decision.action, decision.reasoning, decision.usage) == (None, "I won't.", usage)
    assert (result.status, result.failures, result.error) == ("running", 1, decision.outcome)
    # What a model says is not logged, in an answer or here.
    assert logged
    assert "won't" not in repr(logged)
    silent = Notebook()
    refusal = ModelRefused("no", reason="refusal")
    await run_cycle("a1", 1, parts(Scripted(refusal), silent))
    assert silent.decisions[0].reasoning == "No explicit reasoning was given."


async def test_an_answer_that_cannot_be_read_fails_the_cycle_by_name_with_its_usage() -> None:
    notebook, usage = Notebook(), Usage(900, 4, 7)
    unreadable = ProviderError("the model's answer cannot be read", usage=usage, may_cost=True)

    await run_cycle("a1", 1, parts(Scripted(unreadable), notebook))

    [decision] = notebook.decisions
    assert (decision.action, decision.outcome, decision.usage) == (None, str(unreadable), usage)


@promise("three-failures-show-error")
async def test_three_failures_in_a_row_show_error_and_one_success_ends_it() -> None:
    def entered(failures: int) -> Notebook:
        return Notebook(entered=EnteredCycle(replace(AGENT, failures=failures), ()))

    third, after = entered(2), entered(5)

    await run_cycle("a1", 3, parts(Scripted(ProviderError("down")), third))
    await run_cycle("a1", 4, parts(Scripted(Completion("Fine.")), after))

    assert (third.results[0].status, third.results[0].failures) == ("error", 3)
    assert (after.results[0].status, after.results[0].failures) == ("running", 0)
    assert after.results[0].error is None


def test_the_backoff_doubles_to_five_minutes_and_is_never_below_the_interval() -> None:
    assert [backoff_ms(60_000, failures) for failures in range(6)] == [
        60_000,
        60_000,
        120_000,
        240_000,
        BACKOFF_CAP_MS,
        BACKOFF_CAP_MS,
    ]
    assert backoff_ms(3_600_000, 10) == 3_600_000
    assert backoff_ms(1_000, 10**6) == BACKOFF_CAP_MS


async def test_a_stale_cycle_does_nothing() -> None:
    class Stale(Notebook):
        async def enter(self, agent_id: str, cycle: int) -> EnteredCycle | None:
            return None

    notebook = Stale()

    assert await run_cycle("a1", 1, parts(Scripted(), notebook)) is None
    assert notebook.decisions == []


async def test_a_cycle_that_had_acted_is_not_decided_again() -> None:
    taken = ("transfer", record_of(status=TransactionStatus.CONFIRMED))
    scripted, skills = Scripted(), Skills(done)
    notebook = Notebook(entered=EnteredCycle(AGENT, (), taken))

    await run_cycle("a1", 1, parts(scripted, notebook, skills))

    [decision] = notebook.decisions
    assert skills.asked == []
    assert scripted.requests == []
    assert decision.action is not None
    assert decision.action.startswith('transfer({"from":')
    assert decision.outcome == "The transaction is confirmed: 5sig"


async def test_text_no_database_takes_is_mended_and_runaway_text_cut() -> None:
    notebook = Notebook()

    await run_cycle("a1", 1, parts(Scripted(Completion("a\x00\ud800" + "b" * 20_000)), notebook))

    reasoning = notebook.decisions[0].reasoning
    assert reasoning.startswith("a\ufffd\ufffdbbb")
    assert len(reasoning) <= 10_000


async def test_a_stop_while_paying_finishes_and_records_the_payment() -> None:
    paying, paid = asyncio.Event(), asyncio.Event()

    async def pay() -> str:
        paying.set()
        await paid.wait()
        return "Paid."

    notebook = Notebook()
    cycle = asyncio.create_task(
        run_cycle("a1", 1, parts(Scripted(calls("transfer", {})), notebook, Skills(pay)))
    )
    await paying.wait()
    cycle.cancel()
    await asyncio.sleep(0)
    cycle.cancel()
    await asyncio.sleep(0)
    assert not cycle.done()
    paid.set()

    with pytest.raises(asyncio.CancelledError):
        await cycle
    assert notebook.decisions[0].outcome == "Paid."


async def test_a_stop_while_thinking_or_reading_leaves_no_trace() -> None:
    begun = asyncio.Event()

    async def forever(*_: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    for cut in (
        parts(Scripted(), notebook := Notebook(), provider=lambda agent: forever),
        parts(Scripted(calls("check_balance", {})), notebook, Skills(forever)),
    ):
        begun.clear()
        cycle = asyncio.create_task(run_cycle("a1", 1, cut))
        await begun.wait()
        cycle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cycle
        assert notebook.decisions == []
