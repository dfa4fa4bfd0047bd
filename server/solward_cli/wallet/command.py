"""`solward wallet ...`: wallets of the running service, and the commands of other modules here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from solward.resources.wallets import NewWallet
from solward_cli.declared import request_options, sent
from solward_cli.service_call import ServiceCall, service_call, waiting, wallet_argument
from solward_cli.wallet import money
from solward_cli.wallet.import_export import export, import_
from solward_cli.wallet.sweep_command import sweep

if TYPE_CHECKING:
    from decimal import Decimal

    from rich.console import RenderableType

    from solward.client import Balance, CreatedWallet, Wallet


@click.group()
def wallet() -> None:
    """Wallets of the running service; a key of your own brought in, or taken along."""


for command in (*money.COMMANDS, import_, export, sweep):
    wallet.add_command(command)


@wallet.command("list")
@click.option("--limit", type=click.IntRange(1, 500), help="A page of so many, newest first.")
@click.option("--before", metavar="ID", help="A page of wallets made before this one.")
@service_call
async def listing(call: ServiceCall, limit: int | None, before: str | None) -> RenderableType:
    """List the wallets, oldest first."""
    from solward_cli.render import short, table

    wallets = await call.client.wallets.list(limit, before)
    rows = [(short(each.id), each.name, each.address) for each in wallets]
    return table(("ID", "NAME", "ADDRESS"), rows, "There are no wallets yet.")


@wallet.command()
@request_options(NewWallet)
@service_call
async def create(call: ServiceCall, **values: Any) -> RenderableType:
    """Create a wallet."""
    made = await call.client.wallets.create(**await sent(call, NewWallet, values))
    return _render_wallet(made, values["tags"])


@wallet.command("show")
@wallet_argument
@service_call
async def show_one(call: ServiceCall, wallet: str) -> RenderableType:
    """Show a wallet and what it holds. JSON: the wallet alone."""
    from solward_cli.render import together

    found = await call.wallet(wallet)
    balances = await call.client.wallets.balance(found.id)
    call.set_json(found.raw)
    return together(_render_wallet(found, found.tags), "", _render_balance(balances))


@wallet.command()
@wallet_argument
@click.option("--usd", is_flag=True, help="With what it is worth in dollars.")
@service_call
async def balance(call: ServiceCall, wallet: str, usd: bool) -> RenderableType:
    """Show what a wallet holds."""
    found = await call.wallet(wallet)
    with waiting("Reading the ledger"):
        return _render_balance(await call.client.wallets.balance(found.id, usd=usd))


@wallet.command()
@wallet_argument
@service_call
async def limits(call: ServiceCall, wallet: str) -> RenderableType:
    """Show a wallet's limits, what is spent of each and what is left."""
    found = await call.wallet(wallet)
    return limits_table(await call.client.wallets.limits(found.id))


@wallet.command()
@wallet_argument
@service_call
async def pockets(call: ServiceCall, wallet: str) -> RenderableType:
    """List a wallet's pockets that may hold something, and what is at risk."""
    from solward_cli.render import moment, table

    found = await call.wallet(wallet)
    rows = [
        (
            each.address,
            each.position or "-",
            ", ".join(f"{units} of {asset}" for asset, units in each.at_risk.items()) or "-",
            moment(each.created_at),
        )
        for each in (await call.client.wallets.pockets(found.id)).pockets
    ]
    return table(
        ("POCKET", "POSITION", "AT RISK", "SINCE (UTC)"), rows, "No pocket holds anything."
    )


@wallet.command()
@wallet_argument
@service_call
async def stakes(call: ServiceCall, wallet: str) -> RenderableType:
    """List a wallet's stakes."""
    from solward_cli.render import amount, status, table

    found = await call.wallet(wallet)
    with waiting("Reading the ledger"):
        found_stakes = (await call.client.wallets.stakes(found.id)).stakes
    rows = [(each.address, amount(each.balance), status(each.shown_state)) for each in found_stakes]
    return table(("STAKE ACCOUNT", ">SOL", "STATE"), rows, "There are no stakes.")


@wallet.command()
@wallet_argument
@click.argument("tags", nargs=-1)
@service_call
async def tag(call: ServiceCall, wallet: str, tags: tuple[str, ...]) -> RenderableType:
    """Replace a wallet's tags; without any it has none."""
    found = await call.wallet(wallet)
    changed = await call.client.wallets.tag(found.id, tags=tags)
    return _render_wallet(changed, changed.tags)


def limits_table(report: Mapping[str, Any]) -> RenderableType:
    """The limits of a wallet or an agent; a limit that is not set is a dash."""
    from solward_cli.render import LIMITS, amount, plain, table, together

    named = [(label, report[name]) for name, label in LIMITS.items()]
    named += [(f"units of {mint}", row) for mint, row in report["dailyTokens"].items()]
    rows = [
        (
            label,
            *(
                "-" if row.get(column) is None else amount(row[column])
                for column in ("limit", "spent", "reserved", "left")
            ),
        )
        for label, row in ((label, {"spent": row.get("used"), **row}) for label, row in named)
    ]
    parts: list[RenderableType] = [
        table(("LIMIT OF", ">LIMIT", ">SPENT", ">RESERVED", ">LEFT"), rows, "")
    ]
    for each in report.get("grants", ()):
        parts += [plain(""), *_grants(each)]
    can_leave = report.get("canLeave")
    if can_leave is not None:
        parts += [plain(""), plain("What can leave this wallet today", "bold")]
        parts.append(table(("ASSET", ">AT MOST", "NOTE"), _can_leave(can_leave["assets"]), ""))
        parts.append(plain(can_leave["sentence"]))
    if report.get("frozen"):
        parts += [plain(""), plain("Frozen: no new transactions.", "bold red")]
    return together(*parts)


def _grants(of: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The grants of one principal, and what is left of each."""
    from solward_cli.render import plain

    if not of["grants"]:
        kind = of["who"].partition(":")[0]
        yield plain(f"{kind.capitalize()} {of['name']} may only read.", "bold")
    for grant in of["grants"]:
        yield plain(f"{grant['number']}. {grant['sentence']}", "bold")
        for limit in grant["limits"]:
            yield plain(f"   {limit['sentence']}")


def _can_leave(assets: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    names = {"*": "any other, in dollars", "COSTS": "SOL of fees and rent"}
    return [
        (
            names.get(asset, asset),
            "any amount" if each["most"] is None else each["most"],
            each.get("reason")
            or (f"and ${each['dollarsBeside']} beside" if "dollarsBeside" in each else ""),
        )
        for asset, each in assets.items()
    ]


def _render_wallet(wallet: Wallet | CreatedWallet, tags: Sequence[str]) -> RenderableType:
    from solward_cli.render import fields, moment

    return fields(
        {
            "Wallet": wallet.id,
            "Name": wallet.name,
            "Address": wallet.address,
            "Tags": ", ".join(tags) or None,
            "Created": f"{moment(wallet.created_at)} UTC",
        }
    )


def _render_balance(balance: Balance) -> RenderableType:
    from solward.solana.programs import WRAPPED_SOL_MINT
    from solward_cli.render import amount, table

    rows = [("SOL", amount(balance.sol), "")]
    for each in balance.tokens:
        symbol = "wSOL" if each.mint == WRAPPED_SOL_MINT else each.symbol or "-"
        rows.append((symbol, amount(each.amount), each.mint))
    if balance.usd is None:
        return table(("ASSET", ">AMOUNT", "MINT"), rows, "")
    worth = [_dollars(balance.usd.assets.get(mint or "SOL")) for _, _, mint in rows]
    total = f"{balance.usd.total:.2f}"
    priced = [(*row[:2], usd, row[2]) for row, usd in zip(rows, worth, strict=True)]
    columns = ("ASSET", ">AMOUNT", ">USD", "MINT")
    return table(columns, [*priced, ("together", "", total, "")], "")


def _dollars(found: Decimal | None) -> str:
    return "no price" if found is None else f"{found:.2f}"
