"""`solward agent ...`: agents of the running service."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from solward.resources import agents
from solward.resources.agents import AgentChange, Guardrails, LlmBudget, NewAgent
from solward.resources.declare import fields_of
from solward_cli.declared import asks, call_args, lists, request_options
from solward_cli.entrypoint import count_option
from solward_cli.named import argument
from solward_cli.render import (
    Output,
    amount,
    answer_fields,
    answer_table,
    fields,
    moment,
    plain,
    span,
    status,
    together,
    visible,
)
from solward_cli.service_call import ServiceCall, fail, interruptible, service_call, waiting
from solward_cli.skills import parameters
from solward_cli.wallet import limits_table

if TYPE_CHECKING:
    from solward.client import Agent, Event


@click.group()
def agent() -> None:
    """Create, start, stop and chat with agents."""


_strategy_file_option = click.option(
    "--strategy-file", type=click.File(encoding="utf-8"), help="Read --strategy from a file."
)


@agent.command()
@request_options(NewAgent)
@_strategy_file_option
@click.option("--start", is_flag=True, help="Start the agent at once.")
@service_call
async def create(
    call: ServiceCall, start: bool, strategy_file: IO[str] | None, **values: Any
) -> Output:
    """Create an agent; the service's limits apply where none are given.

    Without --wallet the agent gets a new wallet and needs --max-sol-per-transaction. --template
    provides each strategy, interval, limit and grant that is not given. The provider defaults to
    DEFAULT_LLM_PROVIDER. The model defaults to DEFAULT_LLM_MODEL, which belongs to that provider,
    and otherwise to the provider's own default.
    """
    from solward.client import ClientError

    values["strategy"] = _read_strategy(values["strategy"], strategy_file)
    template, wallet = values["template"], values["wallet_id"]
    if template is None and not values["strategy"]:
        raise click.UsageError(
            "Give --strategy, --strategy-file or --template, which say what the agent does."
        )
    if template is None and wallet is None and values["max_sol_per_transaction"] is None:
        raise click.UsageError(
            "Give --wallet, or --max-sol-per-transaction for an agent with a wallet of its own."
        )
    values["llm_provider"], values["llm_model"] = await _choose_model(
        call,
        values["llm_provider"],
        values["llm_model"],
        is_filled=wallet is None or bool(template),
    )
    created = await call.client.agents.create(**call_args(NewAgent, _parse_llm_options(values)))
    if start:
        try:
            await call.client.agents.start(created.id)
        except ClientError as error:
            fail(
                f"The agent {created.name} was created but could not be started: {error}."
                f" Start it with: solward agent start {created.id}"
            )
        created = await call.client.agents.get(created.id)
    return render_agent(created)


@agent.command()
@argument("agent")
@request_options(AgentChange)
@_strategy_file_option
@service_call
async def change(
    call: ServiceCall, agent: Agent, strategy_file: IO[str] | None, **values: Any
) -> Output:
    """Change an agent from its next cycle on, and its grants at once."""
    values["strategy"] = _read_strategy(values["strategy"], strategy_file)
    changed = call_args(AgentChange, _parse_llm_options(values))
    if not changed:
        raise click.UsageError("Give at least one option that changes the agent.")
    return render_agent(await call.client.agents.change(agent.id, **changed))


def _read_strategy(text: str | None, file: IO[str] | None) -> str | None:
    if file is None:
        return text or None
    if text is not None:
        raise click.UsageError("Give --strategy or --strategy-file, not both.")
    return file.read().strip()


def _parse_llm_options(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"llm_options": parameters(values["llm_options"], {}, "--llm-options")}


async def _choose_model(
    call: ServiceCall, provider: str | None, model: str | None, *, is_filled: bool
) -> tuple[str | None, str | None]:
    """Choose the provider and model: the given ones, the defaults, or the provider's own model.

    A default model belongs to the default provider only.

    Args:
        is_filled: whether the service fills in its own defaults for this request.

    Raises:
        click.UsageError: no provider is given or set.
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
        names = []
        for each in loaded:
            notes = [] if each.is_llm else ["no language model"]
            notes += [] if each.configured else [f"needs {each.secret_env}"]
            names.append(f"{each.name} ({', '.join(notes)})" if notes else each.name)
        told = ", ".join(names) or "none is installed"
        raise click.UsageError(f"Give --llm-provider, or set DEFAULT_LLM_PROVIDER; one of: {told}.")
    # The service refuses a provider that is not loaded, and names those that are.
    return chosen, next((each.default_model for each in loaded if each.name == chosen), model)


@agent.command()
@click.argument("name", required=False)
@service_call
async def templates(call: ServiceCall, name: str | None) -> Output:
    """List agent templates; with NAME, show that template's fields.

    The service computes the maximum that can leave in a day from the grants and guardrails that
    the template gives an agent.
    """
    found = {each.name: each for each in await call.client.agents.templates()}
    if name is None:
        leaving = ("can_leave", lambda each: leaving_text(each.can_leave))
        none = "There are no templates."
        return answer_table([*found.values()], "name", "summary", leaving, empty=none)
    if name not in found:
        raise click.BadParameter(f"no template is named {name!r}; there are: {', '.join(found)}")
    template = found[name]
    call.set_json(template.raw)
    return together(
        answer_fields(
            template,
            *("name", "summary"),
            ("Every", span(template.loop_interval_ms)),
            *limit_texts(template.guardrails).items(),
            ("Can leave in a day", leaving_text(template.can_leave)),
        ),
        *(plain(each) for each in template.sentences),
        plain(""),
        plain(template.strategy, lines=True),
    )


def leaving_text(can_leave: Mapping[str, Any]) -> str:
    """Return `0.04 SOL, 0.02 SOL of fees and rent`, or `nothing` if nothing can leave."""
    parts = []
    for asset, each in can_leave["assets"].items():
        unit = {"*": "dollars' worth", "COSTS": "SOL of fees and rent"}.get(asset, asset)
        if each["most"] is None:
            parts.append(f"any amount of {unit}")
        elif each["most"] != "0":
            parts.append(f"{each['most']} {unit}")
    return ", ".join(parts) or "nothing"


def limit_texts(limits: Mapping[str, Any]) -> dict[str, object]:
    """Map the label of each limit to its value as text."""
    labels = {each.json: each.label for each in (*fields_of(Guardrails), *fields_of(LlmBudget))}
    return {
        f"  {labels.get(name, name)}": "no limit" if value is None else amount(value)
        for name, value in limits.items()
    }


def render_agent(found: Agent) -> Output:
    """Render all fields of an agent."""
    rules = "" if found.is_llm else " (fixed rules, not a language model)"
    return answer_fields(
        found,
        *("id", "name", "status", "error", "wallet_id", "llm_provider"),
        ("llm_model", found.llm_model + rules),
        ("Every", span(found.loop_interval_ms)),
        *limit_texts({**found.guardrails, **found.llm_budget}).items(),
        *("created_at", "strategy"),
    )


lists(
    agent,
    agents.LIST_AGENTS,
    "List agents.",
    *("id", "name", "status"),
    ("llm_provider", lambda each: each.llm_provider + ("" if each.is_llm else " (no LLM)")),
    "wallet_id",
    empty="There are no agents yet.",
)
lists(
    agent,
    agents.LIST_DECISIONS,
    "List an agent's decisions, newest first.",
    *("cycle", "timestamp", "action", "outcome"),
    empty="There are no decisions yet.",
)
asks(agent, agents.GET_AGENT, "Show an agent.", render_agent, name="show")
asks(
    agent,
    agents.GET_AGENT_LIMITS,
    "Show an agent's limits, and how much of each is spent and left.",
    limits_table,
)
for _call, _progress, _does in (
    (agents.START_AGENT, "", "Start or resume an agent."),
    (agents.STOP_AGENT, "Stopping", "Stop an agent, after finishing a payment in progress."),
    (agents.PAUSE_AGENT, "Pausing", "Pause a running agent; start resumes it."),
):
    asks(agent, _call, _does, "{agent.name}: {answer.status}", progress=_progress)
asks(
    agent,
    agents.DELETE_AGENT,
    "Delete an agent with its decisions and memory, but not its wallet or transactions.",
    "{agent.name}: deleted",
    question="Delete the agent {agent.name} ({agent.id})?",
    progress="Deleting",
)


_PROMPT = "> "


@agent.command()
@argument("agent")
@click.argument("message", required=False)
@service_call
async def chat(call: ServiceCall, agent: Agent, message: str | None) -> Output | None:
    """Chat with a running agent; without MESSAGE, read lines until the input ends.

    The agent answers but executes nothing. Every line starts a new conversation.
    """
    if call.as_json:
        if message is None:
            raise click.UsageError("--json needs a MESSAGE.")
        with waiting(f"Waiting for {agent.name}"):
            await call.client.agents.chat(agent.id, message)
        return ""
    if message is not None:
        await _print_response(call, agent.id, message)
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
            await _print_response(call, agent.id, line.strip())


@agent.command()
@argument("agent")
@count_option
@service_call
async def watch(call: ServiceCall, agent: Agent, count: int | None) -> Output | None:
    """Print an agent's decisions as it makes them; needs the admin secret."""

    def render(event: Event) -> Output | None:
        return _render_event(event) if event.data.get("agentId") == agent.id else None

    kinds = ("agent:decision", "agent:started", "agent:stopped", "agent:paused", "agent:error")
    await call.print_events(call.client.events(types=kinds), render, count)
    return None


async def _print_response(call: ServiceCall, agent_id: str, message: str) -> None:
    pieces = call.client.agents.chat_stream(agent_id, message)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            click.echo(visible(piece, lines=True), nl=False)
    click.echo()


def _render_event(event: Event) -> Output:
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
