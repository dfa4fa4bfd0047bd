"""Solward's wheel beside frameworks of others, and their examples run by scripted vendors."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.kept_environments import python_environment, run
from tests.support.repository import ROOT

LOCKS = ROOT / "tests" / "e2e" / "agents_elsewhere"
EXAMPLES = ROOT / "examples" / "agents_elsewhere"

# What the frameworks would tell their makers of a run.
_SILENT = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


def built_wheel(folder: Path) -> Path:
    """Solward's wheel, built into a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


class Beside:
    """The environment of a lock with Solward's wheel in it, as `pip install` would leave it.

    The wheel is in a folder of its own, so that the kept environment is of its lock alone.
    """

    def __init__(self, lock: str, folder: Path) -> None:
        self.python = python_environment(LOCKS / lock)
        self.site, self.bin, self.home = folder / "site", folder / "bin", folder / "home"
        with zipfile.ZipFile(built_wheel(folder)) as wheel:
            wheel.extractall(self.site)
        for each in (self.bin, self.home):
            each.mkdir()
        script = self.bin / "solward"
        paths = f"import sys; sys.path.insert(0, {str(self.site)!r})"
        start = "from solward_cli import main; main()"
        script.write_text(f"#!{self.python}\n{paths}\n{start}\n")
        script.chmod(0o755)

    def release(self, distribution: str) -> str:
        """The version that is installed."""
        code = f"from importlib.metadata import version; print(version({distribution!r}))"
        return run(self.python, "-c", code, cwd=self.home).strip()

    def example(self, name: str, task: str, **environment: str) -> str:
        """What an example prints, whose last step answers the task."""
        ran = subprocess.run(
            [self.python, EXAMPLES / name, task],
            cwd=self.home,
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "HOME": str(self.home),
                **_SILENT,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
        return ran.stdout
