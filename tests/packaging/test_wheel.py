"""The wheel holds everything a user's machine needs, and nothing that is not ours to install."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.repository import ROOT

PACKAGES = {
    "solward",
    "solward_plugins",
    "solward_localnet",
    "solward_server",
    "solward_mcp",
    "solward_dashboard",
    "solward_cli",
}


@pytest.mark.more
def test_the_wheel_is_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name for name in names if name.endswith("entry_points.txt"))
        entry_points = archive.read(info).decode()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert "solward/py.typed" in names
    assert "solward/plugins/folders/models.txt" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    sources = {
        str(path.relative_to(root))
        for root in (ROOT / "framework", ROOT / "plugins", ROOT / "server")
        for path in root.rglob("*.py")
    }
    assert sources <= set(names)
    assert "solward = solward_cli:main" in entry_points
    shipped = "solward_cli/paid_api/"
    listed = subprocess.run(
        ["git", "ls-files"],
        cwd=ROOT / "examples" / "paid_api" / "paid_api",
        capture_output=True,
        text=True,
        check=True,
    )
    carried = {name.removeprefix(shipped) for name in names if name.startswith(shipped)}
    assert carried == set(listed.stdout.split())
    # The demo's seller is the one that the wheel carries, not one of the source tree.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = "from solward_cli.up import demo; print(demo.import_paid_api().forecast.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seller = tmp_path / "installed" / "solward_cli" / "paid_api" / "forecast.py"
    assert Path(ran.stdout.strip()) == seller
