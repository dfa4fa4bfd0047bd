"""The pages, a module for each, or for a list and its elements; `register` adds their routes."""

from __future__ import annotations

from nicegui import app, ui

from solward_dashboard.pages import (
    agents,
    audit,
    credentials,
    holds,
    overview,
    payments,
    plugins,
    policy,
    settings,
    transaction,
    transactions,
    wallet,
    wallets,
)


def register() -> None:
    """Register every page at its path."""
    ui.page("/")(overview.page)
    ui.page("/agents")(agents.page)
    ui.page("/agents/{agent_id}")(agents.page_of_one)
    ui.page("/wallets")(wallets.page)
    ui.page("/wallets/{wallet_id}")(wallet.page)
    ui.page("/transactions")(transactions.page)
    ui.page("/transactions/{transaction_id}")(transaction.page)
    app.get(transactions.EXPORT)(transactions.export)
    ui.page("/payments")(payments.page)
    ui.page("/holds")(holds.page)
    ui.page("/holds/{hold_id}")(holds.page_of_one)
    ui.page("/policy")(policy.page)
    ui.page("/api-keys")(credentials.api_keys)
    ui.page("/admins")(credentials.admins)
    ui.page("/plugins")(plugins.page)
    ui.page("/audit")(audit.page)
    ui.page("/settings")(settings.page)
