"""What a wallet can be made to do: a form each, out of a JSON Schema, and what came of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from nicegui import ui

from solward.client import ClientError, Skill, Transaction, Trial, Wallet
from solward.client.wallets import SKILL_ROUTES
from solward.operations.declared import Operation, recipient_fields, sol, swap, tokens
from solward.support.jsontext import dumps
from solward.types.address_book import AddressBook
from solward.types.errors import SolwardError
from solward.types.record import TransactionType
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, notify_error
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.people import People
from solward_dashboard.previews import previewed
from solward_dashboard.wording import value_text

# The distribution of built-in skills: another's skill of the same name is another.
_OWN: Final = "solward"
_NO_TRIAL: Final = (
    "This skill has no dry run: what it makes is judged when it makes it, and the wallet's limits"
    " bound it."
)


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with a wallet.

    Attributes:
        run: does it with the form's values under an idempotency key; returns the outcome as text.
        asks: whether a person confirms it first.
        trial: a dry run with the form's values; None where it has none.
        recipient: the field of whom it pays, which takes a name too; empty where there is none.
    """

    name: str
    verb: str
    about: str
    schema: Mapping[str, Any]
    run: Callable[[str, Mapping[str, Any], str], Awaitable[str]]
    asks: bool = False
    trial: Callable[[str, Mapping[str, Any]], Awaitable[Trial]] | None = None
    recipient: str = ""


def of_operation(declared: Operation, defaults: Mapping[str, str] | None = None) -> Action:
    """Performing a declared operation.

    Args:
        defaults: what the form starts with, by field, beside the operation's own defaults.
    """

    def fields(values: Mapping[str, Any]) -> dict[str, Any]:
        return {field.name: _stripped(values.get(field.json)) for field in declared.fields}

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        method = getattr(api().wallets, declared.name)
        return _ended(await method(wallet_id, **fields(values), idempotency_key=key))

    async def trial(wallet_id: str, values: Mapping[str, Any]) -> Trial:
        found: Trial = await getattr(api().wallets.dry_run, declared.name)(
            wallet_id, **fields(values)
        )
        return found

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
        asks=declared.type != TransactionType.AIRDROP,
        trial=trial,
        recipient=_recipient_of(declared.name),
    )


def of_skill(skill: Skill) -> Action:
    """Running a skill, whoever wrote it."""

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
        recipient=_recipient_of(skill.name) if is_built_in else "",
    )


def _recipient_of(operation: str) -> str:
    return next((each.json for each in recipient_fields(operation)), "")


AIRDROP, TRANSFER = of_operation(sol.AIRDROP), of_operation(sol.TRANSFER)
TRANSFER_TOKEN = of_operation(tokens.TRANSFER_TOKEN)
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
        self._busy = False
        with ui.element("div").classes("sw-form sw-needs-policy"):
            ui.label(action.about).classes("sw-dim sw-text")
            self._form = schema_form(action.schema)
            if action.recipient:
                self._form.take_names(action.recipient, AddressBook())
            with ui.element("div").classes("sw-row"):
                self._button = ui.button(action.verb, on_click=self._run)
                self._button.props("no-caps unelevated")
                self._button.props["data-testid"] = f"run-{_slug(action.name)}"
            with ui.element("div").props("role=status"):
                self._outcome = ui.label().classes("sw-outcome sw-text")
                self._outcome.props["data-testid"] = f"outcome-{_slug(action.name)}"
        self._outcome.set_visibility(False)
        if action.recipient:
            ui.timer(0, self.learn_names, once=True)

    async def _run(self) -> None:
        # A second click, or one that came late, sends nothing of its own.
        if self._busy:
            return
        self._busy = True
        try:
            has_run = await self._run_once()
        finally:
            self._busy = False
        if has_run:
            # A service that is away is waited for: the button is enabled again by then, and works.
            await self._done()

    async def _run_once(self) -> bool:
        """Whether the action was sent."""
        wallet = self._wallet()
        if wallet is None:
            return False
        if self._action.recipient:
            # By today's names: a wallet or a contact may be new, or be called otherwise.
            await self.learn_names()
        try:
            values = self._form.values()
        except FormError:
            return False
        key = self._key(values)
        if not await self._agreed(wallet, values):
            return False
        self._button.props("loading").disable()
        try:
            self._notify(await self._action.run(wallet.id, values, key), good=True)
            self._open = None
        except SolwardError as error:
            self._failed(error, values)
        finally:
            self._button.props(remove="loading").enable()
        return True

    async def learn_names(self) -> None:
        """Let the recipient be given by what the service calls it; where it does not answer, by an
        address and the names known so far."""
        try:
            wallets, contacts = await asyncio.gather(api().wallets.list(), api().contacts.list())
        except SolwardError:
            return
        self._form.take_names(self._action.recipient, AddressBook.of(wallets, contacts))

    async def _agreed(self, wallet: Wallet, values: Mapping[str, Any]) -> bool:
        """Whether a person confirms it, where one is asked."""
        action = self._action
        if not action.asks:
            return True
        of, name = ("on", action.name) if action.verb == "Run" else ("from", "")
        question = f"{' '.join(filter(None, (action.verb, name, of)))} {wallet.name}?"
        if self._open is not None and self._open[0] == values:
            # It may be paid: a dry run would judge a second payment, and might refuse that.
            again = "It was sent, and no answer came. Under its own key it pays at most once."
            return await confirmed(question, [again, *_lines(values)], action.verb)
        trial = action.trial
        if trial is None:
            about = [*_lines(values), _NO_TRIAL, await _can_leave(wallet.id)]
            return await confirmed(question, about, action.verb)
        return await previewed(
            wallet.id,
            question,
            await _facts(values, action.schema["properties"]),
            action.verb,
            lambda: trial(wallet.id, values),
            lambda: self._form.unchecked() == values,
        )

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
        notify_error(error)
        self._notify(f"{error}{again}", good=False)

    def _notify(self, text: str, *, good: bool) -> None:
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


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {_value_text(value)}" for name, value in values.items()]


async def _facts(values: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for; addresses with their names, where the service says them."""
    try:
        wallets, contacts = await asyncio.gather(api().wallets.list(), api().contacts.list())
    except SolwardError:
        people = People()
    else:
        people = People.of(wallets, contacts=contacts)
    found = []
    for name, value in values.items():
        text = _value_text(value)
        if name == "to" and isinstance(value, str):
            text = f"{value.strip()}\n{people.warned(value.strip())}"
        found.append((fields[name].get("title", _titled(name)), text))
    return found


async def _can_leave(wallet_id: str) -> str:
    try:
        sentence = (await api().wallets.limits(wallet_id))["canLeave"]["sentence"]
    except SolwardError as error:
        return f"What can leave the wallet is not known: {error}"
    return str(sentence)


def _titled(name: str) -> str:
    """`outputToken` as `Output token`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _value_text(value: Any) -> str:
    return dumps(value) if isinstance(value, list | dict) else value_text(value)


def _ended(record: Transaction) -> str:
    what = record.type.replace("_", " ").capitalize()
    signature = "" if record.signature is None else f". Signature {record.signature}"
    arrived = record.details.get("outputAmount")
    got = "" if arrived is None else f", {value_text(arrived)} received"
    return f"{what} {record.status}{got}{signature}"


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
