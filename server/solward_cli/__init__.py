"""The `solward` command. Each subcommand's module is imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# A shell's completion script sets this variable.
VARIABLE = "_SOLWARD_COMPLETE"

# Name -> the line in `solward --help`, which imports no command.
_COMMANDS = {
    "up": "Start the ledger, the API and the dashboard.",
    "server": "Serve the REST API alone.",
    "worker": "Run agents' cycles on a shared PostgreSQL.",
    "dashboard": "Serve the dashboard.",
    "localnet": "Serve a local Solana ledger.",
    "mcp": "Serve skills as tools to an MCP client.",
    "wallet": "Create, fund, spend from, import and export wallets.",
    "pay": "Pay for requests over HTTP.",
    "tx": "List, watch and export transactions.",
    "contacts": "Name recipients.",
    "agent": "Create, start, stop and chat with agents.",
    "schedule": "Run skills at set times, without a model.",
    "key": "Create, list, rotate and revoke API keys.",
    "admin": "Create, list and revoke admin credentials.",
    "policy": "Show, change and test grants.",
    "hold": "List, approve and deny held transactions.",
    "events": "Follow the service's events.",
    "alerts": "Test the alert webhook.",
    "freeze": "Stop every new transaction.",
    "frozen": "Show what is frozen.",
    "unfreeze": "Allow transactions again.",
    "tokens": "List and update the tokens known by symbol.",
    "keystore": "Change the secret that encrypts the wallets' keys.",
    "backup": "Back up SOLWARD_HOME into one encrypted file.",
    "restore": "Restore a backup into an empty SOLWARD_HOME.",
    "database": "Upgrade the task queue's tables on PostgreSQL.",
    "audit": "List, export and verify the audit log.",
    "doctor": "Check the setup and say how to mend it.",
    "config": "Show the settings.",
    "plugins": "Install, check and configure plugins.",
    "models": "Install the libraries that call model vendors.",
    "skills": "List and run skills.",
    "completion": "Print a shell's completion script.",
    "version": "Print the version.",
}
# The module of a command that is in a module of another name.
_MODULES = {
    "key": "credentials",
    "admin": "credentials",
    "alerts": "audit",
    "contacts": "policy",
    "events": "audit",
    "models": "plugins.folders",
    "dashboard": "server",
    "database": "config",
    "freeze": "policy",
    "frozen": "policy",
    "unfreeze": "policy",
    "restore": "backup",
    "version": "config",
    "worker": "server",
}


# The extra of a command that does not need all of `solward up`.
_EXTRAS = {"dashboard": "dashboard", "mcp": "mcp"}


class _LazyGroup(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        from solward.support.extras import ExtraMissing, needs

        name, *rest = [*ctx._protected_args, *ctx.args] or [""]
        path, extra = f"solward {name}", _EXTRAS.get(name, "up")
        try:
            with needs(path, extra):
                command = self.get_command(ctx, name)
            if isinstance(command, click.Group) and rest and rest[0] in command.commands:
                path = f"{path} {rest[0]}"
            with needs(path, extra):
                return super().invoke(ctx)
        except click.NoSuchOption as unknown:
            if not unknown.option_name[1:2].isdecimal():
                raise
            text = f"{unknown.option_name} is read as an option: amounts cannot be negative."
            raise click.UsageError(text, unknown.ctx) from None
        except (click.Abort, KeyboardInterrupt) as ended:
            from solward_cli.service_call import EXIT_INTERRUPTED

            # A prompt without input ends with `Abort` too, and exits with 1.
            if not any(isinstance(each, KeyboardInterrupt) for each in (ended, ended.__context__)):
                raise
            click.echo(err=True)
            sys.exit(EXIT_INTERRUPTED)
        except ExtraMissing as missing:
            from solward_cli.entrypoint import refuse

            refuse(str(missing))

    def main(self, *arguments: Any, **options: Any) -> Any:
        if VARIABLE in os.environ:
            # This module replaces click's completion for bash.
            importlib.import_module("solward_cli.completion")
        return super().main(*arguments, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:
            # Click's own method suggests only imported commands, and none is imported.
            name = unknown.command_name
            raise click.NoSuchCommand(name, possibilities=_COMMANDS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        command = getattr(importlib.import_module(f"solward_cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Click's own method reads every command's help, which would import them all.
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=line)
            for name, line in _COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Give autonomous AI agents a Solana wallet they can use and cannot empty."""
