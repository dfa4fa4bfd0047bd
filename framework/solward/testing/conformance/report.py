"""The kit's results: one finding for each check, one report for each plugin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

GIVEN_IN = "checks/*.json of the project, or a file for --cases"
"""Where an author gives what cannot be made up."""


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


def finding(
    check: str, trouble: Sequence[str], fine: str = "", *, lacks: str = "", warns: bool = False
) -> Finding:
    """The finding of a check that lists what is wrong.

    Args:
        fine: the detail where nothing is.
        lacks: why the check could not be made; empty where it could.
        warns: what is wrong is for a maintainer to judge.
    """
    if trouble:
        return Finding(check, Outcome.WARNING if warns else Outcome.FAILED, joined(trouble))
    return Finding(check, Outcome.SKIPPED, lacks) if lacks else Finding(check, Outcome.OK, fine)


@dataclass(frozen=True, slots=True)
class Tier:
    """How much of a plugin was shown to hold.

    Attributes:
        means: what somebody who uses the plugin can rely on.
        checks: those that must be ok, where the plugin's kind has them, beside the tiers' below.
        warns: whether they may warn.
    """

    name: str
    means: str
    checks: tuple[str, ...]
    warns: bool = False


TIERS = (
    Tier(
        "bronze",
        "it loads, its declarations hold, and no check that could be made failed",
        ("contract", "schema", "options"),
        warns=True,
    ),
    Tier(
        "silver",
        "every check of its kind was made, in a plugin host that is confined",
        (
            "host", "examples", "dialects", "parameters_used", "bad_parameters", "edge_parameters",
            "effects", "blocking", "timeout", "cancellation", "concurrency", "outcome", "secrets",
            "answers", "stream", "refused_connection", "vendor_failures", "quotes", "swaps",
            "executed", "venue_failures", "offers", "headers", "receipts", "hostile_answers",
            "answer", "does_not_raise", "pure", "cases", "quick",
        ),
        warns=True,
    ),
    Tier(
        "gold",
        "it declares what it uses and nothing else, says clearly what is wrong, and nothing warns",
        ("manifest", "errors"),
    ),
    Tier(
        "platinum",
        "its examples move exactly what their records say, and the hash of each wheel is known",
        ("money", "wheels"),
    ),
)  # fmt: skip
"""From the lowest to the highest; each includes those before it."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The tier of a plugin.

    Attributes:
        tier: the highest that it reaches; None where a check failed.
        missing: what keeps it from the next one, `above`.
    """

    tier: Tier | None
    above: Tier | None
    missing: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of one plugin, in the order in which they were made.

    Attributes:
        plugin: the entry point's name.
        kind: `skill`, `provider`, `venue`, `payment` or `guardrail`.
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

    @property
    def grade(self) -> Grade | None:
        """Its tier; None of a built-in plugin, which is part of Solward."""
        if not any(each.check == "host" for each in self.findings):
            return None
        if self.failed:
            return Grade(None, TIERS[0], self._findings(Outcome.FAILED))
        reached, names = None, set[str]()
        for tier in TIERS:
            names |= set(tier.checks)
            bad = (Outcome.SKIPPED,) if tier.warns else (Outcome.SKIPPED, Outcome.WARNING)
            missing = tuple(each for each in self._findings(*bad) if each.check in names)
            if missing:
                return Grade(reached, tier, missing)
            reached = tier
        return Grade(reached, None)

    def finding(self, check: str) -> Finding:
        """The finding of one check; raises `KeyError` when it did not run."""
        for each in self.findings:
            if each.check == check:
                return each
        raise KeyError(check)

    def _with(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(each.check for each in self._findings(outcome))

    def _findings(self, *outcomes: Outcome) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.outcome in outcomes)

    def __str__(self) -> str:
        verdict = "conforms" if self.ok else f"does not conform: {', '.join(self.failed)}"
        # What the higher tiers ask for beside is no part of the contract.
        skipped = [each for each in self.skipped if each in _CONTRACT]
        if self.ok and skipped:
            verdict = f"conforms as far as it was checked, but for {', '.join(skipped)}"
        title = f"{self.kind} {self.plugin} ({self.distribution} {self.version}) {verdict}"
        return "\n".join([title, *(f"  {each}" for each in self.findings)])


_CONTRACT = {check for tier in TIERS[:2] for check in tier.checks}


def lowest(reports: Iterable[Report]) -> Grade | None:
    """The grade of a distribution, its lowest plugin's; None where all of them are built in."""
    order = (None, *TIERS)
    found = [each.grade for each in reports if each.grade is not None]
    return min(found, key=lambda each: order.index(each.tier), default=None)


def joined(details: Iterable[str], most: int = 3) -> str:
    """The first `most` details as one text."""
    found = list(dict.fromkeys(details))
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more
