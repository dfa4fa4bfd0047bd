"""The address of everything that has a page, links by name, and links to a public explorer."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from solward_dashboard.wording import People, short

# Kind -> the address; a part after # names the place on a page that others share.
_PAGES: Final = {
    "wallet": "/wallets/{}",
    "agent": "/agents/{}",
    "transaction": "/transactions/{}",
    "hold": "/holds/{}",
    "key": "/api-keys#key:{}",
    "admin": "/admins#admin:{}",
    "grants": "/policy#{}",
    "setting": "/settings#{}",
}
_EXPLORER: Final = "https://explorer.solana.com/{}/{}{}"
# Public networks, as the explorer's address names them.
_CLUSTERS: Final = {
    "mainnet-beta": "",
    "devnet": "?cluster=devnet",
    "testnet": "?cluster=testnet",
}


# Kinds that are never deleted, and have no name.
_PERMANENT: Final = ("transaction", "hold")


def address_of(thing: str, place: str = "") -> str:
    """Return the address of a thing's page.

    Args:
        thing: its kind and id, such as `wallet:<id>`, `grants:agent:<id>` or `setting:<name>`.
        place: the place on its page, such as `limits`.
    """
    kind, _, own_id = thing.partition(":")
    page = _PAGES[kind].format(quote(own_id, safe=":"))
    # A key has no page of its own: everything about it stands at its place.
    return f"{page}#{place}" if place and "#" not in page else page


def list_address(path: str, **filters: str) -> str:
    """Return the address of a list that shows only what fits the filters."""
    return f"{path}?{urlencode(filters)}"


def show_thing(thing: str, people: People, words: str = "", place: str = "") -> ui.element:
    """Show a thing's name, by default with its kind, as a link to its page, or to a place there;
    without a link if it was deleted."""
    kind, _, own_id = thing.partition(":")
    if kind in _PERMANENT:
        return ui.link(words or f"{kind} {short(own_id)}", address_of(thing)).classes("sw-text")
    words = words or people.called(thing)
    if thing in people.names:
        return ui.link(words, address_of(thing, place)).classes("sw-text")
    return ui.label(words).classes("sw-text")


def explorer_address(kind: str, own_id: str, network: str) -> str | None:
    """Return the explorer's page of a `tx` or an `address`; None on a local network."""
    cluster = _CLUSTERS.get(network)
    return None if cluster is None else _EXPLORER.format(kind, quote(own_id), cluster)


def explorer_link(kind: str, own_id: str, network: str) -> None:
    """Add a link to the explorer's page of a `tx` or an `address`, on a public network."""
    address = explorer_address(kind, own_id, network)
    if address is not None:
        link = ui.link("Open in the explorer", address, new_tab=True)
        link.props('rel="noopener noreferrer"').props["aria-label"] = f"{own_id} in the explorer"
