"""docs/reference/plugins.md lists every check of the kit, and no other."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import ROOT

from solward.testing import conformance

PAGE = (ROOT / "docs" / "reference/plugins.md").read_text()
ROWS = re.findall(
    r"^\| (all|skill and provider|skill|provider|venue|payment|guardrail)"
    r" \| ((?:`\w+`(?:, )?)+) \|",
    PAGE,
    re.M,
)


def test_the_tiers_of_the_page_are_those_of_the_kit() -> None:
    rows = [
        f"| {tier.name} | {tier.means} | {', '.join(f'`{check}`' for check in tier.checks)} |"
        for tier in conformance.TIERS
    ]
    assert "\n".join(["| tier | what holds | checks |", "|---|---|---|", *rows, ""]) in PAGE
    checks = {name for _, names in ROWS for name in re.findall(r"\w+", names)}
    assert checks == {check for tier in conformance.TIERS for check in tier.checks}


def documented(kind: str) -> set[str]:
    kinds = {kind, "all"} | ({"skill and provider"} if kind in ("skill", "provider") else set())
    return {name for row, names in ROWS if row in kinds for name in re.findall(r"\w+", names)}


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("skill", "solward_plugin_template.total"),
        ("provider", "solward_plugin_template.provider"),
        ("guardrail", "solward_plugin_template.guardrail"),
        ("venue", "tests.testing.bad_plugins:made.Venue"),
        ("payment", "solward_plugin_template.payment"),
    ],
)
def test_the_checks_of_each_kind_are_the_documented_ones(
    kind: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "plugin_template" / "src"))
    check = getattr(conformance, f"{kind}_test")
    names: set[str] = set()

    def keep(report: object) -> None:
        names.update(finding.check for finding in report.findings)  # type: ignore[attr-defined]

    monkeypatch.setattr("builtins.print", keep)
    check(target)()
    assert names == documented(kind)
