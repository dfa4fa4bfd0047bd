"""docs/reference/cli.md lists every command with its arguments, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from tests.support.repository import DOCS

from solward_cli import main

PAGE = (DOCS / "reference/cli.md").read_text()
ROWS = re.findall(r"^\| `solward ([^`]+)` \| .+ \|$", PAGE, re.MULTILINE)


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    # A group may be a command of its own as well.
    if not command.hidden and (
        not isinstance(command, click.Group) or command.invoke_without_command
    ):
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        shown = [
            each.human_readable_name
            if each.required
            else f"[{each.human_readable_name.strip('[]')}]"
            for each in arguments
        ]
        yield " ".join((*path, *shown))


def test_every_command_is_documented_and_no_other() -> None:
    assert sorted(ROWS) == sorted(commands(main))
