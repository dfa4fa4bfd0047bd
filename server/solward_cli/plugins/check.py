"""`solward plugins check`, `key` and `verify`: check a plugin, print advice, and sign the result
with the digest of the bytes that were checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward import __version__
from solward.support.clock import iso, now_ms
from solward.types.errors import FolderError, InvalidRequest
from solward_cli.entrypoint import refusals
from solward_cli.render import plain, show, visible

if TYPE_CHECKING:
    from solward.plugins.check_results import CheckKey, CheckResult
    from solward.testing.conformance import Grade, Report
    from solward.testing.conformance.runner import CheckedTarget

EXIT_FAILED = 1

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@click.command("check")
@click.argument("target", metavar="PATH-or-NAME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--cases",
    "case_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="JSON file with more cases than the project's checks/*.json; may be given more than once.",
)
@click.option("--in-process", is_flag=True, help="Run the plugin in this process, for debugging.")
@click.option(
    "--sign",
    "key_file",
    type=click.Path(path_type=Path),
    help="Write a result, signed with this key of `plugins key`, into the current folder.",
)
def check(
    target: str,
    as_json: bool,
    case_files: tuple[Path, ...],
    in_process: bool,
    key_file: Path | None,
) -> None:
    """Check a plugin against its contract, in a plugin host with a ledger of its own.

    PATH is a folder with a pyproject.toml, which need not be installed, or a wheel; NAME an
    installed distribution or plugin. Says which tier it reaches, and what keeps it from the next.
    Exits with 1 if a check fails. The plugin's code runs, with test money only.
    """
    from solward.plugins.check_results import read_key
    from solward.settings import Settings
    from solward.telemetry import logs
    from solward.testing.conformance.cases import read_cases
    from solward.testing.conformance.report import lowest_grade
    from solward.testing.conformance.runner import check_target

    logs.configure("error")
    with refusals():
        key = None if key_file is None else read_key(key_file)
        checked = check_target(
            target,
            in_process=in_process,
            home=lambda: Settings().solward_home,
            cases=list(map(read_cases, case_files)),
        )
        reports = checked.reports
        written = None if key is None else _write_result(checked, key)
    is_good = all(report.ok for report in reports)
    if as_json:
        plugins = list(map(_report_json, reports))
        told = {"ok": is_good, "tier": _tier_name(lowest_grade(reports)), "plugins": plugins}
        click.echo(json.dumps(told, indent=2))
    else:
        _print_reports(reports)
    if written is not None:
        click.echo(f"Signed: {written}", err=as_json)
    if not is_good:
        sys.exit(EXIT_FAILED)


def _write_result(checked: CheckedTarget, key: CheckKey) -> Path:
    """Write the signed result of a check to the current folder.

    Raises:
        InvalidRequest: the bytes that were checked are not known, or they ran unconfined.
    """
    from solward.plugins.check_results import CheckResult, sign_result
    from solward.testing.conformance import Outcome
    from solward.testing.conformance.report import lowest_grade

    own, reports = checked.own, checked.reports
    if own is None:
        raise InvalidRequest(
            "--sign: a result names the bytes that were checked; give a wheel, or a distribution"
            " in a folder of its own"
        )
    if any(report.finding("host").outcome is not Outcome.OK for report in reports):
        raise InvalidRequest("--sign: the plugin ran unconfined, where it could have read the key")
    result = CheckResult(
        distribution=own.name,
        version=own.version,
        digest=checked.digest,
        wheels=own.wheels,
        solward=__version__,
        date=iso(now_ms()),
        tier=_tier_name(lowest_grade(reports)),
        plugins=tuple(map(_report_json, reports)),
    )
    path = Path(f"{own.name}-{own.version}.check.json")
    path.write_bytes(sign_result(result, key))
    return path


def _report_json(report: Report) -> dict[str, Any]:
    return {
        "name": report.plugin,
        "kind": report.kind,
        "distribution": report.distribution,
        "version": report.version,
        "ok": report.ok,
        "tier": _tier_name(report.grade),
        "findings": [
            {"check": each.check, "outcome": each.outcome.value, "detail": each.detail}
            for each in report.findings
        ],
    }


def _tier_name(grade: Grade | None) -> str | None:
    return None if grade is None or grade.tier is None else grade.tier.name


def _print_reports(reports: Sequence[Report]) -> None:
    for report in reports:
        of = f"of {report.distribution} {report.version}"
        show(plain(f"{report.kind} {report.plugin} {of}", "bold"))
        for each in report.findings:
            outcome = plain(f"  {each.outcome.value:<7}", _STYLES[each.outcome.value])
            detail = f": {each.detail}" if each.detail else ""
            show(plain("").append_text(outcome).append(visible(f"  {each.check}{detail}")))
        if report.grade is not None:
            show(plain(f"  {tier_line(report.grade)}", "bold"))
    for line in advice(reports):
        show(plain(line))


def tier_line(grade: Grade) -> str:
    """Return the tier, and the checks that are missing for the next tier."""
    reached = "no tier" if grade.tier is None else f"{grade.tier.name}: {grade.tier.means}"
    if grade.above is None:
        return reached
    missing = ", ".join(each.check for each in grade.missing)
    return f"{reached}; for {grade.above.name} it lacks {missing}"


def advice(reports: Sequence[Report]) -> list[str]:
    """Return texts that say what to do after the checks."""
    failed = [f"{each.plugin} ({', '.join(each.failed)})" for each in reports if each.failed]
    warned = [f"{each.plugin} ({', '.join(each.warnings)})" for each in reports if each.warnings]
    lines = []
    if failed:
        lines.append(f"Mend before you install: {'; '.join(failed)}.")
    if warned:
        lines.append(f"Look at the warnings: {'; '.join(warned)}.")
    if not failed:
        many = "The plugin conforms" if len(reports) == 1 else f"All {len(reports)} plugins conform"
        lines.append(
            f"{many}. A running service loads a plugin once `solward plugins install` installs its"
            " wheel. A plugin that pip installed is loaded at the next start."
        )
    return lines


@click.command("key")
@click.argument("file", type=click.Path(path_type=Path))
def key(file: Path) -> None:
    """Create a key that signs results of `plugins check`, in the new FILE.

    Only the current user can read FILE. Prints the public key, with which others verify results.
    """
    from solward.plugins.check_results import create_key

    with refusals():
        made = create_key(file)
    click.echo(made.public)


@click.command("verify")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--key", "public", required=True, help="Public key of the result's signer.")
@click.argument("target", metavar="[WHEEL-or-NAME]", required=False)
def verify(result: Path, public: str, target: str | None) -> None:
    """Verify a signed result of `plugins check` and the wheel or plugin it is for.

    NAME is a distribution in a folder of its own. A result says who checked which bytes, not that
    the plugin is harmless.
    """
    from solward.plugins.check_results import read_result

    with refusals():
        said = read_result(result, public)
        about = (
            "No wheel or plugin was compared." if target is None else _compare_target(said, target)
        )
    click.echo(visible(f"{summary(said)} {about}"))


def summary(said: CheckResult) -> str:
    """Describe a verified result in a sentence."""
    tier = "a check failed, so no tier" if said.tier is None else said.tier
    return (
        f"{said.distribution} {said.version}: {tier}; checked on {said.date} with Solward"
        f" {said.solward}."
    )


def _compare_target(said: CheckResult, target: str) -> str:
    from solward.plugins.folders.layout import canonical, read
    from solward.settings import Settings

    if target.endswith(".whl"):
        said.check_wheel(Path(target))
        more = len(said.wheels) - 1
        needs = f" The {more} wheels that it needs were not compared." if more else ""
        return f"The result is for this wheel.{needs}"
    one = read(Settings().solward_home, canonical(target))
    if one is None:
        raise FolderError(f"{target} is no wheel, and is not installed in a folder of its own")
    said.check_installed(one)
    return "The result is for the installed plugin and all wheels that it needs."
