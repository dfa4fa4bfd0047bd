"""`solward agent create`."""

from __future__ import annotations

from decimal import Decimal
from typing import IO, TYPE_CHECKING

import click

from solward_cli.agent.render import render_agent
from solward_cli.agent.templates import chosen_template, set_option, template_values
from solward_cli.completed_names import wallet_names
from solward_cli.service_call import ServiceCall, exact, fail, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Plugin


@click.command()
@click.argument("name")
@click.option(
    "--wallet", shell_complete=wallet_names, help="The wallet it uses.  [default: a new one]"
)
@click.option("--strategy", help="What it is to do, in words.")
@click.option("--strategy-file", type=click.File(encoding="utf-8"), help="The same, from a file.")
@click.option("--template", help="Start from one; `solward agent templates` lists them.")
@set_option
@click.option("--provider", help="What decides.  [default: DEFAULT_LLM_PROVIDER]")
@click.option(
    "--model",
    help="The provider's model.  [default: DEFAULT_LLM_MODEL of the default provider, else the"
    " provider's own]",
)
@click.option("--interval-ms", type=click.IntRange(1000), help="From cycle to cycle; 60000.")
@click.option("--max-sol", type=exact, help="Most SOL of one transaction.")
@click.option("--max-per-minute", type=click.IntRange(1), help="Most transactions in a minute.")
@click.option("--daily-sol", type=exact, help="Most SOL in 24 hours.")
@click.option("--costs-sol", type=exact, help="Most SOL of fees and rent in 24 hours.")
@click.option("--start", is_flag=True, help="Start it at once.")
@service_call
async def create(
    call: ServiceCall,
    name: str,
    wallet: str | None,
    strategy: str | None,
    strategy_file: IO[str] | None,
    template: str | None,
    values: tuple[str, ...],
    provider: str | None,
    model: str | None,
    interval_ms: int | None,
    max_sol: Decimal | None,
    max_per_minute: int | None,
    daily_sol: Decimal | None,
    costs_sol: Decimal | None,
    start: bool,
) -> RenderableType:
    """Create an agent; without limits of its own it has the service's.

    Without --wallet it gets a new wallet, and --max-sol must be given. With --template the template
    gives what is left out: strategy, interval, limits and grants.
    """
    from solward.client import ClientError

    if strategy_file is not None:
        if strategy is not None:
            raise click.UsageError("Give --strategy or --strategy-file, not both.")
        strategy = strategy_file.read().strip()
    given = None
    if template is not None:
        found = chosen_template(await call.client.agents.templates(), template)
        given = template_values(found, values)
    elif values:
        raise click.UsageError("--set is of a template; give --template.")
    elif not strategy:
        raise click.UsageError(
            "Give --strategy, --strategy-file or --template: what the agent is to do."
        )
    elif wallet is None and max_sol is None:
        raise click.UsageError("Give --wallet, or --max-sol for an agent with a wallet of its own.")
    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    provider, model = await _decider(
        call, provider, model, is_filled=wallet is None or bool(template)
    )
    created = await call.client.agents.create(
        name=name,
        strategy=strategy or None,
        template=template,
        template_parameters=given,
        wallet_id=wallet_id,
        llm_provider=provider,
        llm_model=model,
        loop_interval_ms=interval_ms,
        max_sol_per_transaction=max_sol,
        max_transactions_per_minute=max_per_minute,
        daily_spending_limit_sol=daily_sol,
        max_costs_sol_per_day=costs_sol,
    )
    if start:
        try:
            await call.client.agents.start(created.id)
        except ClientError as error:
            fail(
                f"The agent {name} was created, and not started: {error}."
                f" Then: solward agent start {created.id}"
            )
        created = await call.client.agents.get(created.id)
    return render_agent(created)


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
        raise click.UsageError(f"Give --provider, or set DEFAULT_LLM_PROVIDER; one of: {names}.")
    # Of one that is not loaded the service says so, with those that are.
    return chosen, next((each.default_model for each in loaded if each.name == chosen), model)


def _provider_name(provider: Plugin) -> str:
    notes = [] if provider.is_llm else ["no language model"]
    notes += [] if provider.configured else [f"needs {provider.secret_env}"]
    return f"{provider.name} ({', '.join(notes)})" if notes else provider.name
