"""docs/reference/cli.md lists every command with its arguments, and no other."""

from __future__ import annotations

import re

from tests.operations.generate import commands
from tests.support.repository import DOCS

from solward_cli import main

PAGE = (DOCS / "reference/cli.md").read_text()
ROWS = re.findall(r"^\| `solward ([^`]+)` \| .+ \|$", PAGE, re.MULTILINE)


def test_every_command_is_documented_and_no_other() -> None:
    assert sorted(ROWS) == sorted(usage for usage, _ in commands(main))
