"""The policy page: what each principal may do, as sentences, and the address book."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from solward.client import Policy
from solward.resources.policy import Replay
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, submit_buttons, titled_dialog
from solward_dashboard.frame import Poll, frame
from solward_dashboard.wording import People

EVERY_S = 10.0
_REPLAYED_DAYS = 7
_SHOWN_CHANGES = 3
_NOBODY = (
    "There are no grants: agents and keys are bound only by their limits in SOL, and may swap any"
    " token. A principal with grants can do only what they allow."
)


def page() -> None:
    """Build the page once for a visitor; it is rebuilt when the policy changes."""
    with frame("/policy") as freshness:
        latest: list[Policy] = []

        async def add() -> None:
            document = await _ask_new_grant(latest[0]) if latest else None
            if document is not None:
                await _replace_policy(document, "The grant is in force")

        def show(found: tuple[Policy, People]) -> None:
            latest[:] = found[:1]
            shown.show(found)

        with sw.row():
            ui.space()
            sw.button("Add a grant", add, icon="add", look=sw.PRIMARY, needs=sw.POLICY)
        shown = sw.LiveContent(_show_policy, "sw-stack")
        Poll(freshness, EVERY_S, _fetch_policy, show)


async def _fetch_policy() -> tuple[Policy, People]:
    return await asyncio.gather(api().policy.get(), People.ask())


async def _replace_policy(document: Mapping[str, Any], done: str) -> None:
    """Replace the policy; the service refuses (409) if it has changed since it was shown."""
    await api().policy.replace(document)
    ui.notify(done, type="positive")


async def _narrow(
    document: Mapping[str, Any], question: str, details: Sequence[str], verb: str, done: str
) -> None:
    if await confirmed(question, [*details, *await consequences(document)], verb):
        await _replace_policy(document, done)


async def _remove_grant(policy: Policy, at: int) -> None:
    who = str(policy.grants[at]["who"])
    details = [policy.sentences[at]]
    if [each["who"] for each in policy.grants].count(who) == 1:
        left = "not be paid" if _is_site(who) else "only read"
        details.append(f"This is the last grant of {who}: without it {who} may {left}.")
    done = "The grant is removed"
    await _narrow(without_grant(policy, at), "Remove this grant?", details, "Remove", done)


async def _only_read(policy: Policy, who: str) -> None:
    question, done = (f"Let {who} only read?", f"{who} may only read")
    if _is_site(who):
        question, done = (f"Let nobody pay {who}?", f"{who} may not be paid")
    details = [f"All grants of {who} are removed."]
    await _narrow(with_read_only(policy, who), question, details, _withdraw_label(who), done)


def _is_site(who: str) -> bool:
    return who.startswith("site:")


def _withdraw_label(who: str) -> str:
    """Return the label of the button that takes the grants away, but keeps who is under grants."""
    return "Pay nothing" if _is_site(who) else "Only read"


async def consequences(document: Mapping[str, Any]) -> list[str]:
    """Return what a policy would have changed in the last days, or why it is not known."""
    try:
        found = await api().policy.replay(days=_REPLAYED_DAYS, draft=document)
    except SolwardError as error:
        return [f"What the new policy would have changed is not known: {error}"]
    return consequence_texts(found)


def consequence_texts(replay: Replay) -> list[str]:
    """Return a replay as sentences: how many outcomes differ, and the first ones."""
    of = f"Of {replay.judged:,} transactions in the last {replay.days} days,"
    if not replay.changed:
        return [f"{of} none would have ended differently."]
    texts = [f"{of} {replay.changed:,} would have ended differently."]
    for each in replay.changes[:_SHOWN_CHANGES]:
        why = f": {each.sentence}" if each.sentence else ""
        kind = each.type.replace("_", " ")
        texts.append(f"A {kind} was {each.then}, and would be {each.now}{why}")
    return texts


def without_grant(policy: Policy, at: int) -> dict[str, Any]:
    """Return the document without one grant. If this was its principal's last grant, the document
    makes the principal read-only, because a principal without any mention may do more."""
    who = policy.grants[at]["who"]
    kept = [each for number, each in enumerate(policy.grants) if number != at]
    read_only = [*policy.read_only]
    if all(each["who"] != who for each in kept):
        read_only.append(who)
    return {**policy.document, "grants": kept, "readOnly": read_only}


def with_read_only(policy: Policy, who: str) -> dict[str, Any]:
    """Return the document in which a principal may only read."""
    kept = [each for each in policy.grants if each["who"] != who]
    return {**policy.document, "grants": kept, "readOnly": [*policy.read_only, who]}


def with_grant(document: Mapping[str, Any], grant: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's document with one more grant, which is after all others."""
    read_only = [each for each in document["readOnly"] if each != grant["who"]]
    return {**document, "grants": [*document["grants"], grant], "readOnly": read_only}


def _show_policy(found: tuple[Policy, People]) -> None:
    policy, people = found
    if not policy.sentences:
        ui.label(_NOBODY).classes("sw-empty")
    of: dict[str, list[int]] = {}
    for at, each in enumerate(policy.grants):
        of.setdefault(str(each["who"]), []).append(at)
    for who, numbers in of.items():
        _show_principal(policy, people, who, numbers)
    if policy.read_only:
        with sw.card("Principals without a grant", "read-only"):
            for sentence in policy.sentences[len(policy.grants) :]:
                sw.text(sentence)
    with sw.card("Address book", "book"), sw.stack("sw-list"):
        none = "No group yet. In a grant, @name stands for the addresses of a group."
        sw.show_list(policy.book.items(), lambda each: _show_group(*each, people), none)


def _show_principal(policy: Policy, people: People, who: str, numbers: Sequence[int]) -> None:
    with sw.at_place(sw.card(), who):
        with sw.row():
            sw.heading(people.called(who)).classes("sw-text")
            ui.space()
            only = sw.button(_withdraw_label(who), lambda: _only_read(policy, who), needs=sw.POLICY)
            said = f"Pay {who} nothing" if _is_site(who) else f"Let {who} only read"
            only.props["aria-label"] = said
        with sw.stack("sw-list"):
            for at in numbers:
                with sw.row("sw-nowrap"):
                    sw.text(policy.sentences[at], "sw-text sw-grow")
                    of = f"grant {at + 1}"
                    sw.button("Remove", partial(_remove_grant, policy, at), needs=sw.POLICY, of=of)


def _show_group(name: str, addresses: Sequence[str], people: People) -> None:
    with ui.element("div"):
        sw.text(f"@{name}", "sw-strong")
        for address in addresses:
            with sw.row():
                sw.text(address, "sw-mono")
                sw.copy_button(address, "Address")
                called = people.book.called.get(address, "")
                # An address without a contact has the group's name, which is shown already.
                sw.dim("" if called.startswith("@") else called)


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A meaning of a written grant: the policy with it, and its sentences."""

    document: Mapping[str, Any]
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
    return _Meaning(document, sentences)


async def _ask_new_grant(policy: Policy) -> Mapping[str, Any] | None:
    """Return the policy with a grant that a person wrote, read as a sentence and agreed to."""
    checked: list[Mapping[str, Any]] = []
    meanings: list[_Meaning] = []

    def clear_check() -> None:
        checked.clear()
        error.set_text("")
        choices.set_options({}, value=None)
        for each in (choices, said, changed, save):
            each.set_visibility(False)

    async def read() -> None:
        clear_check()
        written = (field.value or "").strip()
        try:
            meanings[:] = await _read_meanings(policy, written)
        except (SolwardError, ValueError) as refused:
            error.set_text(str(refused))
            return
        if (field.value or "").strip() == written:
            options = {at: " ".join(each.sentences) for at, each in enumerate(meanings)}
            choices.set_options(options, value=0 if len(meanings) == 1 else None)
            choices.set_visibility(len(meanings) > 1)

    async def choose(event: ValueChangeEventArguments[Any]) -> None:
        if event.value is None:
            return
        chosen = meanings[event.value]
        effects = await consequences(chosen.document)
        if choices.value == event.value:
            checked[:] = [chosen.document]
            said.set_text("\n".join(chosen.sentences))
            changed.set_text("\n".join(effects))
            for each in (said, changed, save):
                each.set_visibility(True)

    with titled_dialog("Add a grant", wide=True) as dialog:
        ui.label(
            "Write whom it is for, what it may do, how much in which period, and to whom, such as"
            ' "scout can send alice 5 USDC a day, ask me above 2". Or paste JSON. Nothing is'
            " stored before you have seen how it was understood."
        )
        field = ui.textarea("Grant", on_change=clear_check).props("outlined autogrow")
        error = sw.error_text()
        choices = ui.radio({}, on_change=choose).props('data-testid="meanings"')
        said = sw.text("", "sw-text sw-outcome sw-outcome-good", testid="said")
        changed = sw.marked(sw.dim(), "consequences")
        check = ui.button("Check", on_click=read).props('no-caps outline data-testid="check"')
        _, save = submit_buttons(dialog, "Save", lambda: dialog.submit(checked[0]))
    check.classes("sw-start")
    clear_check()
    found: Mapping[str, Any] | None = await result_of(dialog)
    return found
