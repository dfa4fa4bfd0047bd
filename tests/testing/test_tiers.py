"""Which tier a plugin reaches, and what keeps it from the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.plugins import HEAD, wheel
from tests.testing import bad_plugins as bad
from tests.testing.test_bad_plugins_are_found import IN_HOST, given

from solward import InvalidRequest, SkillContext
from solward.testing import Stand
from solward.testing.conformance import (
    TIERS,
    Finding,
    Outcome,
    Report,
    check_path_or_name,
    check_skill,
)
from solward.testing.conformance.report import lowest_grade
from solward.testing.conformance.runner import check, load_plugins, open_conformance, run
from solward.testing.conformance.skill_runs import Subject, WatchedSkill
from solward.testing.conformance.skills import check_money
from solward.testing.targets import entry_point_of

OK = {check: Outcome.OK for tier in TIERS for check in tier.checks}
WARNS, FAILS, SKIPS = Outcome.WARNING, Outcome.FAILED, Outcome.SKIPPED

# A skill that pays in a wheel of its own, with all that platinum asks for.
PAYER = (
    HEAD
    + """
from decimal import Decimal
from solward import Manifest

PARAMETERS = {"type": "object", "additionalProperties": False, "properties": {
    "amount": {"type": "number", "description": "SOL.", "minimum": 0.01, "maximum": 0.1}}}

@hookimpl
def skill_spec():
    return SkillSpec(
        "acme", "Pays.", PARAMETERS, Effects.SPEND, examples=({"amount": 0.02}, {}),
        manifest=Manifest(operations=("transfer",), assets=("SOL",)))

@hookimpl
async def skill_execute(params, context):
    amount = params.get("amount", Decimal("0.01"))
    await context.transfer(to="11111111111111111111111111111112", amount=amount)
    return f"Paid {amount}."
"""
)


GUARD = (
    HEAD
    + """
@hookimpl
def guardrail_check(intent, effects):
    return None
"""
)


def report(**outcomes: Outcome) -> Report:
    every = {**OK, **outcomes}
    return Report("p", "skill", "d", "1", tuple(Finding(*each) for each in every.items()))


def test_every_check_is_in_one_tier() -> None:
    checks = [check for tier in TIERS for check in tier.checks]
    assert len(checks) == len(set(checks))
    assert [tier.name for tier in TIERS] == ["bronze", "silver", "gold", "platinum"]


@pytest.mark.parametrize(
    ("outcomes", "tier", "above", "missing"),
    [
        ({}, "platinum", None, []),
        ({"wheels": SKIPS}, "gold", "platinum", ["wheels"]),
        ({"wheels": WARNS, "money": WARNS}, "gold", "platinum", ["money", "wheels"]),
        ({"manifest": WARNS, "wheels": SKIPS}, "silver", "gold", ["manifest"]),
        # What silver lets warn, gold does not.
        ({"schema": WARNS, "effects": WARNS}, "silver", "gold", ["schema", "effects"]),
        ({"host": SKIPS, "manifest": SKIPS}, "bronze", "silver", ["host"]),
        ({"timeout": SKIPS, "quotes": SKIPS}, "bronze", "silver", ["timeout", "quotes"]),
        ({"secrets": FAILS, "wheels": SKIPS}, None, "bronze", ["secrets"]),
        ({"money": FAILS}, None, "bronze", ["money"]),
    ],
)
def test_a_tier_is_what_holds_and_the_next_one_says_what_lacks(
    outcomes: dict[str, Outcome], tier: str | None, above: str | None, missing: list[str]
) -> None:
    grade = report(**outcomes).grade
    assert grade is not None
    assert (grade.tier and grade.tier.name, grade.above and grade.above.name) == (tier, above)
    assert [each.check for each in grade.missing] == missing


def test_a_distribution_has_its_lowest_plugins_tier_and_a_built_in_one_has_none() -> None:
    built_in = Report("p", "skill", "solward", "1", (Finding("contract", Outcome.OK),))
    assert built_in.grade is None
    assert lowest_grade([built_in]) is None
    silver = lowest_grade([report(), report(errors=WARNS), built_in, report(wheels=SKIPS)])
    assert silver is not None
    assert silver.tier is TIERS[1]
    failed = lowest_grade([report(), report(errors=FAILS)])
    assert failed is not None
    assert failed.tier is None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand() -> AsyncIterator[Stand]:
    async with open_conformance() as opened:
        yield opened


@pytest.mark.more
@pytest.mark.parametrize(
    ("plugin", "check", "said"),
    [
        pytest.param(bad.Payer, None, [], marks=pytest.mark.more),
        (
            bad.DeclaresTooMuch,
            "manifest",
            [
                f"the site {bad.SITE} was not called",
                "the operation stake was not used",
                "the asset USDC was not moved",
            ],
        ),
        pytest.param(bad.Keeper, None, [], marks=pytest.mark.more),
        pytest.param(
            bad.KeepsNothing,
            "manifest",
            [
                "the secret MINE_SKILL_KEY was not used",
                f"the site {bad.SITE} was not called",
                "names storage_mb, but stored no file",
            ],
            marks=pytest.mark.more,
        ),
        pytest.param(
            bad.CallsAnUndeclaredSite,
            "manifest",
            [f"does not name {bad.SITE}, so its use was refused"],
            marks=pytest.mark.more,
        ),
        pytest.param(
            bad.PaysWithoutManifest,
            "manifest",
            ["does not name operations, so it may use any", "does not name assets"],
            marks=pytest.mark.more,
        ),
        pytest.param(
            bad.Mutters,
            "errors",
            [
                "an error reveals a stack trace or an object: '<object object at 0x",
                "an error's code is 'Not OK'; write it like not_enough",
            ],
            marks=pytest.mark.more,
        ),
        (bad.PaysThisAndThat, "money", [" of SOL left one wallet and "]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_keeps_a_plugin_from_gold_and_platinum_is_said(
    stand: Stand, plugin: type[bad.Skill], check: str | None, said: list[str]
) -> None:
    made = await check_skill(**given(IN_HOST, plugin), stand=stand)
    assert made.ok, str(made)
    # Of an object of a module no wheel is known.
    assert {*made.warnings, *made.skipped} == {"wheels"} | ({check} if check else set()), str(made)
    for each in said:
        assert each in made.finding(check or "wheels").detail
    assert made.grade is not None
    assert made.grade.tier is TIERS[1 if check in ("manifest", "errors") else 2]


@pytest.mark.more
@pytest.mark.asyncio(loop_scope="module")
async def test_money_that_no_record_accounts_for_or_that_leaves_a_frozen_wallet_fails(
    stand: Stand,
) -> None:
    class Gains(bad.Payer):
        async def run(self, params: dict[str, Any], context: SkillContext) -> str:
            await stand.fund(context.wallet.address, Decimal("0.001"))
            return await super().run(params, context)

    class Thaws(bad.Payer):
        async def run(self, params: dict[str, Any], context: SkillContext) -> str:
            await stand.service.switches.thaw(context.wallet.id)
            return await super().run(params, context)

    for plugin, said in ((Gains(), "case 0: its records differ"), (Thaws(), "case 0: 100")):
        async with load_plugins([entry_point_of(plugin)], in_process=True) as [subject]:
            skill = WatchedSkill(subject.target.loaded, subject.watch)
            found = await check_money(Subject(skill, stand, ()), [{"text": "hello"}])
        assert found.outcome is Outcome.FAILED
        assert said in found.detail


@pytest.mark.more
def test_a_wheel_reaches_platinum_and_its_folder_the_same(tmp_path: Path) -> None:
    from solward.plugins.folders.install import install
    from solward.types.manifest import Manifest, Terms

    file = wheel(tmp_path, source=PAYER)
    [made] = check_path_or_name(str(file))
    assert made.grade is not None
    assert made.grade.tier is TIERS[-1], str(made)
    terms = Terms(Manifest(operations=("transfer",), assets=("SOL",)), spends=True)
    home = tmp_path / "home"
    install(
        home,
        str(file),
        accept=lambda _proposal: True,
        declare=lambda _new: {"solward.skills:acme": terms},
    )
    [again] = check_path_or_name("acme-tools", home=home)
    assert (again.plugin, again.version, again.ok) == ("acme", "1.0", True)
    assert [each.check for each in again.findings] == [each.check for each in made.findings]
    with pytest.raises(InvalidRequest, match="only plugin hosts import acme-tools"):
        check_path_or_name("acme-tools", home=home, in_process=True)


@pytest.mark.more
def test_a_wheel_with_files_that_would_run_by_themselves_is_no_platinum(tmp_path: Path) -> None:
    file = wheel(tmp_path, {"acme.pth": "import os"}, source=PAYER)
    [made] = check_path_or_name(str(file))
    assert made.finding("wheels").detail == "has files that are left out: acme.pth"
    assert made.grade is not None
    assert made.grade.tier is TIERS[2]


@pytest.mark.more
def test_a_wheel_that_does_not_load_is_a_report_and_no_error(tmp_path: Path) -> None:
    [made] = check_path_or_name(str(wheel(tmp_path, source="raise ValueError('no')")))
    assert made.failed == ("contract",)
    assert "import_failed: ValueError: no" in made.finding("contract").detail


@pytest.mark.more
def test_a_machine_without_plugin_hosts_checks_in_process_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here(*_given: object) -> None:
        raise OSError("plugin hosts need Linux, not darwin")

    monkeypatch.setattr("solward.hosts.forking.Zygote", none_here)
    made = run(check(given(IN_HOST, bad.Guardrail)["target"]))
    assert made.ok
    assert made.finding("host").outcome is SKIPS
    assert (
        "in this process, because no plugin host starts (plugin hosts need Linux"
        in made.finding("host").detail
    )
    assert made.grade is not None
    assert made.grade.tier is TIERS[0]
    with pytest.raises(InvalidRequest, match="only a host imports a wheel"):
        check_path_or_name(str(wheel(tmp_path, source=GUARD, group="solward.guardrails")))
