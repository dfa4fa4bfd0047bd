"""What a change of an agent comes to: its fields before and after, and what it widens. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.client import Agent, Event
from solward_dashboard.pages.agents.data import interval_text
from solward_dashboard.wording import plain, value_text

# Field -> what people call it. A greater number of one of them is a wider bound, and so is none.
BOUNDS: Mapping[str, str] = {
    "maxSolPerTransaction": "Most SOL in a transaction",
    "maxTransactionsPerMinute": "Most transactions in a minute",
    "dailySpendingLimitSol": "Most SOL in 24 hours",
    "maxCostsSolPerDay": "Most SOL of fees and rent in 24 hours",
    "maxTokensPerCycle": "Most tokens in a cycle",
    "maxTokensPerDay": "Most tokens in a day",
    "maxUsdPerDay": "Most US dollars of the model in a day",
}
_UNBOUNDED = "no limit of its own"


@dataclass(frozen=True, slots=True)
class Change:
    """One field that is another one.

    Attributes:
        is_wider: it is a bound, and more is allowed than before.
    """

    name: str
    before: str
    after: str
    is_wider: bool = False

    @property
    def text(self) -> str:
        """`Most SOL in 24 hours: 1 becomes 5, which is wider`."""
        wider = ", which is wider" if self.is_wider else ""
        return f"{self.name}: {self.before} becomes {self.after}{wider}"


def changes(stored: Agent, values: Mapping[str, Any]) -> list[Change]:
    """What saving a form's values changes of an agent, but for its strategy.

    Args:
        values: as `fields.change_parameters` takes them.
    """
    found = [
        Change("Name", stored.name, values["name"]),
        Change("Provider", stored.llm_provider, values["provider"]),
        Change("Model", stored.llm_model, values["model"]),
        Change(
            "Cycle", interval_text(stored.loop_interval_ms), interval_text(values["milliseconds"])
        ),
    ]
    options = sorted({*stored.llm_options, *values["options"]})
    found += [
        Change(
            f"The model's {name}",
            _option(stored.llm_options.get(name)),
            _option(values["options"].get(name)),
        )
        for name in options
    ]
    # A number that the form leaves out stays as it is: nothing takes one of these away.
    given = {name: each for name, each in values["guardrails"].items() if each is not None}
    found += [_bound(name, stored.guardrails.get(name), each) for name, each in given.items()]
    budget = {*stored.llm_budget, *values["budget"]}
    found += [
        _bound(name, stored.llm_budget.get(name), values["budget"].get(name))
        for name in BOUNDS
        if name in budget
    ]
    return [each for each in found if each.before != each.after]


def diff(before: str, after: str) -> list[tuple[str, str]]:
    """The lines of two texts that differ, with three around them: `+`, `-`, ` ` or `…` for a gap,
    and the line; none of them where the texts are the same."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=3)
    found: list[tuple[str, str]] = []
    for line in list(lines)[2:]:
        if line.startswith("@@"):
            if found:
                found.append(("…", ""))
            continue
        found.append((line[0], line[1:]))
    return found


def earlier_strategies(entries: Sequence[Event], now: str) -> list[tuple[Event, str]]:
    """Strategies that an agent had before, the latest first, each with the entry that ended it.

    Args:
        entries: `agent:changed` of the audit log, the newest first.
    """
    found: list[tuple[Event, str]] = []
    known = {now}
    for each in entries:
        text = (each.data.get("before") or {}).get("strategy")
        if isinstance(text, str) and text not in known:
            known.add(text)
            found.append((each, text))
    return found


def _bound(name: str, before: Any, after: Any) -> Change:
    wider = before is not None and (after is None or Decimal(after) > Decimal(before))
    return Change(BOUNDS[name], _number(before), _number(after), wider)


def _number(value: Any) -> str:
    return _UNBOUNDED if value is None else plain(value)


def _option(value: Any) -> str:
    return "its own default" if value is None else value_text(value)
