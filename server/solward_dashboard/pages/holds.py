"""The inbox: what waits for a person, and what became of what waited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nicegui import ui

from solward.client import Hold, NotFoundError
from solward.solana.token_list import token_list
from solward_dashboard.api import api
from solward_dashboard.frame import Poll, frame, frame_of_one
from solward_dashboard.holds import DisplayContext, hold_cards
from solward_dashboard.pages.transactions.detail import show_record
from solward_dashboard.people import People

EVERY_S = 3.0
# At most 20 of one agent or key are open.
_OPEN = 500
_ENDED = 20
_RECORDS = 500


async def display_context(holds: Sequence[Hold]) -> DisplayContext:
    """What the cards of these holds need."""
    health, people = await asyncio.gather(api().health(), People.ask())
    ended = {each.wallet_id for each in holds if each.transaction_id is not None}
    known = sorted(each for each in ended if f"wallet:{each}" in people.names)
    found = await asyncio.gather(
        *(api().wallets.transactions(each, limit=_RECORDS) for each in known)
    )
    records = {each.id: each for some in found for each in some}
    return DisplayContext(people, token_list(health.network), records, health.network)


def page() -> None:
    """Built once a visitor; cards are built anew when their holds change."""
    with frame("/holds") as freshness:
        waiting = hold_cards(show_record, "Nothing waits for you.", "waiting")
        ui.label("Decided").classes("sw-name").props("role=heading aria-level=2")
        ended = hold_cards(show_record, "Nothing was decided yet.", "decided")

        def show(found: tuple[Sequence[Hold], Sequence[Hold], DisplayContext]) -> None:
            held, decided, context = found
            waiting.show((held, context))
            ended.show((decided, context))

        Poll(freshness, EVERY_S, _fetch, show)


async def _fetch() -> tuple[Sequence[Hold], Sequence[Hold], DisplayContext]:
    """Everything that waits, the newest of what ended, and what their cards need."""
    held, decided = await asyncio.gather(
        api().holds.list(is_open=True, limit=_OPEN), api().holds.list(is_open=False, limit=_ENDED)
    )
    return held, decided, await display_context((*held, *decided))


def one(hold_id: str) -> None:
    """The page of one hold, whose address a message to a person may have."""
    with frame_of_one("/holds", "Hold", hold_id) as shown:
        cards = hold_cards(show_record, "", "waiting")

        async def fetch() -> tuple[Sequence[Hold], DisplayContext] | None:
            try:
                hold = await api().holds.get(hold_id)
            except NotFoundError:
                return None
            return (hold,), await display_context((hold,))

        shown.poll(EVERY_S, fetch, cards.show)
