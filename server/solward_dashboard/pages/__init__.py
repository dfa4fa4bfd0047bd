"""One module a page; importing it registers nothing, `register` does."""

from __future__ import annotations

from nicegui import ui

from solward_dashboard.pages import (
    agents,
    agents_one,
    api_keys,
    overview,
    plugins,
    transactions,
    wallets,
    wallets_one,
)


def register() -> None:
    """Put every page at its path."""
    ui.page("/")(overview.page)
    ui.page("/agents")(agents.page)
    ui.page("/agents/{agent_id}")(agents_one.page)
    ui.page("/wallets")(wallets.page)
    ui.page("/wallets/{wallet_id}")(wallets_one.page)
    ui.page("/transactions")(transactions.page)
    ui.page("/api-keys")(api_keys.page)
    ui.page("/plugins")(plugins.page)
