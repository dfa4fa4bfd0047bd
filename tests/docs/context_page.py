"""Writes the generated part of docs/reference/context.md from declarations and docstrings."""

import re
import textwrap
from collections.abc import Callable, Iterator
from inspect import getdoc, iscoroutinefunction, signature

from tests.support.repository import DOCS

from solward import Put, SkillContext, Store, context
from solward.operations.declared import OPERATIONS, SWAP
from solward.solana import balances, stakes, token_list
from solward.types import entries, ledger, payment, record, venue

PAGE = DOCS / "reference/context.md"
_OBJECTS = {"Members": SkillContext, "Operations": context.OperationMethods, "Store": Store,
            "Ledger": ledger.ReadLedger, "Tokens": token_list.TokenList}  # fmt: skip
TYPES = (ledger.Account, context.AgentView, balances.Balances, entries.Entry, token_list.KnownToken,
         payment.PaidAnswer, payment.PaymentView, Put, venue.Quote, stakes.Stake,
         balances.TokenBalance, ledger.TokenHolding, record.TransactionRecord, ledger.VoteAccount,
         context.WalletView)  # fmt: skip


def table(_page: str) -> Iterator[str]:
    """Yields the page's generated lines. The service alone calls `end` and `aclose`."""
    for title, kind in _OBJECTS.items():
        path = f"context.{title.lower()}" if hasattr(SkillContext, title.lower()) else "context"
        yield from (f"\n## {title}\n", *_text(kind))
        for name in (each for each in vars(kind) if not re.match("_|end$|aclose$", each)):
            yield from _member(f"{path}.{name}", getattr(kind, name))
            for field in OPERATIONS.get(name, SWAP).fields if title == "Operations" else ():
                bounds = f" Takes {field.takes}." if re.search("`|whole", field.takes) else ""
                yield f"- `{field.name}`: {field.text}{bounds}"
    yield from ("\n## Types", *(line for kind in TYPES for line in _member(kind.__name__, kind)))


def _member(name: str, value: Callable[..., object]) -> Iterator[str]:
    line = str(signature(getattr(value, "fget", value))).replace("Names", "tuple[str, ...]")
    line = re.sub(r"(: |-> )'(?:Annotated\[(.*?), (?:Items|Meta\(.*?\))\]|(.*?))'", r"\1\2\3", line)
    line = re.sub(r"\b(Name|Address)\b", "str", re.sub(r"\bself(, )?| = <.*?>| -> None$", "", line))
    line = re.sub("^.. ->", ":", line) if isinstance(value, property) else line
    line = "await " * iscoroutinefunction(value) + name + line
    if len(line) > 96:
        line = re.sub(r", (?=\w+: |\*)", ",\n    ", line.replace("(", "(\n    ", 1))
        line = re.sub(r"\)( -> .*)?$", r",\n)\1", line)
    yield from (f"\n### {name}\n\n```python\n{line}\n```\n", *_text(value))


def _text(value: object) -> Iterator[str]:
    text, *lists = re.split(r"\n+(Args|Raises|Attributes):\n", getdoc(value) or "")
    yield from (textwrap.fill(each, 98) + "\n" for each in text.split("\n\n"))
    for title, block in zip(lists[::2], lists[1::2], strict=True):
        for entry in re.sub(r"\n {8}", " ", block).splitlines():
            line = f"- {'Raises ' * (title == 'Raises')}`{entry.strip().replace(': ', '`: ', 1)}"
            yield textwrap.fill(line, 98, subsequent_indent="  ")
