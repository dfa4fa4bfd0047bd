"""What a row of the table is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.operations.matrix.stand import Stand

Params = Mapping[str, Any]
Ready = Callable[[Stand], Awaitable[Params]]


@dataclass(frozen=True, slots=True)
class Route:
    """The contract's own endpoint, under `/wallets/:id`."""

    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Spends:
    """What a SPEND skill leaves.

    Attributes:
        type: of its records.
        shows: asserts what is on the ledger; returns the details the record must have.
    """

    type: str
    shows: Callable[[Stand, Params, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Reads:
    """What a READ skill answers.

    Attributes:
        tells: what the skill's text must hold.
        answers: what the route's JSON must be; None without a route.
    """

    tells: Callable[[Stand, Params], Awaitable[list[str]]]
    answers: Callable[[Stand], Awaitable[Mapping[str, Any]]] | None = None


@dataclass(frozen=True, slots=True)
class Bad:
    """Parameters that are refused, and the field (or thing) the refusal must name."""

    params: Params
    names: str


@dataclass(frozen=True, slots=True)
class Block:
    """What makes a rule refuse."""

    rule: str
    ready: Ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One skill.

    Attributes:
        route: or why there is none.
        ready: prepares the wallet; the parameters that succeed then.
        block: or why no guardrail can refuse it.
        away: the ledger's failure must be told; or why it works without one.
    """

    route: Route | str
    ready: Ready
    does: Spends | Reads
    bad: Bad
    block: Block | str
    away: bool | str = True


def given(**params: Any) -> Ready:
    """Nothing to prepare."""

    async def ready(_stand: Stand) -> Params:
        return params

    return ready


def crowded(ready: Ready) -> Block:
    """The rate limit refuses: the same as in success, but the minute is used up before."""

    async def full(stand: Stand) -> Params:
        params = await ready(stand)
        await stand.fill_the_minute()
        return params

    return Block("rate_limit", full)
