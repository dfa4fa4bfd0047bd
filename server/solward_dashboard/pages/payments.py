"""The payments page: requests over HTTP that wallets paid for, and what their sites answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nicegui import ui

from solward.client import ClientError, PaidAnswer, Payment, Wallet
from solward_dashboard.api import api
from solward_dashboard.dialogs import copy_button, fact, heading, notify_error, result_of
from solward_dashboard.frame import Freshness, Poll, frame
from solward_dashboard.wording import ASKING, counted, day, local_times, plain, second, short

EVERY_S = 3.0
LIMIT = 50
# Characters of an answer's body that a dialog shows.
_MOST_TEXT = 20_000
_SERVED = {
    "yes": ("served", "sw-confirmed"),
    "no": ("not served", "sw-blocked"),
    "unknown": ("not known whether served", "sw-idle"),
}


@dataclass(frozen=True, slots=True)
class Receipts:
    """The newest payments of the chosen wallet, and the wallets."""

    chosen: str
    payments: tuple[Payment, ...]
    wallets: tuple[Wallet, ...]


def page(wallet: str = "") -> None:
    """Built once a visitor; the list is built anew when a payment of it has changed.

    Args:
        wallet: the id of the wallet to begin with; empty for all.
    """
    with frame("/payments") as freshness:
        _List(freshness, wallet)


class _List:
    """The payments of one visitor's page, newest first."""

    def __init__(self, freshness: Freshness, wallet: str) -> None:
        self._chosen = wallet
        self._wallets: dict[str, str] = {}
        self._newest: tuple[Payment, ...] = ()
        self._older: list[Payment] = []
        self._ended = False
        self._drawn: list[object] | None = None
        # Not in the list: what is in it goes when it is built anew.
        self._dialogs = ui.element("div").classes("hidden")
        with ui.element("div").classes("sw-row sw-filters"):
            self._select = ui.select({"": "All wallets"}, value="", label="Wallet")
            self._select.props("outlined dense options-dense").classes("sw-select")
        self._empty = ui.label(ASKING).classes("sw-empty")
        self._empty.props('data-testid="empty"')
        self._place = ui.element("ul").classes("sw-card sw-list")
        self._place.props('data-testid="payments"').set_visibility(False)
        with ui.element("div").classes("sw-row"):
            self._count = ui.label().classes("sw-dim").props('data-testid="count" role=status')
            ui.space()
            self._more = ui.button("Load older", color=None, on_click=self._load_older)
            self._more.props("outline no-caps").set_visibility(False)
        self._poll = Poll(freshness, EVERY_S, self._fetch, self._show)
        self._select.on_value_change(self._filtered)

    async def _fetch(self) -> Receipts:
        wallets = await api().wallets.list()
        if self._chosen not in {each.id for each in wallets}:
            # The address of the page may name any.
            self._chosen = ""
        chosen = self._chosen
        payments = await api().payments.list(wallet_id=chosen or None, limit=LIMIT)
        return Receipts(chosen, payments, wallets)

    def _show(self, answer: Receipts) -> None:
        if answer.chosen != self._chosen:
            return
        names = {each.id: each.name for each in answer.wallets}
        if names != self._wallets:
            self._wallets = names
            self._select.set_options({"": "All wallets"} | names)
            if self._chosen in names and self._select.value != self._chosen:
                self._select.set_value(self._chosen)
        if not self._older:
            self._ended = len(answer.payments) < LIMIT
        shown = {each.id for each in answer.payments}
        # What no longer is among the newest stays, so that the list has no gap.
        left = [each for each in self._newest if each.id not in shown] if self._older else []
        self._older = [*left, *(each for each in self._older if each.id not in shown)]
        self._newest = answer.payments
        self._draw()

    def _draw(self) -> None:
        every = [*self._newest, *self._older]
        version: list[object] = [self._wallets, *(each.raw for each in every)]
        if version != self._drawn:
            self._drawn = version
            self._place.clear()
            with self._place:
                for each in every:
                    self._receipt(each)
        self._place.set_visibility(bool(every))
        self._empty.set_visibility(not every)
        self._empty.set_text(
            "This wallet has paid for no request yet."
            if self._chosen
            else "No request was paid for yet. See docs/payments.md, or `solward pay curl -h`."
        )
        self._count.set_text(counted(len(every), "payment") if every else "")
        self._more.set_visibility(bool(every) and not self._ended)

    def _receipt(self, payment: Payment) -> None:
        served, served_class = _SERVED[payment.served]
        with ui.element("li") as item:
            item.props["data-testid"] = f"payment-{payment.id}"
            with ui.element("div").classes("sw-row"):
                ui.badge(payment.status).classes(f"sw-{payment.status}")
                ui.badge(served).props("outline").classes(served_class)
                ui.label(amount(payment)).classes("sw-strong sw-number")
                ui.label(f"to {short(payment.pay_to, 6)}").classes("sw-mono")
                ui.space()
                ui.label(day(payment.timestamp)).classes("sw-dim")
            with ui.element("div").classes("sw-row"):
                with ui.element("div").classes("sw-grow"):
                    ui.label(payment.site).classes("sw-text")
                    ui.label(f"{payment.method} {payment.url}").classes("sw-mono")
                details = ui.button("Details", color=None)
                details.props("flat dense no-caps").props["aria-label"] = (
                    f"Details of {amount(payment)} to {payment.site}"
                )
                details.on_click(lambda: self._open(payment))
            with ui.element("div").classes("sw-row sw-dim"):
                ui.link(
                    self._wallets.get(payment.wallet_id, payment.wallet_id),
                    f"/wallets/{payment.wallet_id}",
                )
                ui.label(state(payment))
                if payment.signature is not None:
                    ui.label(f"signature {short(payment.signature, 6)}").classes("sw-mono")
            if payment.error is not None:
                ui.label(local_times(payment.error)).classes("sw-text sw-dim")

    async def _open(self, payment: Payment) -> None:
        try:
            answer = await api().payments.get(payment.id)
        except ClientError as error:
            notify_error(error)
            return
        with self._dialogs:
            await _show_payment(
                answer, answer.payment or payment, self._wallets.get(payment.wallet_id, "")
            )

    async def _filtered(self) -> None:
        chosen = self._select.value or ""
        if chosen == self._chosen:
            return
        self._chosen = chosen
        self._newest, self._older, self._ended = (), [], False
        await self._poll.refresh()

    async def _load_older(self) -> None:
        chosen = self._chosen
        last = [*self._newest, *self._older][-1]
        self._more.disable()
        try:
            found: Sequence[Payment] = await api().payments.list(
                wallet_id=chosen or None, limit=LIMIT, before=last.id
            )
        except ClientError as error:
            notify_error(error)
            return
        finally:
            self._more.enable()
        if chosen == self._chosen:
            self._older += found
            self._ended = len(found) < LIMIT
            self._draw()


def amount(payment: Payment) -> str:
    """The amount with its unit; the details have the whole mint."""
    return f"{plain(payment.amount)} {payment.symbol or short(payment.asset)}"


def state(payment: Payment) -> str:
    """How far it is, in words."""
    return payment.state.replace("_", " ")


async def _show_payment(answer: PaidAnswer, payment: Payment, wallet: str) -> None:
    """A dialog with all of a payment, and the kept answer as text; returns when it is closed."""
    with ui.dialog() as dialog, ui.card().classes("sw-dialog sw-dialog-wide"):
        dialog.props('aria-label="Payment"')
        with ui.element("div").classes("sw-row"):
            heading(amount(payment)).classes("sw-number")
            ui.badge(payment.status).classes(f"sw-{payment.status}")
            ui.space()
            close = ui.button(icon="close", color=None, on_click=dialog.close)
            close.props('flat round dense aria-label="Close"')
        if payment.error is not None:
            ui.label(local_times(payment.error)).classes("sw-outcome sw-outcome-bad sw-text")
        with ui.element("dl").classes("sw-facts"):
            fact("Request", f"{payment.method} {payment.url}", "sw-mono")
            fact("Site", payment.site, "sw-mono")
            fact("Paid to", payment.pay_to, "sw-mono")
            fact("Asset", payment.asset, "sw-mono")
            fact("State", f"{state(payment)}; {_SERVED[payment.served][0]}")
            fact("By", f"{payment.protocol}, {payment.mode}")
            fact("Wallet", wallet or payment.wallet_id)
            fact("Time", second(payment.timestamp))
            if payment.signature is not None:
                _signature(payment.signature)
            fact("Payment", payment.id, "sw-mono")
        _answer(answer)
    await result_of(dialog)


def _signature(signature: str) -> None:
    with ui.element("div"):
        with ui.element("dt"):
            ui.label("Signature")
        with ui.element("dd").classes("sw-row"):
            ui.label(signature).classes("sw-mono").props('data-testid="signature"')
            copy_button(signature, "Signature")


def _answer(answer: PaidAnswer) -> None:
    """What the site wrote, as text and nothing else."""
    heading("What the site answered")
    if not answer.status:
        ui.label("No answer came.").classes("sw-dim").props('data-testid="answer-status"')
        return
    ui.label(f"Status {answer.status}").props('data-testid="answer-status"')
    if answer.headers:
        text = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        ui.label(text).classes("sw-mono sw-pre").props('data-testid="answer-headers"')
    ui.label(_body_text(answer)).classes("sw-mono sw-pre sw-outcome").props(
        'data-testid="answer-body"'
    )


def _body_text(answer: PaidAnswer) -> str:
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        return f"{len(answer.body):,} bytes that are no text"
    if not text:
        return "It has no body."
    cut = text[:_MOST_TEXT]
    more = len(text) > len(cut) or answer.truncated
    return f"{cut}\n… (more than is shown)" if more else cut
