"""What `deploy/single-host` does by itself on one machine, run as systemd runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository import ROOT

BACKUP_UNIT = ROOT / "deploy" / "single-host" / "solward-backup.service"


@pytest.mark.more
def test_the_backup_of_one_host_is_made_and_can_be_restored(services: Any, tmp_path: Path) -> None:
    [line] = re.findall(r"^ExecStart=/bin/sh -c '(.+?)'$", BACKUP_UNIT.read_text(), re.M | re.S)
    program = Path(sys.executable).with_name("solward")
    backups = tmp_path / "backups"
    backups.mkdir()
    words = tmp_path / "backup.words"
    words.touch(0o600)
    words.write_text("correct horse battery staple\n")
    script = line.replace("$$", "$").replace("%%", "%").replace("\\\n", " ")
    for there, here in (
        ("/opt/solward/bin/solward", program),
        ("/etc/solward/backup.words", words),
        ("/var/backups/solward", backups),
    ):
        assert there in script
        script = script.replace(there, str(here))
    service = services().start()
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env=service.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "keys open and match" in done.stdout
    [made] = backups.iterdir()
    assert re.fullmatch(r"\d{8}T\d{6}Z\.backup", made.name)
