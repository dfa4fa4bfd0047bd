"""Actions on a wallet, each a form with its outcome; and the wallet's schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import uuid4

from nicegui import ui

from solward.client import (
    ClientError,
    Schedule,
    ScheduleRun,
    Skill,
    Transaction,
    Trial,
    Wallet,
)
from solward.client.wallets import SKILL_ROUTES
from solward.operations import declared
from solward.operations.declared import Operation, recipient_fields
from solward.resources.declare import Request, fields_of
from solward.resources.fields import Field
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward.support import jsontext
from solward.types.address_book import AddressBook
from solward.types.errors import SolwardError
from solward.types.record import TransactionType
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import ask_form, confirmed, show_dialog
from solward_dashboard.forms import Form, FormError, fieldset, form_schema, name_text, read_all
from solward_dashboard.leaving import confirm_preview
from solward_dashboard.wording import People, ago, day, local_times, value_text

CurrentWallet = Callable[[], Wallet]
_RUNS = 20
# The fields of a schedule's JSON that its runs change.
_OF_RUNS = frozenset({"isRunning", "runs", "failures", "nextRunAt"})
_CLASSES = {"active": "sw-confirmed", "paused": "sw-failed", "ended": "sw-idle"}
# Chosen above the form, because a skill brings the form of its own parameters.
_SKILLS = ("skill", "parameters")
# The distribution of built-in skills; others may have skills of the same names.
_OWN: Final = "solward"
_NO_TRIAL: Final = (
    "This skill has no dry run. The service checks each transaction against the wallet's limits"
    " when the skill makes it."
)


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a wallet.

    Attributes:
        run: does it with the form's values under an idempotency key; returns the outcome as text.
        asks: whether a person confirms it first.
        trial: a dry run with the form's values; None if there is none.
        recipient: the field of its recipient, which takes a name too; empty if there is none.
        known: values that the form begins with, besides the schema's defaults.
    """

    name: str
    verb: str
    about: str
    schema: Mapping[str, Any]
    run: Callable[[str, Mapping[str, Any], str], Awaitable[str]]
    asks: bool = False
    trial: Callable[[str, Mapping[str, Any]], Awaitable[Trial]] | None = None
    recipient: str = ""
    known: Mapping[str, Any] = field(default_factory=dict)


def operation_action(declared: Operation, known: Mapping[str, str] | None = None) -> Action:
    """Return the action of a declared operation; its form begins with the values of `known`."""

    def fields(values: Mapping[str, Any]) -> dict[str, Any]:
        given = {each.name: values.get(each.json) for each in declared.fields}
        return {
            name: each.strip() if isinstance(each, str) else each for name, each in given.items()
        }

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        method = getattr(api().wallets, declared.name)
        return _outcome_text(await method(wallet_id, **fields(values), idempotency_key=key))

    async def trial(wallet_id: str, values: Mapping[str, Any]) -> Trial:
        found: Trial = await getattr(api().wallets.dry_run, declared.name)(
            wallet_id, **fields(values)
        )
        return found

    schema = declared.schema()
    for each in declared.fields:
        if each.title:
            schema["properties"][each.json]["title"] = each.title
    return Action(
        declared.name.replace("_", " ").capitalize(),
        declared.verb,
        f"{declared.title}." + (" It cannot be undone." if declared.is_irreversible else ""),
        schema,
        run,
        known=known or {},
        asks=declared.type != TransactionType.AIRDROP,
        trial=trial,
        recipient=_recipient_field(declared.name),
    )


def skill_action(skill: Skill) -> Action:
    """Return the action that runs a skill, whoever wrote it."""

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        return await api().wallets.run_skill(wallet_id, skill.name, values, idempotency_key=key)

    async def trial(wallet_id: str, values: Mapping[str, Any]) -> Trial:
        return await api().wallets.try_route(wallet_id, SKILL_ROUTES[skill.name], values)

    spends = skill.effects != "read"
    is_built_in = skill.distribution == _OWN and skill.name in SKILL_ROUTES
    return Action(
        skill.name,
        "Run",
        skill.description,
        skill.parameters,
        run,
        asks=spends,
        trial=trial if spends and is_built_in else None,
        recipient=_recipient_field(skill.name) if is_built_in else "",
    )


def _recipient_field(operation: str) -> str:
    return next((each.json for each in recipient_fields(operation)), "")


AIRDROP, TRANSFER = operation_action(declared.AIRDROP), operation_action(declared.TRANSFER)
TRANSFER_TOKEN = operation_action(declared.TRANSFER_TOKEN)
SWAP = operation_action(declared.SWAP, {"inputToken": "SOL"})


def add_action_tabs(wallet: CurrentWallet) -> tuple[SkillChooser, ui.tab]:
    """Add a tab for each action; return the chooser of skills and the tab of airdrops."""
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
        action_tabs = [
            (each, ui.tab(each.name)) for each in (TRANSFER, TRANSFER_TOKEN, SWAP, AIRDROP)
        ]
        more = ui.tab("Any skill")
    with ui.tab_panels(tabs, value=action_tabs[0][1]).props("keep-alive").classes("sw-panels"):
        for action, tab in action_tabs:
            with ui.tab_panel(tab):
                ActionPanel(action, wallet)
        with ui.tab_panel(more), sw.stack("sw-form"):
            chooser = SkillChooser(wallet)
    return chooser, action_tabs[-1][1]


class ActionPanel:
    """The form of an action, built at the page's current place."""

    def __init__(self, action: Action, wallet: CurrentWallet) -> None:
        self._action = action
        self._wallet = wallet
        # A payment with an unknown outcome is sent again under the same key.
        self._open: tuple[Mapping[str, Any], str] | None = None
        slug = action.name.lower().replace(" ", "-")
        with sw.stack(f"sw-form {sw.POLICY}"):
            sw.dim(action.about)
            self._form = Form(action.schema, action.known)
            if action.recipient:
                self._form.offer_names(action.recipient, AddressBook())
            with sw.row():
                self._button = sw.button(
                    action.verb, self._run, look=sw.PRIMARY, testid=f"run-{slug}"
                )
            with ui.element("div").props("role=status"):
                self._outcome = sw.optional_text("sw-outcome sw-text", testid=f"outcome-{slug}")
        if action.recipient:
            ui.timer(0, self.learn_names, once=True)

    async def _run(self) -> None:
        if self._action.recipient:
            # Names are read again: a wallet or a contact may be new or renamed.
            await self.learn_names()
        try:
            values = self._form.values()
        except FormError:
            return
        wallet, key = self._wallet(), self._idempotency_key(values)
        if not await self._confirm(wallet, values):
            return
        self._button.props("loading")
        try:
            with sw.disabled(self._button):
                self._notify(await self._action.run(wallet.id, values, key), good=True)
            self._open = None
        except SolwardError as error:
            self._show_failure(error, values)
        finally:
            self._button.props(remove="loading")

    async def learn_names(self) -> None:
        """Let the recipient field accept the service's current names. If the service does not
        answer, the field accepts the same names as before."""
        try:
            wallets, contacts = await asyncio.gather(api().wallets.list(), api().contacts.list())
        except SolwardError:
            return
        self._form.offer_names(self._action.recipient, AddressBook.from_lists(wallets, contacts))

    async def _confirm(self, wallet: Wallet, values: Mapping[str, Any]) -> bool:
        """Return whether a person confirms the action, or it needs no confirmation."""
        action = self._action
        if not action.asks:
            return True
        of, name = ("on", action.name) if action.verb == "Run" else ("from", "")
        question = f"{' '.join(filter(None, (action.verb, name, of)))} {wallet.name}?"
        if self._open is not None and self._open[0] == values:
            # It may be paid already: a dry run would judge a second payment, and might refuse it.
            again = "This request was already sent. Repeating it pays at most once."
            return await confirmed(question, [again, *_value_lines(values)], action.verb)
        trial = action.trial
        if trial is None:
            about = [*_value_lines(values), _NO_TRIAL, await _can_leave_text(wallet.id)]
            return await confirmed(question, about, action.verb)
        return await confirm_preview(
            wallet.id,
            question,
            await _to_facts(values, action.schema["properties"]),
            action.verb,
            lambda: trial(wallet.id, values),
            lambda: self._form.valid_values() == values,
        )

    def _idempotency_key(self, values: Mapping[str, Any]) -> str:
        if self._open is not None and self._open[0] == values:
            return self._open[1]
        return str(uuid4())

    def _show_failure(self, error: SolwardError, values: Mapping[str, Any]) -> None:
        key = error.idempotency_key if isinstance(error, ClientError) else None
        self._open = None if key is None else (values, key)
        sw.notify_error(error)
        said = str(error)
        if key is not None:
            said += f" The payment may have been made. {self._action.verb} again with the same"
            said += " values to find out: the repeated request pays at most once."
        self._notify(said, good=False)

    def _notify(self, said: str, *, good: bool) -> None:
        self._outcome.set_text(said)
        sw.set_class(self._outcome, "sw-outcome-good", good)
        sw.set_class(self._outcome, "sw-outcome-bad", not good)


class SkillChooser:
    """A select of all loaded skills, and the form of the chosen one."""

    def __init__(self, wallet: CurrentWallet) -> None:
        self._wallet = wallet
        self._skills: dict[str, Skill] = {}
        self._select = ui.select([], label="Skill", with_input=True, on_change=self._show_form)
        self._select.props('outlined dense data-testid="skill"').classes("sw-field")
        self._place = ui.element("div")

    def offer(self, skills: Sequence[Skill]) -> None:
        """Offer the loaded skills, without rebuilding the form of the chosen one."""
        fresh = {each.name: each for each in skills}
        if fresh.keys() != self._skills.keys():
            self._select.set_options(
                {each.name: f"{each.name} ({each.distribution})" for each in skills},
                value=self._select.value if self._select.value in fresh else None,
            )
        self._skills = fresh

    def _show_form(self) -> None:
        self._place.clear()
        skill = self._skills.get(str(self._select.value))
        if skill is not None:
            with self._place:
                ActionPanel(skill_action(skill), self._wallet)


def _value_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {_json_or_text(value)}" for name, value in values.items()]


async def _to_facts(values: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the values as (title, text), with names for addresses if the service answers."""
    people = People()
    with suppress(SolwardError):
        people = await People.ask()
    found = []
    for name, value in values.items():
        said = _json_or_text(value)
        if name == "to" and isinstance(value, str):
            said = f"{value.strip()}\n{people.describe(value.strip())}"
        found.append((fields[name].get("title", name_text(name)), said))
    return found


async def _can_leave_text(wallet_id: str) -> str:
    try:
        sentence = (await api().wallets.limits(wallet_id))["canLeave"]["sentence"]
    except SolwardError as error:
        return f"What can leave the wallet is not known: {error}"
    return str(sentence)


def _json_or_text(value: Any) -> str:
    return jsontext.dumps(value) if isinstance(value, list | dict) else value_text(value)


def _outcome_text(record: Transaction) -> str:
    what = record.type.replace("_", " ").capitalize()
    signature = "" if record.signature is None else f". Signature {record.signature}"
    arrived = record.details.get("outputAmount")
    got = "" if arrived is None else f", {value_text(arrived)} received"
    return f"{what} {record.status}{got}{signature}"


class Schedules:
    """A wallet's schedules, each with its state, its next run and its buttons."""

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
            # A run updates only the texts: a rebuilt button would lose a press on it.
            self._rows = sw.LiveContent(self._build, of=_without_run_fields)

    def show(self, schedules: Sequence[Schedule], skills: Sequence[Skill]) -> None:
        self._skills = tuple(skills)
        self._rows.show(schedules)
        for each in schedules:
            self._states[each.id].set_text(_state_text(each))

    def _build(self, schedules: Sequence[Schedule]) -> None:
        sw.show_list(schedules, self._add_row, "This wallet has no schedule.")

    def _add_row(self, schedule: Schedule) -> None:
        name, calls = schedule.name, api().schedules

        look = {"look": sw.SMALL, "of": f"of {name}"}

        def add(
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
                # Stopping needs no confirmation.
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
            sw.button("Runs", lambda: _show_runs(schedule), **look)
            parameters = jsontext.dumps(dict(schedule.parameters))
            terms = [f"{schedule.skill} {parameters}", schedule.when, f"Acts as {schedule.made_by}"]
            if schedule.status == "active":
                beside = "This run is in addition to the scheduled ones, and counts like them."
                begins = "has started; press Runs to see the result"
                add("Run now", calls.run, begins, [*terms, beside])
                add("Pause", calls.pause, "is paused", needs=sw.OPERATE)
            else:
                add("Resume", calls.resume, "is active", terms)
            sw.button("Change", lambda: self._change(schedule), needs=sw.POLICY, **look)
            add(
                "Delete",
                calls.delete,
                "is deleted",
                ["Runs of the schedule are deleted. Its transactions stay."],
            )
        self._states[schedule.id] = sw.dim()

    async def _create(self) -> None:
        wallet = self._wallet()
        asked = await _ask_schedule(f"New schedule for {wallet.name}", self.new, self._skills, {})
        if asked is None:
            return
        question = f"Run {asked['skill']} on {wallet.name} on a schedule?"
        if await confirmed(question, _field_lines(self.new, asked), "Create"):
            given = {each.name: asked.get(each.json) for each in fields_of(self.new)}
            made = await api().schedules.create(wallet.id, **given)
            ui.notify(f"{made.name} {next_run(made)}", type="positive")

    async def _change(self, schedule: Schedule) -> None:
        was = schedule.raw
        asked = await _ask_schedule(f"Change {schedule.name}", self.change, self._skills, was)
        if asked is None:
            return
        changed = {
            each.json: asked.get(each.json)
            for each in _offered_fields(self.change)
            if asked.get(each.json) != was.get(each.json)
        }
        lines = _field_lines(self.change, changed)
        if changed and await confirmed(f"Change {schedule.name}?", lines, "Change"):
            await api().schedules.change(schedule.wallet_id, schedule.id, fields=changed)
            ui.notify(f"{schedule.name} is changed", type="positive")


def _without_run_fields(schedules: Sequence[Schedule]) -> object:
    return [
        {name: value for name, value in each.raw.items() if name not in _OF_RUNS}
        for each in schedules
    ]


async def _show_runs(schedule: Schedule) -> None:
    found = await api().schedules.runs(schedule.wallet_id, schedule.id, limit=_RUNS)
    async with show_dialog(f"Runs of {schedule.name}"):
        with sw.marked(sw.stack("sw-list"), "runs"):
            sw.show_list(found, _run, "The schedule has not run yet.")


async def _ask_schedule(
    title: str, kind: type[Request], skills: Sequence[Skill], known: Mapping[str, Any]
) -> Any:
    """Return the values of a request's form; None if the user cancels.

    Args:
        known: the values of an existing schedule, whose skill stays.
    """
    return await ask_form(title, lambda: _ScheduleForm(kind, skills, known), "Continue")


class _ScheduleForm:
    """A form for the skill, its parameters, and the schedule's other fields."""

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
        others = [each for each in _offered_fields(kind) if each.json not in _SKILLS]
        self._form = Form(form_schema(others), known)
        self._skill.on_value_change(self._show_form)
        self._skill.set_value(known.get("skill"))

    def _show_form(self) -> None:
        self._place.clear()
        self._parameters = None
        for each in self._skills:
            if each.name == self._skill.value:
                with self._place, fieldset(f"Parameters of {each.name}"):
                    self._parameters = Form(each.parameters, self._known.get("parameters"))

    def values(self) -> dict[str, Any]:
        """See `DialogForm.values`."""
        self._skill.error = None if self._skill.value else "is required"
        forms = [self._form, *([self._parameters] if self._parameters else [])]
        values = read_all(*forms)
        if not self._skill.value:
            raise FormError({("skill",): "is required"})
        # A skill that is not loaded has no form: its parameters stay.
        given = values[1] if self._parameters else self._known.get("parameters")
        return values[0] | {"skill": self._skill.value, "parameters": given}

    def show_error(self, error: str) -> None:
        """See `DialogForm.show_error`."""
        self._form.show_error(error)


def _offered_fields(kind: type[Request]) -> list[Field]:
    return [each for each in fields_of(kind) if "dashboard" not in each.left_out]


def _field_lines(kind: type[Request], values: Mapping[str, Any]) -> list[str]:
    found = [(each.label, values[each.json]) for each in fields_of(kind) if each.json in values]
    lines = []
    for label, value in found:
        said = jsontext.dumps(value) if isinstance(value, list | dict) else value
        lines.append(f"{label}: {'none' if said is None else said}")
    return lines


def _state_text(schedule: Schedule) -> str:
    if schedule.reason is not None:
        return local_times(schedule.reason)
    failed = f", the last {schedule.failures} refused or failed" if schedule.failures else ""
    return f"{next_run(schedule).capitalize()}; {schedule.runs} runs{failed}"


def next_run(schedule: Schedule) -> str:
    """Return `runs now`, or `runs next` and the time, of an active schedule."""
    at = schedule.next_run_at
    return "runs now" if schedule.is_running or at is None else f"runs next {day(at)}"


def _run(run: ScheduleRun) -> None:
    with sw.row():
        ui.badge(run.status).props("outline")
        sw.dim(ago(run.due_at))
        sw.text(local_times(run.text))
