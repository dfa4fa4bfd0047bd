"""The screen that `solward up` prints once it serves; and the demo's story, printed after it: the
agent's purchases, refusals and holds."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from solward import __version__
from solward.service.service import Solward
from solward.settings.access import DEVELOPMENT_SECRET
from solward.settings.settings import default_home
from solward.types.events import EventKind, Subscription
from solward.types.money import format_amount
from solward.types.payment import Served
from solward.types.record import HoldState
from solward_cli.render import visible
from solward_cli.up.demo import FORECAST, PRICE, DemoSeed
from solward_server.serve import Address

# Where commands look for a service if no setting names one.
_DEFAULT_URL = "http://127.0.0.1:3001"

Say = Callable[[str], None]

_MOST_OUTCOME = 400


@dataclass(frozen=True, slots=True)
class Screen:
    """The addresses and notices of what is running.

    Attributes:
        rpc: the ledger's HTTP and WebSocket address.
        dashboard: the pages' address.
        more_notices: further notices.
    """

    service: Solward
    address: Address
    rpc: tuple[str, str] | None
    dashboard: str | None
    more_notices: tuple[str, ...]
    seed: DemoSeed | None

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the rows: every address, and the loaded plugins."""
        service, settings = self.service, self.service.settings
        if self.dashboard is not None:
            yield "Dashboard", self.dashboard
        yield "API", f"{self.address.url}/api/v1"
        yield "Health", self.address.health
        if self.rpc is not None:
            yield "JSON-RPC", self.rpc[0]
            yield "WebSocket", self.rpc[1]
        yield "Network", service.network
        yield "Home", str(settings.solward_home)
        registry = service.live.registry
        for name, loaded in (
            ("Skills", registry.skills),
            ("Providers", registry.providers),
            ("Venues", registry.venues),
            ("Payments", registry.payments),
        ):
            yield name, f"{len(loaded)}: {', '.join(loaded)}" if loaded else "0"
        if self.seed is not None:
            wallet, agent = self.seed.wallet, self.seed.agent
            yield "Demo wallet", f"{wallet.name} {wallet.address}"
            yield "Demo agent", f"{agent.name} ({agent.status.value})"
            if self.seed.seller is not None:
                yield "Demo seller", f"http://{self.seed.seller}{FORECAST} ({PRICE})"

    def notices(self) -> Iterator[str]:
        """Yield the notices for the user."""
        settings = self.service.settings
        if settings.development_secret:
            yield (
                "The admin secret is the development one, which everybody knows. "
                "Set API_SECRET before anybody else can reach this machine."
            )
        if self.seed is not None and not self.seed.agent.is_llm:
            yield (
                f"{self.seed.agent.name} is driven by fixed rules (provider "
                f"{self.seed.agent.llm_provider}), not by a language model."
            )
        yield from self.more_notices
        for problem in self.service.live.registry.problems:
            yield f"Plugin problem: {problem}"

    def export_command(self) -> str | None:
        """Return the `export` command that another terminal needs to find `solward`, this service
        and this home, or None."""
        found = []
        bin_folder = Path(sys.executable).parent
        if shutil.which("solward") is None and (bin_folder / "solward").exists():
            found.append(f"PATH={shlex.quote(str(bin_folder))}:$PATH")
        if self.address.url != _DEFAULT_URL:
            found.append(f"SOLWARD_API_URL={self.address.url}")
        home = self.service.settings.solward_home
        if home != default_home():
            found.append(f"SOLWARD_HOME={shlex.quote(str(home.absolute()))}")
        return f"export {' '.join(found)}" if found else None

    def curl_command(self) -> str:
        """Return a request to try."""
        settings = self.service.settings
        secret = DEVELOPMENT_SECRET if settings.development_secret else "$API_SECRET"
        path = "wallets" if self.seed is None else f"agents/{self.seed.agent.id}/decisions?limit=3"
        return f'curl -H "Authorization: Bearer {secret}" "{self.address.url}/api/v1/{path}"'


async def frozen_notice(service: Solward) -> str | None:
    """Return a notice if the service or a wallet is frozen, else None."""
    switch, _, wallets = await service.switches.frozen(0)
    if switch is not None:
        why = f" ({switch.reason})" if switch.reason else ""
        return f"Transactions are frozen{why}: nothing is signed until `solward unfreeze`."
    if wallets:
        many = "1 wallet is" if wallets == 1 else f"{wallets} wallets are"
        return f"{many} frozen, until `solward unfreeze --wallet NAME`."
    return None


async def ledger_notice(service: Solward) -> str | None:
    """Return a notice if the ledger does not answer, else None."""
    if (await service.display.health())["healthy"]:
        return None
    return (
        f"The ledger ({service.network}) does not answer: reads fail, and so do new transactions,"
        " until it does."
    )


def show(screen: Screen) -> None:
    """Print the screen: rich on a terminal, plain lines elsewhere."""
    if sys.stdout.isatty():
        _print_rich(screen)
    else:
        _print_plain(screen)
    sys.stdout.flush()


def _print_plain(screen: Screen) -> None:
    click.echo(f"Solward {__version__} is up.")
    for name, value in screen.rows():
        click.echo(f"{name + ':':<13} {value}")
    for notice in screen.notices():
        click.echo(f"Notice: {notice}")
    if (exports := screen.export_command()) is not None:
        click.echo(f"In another terminal, first: {exports}")
    click.echo(f"Try: {screen.curl_command()}")


def _print_rich(screen: Screen) -> None:
    console = Console()
    table = Table.grid(padding=(0, 2))
    for name, value in screen.rows():
        table.add_row(f"[bold]{name}[/]", escape(value))
    console.print(Panel(table, title=f"Solward {__version__}", border_style="green", expand=False))
    for notice in screen.notices():
        console.print(f"[yellow]![/] {escape(notice)}", highlight=False)
    # Lines to copy are printed unwrapped.
    if (exports := screen.export_command()) is not None:
        console.print("\nIn another terminal, first:")
        click.echo(f"  {exports}")
    console.print("\nTry it:")
    click.echo(f"  {screen.curl_command()}")
    console.print("\n[dim]Ctrl-C stops it.[/]")


@contextlib.asynccontextmanager
async def demo_story(
    service: Solward, seed: DemoSeed | None, dashboard: str | None, say: Say = click.echo
) -> AsyncIterator[Callable[[], None]]:
    """Tell the demo's story until the block ends; calling the yielded function begins it.

    Args:
        dashboard: the pages' address, where a person decides; None if there are none.
    """
    begin = asyncio.Event()
    if seed is None:
        yield begin.set
        return
    with service.events.subscribe() as events:
        task = asyncio.create_task(_narrate(service, seed, events, dashboard, say, begin))
        try:
            yield begin.set
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _narrate(
    service: Solward,
    seed: DemoSeed,
    events: Subscription,
    dashboard: str | None,
    say: Say,
    begin: asyncio.Event,
) -> None:
    await begin.wait()
    agent = seed.agent
    asked = await service.approvals.listed(principal=f"agent:{agent.id}", is_open=True)
    known = {hold.id for hold in asked}
    for hold in reversed(asked):
        if hold.state is HoldState.HELD:
            for line in question_lines(hold.to_json(), dashboard):
                say(line)
    bought, denied = False, None
    async for event in events:
        data = event.data
        if not isinstance(data, Mapping):
            continue
        if event.event == EventKind.PAYMENT_ANSWERED and (
            (data["walletId"], data["site"], data["served"])
            == (seed.wallet.id, seed.seller, Served.YES.value)
        ):
            bought = True
            price = f"{format_amount(data['amount'])} {service.tokens.symbol_of(data['asset'])}"
            say(f"{agent.name} bought a forecast for {price} from {data['url']}")
        if data.get("agentId") != agent.id:
            continue
        if event.event == EventKind.HOLD_CREATED and data["id"] not in known:
            for line in question_lines(data, dashboard):
                say(line)
        elif event.event == EventKind.HOLD_EXECUTED:
            say(f"It was approved, and {agent.name}'s {data['type']} was sent.")
        elif event.event == EventKind.HOLD_DENIED:
            denied = data["transactionId"]
            say(f"It was denied: {agent.name}'s {data['type']} was not sent.")
        elif event.event == EventKind.AGENT_DECISION:
            if (data["action"] or "").startswith("pay_request(") and not bought:
                # It may quote the site, and another process may have the site's port.
                outcome = visible(shorten(data["outcome"], _MOST_OUTCOME, placeholder=" ..."))
                say(f"{agent.name} did not buy the forecast: {outcome}")
        elif event.event == EventKind.TRANSACTION_BLOCKED and data["id"] != denied:
            # This includes a hold that nobody decided on in time.
            rule = data["guardrailsApplied"][-1]
            say(f"{agent.name} was refused by the guardrail {rule}: {data['error']}")


def question_lines(hold: Mapping[str, Any], dashboard: str | None) -> Iterable[str]:
    """Yield the question to a person, and the place to answer it."""
    yield f"A person is asked, nothing was sent: {hold['sentence']}"
    at = "" if dashboard is None else f", or at {dashboard.rstrip('/')}/holds/{hold['id']}"
    yield f"  Decide with `solward hold approve {hold['id']}` or `deny`{at}"
