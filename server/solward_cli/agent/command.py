"""`solward agent ...`: agents of the running service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.agent.chat import chat, watch
from solward_cli.agent.create import create
from solward_cli.agent.render import render_agent
from solward_cli.agent.templates import templates
from solward_cli.completed_names import agent_names
from solward_cli.service_call import (
    ServiceCall,
    confirmed,
    limit_option,
    service_call,
    waiting,
    yes_option,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Agent


@click.group()
def agent() -> None:
    """Agents of the running service."""


agent.add_command(create)
agent.add_command(templates)
agent.add_command(chat)
agent.add_command(watch)

_agent_argument = click.argument("agent", shell_complete=agent_names)


@agent.command("list")
@service_call
async def listing(call: ServiceCall) -> RenderableType:
    """List the agents."""
    from solward_cli.render import plain, short, status, table

    rows = [
        (
            short(each.id),
            each.name,
            status(each.status),
            plain(each.llm_provider + ("" if each.is_llm else " (no LLM)")),
            short(each.wallet_id),
        )
        for each in await call.client.agents.list()
    ]
    return table(("ID", "NAME", "STATUS", "PROVIDER", "WALLET"), rows, "There are no agents yet.")


@agent.command("show")
@_agent_argument
@service_call
async def show_one(call: ServiceCall, agent: str) -> RenderableType:
    """Show an agent."""
    found = await call.agent(agent)
    call.set_json(found.raw)
    return render_agent(found)


@agent.command()
@_agent_argument
@service_call
async def limits(call: ServiceCall, agent: str) -> RenderableType:
    """Show an agent's limits, what is spent of each and what is left."""
    from solward_cli.wallet.command import limits_table

    found = await call.agent(agent)
    return limits_table(await call.client.agents.limits(found.id))


@agent.command()
@_agent_argument
@limit_option
@service_call
async def decisions(call: ServiceCall, agent: str, limit: int) -> RenderableType:
    """List what an agent decided, newest first."""
    from solward_cli.render import moment, table

    found = await call.agent(agent)
    rows = [
        (str(each.cycle), moment(each.timestamp), each.action or "-", each.outcome)
        for each in await call.client.agents.decisions(found.id, limit)
    ]
    return table((">CYCLE", "TIME (UTC)", "ACTION", "OUTCOME"), rows, "There are no decisions yet.")


@agent.command()
@_agent_argument
@service_call
async def start(call: ServiceCall, agent: str) -> RenderableType:
    """Start an agent, or resume it."""
    found = await call.agent(agent)
    return _done(found, await call.client.agents.start(found.id))


@agent.command()
@_agent_argument
@service_call
async def stop(call: ServiceCall, agent: str) -> RenderableType:
    """Stop an agent, once what it was paying is finished."""
    found = await call.agent(agent)
    with waiting("Stopping"):
        return _done(found, await call.client.agents.stop(found.id))


@agent.command()
@_agent_argument
@service_call
async def pause(call: ServiceCall, agent: str) -> RenderableType:
    """Set a running agent aside; start resumes it."""
    found = await call.agent(agent)
    with waiting("Pausing"):
        return _done(found, await call.client.agents.pause(found.id))


@agent.command()
@_agent_argument
@yes_option
@service_call
async def delete(call: ServiceCall, agent: str, yes: bool) -> RenderableType:
    """Delete an agent with its decisions and memory; its transactions and its wallet stay."""
    from solward_cli.render import visible

    found = await call.agent(agent)
    confirmed(f"Delete the agent {visible(found.name)} ({found.id})?", yes)
    with waiting("Deleting"):
        await call.client.agents.delete(found.id)
    return _done(found, "deleted")


def _done(found: Agent, what: str) -> RenderableType:
    from solward_cli.render import plain

    return plain(f"{found.name}: {what}")
