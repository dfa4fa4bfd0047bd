"""The answer to an address that no page has: the address as text, and links to similar pages."""

from __future__ import annotations

from difflib import get_close_matches

from fastapi import Request, Response
from nicegui import Client, ui

from solward.support.clean_text import one_line
from solward_dashboard import parts as sw
from solward_dashboard.frame import PAGES, frame

_MAX_ADDRESS = 200


async def answer(request: Request, _error: Exception) -> Response:
    """Return the page, with status 404."""
    path = one_line(request.scope["path"], _MAX_ADDRESS)
    title, about = "Unknown address", "No page of this dashboard has this address."
    with Client(ui.page(""), request=request) as client, frame("", title), sw.card(about):
        sw.text(path, "sw-text sw-mono", testid="address")
        with sw.row():
            sw.dim("Did you look for")
            for route, name in similar_pages(path).items():
                ui.link(name, route)
    return client.build_response(request, 404)


def similar_pages(path: str) -> dict[str, str]:
    """Return the names by path of up to three pages with a similar path, and of the overview."""
    names = {route: name for route, name, _ in PAGES}
    first = path.strip("/").partition("/")[0].lower()
    found = get_close_matches(f"/{first}", names, cutoff=0.7)
    return {route: names[route] for route in [*found, "/"]}
