"""`solward plugins check`: run the conformance checks on a plugin, and print advice."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from solward.testing.conformance import Grade, Report

EXIT_FAILED = 1

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@click.command("check")
@click.argument("target", metavar="PATH-or-NAME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--in-process", is_flag=True, help="Not in a plugin host, to debug the plugin.")
def check(target: str, as_json: bool, in_process: bool) -> None:
    """Check a plugin against its contract, in a plugin host and on a ledger of its own.

    PATH is a folder with a pyproject.toml, which need not be installed, or a wheel; NAME an
    installed distribution or plugin. Says which tier it reaches, and what keeps it from the next.
    Ends with exit code 1 where a check fails. The plugin's code runs, with test money only.
    """
    from solward.errors import InvalidRequest
    from solward.settings import Settings
    from solward.telemetry import logs
    from solward.testing.conformance.runner import check_target
    from solward_cli.entrypoint import refusals, refuse

    logs.configure("error")
    with refusals():
        try:
            reports = check_target(
                target, in_process=in_process, home=lambda: Settings().solward_home
            ).reports
        except InvalidRequest as error:
            refuse(str(error))
    if as_json:
        click.echo(json.dumps(_json(reports), indent=2))
    else:
        _show(reports)
    if not all(report.ok for report in reports):
        sys.exit(EXIT_FAILED)


def _json(reports: Sequence[Report]) -> dict[str, object]:
    from solward.testing.conformance.report import lowest

    return {
        "ok": all(report.ok for report in reports),
        "tier": _name(lowest(reports)),
        "plugins": [
            {
                "name": report.plugin,
                "kind": report.kind,
                "distribution": report.distribution,
                "version": report.version,
                "ok": report.ok,
                "tier": _name(report.grade),
                "findings": [
                    {"check": each.check, "outcome": each.outcome.value, "detail": each.detail}
                    for each in report.findings
                ],
            }
            for report in reports
        ],
    }


def _name(grade: Grade | None) -> str | None:
    return None if grade is None or grade.tier is None else grade.tier.name


def _show(reports: Sequence[Report]) -> None:
    from rich.console import Console
    from rich.text import Text

    from solward_cli.render import visible

    console = Console(highlight=False)

    def write(*parts: tuple[str, str]) -> None:
        line = Text.assemble(*((visible(text), style) for text, style in parts))
        console.print(line, soft_wrap=True)

    for report in reports:
        title = f"{report.kind} {report.plugin}"
        write((title, "bold"), (f" of {report.distribution} {report.version}", ""))
        for each in report.findings:
            detail = f": {each.detail}" if each.detail else ""
            write(
                (f"  {each.outcome.value:<7}", _STYLES[each.outcome.value]),
                (f"  {each.check}{detail}", ""),
            )
        if report.grade is not None:
            write((f"  {tier_line(report.grade)}", "bold"))
    for line in advice(reports):
        write((line, ""))


def tier_line(grade: Grade) -> str:
    """The tier, and what keeps it from the next one."""
    reached = "no tier" if grade.tier is None else f"{grade.tier.name}: {grade.tier.means}"
    if grade.above is None:
        return reached
    missing = ", ".join(each.check for each in grade.missing)
    return f"{reached}; for {grade.above.name} it lacks {missing}"


def advice(reports: Sequence[Report]) -> list[str]:
    """What to do after the checks."""
    failed = [
        f"{report.plugin} ({', '.join(report.failed)})" for report in reports if report.failed
    ]
    warned = [
        f"{report.plugin} ({', '.join(report.warnings)})" for report in reports if report.warnings
    ]
    lines = []
    if failed:
        lines.append(f"Mend before you install it: {'; '.join(failed)}.")
    if warned:
        lines.append(f"Look at the warnings: {'; '.join(warned)}.")
    if not failed:
        many = "The plugin conforms" if len(reports) == 1 else f"All {len(reports)} plugins conform"
        lines.append(f"{many}. Once installed, loaded at the next start of the service.")
    return lines
