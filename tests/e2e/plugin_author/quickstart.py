"""The commands of docs/start/plugin-in-ten-minutes.md, as one script that tells what it runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "start/plugin-in-ten-minutes.md"
_PART = re.compile(
    r"^## (?P<title>[^\n]+)$|^```sh(?P<behind> background)?\n(?P<text>.*?)^```$", re.M | re.S
)

# The service's own first lines end with it.
READY = "Try:"


@dataclass(frozen=True, slots=True)
class Block:
    """Commands of the page, under the heading they stand under."""

    title: str
    text: str
    background: bool


def blocks(page: Path = PAGE) -> Iterator[Block]:
    """The page's commands, in order."""
    title = ""
    for found in _PART.finditer(page.read_text()):
        if found["title"]:
            title = found["title"]
        else:
            yield Block(title, found["text"], bool(found["behind"]))


def script(port: int) -> str:
    """All of them; the service is started aside, and listens on `port` in place of 3001."""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    title = ""
    for block in blocks():
        if block.title != title:
            title = block.title
            lines.append(f"printf '\\n[%3d s] %s\\n' $SECONDS {shlex.quote(title)}")
        for line in block.text.splitlines():
            lines.append(f"printf '%s\\n' {shlex.quote('$ ' + line)}")
        if block.background:
            lines += [
                f"{block.text.strip()} > service.log 2>&1 &",
                f"until grep -q '^{READY}' service.log; do",
                "  kill -0 $! || { cat service.log; exit 1; }; sleep 0.2",
                "done",
                "cat service.log",
            ]
        else:
            lines.append(block.text.replace(":3001", f":{port}"))
    lines.append("printf '\\n[%3d s] done\\n' $SECONDS")
    return "\n".join(lines)


def empty_environment(folder: Path, **more: str) -> Mapping[str, str]:
    """The variables of a person who has Python, and pip's configuration of this machine."""
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return pip | {"PATH": path, "HOME": str(folder), "SOLWARD": str(ROOT)} | more


def shell(
    text: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script with bash; standard output and standard error in one."""
    return subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
