"""What a wallet can be made to do: a form each, out of a JSON Schema, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.forms import Form, FormError, in_words
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
        known: what the form begins with, beside the schema's defaults.
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


def of_operation(declared: Operation, known: Mapping[str, str] | None = None) -> Action:
    """Performing a declared operation; its form begins with what is `known`."""

    def fields(values: Mapping[str, Any]) -> dict[str, Any]:
        return {each.name: _stripped(values.get(each.json)) for each in declared.fields}

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        method = getattr(api().wallets, declared.name)
        return _ended(await method(wallet_id, **fields(values), idempotency_key=key))

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
        f"{declared.title}." + (" It cannot be taken back." if declared.is_irreversible else ""),
        schema,
        run,
        known=known or {},
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

    def __init__(self, action: Action, wallet: Callable[[], Wallet]) -> None:
        self._action = action
        self._wallet = wallet
        # A payment whose fate is not known is asked for again under its own key.
        self._open: tuple[Mapping[str, Any], str] | None = None
        slug = action.name.lower().replace(" ", "-")
        with sw.stack(f"sw-form {sw.POLICY}"):
            sw.dim(action.about)
            self._form = Form(action.schema, action.known)
            if action.recipient:
                self._form.take_names(action.recipient, AddressBook())
            with sw.row():
                self._button = sw.button(
                    action.verb, self._run, look=sw.PRIMARY, testid=f"run-{slug}"
                )
            with ui.element("div").props("role=status"):
                self._outcome = sw.told("sw-outcome sw-text", testid=f"outcome-{slug}")
        if action.recipient:
            ui.timer(0, self.learn_names, once=True)

    async def _run(self) -> None:
        if self._action.recipient:
            # By today's names: a wallet or a contact may be new, or be called otherwise.
            await self.learn_names()
        try:
            values = self._form.values()
        except FormError:
            return
        wallet, key = self._wallet(), self._key(values)
        if not await self._agreed(wallet, values):
            return
        self._button.props("loading")
        try:
            with sw.disabled(self._button):
                self._notify(await self._action.run(wallet.id, values, key), good=True)
            self._open = None
        except SolwardError as error:
            self._failed(error, values)
        finally:
            self._button.props(remove="loading")

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
        sw.notify_error(error)
        said = str(error)
        if key is not None:
            said += f" Whether it was paid is not known: {self._action.verb} again with the same"
            said += " values tells, and pays at most once."
        self._notify(said, good=False)

    def _notify(self, said: str, *, good: bool) -> None:
        self._outcome.set_text(said)
        sw.set_class(self._outcome, "sw-outcome-good", good)
        sw.set_class(self._outcome, "sw-outcome-bad", not good)


class SkillChooser:
    """Any skill that is loaded, and its form."""

    def __init__(self, wallet: Callable[[], Wallet]) -> None:
        self._wallet = wallet
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
                ActionPanel(of_skill(skill), self._wallet)


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {_value_text(value)}" for name, value in values.items()]


async def _facts(values: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for; addresses with their names, where the service says them."""
    people = People()
    with suppress(SolwardError):
        people = await People.ask()
    found = []
    for name, value in values.items():
        said = _value_text(value)
        if name == "to" and isinstance(value, str):
            said = f"{value.strip()}\n{people.warned(value.strip())}"
        found.append((fields[name].get("title", in_words(name)), said))
    return found


async def _can_leave(wallet_id: str) -> str:
    try:
        sentence = (await api().wallets.limits(wallet_id))["canLeave"]["sentence"]
    except SolwardError as error:
        return f"What can leave the wallet is not known: {error}"
    return str(sentence)


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
