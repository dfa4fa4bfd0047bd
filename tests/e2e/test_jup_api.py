"""The swap API's own client for JavaScript against the market of a `solward localnet` process."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.environments import npm_environment
from tests.support.localnet import localnet_process

JUP_API = Path(__file__).parent / "jup_api"


@pytest.mark.more
@pytest.mark.timeout(300)
def test_jup_ag_api_quotes_and_swaps_at_the_localnets_market(tmp_path: Path) -> None:
    shutil.copy(JUP_API / "check.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(npm_environment(JUP_API, "jup-api"))
    with localnet_process(tmp_path / "localnet.db", "--slot-ms", "100") as node:
        command = ["node", "check.mjs", node.http]
        check = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert check.returncode == 0, check.stdout + check.stderr
    assert json.loads(check.stdout.splitlines()[-1]) == [
        "quoteGet",
        "swapPost",
        "swapInstructionsPost",
        "programIdToLabelGet",
        "refusals",
    ]
