"""Tables and texts for people, with control characters escaped. Tables are as wide as the terminal;
files and pipes get every value whole and every row on one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

from solward.resources.declare import declared_fields
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.support import jsontext
from solward.support.clean_text import JOINERS, UNSEEN
from solward.types.money import format_amount
from solward.types.record import amount_of, leaves_of, received_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from solward.client import Transaction
    from solward.resources.declare import Answer

# What a command prints. Rich is imported only where it prints, which saves services memory.
Output: TypeAlias = "RenderableType"

# Characters of an id that commands print, and accept in place of the whole id.
SHORT_ID = 8
# Columns of a file or a pipe: more than any value here has characters.
_UNWRAPPED = 1_000_000

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
    """Return `text` with unprintable characters escaped, such as `\\x1b`; `lines` keeps line ends.

    Names of wallets and tokens could otherwise move the cursor, or hide and reorder letters.
    """
    allowed = JOINERS + ("\n\t" if lines else "")
    seen = UNSEEN.sub(lambda found: _escape(found[0]), str(text))
    return "".join(
        each if each.isprintable() or each in allowed else _escape(each) for each in seen
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def plain(text: object, style: str = "", *, lines: bool = False) -> Text:
    """Return text in which rich reads no markup."""
    from rich.text import Text

    return Text(visible(text, lines=lines), style=style)


def _to_text(value: object, *, lines: bool = False) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else plain(value, lines=lines)


def status(text: str) -> Text:
    """Return a status in its colour."""
    return plain(text, _STYLES.get(text, ""))


def verdict(allowed: bool, held: bool) -> Text:
    """Return the verdict of a dry run in its colour."""
    if allowed:
        return plain("allowed", "green")
    return plain("held: a person would be asked" if held else "refused", "yellow")


def moment(at: datetime | None) -> str:
    """Format a time in UTC, `2026-11-21 15:45:46`."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def span(milliseconds: int) -> str:
    """Format a span of time in its largest whole unit, such as `1h`."""
    for unit, size in _SPANS.items():
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds} ms"


def amount(value: Any) -> str:
    """Format a number as people write it, and anything else as text."""
    exact = isinstance(value, Decimal | int) and not isinstance(value, bool)
    return format_amount(value) if exact else visible(value)


def is_terminal() -> bool:
    """Return whether standard output is a terminal, and not a file or another program's input."""
    return sys.stdout.isatty()


def short(text: object, size: int = SHORT_ID) -> str:
    """Shorten an id or an address, on a terminal only; the mint of SOL becomes `SOL`."""
    if text == WRAPPED_SOL_MINT:
        return "SOL"
    whole = visible(text)
    return whole if len(whole) <= size + 1 or not is_terminal() else f"{whole[:size]}…"


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], empty: str) -> Output:
    """Make a table of rows under a header, or of the text `empty` if there are none.

    Two spaces or more separate columns. Files and pipes get each row on one line, with `-` for an
    empty cell, so that every row has all columns.
    """
    from rich.table import Table

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
        cells = map(_to_text, row)
        grid.add_row(*(map(_join_lines, cells) if whole else cells))
    return grid if grid.row_count else plain(empty, "dim")


def _join_lines(cell: Text) -> Text:
    # Two spaces separate columns, so several spaces within a value become one.
    line = " ".join("; ".join(cell.plain.splitlines()).split())
    return plain(line or "-", str(cell.style))


def fields(values: Mapping[str, object]) -> Output:
    """Make a table of names and values, one a line; leave out values that are None."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None:
            grid.add_row(name, _to_text(value, lines=True))
    return grid


# A field's name; or a name or heading, with the value or a function of the answer.
Cell: TypeAlias = "str | tuple[str, Any]"


def answer_table(found: Sequence[Answer], *cells: Cell, empty: str) -> Output:
    """Make a table with a row for each answer and a column for each cell."""
    columns = [_column_heading(type(found[0]), _cell_name(cell)) for cell in cells if found]
    rows = [[_value(each, cell, in_table=True) for cell in cells] for each in found]
    return table(columns, rows, empty)


def answer_fields(found: Answer, *cells: Cell) -> Output:
    """Make a table with a line for each cell that has a value."""
    kind = type(found)
    values = {_label(kind, _cell_name(cell)): _value(found, cell, in_table=False) for cell in cells}
    return fields(values)


def _cell_name(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _label(kind: type[Answer], name: str) -> str:
    field = declared_fields(kind).get(name)
    if field is not None and field.title:
        return field.title
    if name not in _field_types(kind):
        return name
    if name == "id":
        return kind.__name__
    return name.removesuffix("_id").removesuffix("_at").replace("_", " ").capitalize()


def _column_heading(kind: type[Answer], name: str) -> str:
    types = _field_types(kind).get(name, ())
    heading = "ID" if name == "id" else _label(kind, name).upper()
    if datetime in types:
        return f"{heading} (UTC)"
    return f">{heading}" if int in types or Decimal in types else heading


def _field_types(kind: type[Answer]) -> Mapping[str, tuple[Any, ...]]:
    """Map the name of each field to its type and the type's parts."""
    return {name: (hint, *get_args(hint)) for name, hint in get_type_hints(kind).items()}


def _value(found: Answer, cell: Cell, *, in_table: bool) -> object:
    name = _cell_name(cell)
    value = getattr(found, name) if isinstance(cell, str) else cell[1]
    if callable(value):
        value = value(found)
    if value is None or value == ():
        field = declared_fields(type(found)).get(name)
        return (field.null if field else "") or ("" if in_table else None)
    return _render_value(name, value, in_table=in_table)


def _render_value(name: str, value: object, *, in_table: bool) -> object:
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value) if in_table else f"{moment(value)} UTC"
        case int() | Decimal():
            return amount(value)
        case tuple():
            return ", ".join(str(_render_value(name, each, in_table=in_table)) for each in value)
        case Mapping():
            return jsontext.dumps(dict(value))
        case str() if name in ("status", "state"):
            return status(value)
        case str() if in_table and (name == "id" or name.endswith(("_id", "_ids"))):
            return short(value)
    return value


def together(*parts: Output) -> Output:
    """Combine outputs, one below the other."""
    from rich.console import Group

    return Group(*parts)


def show(content: Output, *, err: bool = False) -> None:
    """Print to standard output, or to standard error."""
    from rich.console import Console
    from rich.text import Text

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
        # Rich pads lines to the width, which files and pipes do not need.
        out.write("\n".join(map(str.rstrip, printed.get().split("\n"))))
    out.flush()


def summary(record: Transaction, named: Callable[[object], str] = short) -> str:
    """Describe a transaction in a few words; `named` names addresses and mints."""

    def moved(count: Decimal | int, asset: str | None, to: str | None) -> str:
        receiver = "" if to is None else f" to {to}"
        return f"{amount(count)} {named(asset)}{receiver}"

    details = record.details
    if record.type == "other":
        leaving = leaves_of(details)
        return ", ".join(
            moved(each.amount, each.asset, each.to and named(each.to)) for each in leaving
        )
    if record.type in ("close_account", "revoke_authority"):
        return named(details.get("mint", "?"))
    leaves, arrives = amount_of(record.type, details), received_of(record.type, details)
    if leaves is None:
        return ""
    site = details.get("site")
    to = named(details["to"]) if "to" in details else site and visible(site)
    text = moved(leaves.amount, details.get("symbol", leaves.asset), to)
    if record.type != "swap":
        return text
    bought = named(details.get("outputToken", "?"))
    return f"{text} for {bought if arrives is None else f'{amount(arrives.amount)} {bought}'}"
