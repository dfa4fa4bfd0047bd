"""docs/reference/plugins.md lists every check of the kit, and no other."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import ROOT

from solward.testing import conformance

PAGE = (ROOT / "docs" / "reference/plugins.md").read_text()
# Kind, or `plugin` for all -> its section.
SECTIONS = dict(re.findall(r"^### Checks of (?:a|every) (\w+).*\n((?:.*\n)+?)(?=#)", PAGE, re.M))


def checks_of(kind: str) -> set[str]:
    rows = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", SECTIONS[kind], re.M)
    return {name for names in rows for name in re.findall(r"\w+", names)}


def test_the_tiers_of_the_page_are_those_of_the_kit() -> None:
    rows = [
        f"| {tier.name} | {tier.means} | {', '.join(f'`{check}`' for check in tier.checks)} |"
        for tier in conformance.TIERS
    ]
    assert "\n".join(["| tier | what holds | checks |", "|---|---|---|", *rows, ""]) in PAGE
    checks = {name for kind in SECTIONS for name in checks_of(kind)}
    assert checks == {check for tier in conformance.TIERS for check in tier.checks}


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
    assert names == checks_of(kind) | checks_of("plugin")
