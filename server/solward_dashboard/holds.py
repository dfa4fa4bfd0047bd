"""Holds as pages show them: what is asked, whole, what is left of a wallet's limits after it, and
the decision of a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from nicegui import ui

from solward.client import Hold, Transaction
from solward.resources.declare import fields_of
from solward.resources.holds import HoldNote
from solward.solana.token_list import TokenList, known_decimals
from solward.types.errors import SolwardError
from solward.types.money import SOL_DECIMALS, format_sol
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import optional_text, result_of, submit_buttons, titled, written
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
_ENDS = {
    "approved": "Approved; it is not carried out yet.",
    "executed": "Approved and carried out.",
    "refused": "Approved, and refused when it was judged again.",
    "denied": "Denied. Nothing was sent.",
    "expired": "Nobody decided in time. Nothing was sent.",
}
_STATES = {"held": "waits for you"}


# Shows a record of the wallet of this name, on this network.
OpenRecord: TypeAlias = Callable[[Transaction, str, str], Awaitable[None]]


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


Shown: TypeAlias = tuple[Sequence[Hold], DisplayContext]


def hold_cards(
    open_record: OpenRecord, empty: str, testid: str, *, compact: bool = False
) -> sw.Redrawn[Shown]:
    """A card a hold, built anew where a hold has changed.

    Args:
        open_record: shows the record that a hold ended in.
        empty: what stands there where there is none.
        compact: without what the sentence says too, for a page with more on it.
    """

    def build(shown: Shown) -> None:
        holds, context = shown
        if not holds:
            ui.label(empty).classes("sw-empty")
        with sw.marked(ui.element("ul").classes("sw-stack"), testid):
            for each in holds:
                _card(each, context, open_record, compact=compact)

    return sw.Redrawn(build, "sw-stack", of=_versions)


def _versions(shown: Shown) -> object:
    holds, context = shown
    records = [context.records.get(each.transaction_id or "") for each in holds]
    return holds, [each and (each.status, each.error) for each in records]


def _card(hold: Hold, context: DisplayContext, open_record: OpenRecord, *, compact: bool) -> None:
    with sw.marked(ui.element("li").classes("sw-card"), f"hold-{hold.id}"):
        with sw.row():
            ui.badge(_STATES.get(hold.state, hold.state)).classes(_CLASSES[hold.state])
            ui.link(hold.type.replace("_", " "), f"/holds/{hold.id}").classes("sw-strong")
            ui.space()
            sw.dim(day(hold.created_at))
        sw.text(hold.sentence, "sw-text sw-sentence")
        for reason in hold.reasons:
            if reason not in hold.sentence:
                sw.text(reason)
        with sw.facts():
            _facts(hold, context, compact=compact)
        if hold.state == "held":
            with sw.stack("sw-decide"):
                _decision(hold, context, "Deny", sw.OUTLINE, sw.OPERATE)
                _decision(hold, context, "Approve", sw.PRIMARY, sw.POLICY)
        else:
            _outcome(hold, context, open_record)


def _facts(hold: Hold, context: DisplayContext, *, compact: bool) -> None:
    if not compact:
        sw.fact("Asked by", context.people.who(hold.principal))
        sw.fact("From wallet", context.people.who(f"wallet:{hold.wallet_id}"))
    for line in hold.lines:
        leaves = "\n".join(line_texts(line, context.tokens, context.people))
        sw.fact(f"Leaves by {line['operation']}", leaves, "sw-mono sw-pre")
    if not hold.lines:
        sw.fact("Leaves", "nothing but fee and rent")
    sw.lines(_effects(hold, context), "sw-mono")
    if hold.state == "held":
        with sw.fact_of("May be approved until"):
            sw.Age(hold.expires_at, _until)
        if hold.repeats:
            sw.fact("Approved", "it is carried out when who asks repeats it before then")
    if hold.decided_by is not None and hold.decided_at is not None:
        sw.fact("Decided by", f"{context.people.who(hold.decided_by)}, {day(hold.decided_at)}")
    if hold.note is not None:
        sw.fact("Note", hold.note)


def _effects(hold: Hold, context: DisplayContext) -> list[tuple[str, str]]:
    return [
        *(
            ("Arrives at least", units_text(mint, units, context.tokens))
            for mint, units in hold.arrives.items()
        ),
        ("Fee and rent at most", f"{exact(hold.costs_sol)} SOL"),
    ]


def _outcome(hold: Hold, context: DisplayContext, open_record: OpenRecord) -> None:
    record = context.records.get(hold.transaction_id or "")
    good = hold.state in ("executed", "approved")
    with sw.stack(f"sw-outcome {'sw-outcome-good' if good else 'sw-outcome-bad'}"):
        sw.marked(ui.label(_ENDS[hold.state]), f"end-{hold.id}")
        if record is None or hold.state not in ("executed", "refused"):
            return
        if hold.state == "executed":
            ui.label(f"The transaction is {record.status}.")
        if record.error is not None:
            sw.text(local_times(record.error))
        wallet = context.people.wallet(record.wallet_id)
        sw.button(
            "Show the transaction",
            lambda: open_record(record, wallet, context.network),
            look="flat no-caps padding=8px",
        ).classes("sw-start")


def _decision(hold: Hold, context: DisplayContext, verb: str, look: str, needs: str) -> None:
    async def decide() -> None:
        note = await _confirmed(hold, context, verb)
        if note is not None:
            call = api().holds.approve if verb == "Approve" else api().holds.deny
            ended = await call(hold.id, note=note or None)
            ui.notify(f"It is {ended.state}.", type="positive")

    sw.button(verb, decide, look=look, needs=needs, testid=f"{verb.lower()}-{hold.id}")


async def _confirmed(hold: Hold, context: DisplayContext, verb: str) -> str | None:
    """The note, empty or not, where the person confirms; else None."""
    left = await _left_after(hold) if verb == "Approve" else []
    with titled(f"{verb} this?") as dialog:
        sw.text(hold.sentence, "sw-text sw-sentence", testid="asked")
        for line in hold.lines:
            with ui.element("div"):
                amount, *to = line_texts(line, context.tokens, context.people)
                sw.text(amount, "sw-strong")
                for each in to:
                    sw.text(each, "sw-mono")
        if verb == "Approve":
            with sw.facts():
                sw.lines(_effects(hold, context))
                sw.fact("Left of the wallet's limits after it", "\n".join(left))
                sw.fact("May be approved until", _until(hold.expires_at))
            sw.dim("It is judged once more: an approval passes no limit.")
        note = optional_text("Note", NOTE)
        submit_buttons(dialog, verb, lambda: dialog.submit(written(note)))
    result: str | None = await result_of(dialog)
    return result


async def _left_after(hold: Hold) -> list[str]:
    """What it would leave of the limits, or that they are not known."""
    lamports = sum(int(each["units"]) for each in hold.lines if each["asset"] == "SOL")
    taken = Decimal(lamports).scaleb(-SOL_DECIMALS)
    try:
        limits = await api().wallets.limits(hold.wallet_id)
    except SolwardError as error:
        return [f"not known: {error}"]
    return left_texts(limits, taken, hold.costs_sol)


def line_texts(line: Mapping[str, Any], tokens: TokenList, people: People) -> list[str]:
    """`3 SOL`, `to wallet savings, <address>`, and on which account; of what nobody receives the
    amount alone."""
    amount = units_text(line["asset"], int(line["units"]), tokens, line)
    receiver, owner = line.get("account"), line.get("owner")
    if receiver is None:
        return [amount]
    if owner is None or owner == receiver:
        return [amount, f"to {people.receiver(receiver)}"]
    return [amount, f"to {people.receiver(owner)}", f"on its account {receiver}"]


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


def _until(expires_at: datetime) -> str:
    return f"{day(expires_at)} ({left(expires_at, datetime.now(UTC))})"


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
