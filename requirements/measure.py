"""What installing takes, by pip and the machine's own package index.

    python requirements/measure.py sizes     # a table of the extras
    python requirements/measure.py beside    # whether pip resolves Solward beside agent frameworks

Needs `hatchling`, as an environment of `make install` has it, for Solward's wheel.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "mcp", "dashboard", "up", "up,postgres", "up,otel", "test", "llm")
FRAMEWORKS = ("langchain-mcp-adapters", "openai-agents", "crewai")
_QUIET = ("--quiet", "--disable-pip-version-check")


def main() -> None:
    """Measure what the argument names."""
    measures = {"sizes": sizes, "beside": beside}
    if len(sys.argv) != 2 or sys.argv[1] not in measures:
        sys.exit(f"one of {', '.join(measures)} is expected")
    with tempfile.TemporaryDirectory() as folder:
        measures[sys.argv[1]](Path(folder), wheel(Path(folder)))


def wheel(folder: Path) -> Path:
    """Solward's wheel."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [built] = folder.glob("*.whl")
    return built


def sizes(folder: Path, built: Path) -> None:
    """Install each extra into an environment of its own; MB are 10^6 bytes of its files, those that
    were compiled too, without pip's own."""
    print("| `pip install` | distributions | MB | seconds |\n|---|---|---|---|")
    for extra in EXTRAS:
        environment = folder / "env"
        run(sys.executable, "-m", "venv", "--clear", environment)
        python = environment / "bin" / "python"
        before, began = size(environment), time.monotonic()
        named = f"[{extra}]" if extra else ""
        run(python, "-m", "pip", "install", *_QUIET, f"{built}{named}")
        took, grown = time.monotonic() - began, size(environment) - before
        [site] = environment.glob("lib/python*/site-packages")
        distributions = {each.name for each in site.glob("*.dist-info")}
        own = sum(name.startswith(("pip-", "setuptools-")) for name in distributions)
        count = len(distributions) - own
        print(f"| `solward{named}` | {count} | {grown / 1e6:.0f} | {took:.0f} |", flush=True)


def beside(folder: Path, built: Path) -> None:
    """Resolve the base, and the extra `mcp`, beside each framework and beside all of them."""
    for extra in ("", "[mcp]"):
        for names in (*((each,) for each in FRAMEWORKS), FRAMEWORKS):
            asked = ("install", "--dry-run", "--ignore-installed", *_QUIET, "--report", "/dev/null")
            done = subprocess.run(  # noqa: S603 - no shell
                [sys.executable, "-m", "pip", *asked, f"{built}{extra}", *names],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            found = "resolves" if done.returncode == 0 else f"does not resolve: {done.stderr}"
            print(f"solward{extra} beside {', '.join(names)}: {found}", flush=True)


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(each.lstat().st_size for each in folder.rglob("*") if not each.is_dir())


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command that has to succeed."""
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - no shell


if __name__ == "__main__":
    main()
