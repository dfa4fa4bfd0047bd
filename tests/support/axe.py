"""axe-core of npm, run on the page that a real browser shows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.browser import Browser
from tests.support.kept_environments import npm_environment
from tests.support.repository import ROOT

# WCAG 2.0, 2.1 and 2.2, levels A and AA, and what is good practice beside them.
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
_RUN = """
const [tags, done] = [arguments[0], arguments[1]];
axe.run(document, {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]}).then(
    found => done(found.violations.map(each => ({
        rule: each.id, impact: each.impact, help: each.help,
        nodes: each.nodes.map(node => [node.target.join(" "), node.failureSummary]),
    }))),
    error => done(String(error)));
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that elements of a page break.

    Attributes:
        impact: minor, moderate, serious or critical.
        nodes: of each element its selector, and what is wrong with it.
    """

    rule: str
    impact: str
    help: str
    nodes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        where = "".join(f"\n    {at}: {' '.join(why.split())}" for at, why in self.nodes[:4])
        return f"{self.impact} {self.rule} ({self.help}), {len(self.nodes)} elements{where}"


def findings(browser: Browser) -> list[Finding]:
    """What axe-core finds on the page as it is now."""
    if not browser.script("return 'axe' in window"):
        browser.script(_source())
    found: Any = browser.driver.execute_async_script(_RUN, _TAGS)
    assert isinstance(found, list), found
    return [
        Finding(
            each["rule"],
            each["impact"],
            each["help"],
            tuple((at, why) for at, why in each["nodes"]),
        )
        for each in found
    ]


@cache
def _source() -> str:
    programs = ROOT / "tests" / "e2e" / "dashboard" / "npm"
    return (npm_environment(programs, "axe") / "axe-core" / "axe.min.js").read_text()
