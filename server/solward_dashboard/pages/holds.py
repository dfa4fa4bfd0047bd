"""The page of holds: the open ones, with the rest of the wallet's limits after each; and the
results of earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from nicegui import ui

from solward.client import Hold
from solward.resources.declare import fields_of
from solward.resources.holds import HoldNote
from solward.solana.token_list import TokenList, token_list
from solward.types.errors import SolwardError
from solward.types.money import SOL_DECIMALS
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import ask_note
from solward_dashboard.frame import Poll, frame, frame_of_one
from solward_dashboard.leaving import left_texts, line_texts, units_text
from solward_dashboard.links import address_of, list_address, show_thing
from solward_dashboard.wording import People, day, exact, time_left

EVERY_S = 3.0
# One agent or key has at most 20 open holds.
_OPEN = 500
_ENDED = 20
(NOTE,) = fields_of(HoldNote)
_CLASSES = {
    "held": "sw-held",
    "approved": "sw-pending",
    "executed": "sw-confirmed",
    "refused": "sw-failed",
    "denied": "sw-blocked",
    "expired": "sw-idle",
}
_ENDS = {
    "approved": "Approved, but not carried out yet.",
    "executed": "Approved and carried out.",
    "refused": "Approved, but then refused, because all limits were checked again.",
    "denied": "Denied. Nothing was sent.",
    "expired": "Nobody decided in time. Nothing was sent.",
}
_STATES = {"held": "waits for you"}


@dataclass(frozen=True, slots=True)
class DisplayContext:
    """The names and tokens for the cards of holds."""

    people: People
    tokens: TokenList


ShownHolds: TypeAlias = tuple[Sequence[Hold], DisplayContext]


def hold_cards(empty: str, testid: str, *, compact: bool = False) -> sw.LiveContent[ShownHolds]:
    """Return a card for each hold, rebuilt when a hold changes.

    Args:
        empty: the text if there is no hold.
        compact: leaves out what the sentence says too, for a page with more on it.
    """

    def build(shown: ShownHolds) -> None:
        holds, context = shown
        if not holds:
            ui.label(empty).classes("sw-empty")
        with sw.marked(ui.element("ul").classes("sw-stack"), testid):
            for each in holds:
                _add_card(each, context, compact=compact)

    return sw.LiveContent(build, "sw-stack", of=lambda shown: shown[0])


def _add_card(hold: Hold, context: DisplayContext, *, compact: bool) -> None:
    with sw.marked(ui.element("li").classes("sw-card"), f"hold-{hold.id}"):
        with sw.row():
            ui.badge(_STATES.get(hold.state, hold.state)).classes(_CLASSES[hold.state])
            title = hold.type.replace("_", " ")
            ui.link(title, address_of(f"hold:{hold.id}")).classes("sw-strong")
            ui.space()
            sw.dim(day(hold.created_at))
        sw.text(hold.sentence, "sw-text sw-sentence")
        if hold.state != "held":
            _add_outcome(hold)
        for reason in hold.reasons:
            if reason not in hold.sentence:
                sw.text(reason)
        with sw.facts():
            _add_facts(hold, context, compact=compact)
        if hold.state == "held":
            with sw.stack("sw-decide"):
                _add_button(hold, context, "Deny", sw.OUTLINE, sw.OPERATE)
                _add_button(hold, context, "Approve", sw.PRIMARY, sw.POLICY)


def _add_facts(hold: Hold, context: DisplayContext, *, compact: bool) -> None:
    if not compact:
        with sw.fact_of("Asked by"):
            show_thing(hold.principal, context.people)
        with sw.fact_of("From wallet"):
            wallet = f"wallet:{hold.wallet_id}"
            show_thing(wallet, context.people, context.people.wallet(hold.wallet_id))
        with sw.fact_of("See also", "sw-row"):
            ui.link("its grants", address_of(f"grants:{hold.principal}"))
            ui.link("audit log", list_address("/audit", about=hold.id, wallet=hold.wallet_id))
    for line in hold.lines:
        leaves = "\n".join(line_texts(line, context.tokens, context.people))
        sw.fact(f"Leaves by {line['operation']}", leaves, "sw-mono sw-pre")
    if not hold.lines:
        sw.fact("Leaves", "nothing but fee and rent")
    sw.lines(_effect_texts(hold, context), "sw-mono")
    if hold.state == "held":
        with sw.fact_of("May be approved until"):
            sw.Age(hold.expires_at, _deadline_text)
        if hold.repeats:
            sw.fact("If approved", "carried out once the request is repeated before that time")
    if hold.decided_by is not None and hold.decided_at is not None:
        with sw.fact_of("Decided by", "sw-row"):
            show_thing(hold.decided_by, context.people)
            sw.text(day(hold.decided_at))
    if hold.note is not None:
        sw.fact("Note", hold.note)


def _effect_texts(hold: Hold, context: DisplayContext) -> list[tuple[str, str]]:
    arrives = [
        ("Arrives at least", units_text(mint, units, context.tokens))
        for mint, units in hold.arrives.items()
    ]
    return [*arrives, ("Maximum fee and rent", f"{exact(hold.costs_sol)} SOL")]


def _add_outcome(hold: Hold) -> None:
    good = hold.state in ("executed", "approved")
    with sw.stack(f"sw-outcome {'sw-outcome-good' if good else 'sw-outcome-bad'}"):
        sw.marked(ui.label(_ENDS[hold.state]), f"end-{hold.id}")
        if hold.transaction_id is not None:
            ui.link("Show the transaction", address_of(f"transaction:{hold.transaction_id}"))


def _add_button(hold: Hold, context: DisplayContext, verb: str, look: str, needs: str) -> None:
    async def decide() -> None:
        note = await _ask_decision_note(hold, context, verb)
        if note is not None:
            call = api().holds.approve if verb == "Approve" else api().holds.deny
            ended = await call(hold.id, note=note or None)
            ui.notify(f"The hold is {ended.state}.", type="positive")

    sw.button(verb, decide, look=look, needs=needs, testid=f"{verb.lower()}-{hold.id}")


async def _ask_decision_note(hold: Hold, context: DisplayContext, verb: str) -> str | None:
    """Return a decision's note, maybe empty; None if the person does not confirm."""
    left = await _rest_of_limits(hold) if verb == "Approve" else []

    def build() -> None:
        sw.text(hold.sentence, "sw-text sw-sentence", testid="asked")
        for line in hold.lines:
            with ui.element("div"):
                amount, *to = line_texts(line, context.tokens, context.people)
                sw.text(amount, "sw-strong")
                for each in to:
                    sw.text(each, "sw-mono")
        if verb == "Approve":
            with sw.facts():
                sw.lines(_effect_texts(hold, context))
                sw.fact("Rest of the wallet's limits after the transaction", "\n".join(left))
                sw.fact("May be approved until", _deadline_text(hold.expires_at))
            sw.dim("All limits are checked again. Approving does not override them.")

    return await ask_note(f"{verb} this transaction?", build, verb, NOTE)


async def _rest_of_limits(hold: Hold) -> list[str]:
    """Return the rest of each limit after a hold's transaction, or why it is not known."""
    lamports = sum(int(each["units"]) for each in hold.lines if each["asset"] == "SOL")
    taken = Decimal(lamports).scaleb(-SOL_DECIMALS)
    try:
        limits = await api().wallets.limits(hold.wallet_id)
    except SolwardError as error:
        return [f"not known: {error}"]
    return left_texts(limits, taken, hold.costs_sol)


def _deadline_text(expires_at: datetime) -> str:
    return f"{day(expires_at)} ({time_left(expires_at, datetime.now(UTC))})"


async def _display_context() -> DisplayContext:
    """Fetch the names and tokens for the cards of holds."""
    health, people = await asyncio.gather(api().health(), People.ask())
    return DisplayContext(people, token_list(health.network))


def page() -> None:
    """Build the page once for a visitor; cards are rebuilt when their holds change."""
    with frame("/holds") as freshness:
        waiting = hold_cards("No transaction waits for you.", "waiting")
        ui.label("Decided").classes("sw-name").props("role=heading aria-level=2")
        ended = hold_cards("No hold was decided yet.", "decided")

        def show(found: tuple[Sequence[Hold], Sequence[Hold], DisplayContext]) -> None:
            held, decided, context = found
            waiting.show((held, context))
            ended.show((decided, context))

        Poll(freshness, EVERY_S, _fetch_holds, show)


async def _fetch_holds() -> tuple[Sequence[Hold], Sequence[Hold], DisplayContext]:
    """Fetch all open holds, the newest decided holds, and the names for their cards."""
    held, decided = await asyncio.gather(
        api().holds.list(is_open=True, limit=_OPEN), api().holds.list(is_open=False, limit=_ENDED)
    )
    return held, decided, await _display_context()


def page_of_one(hold_id: str) -> None:
    """Build the page of one hold; messages to people may link to it."""
    with frame_of_one("/holds", "Hold", hold_id) as shown:
        cards = hold_cards("", "waiting")

        async def fetch() -> ShownHolds:
            hold = await api().holds.get(hold_id)
            return (hold,), await _display_context()

        shown.poll(EVERY_S, fetch, cards.show)
