"""Pages of docs whose commands are run: the commands, and what each prints."""

from __future__ import annotations

import re


def page_commands(page: str) -> list[tuple[str, list[str]]]:
    """Each command of a page with the lines that it prints, in their order."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in map(str.strip, block.splitlines()):
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line:
                found[-1][1].append(line)
    return found
