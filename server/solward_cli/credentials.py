"""`solward key` and `solward admin`: credentials of the running service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from solward.resources.credentials import NewAdmin, NewKey, NewSecret
from solward_cli.declared import request_options, sent
from solward_cli.service_call import ServiceCall, confirmed, service_call, yes_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from solward.client import AdminCredential, ApiKey, CreatedKey, KeyDetails, RotatedKey
    from solward.resources.limits import DayUse

C = TypeVar("C", "ApiKey", "AdminCredential")


@click.group()
def key() -> None:
    """API keys of the running service; they need the admin secret."""


@key.command()
@request_options(NewKey)
@service_call
async def create(call: ServiceCall, **values: Any) -> RenderableType:
    """Create an API key and print it, this once."""
    created = await call.client.keys.create(**await sent(call, NewKey, values))
    return _shown_once(call, "Key", created, created.api_key)


@key.command("list")
@service_call
async def list_keys(call: ServiceCall) -> RenderableType:
    """List the API keys: their limits, what is spent of them, and when they end."""
    from solward_cli.render import moment, short, table

    rows = []
    for each in await call.client.keys.list(details=True):
        assert each.details is not None, "asked for"
        rows.append(
            (
                short(each.id),
                each.name,
                "all" if each.wallet_id is None else short(each.wallet_id),
                "never" if each.last_used_at is None else moment(each.last_used_at),
                _limits(each, each.details),
            )
        )
    columns = ("ID", "NAME", "WALLET", "LAST USED (UTC)", "USED OF ITS LIMITS")
    return table(columns, rows, "There are no API keys.")


def _limits(key: ApiKey, details: KeyDetails) -> Text:
    from solward.types.roles import unenforced
    from solward_cli.render import amount, moment, plain

    def day(limit: DayUse) -> str:
        return f"{amount(limit.spent + limit.reserved)} of {amount(limit.limit)}"

    now = datetime.now(UTC)
    at, until = details.expires_at, details.previous_secret_until
    rate = details.rate_limit
    lines = [
        f"{day(details.spending_limit_sol)} SOL a day",
        f"{day(details.max_costs_sol_per_day)} of costs",
        f"{rate.used} of {rate.limit} a minute",
    ]
    if details.read_only:
        lines = ["read only"]
    elif told := unenforced(key.permissions, read_only=False):
        lines.append(told)
    if at is not None:
        lines.append(f"{'expired' if at <= now else 'expires'} {moment(at)}")
    if until is not None and until > now:
        lines.append(f"both secrets: {moment(until)}")
    return plain("\n".join(lines), lines=True)


@key.command()
@click.argument("key")
@request_options(NewSecret)
@yes_option
@service_call
async def rotate(
    call: ServiceCall, key: str, overlap_seconds: int | None, yes: bool
) -> RenderableType:
    """Give an API key another secret and print that, this once; its limits stay.

    With --overlap 0 the secret it had ends at once, and is asked about first.
    """
    from solward.client.wallets import find_one
    from solward_cli.render import visible

    found = find_one("key", key, await call.client.keys.list())
    if overlap_seconds == 0:
        confirmed(f"End the secret of {visible(found.name)} ({found.id}) at once?", yes)
    created = await call.client.keys.rotate(found.id, overlap_seconds=overlap_seconds)
    _tell_overlap(call, created)
    return _shown_once(call, "Key", created, created.api_key)


def _tell_overlap(call: ServiceCall, created: RotatedKey) -> None:
    """Who rotates a key that leaked must not believe that its secret has ended."""
    from solward_cli.render import moment

    until = created.previous_secret_until
    if until is not None and not call.as_json:
        at = moment(until)
        text = f"The secret it had works until {at} UTC; rotating with --overlap 0 ends it at once."
        click.echo(text, err=True)


@key.command()
@click.argument("key")
@yes_option
@service_call
async def revoke(call: ServiceCall, key: str, yes: bool) -> RenderableType:
    """End an API key at once: by its name, its id, or the beginning of its id."""
    from solward_cli.render import plain

    found = _revoked("key", key, await call.client.keys.list(), yes)
    await call.client.keys.revoke(found.id)
    return plain(f"{found.name}: revoked")


@click.group()
def admin() -> None:
    """Admin credentials of the running service, each with a role.

    \b
    read     sees everything that the admin secret sees
    operate  also freezes, starts, stops and pauses agents, pauses schedules, revokes keys, denies
    policy   also whatever may let money leave or widens a bound: all that the admin secret may
    """


@admin.command()
@request_options(NewAdmin)
@service_call
async def add(call: ServiceCall, **values: Any) -> RenderableType:
    """Create an admin credential and print its secret, this once."""
    created = await call.client.admins.create(**await sent(call, NewAdmin, values))
    what = f"Admin credential of role {created.credential.role}"
    return _shown_once(call, what, created.credential, created.secret)


@admin.command("list")
@service_call
async def list_admins(call: ServiceCall) -> RenderableType:
    """List the admin credentials: roles, last uses, and when they end."""
    from solward_cli.render import moment, short, table

    found = await call.client.admins.list()
    names = {f"admin:{each.id}": each.name for each in found}
    rows = [
        (
            short(each.id),
            each.name,
            each.role,
            # One that is gone has no name any more.
            names.get(each.created_by, each.created_by),
            "never" if each.last_used_at is None else moment(each.last_used_at),
            "never" if each.expires_at is None else moment(each.expires_at),
        )
        for each in found
    ]
    columns = ("ID", "NAME", "ROLE", "MADE BY", "LAST USED (UTC)", "ENDS (UTC)")
    return table(columns, rows, "There are no admin credentials beside the admin secret.")


@admin.command("revoke")
@click.argument("admin")
@yes_option
@service_call
async def revoke_admin(call: ServiceCall, admin: str, yes: bool) -> RenderableType:
    """End an admin credential at once: by its name, its id, or the beginning of its id."""
    from solward_cli.render import plain, visible

    found = _revoked("admin credential", admin, await call.client.admins.list(), yes)
    made = (await call.client.admins.revoke(found.id)).made
    if made and not call.as_json:
        names = ", ".join(visible(each.name) for each in made)
        click.echo(f"It had made others, which stay: {names}", err=True)
    return plain(f"{found.name}: revoked")


def _shown_once(
    call: ServiceCall, what: str, record: CreatedKey | AdminCredential, secret: str
) -> RenderableType:
    from solward_cli.render import plain, visible

    if not call.as_json:
        # Standard output is the secret alone, so that a shell can capture it.
        text = f"{what}: {visible(record.name)} ({record.id}); it is shown this once:"
        click.echo(text, err=True)
    return plain(secret)


def _revoked(kind: str, given: str, among: Sequence[C], yes: bool) -> C:
    """The one that is to be revoked, once that was confirmed."""
    from solward.client.wallets import find_one
    from solward_cli.render import visible

    found = find_one(kind, given, among)
    confirmed(f"Revoke the {kind} {visible(found.name)} ({found.id})?", yes)
    return found
