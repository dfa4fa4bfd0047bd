"""A wallet's schedules: their states, runs and forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from nicegui import ui

from solward.client import Schedule, ScheduleRun, Skill
from solward.resources.declare import Request, fields_of
from solward.resources.fields import Field
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import (
    confirmed,
    heading,
    notify_error,
    result_of,
    submit_buttons,
    titled,
)
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.forms.request_form import form_schema
from solward_dashboard.pages.wallets.cards import CurrentWallet, Refresh
from solward_dashboard.wording import ago, day, local_times

_RUNS = 20
# Of a schedule's JSON, what its runs change.
_OF_RUNS = frozenset({"isRunning", "runs", "failures", "nextRunAt"})
_CLASSES = {"active": "sw-confirmed", "paused": "sw-failed", "ended": "sw-idle"}
# Chosen above the form, because a skill brings the form of its own parameters.
_SKILLS = ("skill", "parameters")

Change = Callable[[str, str], Awaitable[Any]]


class Schedules:
    """Each with its state, when it runs next, and what can be done with it."""

    new: ClassVar = NewSchedule
    change: ClassVar = ChangedSchedule

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._shown: tuple[dict[str, Any], ...] | None = None
        self._states: dict[str, ui.label] = {}
        self._skills: tuple[Skill, ...] = ()
        with ui.element("section").classes("sw-card").props('data-testid="schedules"'):
            with ui.element("div").classes("sw-row"):
                heading("Schedules")
                ui.space()
                new = ui.button("New schedule", color=None, on_click=self._create)
                new.props('outline no-caps padding="2px 10px" data-testid="new-schedule"')
                new.classes("sw-needs-policy")
            self._list = ui.element("div").classes("sw-list")

    def show(self, schedules: Sequence[Schedule], skills: Sequence[Skill]) -> None:
        self._skills = tuple(skills)
        # A run changes the texts alone: a button that is built anew loses the press on it.
        shown = tuple(
            {name: value for name, value in each.raw.items() if name not in _OF_RUNS}
            for each in schedules
        )
        if shown != self._shown:
            self._shown = shown
            self._list.clear()
            with self._list:
                if not schedules:
                    ui.label("No skill runs on this wallet by itself.").classes("sw-dim")
                for each in schedules:
                    self._row(each)
        for each in schedules:
            self._states[each.id].set_text(_state_text(each))

    def _row(self, schedule: Schedule) -> None:
        with ui.element("div").classes("sw-row"):
            ui.badge(schedule.status).classes(_CLASSES.get(schedule.status, "sw-idle"))
            ui.label(schedule.name).classes("sw-text")
            ui.label(f"{schedule.skill}, {schedule.when}").classes("sw-dim")
            ui.space()
            self._button(schedule, "Runs", self._runs, "")
            if schedule.status == "active":
                self._button(schedule, "Run now", self._run_now)
                self._button(schedule, "Pause", self._pause, "sw-needs-operate")
            else:
                self._button(schedule, "Resume", self._resume)
            self._button(schedule, "Change", self._change)
            self._button(schedule, "Delete", self._delete)
        self._states[schedule.id] = ui.label().classes("sw-dim")

    def _button(
        self,
        schedule: Schedule,
        verb: str,
        act: Callable[[Schedule], Awaitable[None]],
        needs: str = "sw-needs-policy",
    ) -> None:
        button = ui.button(verb, color=None).props('outline no-caps padding="2px 10px"')
        button.props["aria-label"] = f"{verb} of {schedule.name}"
        button.classes(needs)

        async def pressed() -> None:
            # A dialog in the list would go where it is built anew, such as when a run ends.
            place = self._list.parent_slot
            assert place is not None, "the list is in a card"
            with place:
                await act(schedule)

        button.on_click(pressed)

    async def _pause(self, schedule: Schedule) -> None:
        # A stop is never asked twice.
        await self._do(api().schedules.pause, schedule, "is paused")

    async def _run_now(self, schedule: Schedule) -> None:
        details = [*_terms(schedule), "Beside its due times; it counts like any other run."]
        if await confirmed(f"Run {schedule.name} now?", details, "Run now"):
            await self._do(api().schedules.run, schedule, "begins; Runs shows what becomes of it")

    async def _resume(self, schedule: Schedule) -> None:
        if await confirmed(f"Resume {schedule.name}?", _terms(schedule), "Resume"):
            await self._do(api().schedules.resume, schedule, "is active")

    async def _delete(self, schedule: Schedule) -> None:
        details = ["Its runs go, its transactions stay."]
        if await confirmed(f"Delete {schedule.name}?", details, "Delete"):
            await self._do(api().schedules.delete, schedule, "is deleted")

    async def _do(self, change: Change, schedule: Schedule, done: str) -> None:
        try:
            await change(schedule.wallet_id, schedule.id)
            ui.notify(f"{schedule.name} {done}", type="positive")
        except SolwardError as error:
            notify_error(error)
        await self._refresh()

    async def _runs(self, schedule: Schedule) -> None:
        try:
            found = await api().schedules.runs(schedule.wallet_id, schedule.id, limit=_RUNS)
        except SolwardError as error:
            notify_error(error)
            return
        with titled(f"Runs of {schedule.name}") as dialog:
            with ui.element("div").classes("sw-list").props('data-testid="runs"'):
                if not found:
                    ui.label("It was not due yet.").classes("sw-dim")
                for each in found:
                    _run(each)
            with ui.element("div").classes("sw-row sw-end"):
                ui.button("Close", on_click=dialog.close).props("flat no-caps")
        await result_of(dialog)

    async def _create(self) -> None:
        wallet = self._wallet()
        if wallet is None:
            return
        asked = await _asked(f"New schedule of {wallet.name}", self.new, self._skills, {})
        if asked is None:
            return
        question = f"Run {asked['skill']} on {wallet.name} by itself?"
        if not await confirmed(question, _lines(self.new, asked), "Create"):
            return
        given: dict[str, Any] = {each.name: asked.get(each.json) for each in fields_of(self.new)}
        try:
            made = await api().schedules.create(wallet.id, **given)
            ui.notify(f"{made.name} {next_run(made)}", type="positive")
        except SolwardError as error:
            notify_error(error)
        await self._refresh()

    async def _change(self, schedule: Schedule) -> None:
        was = schedule.raw
        asked = await _asked(f"Change {schedule.name}", self.change, self._skills, was)
        if asked is None:
            return
        changed = {
            each.json: asked.get(each.json)
            for each in _shown(self.change)
            if asked.get(each.json) != was.get(each.json)
        }
        lines = _lines(self.change, changed)
        if not changed or not await confirmed(f"Change {schedule.name}?", lines, "Change"):
            return
        change = partial(api().schedules.change, fields=changed)
        await self._do(change, schedule, "is changed")


async def _asked(
    title: str, kind: type[Request], skills: Sequence[Skill], known: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What a form of the request is filled in with; None where the user cancels.

    Args:
        known: the fields' values, of a schedule that there is; its skill stays.
    """
    parameters: list[Form] = []

    def chosen(name: str | None) -> None:
        """Show the form that the skill's own schema makes."""
        place.clear()
        parameters.clear()
        for each in skills:
            if each.name == name:
                with place, ui.element("fieldset").classes("sw-fieldset"):
                    with ui.element("legend"):
                        ui.label(f"Parameters of {name}")
                    parameters.append(schema_form(each.parameters, known.get("parameters")))

    with titled(title) as dialog:
        skill = ui.select([each.name for each in skills], label="Skill")
        skill.props('outlined dense data-testid="field-skill"').classes("sw-field")
        skill.set_visibility(not known)
        place = ui.element("div")
        others = [each for each in _shown(kind) if each.json not in _SKILLS]
        form = schema_form(form_schema(others), known)
        skill.on_value_change(lambda: chosen(skill.value))
        skill.set_value(known.get("skill"))

        def submit() -> None:
            # Both show their errors at once.
            form_values, params = _read(form), [_read(each) for each in parameters]
            skill.error = None if skill.value else "is required"
            if skill.value and form_values is not None and None not in params:
                # A skill that is not loaded has no form: its parameters stay.
                given = params[0] if params else known.get("parameters")
                dialog.submit(form_values | {"skill": skill.value, "parameters": given})

        submit_buttons(dialog, "Continue", submit)
    values: dict[str, Any] | None = await result_of(dialog)
    return values


def _read(form: Form) -> dict[str, Any] | None:
    with suppress(FormError):
        return form.values()
    return None


def _shown(kind: type[Request]) -> list[Field]:
    return [each for each in fields_of(kind) if "dashboard" not in each.left_out]


def _lines(kind: type[Request], values: Mapping[str, Any]) -> list[str]:
    return [
        f"{each.label}: {_value_text(values[each.json])}"
        for each in fields_of(kind)
        if each.json in values
    ]


def _state_text(schedule: Schedule) -> str:
    if schedule.reason is not None:
        return local_times(schedule.reason)
    failed = f", the last {schedule.failures} refused or failed" if schedule.failures else ""
    return f"{next_run(schedule).capitalize()}; {schedule.runs} runs{failed}"


def next_run(schedule: Schedule) -> str:
    """When an active schedule runs next, after its name."""
    at = schedule.next_run_at
    return "runs now" if schedule.is_running or at is None else f"runs next {day(at)}"


def _terms(schedule: Schedule) -> list[str]:
    return [
        f"{schedule.skill} {jsontext.dumps(dict(schedule.parameters))}",
        schedule.when,
        f"As {schedule.made_by}",
    ]


def _run(run: ScheduleRun) -> None:
    with ui.element("div").classes("sw-row"):
        ui.badge(run.status).props("outline")
        ui.label(ago(run.due_at)).classes("sw-dim")
        ui.label(local_times(run.text)).classes("sw-text")


def _value_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return jsontext.dumps(value)
    return "none" if value is None else str(value)
