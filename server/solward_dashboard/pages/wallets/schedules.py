"""The schedules of one wallet: their card, what they did, and the dialog that makes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from nicegui import ui

from solward.client import Schedule, ScheduleRun, Skill, Wallet
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, heading, result_of, submit_buttons, titled
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.notices import notify_error
from solward_dashboard.wording import ago, day, local_times

_RUNS = 20
# Of `client.schedules.create`, where they have other names than the form's fields.
_ARGUMENTS = {"timeZone": "time_zone", "maxRuns": "max_runs"}
_CLASSES = {"active": "sw-confirmed", "paused": "sw-failed", "ended": "sw-idle"}

CurrentWallet = Callable[[], Wallet | None]
Refresh = Callable[[], Awaitable[None]]
Change = Callable[[str, str], Awaitable[Any]]


class Schedules:
    """Each with its state, when it runs next, and what can be done with it."""

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._shown: tuple[dict[str, Any], ...] | None = None
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
        shown = tuple(dict(each.raw) for each in schedules)
        if shown == self._shown:
            return
        self._shown = shown
        self._list.clear()
        with self._list:
            if not schedules:
                ui.label("No skill runs on this wallet by itself.").classes("sw-dim")
            for each in schedules:
                self._row(each)

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
            self._button(schedule, "Delete", self._delete)
        ui.label(_state_text(schedule)).classes("sw-dim")

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
        button.on_click(lambda: act(schedule))

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
        fields = None if wallet is None else await _new_fields(wallet, self._skills)
        if wallet is None or fields is None:
            return
        details = [f"{name}: {_value_text(value)}" for name, value in fields.items()]
        question = f"Run {fields['skill']} on {wallet.name} by itself?"
        if not await confirmed(question, details, "Create"):
            return
        try:
            made = await api().schedules.create(wallet.id, **fields)
            ui.notify(f"{made.name} {next_run(made)}", type="positive")
        except SolwardError as error:
            notify_error(error)
        await self._refresh()


async def _new_fields(wallet: Wallet, skills: Sequence[Skill]) -> dict[str, Any] | None:
    """The fields of a new schedule; None where the user cancels."""
    with titled(f"New schedule of {wallet.name}") as dialog:
        form = schema_form(_schema([each.name for each in skills]))

        def save() -> None:
            with suppress(FormError):
                values = form.values()
                try:
                    values["parameters"] = jsontext.loads(values.get("parameters") or "{}")
                except ValueError as error:
                    form.show_error(f"parameters: no JSON: {error}")
                    return
                dialog.submit(values)

        submit_buttons(dialog, "Continue", save)
    values: dict[str, Any] | None = await result_of(dialog)
    if values is None:
        return None
    return {_ARGUMENTS.get(name, name): value for name, value in values.items()}


def _schema(skills: Sequence[str]) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "properties": {
            "name": {**text, "maxLength": 100},
            "skill": {"type": "string", "enum": list(skills)},
            "parameters": {"type": "string", "description": "Of the skill, as a JSON object."},
            "every": {**text, "description": "1m to 30d, such as 1h; or cron."},
            "cron": {**text, "description": "Five fields, such as 0 9 1 * *; or every."},
            "timeZone": {**text, "description": "Of cron, such as Europe/Berlin; else UTC."},
            "maxRuns": {"type": "integer", "minimum": 1, "description": "Ends after so many."},
            "missed": {"type": "string", "enum": ["skip", "once"], "default": "skip"},
        },
        "required": ["name", "skill"],
        "additionalProperties": False,
    }


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
    return jsontext.dumps(value) if isinstance(value, dict) else str(value)
