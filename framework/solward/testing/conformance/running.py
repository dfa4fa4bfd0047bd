"""Whole runs: find the plugins of a target, open a stand, check each."""

from __future__ import annotations

from solward.testing.conformance.report import Report


def reports_of(target: str) -> list[Report]:
    """See `conformance.check_path_or_name`."""
    raise NotImplementedError(target)
