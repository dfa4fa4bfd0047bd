"""`solward wallet ...`: wallets of the running service, a command for each declared operation, and
the commands of other modules.

Required fields of an operation are arguments, the others options; the running service has the
defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from solward.operations.declared import OPERATIONS, Operation
from solward.resources import wallets
from solward.resources.agents import Guardrails
from solward.resources.declare import fields_of
from solward.resources.fields import Recipient
from solward.resources.wallets import ceilings_in_force
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import known_decimals, token_list
from solward.types.money import SOL_DECIMALS, from_units
from solward_cli.declared import argument as shown_argument
from solward_cli.declared import asks, lists, option_name, options, request_options
from solward_cli.entrypoint import yes_option
from solward_cli.keystore import export, import_
from solward_cli.named import argument
from solward_cli.render import (
    Output,
    amount,
    answer_fields,
    answer_table,
    plain,
    table,
    together,
    visible,
)
from solward_cli.service_call import (
    EXIT_FAILED,
    EXIT_HELD,
    ServiceCall,
    confirmed,
    service_call,
    waiting,
)
from solward_cli.sweep import sweep
from solward_cli.tx import render_record, render_trial

if TYPE_CHECKING:
    from solward.client import Balance, Trial, Wallet
    from solward.types.address_book import NamedAddress


@click.group()
def wallet() -> None:
    """Create, fund, spend from, import and export wallets."""


_FIELDS = ("id", "name", "address", "tags", "created_at")


@wallet.command("show")
@argument("wallet")
@service_call
async def show_one(call: ServiceCall, wallet: Wallet) -> Output:
    """Show a wallet and its balance.

    --json prints the wallet without its balance.
    """
    balances = await call.client.wallets.balance(wallet.id)
    call.set_json(wallet.raw)
    return together(answer_fields(wallet, *_FIELDS), "", _render_balance(balances))


@wallet.command()
@argument("wallet")
@click.argument("tags", nargs=-1)
@service_call
async def tag(call: ServiceCall, wallet: Wallet, tags: tuple[str, ...]) -> Output:
    """Replace a wallet's tags, or remove them all."""
    return answer_fields(await call.client.wallets.tag(wallet.id, tags=tags), *_FIELDS)


_LIFTED: Final = {option_name(each)[2:]: each.json for each in fields_of(wallets.Ceilings)}


@wallet.command()
@argument("wallet")
@request_options(wallets.Ceilings)
@click.option(
    "--lift",
    multiple=True,
    type=click.Choice(_LIFTED),
    help="Lift a ceiling; may be given more than once.",
)
@service_call
async def ceilings(
    call: ServiceCall, wallet: Wallet, lift: tuple[str, ...], **values: Any
) -> Output:
    """Set or lift ceilings of one wallet, within the service's limits, and show its limits.

    They bind everybody who uses the wallet, also the admin.
    """
    given = {each.json: values[each.name] for each in fields_of(wallets.Ceilings)}
    fields: dict[str, Any] = {name: most for name, most in given.items() if most is not None}
    fields |= {_LIFTED[each]: None for each in lift}
    if not fields:
        raise click.UsageError("Give at least one ceiling to set or lift.")
    return limits_table(await call.ask(wallets.SET_CEILINGS, wallet.id, fields=fields))


def limits_table(report: Mapping[str, Any]) -> Output:
    """Make a table of a wallet's or an agent's limits; a limit that is not set is a dash."""
    limits = {each.label: report[each.json] for each in fields_of(Guardrails)}
    limits |= {f"units of {mint}": row for mint, row in report["dailyTokens"].items()}
    rows = []
    for label, of in limits.items():
        row = {"spent": of.get("used"), **of}
        cells = [row.get(column) for column in ("limit", "spent", "reserved", "left")]
        rows.append((label, *("-" if each is None else amount(each) for each in cells)))
    parts: list[Output] = [table(("LIMIT OF", ">LIMIT", ">SPENT", ">RESERVED", ">LEFT"), rows, "")]
    if own := ceilings_in_force(report):
        parts.append(plain(f"Ceilings of this wallet: {own}"))
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
                or (f"plus ${each['dollarsBeside']} worth" if "dollarsBeside" in each else ""),
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
    return table(columns, [*priced, ("total", "", total, "")], "")


def _pockets(found: wallets.Pockets) -> Output:
    def at_risk(pocket: wallets.Pocket) -> str:
        return ", ".join(f"{units} of {asset}" for asset, units in pocket.at_risk.items())

    cells = ("address", "position", ("at_risk", at_risk), "created_at")
    return answer_table(found.pockets, *cells, empty="No pocket holds anything.")


def _stakes(found: wallets.Stakes) -> Output:
    cells = ("address", "balance", ("state", lambda each: each.shown_state))
    return answer_table(found.stakes, *cells, empty="There are no stakes.")


async def _render_created(call: ServiceCall, made: wallets.CreatedWallet) -> Output:
    return answer_fields(made, "id", "name", "address", ("Tags", call.given["tags"]), "created_at")


_dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Show the outcome and send nothing; exit with 1 if refused, 3 if held.",
)
_key_option = click.option(
    "--idempotency-key", "key", help="Pay at most once under this key, even if repeated."
)


def money_command(declared: Operation) -> click.Command:
    """Make the command of an operation: WALLET, its fields, `--dry-run`, `--idempotency-key`."""

    async def command(
        call: ServiceCall, wallet: Wallet, key: str | None, dry_run: bool, **values: Any
    ) -> Output:
        paid = None
        agreed = values.pop("yes", False) or dry_run
        for field in declared.fields:
            if isinstance(field, Recipient):
                paid = values[field.name]
                values[field.name] = paid.address
        if declared.question:
            for field in declared.fields:
                # The request names what was confirmed, since the service's default may differ.
                if values[field.name] is None:
                    values[field.name] = field.default
            confirmed(visible(declared.question.format(wallet=wallet.name, **values)), agreed)
        wallets = call.client.wallets
        method = getattr(wallets.dry_run if dry_run else wallets, declared.name)
        with waiting(declared.progress):
            if declared.repeats and not dry_run:
                from solward.client.wallets import until_done

                every = await until_done(method, wallet.id, idempotency_key=key, **values)
                call.set_json({"transactions": [each.raw for each in every]})
                return together(*map(render_record, every))
            made = await method(wallet.id, idempotency_key=key, **values)
        return await _render_trial(call, made, wallet.id, paid) if dry_run else render_record(made)

    # The help names fields as the usage line does.
    shown = {field.name: shown_argument(field) for field in declared.fields}
    does = re.sub(r"`(\w+)`", lambda found: shown.get(found[1], found[1]), declared.does)
    if any(isinstance(field, Recipient) for field in declared.fields):
        does += " TO may be a contact's or a wallet's name."
    command.__doc__ = does
    decorated: Any = service_call(command)
    for option in (_dry_run_option, _key_option):
        decorated = option(decorated)
    if declared.question:
        decorated = yes_option(decorated)
    decorated = options(declared.fields)(decorated)
    return click.command(declared.path)(argument("wallet")(decorated))


async def _render_trial(
    call: ServiceCall, trial: Trial, wallet_id: str, paid: NamedAddress | None
) -> Output:
    call.set_json(trial.raw)
    if not trial.allowed:
        call.exit_code = EXIT_HELD if trial.held else EXIT_FAILED
    units = await _unit_formatter(call, wallet_id)
    to = None
    if paid is not None:
        to = paid.address if paid.name == paid.address else f"{paid.name} ({paid.address})"
    return render_trial(trial, to, units)


async def _unit_formatter(call: ServiceCall, wallet_id: str) -> Callable[[str, int], str]:
    """Return a function that formats smallest units of a mint, as whole tokens if the network's
    list or the wallet's balance contains the mint's decimals."""
    tokens = token_list((await call.client.health()).network)
    balance = await call.client.wallets.balance(wallet_id, empty=True)
    held = {each.mint: each.decimals for each in balance.tokens}

    def written(mint: str, count: int) -> str:
        if mint == WRAPPED_SOL_MINT:
            return f"{amount(from_units(count, SOL_DECIMALS))} SOL"
        listed = known_decimals(mint)
        decimals = held.get(mint) if listed is None else listed
        symbol = tokens.symbol_of(mint)
        token = visible(mint if symbol is None else f"{symbol} ({mint})")
        if decimals is None:
            return f"{count} smallest units of {token}"
        return f"{amount(from_units(count, decimals))} of {token}"

    return written


COMMANDS = tuple(money_command(declared) for declared in OPERATIONS.values())
for _command in (*COMMANDS, import_, export, sweep):
    wallet.add_command(_command)
lists(
    wallet,
    wallets.LIST_WALLETS,
    "List wallets, oldest first; --limit and --before list a page, newest first.",
    *("id", "name", "address"),
    empty="There are no wallets yet.",
    name="list",
    created_by=True,
)
asks(wallet, wallets.CREATE_WALLET, "Create a wallet.", _render_created)
asks(
    wallet,
    wallets.GET_BALANCE,
    "Show a wallet's balance.",
    _render_balance,
    progress="Reading the ledger",
    without=("empty",),
)
asks(
    wallet,
    wallets.GET_LIMITS,
    "Show a wallet's limits, and how much of each is spent and left.",
    limits_table,
)
asks(
    wallet,
    wallets.GET_POCKETS,
    "List a wallet's pockets that may hold funds, and the amounts at risk.",
    _pockets,
)
asks(wallet, wallets.LIST_STAKES, "List a wallet's stakes.", _stakes, progress="Reading the ledger")
