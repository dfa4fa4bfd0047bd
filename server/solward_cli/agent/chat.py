"""`solward agent chat` and `solward agent watch`."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from solward_cli.completed_names import agent_names
from solward_cli.service_call import ServiceCall, count_option, interruptible, service_call, waiting

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Event

_agent_argument = click.argument("agent", shell_complete=agent_names)
_PROMPT = "> "


@click.command()
@_agent_argument
@click.argument("message", required=False)
@service_call
async def chat(call: ServiceCall, agent: str, message: str | None) -> RenderableType | None:
    """Write to a running agent; without MESSAGE, line by line until the input ends.

    It answers, and executes nothing. Every line is a conversation of its own.
    """
    found = await call.agent(agent)
    if call.as_json:
        if message is None:
            raise click.UsageError("--json needs a MESSAGE.")
        with waiting(f"Waiting for {found.name}"):
            await call.client.agents.chat(found.id, message)
        return ""
    if message is not None:
        await _print_response(call, found.id, message)
        return None
    interactive = sys.stdin.isatty()
    while True:
        if interactive:
            click.echo(_PROMPT, nl=False)
        with interruptible():
            line = sys.stdin.readline()
        if not line:
            return None
        if line.strip():
            await _print_response(call, found.id, line.strip())


@click.command()
@_agent_argument
@count_option
@service_call
async def watch(call: ServiceCall, agent: str, count: int | None) -> RenderableType | None:
    """Print an agent's decisions as it takes them. Needs the admin secret."""
    found = await call.agent(agent)

    def render(event: Event) -> RenderableType | None:
        return _decision(event) if event.data.get("agentId") == found.id else None

    kinds = ("agent:decision", "agent:started", "agent:stopped", "agent:paused", "agent:error")
    await call.print_events(call.client.events(types=kinds), render, count)
    return None


async def _print_response(call: ServiceCall, agent_id: str, message: str) -> None:
    from solward_cli.render import visible

    pieces = call.client.agents.chat_stream(agent_id, message)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            click.echo(visible(piece, lines=True), nl=False)
    click.echo()


def _decision(event: Event) -> RenderableType:
    from solward_cli.render import fields, moment, plain, status, together

    data = event.data
    if event.kind != "agent:decision":
        return fields({"Agent": status(str(data.get("status"))), "Why": data.get("error")})
    from solward.client import Decision

    decision = Decision.of(data)
    return together(
        plain(f"Cycle {decision.cycle}, {moment(decision.timestamp)} UTC", "bold"),
        fields(
            {
                "  Why": decision.reasoning or None,
                "  Action": decision.action or "none",
                "  Outcome": decision.outcome,
            }
        ),
    )
