"""`solward agent ...`: agents of the running service."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from solward.resources.agents import AgentChange, NewAgent
from solward_cli.completed_names import agent_names
from solward_cli.declared import request_options, sent
from solward_cli.plugins.skill_run import parameters
from solward_cli.service_call import (
    ServiceCall,
    confirmed,
    count_option,
    fail,
    interruptible,
    limit_option,
    service_call,
    waiting,
    yes_option,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Agent, AgentTemplate, Event, Plugin

_agent_argument = click.argument("agent", shell_complete=agent_names)
_MODEL_LIMITS = {
    "maxTokensPerCycle": "model tokens a cycle",
    "maxTokensPerDay": "model tokens in 24 hours",
    "maxUsdPerDay": "dollars of model costs in 24 hours",
}


@click.group()
def agent() -> None:
    """Agents of the running service."""


_strategy_file_option = click.option(
    "--strategy-file", type=click.File(encoding="utf-8"), help="The same, from a file."
)


@agent.command()
@request_options(NewAgent)
@_strategy_file_option
@click.option("--start", is_flag=True, help="Start it at once.")
@service_call
async def create(
    call: ServiceCall, start: bool, strategy_file: IO[str] | None, **values: Any
) -> RenderableType:
    """Create an agent; without limits of its own it has the service's.

    Without --wallet it gets a new wallet, and --max-sol-per-transaction must be given. With
    --template the template gives what is left out: strategy, interval, limits and grants. Without
    --llm-provider it is DEFAULT_LLM_PROVIDER; without --llm-model DEFAULT_LLM_MODEL of that, else
    the provider's own.
    """
    from solward.client import ClientError

    values["strategy"] = _strategy(values["strategy"], strategy_file)
    template, wallet = values["template"], values["wallet_id"]
    if template is None and not values["strategy"]:
        raise click.UsageError(
            "Give --strategy, --strategy-file or --template: what the agent is to do."
        )
    if template is None and wallet is None and values["max_sol_per_transaction"] is None:
        raise click.UsageError(
            "Give --wallet, or --max-sol-per-transaction for an agent with a wallet of its own."
        )
    values["llm_provider"], values["llm_model"] = await _decider(
        call,
        values["llm_provider"],
        values["llm_model"],
        is_filled=wallet is None or bool(template),
    )
    created = await call.client.agents.create(**await sent(call, NewAgent, _with_options(values)))
    if start:
        try:
            await call.client.agents.start(created.id)
        except ClientError as error:
            fail(
                f"The agent {created.name} was created, and not started: {error}."
                f" Then: solward agent start {created.id}"
            )
        created = await call.client.agents.get(created.id)
    return render_agent(created)


@agent.command()
@_agent_argument
@request_options(AgentChange)
@_strategy_file_option
@service_call
async def change(
    call: ServiceCall, agent: str, strategy_file: IO[str] | None, **values: Any
) -> RenderableType:
    """Change an agent; a running one goes by it from its next cycle, by --grant at once."""
    values["strategy"] = _strategy(values["strategy"], strategy_file)
    changed = await sent(call, AgentChange, _with_options(values))
    if not changed:
        raise click.UsageError("Give at least one option: what is to change.")
    found = await call.agent(agent)
    return render_agent(await call.client.agents.change(found.id, **changed))


def _strategy(text: str | None, file: IO[str] | None) -> str | None:
    if file is None:
        return text or None
    if text is not None:
        raise click.UsageError("Give --strategy or --strategy-file, not both.")
    return file.read().strip()


def _with_options(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"llm_options": parameters(values["llm_options"], {}, "--llm-options")}


async def _decider(
    call: ServiceCall, provider: str | None, model: str | None, *, is_filled: bool
) -> tuple[str | None, str | None]:
    """The provider and its model: as given, by the defaults, or the provider's own model.

    A default model is the default provider's, and no other's.

    Args:
        is_filled: the service fills in its own defaults for this request.

    Raises:
        click.UsageError: nothing says which provider.
    """
    default = call.settings.default_llm_provider
    chosen = provider or default
    if chosen is None and is_filled:
        return None, model
    if model is None and chosen == default:
        model = call.settings.default_llm_model
    if chosen is not None and model is not None:
        return chosen, model
    loaded = [each for each in (await call.client.plugins()).plugins if each.kind == "provider"]
    if chosen is None:
        names = ", ".join(_provider_name(each) for each in loaded) or "none is installed"
        raise click.UsageError(
            f"Give --llm-provider, or set DEFAULT_LLM_PROVIDER; one of: {names}."
        )
    # Of one that is not loaded the service says so, with those that are.
    return chosen, next((each.default_model for each in loaded if each.name == chosen), model)


def _provider_name(provider: Plugin) -> str:
    notes = [] if provider.is_llm else ["no language model"]
    notes += [] if provider.configured else [f"needs {provider.secret_env}"]
    return f"{provider.name} ({', '.join(notes)})" if notes else provider.name


@agent.command()
@click.argument("name", required=False)
@service_call
async def templates(call: ServiceCall, name: str | None) -> RenderableType:
    """List the templates of agents; with NAME, the fields that it gives an agent.

    What can leave is computed by the service from the grants and guardrails that an agent of the
    template gets.
    """
    from solward_cli.render import table

    found = {each.name: each for each in await call.client.agents.templates()}
    if name is None:
        rows = [(each.name, each.summary, leaving_text(each.can_leave)) for each in found.values()]
        return table(("NAME", "WHAT IT DOES", "CAN LEAVE A DAY"), rows, "There are no templates.")
    if name not in found:
        raise click.BadParameter(f"no template is named {name!r}; there are: {', '.join(found)}")
    call.set_json(found[name].raw)
    return _render(found[name])


def leaving_text(can_leave: Mapping[str, Any]) -> str:
    """`0.04 SOL, 0.02 SOL of fees and rent`; `nothing` where nothing can leave."""
    parts = []
    for asset, each in can_leave["assets"].items():
        unit = {"*": "dollars' worth", "COSTS": "SOL of fees and rent"}.get(asset, asset)
        if each["most"] is None:
            parts.append(f"any amount of {unit}")
        elif each["most"] != "0":
            parts.append(f"{each['most']} {unit}")
    return ", ".join(parts) or "nothing"


def _render(template: AgentTemplate) -> RenderableType:
    from solward_cli.render import fields, plain, span, together

    return together(
        fields(
            {
                "Template": template.name,
                "What": template.summary,
                "Every": span(template.loop_interval_ms),
                **limit_texts(template.guardrails),
                "Can leave a day": leaving_text(template.can_leave),
            }
        ),
        *(plain(each) for each in template.sentences),
        plain(""),
        plain(template.strategy, lines=True),
    )


def limit_texts(limits: Mapping[str, Any]) -> dict[str, object]:
    """Limits by what they are of."""
    from solward_cli.render import LIMITS, amount

    labels = LIMITS | _MODEL_LIMITS
    return {
        f"  {labels.get(name, name)}": "no limit" if value is None else amount(value)
        for name, value in limits.items()
    }


def render_agent(found: Agent) -> RenderableType:
    """All fields of an agent."""
    from solward_cli.render import fields, moment, span, status

    model = f"{found.llm_provider}, {found.llm_model}"
    return fields(
        {
            "Agent": found.id,
            "Name": found.name,
            "Status": status(found.status),
            "Why": found.error,
            "Wallet": found.wallet_id,
            "Model": model if found.is_llm else f"{model} (fixed rules, not a language model)",
            "Every": span(found.loop_interval_ms),
            **limit_texts({**found.guardrails, **found.llm_budget}),
            "Created": f"{moment(found.created_at)} UTC",
            "Strategy": found.strategy,
        }
    )


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
        for each in await call.client.agents.decisions(found.id, limit=limit)
    ]
    return table((">CYCLE", "TIME (UTC)", "ACTION", "OUTCOME"), rows, "There are no decisions yet.")


@agent.command()
@_agent_argument
@service_call
async def start(call: ServiceCall, agent: str) -> RenderableType:
    """Start an agent, or resume it."""
    found = await call.agent(agent)
    return _done(found, (await call.client.agents.start(found.id)).status)


@agent.command()
@_agent_argument
@service_call
async def stop(call: ServiceCall, agent: str) -> RenderableType:
    """Stop an agent, once what it was paying is finished."""
    found = await call.agent(agent)
    with waiting("Stopping"):
        return _done(found, (await call.client.agents.stop(found.id)).status)


@agent.command()
@_agent_argument
@service_call
async def pause(call: ServiceCall, agent: str) -> RenderableType:
    """Set a running agent aside; start resumes it."""
    found = await call.agent(agent)
    with waiting("Pausing"):
        return _done(found, (await call.client.agents.pause(found.id)).status)


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


_PROMPT = "> "


@agent.command()
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


@agent.command()
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
