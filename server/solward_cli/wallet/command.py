"""`solward wallet ...`: wallets of the running service, and the commands of other modules here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from solward.resources import wallets
from solward.resources.agents import Guardrails
from solward.resources.declare import fields_of
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_cli.declared import asks, lists
from solward_cli.named import argument
from solward_cli.render import Output, amount, answer_fields, answer_table, plain, table, together
from solward_cli.service_call import ServiceCall, service_call
from solward_cli.wallet import money
from solward_cli.wallet.import_export import export, import_
from solward_cli.wallet.sweep import sweep

if TYPE_CHECKING:
    from solward.client import Balance, Wallet


@click.group()
def wallet() -> None:
    """Wallets of the running service; a key of your own brought in, or taken along."""


_FIELDS = ("id", "name", "address", "tags", "created_at")

for command in (*money.COMMANDS, import_, export, sweep):
    wallet.add_command(command)


@wallet.command("show")
@argument("wallet")
@service_call
async def show_one(call: ServiceCall, wallet: Wallet) -> Output:
    """Show a wallet and what it holds. JSON: the wallet alone."""
    balances = await call.client.wallets.balance(wallet.id)
    call.set_json(wallet.raw)
    return together(answer_fields(wallet, *_FIELDS), "", _render_balance(balances))


@wallet.command()
@argument("wallet")
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


def _pockets(found: wallets.Pockets) -> Output:
    def at_risk(pocket: wallets.Pocket) -> str:
        return ", ".join(f"{units} of {asset}" for asset, units in pocket.at_risk.items())

    cells = ("address", "position", ("at_risk", at_risk), "created_at")
    return answer_table(found.pockets, *cells, empty="No pocket holds anything.")


def _stakes(found: wallets.Stakes) -> Output:
    cells = ("address", "balance", ("state", lambda each: each.shown_state))
    return answer_table(found.stakes, *cells, empty="There are no stakes.")


async def _created(call: ServiceCall, made: wallets.CreatedWallet) -> Output:
    return answer_fields(made, "id", "name", "address", ("Tags", call.given["tags"]), "created_at")


lists(
    wallet,
    wallets.LIST_WALLETS,
    "List the wallets, oldest first; with --limit or --before a page, newest first.",
    *("id", "name", "address"),
    empty="There are no wallets yet.",
    name="list",
    created_by=True,
)
asks(wallet, wallets.CREATE_WALLET, "Create a wallet.", _created)
asks(
    wallet,
    wallets.GET_BALANCE,
    "Show what a wallet holds.",
    _render_balance,
    progress="Reading the ledger",
    without=("empty",),
)
asks(
    wallet,
    wallets.GET_LIMITS,
    "Show a wallet's limits, what is spent of each and what is left.",
    limits_table,
)
asks(
    wallet,
    wallets.GET_POCKETS,
    "List a wallet's pockets that may hold something, and what is at risk.",
    _pockets,
)
asks(wallet, wallets.LIST_STAKES, "List a wallet's stakes.", _stakes, progress="Reading the ledger")
