"""The wallets page: a card a wallet. Holdings are fetched for one page of cards at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicegui import ui

from solward.client import ApiError, Wallet
from solward_dashboard.dialogs import copy_button
from solward_dashboard.frame import Poll, frame
from solward_dashboard.paged_list import PagedList
from solward_dashboard.pages.wallets.data import Holding, Wallets, fetch, matching, tokens_text
from solward_dashboard.pages.wallets.dialogs import CreateDialog
from solward_dashboard.wording import short, sol

EVERY_S = 10.0
SHOWN = 24
SEARCH_LABEL = "Search by name, tag or address"
_TAGS = 4


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/wallets") as freshness:
        create = CreateDialog()
        latest = Wallets((), {})

        def match(text: str) -> list[Wallet]:
            return matching(latest.wallets, text)

        def render() -> None:
            cards.show(listing.on_page(), latest.holdings, any_exist=bool(latest.wallets))

        listing = PagedList("wallets", SEARCH_LABEL, SHOWN, match, render)
        with listing.toolbar:
            new = ui.button("New wallet", icon="add", on_click=create.open)
            new.props("no-caps unelevated").classes("sw-needs-policy")
        cards = _Cards()

        async def fetch_page() -> Wallets:
            return await fetch([each.id for each in listing.on_page()], SHOWN)

        def show(answer: Wallets) -> None:
            nonlocal latest
            # Holdings of other pages are kept until their page is fetched again.
            latest = Wallets(answer.wallets, {**latest.holdings, **answer.holdings})
            listing.show(len(latest.wallets))

        poll = Poll(freshness, EVERY_S, fetch_page, show)
        listing.add_pagination(poll.refresh)


class _Cards:
    """A card a wallet, rebuilt only when other wallets are shown."""

    def __init__(self) -> None:
        self._cards: dict[str, _Card] = {}
        self._order: list[str] = []
        self._place = ui.element("ul").classes("sw-cards")
        self._empty = ui.label().classes("sw-empty")
        self._empty.set_visibility(False)

    def show(
        self,
        wallets: Sequence[Wallet],
        holdings: Mapping[str, Holding | ApiError],
        *,
        any_exist: bool,
    ) -> None:
        order = [each.id for each in wallets]
        if order != self._order:
            self._order = order
            self._place.clear()
            with self._place:
                self._cards = {each.id: _Card(each) for each in wallets}
        for each in wallets:
            self._cards[each.id].show(each, holdings.get(each.id))
        nothing = (
            "No wallet fits the search." if any_exist else "No wallet yet. Make the first one."
        )
        self._empty.set_text(nothing)
        self._empty.set_visibility(not wallets)


class _Card:
    def __init__(self, wallet: Wallet) -> None:
        with ui.element("li").classes("sw-card sw-card-link") as card:
            card.props["data-testid"] = f"wallet-{wallet.name}"
            with ui.element("div").classes("sw-row"):
                ui.link(wallet.name, f"/wallets/{wallet.id}").classes("sw-card-title sw-text")
                ui.space()
                self._frozen = ui.badge("frozen", color="blue-8")
            with ui.element("div").classes("sw-row sw-dim"):
                ui.label(short(wallet.address, 6)).classes("sw-mono")
                copy_button(wallet.address, "Address").classes("sw-above")
            self._sol = ui.label("…").classes("sw-figure")
            self._tokens = ui.label().classes("sw-dim sw-text")
            self._tags = ui.element("div").classes("sw-row sw-tags")
        self._frozen.set_visibility(False)
        self._shown_tags: tuple[str, ...] = ()

    def show(self, wallet: Wallet, holding: Holding | ApiError | None) -> None:
        if isinstance(holding, ApiError):
            self._sol.set_text("…")
            self._tokens.set_text(f"Cannot be read: {holding}")
        elif holding is not None:
            self._sol.set_text(sol(holding.balance.sol))
            self._tokens.set_text(tokens_text(holding.balance.tokens))
            self._frozen.set_visibility(holding.frozen)
        if wallet.tags != self._shown_tags:
            self._shown_tags = wallet.tags
            self._tags.clear()
            with self._tags:
                for tag in wallet.tags[:_TAGS]:
                    ui.badge(tag).props("outline").classes("sw-tag")
