"""The policy page: what each principal may do, as sentences, and the address book."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import Policy
from solward.types.roles import Role
from solward_dashboard import parts as sw
from solward_dashboard.api import api, role
from solward_dashboard.dialogs import confirmed
from solward_dashboard.frame import Poll, frame
from solward_dashboard.pages.grant_form import ask_new_grant, consequences
from solward_dashboard.wording import People

EVERY_S = 10.0
_NOBODY = (
    "There are no grants: agents and keys are bound only by their limits in SOL, and may swap any"
    " token. A principal with grants can do only what they allow."
)


def page(grant: str | None = None) -> None:
    """Build the page once for a visitor; it is rebuilt when the policy changes.

    Args:
        grant: the principal, or "", for which the dialog of a new grant is opened.
    """
    with frame("/policy") as freshness:
        latest: list[tuple[Policy, People]] = []
        asked = [grant] if grant is not None and role() is Role.POLICY else []

        async def add() -> None:
            who = asked.pop() if asked else ""
            document = await ask_new_grant(*latest[0], who) if latest else None
            if document is not None:
                await _replace_policy(document, "The grant is in force")

        def show(found: tuple[Policy, People]) -> None:
            if asked and not latest:
                button.run_method("click")
            latest[:] = [found]
            shown.show(found)

        with sw.row():
            ui.space()
            button = sw.button("Add a grant", add, icon="add", look=sw.PRIMARY, needs=sw.POLICY)
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
