"""Transactions and dry runs as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from solward.types.money import format_sol
from solward_cli.render import (
    amount,
    fields,
    is_terminal,
    moment,
    plain,
    short,
    status,
    summary,
    table,
    verdict,
    visible,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import NetworkFee, Transaction, Trial, Wallet
    from solward.solana.token_list import TokenList


def render_records(
    records: Sequence[Transaction], wallets: Iterable[Wallet], tokens: TokenList
) -> RenderableType:
    """A table of records; a blocked or failed one has its error.

    Args:
        wallets: named by their names, as the sender and where they are paid.
        tokens: named by their symbols; others could have chosen one that is known.
    """
    names = {each.id: each.name for each in wallets}
    addresses = {each.address: each.name for each in wallets}

    def named(text: object) -> str:
        found = addresses.get(str(text))
        if found is not None:
            # Several wallets may have one name: what is no terminal gets the address too.
            return visible(found if is_terminal() else f"{found} ({text})")
        return tokens.symbol_of(str(text)) or short(text)

    rows = [
        (
            moment(each.timestamp),
            short(each.id),
            names.get(each.wallet_id, short(each.wallet_id)),
            plain(each.type),
            status(each.status),
            _summary(each, named),
        )
        for each in records
    ]
    columns = ("TIME (UTC)", "ID", "WALLET", "TYPE", "STATUS", "WHAT")
    return table(columns, rows, "There are no transactions.")


def render_line(record: Transaction) -> RenderableType:
    """A record on a line of its own."""
    line = plain(f"{moment(record.timestamp)}  {short(record.id)}  {record.type} ")
    return line.append_text(status(record.status)).append(" ").append_text(_summary(record))


def render_record(record: Transaction) -> RenderableType:
    """All fields of a record."""
    return fields(
        {
            "Transaction": record.id,
            "Type": record.type,
            # The details below have no units.
            "What": summary(record, visible) or None,
            "Status": status(record.status),
            "Why": record.error,
            "Time": f"{moment(record.timestamp)} UTC",
            "Wallet": record.wallet_id,
            "Agent": record.agent_id,
            "By": record.principal,
            "Signature": record.signature,
            "Network fee": None if record.fee is None else network_fee_text(record.fee),
        }
        | _details(record.details)
        | {"Guardrails": ", ".join(record.guardrails_applied)}
    )


def network_fee_text(fee: NetworkFee) -> str:
    """A fee in SOL, with the compute units and their price where they are known."""
    parts = [f"{format_sol(fee.lamports)} SOL"]
    if fee.compute_units is not None:
        of = "" if fee.compute_unit_limit is None else f" of {fee.compute_unit_limit:,}"
        parts.append(f"{fee.compute_units:,}{of} compute units")
    if fee.priority_fee_micro_lamports:
        parts.append(f"{fee.priority_fee_micro_lamports:,} micro-lamports a unit")
    return ", ".join(parts)


def render_trial(
    trial: Trial, paid: str | None, units: Callable[[str, int], str]
) -> RenderableType:
    """The verdict and effects of a dry run.

    Args:
        paid: to whom it was to go, its address whole.
        units: writes an amount of a mint's smallest unit.
    """
    return fields(
        {
            "Dry run": verdict(trial.allowed, trial.held),
            "Rule": trial.rule,
            "Why": trial.reason,
            "To": paid,
        }
        | ({} if trial.effects is None else _effects(trial.effects, units))
        | {"Guardrails": ", ".join(trial.guardrails_applied)}
    )


def _effects(effects: Mapping[str, Any], units: Callable[[str, int], str]) -> dict[str, object]:
    leaves = [f"{amount(effects['solOut'])} SOL"] if effects["solOut"] else []
    leaves += [units(mint, int(count)) for mint, count in effects["tokensOut"].items()]
    opened = effects["accountsCreated"]
    accounts = "1 new account" if opened == 1 else f"{opened} new accounts"
    passed = [
        f"{visible(each['kind'])} of {each['account']} to {each['to'] or 'nobody'}"
        for each in effects["authorityChanges"]
    ]
    closed = [f"{one}, its SOL to {whom}" for one, whom in effects["closedAccounts"].items()]
    return {
        "Leaves": "\n".join(leaves) or "nothing but costs",
        "Arrives": "\n".join(units(mint, int(n)) for mint, n in effects["tokensIn"].items())
        or None,
        "Fee": f"{amount(effects['fee'])} SOL",
        "Rent": f"{amount(effects['rent'])} SOL for {accounts}" if effects["rent"] else None,
        "Passes": "\n".join(passed) or None,
        "Closes": "\n".join(closed) or None,
    }


def _summary(record: Transaction, named: Callable[[object], str] = short) -> Text:
    text = plain(summary(record, named))
    if record.error is not None:
        text.append(f"{' - ' if text.plain else ''}{visible(record.error)}", style="dim")
    return text


def _details(values: Mapping[str, Any]) -> dict[str, object]:
    return {f"  {visible(name)}": _value(value) for name, value in values.items()}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{visible(name)} {_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return amount(value)
