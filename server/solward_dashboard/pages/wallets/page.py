"""The wallets page: a card a wallet. Holdings are fetched for one page of cards at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui

from solward.client import ApiError, Wallet
from solward_dashboard import parts as sw
from solward_dashboard.frame import Poll, frame
from solward_dashboard.lists import PagedCards
from solward_dashboard.pages.wallets.data import Holding, Wallets, fetch, matching, tokens_text
from solward_dashboard.pages.wallets.dialogs import create_wallet
from solward_dashboard.wording import short, sol

EVERY_S = 10.0
SHOWN = 24
SEARCH_LABEL = "Search by name, tag or address"
_TAGS = 4


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/wallets") as freshness:
        # Holdings of other pages are kept until their page is fetched again.
        holdings: dict[str, Holding | ApiError] = {}
        cards = PagedCards[Wallet](
            "wallets",
            SEARCH_LABEL,
            SHOWN,
            matching,
            lambda wallet: _Card(wallet, holdings.get),
            "No wallet yet. Make the first one.",
        )
        with cards.toolbar:
            sw.button("New wallet", create_wallet, icon="add", look=sw.PRIMARY, needs=sw.POLICY)

        async def fetch_page() -> Wallets:
            return await fetch([each.id for each in cards.on_page()], SHOWN)

        def show(answer: Wallets) -> None:
            holdings.update(answer.holdings)
            cards.show(answer.wallets)

        Poll(freshness, EVERY_S, fetch_page, show)


class _Card:
    def __init__(self, wallet: Wallet, held: Callable[[str], Holding | ApiError | None]) -> None:
        self._held = held
        with ui.element("li").classes("sw-card sw-card-link") as self.element:
            self.element.props["data-testid"] = f"wallet-{wallet.name}"
            with sw.row():
                ui.link(wallet.name, f"/wallets/{wallet.id}").classes("sw-card-title sw-text")
                ui.space()
                self._frozen = ui.badge("frozen", color="blue-8")
            with sw.row("sw-dim"):
                ui.label(short(wallet.address, 6)).classes("sw-mono")
                sw.copy_button(wallet.address, "Address").classes("sw-above")
            self._sol = ui.label("…").classes("sw-figure")
            self._tokens = sw.dim()
            self._tags = sw.Redrawn[Sequence[str]](
                lambda tags: [*map(sw.tag, tags[:_TAGS])], "sw-row sw-tags"
            )
        self._frozen.set_visibility(False)

    def show(self, wallet: Wallet) -> None:
        holding = self._held(wallet.id)
        if isinstance(holding, ApiError):
            self._sol.set_text("…")
            self._tokens.set_text(f"Cannot be read: {holding}")
        elif holding is not None:
            self._sol.set_text(sol(holding.balance.sol))
            self._tokens.set_text(tokens_text(holding.balance.tokens))
            self._frozen.set_visibility(holding.frozen)
        self._tags.show(wallet.tags)
