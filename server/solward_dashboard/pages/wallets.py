"""The wallets page, a table; balances are fetched for the rows that are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from nicegui import ui

from solward.client import ApiError, Balance, Frozen, TokenBalance, Wallet
from solward.resources.declare import declared_fields, fields_of
from solward.resources.service import Freeze
from solward.resources.wallets import NewWallet
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_dashboard import parts as sw
from solward_dashboard.api import api, fetch_each
from solward_dashboard.dialogs import ask_form
from solward_dashboard.forms import RequestForm
from solward_dashboard.frame import Poll, frame, set_frozen
from solward_dashboard.links import address_of
from solward_dashboard.lists import Bulk, ListTable, Row
from solward_dashboard.wording import day, plain, short, sol, token_text

EVERY_S = 10.0
SEARCH_LABEL = "Search by name, tag or address"
_ADDRESS_PART = 4
_STATUSES = ("active", "frozen")
_MOST_FROZEN = 500


def page() -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame("/wallets") as freshness:
        known: list[tuple[Sequence[Wallet], Frozen]] = []
        balances: dict[str, Balance | ApiError] = {}

        def find(search: str) -> Sequence[Row] | None:
            if not known:
                return None
            [(wallets, frozen)] = known
            own = {each.wallet_id for each in frozen.wallets}
            other = "active" if frozen.frozen_wallets <= len(own) else "unknown"
            return [
                _row(each, "frozen" if each.id in own else other, balances.get(each.id))
                for each in find_wallets(wallets, search)
            ]

        reason = declared_fields(Freeze)["reason"]
        bulk = (
            Bulk("Freeze", "ac_unit", lambda own, note: set_frozen(True, note, own), note=reason),
            Bulk(
                "Unfreeze",
                "wb_sunny",
                lambda own, _: set_frozen(False, "", own),
                sw.POLICY,
                warning="Agents, keys and schedules may spend from them again within limits.",
            ),
        )
        none = "No wallet yet. Create the first one."
        table = ListTable("wallet", SEARCH_LABEL, _STATUSES, find, bulk, create_wallet, none)

        async def fetch() -> None:
            known[:] = [
                await asyncio.gather(api().wallets.list(), api().frozen(limit=_MOST_FROZEN))
            ]
            # The names stand there before the ledger has answered for each balance.
            table.draw()
            rows = table.matching()
            asked = [*table.page_of(rows)]
            if table.address.get("sort") in ("sol", "-sol"):
                # Rows are sorted by all balances, so each is read at least once.
                asked += [each for each in rows if each.id not in balances and each not in asked]
            found = await fetch_each([each.id for each in asked], fetch_balance)
            raise_if_all([*found.values()])
            balances.update(found)

        Poll(freshness, EVERY_S, fetch, lambda _: table.draw())


def _row(wallet: Wallet, status: str, balance: Balance | ApiError | None) -> Row:
    amount, tokens = "…", "…" if balance is None else f"The balance cannot be read: {balance}"
    known = Decimal(-1)
    if isinstance(balance, Balance):
        amount, tokens = sol(balance.sol).removesuffix(" SOL"), tokens_text(balance.tokens, 2)
        known = balance.sol
    cells = {
        "name": wallet.name,
        "status": status,
        "sol": amount,
        "tokens": tokens,
        "tags": ", ".join(wallet.tags),
        "address": short(wallet.address, 6),
        "created": day(wallet.created_at),
    }
    tones = {"status": "sw-text-pending" if status == "frozen" else ""}
    keys = {"sol": known, "created": wallet.created_at}
    return Row(wallet.id, cells, keys, {"name": address_of(f"wallet:{wallet.id}")}, tones)


async def fetch_balance(wallet_id: str) -> Balance | ApiError:
    """Return a wallet's balance, or the error if it cannot be read."""
    try:
        return await api().wallets.balance(wallet_id)
    except ApiError as error:
        return error


def raise_if_all(answers: Sequence[object]) -> None:
    """Raise the first error if all answers are errors, so that the page shows only one."""
    errors = [each for each in answers if isinstance(each, ApiError)]
    if errors and len(errors) == len(answers):
        raise errors[0]


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


def tokens_text(tokens: Sequence[TokenBalance], most: int = 4) -> str:
    """Return a wallet's tokens, such as `7.4 USDC, 0.05 wSOL and 2 more`."""
    if not tokens:
        return "no tokens"
    parts = [f"{plain(each.amount)} {token_name(each)}" for each in tokens[:most]]
    more = len(tokens) - most
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def token_name(token: TokenBalance, claimed: str = "") -> str:
    """Return a token's symbol, or the ends of its mint and the symbol that its maker gave it;
    `wSOL` for wrapped SOL, not SOL."""
    if token.mint == WRAPPED_SOL_MINT:
        return "wSOL"
    return token_text(token.mint, token.symbol, claimed)
