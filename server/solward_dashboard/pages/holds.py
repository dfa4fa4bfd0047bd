"""The inbox: what waits for a person, and what became of what waited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nicegui import ui

from solward.client import Hold, NotFoundError, Transaction
from solward.solana.token_list import token_list
from solward_dashboard.api import api
from solward_dashboard.frame import Poll, frame, frame_of_one
from solward_dashboard.holds import DisplayContext, HoldCards
from solward_dashboard.pages.transactions.detail import show_record
from solward_dashboard.people import People

EVERY_S = 3.0
# At most 20 of one agent or key are open.
_OPEN = 500
_ENDED = 20
_RECORDS = 500


@dataclass(frozen=True, slots=True)
class Inbox:
    """The holds, newest first, and what their cards need."""

    waiting: tuple[Hold, ...]
    ended: tuple[Hold, ...]
    context: DisplayContext


async def fetch() -> Inbox:
    """Everything that waits, and the newest of what ended."""
    waiting, ended = await asyncio.gather(
        api().holds.list(is_open=True, limit=_OPEN), api().holds.list(is_open=False, limit=_ENDED)
    )
    return Inbox(waiting, ended, await display_context((*waiting, *ended)))


async def fetch_one(hold_id: str) -> Inbox | None:
    """One hold; None where there is no such."""
    try:
        hold = await api().holds.get(hold_id)
    except NotFoundError:
        return None
    context = await display_context((hold,))
    return Inbox((hold,), (), context)


async def display_context(holds: Sequence[Hold]) -> DisplayContext:
    """What the cards of these holds need."""
    health, wallets, agents, keys, contacts = await asyncio.gather(
        api().health(),
        api().wallets.list(),
        api().agents.list(),
        api().keys.list(),
        api().contacts.list(),
    )
    people = People.of(wallets, agents, keys, contacts)
    known = {each.id for each in wallets}
    of = sorted({each.wallet_id for each in holds if each.transaction_id is not None} & known)
    found = await asyncio.gather(*(api().wallets.transactions(each, limit=_RECORDS) for each in of))
    records = {each.id: each for some in found for each in some}
    return DisplayContext(people, token_list(health.network), records, health.network)


def page() -> None:
    """Built once a visitor; cards are built anew when their holds change."""
    with frame("/holds") as freshness:

        async def refresh() -> None:
            await poll.refresh()

        waiting = HoldCards(refresh, open_record, "Nothing waits for you.", "waiting")
        ui.label("Decided").classes("sw-name").props("role=heading aria-level=2")
        ended = HoldCards(refresh, open_record, "Nothing was decided yet.", "decided")

        def show(inbox: Inbox) -> None:
            waiting.show(inbox.waiting, inbox.context)
            ended.show(inbox.ended, inbox.context)

        poll = Poll(freshness, EVERY_S, fetch, show)


def one(hold_id: str) -> None:
    """The page of one hold, whose address a message to a person may have."""
    with frame_of_one("/holds", "Hold") as (freshness, title):
        title.show(hold_id)
        ui.link("All approvals", "/holds").classes("sw-back")

        async def refresh() -> None:
            await poll.refresh()

        cards = HoldCards(refresh, open_record, "There is no such hold.", "waiting")

        def show(inbox: Inbox | None) -> None:
            if inbox is None:
                cards.show_none()
            else:
                cards.show(inbox.waiting, inbox.context)

        poll = Poll(freshness, EVERY_S, lambda: fetch_one(hold_id), show)


async def open_record(record: Transaction, context: DisplayContext) -> None:
    """The dialog of the record that a hold ended in."""
    await show_record(record, context.people.wallet(record.wallet_id), context.network)
