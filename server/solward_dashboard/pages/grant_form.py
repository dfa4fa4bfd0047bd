"""The dialog of a new grant: its fields, its sentence, and what it would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from solward.client import Policy
from solward.resources.declare import declared_fields
from solward.resources.fields import Choice, Choices, Field, Texts
from solward.resources.grant_form import SUBJECTS, GrantForm, form_values
from solward.resources.policy import (
    DRAFT_DAYS,
    DRAFT_NEWEST,
    SHOWN_CHANGES,
    DraftedLeaving,
    Replay,
    ReplayedChange,
)
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, submit_buttons, titled_dialog
from solward_dashboard.leaving import asset_name, most_text
from solward_dashboard.links import address_of
from solward_dashboard.wording import People, day

_ABOUT = (
    "A grant says what an agent, a key or a schedule may spend, and to whom. Fill in the fields, or"
    ' write the sentence, such as "scout can send alice 5 USDC a day, ask me above 2".'
)
_ANY = "any amount"
_MISSING = "Choose whom the grant is for, what may leave, and how much."
_BEYOND = "The sentence says more than the fields can: a changed field writes a new sentence."
_ENDS: Final = {
    "refused": "would have been refused",
    "held": "would have waited for a person",
    "allowed": "would have been allowed",
    "unknown": "cannot be judged without a price",
}


async def consequences(document: Mapping[str, Any]) -> list[str]:
    """Return what a policy would have changed in the last days, or why it is not known."""
    try:
        found = await _replay(document)
    except SolwardError as error:
        return [_unknown_text(error)]
    texts = [changed_text(found)]
    return texts + [change_text(each) for each in found.changes[:SHOWN_CHANGES]]


async def _replay(document: Mapping[str, Any]) -> Replay:
    return await api().policy.replay(days=DRAFT_DAYS, newest=DRAFT_NEWEST, draft=document)


def _unknown_text(error: SolwardError) -> str:
    return f"What the new policy would have changed is not known: {error}"


def changed_text(replay: Replay) -> str:
    """Return how many of the past transactions would have ended differently, and how."""
    newest = f"newest {replay.judged:,}" if replay.omitted else f"{replay.judged:,}"
    of = f"Of the {newest} transactions in the last {replay.days} days"
    if not replay.judged:
        of = f"In the last {replay.days} days there was no transaction"
    elif not replay.changed:
        of += ", none would have ended differently"
    elif replay.changed > len(replay.changes):
        of += f", {replay.changed:,} would have ended differently"
    else:
        counts = Counter(each.now for each in replay.changes)
        of += ", " + ", ".join(f"{many:,} {_ENDS[now]}" for now, many in counts.items())
    omitted = f" {replay.omitted:,} older ones were not judged." if replay.omitted else ""
    unread = f" {replay.unread:,} cannot be read." if replay.unread else ""
    return f"{of}.{omitted}{unread}"


def change_text(each: ReplayedChange) -> str:
    """Return how one past transaction would have ended, and why."""
    why = f": {each.sentence}" if each.sentence else ""
    return f"A {each.type.replace('_', ' ')} was {each.then}, and would be {each.now}{why}"


def with_grant(document: Mapping[str, Any], grant: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's document with one more grant, which is after all others."""
    read_only = [each for each in document["readOnly"] if each != grant["who"]]
    return {**document, "grants": [*document["grants"], grant], "readOnly": read_only}


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A meaning of a written grant: the policy with it, its grants, and its sentences."""

    document: Mapping[str, Any]
    grants: Sequence[Mapping[str, Any]]
    sentences: Sequence[str]


async def _read_meanings(policy: Policy, written: str) -> list[_Meaning]:
    """Return what a grant's text or JSON can mean; raises `SolwardError` or `ValueError`."""
    if written.startswith("{"):
        draft = {"grants": [jsontext.read(written)], "book": policy.document["book"]}
        checked = await api().policy.check(draft)
        return [_meaning_of(policy, checked.grants, checked.sentences)]
    found = await api().policy.read(sentence=written)
    called = [f"{address} is {name}." for address, name in found.recipients.items()]
    return [_meaning_of(policy, each.grants, [*each.sentences, *called]) for each in found.readings]


def _meaning_of(
    policy: Policy, grants: Sequence[Mapping[str, Any]], sentences: Sequence[str]
) -> _Meaning:
    document: Mapping[str, Any] = policy.document
    for grant in grants:
        document = with_grant(document, grant)
    return _Meaning(document, grants, sentences)


async def ask_new_grant(policy: Policy, people: People, who: str) -> Mapping[str, Any] | None:
    """Return the policy with a grant that a person made and agreed to, or None.

    Args:
        who: the principal that is chosen at first; empty for none.
    """
    with titled_dialog("Add a grant", wide=True) as dialog:
        _NewGrant(dialog, policy, people, who)
    found: Mapping[str, Any] | None = await result_of(dialog)
    return found


class _GrantFields:
    """The fields that make a grant's sentence."""

    def __init__(self, people: People, who: str) -> None:
        self._people = people
        whom = {
            each: people.called(each)
            for each in dict.fromkeys([*people.names, who])
            if each.partition(":")[0] in SUBJECTS
        }
        many = Counter(whom.values())
        # The sentence calls these by their ids, the others by their names.
        self._alike = {each for each, name in whom.items() if many[name] > 1}
        self._whom = whom | {each: f"{whom[each]} ({each})" for each in self._alike}
        first = who if who in whom else None
        with ui.element("div").classes("sw-fields"):
            self.inputs: dict[str, Any] = {
                "who": sw.field_choice("Who", self._whom, first, testid="")
            }
            for name, each in declared_fields(GrantForm).items():
                if name not in SUBJECTS:
                    self.inputs[name] = self._make_input(each)
        for name, made in self.inputs.items():
            made.classes(f"sw-field sw-field-{name}").props("outlined dense hide-bottom-space")
            sw.marked(made, f"grant-{name}")

    def _make_input(self, field: Field) -> ui.select | ui.input:
        made: ui.select | ui.input
        if isinstance(field, Choice):
            made = ui.select([*field.options], value=field.default, label=field.label)
        elif isinstance(field, Choices):
            made = ui.select([*field.options], multiple=True, label=field.label)
        elif isinstance(field, Texts):
            names = [*self._people.book.suggested, "own"]
            made = ui.select(names, multiple=True, label=field.label, new_value_mode="add-unique")
            # The list would cover the other fields until one leaves this field by Tab.
            made.on_value_change(lambda: made.run_method("hidePopup"))
        else:
            made = ui.input(field.label).props("autocomplete=off debounce=300")
        made.props["hint"] = field.text
        return made

    @property
    def sentence(self) -> str:
        """The sentence; empty while a field is missing without which there is none."""
        given = {name: each.value for name, each in self.inputs.items() if each.value}
        who = str(given.pop("who", ""))
        kind, _, own_id = who.partition(":")
        if kind:
            known = None if who in self._alike else self._people.names.get(who)
            given[kind] = known or own_id
        return GrantForm(**given).sentence

    def fill(self, grants: Sequence[Mapping[str, Any]]) -> bool:
        """Fill in the fields by grants as JSON; return whether the fields can say all of them."""
        values = form_values(grants)
        if values is None or values["who"] not in self._whom:
            return False
        names = {
            next(iter(of)): name for name, of in self._people.book.names.items() if len(of) == 1
        }
        values["to"] = [names.get(each, each) for each in values["to"]]
        options = [*self._people.book.suggested, "own", *values["to"]]
        self.inputs["to"].set_options([*dict.fromkeys(options)])
        for name, made in self.inputs.items():
            made.set_value(values[name])
        return True


class _NewGrant:
    """The dialog's content. The fields write the text, and a changed text fills in the fields.
    Beside them is what the text means and would change."""

    def __init__(self, dialog: ui.dialog, policy: Policy, people: People, who: str) -> None:
        self._policy, self._people = policy, people
        self._meanings: list[_Meaning] = []
        self._judged: tuple[str, int | None] = ("", None)
        self._is_busy = self._is_filling = False
        # Only set once a person has seen what it would change.
        self._document: Mapping[str, Any] | None = None
        sw.text(_ABOUT)
        with ui.element("div").classes("sw-beside"):
            with sw.stack("sw-form"):
                self._fields = _GrantFields(people, who)
                self._written = ui.textarea("Grant", on_change=self._follow)
                self._written.props("outlined autogrow debounce=400")
            with sw.stack("sw-form").props("role=status"):
                self._hint = sw.optional_text("sw-dim sw-text")
                self._error = sw.error_text()
                self._choices = sw.marked(ui.radio({}, on_change=self._follow), "meanings")
                self._said = sw.optional_text("sw-text sw-outcome sw-outcome-good", testid="said")
                self._effects = sw.marked(sw.stack("sw-form"), "consequences")
        _, self._save = submit_buttons(dialog, "Save", lambda: dialog.submit(self._document))
        for each in self._fields.inputs.values():
            each.on_value_change(self._write)
        self._offer_meanings()
        self._clear()

    @property
    def _current(self) -> tuple[str, int | None]:
        return str(self._written.value or "").strip(), self._choices.value

    def _write(self) -> None:
        if not self._is_filling:
            self._written.set_value(self._fields.sentence)

    def _clear(self) -> None:
        """Remove what was said of an earlier text, which can no longer be saved."""
        self._document = None
        self._save.set_visibility(False)
        for each in (self._error, self._said):
            each.set_text("")
        self._effects.clear()

    async def _follow(self) -> None:
        """Judge the text and the choice until they no longer change, one request at a time."""
        if self._judged != self._current:
            self._clear()
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while not self._written.is_deleted and self._judged != self._current:
                await self._judge()
        finally:
            self._is_busy = False

    async def _judge(self) -> None:
        """Read a text that is new, and show what its only or chosen meaning would change."""
        (before, _), (text, _) = self._judged, self._current
        self._judged = self._current
        if text != before:
            self._meanings = []
            try:
                self._meanings = await _read_meanings(self._policy, text) if text else []
            except (SolwardError, ValueError) as refused:
                self._error.set_text(str(refused))
            if self._written.is_deleted or text != self._current[0]:
                return
            self._offer_meanings()
        if self._judged[1] is not None:
            await self._show(self._meanings[self._judged[1]])

    def _offer_meanings(self) -> None:
        many, text = len(self._meanings), self._current[0]
        options = {at: " ".join(each.sentences) for at, each in enumerate(self._meanings)}
        self._choices.set_options(options, value=0 if many == 1 else None)
        self._choices.set_visibility(many > 1)
        self._judged = self._current
        self._hint.set_text("" if text else _MISSING)
        if many > 1:
            self._hint.set_text("This can mean several things. Choose what you mean:")
        elif many == 1 and text != self._fields.sentence:
            self._is_filling = True
            fits = self._fields.fill(self._meanings[0].grants)
            self._is_filling = False
            self._hint.set_text("" if fits else _BEYOND)

    async def _show(self, meaning: _Meaning) -> None:
        """Show a meaning, and then what it would change; only then it can be saved."""
        self._said.set_text("\n".join(meaning.sentences))
        with self._effects:
            sw.dim("Asking the service what this would change …")
        try:
            found: Replay | str = await _replay(meaning.document)
        except SolwardError as error:
            found = _unknown_text(error)
        if self._written.is_deleted or self._judged != self._current:
            return
        self._effects.clear()
        with self._effects:
            if isinstance(found, str):
                sw.text(found, "sw-bad sw-text")
            else:
                _show_effects(found, self._people)
        # A text that was changed and changed back removed it.
        self._said.set_text("\n".join(meaning.sentences))
        self._document = meaning.document
        self._save.set_visibility(True)


def _show_effects(found: Replay, people: People) -> None:
    for each in found.can_leave:
        _show_leaving(each, people)
    if found.wallets > len(found.can_leave):
        sw.dim(
            f"It concerns {found.wallets:,} wallets; the first {len(found.can_leave)} are shown."
        )
    sw.text(changed_text(found))
    for change in found.changes[:SHOWN_CHANGES]:
        with ui.element("div"):
            of = "hold" if change.then == "held" else "transaction"
            ui.link(day(change.timestamp), address_of(f"{of}:{change.transaction_id}"))
            sw.text(change_text(change))


def _show_leaving(found: DraftedLeaving, people: People) -> None:
    """Show what can leave a wallet, a row for each asset."""
    before, after = found.before.assets, found.after.assets
    with ui.element("table").classes("sw-before-after"):
        with ui.element("caption"):
            ui.label(f"What can leave wallet {people.wallet(found.wallet_id)} in a day")
        _show_row("th", "Asset", "Now", "With the grant")
        for asset in {**before, **after}:
            # An asset that is not listed is any other.
            texts = [_day_text(asset, each.get(asset, each["*"])) for each in (before, after)]
            _show_row("td", asset_name(asset), *texts)


def _day_text(asset: str, bound: Mapping[str, Any]) -> str:
    if bound["most"] is None:
        return _ANY
    return "nothing" if bound["most"] == "0" else most_text(asset, bound).removeprefix("at most ")


def _show_row(tag: str, *texts: str) -> None:
    with ui.element("tr"):
        for each in texts:
            with ui.element(tag):
                ui.label(each).classes("sw-bad" if each == _ANY else "")
