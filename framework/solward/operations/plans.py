"""The register of plan functions: one per declared operation."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from solward.operations.declared import Operation
from solward.types.guardrail import Intent
from solward.vault.money.request import Draft, PocketDraft

# The plan of an airdrop is an intent and lamports, as the faucet makes and signs the transaction.
Planned: TypeAlias = Draft | PocketDraft | tuple[Intent, int]
Function = TypeVar("Function", bound=Callable[..., Planned | Awaitable[Planned]])

# The sources that a plan may read; it gets those that it has as parameters.
SOURCES = ("ledger", "tokens", "network", "venues", "limits", "pocket", "versions")


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan function, and the sources that it has as parameters."""

    function: Callable[..., Planned | Awaitable[Planned]]
    sources: tuple[str, ...]


PLANS: dict[str, Plan] = {}


def plans(operation: Operation) -> Callable[[Function], Function]:
    """Return a decorator that registers the plan of an operation.

    The plan is called with the wallet's address and, by keyword, its sources and the operation's
    fields from `read`. It raises `InvalidRequest` if the ledger's state makes the operation
    impossible, and `LedgerError` if the ledger does not answer.

    Raises:
        TypeError: its parameters are not the operation's fields.
    """

    def register(function: Function) -> Function:
        names = list(inspect.signature(function).parameters)[1:]
        sources = tuple(name for name in names if name in SOURCES)
        fields = {each.name for each in operation.fields}
        if set(names) - set(sources) != fields:
            raise TypeError(f"{function.__name__} must take exactly {sorted(fields)} and sources")
        PLANS[operation.name] = Plan(function, sources)
        return function

    return register
