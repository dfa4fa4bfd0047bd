"""`solward events tail` and `solward audit list`: what happened in the running service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solward_cli.service_call import ServiceCall, count_option, limit_option, service_call

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
    await call.tell(call.client.events(types=types, after=after), _line, count)
    return None


@click.command("list")
@limit_option
@click.option("--before", type=click.IntRange(1), help="Only those below this number.")
@service_call
async def audit_list(call: ServiceCall, limit: int, before: int | None) -> RenderableType:
    """List the running service's audit log, newest first. Needs the admin secret."""
    from solward_cli.render import moment, table

    rows = [
        (str(each.seq), moment(each.timestamp), each.kind, _about(each))
        for each in await call.client.audit(limit, before)
    ]
    return table((">NO", "TIME (UTC)", "EVENT", "ABOUT"), rows, "The audit log is empty.")


def _line(event: Event) -> RenderableType:
    from solward_cli.render import plain

    return plain(f"{event.seq}  {event.kind}  {_about(event)}")


def _about(event: Event) -> str:
    from solward.client import Transaction
    from solward_cli.render import short, summary, visible

    data = event.data
    if event.kind.startswith("transaction:"):
        made = Transaction.of(data)
        return f"{short(made.id)} {visible(made.type)} {summary(made)}".rstrip()
    told = [
        visible(data[name]) for name in ("name", "action", "outcome", "error") if data.get(name)
    ]
    named = [short(data[name]) for name in ("walletId", "agentId", "keyId") if data.get(name)]
    return " ".join([*named, *told])
