"""One transaction as a table row, a page and a dialog: why it was refused, what it could take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from nicegui import ui

from solward.client import Judged, NetworkFee, Transaction
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
from solward_dashboard.wording import People, local_times, second, short, value_text

EVERY_S = 10.0
_EXPLORER = "https://explorer.solana.com/tx/"
# Public networks, as the explorer's address names them.
_CLUSTERS = {"mainnet-beta": "", "devnet": "?cluster=devnet", "testnet": "?cluster=testnet"}
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


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction, with the names and the network for displaying it."""

    judged: Judged
    people: People
    network: str


async def fetch(transaction_id: str) -> TransactionView:
    """Fetch everything that the page of a transaction shows."""
    judged, health, people = await asyncio.gather(
        api().transactions.get(transaction_id), api().health(), People.ask()
    )
    return TransactionView(judged, people, health.network)


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
        ui.link("Its own page", f"/transactions/{transaction_id}")

    kind = one.judged.transaction.type.replace("_", " ")
    async with show_dialog(kind, wide=True, beside=show_status):
        _show_body(one)


def _show_status_badge(one: TransactionView) -> None:
    status = one.judged.transaction.status
    ui.badge(status).classes(f"sw-{status}")


def _show_body(one: TransactionView) -> None:
    judged, record = one.judged, one.judged.transaction
    tokens = token_list(one.network)
    if judged.rule is not None:
        with sw.marked(sw.stack("sw-outcome sw-outcome-bad"), "refusal"):
            sw.text(f"Refused by {rule_text(judged.rule)}", "sw-strong sw-text")
            sw.text(local_times(judged.reason))
            number_list(judged.numbers, tokens)
    elif record.error is not None:
        sw.text(local_times(record.error), "sw-outcome sw-outcome-bad sw-text")
    if judged.could_leave is not None or judged.rule is not None:
        _show_leaving(one, tokens)
    with sw.facts():
        sw.lines(_main_facts(one, tokens))
        sw.lines(_detail_facts(record, one.people, tokens), "sw-mono")
        sw.lines(() if record.fee is None else fee_facts(record.fee), "sw-mono")
        if record.signature is not None:
            sw.signature_fact(record.signature, explorer_url(record, one.network))
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


def _main_facts(one: TransactionView, tokens: TokenList) -> Iterator[tuple[str, str]]:
    record = one.judged.transaction
    yield "Wallet", one.people.wallet(record.wallet_id)
    if record.principal is not None:
        yield "Asked by", one.people.who(record.principal)
    if record.agent_id is not None and record.principal != f"agent:{record.agent_id}":
        yield "Agent", one.people.who(f"agent:{record.agent_id}")
    yield "Time", second(record.timestamp)
    states_amount = "amount" in record.details or LEAVES in record.details
    if (said := amount(record, tokens)) and states_amount:
        yield "Amount", said


def _show_leaving(one: TransactionView, tokens: TokenList) -> None:
    could_leave = one.judged.could_leave
    made = one.judged.transaction.status in ("confirmed", "pending")
    title = "Requested amount" if could_leave is None else "Maximum that its bytes could move"
    with sw.marked(sw.stack("sw-list"), "could-leave"):
        sw.heading(title if made else f"{title} (nothing was sent)", 3)
        leaving_list(one.judged, tokens, one.people)
        if could_leave is not None and not could_leave.lines:
            sw.dim("Nothing but fee and rent.")


def _detail_facts(record: Transaction, people: People, tokens: TokenList) -> list[tuple[str, str]]:
    """Return every detail but the amount as (title, text), addresses and mints with their names."""
    found = []
    for name, value in record.details.items():
        said = value_text(value)
        if name in _ADDRESSES:
            symbol = tokens.symbol_of(said)
            said = people.receiver(said) if symbol is None else f"{symbol}, {said}"
        if name != "amount":
            found.append((_TITLES.get(name, name_text(name)), said))
    return found


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
    return asset if asset == "SOL" else tokens.symbol_of(asset) or str(symbol or short(asset))


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


def explorer_url(record: Transaction, network: str) -> str | None:
    """Return the record's address in the public explorer; None on a local network."""
    if record.signature is None or network not in _CLUSTERS:
        return None
    return f"{_EXPLORER}{record.signature}{_CLUSTERS[network]}"
