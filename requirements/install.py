"""Installs a lock with the pip of this environment, and says how far it is, a line in a while.

    .venv/bin/python requirements/install.py requirements/up.txt

Wheels alone, each with a hash that the lock has. What pip says of errors is printed as it is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

# Lines of pip, once for each distribution that it takes from an index, its cache or a folder.
_TAKEN = re.compile(
    r"\s*(Downloading|Using cached|Processing) \S+\.whl|Requirement already satisfied"
)
_LOCKED = re.compile(r"^[\w.-]+==", re.MULTILINE)
_INCLUDED = re.compile(r"^-r (\S+)", re.MULTILINE)
_EVERY = 25


def main(lock: Path) -> int:
    """Install `lock` into the environment of this Python; pip's exit code."""
    total, began, taken = locked(lock), time.monotonic(), 0
    print(f"Fetching {total} distributions of {lock} at most", flush=True)
    options = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
    checked = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", lock)
    command = [sys.executable, "-m", "pip", "install", *options, *checked]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - no shell
    with pip:
        for line in pip.stdout or ():
            if _TAKEN.match(line):
                taken += 1
                if taken % _EVERY == 0:
                    print(f"  {taken} of {total}, {time.monotonic() - began:.0f} s", flush=True)
            elif line.startswith("Installing collected packages"):
                count = line.count(",") + 1
                print(f"Unpacking {count} into {sys.prefix}", flush=True)
    if pip.returncode == 0:
        print(f"Installed in {time.monotonic() - began:.0f} s", flush=True)
    return pip.returncode


def locked(lock: Path) -> int:
    """How many distributions a lock has, with those of the locks that it includes."""
    text = lock.read_text()
    included = sum(locked(lock.parent / name) for name in _INCLUDED.findall(text))
    return len(_LOCKED.findall(text)) + included


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("the path of a lock is expected, such as requirements/up.txt")
    sys.exit(main(Path(sys.argv[1])))
