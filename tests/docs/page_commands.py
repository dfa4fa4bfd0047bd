"""Pages of docs whose commands are run: the commands, and what each prints."""

from __future__ import annotations

import re
from collections.abc import Mapping

from solward.settings.secrecy import is_well_known


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


def page_settings(page: str) -> dict[str, str]:
    """The variables of a page's block of settings, but for the admin secret, which is an example
    that nobody serves with."""
    [block] = re.findall(r"<!-- settings -->\n```ini\n(.*?)```", page, re.DOTALL)
    found = dict(line.split("=", 1) for line in block.splitlines())
    assert is_well_known(found["API_SECRET"])
    return found | {
        "API_SECRET": "7c1e9a5b3d2f40688d1c5e0b4a9f6e21" + "c83b07d5f1924e6aa0b95d7c3e1f8642"
    }


def assert_printed(
    command: str, lines: list[str], output: str, stand_ins: Mapping[str, str]
) -> None:
    """Every line of a page is in the output, in its order; `…` is anything.

    Args:
        stand_ins: what the page shows -> what this machine has in its place.
    """
    printed, at = " ".join(output.split()), 0
    for line in lines:
        for shown, here in stand_ins.items():
            line = line.replace(shown, here)
        pattern = r".*?".join(map(re.escape, " ".join(line.split()).split("…")))
        found = re.compile(pattern).search(printed, at)
        assert found is not None, f"{command}: {line!r} is not in {output}"
        at = found.end()
