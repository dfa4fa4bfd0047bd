"""`solward key create|list|rotate|revoke`: API keys of the running service."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from solward_cli.completed_names import wallet_names
from solward_cli.options import expiry
from solward_cli.service_call import ServiceCall, confirmed, exact, service_call, yes_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType
    from rich.text import Text

    from solward.client import CreatedKey, KeyDetails


@click.group()
def key() -> None:
    """API keys of the running service; they need the admin secret."""


@key.command()
@click.argument("name")
@click.option("--rate-limit", type=click.IntRange(1), help="Transactions a minute; 10.")
@click.option("--daily-sol", type=exact, help="SOL it may spend in 24 hours; 5. 0 only reads.")
@click.option("--costs-sol", type=exact, help="SOL of fees and rent in 24 hours; 0.05.")
@click.option(
    "--wallet", shell_complete=wallet_names, help="The only wallet it may use.  [default: all]"
)
@click.option("--expires", type=expiry, metavar="TIME", help="When it ends: ISO 8601, or 90d.")
@service_call
async def create(
    call: ServiceCall,
    name: str,
    rate_limit: int | None,
    daily_sol: Decimal | None,
    costs_sol: Decimal | None,
    wallet: str | None,
    expires: datetime | None,
) -> RenderableType:
    """Create an API key and print it, this once."""
    wallet_id = None if wallet is None else (await call.wallet(wallet)).id
    created = await call.client.keys.create(
        name=name,
        rate_limit=rate_limit,
        spending_limit_sol=daily_sol,
        max_costs_sol_per_day=costs_sol,
        wallet_id=wallet_id,
        expires_at=expires,
    )
    return _shown_once(call, created)


def _shown_once(call: ServiceCall, created: CreatedKey) -> RenderableType:
    from solward_cli.render import plain, visible

    if not call.as_json:
        # Standard output is the key alone, so that a shell can capture it.
        click.echo(f"Key {visible(created.name)} ({created.id}); it is shown this once:", err=True)
    return plain(created.api_key)


@key.command("list")
@service_call
async def listing(call: ServiceCall) -> RenderableType:
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
                _limits(each.details),
            )
        )
    columns = ("ID", "NAME", "WALLET", "LAST USED (UTC)", "USED OF ITS LIMITS")
    return table(columns, rows, "There are no API keys.")


def _limits(details: KeyDetails) -> Text:
    from solward_cli.render import amount, moment, plain

    def day(limit: Mapping[str, Any]) -> str:
        return f"{amount(limit['spent'] + limit['reserved'])} of {amount(limit['limit'])}"

    now = datetime.now(UTC)
    at, until = details.expires_at, details.previous_secret_until
    rate = details.rate_limit
    lines = [
        f"{day(details.spending_limit_sol)} SOL a day",
        f"{day(details.max_costs_sol_per_day)} of costs",
        f"{rate['used']} of {rate['limit']} a minute",
    ]
    if at is not None:
        lines.append(f"{'expired' if at <= now else 'expires'} {moment(at)}")
    if until is not None and until > now:
        lines.append(f"both secrets: {moment(until)}")
    return plain("\n".join(lines), lines=True)


@key.command()
@click.argument("key")
@click.option(
    "--overlap",
    type=click.IntRange(0, 86_400),
    metavar="SECONDS",
    help="How long the secret it had goes on working; 3600.",
)
@yes_option
@service_call
async def rotate(call: ServiceCall, key: str, overlap: int | None, yes: bool) -> RenderableType:
    """Give an API key another secret and print that, this once; its limits stay.

    With --overlap 0 the secret it had ends at once, and is asked about first.
    """
    from solward.client.wallets import find_one
    from solward_cli.render import visible

    found = find_one("key", key, await call.client.keys.list())
    if overlap == 0:
        confirmed(f"End the secret of {visible(found.name)} ({found.id}) at once?", yes)
    created = await call.client.keys.rotate(found.id, overlap_seconds=overlap)
    _tell_overlap(call, created)
    return _shown_once(call, created)


def _tell_overlap(call: ServiceCall, created: CreatedKey) -> None:
    """Who rotates a key that leaked must not believe that its secret has ended."""
    from solward_cli.render import moment

    until = created.raw["previousSecretUntil"]
    if until is not None and not call.as_json:
        at = moment(datetime.fromisoformat(until))
        text = f"The secret it had works until {at} UTC; rotating with --overlap 0 ends it at once."
        click.echo(text, err=True)


@key.command()
@click.argument("key")
@yes_option
@service_call
async def revoke(call: ServiceCall, key: str, yes: bool) -> RenderableType:
    """End an API key at once: by its name, its id, or the beginning of its id."""
    from solward.client.wallets import find_one
    from solward_cli.render import plain, visible

    revoked = find_one("key", key, await call.client.keys.list())
    confirmed(f"Revoke the API key {visible(revoked.name)} ({revoked.id})?", yes)
    await call.client.keys.revoke(revoked.id)
    return plain(f"{revoked.name}: revoked")
