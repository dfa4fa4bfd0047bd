"""What the higher tiers ask of every kind: whether a manifest names what the runs used, and nothing
else, and whether the errors that a plugin raises on purpose are for people and models to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import httpx

from solward.testing.conformance.report import Finding, Outcome, finding
from solward.testing.conformance.watch import CapabilityUse
from solward.types.errors import SkillError
from solward.types.manifest import Manifest, Site, declared_site, needs
from solward.types.skill import Effects

# Refusals of what a manifest does not name. An asset may be one that odd parameters name.
_UNDECLARED = {"no_network", "site_not_declared", "operation_not_declared"}
_PORTS = {"https": 443, "http": 80}

MAX_ERROR = 500
_CODE = re.compile(r"[a-z][a-z0-9_]{1,63}")
_OF_A_PROGRAM = re.compile(r"Traceback \(most recent|<[\w. ]+ at 0x[0-9a-f]+>")


def manifest_finding(
    spec: object, asked: Iterable[CapabilityUse] | None, *, stores: bool = False
) -> Finding:
    """The finding `manifest` of a plugin.

    Args:
        spec: its declaration; None for a guardrail, which has no manifest.
        asked: all that it asked for; None where that was not seen.
        stores: whether it keeps a file.
    """
    if asked is None:
        detail = "in this process nothing holds it to its manifest"
        return Finding("manifest", Outcome.SKIPPED, detail)
    asked = tuple(asked)
    manifest: Manifest | None = getattr(spec, "manifest", None)
    spends = getattr(spec, "effects", None) is Effects.SPEND
    trouble = [*_refused(asked), *_unbounded(manifest, spends=spends)]
    if manifest is not None:
        trouble += _unused(manifest, asked)
        if manifest.storage_mb and not stores:
            trouble.append("it kept no file, and names storage_mb")
    fine = "; ".join(needs(manifest)) or "needs nothing"
    return finding("manifest", trouble, fine, warns=True)


def _refused(asked: Iterable[CapabilityUse]) -> Iterator[str]:
    for each in asked:
        if each.refused in _UNDECLARED:
            site = httpx.URL(each.url).host
            what = site if each.refused == "site_not_declared" else each.operation or site
            yield f"does not name {what}, and it was refused"


def _unbounded(manifest: Manifest | None, *, spends: bool) -> Iterator[str]:
    if not spends:
        return
    for kind in ("operations", "assets"):
        if manifest is None or getattr(manifest, kind) is None:
            yield f"{kind} are not named, so it may use any"


def _unused(manifest: Manifest, asked: tuple[CapabilityUse, ...]) -> Iterator[str]:
    called = [httpx.URL(each.url) for each in asked if each.url]
    # At an address that the operator configured, another server stands in for the declared ones.
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
    """The finding `errors`: of errors as their caller gets them, or of their texts."""
    errors = list(errors)
    trouble = []
    for error in errors:
        text = str(error)
        if not text.strip():
            trouble.append(f"a {type(error).__name__} says nothing")
        elif len(text) > MAX_ERROR:
            trouble.append(f"an error has {len(text)} characters; at most {MAX_ERROR}")
        elif _OF_A_PROGRAM.search(text):
            trouble.append(f"an error shows the program's inside: {text[:80]!r}")
        if type(error) is SkillError and not _CODE.fullmatch(error.code):
            trouble.append(f"an error's code is {error.code!r}; write it like not_enough")
    fine = f"{len(errors)} in words" if errors else "none raised"
    return finding("errors", trouble, fine, warns=True)
