"""The wallets page, with a card for each wallet; balances are fetched for one page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.client import ApiError, Balance, TokenBalance, Wallet
from solward.resources.declare import fields_of
from solward.resources.wallets import NewWallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import ask_form
from solward_dashboard.forms import RequestForm
from solward_dashboard.frame import Poll, frame
from solward_dashboard.links import address_of
from solward_dashboard.lists import PagedCards
from solward_dashboard.wording import plain, short, sol, token_text

EVERY_S = 10.0
SHOWN = 24
SEARCH_LABEL = "Search by name, tag or address"
_ADDRESS_PART = 4
_MOST = 4


@dataclass(frozen=True, slots=True)
class Holding:
    """A wallet's balance, and its limits (`GET /wallets/:id/limits`)."""

    balance: Balance
    limits: Mapping[str, Any]

    @property
    def frozen(self) -> bool:
        """True if the wallet is frozen."""
        return bool(self.limits.get("frozen"))


def page() -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame("/wallets") as freshness:
        cards = PagedCards[Wallet, Holding | ApiError](
            "wallets",
            SEARCH_LABEL,
            SHOWN,
            find_wallets,
            _Card,
            "No wallet yet. Create the first one.",
            fetch_holding,
        )
        with cards.toolbar:
            sw.button("New wallet", create_wallet, icon="add", look=sw.PRIMARY, needs=sw.POLICY)

        async def fetch() -> tuple[Sequence[Wallet], dict[str, Holding | ApiError | None]]:
            wallets = await api().wallets.list()
            holdings = await cards.fetch(wallets)
            raise_if_all([*holdings.values()])
            return wallets, holdings

        Poll(freshness, EVERY_S, fetch, lambda found: cards.show(*found))


async def fetch_holding(wallet_id: str) -> Holding | ApiError:
    """Return a wallet's balance and limits, or the error if they cannot be read."""
    try:
        balance = await api().wallets.balance(wallet_id)
        return Holding(balance, await api().wallets.limits(wallet_id))
    except ApiError as error:
        return error


def raise_if_all(answers: Sequence[object]) -> None:
    """Raise the first error if all answers are errors, so that the page shows only one."""
    errors = [each for each in answers if isinstance(each, ApiError)]
    if errors and len(errors) == len(answers):
        raise errors[0]


class _Card:
    def __init__(self, wallet: Wallet) -> None:
        with ui.element("li").classes("sw-card sw-card-link") as self.element:
            sw.marked(self.element, f"wallet-{wallet.name}")
            with sw.row():
                ui.link(wallet.name, address_of(f"wallet:{wallet.id}")).classes(
                    "sw-card-title sw-text"
                )
                ui.space()
                self._frozen = ui.badge("frozen", color="blue-8")
            with sw.row("sw-dim"):
                ui.label(short(wallet.address, 6)).classes("sw-mono")
                sw.copy_button(wallet.address, "Address").classes("sw-above")
            self._sol = ui.label("…").classes("sw-figure")
            self._tokens = sw.dim()
            self._tags = sw.LiveContent[Sequence[str]](
                lambda tags: [*map(sw.tag, tags[:_MOST])], "sw-row sw-tags"
            )
        self._frozen.set_visibility(False)

    def show(self, wallet: Wallet, found: Holding | ApiError | None) -> None:
        if isinstance(found, ApiError):
            self._sol.set_text("…")
            self._tokens.set_text(f"The balance cannot be read: {found}")
        elif found is not None:
            self._sol.set_text(sol(found.balance.sol))
            self._tokens.set_text(tokens_text(found.balance.tokens))
            self._frozen.set_visibility(found.frozen)
        self._tags.show(wallet.tags)


async def create_wallet() -> None:
    """Create a wallet and open its page."""
    wallet = await ask_form(
        "New wallet",
        lambda: RequestForm(fields_of(NewWallet)),
        "Create",
        lambda values: api().wallets.create(**values),
        testid="create",
    )
    if wallet is not None:
        ui.navigate.to(address_of(f"wallet:{wallet.id}"))


def find_wallets(wallets: Sequence[Wallet], search: str) -> list[Wallet]:
    """Return the wallets whose name, tags or address contain every word of the search.

    Words of less than four characters are not searched in addresses: they are in too many.
    """
    words = search.casefold().split()

    def has(wallet: Wallet, word: str) -> bool:
        address = wallet.address if len(word) >= _ADDRESS_PART else ""
        return any(word in each.casefold() for each in (wallet.name, *wallet.tags, address))

    return [each for each in wallets if all(has(each, word) for word in words)]


def tokens_text(tokens: Sequence[TokenBalance]) -> str:
    """Return a wallet's tokens, such as `7.4 USDC, 0.05 wSOL and 2 more`."""
    if not tokens:
        return "no tokens"
    parts = [f"{plain(each.amount)} {token_name(each)}" for each in tokens[:_MOST]]
    more = len(tokens) - _MOST
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def token_name(token: TokenBalance, claimed: str = "") -> str:
    """Return a token's symbol, or the ends of its mint and the symbol that its maker gave it;
    `wSOL` for wrapped SOL, not SOL."""
    if token.mint == WRAPPED_SOL_MINT:
        return "wSOL"
    return token_text(token.mint, token.symbol, claimed)
