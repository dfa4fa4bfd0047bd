"""`solward audit list|export|verify`: the log of a running service, and whether it is unchanged;
and `solward events tail`: its events as they happen."""

from __future__ import annotations

import re
import sys
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solward.resources.events import AuditFilter, StreamedEvents
from solward_cli.declared import request_options, sent
from solward_cli.service_call import ServiceCall, count_option, limit_option, service_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import RenderableType

    from solward.audit.log import Log
    from solward.client import AuditEntry, Event
    from solward.settings import Settings

_EXIT_BROKEN = 1
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def audit() -> None:
    """The hash-chained log of what was done."""


def _filtered(function: Callable[..., None]) -> Callable[..., None]:
    """The options that choose entries."""
    before = click.option("--before", type=click.IntRange(1), help="Only those below this number.")
    chosen: Callable[..., None] = request_options(AuditFilter)(before(function))
    return chosen


async def _wanted(call: ServiceCall, chosen: Mapping[str, Any]) -> AuditFilter:
    only = await sent(call, AuditFilter, chosen)
    if "principal" in only:
        only["principal"] = await _principal(call, only["principal"])
    return AuditFilter(**only)


async def _principal(call: ServiceCall, who: str) -> str:
    """A principal as the log has it: by its id; of what is deleted the id alone is left."""
    from solward.client.wallets import find_one

    kind, _, name = who.partition(":")
    if _ID.fullmatch(name):
        return who
    match kind:
        case "agent":
            return f"{kind}:{(await call.agent(name)).id}"
        case "key":
            return f"{kind}:{find_one(kind, name, await call.client.keys.list()).id}"
        case _:
            return who


@audit.command("list")
@limit_option
@_filtered
@service_call
async def listing(
    call: ServiceCall, limit: int, before: int | None, **chosen: Any
) -> RenderableType:
    """List the running service's audit log, newest first. Needs the admin secret."""
    from solward_cli.render import moment, table

    found: list[AuditEntry] = []
    only, pages = asdict(await _wanted(call, chosen)), 0
    while True:
        page = await call.client.audit(**only, limit=limit - len(found), before=before)
        found += page.entries
        before, pages = page.next, pages + 1
        if before is None or len(found) >= limit:
            break
    if pages > 1:
        call.set_json({"entries": [dict(each.raw) for each in found], "next": before})
    rows = [
        (str(each.seq), moment(each.timestamp), each.kind, event_summary(each)) for each in found
    ]
    return table((">NO", "TIME (UTC)", "EVENT", "ABOUT"), rows, "No entry fits.")


@audit.command()
@_filtered
@service_call
async def export(call: ServiceCall, before: int | None, **chosen: Any) -> None:
    """Print every entry that fits as JSON, one a line, newest first. Needs the admin secret."""
    from solward.support import jsontext

    async with aclosing(call.client.audit_entries(await _wanted(call, chosen), before)) as found:
        async for each in found:
            click.echo(jsontext.dumps(dict(each.raw)))


@audit.command()
@click.option("--head", help="A hash this printed earlier: it must still be in the log.")
@click.option("--against", type=_FILE, help="A file of --save: every chain must still continue.")
@click.option("--save", type=_FILE, help="Write where every chain ends to this file (0600).")
@click.option(
    "--hashes-only",
    is_flag=True,
    help="Without the keystore's secret: do not check that the chains' ends are authentic.",
)
def verify(head: str | None, against: Path | None, save: Path | None, hashes_only: bool) -> None:
    """Check every entry of the audit log, also while the service runs.

    Reads the database of SOLWARD_HOME, or DATABASE_URL, and the keystore's secret. Exits with 1
    and names the first entry that was changed or is missing, and its chain; with 2 where there is
    no log to check. Keep the head's hash
    or the saved ends elsewhere: whoever puts back an older copy of the whole database cannot make
    it continue later ends.
    """
    import asyncio

    from solward.types.errors import AuditBroken
    from solward_cli.entrypoint import keystore_settings, read_settings, refusals

    with refusals():
        settings = read_settings() if hashes_only else keystore_settings()
        try:
            log = asyncio.run(_verify(settings, head, against, save, hashes_only))
        except AuditBroken as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(_EXIT_BROKEN)
    _print(log, hashes_only)


def _print(log: Log, hashes_only: bool) -> None:
    from solward.support.clock import iso

    click.echo(f"Entries: {log.entries}")
    click.echo(f"Chains:  {len(log.heads)}")
    if log.pruned:
        click.echo(f"Cut:     {log.pruned} older entries, by retention")
    if log.first_ms is not None and log.last_ms is not None:
        click.echo(f"First:   {iso(log.first_ms)}")
        click.echo(f"Last:    {iso(log.last_ms)}")
    click.echo(f"Head:    {log.hash}")
    if hashes_only:
        click.echo("The chains' ends were not authenticated: that needs the keystore's secret.")


async def _verify(
    settings: Settings,
    head: str | None,
    against: Path | None,
    save: Path | None,
    hashes_only: bool,
) -> Log:
    from solward.audit.log import AuditLog, read_heads, write_heads
    from solward.database.database import Database
    from solward.vault.custody.keystore import audit_key
    from solward.vault.custody.service import key_source
    from solward_cli.offline import refuse_unused

    earlier = None if against is None else read_heads(against)
    database = Database.inspect(settings.database_url, settings.solward_home)
    try:
        await refuse_unused(database, settings.solward_home)
        if not hashes_only:
            source = key_source(settings, settings.solward_home)
            database.audit_key = await audit_key(database, source)
        log = await AuditLog(database).verify(head, earlier)
    finally:
        await database.close()
    if save is not None:
        write_heads(save, log.heads)
    return log


@click.group()
def events() -> None:
    """What happens in the running service; it needs the admin secret."""


@events.command()
@request_options(StreamedEvents, without={"last_event_id"})
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
