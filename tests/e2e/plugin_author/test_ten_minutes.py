"""docs/start/plugin-in-ten-minutes.md runs as it stands in an empty folder and environment."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.plugin_author.quickstart import blocks, empty_environment, script, shell
from tests.promises import promise
from tests.support.processes import free_port

pytestmark = promise("plugin-page-runs-verbatim")


# Half of ten minutes. What the clock says is only told: other tests may share the machine.
PROCESSOR_S = 300

# Where the transcript is kept, for people; else in the test's own folder.
TRANSCRIPT = os.environ.get("QUICKSTART_TRANSCRIPT")


def test_the_script_is_the_whole_page() -> None:
    found = list(blocks())
    assert [block.text for block in found if block.background] == ["solward up --demo\n"]
    assert len(found) >= 7
    for block in found:
        assert all(line in script(3001) for line in block.text.splitlines())
    checked = subprocess.run(["bash", "-n", "-c", script(1)], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_stranger_has_skills_acting_in_an_agent_and_on_a_schedule_within_ten_minutes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "stranger"
    folder.mkdir()
    port = free_port()
    environment = empty_environment(
        folder, API_PORT=str(port), DASHBOARD_PORT="0", SOLWARD_HOME=str(folder / "home")
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = shell(script(port), folder, environment)
    took = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    told = f"{took:.0f} s, {processor:.0f} s of them working"
    kept = Path(TRANSCRIPT) if TRANSCRIPT else tmp_path / "transcript.txt"
    kept.write_text(f"{done.stdout}\nexit code {done.returncode}, {told}\n")
    sys.stdout.write(f"transcript: {kept}, {told}\n")
    assert done.returncode == 0, done.stdout[-4000:]
    for expected in (
        r"^tip_jar +skill +tip-jar .+ loaded .+ effects: spend; operations: transfer; assets: SOL ",
        r"^tip_jar_total +skill +tip-jar +0\.1\.0 +loaded .+ operations: none ",
        r"^\d+ passed",
        r"^All 2 plugins conform",
        r'"outcome": ?"Tipped 0\.02 SOL\. Signature: ',
        r'^"name":"tip_jar_total"$',
        r'^\{"result": ?"Tipped 0\.03 SOL\.',
        r'^\{"error": ?"amount: must be at most 0\.1 \(got 3\)"\}',
        r'^\{"result": ?"The jar holds 0\.\d{4} SOL\."\}',
        r'^"agentId":"[0-9a-f-]{36}"$',
        r'"text": ?"Tipped 0\.01 SOL\.',
        r"^  platinum: its examples move exactly what their records say",
        r"^  instalments needs operations: transfer$",
        r"^instalments +spend +Pay the next instalment",
        r"succeeded +[0-9a-f-]{36} +Paid 0\.01 of 0\.02 SOL: confirmed\.$",
        r'^paid +1 .+ confirmed +\{"sol":"0\.01","before":"0"\}$',
        r"^Removed instalments",
    ):
        assert re.search(expected, done.stdout, re.M), (expected, done.stdout[-4000:])
    assert processor < PROCESSOR_S


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_wheel_alone_runs_the_demo_in_an_empty_environment(tmp_path: Path) -> None:
    port = free_port()
    environment = empty_environment(
        tmp_path, API_PORT=str(port), DASHBOARD_PORT="0", SOLWARD_HOME=str(tmp_path / "h")
    )
    install = next(iter(blocks())).text
    checked = "solward plugins new fresh\nsolward plugins check ./fresh"
    up = "solward up --demo --no-rpc > up.log 2>&1 & trap 'kill $!; wait' EXIT"
    acted = (
        f"until curl -s http://127.0.0.1:{port}/api/v1/transactions -H 'Authorization: Bearer"
        " solward-development-secret-change-me' | grep -q token_launch; do"
        " kill -0 $! || { cat up.log; exit 1; }; sleep 0.5; done"
    )
    done = shell(
        f"set -eu\n{install}\npip check\npip list\n{checked}\n{up}\n{acted}\n",
        tmp_path,
        environment,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "No broken requirements found" in done.stdout
    assert "All 2 plugins conform" in done.stdout
    assert not re.search(r"^pytest", done.stdout, re.M), (
        "the wheel alone must not bring what only tests need"
    )
