"""Lists that grow: pages of cards, and the newest elements with older ones on demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from nicegui import ui

from solward_dashboard import parts as sw
from solward_dashboard.api import fetch_each
from solward_dashboard.wording import ASKING, counted

T = TypeVar("T")


class HasId(Protocol):
    """An element with an id."""

    @property
    def id(self) -> str:
        """The element's id."""


Item = TypeVar("Item", bound=HasId)
More = TypeVar("More")


class Card(Protocol[Item, More]):  # type: ignore[misc]
    """The card of one element, which is updated in place."""

    element: ui.element

    def show(self, one: Item, more: More | None) -> None:
        """Show the element; `more` is its further data, None until they are fetched."""


def search_words(search: str, every: Iterable[T], texts: Callable[[T], Iterable[str]]) -> list[T]:
    """Return the elements whose texts contain every word of the search."""
    words = search.casefold().split()

    def fits(one: T) -> bool:
        searched = "\n".join(texts(one)).casefold()
        return all(word in searched for word in words)

    return [each for each in every if fits(each)]


class PagedCards(Generic[Item, More]):
    """A searchable list of cards in pages; cards are reused, because one may have the focus.

    Args:
        name: name of the elements, in the plural.
        search_label: label of the search field.
        size: cards on a page.
        match: returns the elements that fit a search text.
        make: builds the card of an element.
        none: the text if there is no element.
        ask: fetches by the element's id what else its card shows.

    Attributes:
        toolbar: the row of the search field; buttons may be added.
    """

    def __init__(
        self,
        name: str,
        search_label: str,
        size: int,
        match: Callable[[Sequence[Item], str], Sequence[Item]],
        make: Callable[[Item], Card[Item, More]],
        none: str,
        ask: Callable[[str], Awaitable[More | None]],
    ) -> None:
        self._name = name
        self._size = size
        self._match = match
        self._make = make
        self._none = none
        self._ask = ask
        self._every: Sequence[Item] = ()
        # Answers for other pages are kept until their page is shown again.
        self._more: dict[str, More] = {}
        self._note = ""
        self._cards: dict[str, Card[Item, More]] = {}
        with sw.row() as self.toolbar:
            self._search = sw.marked(sw.search_field(search_label, self._handle_search), "search")
            self._count = sw.dim(classes="").props("aria-live=polite")
            ui.space()
        self._place = ui.element("ul").classes(f"sw-{name}")
        self._empty = ui.label(ASKING).classes("sw-empty")
        self._pages = ui.pagination(1, 1, direction_links=True, on_change=self._handle_page_turn)
        self._pages.props("max-pages=5 boundary-numbers")
        self._pages.props["aria-label"] = f"Pages of {name}"
        self._pages.set_visibility(False)

    async def fetch(self, every: Sequence[Item]) -> dict[str, More | None]:
        """Return the further data of the current page's cards, by the ids of their elements."""
        shown = self._cut_page(self._matches(every))
        return await fetch_each([each.id for each in shown], self._ask)

    def show(
        self, every: Sequence[Item], more: Mapping[str, More | None] | None = None, note: str = ""
    ) -> None:
        """Show the elements; `note` follows their count."""
        self._every, self._note = every, note
        self._more |= {own_id: each for own_id, each in (more or {}).items() if each is not None}
        matching = self._matches(every)
        found = len(matching)
        self._pages.max = max(1, -(-found // self._size))
        if self._pages.value > self._pages.max:
            self._pages.set_value(self._pages.max)
        self._pages.set_visibility(self._pages.max > 1)
        count = f"{found} of {len(every)}" if found != len(every) else f"{found} in all"
        self._count.set_text(f"{count}{note}")
        shown = self._cut_page(matching)
        self._arrange_cards(shown)
        for each in shown:
            self._cards[each.id].show(each, self._more.get(each.id))
        fits_none = f"No {self._name.removesuffix('s')} fits the search."
        self._empty.set_text(fits_none if every else self._none)
        self._empty.set_visibility(not shown)

    def _matches(self, every: Sequence[Item]) -> Sequence[Item]:
        return self._match(every, self._search.value or "")

    def _cut_page(self, found: Sequence[Item]) -> Sequence[Item]:
        start = (self._pages.value - 1) * self._size
        return found[start : start + self._size]

    def _arrange_cards(self, shown: Sequence[Item]) -> None:
        order = [each.id for each in shown]
        for removed in self._cards.keys() - set(order):
            self._cards.pop(removed).element.delete()
        with self._place:
            for each in shown:
                if each.id not in self._cards:
                    self._cards[each.id] = self._make(each)
        # The dict has the order of the cards on the page.
        if list(self._cards) != order:
            self._cards = {each: self._cards[each] for each in order}
            for at, card in enumerate(self._cards.values()):
                card.element.move(target_index=at)

    async def _handle_search(self) -> None:
        self._pages.set_value(1)
        await self._handle_page_turn()

    async def _handle_page_turn(self) -> None:
        if self._count.text:
            self.show(self._every, note=self._note)
            await sw.refresh_page()


class NewestFirst(Generic[T]):
    """A list of the newest elements, and of older ones on demand; expanded ones stay expanded.

    Args:
        name: name of one element; `plural` if the plural is not `name` with an s.
        make: builds an element.
        older: fetches `size` elements older than the given one, which is the oldest shown.
        key: returns what tells two elements apart.
        none: the text if there is no element.
        most: how many stay while newer ones come, not counting older ones that were loaded.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[T], ui.element],
        older: Callable[[T], Awaitable[Sequence[T]]],
        size: int,
        *,
        key: Callable[[T], object],
        none: str,
        testid: str,
        plural: str = "",
        more: str = "Load older",
        most: int | None = None,
    ) -> None:
        self._names = name, plural
        self._make = make
        self._key = key
        self._load = older
        self._size = size
        self._most = most
        self._shown: dict[object, tuple[T, ui.element]] = {}
        # How often another filter was chosen.
        self._filters = 0
        self.none = none
        self._empty = sw.marked(ui.label(ASKING).classes("sw-empty"), "empty")
        self._place = sw.marked(ui.element("ul").classes("sw-list"), testid)
        with sw.row():
            self._count = sw.marked(sw.dim(classes="").props("role=status"), "count")
            ui.space()
            self._more = sw.button(more, self.load_older, testid="older")
        self._more.set_visibility(False)

    def clear(self) -> None:
        """Remove all elements, such as those of another filter."""
        self._filters += 1
        self._place.clear()
        self._shown.clear()
        self._more.set_visibility(False)

    def show(self, newest: Sequence[T]) -> None:
        """Show the newest elements, at most `size`, newest first."""
        added = [each for each in newest if self._key(each) not in self._shown]
        if added and len(added) == len(newest):
            # Nothing was shown, or more came than one answer holds, so some are missing.
            self.clear()
            self._more.set_visibility(len(newest) == self._size)
        for place, each in enumerate(newest):
            known = self._shown.get(self._key(each))
            if known is None or known[0] != each:
                if known is not None:
                    known[1].delete()
                self._add_element(each).move(target_index=place)
        ids = [self._key(each) for each in newest]
        self._shown = {each: self._shown[each] for each in dict.fromkeys([*ids, *self._shown])}
        while self._most is not None and len(self._shown) > self._most:
            self._shown.popitem()[1][1].delete()
            self._more.set_visibility(True)
        self._show_count()

    def _add_element(self, one: T) -> ui.element:
        with self._place:
            made = self._make(one)
        self._shown[self._key(one)] = one, made
        return made

    def _show_count(self) -> None:
        count = len(self._shown)
        self._place.set_visibility(count > 0)
        self._empty.set_visibility(count == 0)
        self._empty.set_text(self.none)
        self._count.set_text(counted(count, *self._names) if count else "")

    async def load_older(self) -> None:
        """Load and show elements that are older than all shown ones."""
        if not self._shown:
            return
        oldest, _ = self._shown[next(reversed(self._shown))]
        filters = self._filters
        with sw.disabled(self._more):
            found = await self._load(oldest)
        # Another filter was chosen meanwhile.
        if filters != self._filters:
            return
        for each in found:
            if self._key(each) not in self._shown:
                self._add_element(each)
        if self._most is not None:
            self._most += len(found)
        self._more.set_visibility(len(found) == self._size)
        self._show_count()
