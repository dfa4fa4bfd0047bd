"""`solward key` and `solward admin`: credentials of the running service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from solward.resources import credentials
from solward.types.roles import permissions_warning
from solward_cli.declared import asks, lists
from solward_cli.render import Output, amount, answer_table, moment, plain, visible
from solward_cli.service_call import ServiceCall

if TYPE_CHECKING:
    from rich.text import Text

    from solward.resources.shared import DayUse


@click.group()
def key() -> None:
    """Create, list, rotate and revoke API keys; needs the admin secret."""


@click.group()
def admin() -> None:
    """Create, list and revoke admin credentials, each with a role.

    \b
    read     can read everything that the admin secret can
    operate  can also freeze, start, stop and pause agents, pause schedules, revoke keys, deny
    policy   can also let money leave and raise limits: everything that the admin secret can
    """


def _render_limits(key: credentials.ApiKey) -> Text:
    def day(limit: DayUse) -> str:
        return f"{amount(limit.spent + limit.reserved)} of {amount(limit.limit)}"

    details, now = key.details, datetime.now(UTC)
    assert details is not None, "asked for"
    at, until = details.expires_at, details.previous_secret_until
    rate = details.rate_limit
    lines = [
        f"{day(details.spending_limit_sol)} SOL a day",
        f"{day(details.max_costs_sol_per_day)} SOL of costs a day",
        f"{rate.used} of {rate.limit} requests a minute",
    ]
    if details.read_only:
        lines = ["read only"]
    elif told := permissions_warning(key.permissions, read_only=False):
        lines.append(told)
    if at is not None:
        lines.append(f"{'expired' if at <= now else 'expires'} {moment(at)}")
    if until is not None and until > now:
        lines.append(f"old secret works until {moment(until)}")
    return plain("\n".join(lines), lines=True)


async def _render_new_key(call: ServiceCall, made: credentials.CreatedKey) -> Output:
    until = getattr(made, "previous_secret_until", None)
    if until is not None:
        # After a leak, the user must not believe that the old secret has ended.
        at = moment(until)
        call.note(
            f"The old secret works until {at} UTC; rotating with --overlap 0 ends it at once."
        )
    call.note(f"Key: {visible(made.name)} ({made.id}); its secret is shown only once:")
    return plain(made.api_key)


async def _render_new_admin(call: ServiceCall, made: credentials.CreatedAdmin) -> Output:
    one = made.credential
    what = f"Admin credential {visible(one.name)} ({one.id}) with the role {one.role}"
    call.note(f"{what}; its secret is shown only once:")
    return plain(made.secret)


async def _render_revoked_admin(call: ServiceCall, revoked: credentials.RevokedAdmin) -> Output:
    if revoked.made:
        names = ", ".join(visible(each.name) for each in revoked.made)
        call.note(f"Admin credentials that it created stay valid: {names}")
    return plain(f"{call.given['admin'].name}: revoked")


def _render_admins(found: tuple[credentials.AdminCredential, ...]) -> Output:
    names = {f"admin:{each.id}": each.name for each in found}
    return answer_table(
        found,
        *("id", "name", "role"),
        # A revoked credential has no name.
        ("created_by", lambda each: names.get(each.created_by, each.created_by)),
        *("last_used_at", "expires_at"),
        empty="There are no admin credentials, only the admin secret.",
    )


def _rotation_question(overlap_seconds: Any) -> str:
    return "End the old secret of {key.name} ({key.id}) at once?" if overlap_seconds == 0 else ""


asks(
    key,
    credentials.CREATE_KEY,
    "Create an API key and print its secret, which is shown only once.",
    _render_new_key,
)
lists(
    key,
    credentials.LIST_KEYS,
    "List API keys with their limits, the use of each and their expiry.",
    *("id", "name", "wallet_id", "last_used_at", ("LIMITS AND USE", _render_limits)),
    empty="There are no API keys.",
    details=True,
)
asks(
    key,
    credentials.ROTATE_KEY,
    """Replace an API key's secret and print the new one, which is shown only once.

    The key's limits stay. With --overlap 0 the old secret ends at once; the command asks first.
    """,
    _render_new_key,
    question=_rotation_question,
)
asks(
    key,
    credentials.REVOKE_KEY,
    "Revoke an API key at once.",
    "{key.name}: revoked",
    question="Revoke the key {key.name} ({key.id})?",
)
asks(
    admin,
    credentials.CREATE_ADMIN,
    "Create an admin credential and print its secret, which is shown only once.",
    _render_new_admin,
    name="add",
)
asks(
    admin,
    credentials.LIST_ADMINS,
    "List admin credentials with their role, last use and expiry.",
    _render_admins,
)
asks(
    admin,
    credentials.REVOKE_ADMIN,
    "Revoke an admin credential at once.",
    _render_revoked_admin,
    question="Revoke the admin credential {admin.name} ({admin.id})?",
)
