"""Virtual environments that plugins are really installed into and removed from."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any


class Environment:
    """An environment of its own that also sees what this one has installed."""

    def __init__(self, path: Path) -> None:
        venv.create(path, symlinks=True, with_pip=False)
        self.python = str(path / "bin" / "python")
        scheme = sysconfig.get_preferred_scheme("prefix")
        base = {"base": str(path), "platbase": str(path)}
        site = Path(sysconfig.get_path("purelib", scheme, vars=base))
        # addsitedir reads the .pth files there as well, those of editable installs among them.
        seen = sysconfig.get_path("purelib")
        (site / "seen.pth").write_text(f"import site; site.addsitedir({seen!r})\n")

    def run(
        self, *arguments: str, cwd: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS`, whatever its exit code."""
        return subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "HOME": str(cwd)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def solward(self, *arguments: str, cwd: Path, **environment: str) -> Any:
        """`solward ARGUMENTS`, whatever its exit code."""
        return self.run("-m", "solward_cli", *arguments, cwd=cwd, **environment)

    def install(self, *projects: Path) -> None:
        """`pip install PROJECTS`; what they need is there, so no index is asked."""
        options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
        named = map(str, projects)
        done = self.run("-m", "pip", "install", *options, *named, cwd=projects[0].parent)
        assert done.returncode == 0, done.stderr

    def uninstall(self, *distributions: str, cwd: Path) -> None:
        """`pip uninstall DISTRIBUTIONS`."""
        done = self.run("-m", "pip", "uninstall", "--quiet", "--yes", *distributions, cwd=cwd)
        assert done.returncode == 0, done.stderr
