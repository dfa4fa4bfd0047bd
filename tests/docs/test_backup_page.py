"""docs/how-to/backup.md names commands that exist, and the numbers that the code has."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from tests.support.repository import DOCS

from solward.backup import archive
from solward.backup.archive import FILES, FOLDERS, NEXT_KEY_FILE
from solward.types.events import EventKind
from solward.vault.custody.envelope import ARGON2
from solward_cli import main
from solward_cli.backup import MIN_PASSPHRASE

PAGE = (DOCS / "how-to/backup.md").read_text()
BLOCKS = "".join(re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S))
SHOWN = re.findall(r"^(?:\$ )?(?:\w+=\S+ )*(solward .+)$", BLOCKS, re.M)
NAMED = [text for text in re.findall(r"`(solward [^`]+)`", PAGE) if text != "solward restore"]


@pytest.mark.parametrize("line", SHOWN + NAMED)
def test_every_command_exists_with_its_options(line: str) -> None:
    command: click.Command = main
    context = click.Context(main)
    rest = shlex.split(line)[1:]
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        if found is None:
            # `backup FILE` is `backup create FILE`.
            assert command.name == "backup"
            found = command.get_command(context, "create")
            rest = ["create", *rest]
        assert found is not None
        command, rest = found, rest[1:]
    assert not isinstance(command, click.Group) or command.name == "backup"
    command.make_parser(click.Context(command)).parse_args(rest)


def test_the_numbers_and_names_are_the_codes() -> None:
    argon2 = ARGON2
    for text in (
        f"{MIN_PASSPHRASE} characters or more",
        f"Argon2id ({argon2['memory_kib'] // 1024} MiB, {argon2['time_cost']} pas",
        f"chunks of {archive.CHUNK >> 20} MiB",
        f"`{EventKind.WALLET_EXPORTED}`",
    ):
        # Lines of a paragraph run on.
        assert text in " ".join(PAGE.split()), text
    files = re.findall(r"^\| `([\w.]+)` \|", PAGE, re.M)
    assert set(files) == {*FILES, *FOLDERS} - {NEXT_KEY_FILE}
