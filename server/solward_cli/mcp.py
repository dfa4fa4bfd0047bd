"""`solward mcp`: the running service's skills as MCP tools, on standard input and output; and
`solward mcp config`: a key for one wallet, in the configuration of an MCP client.

Sources of the files that hold clients' servers: the clients' own documentation (Claude Desktop and
Claude Code `mcpServers`, Cursor `mcp.json`, VS Code `mcp.json`).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from solward.resources.credentials import NewKey
from solward.support import jsontext
from solward.support.atomic_files import write_file
from solward.types.errors import InvalidRequest
from solward.types.guardrail import SOL
from solward_cli.declared import call_args, request_options
from solward_cli.entrypoint import log_level_option, read_settings, refusals, yes_option
from solward_cli.named import WALLET
from solward_cli.policy import GRANT_OPTIONS, grant_options, grant_text, read_meaning
from solward_cli.render import Output, plain, visible
from solward_cli.service_call import ServiceCall, confirmed, service_call

if TYPE_CHECKING:
    from solward.client import ApiKey, Wallet

# Clients put it before the names of tools, of which model vendors accept 64 characters.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,20}")

URL: Final = "SOLWARD_API_URL"
KEY: Final = "SOLWARD_API_KEY"

# In a day, unless the command says another amount.
_MOST_SOL: Final = Decimal("0.1")

Entry = dict[str, Any]

# Printed on standard error, because standard output carries the protocol.
_OPERATOR = (
    "SOLWARD_API_KEY is not set: this session has the operator's rights on every wallet, and no"
    " key's limits. To confine it, give it a key of one wallet:"
    " solward mcp config CLIENT --wallet NAME, or solward key create NAME --wallet WALLET"
    " --grant SENTENCE."
)


@dataclass(frozen=True, slots=True)
class McpClient:
    """One program that starts MCP servers.

    Attributes:
        title: its name, as its makers write it.
        servers: the field of its file that holds the servers, by name.
        typed: whether an entry says that it uses standard input and output.
        then: what the user does once the entry is written.
    """

    title: str
    servers: str
    typed: bool
    then: str

    def entry(self, url: str, key: str) -> Entry:
        """Return the entry that starts `solward mcp`, with the key in its environment variables."""
        # An absolute path, because clients have a `PATH` of their own.
        name = "solward.exe" if sys.platform == "win32" else "solward"
        script = Path(sysconfig.get_path("scripts"), name)
        entry = {"command": str(script), "args": ["mcp"], "env": {URL: url, KEY: key}}
        if not script.exists():
            entry |= {"command": sys.executable, "args": ["-m", "solward_cli", "mcp"]}
        return {"type": "stdio", **entry} if self.typed else entry


CLIENTS: Final = {
    "claude-desktop": McpClient(
        "Claude Desktop", "mcpServers", False, "Quit and restart Claude Desktop"
    ),
    "claude-code": McpClient(
        "Claude Code", "mcpServers", True, "Restart Claude Code; /mcp lists the server"
    ),
    "cursor": McpClient("Cursor", "mcpServers", False, "Restart Cursor; its settings list it"),
    "vscode": McpClient(
        "VS Code", "servers", True, "In VS Code, run MCP: List Servers, and start the server"
    ),
}


def _entry_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter("it must be 1 to 20 letters, digits, _ or -")
    return name


@click.command()
@click.argument("client", type=click.Choice(CLIENTS))
@click.option(
    "--wallet", required=True, type=WALLET, help="The only wallet that the client may use."
)
@click.option("--write", is_flag=True, help="Write the entry into the client's file; asks first.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The client's file, such as a project's.  [default: the user's own]",
)
@click.option(
    "--name",
    default="solward",
    show_default=True,
    callback=_entry_name,
    help="Name of the entry; each wallet of a client needs an entry of its own.",
)
@request_options(NewKey, without=("name", "wallet_id"))
@grant_options
@yes_option
@service_call
async def config(
    call: ServiceCall,
    client: str,
    wallet: Wallet,
    write: bool,
    file: Path | None,
    name: str,
    yes: bool,
    **values: Any,
) -> Output | None:
    """Create an API key for one wallet and print the configuration that an MCP client needs.

    With --write, put the entry into the client's own file instead. Other entries stay. An entry of
    the same name is replaced and its key revoked. The new key is only in the file, which only its
    owner can read.

    \b
    Without --grant, the options from --may on are the key's only grant. Without these too, the key
    may transfer up to 0.1 SOL a day.
    """
    program, path = CLIENTS[client], config_path(client) if file is None else file
    grant = {each: values.pop(each) for each in GRANT_OPTIONS}
    limits = call_args(NewKey, values)
    if not {"grants", "read_only"} & limits.keys():
        limits["grants"] = await _read_grants(call, wallet, yes, **grant)
    elif any(each not in (None, (), "day") for each in grant.values()):
        raise click.UsageError("With --grant or --read-only, give no other option of a grant")
    replaced: ApiKey | None = None
    if write:
        before = ClientFile.read(path, program.servers)
        replaced = await _read_entry_key(call, before.entry(name))
        which = f"the wallet {visible(wallet.name)}"
        question = f"Give {program.title} {which}, by the entry {name} in {before.path}?"
        if before.entry(name) is not None:
            ends = "" if replaced is None else f", and revoke its key {visible(replaced.name)}"
            question = f"Replace the entry {name} in {before.path} by one for {which}{ends}?"
        confirmed(question, yes)
    made = await call.client.keys.create(
        name=f"{program.title}: {wallet.name}"[:100],
        wallet_id=wallet.id,
        **limits,
    )
    entry = program.entry(call.client.url, made.api_key)
    try:
        policy = await call.client.policy.get()
        if write:
            # Read again, because the client may have written it while the user was asked.
            ClientFile.read(path, program.servers).write(name, entry)
    except BaseException:
        await call.client.keys.revoke(made.id)
        raise
    said = zip(policy.grants, policy.sentences, strict=False)
    granted = [each for grant, each in said if grant["who"] == f"key:{made.id}"]
    if not write:
        text = f"Key {visible(made.name)} ({made.id}), shown only once. Put this entry into {path}:"
        click.echo("\n".join((*granted, text)), err=True)
        click.echo(jsontext.indented({program.servers: {name: entry}}))
        return None
    if replaced is not None:
        await call.client.keys.revoke(replaced.id)
        click.echo(f"Key {visible(replaced.name)} ({replaced.id}): revoked", err=True)
    call.set_json({"file": str(path), "name": name, "keyId": made.id, "walletId": wallet.id})
    created = f"Key {visible(made.name)} ({made.id}): created. {program.then}."
    click.echo("\n".join((*granted, created)), err=True)
    return plain(f"Written: the entry {name} in {path}")


async def _read_grants(
    call: ServiceCall,
    wallet: Wallet,
    yes: bool,
    asset: str | None,
    **options: Any,
) -> Sequence[Mapping[str, Any]]:
    """Return the grants that the options mean; without grants, a key could swap any token."""
    if asset is None and options["max"] is None:
        options["max"] = _MOST_SOL
    text = grant_text(asset=asset or SOL, **options)
    # The key does not exist yet, so the grants are read as the wallet's.
    meaning = await read_meaning(call, f'wallet "{wallet.id}" {text}', yes)
    return [{name: each[name] for name in each if name != "who"} for each in meaning["grants"]]


async def _read_entry_key(call: ServiceCall, entry: Mapping[str, Any] | None) -> ApiKey | None:
    """Return the API key in an entry; None if it is not a working key of this service."""
    from solward.client import ClientError, SolwardClient

    environment = {} if entry is None else entry.get("env")
    if not isinstance(environment, dict) or environment.get(URL) != call.client.url:
        # Another service's key must not be sent to this one.
        return None
    try:
        async with SolwardClient(call.client.url, environment[KEY]) as client:
            return (await client.keys.own()).key
    except (ClientError, InvalidRequest, KeyError, TypeError):
        return None


def config_path(client: str, platform: str = sys.platform) -> Path:
    """Return the client's file with the MCP servers of the user, used in every project.

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
    }[client]


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A client's configuration file, as it was read.

    Attributes:
        content: empty if there is no file yet.
    """

    path: Path
    servers: str
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, servers: str) -> ClientFile:
        """Read the file as it is now.

        Raises:
            InvalidRequest: it cannot be read, or is not plain JSON: a comment would be lost.
        """
        # A symbolic link stays, and its target is written.
        path = Path(os.path.realpath(path))
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error}") from None
        try:
            content = jsontext.read(text) if text.strip() else {}
        except ValueError as error:
            raise InvalidRequest(
                f"{path} is not plain JSON ({error}), so it is not changed: leave out --write, and"
                " put the entry in by hand"
            ) from None
        if not isinstance(content, dict) or not isinstance(content.get(servers, {}), dict):
            raise InvalidRequest(f"{path} must be an object whose {servers} is an object")
        return cls(path, servers, content)

    def entry(self, name: str) -> Mapping[str, Any] | None:
        """Return the entry of this name, or None."""
        found = self.content.get(self.servers, {}).get(name)
        return found if isinstance(found, dict) else None

    def write(self, name: str, entry: Entry) -> None:
        """Add or replace the entry in one atomic write; only the file's owner can read it.

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


@click.group(invoke_without_command=True)
@click.option(
    "--wallet",
    default=None,
    help="Name, id or address of the only wallet to act on.  [default: that of the key or call]",
)
@click.option(
    "--url",
    default=None,
    help="The service's address.  [default: SOLWARD_API_URL, or API_HOST and API_PORT]",
)
@log_level_option
@click.pass_context
def mcp(context: click.Context, wallet: str | None, url: str | None, log_level: str) -> None:
    """Serve MCP on standard input and output, for an MCP client that starts this command.

    Calls the running service with SOLWARD_API_KEY (default: API_SECRET) as its token. It may start
    before the service, and serves as soon as that does.
    """
    if context.invoked_subcommand is not None:
        return
    from solward.telemetry import logs
    from solward_mcp.stdio import serve

    def opened() -> None:
        if settings.solward_api_key is None:
            click.echo(_OPERATOR, err=True)

    logs.configure(log_level)
    with refusals():
        settings = read_settings()
        # Ctrl-C ends the process at once: nothing needs cleaning up.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        address = url or settings.client_target[0]
        asyncio.run(serve(address, settings.client_token, wallet, opened))


mcp.add_command(config)
