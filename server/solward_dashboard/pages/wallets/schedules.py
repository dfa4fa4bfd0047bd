"""A wallet's schedules: their states, runs and forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from nicegui import ui

from solward.client import Schedule, ScheduleRun, Skill
from solward.resources.declare import Request, fields_of
from solward.resources.fields import Field
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward.support import jsontext
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import close_button, confirmed, filled, result_of, titled
from solward_dashboard.forms import Form, FormError, fieldset, form_schema, read_all
from solward_dashboard.pages.wallets.cards import CurrentWallet
from solward_dashboard.wording import ago, day, local_times

_RUNS = 20
# Of a schedule's JSON, what its runs change.
_OF_RUNS = frozenset({"isRunning", "runs", "failures", "nextRunAt"})
_CLASSES = {"active": "sw-confirmed", "paused": "sw-failed", "ended": "sw-idle"}
# Chosen above the form, because a skill brings the form of its own parameters.
_SKILLS = ("skill", "parameters")


class Schedules:
    """Each with its state, when it runs next, and what can be done with it."""

    new: ClassVar = NewSchedule
    change: ClassVar = ChangedSchedule

    def __init__(self, wallet: CurrentWallet) -> None:
        self._wallet = wallet
        self._states: dict[str, ui.label] = {}
        self._skills: tuple[Skill, ...] = ()
        with sw.card(testid="schedules"):
            with sw.row():
                sw.heading("Schedules")
                ui.space()
                more = {"look": sw.SMALL, "needs": sw.POLICY, "testid": "new-schedule"}
                sw.button("New schedule", self._create, **more)
            # A run changes the texts alone: a button that is built anew loses the press on it.
            self._rows = sw.Redrawn(self._build, of=_apart_from_runs)

    def show(self, schedules: Sequence[Schedule], skills: Sequence[Skill]) -> None:
        self._skills = tuple(skills)
        self._rows.show(schedules)
        for each in schedules:
            self._states[each.id].set_text(_state_text(each))

    def _build(self, schedules: Sequence[Schedule]) -> None:
        sw.listed(schedules, self._row, "No skill runs on this wallet by itself.")

    def _row(self, schedule: Schedule) -> None:
        name, calls = schedule.name, api().schedules

        look = {"look": sw.SMALL, "of": f"of {name}"}

        def does(
            verb: str,
            call: Callable[[str, str], Awaitable[Any]],
            done: str,
            details: Sequence[str] = (),
            needs: str = sw.POLICY,
        ) -> None:
            question = f"{verb} {name}?" if verb != "Run now" else f"Run {name} now?"
            sw.action(
                verb,
                lambda: call(schedule.wallet_id, schedule.id),
                # A stop is never asked twice.
                ask=(lambda: confirmed(question, details, verb)) if details else None,
                said=f"{name} {done}",
                needs=needs,
                **look,
            )

        with sw.row():
            ui.badge(schedule.status).classes(_CLASSES.get(schedule.status, "sw-idle"))
            sw.text(name)
            sw.dim(f"{schedule.skill}, {schedule.when}")
            ui.space()
            sw.button("Runs", lambda: _runs(schedule), **look)
            parameters = jsontext.dumps(dict(schedule.parameters))
            terms = [f"{schedule.skill} {parameters}", schedule.when, f"As {schedule.made_by}"]
            if schedule.status == "active":
                beside = "Beside its due times; it counts like any other run."
                begins = "begins; Runs shows what becomes of it"
                does("Run now", calls.run, begins, [*terms, beside])
                does("Pause", calls.pause, "is paused", needs=sw.OPERATE)
            else:
                does("Resume", calls.resume, "is active", terms)
            sw.button("Change", lambda: self._change(schedule), needs=sw.POLICY, **look)
            does("Delete", calls.delete, "is deleted", ["Its runs go, its transactions stay."])
        self._states[schedule.id] = sw.dim()

    async def _create(self) -> None:
        wallet = self._wallet()
        asked = await _asked(f"New schedule of {wallet.name}", self.new, self._skills, {})
        if asked is None:
            return
        question = f"Run {asked['skill']} on {wallet.name} by itself?"
        if await confirmed(question, _lines(self.new, asked), "Create"):
            given = {each.name: asked.get(each.json) for each in fields_of(self.new)}
            made = await api().schedules.create(wallet.id, **given)
            ui.notify(f"{made.name} {next_run(made)}", type="positive")

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
        if changed and await confirmed(f"Change {schedule.name}?", lines, "Change"):
            await api().schedules.change(schedule.wallet_id, schedule.id, fields=changed)
            ui.notify(f"{schedule.name} is changed", type="positive")


def _apart_from_runs(schedules: Sequence[Schedule]) -> object:
    return [
        {name: value for name, value in each.raw.items() if name not in _OF_RUNS}
        for each in schedules
    ]


async def _runs(schedule: Schedule) -> None:
    found = await api().schedules.runs(schedule.wallet_id, schedule.id, limit=_RUNS)
    with titled(f"Runs of {schedule.name}") as dialog:
        with sw.marked(sw.stack("sw-list"), "runs"):
            sw.listed(found, _run, "It was not due yet.")
        close_button(dialog)
    await result_of(dialog)


async def _asked(
    title: str, kind: type[Request], skills: Sequence[Skill], known: Mapping[str, Any]
) -> Any:
    """What a form of the request is filled in with; None where the user cancels.

    Args:
        known: the fields' values, of a schedule that there is; its skill stays.
    """
    return await filled(title, lambda: _ScheduleForm(kind, skills, known), "Continue")


class _ScheduleForm:
    """The skill, the form that its own schema makes, and the schedule's other fields."""

    def __init__(
        self, kind: type[Request], skills: Sequence[Skill], known: Mapping[str, Any]
    ) -> None:
        self._skills = skills
        self._known = known
        self._parameters: Form | None = None
        self._skill = ui.select([each.name for each in skills], label="Skill")
        self._skill.props('outlined dense data-testid="field-skill"').classes("sw-field")
        self._skill.set_visibility(not known)
        self._place = ui.element("div")
        others = [each for each in _shown(kind) if each.json not in _SKILLS]
        self._form = Form(form_schema(others), known)
        self._skill.on_value_change(self._chosen)
        self._skill.set_value(known.get("skill"))

    def _chosen(self) -> None:
        self._place.clear()
        self._parameters = None
        for each in self._skills:
            if each.name == self._skill.value:
                with self._place, fieldset(f"Parameters of {each.name}"):
                    self._parameters = Form(each.parameters, self._known.get("parameters"))

    def values(self) -> dict[str, Any]:
        """See `Filled.values`."""
        self._skill.error = None if self._skill.value else "is required"
        forms = [self._form, *([self._parameters] if self._parameters else [])]
        values = read_all(*forms)
        if not self._skill.value:
            raise FormError({("skill",): "is required"})
        # A skill that is not loaded has no form: its parameters stay.
        given = values[1] if self._parameters else self._known.get("parameters")
        return values[0] | {"skill": self._skill.value, "parameters": given}

    def show_error(self, error: str) -> None:
        """See `Filled.show_error`."""
        self._form.show_error(error)


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


def _run(run: ScheduleRun) -> None:
    with sw.row():
        ui.badge(run.status).props("outline")
        sw.dim(ago(run.due_at))
        sw.text(local_times(run.text))


def _value_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return jsontext.dumps(value)
    return "none" if value is None else str(value)
