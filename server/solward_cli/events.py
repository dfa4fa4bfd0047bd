"""`solward events tail`: events of the running service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.service_call import ServiceCall, count_option, service_call

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Event


@click.group()
def events() -> None:
    """What happens in the running service; it needs the admin secret."""


@events.command()
@click.option("--type", "types", multiple=True, help="Only this kind, such as agent:decision.")
@click.option("--after", type=click.IntRange(0), help="Begin after this number; 0 is everything.")
@count_option
@service_call
async def tail(
    call: ServiceCall, types: tuple[str, ...], after: int | None, count: int | None
) -> RenderableType | None:
    """Print events as they happen. JSON: one a line."""
    await call.print_events(call.client.events(types=types, after=after), _line, count)
    return None


def _line(event: Event) -> RenderableType:
    from solward_cli.render import plain

    return plain(f"{event.seq}  {event.kind}  {event_summary(event)}")


def event_summary(event: Event) -> str:
    """What an event is about, on one line."""
    from solward.client import Transaction
    from solward_cli.render import short, summary, visible

    data = event.data
    if event.kind.startswith("transaction:"):
        record = Transaction.of(data)
        return f"{short(record.id)} {visible(record.type)} {summary(record)}".rstrip()
    ids = [short(data[name]) for name in ("walletId", "agentId", "keyId") if data.get(name)]
    texts = [
        visible(data[name]) for name in ("name", "action", "outcome", "error") if data.get(name)
    ]
    if data.get("principal"):
        texts.append(f"by {visible(data['principal'])}")
    return " ".join([*ids, *texts])
