"""The dialog of one transaction."""

from __future__ import annotations

from nicegui import ui

from solward.client import Transaction
from solward_dashboard.dialogs import copy_button, fact, heading, result_of
from solward_dashboard.pages.transactions.rows import details, explorer, fee_facts


async def show_record(record: Transaction, wallet: str, network: str) -> None:
    """A dialog with the record; returns when it is closed."""
    with ui.dialog() as dialog, ui.card().classes("sw-dialog sw-dialog-wide"):
        dialog.props('aria-label="Transaction"')
        with ui.element("div").classes("sw-row"):
            heading(record.type.replace("_", " "))
            ui.badge(record.status).classes(f"sw-{record.status}")
            ui.space()
            close = ui.button(icon="close", color=None, on_click=dialog.close)
            close.props('flat round dense aria-label="Close"')
        if record.error is not None:
            ui.label(record.error).classes("sw-outcome sw-outcome-bad sw-text")
        with ui.element("dl").classes("sw-facts"):
            fact("Wallet", wallet)
            if record.agent_id is not None:
                fact("Agent", record.agent_id, "sw-mono")
            if record.principal is not None:
                fact("By", record.principal, "sw-mono")
            fact("Time", record.timestamp.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"))
            for name, text in details(record):
                fact(name, text, "sw-mono")
            for name, text in () if record.fee is None else fee_facts(record.fee):
                fact(name, text, "sw-mono")
            if record.signature is not None:
                _signature(record, network)
            fact("Record", record.id, "sw-mono")
        heading("Guardrails applied")
        with ui.element("div").classes("sw-row"):
            refused = record.guardrails_applied[-1:] if record.status == "blocked" else ()
            for rule in record.guardrails_applied:
                bad = rule in refused
                badge = ui.badge(f"{rule} refused" if bad else rule).props("outline")
                badge.classes("sw-blocked" if bad else "sw-tag")
            if not record.guardrails_applied:
                ui.label("none").classes("sw-dim")
    await result_of(dialog)


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
