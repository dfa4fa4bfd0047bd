"""The commands of docs/how-to/payments.md run in their order; its tables are the product's."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.page_commands import page_commands
from tests.support.processes import ended, running
from tests.support.repository import DOCS, ROOT

from solward.types.payment import PaymentMode, PaymentState

PAGE = (DOCS / "how-to/payments.md").read_text()
SELLER = "127.0.0.1:4021"
REFUSED = 3


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.M)[0]


def test_every_state_mode_and_refusal_is_explained() -> None:
    states = re.findall(r"^\| `(\w+)` \|", section("States"), re.M)
    assert states == [each.value for each in PaymentState]
    modes = re.findall(r"^\| `(\w+)`", section("Modes"), re.M)
    assert sorted(modes) == sorted(each.value for each in PaymentMode)
    folder = ROOT / "framework" / "solward" / "operations" / "payments"
    source = "".join(each.read_text() for each in folder.glob("*.py"))
    codes = set(re.findall(r'PaymentRefused\(\s*"(\w+)"', source))
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section("What is refused"), re.M)
    explained = set(re.findall(r"`(\w+)`", "".join(rows)))
    # One name for what has no code of its own, one for what the connection's check says.
    assert explained == codes | {"offer_malformed", "address_refused"}


@pytest.mark.more
def test_its_two_minutes_buy_a_forecast(tmp_path: Path) -> None:
    arguments = ("up", "--demo", "--port", "0", "--no-rpc", "--no-dashboard")
    with running(tmp_path / "home", *arguments) as (process, screen):
        api = re.search(r"^API: +(\S+)/api/v1$", screen, re.M)
        seller = re.search(r"^Demo seller: +http://([\d.:]+)/forecast", screen, re.M)
        assert api is not None
        assert seller is not None
        environment = {
            "PATH": os.environ["PATH"],
            "SOLWARD_HOME": str(tmp_path / "home"),
            "SOLWARD_API_URL": api[1],
            "COLUMNS": "100",
        }
        codes = []
        for command, lines in page_commands(PAGE):
            words = shlex.split(command.replace(SELLER, seller[1]))
            assert words[0] == "solward"
            ran = subprocess.run(
                [sys.executable, "-m", "solward_cli", *words[1:]],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
            )
            codes.append(ran.returncode)
            for line in lines:
                line = line.replace(SELLER, seller[1])
                pattern = ".*".join(map(re.escape, line.split("…")))
                assert re.search(pattern, ran.stdout), f"{command}: {ran.stdout}{ran.stderr}"
            if ran.returncode not in (0, REFUSED):
                raise AssertionError(f"{command}: {ran.stdout}{ran.stderr}")
        # The last offers less than the price.
        assert codes == [0, 0, 0, 0, 0, 0, REFUSED]
        ended(process, signal.SIGINT)
