"""What `solward up --demo` prints of its agent after the screen: refusals, what a person is asked,
and what it bought."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from textwrap import shorten
from typing import Any

import click

from solward.service.service import Solward
from solward.types.events import EventKind, Subscription
from solward.types.money import format_amount
from solward.types.payment import Served
from solward.types.record import HoldState
from solward_cli.render import visible
from solward_cli.up.demo import DemoSeed

Say = Callable[[str], None]

_MOST_OUTCOME = 400


@contextlib.asynccontextmanager
async def told(
    service: Solward, seed: DemoSeed | None, dashboard: str | None, say: Say = click.echo
) -> AsyncIterator[Callable[[], None]]:
    """Tell the demo's story until the block ends; it begins when what is yielded is called.

    Args:
        dashboard: the pages' address, where a person decides; None where none are served.
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
    asked = await service.holds(principal=f"agent:{agent.id}", is_open=True)
    known = {hold.id for hold in asked}
    for hold in reversed(asked):
        if hold.state is HoldState.HELD:
            _print_all(say, question(hold.to_json(), dashboard))
    bought, denied = False, None
    async for event in events:
        data = event.data
        if not isinstance(data, Mapping):
            continue
        if event.event == EventKind.PAYMENT_ANSWERED and is_purchase(data, seed):
            bought = True
            price = f"{format_amount(data['amount'])} {service.tokens.symbol_of(data['asset'])}"
            say(f"{agent.name} bought a forecast for {price} from {data['url']}")
        if data.get("agentId") != agent.id:
            continue
        if event.event == EventKind.HOLD_CREATED and data["id"] not in known:
            _print_all(say, question(data, dashboard))
        elif event.event == EventKind.HOLD_EXECUTED:
            say(f"It was approved, and {agent.name}'s {data['type']} is carried out.")
        elif event.event == EventKind.HOLD_DENIED:
            denied = data["transactionId"]
            say(f"It was denied, and {agent.name}'s {data['type']} is not made; nothing was sent.")
        elif event.event == EventKind.AGENT_DECISION:
            if (data["action"] or "").startswith("pay_request(") and not bought:
                # The site's own words may be in it, and another process may have its port.
                outcome = visible(shorten(data["outcome"], _MOST_OUTCOME, placeholder=" ..."))
                say(f"{agent.name} did not buy the forecast: {outcome}")
        elif event.event == EventKind.TRANSACTION_BLOCKED and data["id"] != denied:
            # One that nobody decided on in time, too.
            rule = data["guardrailsApplied"][-1]
            say(f"{agent.name} was refused by the guardrail {rule}: {data['error']}")


def is_purchase(payment: Mapping[str, Any], seed: DemoSeed) -> bool:
    """Whether the demo's seller served its agent's wallet."""
    bought = (payment["walletId"], payment["site"]) == (seed.wallet.id, seed.seller)
    return bought and payment["served"] == Served.YES.value


def question(hold: Mapping[str, Any], dashboard: str | None) -> Iterable[str]:
    """What a person is asked, and where to answer."""
    yield f"A person is asked, nothing was sent: {hold['sentence']}"
    at = "" if dashboard is None else f", or at {dashboard.rstrip('/')}/holds/{hold['id']}"
    yield f"  Decide with `solward hold approve {hold['id']}` or `deny`{at}"


def _print_all(say: Say, lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
