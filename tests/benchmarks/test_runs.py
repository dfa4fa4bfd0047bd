"""What `make bench` says and keeps; its figures are measured, and no test asserts one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import runs
from benchmarks.__main__ import BENCHMARKS, Benchmark, measured
from benchmarks.report import Ratio, at_most, middle
from tests.support.repository import ROOT

FAST = Ratio("a / b", 30.0, 40.0, "1/s", 0.5)
SLOW = Ratio("c / d", 1.0, 4.0, "ms", 0.5)


def finds(*ratios: Ratio) -> Benchmark:
    async def measure(_folder: Path) -> Iterable[Ratio]:
        return ratios

    return measure


async def breaks(_folder: Path) -> Iterable[Ratio]:
    raise RuntimeError("no such port")


def run_of(*ratios: Ratio, **fields: object) -> runs.Run:
    made = runs.Run("1fc45c6aa", False, "2026-11-23T08:00:00+00:00", "2 processors", 0.25, ratios)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_ratio_holds_from_its_limit_on() -> None:
    assert Ratio("at it", 1.0, 2.0, "1/s", 0.5).holds
    assert not Ratio("under it", 0.9, 2.0, "1/s", 0.5).holds
    assert "(at least 0.5: ok)" in str(FAST)
    assert "(at least 0.5: BELOW)" in str(SLOW)


def test_a_figure_that_must_not_be_above_its_limit_is_the_limit_s_ratio_to_it() -> None:
    held, missed = at_most("start", 2.0, 1.6, "s"), at_most("start", 2.0, 2.5, "s")

    assert (held.ratio, held.holds) == (1.25, True)
    assert (missed.ratio, missed.holds) == (0.8, False)
    assert held.name == missed.name == "start: 2 s / measured"


def test_of_pairs_measured_in_turn_counts_the_one_of_the_middle_ratio() -> None:
    found = middle("row", [(10.0, 10.0), (1.0, 100.0), (6.0, 12.0)], "1/s", 0.7)

    assert (found.figure, found.against, found.ratio) == (6.0, 12.0, 0.5)
    assert not found.holds


async def test_a_run_is_added_to_the_file_with_its_commit_machine_and_each_ratio(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.jsonl"

    assert await measured({"one": finds(FAST)}, path)
    assert await measured({"one": finds(FAST), "two": finds()}, path)

    first, second = map(json.loads, path.read_text().splitlines())
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert first["commit"]
    assert head.stdout.startswith(first["commit"])
    assert "processors" in first["machine"]
    assert first["date"] <= second["date"]
    assert first["ratios"] == [
        {"name": "a / b", "figure": 30.0, "against": 40.0, "unit": "1/s", "at_least": 0.5,
         "ratio": 0.75}
    ]  # fmt: skip


async def test_one_ratio_below_its_limit_fails_the_run_and_the_others_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"

    assert not await measured({"one": finds(FAST, SLOW), "two": finds(FAST)}, path)

    [run] = runs.kept(path)
    assert run.ratios == (FAST, SLOW, FAST)
    assert capsys.readouterr().out.splitlines() == [str(FAST), str(SLOW), str(FAST)]


async def test_a_benchmark_that_ends_with_an_error_fails_the_run_and_the_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"

    assert not await measured({"broken": breaks, "one": finds(FAST)}, path)

    [run] = runs.kept(path)
    assert (run.failed, run.ratios) == (("broken",), (FAST,))
    printed = capsys.readouterr()
    assert "broken FAILED" in printed.out
    assert "no such port" in printed.err


def test_the_file_gives_back_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    every = [run_of(FAST), run_of(SLOW, changed=True, failed=("fleet",)), run_of()]

    assert runs.kept(path) == []
    for run in every:
        runs.keep(run, path)

    assert runs.kept(path) == every


@pytest.mark.parametrize("line", ["{", "[]", '{"commit": "a"}', "7"])
def test_a_line_that_is_no_run_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    runs.keep(run_of(FAST), path)
    with path.open("a") as file:
        file.write(f"{line}\n")

    with pytest.raises(runs.UnreadableRuns, match=r"runs\.jsonl, line 2, is no run"):
        runs.kept(path)


def test_runs_stand_beside_each_other_by_the_names_of_their_ratios() -> None:
    stricter = replace(FAST, at_least=0.8)
    found = list(runs.beside([run_of(FAST, SLOW), run_of(stricter, changed=True)]))

    assert found[0].startswith("1: 2026-11-23T08:00:00+00:00 1fc45c6aa on 2 processors, load 0.25")
    assert " 1fc45c6aa+ on " in found[1]
    cells = {line[:5]: line.split()[3:] for line in found[3:]}
    # Under the limit of its own run, and under the last.
    assert cells == {"a / b": ["0.750", "0.750!", "0.8"], "c / d": ["0.250!", "-", "0.5"]}


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        pytest.param([], "has no run yet", id="no_file"),
        pytest.param([run_of(FAST)] * 3, "a / b", id="runs"),
    ],
)
def test_the_command_prints_the_last_runs(tmp_path: Path, kept: list[runs.Run], says: str) -> None:
    path = tmp_path / "runs.jsonl"
    for run in kept:
        runs.keep(run, path)

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.runs", "--last", "2", "--file", str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode == 0) is bool(kept)
    assert says in done.stdout + done.stderr
    assert "3: " not in done.stdout


@pytest.mark.more
def test_a_name_that_is_no_benchmark_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "rets", "--runs", str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "no benchmark rets; there are startup, rest" in done.stderr
    assert not path.exists()


def test_every_benchmark_of_the_page_is_run_and_every_one_that_runs_is_on_the_page() -> None:
    page = (ROOT / "docs" / "assurance/benchmarks.md").read_text()
    table = page.split("|---|---|", 1)[1].split("\n\n", 1)[0]
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]

    assert named == list(BENCHMARKS)
