"""MCP hosts: where each keeps its servers, and one server's entry there.

Sources: each host's own documentation of its file (Claude Desktop and Claude Code `mcpServers`,
Cursor `mcp.json`, VS Code `mcp.json`).
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from solward.support import jsontext
from solward.support.atomic_files import write_file
from solward.types.errors import InvalidRequest

URL: Final = "SOLWARD_API_URL"
KEY: Final = "SOLWARD_API_KEY"

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Host:
    """One program that starts MCP servers.

    Attributes:
        title: as its makers write it.
        servers: the field of its file that has the servers, by name.
        typed: whether an entry says that it is on standard input and output.
        then: what a person does once the entry is there.
    """

    title: str
    servers: str
    typed: bool
    then: str

    def entry(self, url: str, key: str) -> Entry:
        """What starts `solward mcp`; the key is in its environment, not on its command line."""
        command, *arguments = solward_command()
        entry = {"command": command, "args": [*arguments, "mcp"], "env": {URL: url, KEY: key}}
        return {"type": "stdio", **entry} if self.typed else entry

    def snippet(self, name: str, entry: Entry) -> dict[str, Any]:
        """The entry as its file has it."""
        return {self.servers: {name: entry}}


HOSTS: Final = {
    "claude-desktop": Host("Claude Desktop", "mcpServers", False, "Quit Claude Desktop, start it"),
    "claude-code": Host(
        "Claude Code", "mcpServers", True, "Start Claude Code again; /mcp lists it"
    ),
    "cursor": Host("Cursor", "mcpServers", False, "Start Cursor again; its settings list it"),
    "vscode": Host("VS Code", "servers", True, "In VS Code, run MCP: List Servers, and start it"),
}


def file_of(host: str, platform: str = sys.platform) -> Path:
    """The file of the user's own servers, which every project has.

    Args:
        platform: as `sys.platform` names it.
    """
    home = Path.home()
    if platform == "win32":
        programs = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        programs = home / "Library" / "Application Support"
    else:
        programs = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "claude-desktop": programs / "Claude" / "claude_desktop_config.json",
        "claude-code": home / ".claude.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": programs / "Code" / "User" / "mcp.json",
    }[host]


def solward_command() -> list[str]:
    """What starts this installation's `solward`, by its path: hosts have a `PATH` of their own."""
    name = "solward.exe" if sys.platform == "win32" else "solward"
    script = Path(sysconfig.get_path("scripts"), name)
    return [str(script)] if script.exists() else [sys.executable, "-m", "solward_cli"]


@dataclass(frozen=True, slots=True)
class HostFile:
    """A host's file, as it was read.

    Attributes:
        content: empty where there is no file yet.
    """

    path: Path
    servers: str
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, servers: str) -> HostFile:
        """The file as it is now.

        Raises:
            InvalidRequest: it cannot be read, or is not what the host writes itself; a comment, for
                one, would be lost.
        """
        # What a link stands for is written, not in its place.
        path = Path(os.path.realpath(path))
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            text = ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{path} cannot be read: {error}") from None
        try:
            content = jsontext.loads(text, unique_keys=True) if text.strip() else {}
        except ValueError as error:
            raise InvalidRequest(
                f"{path} is not plain JSON ({error}), so it is not changed: leave out --write, and"
                " put the entry in by hand"
            ) from None
        if not isinstance(content, dict) or not isinstance(content.get(servers, {}), dict):
            raise InvalidRequest(f"{path} must be an object whose {servers} is an object")
        return cls(path, servers, content)

    def entry(self, name: str) -> Mapping[str, Any] | None:
        """The entry of this name; None where there is none."""
        found = self.content.get(self.servers, {}).get(name)
        return found if isinstance(found, dict) else None

    def write(self, name: str, entry: Entry) -> None:
        """Put the entry beside all else that the file has, for its owner's eyes alone.

        The file is the one before or the one after, whatever happens meanwhile.

        Raises:
            InvalidRequest: it cannot be written.
        """
        servers = {**self.content.get(self.servers, {}), name: entry}
        text = jsontext.indented({**self.content, self.servers: servers}) + "\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(self.path, text.encode())
        except OSError as error:
            raise InvalidRequest(f"{self.path} cannot be written: {error.strerror}") from None
