"""What a wallet can be made to do: a form each, out of a JSON Schema, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from nicegui import ui

from solward.client import ClientError, Skill, Transaction, Wallet
from solward.errors import SolwardError
from solward.jsontext import dumps
from solward.operations.declared import Operation, sol, swap
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.wording import value_text


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with a wallet.

    Attributes:
        run: does it with the form's values under an idempotency key; returns the outcome as text.
        asks: whether a person confirms it first.
    """

    name: str
    verb: str
    about: str
    schema: Mapping[str, Any]
    run: Callable[[str, Mapping[str, Any], str], Awaitable[str]]
    asks: bool = False


def of_operation(declared: Operation, defaults: Mapping[str, str] | None = None) -> Action:
    """Performing a declared operation.

    Args:
        defaults: what the form starts with, by field, beside the operation's own defaults.
    """

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        fields = {field.name: _stripped(values.get(field.json)) for field in declared.fields}
        method = getattr(api().wallets, declared.name)
        return _ended(await method(wallet_id, **fields, idempotency_key=key))

    schema = declared.schema()
    for field in declared.fields:
        if field.title:
            schema["properties"][field.json]["title"] = field.title
        if defaults and field.json in defaults:
            schema["properties"][field.json]["default"] = defaults[field.json]
    return Action(
        declared.name.replace("_", " ").capitalize(),
        declared.verb,
        f"{declared.title}." + (" It cannot be taken back." if declared.is_irreversible else ""),
        schema,
        run,
        asks=declared.is_irreversible,
    )


def of_skill(skill: Skill) -> Action:
    """Running a skill, whoever wrote it."""

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        return await api().wallets.run_skill(wallet_id, skill.name, values, idempotency_key=key)

    spends = skill.effects != "read"
    return Action(skill.name, "Run", skill.description, skill.parameters, run, asks=spends)


AIRDROP, TRANSFER = of_operation(sol.AIRDROP), of_operation(sol.TRANSFER)
SWAP = of_operation(swap.SWAP, {"inputToken": "SOL"})


class ActionPanel:
    """The form of an action at this place of the page."""

    def __init__(
        self,
        action: Action,
        wallet: Callable[[], Wallet | None],
        done: Callable[[], Awaitable[None]],
    ) -> None:
        self._action = action
        self._wallet = wallet
        self._done = done
        # A payment whose fate is not known is asked for again under its own key.
        self._open: tuple[Mapping[str, Any], str] | None = None
        with ui.element("div").classes("sw-form"):
            ui.label(action.about).classes("sw-dim sw-text")
            self._form = schema_form(action.schema)
            with ui.element("div").classes("sw-row"):
                self._button = ui.button(action.verb, on_click=self._run)
                self._button.props("no-caps unelevated")
                self._button.props["data-testid"] = f"run-{action.name.lower()}"
            with ui.element("div").props("role=status"):
                self._outcome = ui.label().classes("sw-outcome sw-text")
                self._outcome.props["data-testid"] = f"outcome-{action.name.lower()}"
        self._outcome.set_visibility(False)

    async def _run(self) -> None:
        wallet = self._wallet()
        if wallet is None:
            return
        try:
            values = self._form.values()
        except FormError:
            return
        if self._action.asks and not await confirmed(
            f"{self._action.verb} {self._action.name} on {wallet.name}?"
            if self._action.verb == "Run"
            else f"{self._action.verb} from {wallet.name}?",
            [f"{name}: {_said(value)}" for name, value in values.items()],
            self._action.verb,
        ):
            return
        self._button.props("loading").disable()
        try:
            self._tell(await self._action.run(wallet.id, values, self._key(values)), good=True)
            self._open = None
        except SolwardError as error:
            self._failed(error, values)
        finally:
            self._button.props(remove="loading").enable()
        await self._done()

    def _key(self, values: Mapping[str, Any]) -> str:
        if self._open is not None and self._open[0] == values:
            return self._open[1]
        return str(uuid4())

    def _failed(self, error: SolwardError, values: Mapping[str, Any]) -> None:
        key = error.idempotency_key if isinstance(error, ClientError) else None
        self._open = None if key is None else (values, key)
        again = (
            ""
            if key is None
            else f" Whether it was paid is not known: {self._action.verb} again with the same"
            " values tells, and pays at most once."
        )
        ui.notify(str(error), type="negative", multi_line=True)
        self._tell(f"{error}{again}", good=False)

    def _tell(self, text: str, *, good: bool) -> None:
        self._outcome.set_text(text)
        self._outcome.classes(add="sw-outcome-good" if good else "sw-outcome-bad")
        self._outcome.classes(remove="sw-outcome-bad" if good else "sw-outcome-good")
        self._outcome.set_visibility(True)


class SkillChooser:
    """Any skill that is loaded, and its form."""

    def __init__(
        self, wallet: Callable[[], Wallet | None], done: Callable[[], Awaitable[None]]
    ) -> None:
        self._wallet = wallet
        self._done = done
        self._skills: dict[str, Skill] = {}
        self._select = ui.select([], label="Skill", with_input=True, on_change=self._chosen)
        self._select.props('outlined dense data-testid="skill"').classes("sw-field")
        self._place = ui.element("div")

    def offer(self, skills: Sequence[Skill]) -> None:
        """The skills there are; what is being filled in stays."""
        fresh = {each.name: each for each in skills}
        if fresh.keys() != self._skills.keys():
            self._select.set_options(
                {each.name: f"{each.name} ({each.distribution})" for each in skills},
                value=self._select.value if self._select.value in fresh else None,
            )
        self._skills = fresh

    def _chosen(self) -> None:
        self._place.clear()
        skill = self._skills.get(str(self._select.value))
        if skill is not None:
            with self._place:
                ActionPanel(of_skill(skill), self._wallet, self._done)


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _said(value: Any) -> str:
    return dumps(value) if isinstance(value, list | dict) else value_text(value)


def _ended(record: Transaction) -> str:
    what = record.type.replace("_", " ").capitalize()
    signature = "" if record.signature is None else f". Signature {record.signature}"
    arrived = record.details.get("outputAmount")
    got = "" if arrived is None else f", {value_text(arrived)} received"
    return f"{what} {record.status}{got}{signature}"
