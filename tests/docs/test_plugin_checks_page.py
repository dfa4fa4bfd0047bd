"""docs/plugins.md lists every check of the kit, and no other."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import ROOT

from solward.testing import conformance

PAGE = (ROOT / "docs" / "plugins.md").read_text()
ROWS = re.findall(
    r"^\| (all|all but guardrails|skill|provider|guardrail) \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.M
)


def documented(kind: str) -> set[str]:
    kinds = {kind, "all"} | (set() if kind == "guardrail" else {"all but guardrails"})
    return {name for row, names in ROWS if row in kinds for name in re.findall(r"\w+", names)}


@pytest.mark.parametrize(
    ("kind", "module"), [("skill", "total"), ("provider", "provider"), ("guardrail", "guardrail")]
)
def test_the_checks_of_each_kind_are_the_documented_ones(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "plugin_template" / "src"))
    check = getattr(conformance, f"{kind}_test")
    names: set[str] = set()

    def keep(report: object) -> None:
        names.update(finding.check for finding in report.findings)  # type: ignore[attr-defined]

    monkeypatch.setattr("builtins.print", keep)
    check(f"solward_plugin_template.{module}")()
    assert names == documented(kind)
