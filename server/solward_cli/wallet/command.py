"""`solward wallet ...`: wallets of the running service, and the commands of other modules here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.resources.agents import Guardrails
from solward.resources.declare import fields_of
from solward.resources.wallets import NewWallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_cli.declared import request_options, sent
from solward_cli.named import wallet_argument
from solward_cli.render import Output, amount, plain, table, together
from solward_cli.service_call import ServiceCall, service_call, waiting
from solward_cli.shown_answers import answer_fields, answer_table
from solward_cli.wallet import money
from solward_cli.wallet.import_export import export, import_
from solward_cli.wallet.sweep_command import sweep

if TYPE_CHECKING:
    from solward.client import Balance, Pocket, Wallet


@click.group()
def wallet() -> None:
    """Wallets of the running service; a key of your own brought in, or taken along."""


_FIELDS = ("id", "name", "address", "tags", "created_at")

for command in (*money.COMMANDS, import_, export, sweep):
    wallet.add_command(command)


@wallet.command("list")
@click.option("--limit", type=click.IntRange(1, 500), help="A page of so many, newest first.")
@click.option("--before", metavar="ID", help="A page of wallets made before this one.")
@service_call
async def listing(call: ServiceCall, limit: int | None, before: str | None) -> Output:
    """List the wallets, oldest first."""
    found = await call.client.wallets.list(limit, before)
    return answer_table(found, "id", "name", "address", empty="There are no wallets yet.")


@wallet.command()
@request_options(NewWallet)
@service_call
async def create(call: ServiceCall, **values: Any) -> Output:
    """Create a wallet."""
    made = await call.client.wallets.create(**sent(NewWallet, values))
    return answer_fields(made, "id", "name", "address", ("Tags", values["tags"]), "created_at")


@wallet.command("show")
@wallet_argument
@service_call
async def show_one(call: ServiceCall, wallet: Wallet) -> Output:
    """Show a wallet and what it holds. JSON: the wallet alone."""
    balances = await call.client.wallets.balance(wallet.id)
    call.set_json(wallet.raw)
    return together(answer_fields(wallet, *_FIELDS), "", _render_balance(balances))


@wallet.command()
@wallet_argument
@click.option("--usd", is_flag=True, help="With what it is worth in dollars.")
@service_call
async def balance(call: ServiceCall, wallet: Wallet, usd: bool) -> Output:
    """Show what a wallet holds."""
    with waiting("Reading the ledger"):
        return _render_balance(await call.client.wallets.balance(wallet.id, usd=usd))


@wallet.command()
@wallet_argument
@service_call
async def limits(call: ServiceCall, wallet: Wallet) -> Output:
    """Show a wallet's limits, what is spent of each and what is left."""
    return limits_table(await call.client.wallets.limits(wallet.id))


@wallet.command()
@wallet_argument
@service_call
async def pockets(call: ServiceCall, wallet: Wallet) -> Output:
    """List a wallet's pockets that may hold something, and what is at risk."""

    def at_risk(pocket: Pocket) -> str:
        return ", ".join(f"{units} of {asset}" for asset, units in pocket.at_risk.items())

    found = (await call.client.wallets.pockets(wallet.id)).pockets
    cells = ("address", "position", ("at_risk", at_risk), "created_at")
    return answer_table(found, *cells, empty="No pocket holds anything.")


@wallet.command()
@wallet_argument
@service_call
async def stakes(call: ServiceCall, wallet: Wallet) -> Output:
    """List a wallet's stakes."""
    with waiting("Reading the ledger"):
        found = (await call.client.wallets.stakes(wallet.id)).stakes
    cells = ("address", "balance", ("state", lambda each: each.shown_state))
    return answer_table(found, *cells, empty="There are no stakes.")


@wallet.command()
@wallet_argument
@click.argument("tags", nargs=-1)
@service_call
async def tag(call: ServiceCall, wallet: Wallet, tags: tuple[str, ...]) -> Output:
    """Replace a wallet's tags; without any it has none."""
    return answer_fields(await call.client.wallets.tag(wallet.id, tags=tags), *_FIELDS)


def limits_table(report: Mapping[str, Any]) -> Output:
    """The limits of a wallet or an agent; a limit that is not set is a dash."""
    limits = {each.label: report[each.json] for each in fields_of(Guardrails)}
    limits |= {f"units of {mint}": row for mint, row in report["dailyTokens"].items()}
    rows = []
    for label, of in limits.items():
        row = {"spent": of.get("used"), **of}
        cells = [row.get(column) for column in ("limit", "spent", "reserved", "left")]
        rows.append((label, *("-" if each is None else amount(each) for each in cells)))
    parts: list[Output] = [table(("LIMIT OF", ">LIMIT", ">SPENT", ">RESERVED", ">LEFT"), rows, "")]
    for of in report.get("grants", ()):
        parts.append(plain(""))
        if not of["grants"]:
            kind = of["who"].partition(":")[0]
            parts.append(plain(f"{kind.capitalize()} {of['name']} may only read.", "bold"))
        for grant in of["grants"]:
            parts.append(plain(f"{grant['number']}. {grant['sentence']}", "bold"))
            parts += [plain(f"   {limit['sentence']}") for limit in grant["limits"]]
    can_leave = report.get("canLeave")
    if can_leave is not None:
        parts += [plain(""), plain("What can leave this wallet today", "bold")]
        names = {"*": "any other, in dollars", "COSTS": "SOL of fees and rent"}
        assets = [
            (
                names.get(asset, asset),
                "any amount" if each["most"] is None else each["most"],
                each.get("reason")
                or (f"and ${each['dollarsBeside']} beside" if "dollarsBeside" in each else ""),
            )
            for asset, each in can_leave["assets"].items()
        ]
        parts.append(table(("ASSET", ">AT MOST", "NOTE"), assets, ""))
        parts.append(plain(can_leave["sentence"]))
    if report.get("frozen"):
        parts += [plain(""), plain("Frozen: no new transactions.", "bold red")]
    return together(*parts)


def _render_balance(balance: Balance) -> Output:
    rows = [("SOL", amount(balance.sol), "")]
    for each in balance.tokens:
        symbol = "wSOL" if each.mint == WRAPPED_SOL_MINT else each.symbol or "-"
        rows.append((symbol, amount(each.amount), each.mint))
    if balance.usd is None:
        return table(("ASSET", ">AMOUNT", "MINT"), rows, "")
    prices = {asset: f"{usd:.2f}" for asset, usd in balance.usd.assets.items()}
    worth = [prices.get(mint or "SOL", "no price") for _, _, mint in rows]
    total = f"{balance.usd.total:.2f}"
    priced = [(*row[:2], usd, row[2]) for row, usd in zip(rows, worth, strict=True)]
    columns = ("ASSET", ">AMOUNT", ">USD", "MINT")
    return table(columns, [*priced, ("together", "", total, "")], "")
