"""The `solward` command. Each subcommand's module is imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# By this variable a shell's script asks for what completes a line.
VARIABLE = "_SOLWARD_COMPLETE"

# Name -> module and attribute, and the line in `solward --help`, which imports none of them.
_COMMANDS = {
    "up": ("solward_cli.up.command:up", "Start everything: ledger, API, and with --demo an agent."),
    "server": ("solward_cli.server:server", "The REST server alone."),
    "worker": ("solward_cli.worker:worker", "Runs agents, where PostgreSQL joins machines."),
    "dashboard": ("solward_cli.dashboard:dashboard", "The pages, as a client of the service."),
    "localnet": ("solward_cli.localnet:localnet", "A local Solana ledger for any client."),
    "mcp": ("solward_cli.mcp.command:mcp", "The skills as tools for MCP hosts, on stdio."),
    "wallet": (
        "solward_cli.wallet.command:wallet",
        "Wallets: made, funded, paid from, brought, taken.",
    ),
    "pay": ("solward_cli.pay.command:pay", "Requests over HTTP that a wallet pays for."),
    "tx": ("solward_cli.tx.command:tx", "Transactions, and what became of them."),
    "contacts": ("solward_cli.contacts:contacts", "What recipients are called, for people."),
    "agent": ("solward_cli.agent.command:agent", "Agents: made, started, asked, watched."),
    "schedule": ("solward_cli.schedule:schedule", "Skills that run at times, without a model."),
    "key": ("solward_cli.credentials:key", "API keys: made, listed, revoked."),
    "admin": (
        "solward_cli.credentials:admin",
        "Admin credentials with a role: made, listed, revoked.",
    ),
    "policy": (
        "solward_cli.policy.command:policy",
        "Grants: who may do what, and how much of it.",
    ),
    "hold": ("solward_cli.hold:hold", "What waits for a person: listed, approved, denied."),
    "events": ("solward_cli.audit:events", "What happens, as it happens."),
    "alerts": ("solward_cli.alerts:alerts", "What an operator is told: tried once."),
    "freeze": ("solward_cli.freeze:freeze", "Stop every new transaction at once."),
    "frozen": ("solward_cli.freeze:frozen", "What is frozen, since when and why."),
    "unfreeze": ("solward_cli.freeze:unfreeze", "Allow transactions again."),
    "tokens": ("solward_cli.tokens:tokens", "Tokens known by symbol: listed, refreshed."),
    "keystore": ("solward_cli.keystore:keystore", "Change the secret that seals the wallets."),
    "backup": ("solward_cli.backup:backup", "Everything of this home in one sealed file."),
    "restore": ("solward_cli.backup:restore", "Bring a backup into an empty home."),
    "audit": ("solward_cli.audit:audit", "The log of what was done: listed, checked."),
    "doctor": (
        "solward_cli.doctor.command:doctor",
        "What would not work, and what to do about it.",
    ),
    "config": ("solward_cli.config:config", "What the environment configures."),
    "plugins": (
        "solward_cli.plugins.command:plugins",
        "Plugins of all kinds: skills, providers, guardrails, venues, payments.",
    ),
    "models": ("solward_cli.models:models", "The vendors' libraries, in a folder of their own."),
    "skills": ("solward_cli.plugins.command:skills", "What an agent can do: listed, run."),
    "completion": ("solward_cli.completion:completion", "Completion for your shell."),
    "version": ("solward_cli.config:version", "The version of Solward."),
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
            text = f"{unknown.option_name} is taken for an option: no amount is negative."
            raise click.UsageError(text, unknown.ctx) from None
        except (click.Abort, KeyboardInterrupt) as ended:
            from solward_cli.service_call import EXIT_INTERRUPTED

            # A prompt ends with `Abort`, and with 1 where there is no answer to read.
            if not any(isinstance(each, KeyboardInterrupt) for each in (ended, ended.__context__)):
                raise
            click.echo(err=True)
            sys.exit(EXIT_INTERRUPTED)
        except ExtraMissing as missing:
            from solward_cli.entrypoint import refuse

            refuse(str(missing))

    def main(self, *arguments: Any, **options: Any) -> Any:
        if VARIABLE in os.environ:
            # It replaces how click writes for bash.
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
            # Click's own looks among commands that are imported, which none is.
            name = unknown.command_name
            raise click.NoSuchCommand(name, possibilities=_COMMANDS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Click's own reads every command's help, which would import them all.
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=line)
            for name, (_, line) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Give autonomous AI agents a Solana wallet they can use and cannot empty."""
