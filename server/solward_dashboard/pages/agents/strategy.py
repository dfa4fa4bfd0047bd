"""The editor of a strategy, and what a change of an agent comes to: its fields before and after,
the lines of its strategy that change, and what is widened."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Agent, AuditEntry
from solward.resources.agents import Guardrails, LlmBudget, NewAgent
from solward.resources.declare import declared_fields, fields_of
from solward.resources.fields import Field
from solward_dashboard import parts as sw
from solward_dashboard.dialogs import result_of, titled
from solward_dashboard.wording import interval_text, plain, value_text

LONGEST = declared_fields(NewAgent)["strategy"].schema()["maxLength"]
# The browser asks before the page is left; `null` takes the question away.
_GUARD = "window.onbeforeunload = {}"
_ASKS = "event => { event.preventDefault(); return '' }"
_SIGNS = {"+": "added", "-": "removed", " ": "unchanged", "…": "left out"}


class StrategyEditor:
    """A strategy, in a field that keeps its line breaks; counts its characters.

    Args:
        stored: what is stored.
    """

    def __init__(self, stored: str = "") -> None:
        self._stored = stored
        with sw.stack("sw-form"):
            self._area = ui.textarea("Strategy", value=stored, validation=_error_of)
            sw.marked(self._area, "strategy").classes("sw-field sw-strategy")
            # A line break is part of the strategy, so Enter never sends the form.
            self._area.props("outlined dense autogrow hide-bottom-space spellcheck=true")
            with sw.row():
                count = sw.marked(sw.dim("", "sw-number"), "strategy-count")
                count.bind_text_from(
                    self._area, "value", lambda _: f"{len(self.text):,} of {LONGEST:,} characters"
                )
                unsaved = sw.dim("Not saved")
                unsaved.bind_visibility_from(self._area, "value", lambda _: self.is_changed)
        self._area.without_auto_validation().on_value_change(self._changed)

    @property
    def text(self) -> str:
        """What stands in the field."""
        return str(self._area.value or "")

    @property
    def is_changed(self) -> bool:
        """Whether it is another text than what is stored."""
        return self.text != self._stored

    def put(self, text: str) -> None:
        """Replace the text, as typing does."""
        self._area.set_value(text)

    def validate(self) -> bool:
        """Whether the strategy fits; the field shows why it does not."""
        return self._area.validate()

    def release(self) -> None:
        """Let the page be left without a question: it was saved, or given up."""
        ui.run_javascript(_GUARD.format("null"))

    def _changed(self) -> None:
        self._area.error = None
        ui.run_javascript(_GUARD.format(_ASKS if self.is_changed else "null"))


def _error_of(text: str | None) -> str | None:
    if not (text or "").strip():
        return "is required"
    more = len(text or "") - LONGEST
    return f"has {more:,} characters too many" if more > 0 else None


async def reviewed(
    stored: Agent, found: Sequence[Change], strategy: str, *, is_other: bool
) -> bool:
    """Whether the user saves these changes, which are shown.

    Args:
        stored: the agent as it is now.
        strategy: as it is to be.
        is_other: somebody else changed the strategy since it was opened here.
    """
    wider = sum(each.is_wider for each in found)
    with titled(f"Save the changes of {stored.name}?", wide=True) as dialog:
        if wider:
            bounds = "a bound" if wider == 1 else f"{wider} bounds"
            said = f"This widens {bounds}: more can leave, or be spent, than before."
            sw.text(said, "sw-bad sw-text").props("role=alert")
        with sw.stack("sw-list"):
            for each in found:
                sw.text(each.text, "sw-bad sw-text" if each.is_wider else "sw-text")
        if stored.strategy != strategy:
            sw.heading("Strategy", 3)
            if is_other:
                sw.text(
                    "It was changed elsewhere since you opened it. Below is what saving makes of"
                    " what is stored now.",
                    "sw-bad sw-text",
                )
            _show_diff(stored.strategy, strategy)
        with sw.row("sw-end"):
            ui.button("Go on editing", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            save = ui.button("Save", on_click=lambda: dialog.submit(True)).props(sw.PRIMARY)
        sw.marked(save, "save-changes")
    return bool(await result_of(dialog))


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
        values: arguments of `agents.change`; a number of the budget that is left out is removed.
    """
    options, given = stored.llm_options, values["llm_options"]
    cycle, every = stored.loop_interval_ms, values["loop_interval_ms"]
    found = [
        Change("Name", stored.name, values["name"]),
        Change("Provider", stored.llm_provider, values["llm_provider"]),
        Change("Model", stored.llm_model, values["llm_model"]),
        Change("Cycle", interval_text(cycle), interval_text(every)),
        *(
            Change(f"The model's {name}", _option(options.get(name)), _option(given.get(name)))
            for name in sorted({*options, *given})
        ),
    ]
    for each in fields_of(Guardrails):
        before = stored.guardrails.get(each.json)
        found.append(_bound(each, before, values.get(each.name, before)))
    for each in fields_of(LlmBudget):
        before, after = (of.get(each.json) for of in (stored.llm_budget, values["llm_budget"]))
        found.append(_bound(each, before, after))
    return [each for each in found if each.before != each.after]


def _bound(field: Field, before: Any, after: Any) -> Change:
    """A greater number is a wider bound, and so is none."""
    wider = before is not None and (after is None or Decimal(after) > Decimal(before))
    return Change(field.label, _number(before), _number(after), wider)


def _number(value: Any) -> str:
    return "no limit of its own" if value is None else plain(value)


def _option(value: Any) -> str:
    return "its own default" if value is None else value_text(value)


def _show_diff(before: str, after: str) -> None:
    """The lines of a strategy that change, added and removed ones marked by sign and colour."""
    with ui.element("div").classes("sw-diff").props('role=list data-testid="diff"'):
        for sign, line in diff(before, after):
            kind = _SIGNS[sign]
            row = ui.label(f"{sign} {line}").classes(f"sw-mono sw-diff-{kind.split()[0]}")
            row.props["role"] = "listitem"
            row.props["aria-label"] = f"{kind}: {line}"


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


def earlier_strategies(entries: Sequence[AuditEntry], now: str) -> list[tuple[AuditEntry, str]]:
    """Strategies that an agent had before, the latest first, each with the entry that ended it.

    Args:
        entries: `agent:changed` of the audit log, the newest first.
    """
    found: list[tuple[AuditEntry, str]] = []
    known = {now}
    for each in entries:
        text = (each.data.get("before") or {}).get("strategy")
        if isinstance(text, str) and text not in known:
            known.add(text)
            found.append((each, text))
    return found
