"""The payments page: requests over HTTP that wallets paid for, and what their sites answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nicegui import ui

from solward.client import PaidAnswer, Payment
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import show_dialog
from solward_dashboard.frame import Poll, frame
from solward_dashboard.links import address_of
from solward_dashboard.lists import NewestFirst
from solward_dashboard.wording import day, local_times, plain, short

EVERY_S = 3.0
LIMIT = 50
# Maximum characters of an answer's body that a dialog shows.
_MOST_TEXT = 20_000
_SERVED = {
    "yes": ("served", "sw-confirmed"),
    "no": ("not served", "sw-blocked"),
    "unknown": ("not known whether served", "sw-idle"),
}


def page(wallet: str = "") -> None:
    """Build the page once for a visitor; a payment is rebuilt when it changes.

    Args:
        wallet: the id of the wallet to begin with; empty for all.
    """
    names: dict[str, str] = {}

    async def ask(before: str | None = None) -> Sequence[Payment]:
        chosen = select.value or None
        return await api().payments.list(wallet_id=chosen, limit=LIMIT, before=before)

    async def fetch() -> tuple[str, Sequence[Payment]]:
        wallets = {each.id: each.name for each in await api().wallets.list()}
        if wallets != names or select.value not in ("", *names):
            names.clear()
            names.update(wallets)
            # The page's address may name a wallet that does not exist.
            chosen = select.value if select.value in names else ""
            select.set_options({"": "All wallets"} | names, value=chosen)
        return select.value, await ask()

    def show(answer: tuple[str, Sequence[Payment]]) -> None:
        chosen, found = answer
        if chosen == select.value:
            payments.none = (
                "This wallet has not paid for a request yet."
                if chosen
                else "No wallet has paid for a request yet."
                " See docs/how-to/payments.md, or `solward pay curl -h`."
            )
            payments.show(found)

    async def filtered() -> None:
        payments.clear()
        await poll.refresh()

    with frame("/payments") as freshness:
        with sw.row("sw-filters"):
            select = sw.choice("Wallet", {wallet: short(wallet), "": "All wallets"}, wallet)
        with sw.card():
            payments = NewestFirst[Payment](
                "payment",
                lambda payment: _receipt(payment, names.get(payment.wallet_id, payment.wallet_id)),
                lambda last: ask(before=last.id),
                LIMIT,
                key=lambda payment: payment.id,
                none="",
                testid="payments",
            )
        poll = Poll(freshness, EVERY_S, fetch, show)
        select.on_value_change(filtered)


def _receipt(payment: Payment, wallet: str) -> ui.element:
    async def details() -> None:
        answer, health = await asyncio.gather(api().payments.get(payment.id), api().health())
        await _show_payment(answer, answer.payment or payment, wallet, health.network)

    served, served_class = _SERVED[payment.served]
    with sw.marked(ui.element("li"), f"payment-{payment.id}") as item:
        with sw.row():
            ui.badge(payment.status).classes(f"sw-{payment.status}")
            ui.badge(served).props("outline").classes(served_class)
            sw.text(amount(payment), "sw-strong sw-number")
            sw.text(f"to {short(payment.pay_to, 6)}", "sw-mono")
            ui.space()
            sw.dim(day(payment.timestamp))
        with sw.row():
            with sw.stack("sw-grow"):
                sw.text(payment.site)
                sw.text(f"{payment.method} {payment.url}", "sw-mono")
            of = f"of {amount(payment)} to {payment.site}"
            sw.button("Details", details, look=sw.FLAT, of=of)
        with sw.row("sw-dim"):
            ui.link(wallet, address_of(f"wallet:{payment.wallet_id}"))
            ui.link("Transaction", address_of(f"transaction:{payment.id}"))
            sw.text(state_text(payment))
            if payment.signature is not None:
                sw.text(f"signature {short(payment.signature, 6)}", "sw-mono")
        if payment.error is not None:
            sw.dim(local_times(payment.error))
    return item


def amount(payment: Payment) -> str:
    """Return a payment's amount and its symbol, or the ends of its mint."""
    return f"{plain(payment.amount)} {payment.symbol or short(payment.asset)}"


def state_text(payment: Payment) -> str:
    """Return a payment's state in words."""
    return payment.state.replace("_", " ")


async def _show_payment(answer: PaidAnswer, payment: Payment, wallet: str, network: str) -> None:
    """Show a payment and its stored answer in a dialog; returns when it is closed."""

    def status() -> None:
        ui.badge(payment.status).classes(f"sw-{payment.status}")
        ui.space()

    async with show_dialog(amount(payment), wide=True, beside=status):
        if payment.error is not None:
            sw.text(local_times(payment.error), "sw-outcome sw-outcome-bad sw-text")
        with sw.facts():
            sw.fact("Request", f"{payment.method} {payment.url}", "sw-mono")
            with sw.fact_of("Wallet", "sw-row"):
                ui.link(wallet, address_of(f"wallet:{payment.wallet_id}")).classes("sw-text")
                ui.link("Transaction", address_of(f"transaction:{payment.id}"))
            sw.fact("State", f"{state_text(payment)}; {_SERVED[payment.served][0]}")
            sw.facts_of(payment, "site", "pay_to", "asset", "protocol", "mode", "timestamp", "id")
            if payment.signature is not None:
                sw.signature_fact(payment.signature, network)
        _show_answer(answer)


def _show_answer(answer: PaidAnswer) -> None:
    """Show the site's answer as plain text."""
    sw.heading("The site's answer")
    status = f"Status {answer.status}" if answer.status else "No answer came."
    sw.text(status, "", testid="answer-status")
    if answer.status:
        if answer.headers:
            headers = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
            sw.text(headers, "sw-mono sw-pre", testid="answer-headers")
        sw.text(_body_text(answer), "sw-mono sw-pre sw-outcome", testid="answer-body")


def _body_text(answer: PaidAnswer) -> str:
    try:
        body = answer.body.decode()
    except UnicodeDecodeError:
        return f"{len(answer.body):,} bytes that are not text"
    if not body:
        return "The answer has no body."
    cut = body[:_MOST_TEXT]
    more = len(body) > len(cut) or answer.truncated
    return f"{cut}\n… (the rest is not shown)" if more else cut
