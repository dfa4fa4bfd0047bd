"""Text for people: tables as wide as the terminal, control characters of names and texts written
out. What is no terminal gets every value whole and every row on one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.support.clean_text import JOINERS, UNSEEN
from solward.types.money import format_amount
from solward.types.record import LeavingAmount, leaves_of

if TYPE_CHECKING:
    from solward.client import Transaction

# Characters of an id that commands print, and accept in place of the whole id.
SHORT_ID = 8
# Columns of what has no width: more than any value here has characters.
_UNWRAPPED = 1_000_000

# What limits are of, as the service calls them.
LIMITS = {
    "maxSolPerTransaction": "SOL a transaction",
    "maxTransactionsPerMinute": "transactions a minute",
    "dailySpendingLimitSol": "SOL in 24 hours",
    "maxCostsSolPerDay": "SOL of fees and rent in 24 hours",
}
_SPANS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}

_STYLES = {
    "confirmed": "green",
    "running": "green",
    "active": "green",
    "executed": "green",
    "approved": "cyan",
    "held": "cyan",
    "pending": "cyan",
    "activating": "cyan",
    "deactivating": "cyan",
    "paused": "cyan",
    "blocked": "yellow",
    "denied": "yellow",
    "expired": "yellow",
    "refused": "yellow",
    "failed": "red",
    "error": "red",
}


def visible(text: object, *, lines: bool = False) -> str:
    """`text` with unprintable characters escaped, such as `\\x1b`; with `lines`, line ends stay.

    Names of wallets and tokens could otherwise move the cursor, or hide and reorder letters.
    """
    allowed = JOINERS + ("\n\t" if lines else "")
    seen = UNSEEN.sub(lambda found: _escaped(found[0]), str(text))
    return "".join(
        each if each.isprintable() or each in allowed else _escaped(each) for each in seen
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def plain(text: object, style: str = "", *, lines: bool = False) -> Text:
    """Text without rich's markup."""
    return Text(visible(text, lines=lines), style=style)


def status(text: str) -> Text:
    """A status in its colour."""
    return plain(text, _STYLES.get(text, ""))


def verdict(allowed: bool, held: bool) -> Text:
    """What a dry run comes to."""
    if allowed:
        return plain("allowed", "green")
    return plain("held: a person would be asked" if held else "refused", "yellow")


def moment(at: datetime | None) -> str:
    """A time in UTC, `2026-11-21 15:45:46`."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def span(milliseconds: int) -> str:
    """A span of time in its largest whole unit, such as `1h`."""
    for unit, size in _SPANS.items():
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds} ms"


def amount(value: Any) -> str:
    """A number as people write it; anything else as its text."""
    exact = isinstance(value, Decimal | int) and not isinstance(value, bool)
    return format_amount(value) if exact else visible(value)


def is_terminal() -> bool:
    """Whether somebody reads standard output; else it is a file, or another program's input."""
    return sys.stdout.isatty()


def short(text: object, size: int = SHORT_ID) -> str:
    """The beginning of an id or an address on a terminal, elsewhere all of it; SOL for its mint."""
    if text == WRAPPED_SOL_MINT:
        return "SOL"
    whole = visible(text)
    return whole if len(whole) <= size + 1 or not is_terminal() else f"{whole[:size]}…"


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], empty: str) -> RenderableType:
    """Rows under a header; `empty` where there are none.

    Two spaces or more are between columns. What is no terminal gets each row on one line, with `-`
    for an empty cell, so that every row has all columns.
    """
    whole = not is_terminal()
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        right = name.startswith(">")
        grid.add_column(
            name.removeprefix(">"),
            justify="right" if right else "left",
            overflow="fold",
        )
    for row in rows:
        cells = (cell if isinstance(cell, Text) else plain(cell) for cell in row)
        grid.add_row(*(map(_on_one_line, cells) if whole else cells))
    return grid if grid.row_count else plain(empty, "dim")


def _on_one_line(cell: Text) -> Text:
    # Two spaces are between columns, so a name with more of them has one here.
    line = " ".join("; ".join(cell.plain.splitlines()).split())
    return plain(line or "-", str(cell.style))


def fields(values: Mapping[str, object]) -> RenderableType:
    """Names and values, one a line; None is left out."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None:
            grid.add_row(name, value if isinstance(value, Text) else plain(value, lines=True))
    return grid


def together(*parts: RenderableType) -> RenderableType:
    """Parts one below the other."""
    return Group(*parts)


def show(content: RenderableType, *, err: bool = False) -> None:
    """Print to standard output, or to standard error."""
    out = sys.stderr if err else sys.stdout
    width = None if out.isatty() else _UNWRAPPED
    console = Console(highlight=False, emoji=False, markup=False, stderr=err, width=width)
    # Text is not wrapped, so that ids in it can be copied.
    unwrapped = isinstance(content, Text)
    if width is None:
        console.print(content, soft_wrap=unwrapped)
    else:
        with console.capture() as printed:
            console.print(content, soft_wrap=unwrapped)
        # Rich pads lines to the width; files and pipes get none of that.
        out.write("\n".join(map(str.rstrip, printed.get().split("\n"))))
    out.flush()


def summary(record: Transaction, named: Callable[[object], str] = short) -> str:
    """What a transaction does, in a few words; `named` names addresses and mints."""
    details = record.details
    sol = f"{amount(details.get('amount', '?'))} SOL"
    match record.type:
        case "transfer":
            return f"{sol} to {named(details.get('to', '?'))}"
        case "token_transfer":
            return f"{_tokens(details, named)} to {named(details.get('to', '?'))}"
        case "swap":
            sold = (
                f"{amount(details.get('inputAmount', '?'))} {named(details.get('inputToken', '?'))}"
            )
            bought = details.get("outputAmount")
            to = named(details.get("outputToken", "?"))
            return f"{sold} for {to if bought is None else f'{amount(bought)} {to}'}"
        case "airdrop" | "stake" | "unstake" | "withdraw_stake" | "wrap_sol" | "unwrap_sol":
            return sol
        case "payment":
            paid = f"{amount(details.get('amount', '?'))} {named(details.get('asset', '?'))}"
            return f"{paid} to {visible(details.get('site', '?'))}"
        case "mint_supply" | "burn":
            return _tokens(details, named)
        case "token_launch":
            return f"{amount(details.get('supply', '?'))} {visible(details.get('symbol', '?'))}"
        case "reclaim_rent":
            return f"{amount(details.get('reclaimed', '?'))} SOL"
        case "close_account" | "revoke_authority":
            return named(details.get("mint", "?"))
        case "other":
            return ", ".join(map(_leaving(named), leaves_of(details)))
        case _:
            return ""


def _leaving(named: Callable[[object], str]) -> Callable[[LeavingAmount], str]:
    def text(each: LeavingAmount) -> str:
        to = "" if each.to is None else f" to {named(each.to)}"
        asset = each.asset if each.asset == "SOL" else f"of {named(each.asset)}"
        return f"{amount(each.amount)} {asset}{to}"

    return text


def _tokens(details: Mapping[str, Any], named: Callable[[object], str]) -> str:
    return f"{amount(details.get('amount', '?'))} of {named(details.get('mint', '?'))}"
