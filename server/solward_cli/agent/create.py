"""`solward agent create`."""

from __future__ import annotations

from decimal import Decimal
from typing import IO, TYPE_CHECKING

import click

from solward_cli.agent.render import render_agent
from solward_cli.completed_names import wallet_names
from solward_cli.service_call import ServiceCall, exact, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command()
@click.argument("name")
@click.option(
    "--wallet", shell_complete=wallet_names, help="The wallet it uses.  [default: a new one]"
)
@click.option("--strategy", help="What it is to do, in words.")
@click.option("--strategy-file", type=click.File(encoding="utf-8"), help="The same, from a file.")
@click.option("--provider", help="What decides.  [default: DEFAULT_LLM_PROVIDER]")
@click.option("--model", help="The provider's model.  [default: DEFAULT_LLM_MODEL]")
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

    Without --wallet it gets a new wallet, and --max-sol must be given.
    """
    if strategy_file is not None:
        if strategy is not None:
            raise click.UsageError("Give --strategy or --strategy-file, not both.")
        strategy = strategy_file.read().strip()
    if not strategy:
        raise click.UsageError("Give --strategy or --strategy-file: what the agent is to do.")
    if wallet is None and max_sol is None:
        raise click.UsageError("Give --wallet, or --max-sol for an agent with a wallet of its own.")
    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    created = await call.client.agents.create(
        name=name,
        strategy=strategy,
        wallet_id=wallet_id,
        llm_provider=provider or call.settings.default_llm_provider,
        llm_model=model or call.settings.default_llm_model,
        loop_interval_ms=interval_ms,
        max_sol_per_transaction=max_sol,
        max_transactions_per_minute=max_per_minute,
        daily_spending_limit_sol=daily_sol,
        max_costs_sol_per_day=costs_sol,
    )
    if start:
        await call.client.agents.start(created.id)
        created = await call.client.agents.get(created.id)
    return render_agent(created)
