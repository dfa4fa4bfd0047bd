"""One transaction, as a page of its own and as a dialog: why it was refused, what it could take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from nicegui import ui

from solward.client import ClientError, Judged, NotFoundError, Transaction
from solward.solana.token_list import TokenList, token_list
from solward.support import jsontext
from solward.types.record import LEAVES, PLUGIN_DETAILS
from solward_dashboard.api import api
from solward_dashboard.dialogs import copy_button, fact, heading, result_of
from solward_dashboard.frame import Poll, frame_of_one
from solward_dashboard.pages.transactions.rows import amount, details, explorer, fee_facts
from solward_dashboard.people import People
from solward_dashboard.refused import leaving_list, number_list, rule_text
from solward_dashboard.wording import local_times, second

EVERY_S = 10.0
# What a field of the details says; any other is shown by its own name.
_TITLES: Mapping[str, str] = {
    "from": "From",
    "to": "To",
    "account": "Token account",
    "mint": "Token",
    "inputToken": "Sold",
    "outputToken": "Bought",
    "inputAmount": "Amount sold",
    "outputAmount": "Amount bought",
    "received": "Arrives",
    "slippageBps": "Slippage, in basis points",
    "priceImpact": "Price impact, as a fraction",
    "venue": "Venue",
    "stakeAccount": "Stake account",
    "validator": "Validator",
    "validatorReason": "Why this validator",
    "reclaimed": "SOL that comes back",
    "supply": "Supply",
    "pocket": "Pocket",
    "site": "Site",
    "url": "URL",
    "method": "Method",
    "protocol": "Payment protocol",
    "mode": "Mode",
    "asset": "Token",
    "name": "Name",
    "symbol": "Symbol",
    "decimals": "Decimals",
    "authorityType": "Authority",
    LEAVES: "Leaves, by its bytes",
    PLUGIN_DETAILS: "The plugin says (nothing checks it)",
}
_ADDRESSES = frozenset({"from", "to", "account", "pocket"})
_MINTS = frozenset({"mint", "inputToken", "outputToken", "asset"})


@dataclass(frozen=True, slots=True)
class One:
    """A transaction and what its facts are read with."""

    judged: Judged
    people: People
    network: str


async def fetch(transaction_id: str) -> One | None:
    """None where there is no such transaction."""
    try:
        judged = await api().transactions.get(transaction_id)
    except NotFoundError:
        return None
    health, wallets, agents, keys, contacts = await asyncio.gather(
        api().health(),
        api().wallets.list(),
        api().agents.list(),
        api().keys.list(),
        api().contacts.list(),
    )
    return One(judged, People.of(wallets, agents, keys, contacts), health.network)


def page(transaction_id: str) -> None:
    """The page of one transaction; built anew when it has changed."""
    with frame_of_one("/transactions", "Transaction") as (freshness, title):
        title.show(transaction_id)
        ui.link("All transactions", "/transactions").classes("sw-back")
        missing = ui.label("There is no such transaction.").classes("sw-empty")
        missing.set_visibility(False)
        card = ui.element("section").classes("sw-card").props('data-testid="transaction"')
        card.set_visibility(False)
        shown: list[One] = []

        def show(latest: One | None) -> None:
            missing.set_visibility(latest is None)
            card.set_visibility(latest is not None)
            if latest is None or (shown and shown[0] == latest):
                return
            shown[:] = [latest]
            card.clear()
            with card:
                with ui.element("div").classes("sw-row"):
                    _title(latest.judged.transaction)
                _body(latest)

        Poll(freshness, EVERY_S, lambda: fetch(transaction_id), show)


async def show_record(record: Transaction, wallet: str, network: str) -> None:
    """A dialog with the record; returns when it is closed.

    Where the service does not answer it shows what the list said of it.
    """
    problem = ""
    try:
        one = await fetch(record.id)
    except ClientError as error:
        one, problem = None, f"Only what the list said: {error}"
    if one is None:
        people = People({f"wallet:{record.wallet_id}": wallet})
        one = One(_listed(record), people, network)
    with ui.dialog() as dialog, ui.card().classes("sw-dialog sw-dialog-wide"):
        dialog.props('aria-label="Transaction"')
        with ui.element("div").classes("sw-row"):
            _title(one.judged.transaction)
            ui.space()
            ui.link("Its own page", f"/transactions/{record.id}")
            close = ui.button(icon="close", color=None, on_click=dialog.close)
            close.props('flat round dense aria-label="Close"')
        if problem:
            ui.label(problem).classes("sw-dim sw-text")
        _body(one)
    await result_of(dialog)


def _listed(record: Transaction) -> Judged:
    raw = dict(record.raw)
    if record.status == "blocked" and record.guardrails_applied:
        rule, reason = record.guardrails_applied[-1], record.error or ""
        raw["refusal"] = {"rule": rule, "reason": reason, "numbers": {}}
    return Judged.of(raw)


def _title(record: Transaction) -> None:
    heading(record.type.replace("_", " "))
    ui.badge(record.status).classes(f"sw-{record.status}")


def _body(one: One) -> None:
    judged, record = one.judged, one.judged.transaction
    tokens = token_list(one.network)
    if judged.rule is not None:
        with ui.element("div").classes("sw-outcome sw-outcome-bad").props('data-testid="refusal"'):
            ui.label(f"Refused by {rule_text(judged.rule)}").classes("sw-strong sw-text")
            ui.label(local_times(judged.reason)).classes("sw-text")
            number_list(judged.numbers, tokens)
    elif record.error is not None:
        ui.label(local_times(record.error)).classes("sw-outcome sw-outcome-bad sw-text")
    if judged.could_leave is not None or judged.rule is not None:
        _leaving(one, tokens)
    with ui.element("dl").classes("sw-facts"):
        fact("Wallet", one.people.wallet(record.wallet_id))
        if record.principal is not None:
            fact("Asked by", one.people.who(record.principal))
        if record.agent_id is not None and record.principal != f"agent:{record.agent_id}":
            fact("Agent", one.people.who(f"agent:{record.agent_id}"))
        fact("Time", second(record.timestamp))
        states_amount = "amount" in record.details or LEAVES in record.details
        if (said := amount(record, tokens)) and states_amount:
            fact("Amount", said)
        for name, text in _details(record, one.people, tokens):
            fact(name, text, "sw-mono")
        for name, text in () if record.fee is None else fee_facts(record.fee):
            fact(name, text, "sw-mono")
        if record.signature is not None:
            _signature(record, one.network)
        fact("Record", record.id, "sw-mono")
    heading("Guardrails applied")
    with ui.element("div").classes("sw-row"):
        for rule in record.guardrails_applied:
            bad = rule == judged.rule
            if bad:
                ui.badge(f"{rule} refused").classes("sw-blocked")
            else:
                ui.badge(rule).props("outline").classes("sw-tag")
        if not record.guardrails_applied:
            ui.label("none").classes("sw-dim")
    with ui.expansion("As JSON").classes("sw-expansion").props('data-testid="raw"'):
        ui.label(jsontext.indented(judged.raw)).classes("sw-mono sw-pre")


def _leaving(one: One, tokens: TokenList) -> None:
    judged = one.judged
    made = judged.transaction.status in ("confirmed", "pending")
    by_bytes = judged.could_leave is not None
    title = "The most it could take, by its bytes" if by_bytes else "What was asked for"
    with ui.element("div").classes("sw-list").props('data-testid="could-leave"'):
        heading(title if made else f"{title}; none of it was sent", 3)
        leaving_list(judged, tokens, one.people)
        if by_bytes and judged.could_leave is not None and not judged.could_leave.lines:
            ui.label("Nothing but fee and rent.").classes("sw-dim")


def _details(record: Transaction, people: People, tokens: TokenList) -> list[tuple[str, str]]:
    """Every detail but the amount as (title, text), addresses and mints with their names."""
    found = []
    for name, text in details(record):
        if name == "amount":
            continue
        if name in _ADDRESSES:
            text = people.receiver(text)
        elif name in _MINTS and (symbol := tokens.symbol_of(text)) is not None:
            text = f"{symbol}, {text}"
        found.append((_TITLES.get(name, name), text))
    return found


def _signature(record: Transaction, network: str) -> None:
    signature = record.signature or ""
    with ui.element("div"):
        with ui.element("dt"):
            ui.label("Signature")
        with ui.element("dd").classes("sw-row"):
            ui.label(signature).classes("sw-mono").props('data-testid="signature"')
            copy_button(signature, "Signature")
            address = explorer(record, network)
            if address is not None:
                link = ui.link("Open in the explorer", address, new_tab=True)
                link.props('rel="noopener noreferrer"')
