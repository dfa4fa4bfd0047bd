"""Wallets: who has what. Balances are asked for those that are shown, a page of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nicegui import ui

from solward.client import Balance, TokenBalance, Wallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard.api import api
from solward_dashboard.dialogs import copy_button
from solward_dashboard.frame import frame
from solward_dashboard.pages.wallets.dialogs import CreateDialog
from solward_dashboard.polling import Feed
from solward_dashboard.wording import plain, short, sol

EVERY_S = 10.0
SHOWN = 24
_AT_ONCE = 6
_ADDRESS_PART = 4
_TOKENS = 4
_TAGS = 4


@dataclass(frozen=True, slots=True)
class Holding:
    """What a wallet has, and whether it is frozen."""

    balance: Balance
    frozen: bool


@dataclass(frozen=True, slots=True)
class Wallets:
    """Every wallet, and what those on the page hold, by id."""

    wallets: tuple[Wallet, ...]
    holdings: Mapping[str, Holding]


async def ask(shown: Sequence[str], first: int) -> Wallets:
    """All wallets, and of those in `shown` what they hold; of the `first` ones where none is."""
    wallets = await api().wallets.list()
    known = {each.id for each in wallets}
    wanted = [each for each in shown if each in known] or [each.id for each in wallets[:first]]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def held(wallet_id: str) -> Holding:
        async with turn:
            balance = await api().wallets.balance(wallet_id)
            limits = await api().wallets.limits(wallet_id)
        return Holding(balance, bool(limits.get("frozen")))

    holdings = await asyncio.gather(*map(held, wanted))
    return Wallets(wallets, dict(zip(wanted, holdings, strict=True)))


def matching(wallets: Sequence[Wallet], search: str) -> list[Wallet]:
    """Those whose name, tags or address have every word of the search.

    Less than four characters are in too many addresses to be looked for there.
    """
    words = search.casefold().split()
    return [each for each in wallets if all(_has(each, word) for word in words)]


def _has(wallet: Wallet, word: str) -> bool:
    named = (wallet.name, *wallet.tags, *([wallet.address] if len(word) >= _ADDRESS_PART else []))
    return any(word in each.casefold() for each in named)


def page() -> None:
    """Built once a visitor; what changes is changed in place."""
    with frame("/wallets") as freshness:
        create = CreateDialog()
        with ui.element("div").classes("sw-row"):
            search = ui.input("Search by name, tag or address").classes("sw-search")
            search.props('outlined dense clearable debounce=200 type=search data-testid="search"')
            count = ui.label().classes("sw-dim").props("aria-live=polite")
            ui.space()
            ui.button("New wallet", icon="add", on_click=create.open).props("no-caps unelevated")
        cards = _Cards()
        pages = ui.pagination(1, 1, direction_links=True).props("max-pages=5 boundary-numbers")
        pages.props["aria-label"] = "Pages of wallets"
        pages.set_visibility(False)
        seen: list[Wallets] = []
        asking = ui.label("Asking the service …").classes("sw-empty")

        def found() -> list[Wallet]:
            return matching(seen[-1].wallets, search.value or "") if seen else []

        def on_page() -> list[Wallet]:
            start = (pages.value - 1) * SHOWN
            return found()[start : start + SHOWN]

        def lay_out() -> None:
            if not seen:
                return
            asking.set_visibility(False)
            total, every = len(found()), len(seen[-1].wallets)
            pages.max = max(1, -(-total // SHOWN))
            if pages.value > pages.max:
                pages.set_value(pages.max)
            pages.set_visibility(pages.max > 1)
            count.set_text(f"{total} of {every}" if total != every else f"{every} in all")
            cards.show(on_page(), seen[-1].holdings, searched=bool(every))

        def show(answer: Wallets) -> None:
            # What was known of another page is shown until it is asked for again.
            old = seen[-1].holdings if seen else {}
            seen[:] = [Wallets(answer.wallets, {**old, **answer.holdings})]
            lay_out()

        feed = Feed(freshness, EVERY_S, lambda: ask([each.id for each in on_page()], SHOWN), show)

        async def turn() -> None:
            lay_out()
            await feed.refresh()

        async def look() -> None:
            pages.set_value(1)
            await turn()

        search.on_value_change(look)
        pages.on_value_change(turn)


class _Cards:
    """A card a wallet; made anew only when others are to be shown."""

    def __init__(self) -> None:
        self._cards: dict[str, _Card] = {}
        self._order: list[str] = []
        self._place = ui.element("div").classes("sw-cards").props("role=list")
        self._empty = ui.label().classes("sw-empty")
        self._empty.set_visibility(False)

    def show(
        self, wallets: Sequence[Wallet], holdings: Mapping[str, Holding], *, searched: bool
    ) -> None:
        order = [each.id for each in wallets]
        if order != self._order:
            self._order = order
            self._place.clear()
            with self._place:
                self._cards = {each.id: _Card(each) for each in wallets}
        for each in wallets:
            self._cards[each.id].show(each, holdings.get(each.id))
        nothing = "No wallet fits the search." if searched else "No wallet yet. Make the first one."
        self._empty.set_text(nothing)
        self._empty.set_visibility(not wallets)


class _Card:
    def __init__(self, wallet: Wallet) -> None:
        with ui.element("article").classes("sw-card sw-card-link").props("role=listitem") as card:
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
        self._tagged: tuple[str, ...] = ()

    def show(self, wallet: Wallet, holding: Holding | None) -> None:
        if holding is not None:
            self._sol.set_text(sol(holding.balance.sol))
            self._tokens.set_text(tokens_text(holding.balance.tokens))
            self._frozen.set_visibility(holding.frozen)
        if wallet.tags != self._tagged:
            self._tagged = wallet.tags
            self._tags.clear()
            with self._tags:
                for tag in wallet.tags[:_TAGS]:
                    ui.badge(tag).props("outline").classes("sw-tag")


def tokens_text(tokens: Sequence[TokenBalance]) -> str:
    """`7.4 USDC, 0.05 wSOL and 2 more`."""
    if not tokens:
        return "no tokens"
    named = [f"{plain(each.amount)} {token_name(each)}" for each in tokens[:_TOKENS]]
    more = len(tokens) - _TOKENS
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def token_name(token: TokenBalance) -> str:
    """Its symbol, or the beginning and end of its mint; wrapped SOL is told from SOL."""
    if token.mint == WRAPPED_SOL_MINT:
        return "wSOL"
    return token.symbol or short(token.mint)
