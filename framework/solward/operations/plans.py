"""The register of plan functions: one per declared operation."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from solward.operations.declared import Operation
from solward.types.guardrail import Intent
from solward.vault.money.request import Draft, PocketDraft

# A faucet signs an airdrop itself, so there is nothing to draft: the intent and its lamports.
Planned: TypeAlias = Draft | PocketDraft | tuple[Intent, int]
Function = TypeVar("Function", bound=Callable[..., Planned | Awaitable[Planned]])

# What a plan may read; it gets those that its parameters name.
SOURCES = ("ledger", "tokens", "network", "venues", "limits", "pocket", "versions")


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan function and the sources among its parameters."""

    function: Callable[..., Planned | Awaitable[Planned]]
    sources: tuple[str, ...]


PLANS: dict[str, Plan] = {}


def plans(operation: Operation) -> Callable[[Function], Function]:
    """Register the plan of an operation.

    It is called with the wallet's address, the sources it names and the operation's fields by
    keyword, each as the field's `read` gives it. It raises `InvalidRequest` for what the ledger
    shows to be impossible, and `LedgerError` where that does not answer.

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
