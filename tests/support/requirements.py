"""What distributions need, by their metadata."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def of_this_environment(name: str) -> list[str]:
    """What an installed distribution requires; nothing where it is not installed."""
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def needed(
    lines: Iterable[str], requires: Callable[[str], Iterable[str]] = of_this_environment
) -> set[str]:
    """The names of all that requirements need on this machine, theirs among them.

    Args:
        requires: the lines of a distribution's own requirements, by its name.
    """
    seen: set[tuple[str, str]] = set()
    waiting = [*map(Requirement, lines)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [
                    each
                    for each in map(Requirement, requires(name))
                    if each.marker is None or each.marker.evaluate({"extra": extra})
                ]
    return {name for name, _ in seen}
