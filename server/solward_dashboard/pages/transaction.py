"""One transaction as a table row, a page and a dialog: why it was refused, what it could take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from nicegui import ui

from solward.client import AuditEntry, Judged, NetworkFee, Transaction
from solward.operations.declared import OPERATIONS
from solward.resources.fields import Address
from solward.solana.token_list import TokenList, token_list
from solward.support import jsontext
from solward.types.address_book import AddressBook
from solward.types.money import format_sol
from solward.types.record import (
    LEAVES,
    PLUGIN_DETAILS,
    TransactionType,
    amount_of,
    leaves_of,
    recipient_of,
)
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import show_dialog
from solward_dashboard.forms import name_text
from solward_dashboard.frame import frame_of_one
from solward_dashboard.leaving import leaving_list, number_list, rule_text
from solward_dashboard.links import address_of, explorer_link, list_address, show_thing
from solward_dashboard.wording import (
    People,
    capital,
    local_times,
    second,
    short,
    token_text,
    value_text,
)

EVERY_S = 10.0
_NOBODY = AddressBook()
# The details of every operation's record, as they are declared.
_DETAILS = {each.json: each for one in OPERATIONS.values() for each in one.details}
_TITLES = {name: each.label for name, each in _DETAILS.items()} | {
    LEAVES: "Leaves according to its bytes",
    PLUGIN_DETAILS: "Text of the plugin (not verified)",
}
_ADDRESSES = {name for name, each in _DETAILS.items() if isinstance(each, Address)}
# These details are of payments and pockets, which declare none.
_ADDRESSES |= {"asset", "pocket"}
_SCOPE = re.compile(r"\((?:limit of )?the (?:API )?(wallet|agent|key)(?:'s ceiling \w+)?\)$")
_SETTING = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_ROOM = "Ask for less, wait until the 24 hours have room again, or raise the limit."
# Rule -> what a person can do after its refusal; no person can lift the other built-in rules.
_ADVICE: Final = {
    "max_per_tx": "Ask for less at once, or raise the limit.",
    "rate_limit": "Ask again in a minute, or raise the limit.",
    "daily_limit": _ROOM,
    "costs_limit": _ROOM,
    "spending_limit_check": _ROOM.replace("raise the limit", "use a key with a higher one"),
    "grants": "Ask for what the grants allow, or add a grant that allows this.",
    "freeze": "Unfreeze, and ask again.",
    "blocked_address": "Pay another address, or take this one from BLOCKED_ADDRESSES.",
    "clock": "Correct the clock of the machine, and ask again.",
}
_OF_PLUGIN: Final = "A plugin's rule refused it; the plugin's settings may change that."
_CANNOT: Final = "No limit or grant can allow this: what made the transaction must make another."
_AGAIN: Final = "If it is still wanted, it must be asked for again."
# The status, or the end of the hold -> what happened, and what a person can do.
_OUTCOMES: Final = {
    "pending": "The ledger has not decided yet: wait, and do not repeat it.",
    "confirmed": "It is carried out: the ledger confirmed it.",
    "failed": f"It failed; read why before somebody asks again. {_AGAIN}",
    "denied": f"A person denied it; nothing was sent. {_AGAIN}",
    "expired": f"Nobody approved it in time; nothing was sent. {_AGAIN}",
}


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction, with the names and the network for displaying it.

    Attributes:
        entries: the audit log's entries about it and its hold, newest first.
    """

    judged: Judged
    people: People
    network: str
    entries: Sequence[AuditEntry] = ()

    @property
    def hold(self) -> tuple[str, str] | None:
        """The id and the state of the hold that led to the transaction; None if it was not held."""
        held = (each for each in self.entries if each.kind.startswith("hold:"))
        found = ((str(each.data.get("id", "")), each.kind.removeprefix("hold:")) for each in held)
        return next(found, None)


async def fetch(transaction_id: str) -> TransactionView:
    """Fetch everything that the page of a transaction shows."""
    judged, health, people = await asyncio.gather(
        api().transactions.get(transaction_id), api().health(), People.ask()
    )
    record = judged.transaction
    since = record.timestamp - timedelta(minutes=1)
    found = await api().audit(about=record.id, wallet_id=record.wallet_id, since=since)
    return TransactionView(judged, people, health.network, found.entries)


def page(transaction_id: str) -> None:
    """Build the page of one transaction; it is rebuilt when it changes."""
    with frame_of_one("/transactions", "Transaction", transaction_id) as one:
        with sw.card(testid="transaction"):
            shown = sw.LiveContent(_show_transaction, "sw-stack")
        one.poll(EVERY_S, lambda: fetch(transaction_id), shown.show)


def _show_transaction(one: TransactionView) -> None:
    with sw.row():
        sw.heading(one.judged.transaction.type.replace("_", " "))
        _show_status_badge(one)
    _show_body(one)


async def show_record(transaction_id: str) -> None:
    """Show a record in a dialog; returns when it is closed. Raises `ClientError`."""
    one = await fetch(transaction_id)

    def show_status() -> None:
        _show_status_badge(one)
        ui.space()
        ui.link("Its own page", address_of(f"transaction:{transaction_id}"))

    kind = one.judged.transaction.type.replace("_", " ")
    async with show_dialog(kind, wide=True, beside=show_status):
        _show_body(one)


def _show_status_badge(one: TransactionView) -> None:
    status = one.judged.transaction.status
    ui.badge(status).classes(f"sw-{status}")


def _show_body(one: TransactionView) -> None:
    judged, record = one.judged, one.judged.transaction
    tokens = token_list(one.network)
    good = record.status in ("confirmed", "pending")
    look = sw.stack(f"sw-outcome sw-outcome-{'good' if good else 'bad'}")
    with sw.marked(look, "why" if judged.rule is None else "refusal"):
        sw.text(f"{_request_text(one, tokens)} {_outcome_text(one)}", "sw-strong sw-text")
        if record.error is not None:
            sw.text(local_times(record.error))
        number_list(judged.numbers, tokens)
        if judged.rule is not None:
            _show_advice(one)
    if judged.could_leave is not None or judged.rule is not None:
        _show_leaving(one, tokens)
    with sw.facts():
        _show_links(one)
        sw.fact("Time", second(record.timestamp))
        states_amount = "amount" in record.details or LEAVES in record.details
        if (said := amount(record, tokens)) and states_amount:
            sw.fact("Amount", said)
        for title, said, address in _detail_facts(record, one.people, tokens):
            with sw.fact_of(title, "sw-row"):
                sw.text(said, "sw-mono")
                if address:
                    explorer_link("address", address, one.network)
        sw.lines(() if record.fee is None else fee_facts(record.fee), "sw-mono")
        if record.signature is not None:
            sw.signature_fact(record.signature, one.network)
        sw.fact("Record", record.id, "sw-mono")
    sw.heading("Guardrails applied")
    with sw.row():
        for rule in record.guardrails_applied:
            if rule == judged.rule:
                ui.badge(f"{rule} refused").classes("sw-blocked")
            else:
                sw.tag(rule)
        if not record.guardrails_applied:
            sw.dim("none")
    with sw.marked(ui.expansion("As JSON").classes("sw-expansion"), "raw"):
        sw.text(jsontext.indented(judged.raw), "sw-mono sw-pre")


def _request_text(one: TransactionView, tokens: TokenList) -> str:
    """Return the sentence of who asked for what, to whom and from which wallet."""
    record, people = one.judged.transaction, one.people
    said, to = amount(record, tokens), counterpart(record)
    of = f" of {said}" if said else ""
    whom = f" to {address_text(to, people.book)}" if to else ""
    who, wallet = (people.called(each) for each in (record.principal, _asking(record)[0]))
    kind = record.type.replace("_", " ")
    return f"{capital(who)} asked for a {kind}{of}{whom}, from {wallet}."


def _outcome_text(one: TransactionView) -> str:
    rule, (_, ended) = one.judged.rule, one.hold or ("", "")
    if rule is None or ended in _OUTCOMES:
        return _OUTCOMES.get(ended) or _OUTCOMES.get(one.judged.transaction.status, "")
    return f"Refused by {rule_text(rule)}. Nothing was sent."


def _asking(record: Transaction) -> list[str]:
    """Return the wallet, the agent and whoever asked for a transaction."""
    agent = [f"agent:{record.agent_id}"] if record.agent_id else []
    return [*dict.fromkeys([f"wallet:{record.wallet_id}", *agent, record.principal])]


def _show_advice(one: TransactionView) -> None:
    """Show what a person can do after a refusal, with a link to the limit that refused."""
    people, rule, reason = one.people, one.judged.rule or "", one.judged.reason
    wallet, *others = _asking(one.judged.transaction)
    scope, setting = _SCOPE.search(reason), _SETTING.search(reason)
    if rule not in _ADVICE and rule_text(rule) == rule:
        # Whatever a plugin writes is no limit of Solward's.
        sw.text(_OF_PLUGIN)
        return
    if _outcome_text(one) not in _OUTCOMES.values():
        sw.text(_ADVICE.get(rule, "Raise the setting if this is wanted." if setting else _CANNOT))
    with sw.row():
        if scope is not None:
            who = next((each for each in others if each.startswith(scope[1])), wallet)
            show_thing(who, people, f"The limits of {people.called(who)}", "limits")
        elif rule == "grants":
            # The reason names the principal whose grants do not allow it.
            named = (each for each in others if each.partition(":")[2] in reason)
            who = next(named, others[-1])
            ui.link(f"The grants of {people.called(who)}", address_of(f"grants:{who}"))
            if who in people.names:
                ui.link("Add a grant", list_address("/policy", grant=who))
        elif rule == "freeze":
            show_thing(wallet, people)
        elif setting is not None:
            ui.link(setting[0], address_of(f"setting:{setting[0]}"))


def _show_links(one: TransactionView) -> None:
    """Show the wallet, who asked, the hold, the grants and the audit entries, as links."""
    record, people = one.judged.transaction, one.people
    wallet, *others = _asking(record)
    with sw.fact_of("Wallet"):
        show_thing(wallet, people, people.wallet(record.wallet_id))
    with sw.fact_of("Asked by", "sw-row"):
        for each in others:
            if each.startswith("schedule:"):
                ui.link("a schedule of the wallet", address_of(wallet, "schedules"))
            else:
                show_thing(each, people)
    if one.hold is not None:
        with sw.fact_of("Approval"):
            ui.link(f"Held for a person: {one.hold[1]}", address_of(f"hold:{one.hold[0]}"))
    if ":" in record.principal and "grants" in record.guardrails_applied:
        with sw.fact_of("Judged by" if one.judged.rule else "Allowed by"):
            words = f"The grants of {people.called(record.principal)}"
            ui.link(words, address_of(f"grants:{record.principal}"))
    with sw.fact_of("Audit log"):
        about = list_address("/audit", about=record.id, wallet=record.wallet_id)
        ui.link("Entries about it", about)


def _show_leaving(one: TransactionView, tokens: TokenList) -> None:
    could_leave = one.judged.could_leave
    made = one.judged.transaction.status in ("confirmed", "pending")
    title = "Requested amount" if could_leave is None else "Maximum that its bytes could move"
    with sw.marked(sw.stack("sw-list"), "could-leave"):
        sw.heading(title if made else f"{title} (nothing was sent)", 3)
        leaving_list(one.judged, tokens, one.people)
        if could_leave is not None and not could_leave.lines:
            sw.dim("Nothing but fee and rent.")


def _detail_facts(
    record: Transaction, people: People, tokens: TokenList
) -> Iterator[tuple[str, str, str]]:
    """Yield every detail but the amount as (title, text, address if it is one); addresses and mints
    have their names."""
    for name, value in record.details.items():
        said, address = value_text(value), ""
        if name in _ADDRESSES:
            address = said if said != "SOL" else ""
            symbol = tokens.symbol_of(said)
            said = people.receiver(said) if symbol is None else f"{symbol}, {said}"
        if name != "amount":
            yield _TITLES.get(name, name_text(name)), said, address


def row(
    record: Transaction, wallet: str, tokens: TokenList, known: AddressBook = _NOBODY
) -> dict[str, str]:
    """Return one row of plain text: nothing from a ledger or a model is rendered as markup."""
    to = counterpart(record)
    return {
        "id": record.id,
        "at": record.timestamp.isoformat(),
        "time": record.timestamp.astimezone().strftime("%b %d %H:%M:%S"),
        "wallet": wallet,
        "type": record.type.replace("_", " "),
        "amount": amount(record, tokens),
        "status": record.status,
        "to": address_text(to, known),
        "alike": "yes" if known.find_lookalike(to) is not None else "",
        "fee": "" if record.fee is None else f"{format_sol(record.fee.lamports)} SOL",
        "why": local_times(record.error or ""),
        "signature": short(record.signature or "", 6),
    }


def counterpart(record: Transaction) -> str:
    """Return the recipient's address, or a stake's validator; empty if there is neither."""
    to = recipient_of(record.type, record.details) or record.details.get("validator")
    return to if isinstance(to, str) else ""


def address_text(address: str, known: AddressBook) -> str:
    """Return an address's name or its ends, or a warning if it resembles a known address."""
    other = known.find_lookalike(address)
    if other is not None:
        # The warning goes first: the ends are those of the address that people know.
        return f"not {other.name}, looks like it: {short(address)}"
    return known.called.get(address) or short(address)


def amount(record: Transaction, tokens: TokenList) -> str:
    """Return a record's amounts with their units, separated by commas."""
    found = amount_of(record.type, record.details)
    if found is None:
        several = leaves_of(record.details) if record.type == TransactionType.OTHER else ()
        return ", ".join(
            f"{value_text(each.amount)} {_unit_name(each.asset, tokens)}" for each in several
        )
    symbol = record.details.get("symbol") if record.type == TransactionType.TOKEN_LAUNCH else None
    unit = _unit_name(found.asset or "", tokens, symbol)
    return f"{value_text(found.amount)} {unit}".strip()


def _unit_name(asset: str, tokens: TokenList, symbol: object = None) -> str:
    return asset if asset == "SOL" else token_text(asset, tokens.symbol_of(asset), symbol)


def fee_facts(fee: NetworkFee) -> list[tuple[str, str]]:
    """Return the network's fee and compute units as (name, text)."""
    found = [("Network fee", f"{format_sol(fee.lamports)} SOL")]
    if fee.compute_units is not None:
        limit = "" if fee.compute_unit_limit is None else f" of {fee.compute_unit_limit:,}"
        found.append(("Compute units", f"{fee.compute_units:,}{limit}"))
    if fee.priority_fee_micro_lamports:
        price = f"{fee.priority_fee_micro_lamports:,} micro-lamports per compute unit"
        found.append(("Priority fee", price))
    return found
