"""Each bad plugin fails its own check and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.testing import bad_plugins as bad

from solward.guardrail import Intent, TransactionEffects
from solward.registry.parameters import Parameters
from solward.testing import Stand
from solward.testing.conformance import (
    Outcome,
    Report,
    check_guardrail,
    check_provider,
    check_skill,
)
from solward.testing.conformance.runner import open_conformance

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


def failed(report: Report, *checks: str) -> str:
    """The details of the checks that failed, which must be exactly these."""
    assert report.failed == checks, str(report)
    return "; ".join(report.finding(check).detail for check in checks)


async def test_the_good_skill_conforms_and_every_check_was_made(stand: Stand) -> None:
    report = await check_skill(bad.Skill(), stand=stand)
    assert failed(report) == ""
    assert [each.outcome for each in report.findings] == [Outcome.OK] * 13, str(report)
    assert [each.check for each in report.findings] == [
        "contract", "schema", "examples", "dialects", "parameters_used", "bad_parameters",
        "edge_parameters", "effects", "timeout", "concurrency", "outcome", "secrets", "blocking",
    ]  # fmt: skip
    assert str(report).startswith("skill skill (unknown unknown) conforms\n  ok       contract:")


@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        (bad.OpenSchema(), "schema", "additionalProperties: false"),
        (bad.ExampleOfAnother(), "contract", "examples[0]: unknown field 'sound'"),
        (bad.FailingExample(), "examples", "case 0: SkillError: Say please"),
        (bad.UnusedParameter(), "parameters_used", "never looked at: text"),
        (bad.UnusedInside(), "parameters_used", "never looked at: orders.price"),
        (bad.SpendingReader(), "effects", "declares READ and asks for a transaction"),
        (bad.BackDoor(), "effects", "declares READ and asks for a transaction"),
        (bad.LeakyOutcome(), "secrets", "tells API_SECRET"),
        (bad.LeakyError(), "secrets", "tells KEYSTORE_PASSPHRASE"),
        (bad.EmptyOutcome(), "outcome", "the outcome is empty"),
        (bad.EndlessOutcome(), "outcome", "has 50000 characters; at most 8000"),
        (bad.SharedState(), "concurrency", "state is shared"),
        (bad.SharedContext(), "concurrency", "transactions on a wallet, alone 1"),
        (bad.GoesOn(), "timeout", "goes on after it is cancelled"),
        (bad.TurnsItIntoAnError(), "timeout", "turns its cancellation into SkillError"),
        pytest.param(
            bad.NeverEnds(),
            "timeout",
            "still runs 2 s after it was cancelled",
            marks=pytest.mark.more,
        ),
        (bad.LeavesATask(), "timeout", "leaves a task running: "),
        pytest.param(bad.Blocks(), "blocking", "at bad_plugins.py:", marks=pytest.mark.more),
        (bad.CrashesAtTheEdge(), "edge_parameters", "IndexError at bad_plugins.py:"),
        (bad.FieldOfTwoWords(), "dialects", "anthropic: refuses the property name 'the text'"),
        (bad.TooManyWords(), "dialects", "over 1024 characters"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, bad.Skill) else "",
)
async def test_a_bad_skill_fails_its_own_check(
    stand: Stand, plugin: bad.Skill, check: str, said: str
) -> None:
    assert said in failed(await check_skill(plugin, stand=stand), check)


async def test_what_is_no_text_fails_as_an_example_and_as_an_outcome(stand: Stand) -> None:
    assert "is no text" in failed(
        await check_skill(bad.NoText(), stand=stand), "examples", "outcome"
    )


async def test_a_schema_that_is_not_enforced_is_found(stand: Stand) -> None:
    loose = replace(stand.skill(bad.Skill()), parameters=Parameters({"type": "object"}))
    stand.service.registry = replace(stand.service.registry, skills={"skill": loose})
    from solward.testing.conformance.skills import skill_findings

    found = {each.check: each for each in await skill_findings(loose, stand)}
    assert found["bad_parameters"].outcome is Outcome.FAILED
    assert "an unknown field is accepted" in found["bad_parameters"].detail


@pytest.mark.parametrize(
    ("plugin", "check", "outcome", "said"),
    [
        (bad.NeverSpends(), "effects", Outcome.WARNING, "never asks for a transaction"),
        (bad.Undescribed(), "schema", Outcome.WARNING, "no description"),
        (bad.NoExamples(), "examples", Outcome.OK, "made up from the schema"),
        (bad.PickyWithoutExamples(), "examples", Outcome.SKIPPED, "That is not the word"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, bad.Skill) else "",
)
async def test_what_is_doubtful_is_said_and_does_not_fail(
    stand: Stand, plugin: bad.Skill, check: str, outcome: Outcome, said: str
) -> None:
    report = await check_skill(plugin, stand=stand)
    assert report.ok, str(report)
    assert report.finding(check).outcome is outcome
    assert said in report.finding(check).detail


async def test_a_case_prepares_its_wallet(stand: Stand) -> None:
    prepared = []

    async def case(wallet: object) -> dict[str, str]:
        prepared.append(wallet)
        return {"text": "sesame"}

    report = await check_skill(bad.PickyWithoutExamples(), cases=[case], stand=stand)
    assert failed(report) == ""
    assert len(set(prepared)) == len(prepared) > 5

    def broken(wallet: object) -> dict[str, str]:
        raise ValueError("no tokens left")

    report = await check_skill(bad.PickyWithoutExamples(), cases=[broken], stand=stand)
    said = failed(report, "examples")
    assert said == "case 0 could not be prepared: ValueError: no tokens left"


async def test_the_good_provider_conforms(vendor: str) -> None:
    report = await check_provider(bad.Provider(), address=vendor)
    assert failed(report) == ""
    skipped = [each.check for each in report.findings if each.outcome is Outcome.SKIPPED]
    assert skipped == ["stream"]
    report = await check_provider(bad.Provider())
    assert report.finding("answers").outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("plugin", "checks", "said"),
    [
        (bad.OptionWithoutDefault(), ["options"], "speed: is required"),
        (
            bad.LetsErrorsThrough(),
            ["refused_connection", "vendor_failures"],
            "where nobody answers it raises ConnectError, not ProviderError",
        ),
        (bad.TellsItsKey(), ["secrets"], "tells its key"),
        (bad.AnswersAText(), ["answers", "concurrency"], "answers a str, not a Completion"),
        (bad.SharedRequest(), ["concurrency"], "state is shared"),
        (bad.CarriesOn(), ["cancellation"], "turns it into Completion"),
        (bad.StreamsNumbers(), ["stream"], "yields a int"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, bad.Provider) else "",
)
async def test_a_bad_provider_fails_its_own_check(
    vendor: str, plugin: bad.Provider, checks: list[str], said: str
) -> None:
    assert said in failed(await check_provider(plugin, address=vendor), *checks)


async def test_the_good_guardrail_conforms_and_its_cases_hold() -> None:
    swap = (Intent("swap", "w"), TransactionEffects(0, 5_000))
    transfer = (Intent("transfer", "w"), TransactionEffects(1, 5_000))
    report = await check_guardrail(bad.Guardrail(), refused=[swap], allowed=[transfer])
    assert failed(report) == ""
    assert not report.warnings
    report = await check_guardrail(bad.Guardrail(), refused=[transfer], allowed=[swap])
    said = failed(report, "cases")
    assert said == "refused[0] is let through; allowed[0] is refused: swaps are not allowed"


async def test_what_a_guardrail_has_a_person_decide_is_a_case_of_its_own() -> None:
    swap = (Intent("swap", "w"), TransactionEffects(0, 5_000))
    transfer = (Intent("transfer", "w"), TransactionEffects(1, 5_000))
    report = await check_guardrail(bad.Asks(), held=[swap], allowed=[transfer])
    assert failed(report) == ""
    report = await check_guardrail(bad.Asks(), refused=[swap], held=[transfer])
    assert failed(report, "cases") == "refused[0] is held; held[0] is let through"
    report = await check_guardrail(bad.Asks(), allowed=[swap])
    assert failed(report, "cases") == "allowed[0] is held: swaps are asked of"
    assert "asks a person without a reason" in failed(await check_guardrail(bad.Mute()), "answer")


@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        (bad.Moody(), "pure", "answers 'refusal 0' and then 'refusal 1' to the same"),
        (bad.Raises(), "does_not_raise", "KeyError"),
        (bad.SaysTrue(), "answer", "answers False; a refusal is text"),
        (bad.Scribbles(), "pure", "changes what it is given"),
        (bad.Silent(), "answer", "refuses without a reason"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, bad.Guardrail) else "",
)
async def test_a_bad_guardrail_fails_its_own_check(
    plugin: bad.Guardrail, check: str, said: str
) -> None:
    assert said in failed(await check_guardrail(plugin), check)


async def test_a_guardrail_that_refuses_all_is_doubtful() -> None:
    report = await check_guardrail(bad.RefusesAll())
    assert report.ok
    assert report.warnings == ("cases",)
