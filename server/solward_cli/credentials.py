"""`solward key` and `solward admin`: credentials of the running service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from solward.resources.credentials import NewAdmin, NewKey, NewSecret
from solward.types.roles import unenforced
from solward_cli.declared import request_options, sent
from solward_cli.named import admin_argument, key_argument
from solward_cli.options import yes_option
from solward_cli.render import Output, amount, moment, plain, visible
from solward_cli.service_call import ServiceCall, confirmed, service_call
from solward_cli.shown_answers import answer_table

if TYPE_CHECKING:
    from rich.text import Text

    from solward.client import AdminCredential, ApiKey, CreatedKey
    from solward.resources.limits import DayUse


@click.group()
def key() -> None:
    """API keys of the running service; they need the admin secret."""


@key.command()
@request_options(NewKey)
@service_call
async def create(call: ServiceCall, **values: Any) -> Output:
    """Create an API key and print it, this once."""
    created = await call.client.keys.create(**sent(NewKey, values))
    return _shown_once(call, "Key", created, created.api_key)


@key.command("list")
@service_call
async def list_keys(call: ServiceCall) -> Output:
    """List the API keys: their limits, what is spent of them, and when they end."""
    return answer_table(
        await call.client.keys.list(details=True),
        "id",
        "name",
        "wallet_id",
        "last_used_at",
        ("USED OF ITS LIMITS", _limits),
        empty="There are no API keys.",
    )


def _limits(key: ApiKey) -> Text:
    def day(limit: DayUse) -> str:
        return f"{amount(limit.spent + limit.reserved)} of {amount(limit.limit)}"

    details, now = key.details, datetime.now(UTC)
    assert details is not None, "asked for"
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
@key_argument
@request_options(NewSecret)
@yes_option
@service_call
async def rotate(call: ServiceCall, key: ApiKey, overlap_seconds: int | None, yes: bool) -> Output:
    """Give an API key another secret and print that, this once; its limits stay.

    With --overlap 0 the secret it had ends at once, and is asked about first.
    """
    if overlap_seconds == 0:
        confirmed(f"End the secret of {visible(key.name)} ({key.id}) at once?", yes)
    created = await call.client.keys.rotate(key.id, overlap_seconds=overlap_seconds)
    until = created.previous_secret_until
    if until is not None and not call.as_json:
        # Who rotates a key that leaked must not believe that its secret has ended.
        at = moment(until)
        text = f"The secret it had works until {at} UTC; rotating with --overlap 0 ends it at once."
        click.echo(text, err=True)
    return _shown_once(call, "Key", created, created.api_key)


@key.command()
@key_argument
@yes_option
@service_call
async def revoke(call: ServiceCall, key: ApiKey, yes: bool) -> Output:
    """End an API key at once: by its name, its id, or the beginning of its id."""
    confirmed(f"Revoke the key {visible(key.name)} ({key.id})?", yes)
    await call.client.keys.revoke(key.id)
    return plain(f"{key.name}: revoked")


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
async def add(call: ServiceCall, **values: Any) -> Output:
    """Create an admin credential and print its secret, this once."""
    created = await call.client.admins.create(**sent(NewAdmin, values))
    what = f"Admin credential of role {created.credential.role}"
    return _shown_once(call, what, created.credential, created.secret)


@admin.command("list")
@service_call
async def list_admins(call: ServiceCall) -> Output:
    """List the admin credentials: roles, last uses, and when they end."""
    found = await call.client.admins.list()
    names = {f"admin:{each.id}": each.name for each in found}
    return answer_table(
        found,
        "id",
        "name",
        "role",
        # One that is gone has no name any more.
        ("created_by", lambda each: names.get(each.created_by, each.created_by)),
        "last_used_at",
        "expires_at",
        empty="There are no admin credentials beside the admin secret.",
    )


@admin.command("revoke")
@admin_argument
@yes_option
@service_call
async def revoke_admin(call: ServiceCall, admin: AdminCredential, yes: bool) -> Output:
    """End an admin credential at once: by its name, its id, or the beginning of its id."""
    confirmed(f"Revoke the admin credential {visible(admin.name)} ({admin.id})?", yes)
    made = (await call.client.admins.revoke(admin.id)).made
    if made and not call.as_json:
        names = ", ".join(visible(each.name) for each in made)
        click.echo(f"It had made others, which stay: {names}", err=True)
    return plain(f"{admin.name}: revoked")


def _shown_once(
    call: ServiceCall, what: str, record: CreatedKey | AdminCredential, secret: str
) -> Output:
    if not call.as_json:
        # Standard output is the secret alone, so that a shell can capture it.
        text = f"{what}: {visible(record.name)} ({record.id}); it is shown this once:"
        click.echo(text, err=True)
    return plain(secret)
