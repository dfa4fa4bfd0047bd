"""The editor of a strategy: several lines, their count, what changed, and what there was before;
and what a change of an agent comes to: its fields before and after, and what it widens."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import Agent, AuditEntry
from solward.resources.agents import Guardrails, LlmBudget
from solward.resources.declare import fields_of
from solward_dashboard import parts as sw
from solward_dashboard.dialogs import result_of, titled
from solward_dashboard.pages.agents.data import interval_text
from solward_dashboard.wording import ago, plain, value_text

LONGEST = 20_000
_COUNTED = "{:,} of {:,} characters"
# The browser asks before the page is left; `null` takes the question away.
_GUARD = "window.onbeforeunload = {}"
_ASKS = "event => { event.preventDefault(); return '' }"
_SIGNS = {"+": "added", "-": "removed", " ": "unchanged", "…": "left out"}

# Field -> what people call it. A greater number of one of them is a wider bound, and so is none.
BOUNDS: Mapping[str, str] = {
    each.json: each.label for each in (*fields_of(Guardrails), *fields_of(LlmBudget))
}
_UNBOUNDED = "no limit of its own"


class StrategyEditor:
    """A strategy, in a field that keeps its line breaks.

    Args:
        text: what is stored.
    """

    def __init__(self, text: str = "") -> None:
        self._stored = text
        with sw.stack("sw-form"):
            self._area = ui.textarea("Strategy", value=text).without_auto_validation()
            sw.marked(self._area, "strategy").classes("sw-field sw-strategy")
            # A line break is part of the strategy, so Enter never sends the form.
            self._area.props("outlined dense autogrow hide-bottom-space spellcheck=true")
            with sw.row():
                self._count = sw.marked(sw.dim("", "sw-number"), "strategy-count")
                self._unsaved = sw.dim("Not saved")
                ui.space()
                self._mono = ui.switch("Monospace").props("dense")
        self._area.on_value_change(self._changed)
        self._mono.on_value_change(self._set_font)
        self._show()

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

    def read(self) -> str | None:
        """The strategy; None where it does not fit, which the field shows."""
        length = len(self.text)
        error = None
        if not self.text.strip():
            error = "is required"
        elif length > LONGEST:
            error = f"has {length - LONGEST:,} characters too many"
        self._area.error = error
        return None if error else self.text

    def release(self) -> None:
        """Let the page be left without a question: it was saved, or given up."""
        ui.run_javascript(_GUARD.format("null"))

    def _changed(self) -> None:
        self._area.error = None
        self._show()
        ui.run_javascript(_GUARD.format(_ASKS if self.is_changed else "null"))

    def _show(self) -> None:
        length = len(self.text)
        self._count.set_text(_COUNTED.format(length, LONGEST))
        self._count.classes(**{"add" if length > LONGEST else "remove": "sw-bad"})
        self._unsaved.set_visibility(self.is_changed)

    def _set_font(self) -> None:
        self._area.classes(**{"add" if self._mono.value else "remove": "sw-strategy-mono"})


def show_earlier(editor: StrategyEditor, entries: Sequence[AuditEntry], stored: str) -> None:
    """What an agent's strategy was before, from the audit log; each can be put into the editor."""
    found = earlier_strategies(entries, stored)
    if not found:
        return
    title = f"Earlier strategies ({len(found)})"
    with ui.expansion(title).props("dense").classes("sw-expansion"):
        for entry, words in found:
            with sw.stack("sw-form"):
                with sw.row():
                    until = ago(entry.timestamp)
                    sw.dim(f"until {until}, changed by {entry.data['principal']}")
                    ui.space()
                    sw.button("Put into the editor", partial(editor.put, words), look=sw.SMALL)
                sw.text(words, "sw-text sw-clamp")


def show_diff(before: str, after: str) -> None:
    """The lines of a strategy that change, added and removed ones marked by sign and colour."""
    with ui.element("div").classes("sw-diff").props('role=list data-testid="diff"'):
        for sign, line in diff(before, after):
            kind = _SIGNS[sign]
            row = ui.label(f"{sign} {line}").classes(f"sw-mono sw-diff-{kind.split()[0]}")
            row.props["role"] = "listitem"
            row.props["aria-label"] = f"{kind}: {line}"


async def reviewed(
    name: str, found: Sequence[Change], before: str, after: str, *, is_other: bool
) -> bool:
    """Whether the user saves these changes, which are shown.

    Args:
        before: the strategy that is stored now.
        is_other: somebody else changed the strategy since it was opened here.
    """
    wider = sum(each.is_wider for each in found)
    with titled(f"Save the changes of {name}?", wide=True) as dialog:
        if wider:
            bounds = "a bound" if wider == 1 else f"{wider} bounds"
            said = f"This widens {bounds}: more can leave, or be spent, than before."
            sw.text(said, "sw-bad sw-text").props("role=alert")
        with sw.stack("sw-list"):
            for each in found:
                sw.text(each.text, "sw-bad sw-text" if each.is_wider else "sw-text")
        if before != after:
            sw.heading("Strategy", 3)
            if is_other:
                sw.text(
                    "It was changed elsewhere since you opened it. Below is what saving makes of"
                    " what is stored now.",
                    "sw-bad sw-text",
                )
            show_diff(before, after)
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
        values: as `fields.change_parameters` takes them.
    """
    cycle, every = stored.loop_interval_ms, values["milliseconds"]
    options, given = stored.llm_options, values["options"]
    found = [
        Change("Name", stored.name, values["name"]),
        Change("Provider", stored.llm_provider, values["provider"]),
        Change("Model", stored.llm_model, values["model"]),
        Change("Cycle", interval_text(cycle), interval_text(every)),
        *(
            Change(f"The model's {name}", _option(options.get(name)), _option(given.get(name)))
            for name in sorted({*options, *given})
        ),
    ]
    # A guardrail that the form leaves out stays as it is; a number of the budget goes.
    rails, budget = stored.guardrails, stored.llm_budget
    left_out = {name: each for name, each in rails.items() if name in BOUNDS}
    after = left_out | values["guardrails"] | values["budget"]
    found += [_bound(name, {**rails, **budget}.get(name), after.get(name)) for name in BOUNDS]
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


def _bound(name: str, before: Any, after: Any) -> Change:
    wider = before is not None and (after is None or Decimal(after) > Decimal(before))
    return Change(BOUNDS[name], _number(before), _number(after), wider)


def _number(value: Any) -> str:
    return _UNBOUNDED if value is None else plain(value)


def _option(value: Any) -> str:
    return "its own default" if value is None else value_text(value)
