"""The kit's results: one finding for each check, one report for each plugin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended."""

    OK = "ok"
    """The check passed."""
    WARNING = "warning"
    """Possibly wrong, for a maintainer to judge; does not fail the report."""
    FAILED = "failed"
    """The plugin breaks its contract."""
    SKIPPED = "skipped"
    """It could not be checked; the detail says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one named check; `detail` is for the plugin's author, maybe empty."""

    check: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:<7}  {self.check}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one plugin, in the order in which they were made.

    Attributes:
        plugin: the entry point's name.
        kind: `skill`, `provider`, `venue` or `guardrail`.
        distribution: the plugin's, with its `version`; `unknown` for a bare module.
    """

    plugin: str
    kind: str
    distribution: str
    version: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return self._with(Outcome.FAILED)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Names of the checks that warn."""
        return self._with(Outcome.WARNING)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Names of the checks that could not run."""
        return self._with(Outcome.SKIPPED)

    def finding(self, check: str) -> Finding:
        """The finding of one check; raises `KeyError` when it did not run."""
        for each in self.findings:
            if each.check == check:
                return each
        raise KeyError(check)

    def _with(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(each.check for each in self.findings if each.outcome is outcome)

    def __str__(self) -> str:
        verdict = "conforms" if self.ok else f"does not conform: {', '.join(self.failed)}"
        if self.ok and self.skipped:
            verdict = f"conforms as far as it was checked, but for {', '.join(self.skipped)}"
        title = f"{self.kind} {self.plugin} ({self.distribution} {self.version}) {verdict}"
        return "\n".join([title, *(f"  {each}" for each in self.findings)])


def joined(details: Iterable[str], most: int = 3) -> str:
    """The first `most` details as one text."""
    found = list(dict.fromkeys(details))
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more
