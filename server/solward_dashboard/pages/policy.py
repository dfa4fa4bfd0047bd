"""The policy page: who may do what, as sentences, and the address book."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from solward.client import Policy
from solward.resources.policy import Replay
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import (
    confirmed,
    copy_button,
    heading,
    notify_error,
    result_of,
    titled,
)
from solward_dashboard.frame import Poll, frame
from solward_dashboard.people import People

EVERY_S = 10.0
_REPLAYED_DAYS = 7
_SHOWN_CHANGES = 3
_NOBODY = (
    "Nobody is under grants: agents and keys are bounded by their limits in SOL, and may swap any"
    " token. A grant puts its principal under grants: from then on it may do what they say, and"
    " nothing else."
)


def page() -> None:
    """Built once a visitor; built anew when the policy has changed."""
    with frame("/policy") as freshness:
        editor = _Editor()
        with ui.element("div").classes("sw-row"):
            ui.space()
            new = ui.button("Add a grant", icon="add", on_click=editor.add)
            new.props("no-caps unelevated").classes("sw-needs-policy")
        place = ui.element("div").classes("sw-stack")

        shown = People()

        def show(found: tuple[Policy, People]) -> None:
            nonlocal shown
            policy, people = found
            is_shown = editor.policy is not None and editor.policy.raw == policy.raw
            if is_shown and people == shown:
                return
            editor.policy, shown = policy, people
            place.clear()
            with place:
                _grants(policy, people, editor)
                _book(policy, people)

        poll = Poll(freshness, EVERY_S, _fetch, show)
        editor.changed = poll.refresh


async def _fetch() -> tuple[Policy, People]:
    policy, agents, keys, contacts = await asyncio.gather(
        api().policy.get(), api().agents.list(), api().keys.list(), api().contacts.list()
    )
    return policy, People.of(agents=agents, keys=keys, contacts=contacts)


class _Editor:
    """Changes of the policy that is shown; one that is another by now is refused (409)."""

    def __init__(self) -> None:
        self.policy: Policy | None = None
        self.changed = _nothing
        # Not in the list: what is in it goes when it is built anew.
        self._dialogs = ui.element("div").classes("hidden")

    async def add(self) -> None:
        if self.policy is not None:
            with self._dialogs:
                document = await _new_grant(self.policy)
            if document is not None:
                await self._replace(document, "The grant is in force")

    async def remove(self, policy: Policy, at: int) -> None:
        who = str(policy.grants[at]["who"])
        details = [policy.sentences[at]]
        if [each["who"] for each in policy.grants].count(who) == 1:
            left = "not be paid" if _is_site(who) else "only read"
            details.append(f"It is its last one: it may {left} then.")
        document = without(policy, at)
        with self._dialogs:
            details += await consequences(document)
            agreed = await confirmed("Remove this grant?", details, "Remove")
        if agreed:
            await self._replace(document, "The grant is removed")

    async def only_read(self, policy: Policy, who: str) -> None:
        question, done = ("Let it only read?", "It may only read")
        if _is_site(who):
            question, done = ("Let nobody pay it?", "It may not be paid")
        document = reading(policy, who)
        with self._dialogs:
            details = [who, "Its grants go.", *await consequences(document)]
            agreed = await confirmed(question, details, _withdraw(who))
        if agreed:
            await self._replace(document, done)

    async def _replace(self, document: Mapping[str, Any], done: str) -> None:
        try:
            await api().policy.replace(document)
        except SolwardError as error:
            notify_error(error)
        else:
            ui.notify(done, type="positive")
        await self.changed()


def _is_site(who: str) -> bool:
    return who.startswith("site:")


def _withdraw(who: str) -> str:
    """What takes all of a principal's grants away, and leaves it under grants."""
    return "Pay nothing" if _is_site(who) else "Only read"


async def _nothing() -> None:
    return


async def consequences(document: Mapping[str, Any]) -> list[str]:
    """What a policy would have said otherwise of the last days, or that this is not known."""
    try:
        found = await api().policy.replay(days=_REPLAYED_DAYS, draft=document)
    except SolwardError as error:
        return [f"What it would have changed is not known: {error}"]
    return consequence_texts(found)


def consequence_texts(replay: Replay) -> list[str]:
    """A replay in words; the first of what is changed one by one."""
    of = f"Of {replay.judged:,} transactions of the last {replay.days} days"
    if not replay.changed:
        return [f"{of} none would have ended otherwise."]
    texts = [f"{of} {replay.changed:,} would have ended otherwise."]
    for each in replay.changes[:_SHOWN_CHANGES]:
        why = f": {each.sentence}" if each.sentence else ""
        kind = each.type.replace("_", " ")
        texts.append(f"A {kind} was {each.then}, and would be {each.now}{why}")
    return texts


def without(policy: Policy, at: int) -> dict[str, Any]:
    """The document without one grant. A principal whose last one it was may only read: without
    being named at all it would be under no grants, and may do more."""
    who = policy.grants[at]["who"]
    kept = [each for number, each in enumerate(policy.grants) if number != at]
    read_only = [*policy.read_only]
    if all(each["who"] != who for each in kept):
        read_only.append(who)
    return {**policy.document, "grants": kept, "readOnly": read_only}


def reading(policy: Policy, who: str) -> dict[str, Any]:
    """The document with a principal that may only read."""
    kept = [each for each in policy.grants if each["who"] != who]
    return {**policy.document, "grants": kept, "readOnly": [*policy.read_only, who]}


def with_grant(policy: Policy, grant: Mapping[str, Any]) -> dict[str, Any]:
    """The document with one grant more, the last that is looked at."""
    read_only = [each for each in policy.read_only if each != grant["who"]]
    return {**policy.document, "grants": [*policy.grants, grant], "readOnly": read_only}


def _grants(policy: Policy, people: People, editor: _Editor) -> None:
    if not policy.sentences:
        ui.label(_NOBODY).classes("sw-empty")
    of: dict[str, list[int]] = {}
    for at, each in enumerate(policy.grants):
        of.setdefault(str(each["who"]), []).append(at)
    for who, numbers in of.items():
        with ui.element("section").classes("sw-card"):
            with ui.element("div").classes("sw-row"):
                heading(people.called(who)).classes("sw-text")
                ui.space()
                only = ui.button(_withdraw(who), color=None).props("outline no-caps")
                only.classes("sw-needs-policy")
                only.props["aria-label"] = (
                    f"Pay {who} nothing" if _is_site(who) else f"Let {who} only read"
                )
                only.on_click(lambda who=who: editor.only_read(policy, who))
            with ui.element("div").classes("sw-list"):
                for at in numbers:
                    with ui.element("div").classes("sw-row sw-nowrap"):
                        ui.label(policy.sentences[at]).classes("sw-text sw-grow")
                        remove = ui.button("Remove", color=None).props("outline no-caps")
                        remove.classes("sw-needs-policy")
                        remove.props["aria-label"] = f"Remove grant {at + 1}"
                        remove.on_click(lambda at=at: editor.remove(policy, at))
    if policy.read_only:
        with ui.element("section").classes("sw-card").props('data-testid="read-only"'):
            heading("Under grants, and without one")
            for sentence in policy.sentences[len(policy.grants) :]:
                ui.label(sentence).classes("sw-text")


def _book(policy: Policy, people: People) -> None:
    with ui.element("section").classes("sw-card").props('data-testid="book"'):
        heading("Address book")
        with ui.element("div").classes("sw-list"):
            if not policy.book:
                ui.label("No name yet; a grant's @name stands for addresses here.").classes(
                    "sw-dim"
                )
            for name, addresses in policy.book.items():
                with ui.element("div"):
                    ui.label(f"@{name}").classes("sw-strong")
                    for address in addresses:
                        with ui.element("div").classes("sw-row"):
                            ui.label(address).classes("sw-mono")
                            copy_button(address, "Address")
                            called = people.book.called.get(address, "")
                            # Without a contact it has the group's name, which is there already.
                            is_contact = not called.startswith("@")
                            ui.label(called if is_contact else "").classes("sw-dim")


async def _new_grant(policy: Policy) -> dict[str, Any] | None:
    """The policy with a grant that a person wrote, read as a sentence, and agreed to."""
    checked: list[dict[str, Any]] = []
    with titled("Add a grant", wide=True) as dialog:
        ui.label("A sentence, or JSON. It is shown as the service reads it before it is in force.")
        text = ui.textarea("Grant").props("outlined autogrow").classes("sw-field")
        error = ui.label().classes("sw-error").props("role=alert")
        said = ui.label().classes("sw-text sw-outcome sw-outcome-good")
        said.props('data-testid="said"').set_visibility(False)
        changed = ui.label().classes("sw-dim sw-text").props('data-testid="consequences"')
        changed.set_visibility(False)
        with ui.element("div").classes("sw-decide"):
            back = ui.button("Cancel", color=None, on_click=lambda: dialog.submit(None))
            back.props("outline no-caps")
            check = ui.button("Check").props('no-caps unelevated data-testid="check"')
            save = ui.button("Save").props('no-caps unelevated data-testid="confirm"')
        save.set_visibility(False)

    def unread() -> None:
        checked.clear()
        error.set_text("")
        for each in (said, changed, save):
            each.set_visibility(False)

    async def read() -> None:
        unread()
        written = text.value or ""
        try:
            grant = written_grant(written)
            book = policy.document["book"]
            (one,) = (await api().policy.check({"grants": [grant], "book": book})).grants
            document = with_grant(policy, one)
            whole = await api().policy.check(document)
            effects = await consequences(document)
        except (SolwardError, ValueError) as refused:
            error.set_text(str(refused))
            return
        if (text.value or "") == written:
            checked[:] = [document]
            said.set_text(whole.sentences[len(whole.grants) - 1])
            changed.set_text("\n".join(effects))
            for each in (said, changed, save):
                each.set_visibility(True)

    text.on_value_change(unread)
    check.on_click(read)
    save.on_click(lambda: dialog.submit(checked[0]) if checked else None)
    found = await result_of(dialog)
    return None if found is None else dict(found)


def written_grant(text: str) -> Any:
    """JSON where it begins so, else the sentence; raises `ValueError` where it is not JSON."""
    text = text.strip()
    return jsontext.read(text) if text.startswith("{") else text
