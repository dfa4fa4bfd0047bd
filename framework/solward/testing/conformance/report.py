"""The kit's results: one finding for each check, one report for each plugin.

It also has two findings of the higher tiers for every kind: whether the manifest names exactly what
the runs used, and whether people and models can read the plugin's deliberate errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import httpx

from solward.types.errors import SkillError
from solward.types.manifest import Manifest, Site, declared_site, needs
from solward.types.skill import Effects

if TYPE_CHECKING:
    from solward.testing.conformance.watch import CapabilityUse

GIVEN_IN = "checks/*.json of the project, or a file for --cases"
"""The places where an author gives the cases that the kit cannot generate."""


class Outcome(StrEnum):
    """The result of a check."""

    OK = "ok"
    """The check passed."""
    WARNING = "warning"
    """A possible fault, which a maintainer must judge. It does not fail the report."""
    FAILED = "failed"
    """The plugin breaks its contract."""
    SKIPPED = "skipped"
    """The check could not run; the finding's detail has the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one named check; `detail` is for the plugin's author and may be empty."""

    check: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:<7}  {self.check}" + (f": {self.detail}" if self.detail else "")


def finding(
    check: str, trouble: Sequence[str], fine: str = "", *, lacks: str = "", warns: bool = False
) -> Finding:
    """Return a check's finding, which fails or warns if `trouble` has faults.

    Args:
        fine: the detail if there is no fault.
        lacks: the reason why the check could not run; empty if it could.
        warns: whether faults only warn, because a maintainer must judge them.
    """
    if trouble:
        return Finding(check, Outcome.WARNING if warns else Outcome.FAILED, join_details(trouble))
    return Finding(check, Outcome.SKIPPED, lacks) if lacks else Finding(check, Outcome.OK, fine)


@dataclass(frozen=True, slots=True)
class Tier:
    """A level of trust that a plugin can reach.

    Attributes:
        means: the guarantee for a user of the plugin.
        checks: checks that must be ok if the plugin's kind has them, besides the lower tiers'.
        warns: whether these checks may warn.
    """

    name: str
    means: str
    checks: tuple[str, ...]
    warns: bool = False


TIERS = (
    Tier(
        "bronze",
        "it loads, its declarations are valid, and no check that ran failed",
        ("contract", "schema", "options"),
        warns=True,
    ),
    Tier(
        "silver",
        "every check of its kind ran, in a confined plugin host",
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
        "it declares exactly what it uses, its errors have clear texts, and no check warns",
        ("manifest", "errors"),
    ),
    Tier(
        "platinum",
        "its examples move exactly what their records say, and the hash of each wheel is known",
        ("money", "wheels"),
    ),
)  # fmt: skip
"""The tiers from the lowest_grade to the highest. Each tier includes the lower tiers."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The tier of a plugin.

    Attributes:
        tier: the highest tier that the plugin reaches; None if a check failed.
        missing: findings that keep the plugin from the next tier, `above`.
    """

    tier: Tier | None
    above: Tier | None
    missing: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about one plugin, in the order of the checks.

    Attributes:
        plugin: name of the entry point.
        kind: `skill`, `provider`, `venue`, `payment` or `guardrail`.
        distribution: its distribution, with its `version`; `unknown` for a bare module.
    """

    plugin: str
    kind: str
    distribution: str
    version: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return self._checks_with(Outcome.FAILED)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The names of the checks that warn."""
        return self._checks_with(Outcome.WARNING)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of the checks that could not run."""
        return self._checks_with(Outcome.SKIPPED)

    @property
    def grade(self) -> Grade | None:
        """The plugin's grade; None for a built-in plugin, which is part of Solward."""
        if not any(each.check == "host" for each in self.findings):
            return None
        if self.failed:
            return Grade(None, TIERS[0], self._findings_with(Outcome.FAILED))
        reached, names = None, set[str]()
        for tier in TIERS:
            names |= set(tier.checks)
            bad = (Outcome.SKIPPED,) if tier.warns else (Outcome.SKIPPED, Outcome.WARNING)
            missing = tuple(each for each in self._findings_with(*bad) if each.check in names)
            if missing:
                return Grade(reached, tier, missing)
            reached = tier
        return Grade(reached, None)

    def finding(self, check: str) -> Finding:
        """Return the finding of one check; raise `KeyError` if the check did not run."""
        for each in self.findings:
            if each.check == check:
                return each
        raise KeyError(check)

    def _checks_with(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(each.check for each in self._findings_with(outcome))

    def _findings_with(self, *outcomes: Outcome) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.outcome in outcomes)

    def __str__(self) -> str:
        verdict = "conforms" if self.ok else f"does not conform: {', '.join(self.failed)}"
        # The higher tiers' checks are not part of the contract.
        skipped = [each for each in self.skipped if each in _CONTRACT]
        if self.ok and skipped:
            verdict = f"conforms, except for checks that could not run: {', '.join(skipped)}"
        title = f"{self.kind} {self.plugin} ({self.distribution} {self.version}) {verdict}"
        return "\n".join([title, *(f"  {each}" for each in self.findings)])


_CONTRACT = {check for tier in TIERS[:2] for check in tier.checks}


def lowest_grade(reports: Iterable[Report]) -> Grade | None:
    """Return the lowest grade of a distribution's plugins; None if all of them are built in."""
    order = (None, *TIERS)
    found = [each.grade for each in reports if each.grade is not None]
    return min(found, key=lambda each: order.index(each.tier), default=None)


def join_details(details: Iterable[str], most: int = 3) -> str:
    """Join the first `most` details to one text, with the number of the others."""
    found = list(dict.fromkeys(details))
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more


# Refusals of what a manifest does not name, except assets: the kit's odd parameters may name any.
_UNDECLARED = {"no_network", "site_not_declared", "operation_not_declared"}
_PORTS = {"https": 443, "http": 80}

MAX_ERROR = 500
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")
_INTERNALS = re.compile(r"Traceback \(most recent|<[\w. ]+ at 0x[0-9a-f]+>")


def manifest_finding(
    spec: object, asked: Iterable[CapabilityUse] | None, *, stores: bool = False
) -> Finding:
    """Return the finding `manifest`: whether a plugin's manifest names exactly what it uses.

    Args:
        spec: its declaration; None for a guardrail, which has no manifest.
        asked: all requests of the plugin to the service; None if they were not observed.
        stores: whether the plugin keeps a file.
    """
    if asked is None:
        detail = "its manifest is not enforced in this process"
        return Finding("manifest", Outcome.SKIPPED, detail)
    asked = tuple(asked)
    manifest: Manifest | None = getattr(spec, "manifest", None)
    spends = getattr(spec, "effects", None) is Effects.SPEND
    trouble = []
    for each in asked:
        if each.refused in _UNDECLARED:
            site = httpx.URL(each.url).host
            what = site if each.refused == "site_not_declared" else each.operation or site
            trouble.append(f"does not name {what}, so its use was refused")
    for kind in ("operations", "assets") if spends else ():
        if manifest is None or getattr(manifest, kind) is None:
            trouble.append(f"does not name {kind}, so it may use any")
    if manifest is not None:
        trouble += _unused_needs(manifest, asked)
        if manifest.storage_mb and not stores:
            trouble.append("names storage_mb, but stored no file")
    fine = "; ".join(needs(manifest)) or "needs nothing"
    return finding("manifest", trouble, fine, warns=True)


def _unused_needs(manifest: Manifest, asked: tuple[CapabilityUse, ...]) -> Iterator[str]:
    called = [httpx.URL(each.url) for each in asked if each.url]
    # A server at an address that the operator configured replaces the declared sites.
    named = {text: declared_site(text) for text in manifest.sites}
    reached = {Site(url.scheme, url.host, url.port or _PORTS[url.scheme]) for url in called}
    elsewhere = not reached <= set(named.values())
    carried = any(each.carries for each in asked)
    for secret in manifest.secrets:
        if not carried:
            yield f"the secret {secret.env} was not used"
    stood_in = {each.site for each in manifest.secrets} if elsewhere and carried else set()
    for text, site in named.items():
        if site not in reached and text not in stood_in:
            yield f"the site {text} was not called"
    operations = {each.operation for each in asked}
    for operation in manifest.operations or ():
        if operation not in operations:
            yield f"the operation {operation} was not used"
    moved = {name for each in asked for name in each.assets}
    for asset in manifest.assets or ():
        if asset not in moved:
            yield f"the asset {asset} was not moved"


def errors_finding(errors: Iterable[BaseException | str]) -> Finding:
    """Return the finding `errors`: whether the errors that callers get are readable."""
    errors = list(errors)
    trouble = []
    for error in errors:
        text = str(error)
        if not text.strip():
            trouble.append(f"a {type(error).__name__} has no text")
        elif len(text) > MAX_ERROR:
            trouble.append(f"an error has {len(text)} characters; at most {MAX_ERROR}")
        elif _INTERNALS.search(text):
            trouble.append(f"an error reveals a stack trace or an object: {text[:80]!r}")
        if type(error) is SkillError and not _CODE.fullmatch(error.code):
            trouble.append(f"an error's code is {error.code!r}; write it like not_enough")
    fine = f"{len(errors)} in words" if errors else "none raised"
    return finding("errors", trouble, fine, warns=True)
