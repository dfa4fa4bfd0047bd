"""`solward audit list|export|verify`, `solward events tail` and `solward alerts test`."""

from __future__ import annotations

import sys
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward.resources.events import AuditFilter, ListedAudit, StreamedEvents
from solward.support import jsontext
from solward.support.clock import iso
from solward.types.errors import AuditBroken
from solward_cli.declared import call_args, default_of, request_options
from solward_cli.entrypoint import (
    count_option,
    home_command,
    inspected_database,
    read_audit_key,
    refuse_unused,
)
from solward_cli.render import Output, answer_table, plain, short, summary, visible
from solward_cli.service_call import ServiceCall, service_call

if TYPE_CHECKING:
    from solward.client import AuditEntry, Event
    from solward.settings import Settings

_EXIT_BROKEN = 1
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def audit() -> None:
    """List, export and verify the audit log."""


def _audit_filter(chosen: dict[str, Any]) -> AuditFilter:
    return AuditFilter(**call_args(AuditFilter, chosen))


@audit.command("list")
@request_options(ListedAudit, without=("after",))
@service_call
async def listing(
    call: ServiceCall, limit: int | None, before: int | None, **chosen: Any
) -> Output:
    """List audit log entries, newest first; needs the admin secret."""
    most = limit or default_of(ListedAudit, "limit")
    only = asdict(_audit_filter(chosen))
    found: list[AuditEntry] = []
    pages = 0
    while len(found) < most and (before is not None or not pages):
        page = await call.client.audit(**only, limit=most - len(found), before=before)
        found += page.entries
        before, pages = page.next, pages + 1
    if pages > 1:
        call.set_json({"entries": [dict(each.raw) for each in found], "next": before})
    cells = ("seq", "timestamp", "kind", ("ABOUT", event_summary))
    return answer_table(found, *cells, empty="No entry matches.")


@audit.command()
@request_options(ListedAudit, without=("limit", "after"))
@service_call
async def export(call: ServiceCall, before: int | None, **chosen: Any) -> None:
    """Print all matching entries as JSON lines, newest first; needs the admin secret."""
    async with aclosing(call.client.audit_entries(_audit_filter(chosen), before)) as found:
        async for each in found:
            click.echo(jsontext.dumps(dict(each.raw)))


@audit.command()
@click.option("--head", help="A hash printed earlier, which must still be in the log.")
@click.option(
    "--against", type=_FILE, help="A file written by --save; the log must continue all its chains."
)
@click.option("--save", type=_FILE, help="Write the end of every chain to this file (mode 0600).")
@click.option(
    "--hashes-only",
    is_flag=True,
    help="Check only the hashes: the keystore's secret, which authenticates them, is not used.",
)
@home_command
async def verify(
    settings: Settings,
    head: str | None,
    against: Path | None,
    save: Path | None,
    hashes_only: bool,
) -> None:
    """Verify every entry of the audit log; the service may be running.

    Reads the database of SOLWARD_HOME, or DATABASE_URL, and the keystore's secret. Exits with 1
    and names the first changed or missing entry and its chain; exits with 2 if there is no log.
    Keep the head's hash or the --save file elsewhere: with it, this command also finds that an
    older copy has replaced the whole database.
    """
    from solward.audit.log import read_heads, verify_against, write_heads

    earlier = None if against is None else read_heads(against)
    async with inspected_database(settings) as database:
        await refuse_unused(database, settings.solward_home)
        if not hashes_only:
            await read_audit_key(settings, database)
        try:
            log = await verify_against(database, head, earlier)
        except AuditBroken as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(_EXIT_BROKEN)
    if save is not None:
        write_heads(save, log.heads)
    click.echo(f"Entries: {log.entries}")
    click.echo(f"Chains:  {len(log.heads)}")
    if log.pruned:
        click.echo(f"Pruned:  {log.pruned} older entries, after their retention")
    if log.first_ms is not None and log.last_ms is not None:
        click.echo(f"First:   {iso(log.first_ms)}")
        click.echo(f"Last:    {iso(log.last_ms)}")
    click.echo(f"Head:    {log.hash}")
    if hashes_only:
        click.echo("The chains' ends were not authenticated: that needs the keystore's secret.")


@click.group()
def events() -> None:
    """Follow the service's events; needs the admin secret."""


@events.command()
@request_options(StreamedEvents, without={"last_event_id"})
@click.option(
    "--after", type=click.IntRange(0), help="Begin after this event number; 0 prints all."
)
@count_option
@service_call
async def tail(
    call: ServiceCall, types: tuple[str, ...], after: int | None, count: int | None
) -> Output | None:
    """Print events as they happen."""

    def line(event: Event) -> Output:
        return plain(f"{event.seq}  {event.kind}  {event_summary(event)}")

    await call.print_events(call.client.events(types=types, after=after), line, count)
    return None


def event_summary(event: Event) -> str:
    """Describe an event of the audit log on one line."""
    from solward.client import Transaction

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


@click.group()
def alerts() -> None:
    """Test the alert webhook."""


@alerts.command()
@home_command
async def test(settings: Settings) -> None:
    """Send one test message to ALERT_WEBHOOK_URL; the service may be running.

    The message is signed and formatted like an alert. Exits with 1 if the receiver rejects it.
    """
    from solward.notify.alerts import send_test

    sent = await send_test(settings)
    if sent.failure is not None:
        click.echo(f"Rejected: {sent.failure.text}.", err=True)
        sys.exit(1)
    click.echo(f"Accepted in {sent.seconds:.1f} s: delivery {sent.delivery}.")
