"""Holds as pages show them: what is asked, whole, what is left of a wallet's limits after it, and
the decision of a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Hold, Transaction
from solward.resources.declare import fields_of
from solward.resources.holds import MAX_NOTE, HoldNote
from solward.solana.token_list import TokenList, known_decimals
from solward.types.errors import SolwardError
from solward.types.money import SOL_DECIMALS, format_sol
from solward_dashboard.api import api
from solward_dashboard.dialogs import fact, notify_error, result_of, titled
from solward_dashboard.people import People
from solward_dashboard.wording import day, exact, left, local_times

(NOTE,) = fields_of(HoldNote)
_CLASSES = {
    "held": "sw-pending",
    "approved": "sw-pending",
    "executed": "sw-confirmed",
    "refused": "sw-failed",
    "denied": "sw-blocked",
    "expired": "sw-idle",
}
_STATES = {"held": "waits for you"}


@dataclass(frozen=True, slots=True)
class DisplayContext:
    """What a card needs beside its hold.

    Attributes:
        records: id -> the record that a hold ended in.
    """

    people: People
    tokens: TokenList
    records: Mapping[str, Transaction]
    network: str


class HoldCards:
    """A card a hold; a card is built anew only when its hold has changed.

    Args:
        refresh: called after a decision.
        open_record: shows the record that a hold ended in.
        empty: what stands there where there is none.
        compact: without what the sentence says too, for a page with more on it.
    """

    def __init__(
        self,
        refresh: Callable[[], Awaitable[None]],
        open_record: Callable[[Transaction, DisplayContext], Awaitable[None]],
        empty: str,
        testid: str,
        *,
        compact: bool = False,
    ) -> None:
        self._compact = compact
        self._refresh = refresh
        self._open_record = open_record
        self._shown: list[tuple[Hold, Transaction | None]] = []
        self._untils: list[tuple[ui.label, Hold]] = []
        # Not in a card: what is in a card goes when it is built anew.
        self._dialogs = ui.element("div").classes("hidden")
        self._empty = ui.label(empty).classes("sw-empty")
        # Nothing is known before the first answer.
        self._empty.set_visibility(False)
        self._place = ui.element("ul").classes("sw-stack")
        self._place.props["data-testid"] = testid
        self._deciding: set[str] = set()

    def show(self, holds: Sequence[Hold], context: DisplayContext) -> None:
        """Show them in their order."""
        self._empty.set_visibility(not holds)
        shown = [(each, context.records.get(each.transaction_id or "")) for each in holds]
        if [_version(*each) for each in shown] != [_version(*each) for each in self._shown]:
            self._shown = shown
            self._untils = []
            self._place.clear()
            with self._place:
                for hold, record in shown:
                    self._card(hold, record, context)
        for label, hold in self._untils:
            label.set_text(_until(hold))

    def show_none(self) -> None:
        """Say that there is none, unless one was shown: holds are never deleted."""
        self._empty.set_visibility(not self._shown)

    def _card(self, hold: Hold, record: Transaction | None, context: DisplayContext) -> None:
        with ui.element("li").classes("sw-card") as card:
            card.props["data-testid"] = f"hold-{hold.id}"
            with ui.element("div").classes("sw-row"):
                ui.badge(_STATES.get(hold.state, hold.state)).classes(_CLASSES[hold.state])
                ui.link(hold.type.replace("_", " "), f"/holds/{hold.id}").classes("sw-strong")
                ui.space()
                ui.label(day(hold.created_at)).classes("sw-dim")
            ui.label(hold.sentence).classes("sw-text sw-sentence")
            for reason in hold.reasons:
                if reason not in hold.sentence:
                    ui.label(reason).classes("sw-text")
            with ui.element("dl").classes("sw-facts"):
                self._facts(hold, context)
            if hold.state == "held":
                self._buttons(hold, context)
            else:
                self._outcome(hold, record, context)

    def _facts(self, hold: Hold, context: DisplayContext) -> None:
        if not self._compact:
            fact("Asked by", context.people.who(hold.principal))
            fact("From wallet", context.people.who(f"wallet:{hold.wallet_id}"))
        for line in hold.lines:
            amount = units_text(line["asset"], int(line["units"]), context.tokens, line)
            to = "".join(f"\n{each}" for each in receiver_texts(line, context.people))
            fact(f"Leaves by {line['operation']}", f"{amount}{to}", "sw-mono sw-pre")
        if not hold.lines:
            fact("Leaves", "nothing but fee and rent")
        for mint, units in hold.arrives.items():
            fact("Arrives at least", units_text(mint, units, context.tokens), "sw-mono")
        fact("Fee and rent at most", f"{exact(hold.costs_sol)} SOL", "sw-mono")
        if hold.state == "held":
            with ui.element("div"):
                with ui.element("dt"):
                    ui.label("May be approved until")
                with ui.element("dd"):
                    self._untils.append((ui.label(_until(hold)), hold))
            if hold.repeats:
                fact("Approved", "it is carried out when who asks repeats it before then")
        if hold.decided_by is not None and hold.decided_at is not None:
            by = context.people.who(hold.decided_by)
            fact("Decided by", f"{by}, {day(hold.decided_at)}")
        if hold.note is not None:
            fact("Note", hold.note)

    def _outcome(self, hold: Hold, record: Transaction | None, context: DisplayContext) -> None:
        ends = {
            "approved": "Approved; it is not carried out yet.",
            "executed": "Approved and carried out.",
            "refused": "Approved, and refused when it was judged again.",
            "denied": "Denied. Nothing was sent.",
            "expired": "Nobody decided in time. Nothing was sent.",
        }
        good = hold.state in ("executed", "approved")
        with ui.element("div").classes(
            f"sw-outcome {'sw-outcome-good' if good else 'sw-outcome-bad'}"
        ):
            ui.label(ends[hold.state]).props(f'data-testid="end-{hold.id}"')
            if record is None:
                return
            if hold.state == "executed":
                ui.label(f"The transaction is {record.status}.")
            if hold.state in ("executed", "refused") and record.error is not None:
                ui.label(local_times(record.error)).classes("sw-text")
            if hold.state in ("executed", "refused"):
                button = ui.button("Show the transaction", color=None)
                button.props("flat no-caps padding=8px").classes("sw-start")
                button.on_click(lambda: self._record(record, context))

    async def _record(self, record: Transaction, context: DisplayContext) -> None:
        with self._dialogs:
            await self._open_record(record, context)

    def _buttons(self, hold: Hold, context: DisplayContext) -> None:
        with ui.element("div").classes("sw-decide"):
            deny = ui.button(
                "Deny", color=None, on_click=lambda: self._decide(hold, context, "Deny")
            )
            deny.props(f'outline no-caps data-testid="deny-{hold.id}"').classes("sw-needs-operate")
            approve = ui.button("Approve", on_click=lambda: self._decide(hold, context, "Approve"))
            approve.props(f'unelevated no-caps data-testid="approve-{hold.id}"')
            approve.classes("sw-needs-policy")

    async def _decide(self, hold: Hold, context: DisplayContext, verb: str) -> None:
        # A second click asks no second time, whatever the browser sends.
        if hold.id in self._deciding:
            return
        self._deciding.add(hold.id)
        try:
            with self._dialogs:
                note = await _confirmed(hold, context, verb)
            if note is None:
                return
            call = api().holds.approve if verb == "Approve" else api().holds.deny
            try:
                ended = await call(hold.id, note=note or None)
            except SolwardError as error:
                notify_error(error)
            else:
                ui.notify(f"It is {ended.state}.", type="positive")
        finally:
            self._deciding.discard(hold.id)
        await self._refresh()


async def _confirmed(hold: Hold, context: DisplayContext, verb: str) -> str | None:
    """The note, empty or not, where the person confirms; else None."""
    left = await _left_after(hold) if verb == "Approve" else []
    with titled(f"{verb} this?") as dialog:
        ui.label(hold.sentence).classes("sw-text sw-sentence").props('data-testid="asked"')
        for line in hold.lines:
            with ui.element("div"):
                amount = units_text(line["asset"], int(line["units"]), context.tokens, line)
                ui.label(amount).classes("sw-strong")
                for text in receiver_texts(line, context.people):
                    ui.label(text).classes("sw-mono")
        if verb == "Approve":
            with ui.element("dl").classes("sw-facts"):
                for mint, units in hold.arrives.items():
                    fact("Arrives at least", units_text(mint, units, context.tokens))
                fact("Fee and rent at most", f"{exact(hold.costs_sol)} SOL")
                fact("Left of the wallet's limits after it", "\n".join(left))
                fact("May be approved until", _until(hold))
            ui.label("It is judged once more: an approval passes no limit.").classes("sw-dim")
        note = (
            ui.input("Note (optional)").classes("sw-field").props(f"outlined maxlength={MAX_NOTE}")
        )
        with ui.element("div").classes("sw-decide"):
            back = ui.button("Cancel", color=None, on_click=lambda: dialog.submit(None))
            back.props("outline no-caps")
            button = ui.button(verb, on_click=lambda: dialog.submit(note.value or ""))
            button.props('no-caps unelevated data-testid="confirm"')
    result = await result_of(dialog)
    return None if result is None else str(result).strip()


async def _left_after(hold: Hold) -> list[str]:
    """What it would leave of the limits, or that they are not known."""
    lamports = sum(int(each["units"]) for each in hold.lines if each["asset"] == "SOL")
    taken = Decimal(lamports).scaleb(-SOL_DECIMALS)
    try:
        limits = await api().wallets.limits(hold.wallet_id)
    except SolwardError as error:
        return [f"not known: {error}"]
    return left_texts(limits, taken, hold.costs_sol)


def receiver_texts(line: Mapping[str, Any], people: People) -> list[str]:
    """`to wallet savings, <address>`, and on which account; empty where nobody receives."""
    receiver, owner = line.get("account"), line.get("owner")
    if receiver is None:
        return []
    if owner is None or owner == receiver:
        return [f"to {people.receiver(receiver)}"]
    return [f"to {people.receiver(owner)}", f"on its account {receiver}"]


def units_text(
    asset: str, units: int, tokens: TokenList, line: Mapping[str, Any] | None = None
) -> str:
    """An amount in whole units with the asset; the mint is whole where nothing names it."""
    if asset == "SOL":
        return f"{format_sol(units)} SOL"
    decimals = (line or {}).get("decimals", known_decimals(asset))
    name = tokens.symbol_of(asset) or f"of the token {asset}"
    if decimals is None:
        return f"{units:,} smallest units {name}"
    return f"{exact(Decimal(units).scaleb(-int(decimals)))} {name}"


def _version(hold: Hold, record: Transaction | None) -> tuple[Any, ...]:
    return hold.raw, None if record is None else (record.status, record.error)


def _until(hold: Hold) -> str:
    rest = left(hold.expires_at, datetime.now(UTC))
    return f"{day(hold.expires_at)} ({rest})"


def left_texts(
    limits: Mapping[str, Any],
    sol: Decimal,
    costs: Decimal,
    tokens: Mapping[str, tuple[int, str, int]] | None = None,
) -> list[str]:
    """`6.7 of 10 SOL in 24 hours`, a text for each limit that it counts against.

    Args:
        limits: of `GET /wallets/:id/limits`.
        sol: leaves; fee and rent are `costs`.
        tokens: mint -> smallest units that leave, the token's symbol and its decimals.
    """
    found = []
    if sol:
        found.append(_left(limits["dailySpendingLimitSol"], sol, "SOL in 24 hours"))
    for mint, (units, symbol, decimals) in (tokens or {}).items():
        day = limits.get("dailyTokens", {}).get(mint)
        if day is None:
            found.append(f"nothing limits the {symbol} of a day in this wallet")
            continue
        whole = {
            name: Decimal(day[name]).scaleb(-decimals) for name in ("limit", "spent", "reserved")
        }
        found.append(_left(whole, Decimal(units).scaleb(-decimals), f"{symbol} in 24 hours"))
    found.append(_left(limits["maxCostsSolPerDay"], costs, "SOL of fees and rent in 24 hours"))
    return found


def _left(limit: Mapping[str, Any], taken: Decimal, unit: str) -> str:
    if limit["limit"] is None:
        return f"no limit of {unit}"
    most = Decimal(limit["limit"])
    left = most - Decimal(limit["spent"]) - Decimal(limit["reserved"]) - taken
    if left < 0:
        return f"{exact(-left)} too much for the {exact(most)} {unit}"
    return f"{exact(left)} of {exact(most)} {unit}"
