"""Each bad plugin fails its own check and no other, in a plugin host and in the kit's process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.testing import bad_plugins as bad

from solward.plugins.parameters import Parameters
from solward.testing import Stand
from solward.testing.conformance import (
    Outcome,
    Report,
    check_guardrail,
    check_provider,
    check_skill,
)
from solward.testing.conformance.runner import open_conformance
from solward.testing.conformance.skills import skill_findings
from solward.testing.conformance.watch import ProcessWatch
from solward.types.guardrail import Intent, TransactionEffects

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand() -> AsyncIterator[Stand]:
    async with open_conformance() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vendor() -> AsyncIterator[str]:
    """The vendor with one call; it answers anybody."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"text": "Waiting."})

    app = web.Application()
    app.router.add_post("/complete", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


IN_HOST, IN_PROCESS = "in-host", "in-process"
# All run in this process; in a plugin host these, and the others in `make test-long`.
SAMPLES = {
    "BackDoor", "GoesOn", "SharedState", "SpendingReader", "CarriesOn", "Scribbles",
}  # fmt: skip

# What a plugin cannot do in a host, and what it fails there instead.
IMPOSSIBLE_IN_A_HOST = {
    # The context of a host has no engine behind it.
    "BackDoor": ("examples", "AttributeError at bad_plugins.py:"),
    # The environment of a host has no secrets.
    "LeakyOutcome": ("examples", "KeyError at bad_plugins.py:"),
    "LeakyError": ("edge_parameters", "KeyError at bad_plugins.py:"),
}


def both(*rows: Any) -> Any:
    """Each row of a parametrized test in both modes; its first value is the plugin's class."""
    every = []
    for row in rows:
        values, marks = (row.values, row.marks) if hasattr(row, "values") else (row, ())
        name = values[0].__name__
        every.append(pytest.param(IN_PROCESS, *values, marks=marks, id=name))
        rest = () if name in SAMPLES else (pytest.mark.long,)
        every.append(pytest.param(IN_HOST, *values, marks=rest, id=f"{name}-{IN_HOST}"))
    return every


def given(mode: str, plugin: type) -> dict[str, Any]:
    """A target in this mode."""
    if mode == IN_PROCESS:
        return {"target": plugin(), "in_process": True}
    return {"target": f"tests.testing.bad_plugins:made.{plugin.__name__}"}


def failed(report: Report, *checks: str) -> str:
    """The details of the checks that failed, which must be exactly these."""
    assert report.failed == checks, str(report)
    return "; ".join(report.finding(check).detail for check in checks)


@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_the_good_skill_conforms_and_every_check_was_made(stand: Stand, mode: str) -> None:
    report = await check_skill(**given(mode, bad.Skill), stand=stand)
    assert failed(report) == ""
    unmade = ("wheels",) if mode == IN_HOST else ("host", "manifest", "wheels")
    assert (report.warnings, report.skipped) == ((), unmade), str(report)
    assert [each.check for each in report.findings] == [
        "contract", "host", "schema", "examples", "dialects", "parameters_used", "bad_parameters",
        "edge_parameters", "effects", "timeout", "concurrency", "outcome", "secrets", "blocking",
        "errors", "money", "manifest", "wheels",
    ]  # fmt: skip
    said = "conforms" if mode == IN_HOST else "conforms, except for checks that could not run: host"
    assert str(report).startswith(f"skill skill (unknown unknown) {said}\n  ok       contract:")


@pytest.mark.parametrize(
    ("mode", "plugin", "check", "said"),
    both(
        (bad.OpenSchema, "schema", "additionalProperties: false"),
        (bad.ExampleOfAnother, "contract", "examples[0]: unknown field 'sound'"),
        (bad.FailingExample, "examples", "case 0: SkillError: Say please"),
        (bad.UnusedParameter, "parameters_used", "never reads: text"),
        (bad.UnusedInside, "parameters_used", "never reads: orders.price"),
        (bad.SpendingReader, "effects", "declares READ, but requests a transaction"),
        (bad.BackDoor, "effects", "declares READ, but requests a transaction"),
        (bad.LeakyOutcome, "secrets", "reveals API_SECRET"),
        (bad.LeakyError, "secrets", "reveals KEYSTORE_PASSPHRASE"),
        (bad.TellsItsSecret, "secrets", "a secret of its manifest, or the secret's placeholder"),
        (bad.EmptyOutcome, "outcome", "the outcome is empty"),
        (bad.EndlessOutcome, "outcome", "has 50000 characters; at most 8000"),
        (bad.SharedState, "concurrency", "state is shared"),
        (bad.SharedContext, "concurrency", "transactions: 1 when run alone"),
        (bad.GoesOn, "timeout", "continues after its cancellation"),
        (bad.TurnsItIntoAnError, "timeout", "turns its cancellation into SkillError"),
        pytest.param(
            bad.NeverEnds,
            "timeout",
            "still runs 2 s after it was cancelled",
            marks=pytest.mark.more,
        ),
        (bad.LeavesATask, "timeout", "leaves a task running: "),
        pytest.param(bad.Blocks, "blocking", "at bad_plugins.py:", marks=pytest.mark.more),
        (bad.CrashesAtTheEdge, "edge_parameters", "IndexError at bad_plugins.py:"),
        (bad.FieldOfTwoWords, "dialects", "anthropic: refuses the property name 'the text'"),
        (bad.TooManyWords, "dialects", "over 1024 characters"),
    ),
)
async def test_a_bad_skill_fails_its_own_check(
    stand: Stand, mode: str, plugin: type[bad.Skill], check: str, said: str
) -> None:
    if mode == IN_HOST:
        check, said = IMPOSSIBLE_IN_A_HOST.get(plugin.__name__, (check, said))
    assert said in failed(await check_skill(**given(mode, plugin), stand=stand), check)


@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_what_is_no_text_fails_as_an_example_and_as_an_outcome(
    stand: Stand, mode: str
) -> None:
    report = await check_skill(**given(mode, bad.NoText), stand=stand)
    assert "is no text" in failed(report, "examples", "outcome")


async def test_a_schema_that_is_not_enforced_is_found(stand: Stand) -> None:
    loose = replace(stand.skill(bad.Skill()), parameters=Parameters({"type": "object"}))
    stand.service.live.registry = replace(stand.service.live.registry, skills={"skill": loose})
    found = {each.check: each for each in await skill_findings(loose, ProcessWatch(), stand)}
    assert found["bad_parameters"].outcome is Outcome.FAILED
    assert "an unknown field is accepted" in found["bad_parameters"].detail


@pytest.mark.parametrize(
    ("mode", "plugin", "check", "outcome", "said"),
    both(
        (bad.NeverSpends, "effects", Outcome.WARNING, "never requests a transaction"),
        (bad.Undescribed, "schema", Outcome.WARNING, "without a description"),
        (bad.NoExamples, "examples", Outcome.OK, "generated from the schema"),
        (bad.PickyWithoutExamples, "examples", Outcome.SKIPPED, "That is not the word"),
    ),
)
async def test_what_is_doubtful_is_said_and_does_not_fail(
    stand: Stand, mode: str, plugin: type[bad.Skill], check: str, outcome: Outcome, said: str
) -> None:
    report = await check_skill(**given(mode, plugin), stand=stand)
    assert report.ok, str(report)
    assert report.finding(check).outcome is outcome
    assert said in report.finding(check).detail


@pytest.mark.more
@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_a_case_prepares_its_wallet(stand: Stand, mode: str) -> None:
    picky = given(mode, bad.PickyWithoutExamples)
    prepared = []

    async def case(wallet: object) -> dict[str, str]:
        prepared.append(wallet)
        return {"text": "sesame"}

    report = await check_skill(**picky, cases=[case], stand=stand)
    assert failed(report) == ""
    assert len(set(prepared)) == len(prepared) > 5

    def broken(wallet: object) -> dict[str, str]:
        raise ValueError("no tokens left")

    report = await check_skill(**picky, cases=[broken], stand=stand)
    said = failed(report, "examples")
    assert said == "case 0 could not be prepared: ValueError: no tokens left"


@pytest.mark.more
@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_the_good_provider_conforms(vendor: str, mode: str) -> None:
    report = await check_provider(**given(mode, bad.Provider), address=vendor)
    assert failed(report) == ""
    skipped = [each.check for each in report.findings if each.outcome is Outcome.SKIPPED]
    assert skipped == (["wheels"] if mode == IN_HOST else ["host", "manifest", "wheels"])
    report = await check_provider(**given(mode, bad.Provider))
    assert report.finding("answers").outcome is Outcome.SKIPPED


@pytest.mark.more
@pytest.mark.parametrize(
    ("mode", "plugin", "checks", "said"),
    both(
        (bad.OptionWithoutDefault, ["options"], "speed: is required"),
        (
            bad.LetsErrorsThrough,
            ["refused_connection", "vendor_failures"],
            "raises ConnectError, not ProviderError, if nobody answers",
        ),
        (bad.TellsItsKey, ["secrets"], "reveals its key"),
        (bad.AnswersAText, ["answers", "concurrency"], "answers a str, not a Completion"),
        (bad.SharedRequest, ["concurrency"], "state is shared"),
        (bad.CarriesOn, ["cancellation"], "turns its cancellation into Completion"),
        (bad.StreamsNumbers, ["stream"], "yields a int"),
    ),
)
async def test_a_bad_provider_fails_its_own_check(
    vendor: str, mode: str, plugin: type[bad.Provider], checks: list[str], said: str
) -> None:
    report = await check_provider(**given(mode, plugin), address=vendor)
    told = failed(report, *checks)
    # Of a mistake a host tells the type alone.
    assert said in told or (mode == IN_HOST and "TypeError" in told)


@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_the_good_guardrail_conforms_and_its_cases_hold(mode: str) -> None:
    good = given(mode, bad.Guardrail)
    swap = (Intent("swap", "w"), TransactionEffects(0, 5_000))
    transfer = (Intent("transfer", "w"), TransactionEffects(1, 5_000))
    report = await check_guardrail(**good, refused=[swap], allowed=[transfer])
    assert failed(report) == ""
    # A busy machine may be slow.
    assert {*report.warnings} <= {"quick"}
    report = await check_guardrail(**good, refused=[transfer], allowed=[swap])
    said = failed(report, "cases")
    assert said == "refused[0] is let through; allowed[0] is refused: swaps are not allowed"


@pytest.mark.more
async def test_what_a_guardrail_has_a_person_decide_is_a_case_of_its_own() -> None:
    asks = given(IN_HOST, bad.Asks)
    swap = (Intent("swap", "w"), TransactionEffects(0, 5_000))
    transfer = (Intent("transfer", "w"), TransactionEffects(1, 5_000))
    report = await check_guardrail(**asks, held=[swap], allowed=[transfer])
    assert failed(report) == ""
    report = await check_guardrail(**asks, refused=[swap], held=[transfer])
    assert failed(report, "cases") == "refused[0] is held; held[0] is let through"
    report = await check_guardrail(**asks, allowed=[swap])
    assert failed(report, "cases") == "allowed[0] is held: swaps are asked of"
    mute = await check_guardrail(**given(IN_HOST, bad.Mute))
    assert "asks a person without a reason" in failed(mute, "answer")


@pytest.mark.parametrize(
    ("mode", "plugin", "check", "said"),
    both(
        (bad.Moody, "pure", "answers 'refusal 0' and then 'refusal 1' for one transaction"),
        (bad.Raises, "does_not_raise", "KeyError"),
        (bad.SaysTrue, "answer", "answers False; return text to refuse"),
        (bad.Scribbles, "pure", "changes its arguments"),
        (bad.Silent, "answer", "refuses without a reason"),
    ),
)
async def test_a_bad_guardrail_fails_its_own_check(
    mode: str, plugin: type[bad.Guardrail], check: str, said: str
) -> None:
    assert said in failed(await check_guardrail(**given(mode, plugin)), check)


@pytest.mark.parametrize("mode", [IN_HOST, IN_PROCESS])
async def test_a_guardrail_that_refuses_all_is_doubtful(mode: str) -> None:
    report = await check_guardrail(**given(mode, bad.RefusesAll))
    assert report.ok
    assert report.warnings == ("cases",)
