"""Transactions and dry runs as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from solward_cli.render import amount, fields, moment, plain, short, status, summary, table, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Transaction, Trial


def records_shown(records: Sequence[Transaction]) -> RenderableType:
    """A list, one line each, and why it is blocked or failed below."""
    rows = [
        (
            moment(each.timestamp),
            short(each.id),
            plain(each.type),
            status(each.status),
            _what(each),
        )
        for each in records
    ]
    columns = ("TIME (UTC)", "ID", "TYPE", "STATUS", "WHAT")
    return table(columns, rows, "There are no transactions.")


def record_line(made: Transaction) -> RenderableType:
    """A record on a line of its own."""
    line = plain(f"{moment(made.timestamp)}  {short(made.id)}  {made.type} ")
    return line.append_text(status(made.status)).append(" ").append_text(_what(made))


def record_shown(made: Transaction) -> RenderableType:
    """All of one record."""
    return fields(
        {
            "Transaction": made.id,
            "Type": made.type,
            "Status": status(made.status),
            "Why": made.error,
            "Time": f"{moment(made.timestamp)} UTC",
            "Wallet": made.wallet_id,
            "Agent": made.agent_id,
            "Signature": made.signature,
        }
        | _named(made.details)
        | {"Guardrails": ", ".join(made.guardrails_applied)}
    )


def trial_shown(trial: Trial) -> RenderableType:
    """What would become of it."""
    verdict = plain("allowed", "green") if trial.allowed else plain("refused", "yellow")
    effects = trial.effects or {}
    return fields(
        {"Dry run": verdict, "Rule": trial.rule, "Why": trial.reason}
        | _named({name: value for name, value in effects.items() if value})
        | {"Guardrails": ", ".join(trial.guardrails_applied)}
    )


def _what(made: Transaction) -> Text:
    what = plain(summary(made))
    if made.error is not None:
        what.append(f"{' - ' if what.plain else ''}{visible(made.error)}", style="dim")
    return what


def _named(values: Mapping[str, Any]) -> dict[str, object]:
    return {f"  {visible(name)}": _value(value) for name, value in values.items()}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{visible(name)} {_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return amount(value)
