"""`make lock` reads every hash anew: uv keeps those that it is given while a version stays."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from tests.support.repository import ROOT

UV = """#!/bin/sh
# What uv is given as the lock so far, and what it makes of it.
while [ "$1" != "-o" ]; do shift; done
cp "$2" "$SEEN"
printf 'acme==1.0 \\\\\\n    --hash=sha256:11 \\\\\\n    --hash=sha256:22\\n' > "$2"
"""


def test_versions_are_kept_and_hashes_are_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "requirements" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    lock = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock)
    uv, seen = tmp_path / "uv", tmp_path / "seen"
    uv.write_text(UV)
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(seen))
    known = (
        "acme==1.0 \\\n    --hash=sha256:33\n"
        "other==2.0 ; sys_platform == 'x' \\\n    --hash=sha256:44\n"
    )
    made = lock.resolved(["acme"], known)
    assert seen.read_text() == "acme==1.0\nother==2.0 ; sys_platform == 'x'\n"
    assert made == {"acme": "acme==1.0 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"}
