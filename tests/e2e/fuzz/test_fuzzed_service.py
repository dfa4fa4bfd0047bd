"""schemathesis tries the whole description on a real service, as the admin, a key and nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.e2e.fuzz.fuzzing import ENDLESS, PHASES, Run, fuzz, rich_service
from tests.promises import promise

pytestmark = pytest.mark.more

CALLERS = ("admin", "key", "none")
METHODS = {"ST204", "ST205"}
"""schemathesis's codes: the wrong answer to an undeclared method, and `Allow`."""
IDS_TOO = {
    f"/api/v1/{path}" for path in ("admins/self", "keys/self", "policy/check", "policy/replay")
}


def judge(run: Run) -> None:
    """Nothing failed, nothing was left out, nothing went wrong on the way."""
    left = [each for each in run.report["failures"] if not _methods_of_ids(each)]
    assert left == [], run.output[-20_000:]
    assert run.code == int(run.report["failures"] != []), run.output[-20_000:]
    assert run.report["complete"]
    assert run.report["operations"]["errored"] == 0
    assert run.report["operations"]["tested"] == run.report["operations"]["selected"]
    assert run.report["errors"] == []


def _methods_of_ids(failure: dict[str, Any]) -> bool:
    """Whether all it says is that a path whose last part is an id as well has the id's methods."""
    paths = {each.partition(" ")[2] for each in failure["operations"]}
    return failure["code"] in METHODS and paths <= IDS_TOO


@promise("money-500-has-record")
@pytest.mark.timeout(300)
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with rich_service(tmp_path / "s" / "home") as (service, facts):
        for caller, phases in (("admin", "fuzzing,stateful"), ("none", "fuzzing")):
            run = fuzz(service, facts, caller, tmp_path / caller, cases=1, phases=phases)
            judge(run)
            assert run.report["test_cases"]["generated"] > 60


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("caller", CALLERS)
def test_two_hundred_cases_an_operation_find_nothing(tmp_path: Path, caller: str) -> None:
    (tmp_path / "s").mkdir()
    with rich_service(tmp_path / "s" / "home") as (service, facts):
        run = fuzz(service, facts, caller, tmp_path / caller, cases=200, phases=PHASES)
        with service.client() as client:
            described = client.get("/openapi.json").json()["paths"]
        print(f"{caller}: {run.report['operations']} {run.report['test_cases']}")
        judge(run)
        for path, methods in described.items():
            for method, operation in methods.items():
                # One that takes nothing can be asked in few ways only.
                if path != ENDLESS and ("parameters" in operation or "requestBody" in operation):
                    assert run.counts[f"{method.upper()} {path}"] >= 200, (method, path)
