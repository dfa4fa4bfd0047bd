"""A searchable list that is rendered a page at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from nicegui import ui

from solward_dashboard.wording import ASKING

T = TypeVar("T")


class PagedList(Generic[T]):
    """Search field, count and pagination around elements that the caller renders.

    Args:
        name: of the elements, in the plural.
        search_label: of the search field.
        size: elements on a page.
        match: the elements that fit a search text.
        render: renders the elements `on_page()`.

    Attributes:
        toolbar: the row of the search field; buttons may be added.
    """

    def __init__(
        self,
        name: str,
        search_label: str,
        size: int,
        match: Callable[[str], Sequence[T]],
        render: Callable[[], None],
    ) -> None:
        self._name = name
        self._size = size
        self._match = match
        self._render = render
        self._total: int | None = None
        self._note = ""
        with ui.element("div").classes("sw-row") as self.toolbar:
            self._search = ui.input(search_label).classes("sw-search")
            self._search.props("outlined dense clearable debounce=200 type=search")
            self._search.props('data-testid="search"')
            self._count = ui.label().classes("sw-dim").props("aria-live=polite")
            ui.space()
        self._loading = ui.label(ASKING).classes("sw-empty")

    def add_pagination(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Add the page buttons here; `refresh` fetches what another page shows."""
        self._pages = ui.pagination(1, 1, direction_links=True)
        self._pages.props("max-pages=5 boundary-numbers")
        self._pages.props["aria-label"] = f"Pages of {self._name}"
        self._pages.set_visibility(False)

        async def turned() -> None:
            self._update()
            await refresh()

        async def searched() -> None:
            self._pages.set_value(1)
            await turned()

        self._search.on_value_change(searched)
        self._pages.on_value_change(turned)

    def on_page(self) -> list[T]:
        """The elements of the current page that fit the search."""
        start = (self._pages.value - 1) * self._size
        return list(self._found()[start : start + self._size])

    def show(self, total: int, note: str = "") -> None:
        """Render the list anew: `total` elements without a search; `note` follows their count."""
        self._total, self._note = total, note
        self._update()

    def _found(self) -> Sequence[T]:
        return self._match(self._search.value or "")

    def _update(self) -> None:
        if self._total is None:
            return
        self._loading.set_visibility(False)
        found = len(self._found())
        self._pages.max = max(1, -(-found // self._size))
        if self._pages.value > self._pages.max:
            self._pages.set_value(self._pages.max)
        self._pages.set_visibility(self._pages.max > 1)
        count = f"{found} of {self._total}" if found != self._total else f"{found} in all"
        self._count.set_text(f"{count}{self._note}")
        self._render()
