"""The pages, a module or folder each; `register` adds their routes."""

from __future__ import annotations

from nicegui import app, ui

from solward_dashboard.pages import audit, credentials, holds, payments, policy, settings
from solward_dashboard.pages.agents import detail as agent
from solward_dashboard.pages.agents import page as agents
from solward_dashboard.pages.overview import page as overview
from solward_dashboard.pages.plugins import page as plugins
from solward_dashboard.pages.transactions import detail as transaction
from solward_dashboard.pages.transactions import page as transactions
from solward_dashboard.pages.transactions.page import EXPORT, export
from solward_dashboard.pages.wallets import detail as wallet
from solward_dashboard.pages.wallets import page as wallets


def register() -> None:
    """Register every page at its path."""
    ui.page("/")(overview.page)
    ui.page("/agents")(agents.page)
    ui.page("/agents/{agent_id}")(agent.page)
    ui.page("/wallets")(wallets.page)
    ui.page("/wallets/{wallet_id}")(wallet.page)
    ui.page("/transactions")(transactions.page)
    ui.page("/transactions/{transaction_id}")(transaction.page)
    app.get(EXPORT)(export)
    ui.page("/payments")(payments.page)
    ui.page("/holds")(holds.page)
    ui.page("/holds/{hold_id}")(holds.one)
    ui.page("/policy")(policy.page)
    ui.page("/api-keys")(credentials.api_keys)
    ui.page("/admins")(credentials.admins)
    ui.page("/plugins")(plugins.page)
    ui.page("/audit")(audit.page)
    ui.page("/settings")(settings.page)
