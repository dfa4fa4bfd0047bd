"""How an instruction is laid out: the names of its accounts and of its data's fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solward_localnet.parsed.reader import Parsed, Reader, Unparsable


@dataclass(frozen=True, slots=True)
class Layout:
    """One instruction: its type in `jsonParsed`, its accounts in order, its fields in order."""

    type: str
    accounts: tuple[str, ...]
    fields: tuple[tuple[str, Callable[[Reader], Any]], ...] = ()


def name_accounts(names: Sequence[str], accounts: Sequence[str]) -> Parsed:
    """The first accounts under their names.

    Raises:
        Unparsable: there are fewer accounts than names.
    """
    if len(accounts) < len(names):
        raise Unparsable(f"{len(names)} accounts expected, {len(accounts)} given")
    return dict(zip(names, accounts, strict=False))


def apply(
    layouts: Mapping[int, Layout], kind: int, accounts: Sequence[str], read: Reader
) -> Parsed:
    """`{"type", "info"}` of instruction number `kind`, whose fields `read` is about to read.

    Raises:
        Unparsable: no such instruction, missing accounts, or data too short.
    """
    try:
        layout = layouts[kind]
    except KeyError:
        raise Unparsable(f"no parser for instruction {kind}") from None
    info = name_accounts(layout.accounts, accounts)
    info |= {name: field(read) for name, field in layout.fields}
    return {"type": layout.type, "info": info}
