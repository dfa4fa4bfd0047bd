"""Discovery of plugins that are installed, allowed and free of name conflicts, without imports."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from solward.plugins.folders.layout import InstalledDistribution, canonical, installed
from solward.plugins.folders.wheels import runs_by_itself
from solward.plugins.hooks import GUARDRAILS
from solward.types.errors import FolderError
from solward.types.manifest import GROUPS, Problem, ProblemCode, describe_error
from solward.vault.guardrails.rules import OWN_RULES

BUILT_IN = "solward"
_BUILT_IN_MODULES = "solward_plugins."
_UNKNOWN = "unknown"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry point that may be imported.

    Attributes:
        installed: the distribution's own folder, which only a plugin host imports from; None for
            the service's environment.
    """

    entry_point: EntryPoint
    distribution: str
    version: str
    installed: InstalledDistribution | None = None

    @property
    def name(self) -> str:
        """The plugin's name, which is the entry point's."""
        return self.entry_point.name

    @property
    def group(self) -> str:
        """The entry-point group."""
        return self.entry_point.group

    @property
    def built_in(self) -> bool:
        """True for a part of Solward itself; the distribution's name alone proves nothing."""
        own_module = self.entry_point.value.startswith(_BUILT_IN_MODULES)
        return self.installed is None and canonical(self.distribution) == BUILT_IN and own_module

    def same_as(self, other: Candidate) -> bool:
        """Return whether both are the same plugin that was found twice on the path."""
        return (canonical(self.distribution), self.entry_point.value) == (
            canonical(other.distribution),
            other.entry_point.value,
        )

    def problem(self, code: ProblemCode, detail: str) -> Problem:
        """Return a problem that explains why this candidate is left out."""
        return Problem(
            code, self.name, self.distribution, detail, group=self.group, version=self.version
        )


_NOT_INSTALLED = "SOLWARD_PLUGINS names it, but no installed distribution of this name has plugins"


@dataclass(frozen=True, slots=True)
class Folders:
    """Distributions in folders of their own, and which of them may be loaded.

    Attributes:
        installed: all distributions whose records can be read.
        withheld: why distributions must not be loaded, as a code and a text, by name.
        unreadable: reasons why other records cannot be read, by name.
    """

    installed: Sequence[InstalledDistribution] = ()
    withheld: Mapping[str, tuple[ProblemCode, str]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_home(cls, home: Path) -> Folders:
        """Return the distributions of a home, from its records alone."""
        found, unreadable = installed(home)
        withheld = {each.name: disabled(each.name) for each in found if not each.enabled}
        return cls(found, withheld, unreadable)


def disabled(name: str) -> tuple[ProblemCode, str]:
    """Return the reason why a disabled distribution is not loaded."""
    return ProblemCode.DISABLED, f"run `solward plugins enable {name}` to load it again"


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a third party's distribution is installed.

    Attributes:
        installed: its own folder; None for the service's environment.
        runs: its files that every interpreter of the service's environment runs at its start.
    """

    distribution: str
    version: str
    installed: InstalledDistribution | None
    runs: tuple[str, ...] = ()

    @property
    def trust(self) -> str | None:
        """The power of code that is installed there over the service; None for an own folder."""
        if self.installed is not None:
            return None
        if self.runs:
            return f"the service runs its {', '.join(self.runs)} at each start"
        return "it can replace modules that the service imports"


def is_allowed(distribution: str, allow: Iterable[str]) -> bool:
    """Return whether a third party's distribution may be loaded.

    Args:
        allow: names as in `Settings.plugins`.
    """
    return any(name == "*" or canonical(name) == canonical(distribution) for name in allow)


def discover(
    allow: Collection[str],
    entry_points: Iterable[EntryPoint] | None = None,
) -> tuple[list[Candidate], list[Problem]]:
    """Return the plugins to import, built-ins first, then by name, and the problems of the others.

    Args:
        allow: names of distributions whose plugins may be imported; `*` allows all.
        entry_points: entry points instead of those of the service's environment.
    """
    candidates = None if entry_points is None else candidates_of(entry_points)
    return survey(allow, candidates)[:2]


def survey(
    allow: Collection[str],
    candidates: Sequence[Candidate] | None = None,
    folders: Folders | None = None,
) -> tuple[list[Candidate], list[Problem], tuple[Place, ...]]:
    """Return the results of `discover`, and the place of each third party's distribution.

    Args:
        candidates: candidates instead of those in the service's environment.
    """
    problems: list[Problem] = []
    if candidates is None:
        candidates, problems = environment()
    every = list(candidates)
    places = {each.distribution: _place_of(each) for each in every if not each.built_in}
    if folders is not None:
        taken = {canonical(each.distribution) for each in every}
        every += _folders_candidates(folders, taken, places, problems)
    present = {BUILT_IN, *(canonical(name) for name in places)}
    present |= {canonical(each.distribution) for each in problems}
    if folders is not None:
        present |= set(folders.withheld)
    problems += [
        Problem(ProblemCode.NOT_INSTALLED, "*", name, _NOT_INSTALLED)
        for name in allow
        if name != "*" and canonical(name) not in present
    ]
    by_name: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for candidate in every:
        if not (candidate.built_in or is_allowed(candidate.distribution, allow)):
            detail = "its distribution is not named in SOLWARD_PLUGINS; nothing of it was imported"
            problems.append(candidate.problem(ProblemCode.NOT_ALLOWED, detail))
        elif _NAME.fullmatch(candidate.name) is None:
            detail = "an entry point's name must be like my_skill: a-z, 0-9 and _, at most 64"
            problems.append(candidate.problem(ProblemCode.BAD_CONTRACT, detail))
        else:
            rivals = by_name[candidate.group, candidate.name]
            if not any(map(candidate.same_as, rivals)):
                rivals.append(candidate)
    chosen = [
        winner for rivals in by_name.values() if (winner := _winner(rivals, problems)) is not None
    ]
    chosen.sort(key=lambda found: (not found.built_in, found.group, found.name))
    return chosen, problems, tuple(places.values())


def folder_candidates(one: InstalledDistribution) -> list[Candidate]:
    """Return the plugins of a distribution in its own folder; imports nothing.

    Raises:
        FolderError: if the entry points cannot be read.
    """
    try:
        points = one.distribution().entry_points
    except FolderError:
        raise
    except Exception as error:
        raise FolderError(f"its entry points cannot be read: {describe_error(error)}") from None
    return [Candidate(each, one.name, one.version, one) for each in points if each.group in GROUPS]


def _folders_candidates(
    folders: Folders, taken: Collection[str], places: dict[str, Place], problems: list[Problem]
) -> list[Candidate]:
    """Return the plugins in their own folders that may be loaded; add their places and problems."""
    found: list[Candidate] = []
    for name, detail in folders.unreadable.items():
        problems.append(Problem(ProblemCode.IMPORT_FAILED, "*", name, detail))
    for one in folders.installed:
        try:
            candidates = folder_candidates(one)
        except FolderError as error:
            problems.append(Problem(ProblemCode.IMPORT_FAILED, "*", one.name, str(error)))
            continue
        if one.name in taken:
            detail = (
                "it is also installed in the service's environment, which is used; remove one"
                f" of the two (pip uninstall {one.name}, or solward plugins remove {one.name})"
            )
            problems += [each.problem(ProblemCode.NAME_CONFLICT, detail) for each in candidates]
            continue
        places[one.name] = Place(one.name, one.version, one)
        if one.name in folders.withheld:
            code, detail = folders.withheld[one.name]
            problems += [each.problem(code, detail) for each in candidates]
        else:
            found += candidates
    return found


def _place_of(candidate: Candidate) -> Place:
    runs: list[str] = []
    dist = candidate.entry_point.dist
    if dist is not None:
        with contextlib.suppress(Exception):  # the RECORD may be unreadable
            runs = sorted(name for each in dist.files or () if runs_by_itself(name := str(each)))
    return Place(candidate.distribution, candidate.version, None, tuple(runs))


def _winner(rivals: list[Candidate], problems: list[Problem]) -> Candidate | None:
    """Return the candidate that gets a name: the only one, or the built-in one; else None."""
    built_in = [rival for rival in rivals if rival.built_in]
    if rivals[0].group == GUARDRAILS and rivals[0].name in OWN_RULES:
        detail = "this is the name of a built-in guardrail"
        problems += [rival.problem(ProblemCode.NAME_CONFLICT, detail) for rival in rivals]
        return None
    if len(rivals) == 1:
        return rivals[0]
    for rival in rivals:
        if len(built_in) == 1 and rival is built_in[0]:
            continue
        others = ", ".join(
            f"{other.distribution} ({other.entry_point.value})"
            for other in (built_in or rivals)
            if other is not rival
        )
        problems.append(rival.problem(ProblemCode.NAME_CONFLICT, f"also provided by {others}"))
    return built_in[0] if len(built_in) == 1 else None


def candidates_of(entry_points: Iterable[EntryPoint]) -> list[Candidate]:
    """Return the candidates among entry points: those in one of Solward's groups."""
    return [candidate_of(each) for each in entry_points if each.group in GROUPS]


def candidate_of(entry_point: EntryPoint) -> Candidate:
    """Return an entry point as a candidate, with its distribution's name and version."""
    distribution = entry_point.dist
    if distribution is None:
        return Candidate(entry_point, _UNKNOWN, _UNKNOWN)
    return Candidate(entry_point, *_name_and_version(distribution))


def environment() -> tuple[list[Candidate], list[Problem]]:
    """Return the plugins of each distribution on the path, and the problems of unreadable ones. If
    two distributions have the same name, the first counts.

    Unlike `importlib.metadata.entry_points()`, an unreadable entry_points.txt does not prevent the
    start, and a distribution named `solward` earlier on the path does not hide the built-ins.
    """
    found: list[Candidate] = []
    problems: list[Problem] = []
    on_path = list(distributions())
    for place, distribution in enumerate(on_path):
        # Names are read only of distributions with plugins, which are few: reading all names takes
        # ten times as long as everything else here.
        if not _may_have_plugins(distribution):
            continue
        name = _UNKNOWN
        try:
            name, version = _name_and_version(distribution)
            if canonical(name) != BUILT_IN and _is_named(name, on_path[:place]):
                continue
            points = [each for each in distribution.entry_points if each.group in GROUPS]
            found += [Candidate(each, name, version) for each in points]
        except Exception as error:
            detail = f"its entry points cannot be read: {describe_error(error)}"
            problems.append(Problem(ProblemCode.IMPORT_FAILED, "*", name, detail))
    return found, problems


def _may_have_plugins(distribution: Distribution) -> bool:
    try:
        # Searching for a group's name is much cheaper than parsing the file.
        text = distribution.read_text("entry_points.txt") or ""
        return any(group in text for group in GROUPS)
    except Exception:  # an unreadable file is reported when its entry points are read
        return True


def _is_named(name: str, among: Iterable[Distribution]) -> bool:
    """Return whether one of these distributions has this name; unreadable names do not count."""
    for each in among:
        with contextlib.suppress(Exception):
            if canonical(_name_and_version(each)[0]) == canonical(name):
                return True
    return False


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    # `metadata` parses the file at each access.
    metadata = distribution.metadata
    return metadata["Name"] or _UNKNOWN, metadata["Version"] or _UNKNOWN
