"""The conformance kit: what a plugin must be so that an operator can trust it, as named checks.

    from solward.testing import conformance

    test_tip = conformance.skill_test("tip", cases=[{"to": ADDRESS, "amount": 1}])

A target is an installed entry point's name (`tip`, or `solward.skills:tip` where two groups have
the name), a module's dotted name, or a module or other plugin object.
"""

from solward.testing.conformance.report import Finding, Outcome, Report

__all__ = ["Finding", "Outcome", "Report", "check_path_or_name"]


def check_path_or_name(target: str) -> list[Report]:
    """One report a plugin of an installed distribution, entry point, or a project folder.

    Args:
        target: the name of an installed distribution or entry point, or a folder with a
            `pyproject.toml`; its entry points are imported from the folder without installing.

    Raises:
        InvalidRequest: there is no such plugin, or the folder is no plugin project.
    """
    from solward.testing.conformance.running import reports_of

    return reports_of(target)
