"""The file of past runs of `make bench`, and the last of them beside each other.

    python -m benchmarks.runs --last 5

A line of the file is a run: {"commit", "changed", "date", "machine", "load", "failed", "ratios"}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report import Ratio

ROOT = Path(__file__).resolve().parents[1]
RUNS = Path(__file__).with_name("runs.jsonl")
_LAST = 5
_NAME_WIDTH = 64
_RUN_WIDTH = 11


class UnreadableRuns(Exception):
    """The file has a line that is no run; the text names it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one `make bench` found.

    Attributes:
        commit: the abbreviated commit; empty where it is not known.
        changed: whether files differed from the commit.
        date: UTC, ISO 8601.
        machine: processors, memory and system.
        load: processes that wanted a processor, in the minute before the run.
        failed: benchmarks that ended with an error and have no ratio.
    """

    commit: str
    changed: bool
    date: str
    machine: str
    load: float
    ratios: tuple[Ratio, ...]
    failed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The run as its line has it, with each ratio beside what it was made from."""
        ratios = [asdict(each) | {"ratio": round(each.ratio, 4)} for each in self.ratios]
        return {
            "commit": self.commit,
            "changed": self.changed,
            "date": self.date,
            "machine": self.machine,
            "load": self.load,
            "failed": list(self.failed),
            "ratios": ratios,
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Run:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError: it is no run.
        """
        ratios = tuple(
            Ratio(each["name"], each["figure"], each["against"], each["unit"], each["at_least"])
            for each in line["ratios"]
        )
        return cls(
            commit=line["commit"],
            changed=line["changed"],
            date=line["date"],
            machine=line["machine"],
            load=line["load"],
            ratios=ratios,
            failed=tuple(line["failed"]),
        )


def begun() -> Run:
    """A run that has measured nothing yet, of this commit on this machine."""
    return Run(
        commit=_git("rev-parse", "--short=9", "HEAD"),
        changed=bool(_git("status", "--porcelain", "--untracked-files=no")),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        load=round(os.getloadavg()[0], 2),
        ratios=(),
    )


def keep(run: Run, path: Path = RUNS) -> None:
    """Add the run to the file, which is made where it is not there."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run.to_json()) + "\n")


def kept(path: Path = RUNS) -> list[Run]:
    """Every run of the file, oldest first; none where there is no file.

    Raises:
        UnreadableRuns: a line is no run.
    """
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(Run.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            text = f"{path}, line {number}, is no run of a benchmark: {error!r}"
            raise UnreadableRuns(text) from None
    return found


def beside(runs: Sequence[Run]) -> Iterator[str]:
    """The runs beside each other, a line each ratio; `!` marks one below its limit of that run,
    `-` one that was not measured."""
    for number, run in enumerate(runs, 1):
        commit = (run.commit or "no commit") + ("+" if run.changed else "")
        failed = f"; failed: {', '.join(run.failed)}" if run.failed else ""
        yield f"{number}: {run.date} {commit} on {run.machine}, load {run.load:g}{failed}"
    numbers = "".join(f"{number:>{_RUN_WIDTH}}" for number in range(1, len(runs) + 1))
    yield f"{'':<{_NAME_WIDTH}}{numbers}   at least"
    columns = [{each.name: each for each in run.ratios} for run in runs]
    for name in dict.fromkeys(name for column in reversed(columns) for name in column):
        cells = [_cell(column.get(name)) for column in columns]
        # Limits change; the last is the one that counts.
        limit = next(column[name].at_least for column in reversed(columns) if name in column)
        figures = "".join(f"{cell:>{_RUN_WIDTH}}" for cell in cells)
        yield f"{name:<{_NAME_WIDTH}}{figures}   {limit:g}"


def _cell(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio.ratio:.3f}{' ' if ratio.holds else '!'}"


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        # An unpacked archive has no history.
        return ""
    return found.stdout.strip()


def _machine() -> str:
    processors = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{processors} processors, {memory:.0f} GB, {system}"


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(description="The last runs of `make bench`, side by side.")
    parser.add_argument("--last", type=int, default=_LAST, help="how many")
    parser.add_argument("--file", type=Path, default=RUNS)
    options = parser.parse_args()
    try:
        runs = kept(options.file)[-options.last :]
    except UnreadableRuns as error:
        sys.exit(str(error))
    if not runs:
        sys.exit(f"{options.file} has no run yet; `make bench` adds one")
    for line in beside(runs):
        print(line)


if __name__ == "__main__":
    main()
