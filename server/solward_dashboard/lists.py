"""Lists that grow: tables of pages, and the newest elements with older ones on demand."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments

from solward.resources.fields import Field
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import fetch_each
from solward_dashboard.dialogs import ask_note
from solward_dashboard.wording import ASKING, counted, cut

T = TypeVar("T")
F = TypeVar("F", ui.input, ui.select)

PAGE: Final = 50
"""Maximum number of rows on a page of a table."""
_DIGITS = 6
# The browser's event when somebody goes back or forward to another address of this page.
_BACK = "solward_address"
_STATIC = Path(__file__).parent / "static"


def search_words(search: str, every: Iterable[T], texts: Callable[[T], Iterable[str]]) -> list[T]:
    """Return the elements whose texts contain every word of the search."""
    words = search.casefold().split()

    def fits(one: T) -> bool:
        searched = "\n".join(texts(one)).casefold()
        return all(word in searched for word in words)

    return [each for each in every if fits(each)]


class Address:
    """The part of a page's address after its `?`: filters, search, sorting, columns and page.

    It holds what the page shows, so that a link, a reload and the back button show the same.

    Args:
        names: the names of the filters.
        redraw: draws the page from what is known, before the service is asked again.

    Attributes:
        values: name -> text, without empty ones.
        problem: says which fields of the address the page does not have; else empty.
    """

    def __init__(self, path: str, names: Iterable[str], redraw: Callable[[], None]) -> None:
        self._path = path
        self._names = frozenset((*names, "q", "sort", "columns", "page"))
        self._redraw = redraw
        self._fields: dict[str, ui.input | ui.select] = {}
        request = ui.context.client.request
        self._read("" if request is None else request.url.query)
        ui.on(_BACK, self._handle_back)

    def _read(self, query: str) -> None:
        found = dict(parse_qsl(query.removeprefix("?")))
        self.values = {name: found[name] for name in self._names & found.keys()}
        unknown = ", ".join(sorted(found.keys() - self._names))
        self.problem = f"This page has no filter named {cut(unknown, 80)}." if unknown else ""

    def get(self, name: str) -> str:
        """Return a value, or "" if the address has none."""
        return self.values.get(name, "")

    @property
    def page(self) -> int:
        """The number of the page of rows, from 1; 1 if the address has no such number."""
        given = self.get("page")
        return max(1, int(given)) if given.isdecimal() and len(given) < _DIGITS else 1

    @property
    def filters(self) -> dict[str, str]:
        """The values of the filters and of the search."""
        layout = ("sort", "columns", "page")
        return {name: each for name, each in self.values.items() if name not in layout}

    def bind(self, name: str, field: F) -> F:
        """Let a field show and change a value of the address; return the field."""
        self._fields[name] = field
        self.show_field(name)
        return field.on_value_change(lambda: self.set(**{name: field.value or ""}))

    def show_field(self, name: str) -> None:
        """Show the address's value in its field, if the field may have it."""
        field, value = self._fields[name], self.get(name)
        if isinstance(field, ui.input) or value in field.options:
            field.set_value(value)

    async def set(self, **values: str) -> None:
        """Change values of the address, and refresh the page. Another filter begins at page 1."""
        changed = {name: each for name, each in values.items() if each != self.get(name)}
        if not changed:
            return
        kept = self.values
        if not changed.keys() & {"page", "columns"}:
            kept = kept | {"page": ""}
        self.values = {name: each for name, each in (kept | changed).items() if each}
        self.problem = ""
        query = f"?{urlencode(self.values)}" if self.values else ""
        history = ui.navigate.history
        # Every letter of a search would be a step of the back button.
        (history.replace if "q" in changed else history.push)(self._path + query)
        await self._refresh()

    async def _handle_back(self, event: GenericEventArguments) -> None:
        self._read(str(event.args))
        for name in self._fields:
            self.show_field(name)
        await self._refresh()

    async def _refresh(self) -> None:
        self._redraw()
        await sw.refresh_page()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        cells: column -> text.
        keys: column -> what rows are sorted by, where it is not the text.
        links: column -> path that the text leads to, or "".
        tones: column -> class of the text's colour, or "".
    """

    id: str
    cells: Mapping[str, str]
    keys: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    tones: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """Return the row as the browser takes it."""
        return {"id": self.id, "links": self.links, "tones": self.tones, **self.cells}


@dataclass(frozen=True, slots=True)
class Bulk:
    """A change of each selected element.

    Attributes:
        verb: what the button says.
        call: changes one, by its id and the person's note.
        note: the declared field of the note.
        warning: what the dialog says beside the names.
    """

    verb: str
    icon: str
    call: Callable[[str, str], Awaitable[object]]
    needs: str = sw.OPERATE
    note: Field | None = None
    warning: str = ""


class RowTable:
    """A table of one page of rows, with columns to sort by and to choose, in one Tab stop.

    `static/<name>s.json` has the columns, the first of which names the element, and the columns in
    the two lines of a row on a phone.

    Args:
        name: name of one element.
        bar: the row of the filters, to which the choice of columns and the buttons are added.
        bulk: changes of the selected elements.
        opened: shows the element of a row that is clicked, by its id, if there is no `bulk`.
    """

    def __init__(
        self,
        name: str,
        bar: ui.element,
        address: Address,
        bulk: Sequence[Bulk] = (),
        opened: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self._name, self._address, self._opened = name, address, opened
        options = json.loads((_STATIC / "table.json").read_text())
        own = json.loads((_STATIC / f"{name}s.json").read_text())
        # Name -> column, as AG Grid takes it.
        self._columns: dict[str, dict[str, Any]] = {
            each["field"]: each for each in own["columnDefs"]
        }
        self._rows: list[dict[str, Any]] = []
        self._selected: list[str] = []
        self._chosen, self._sorted = self._wanted_columns(), self._sort
        ui.add_css(_STATIC / "table.css")
        ui.add_head_html(f"<script>{(_STATIC / 'table.js').read_text()}</script>")
        with bar:
            with sw.row("sw-nowrap") as self._acts:
                for each in bulk:
                    self._add_bulk(each)
            self._acts.set_visibility(False)
            ui.space()
            titles = {each: column["headerName"] for each, column in self._columns.items()}
            self._picker = ui.select(titles, multiple=True, label="Columns", value=self._chosen)
            self._picker.props("outlined dense options-dense").classes("sw-columns")
            self._picker.on_value_change(self._handle_columns)
        self._outcome = sw.marked(sw.error_text(), "bulk-outcome")
        self._problem = sw.marked(sw.error_text(), "address-problem")
        self._empty = sw.text(ASKING, "sw-empty", testid="empty")
        ui.element("span").classes("sw-before-table").props("tabindex=-1")
        sorts = {each["colId"]: each["sort"] for each in self._sort_state()["state"]}
        options["columnDefs"] += [
            column | {"hide": each not in self._chosen, "sort": sorts.get(each)}
            for each, column in self._columns.items()
        ]
        several = {"mode": "multiRow", "headerCheckbox": True, "enableClickSelection": False}
        one = {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True}
        options["rowSelection"] = several if bulk else one
        names = {"columns": self._chosen, "every": [*self._columns]}
        options["context"] = names | {"lines": own["lines"]}
        self._grid = ui.aggrid(options, auto_size_columns=False)
        sw.marked(self._grid, f"{name}s").classes("sw-table")
        self._grid.set_visibility(False)
        ui.element("span").classes("sw-behind-table").props("tabindex=-1")
        with sw.row():
            self._count = sw.marked(sw.dim().props("role=status"), "count")
            ui.space()
            self._pages = ui.pagination(1, 1, direction_links=True, on_change=self._handle_page)
        self._pages.props("max-pages=6 boundary-numbers")
        self._pages.props["aria-label"] = f"Pages of {name}s"
        self._pages.set_visibility(False)
        ui.on("solward_sort", lambda event: address.set(sort=str(event.args)))
        ui.on("solward_selection", self._handle_selection)

    @property
    def _sort(self) -> str:
        """The name of the column that rows are sorted by, after `-` if they fall; or ""."""
        sort = self._address.get("sort")
        return sort if sort.removeprefix("-") in self._columns else ""

    def _sort_state(self) -> dict[str, Any]:
        """Return the sorting as AG Grid takes it."""
        name, order = self._sort.removeprefix("-"), "desc" if self._sort.startswith("-") else "asc"
        state = [{"colId": name, "sort": order}] if name else []
        return {"state": state, "defaultState": {"sort": None}}

    def _wanted_columns(self) -> list[str]:
        given = self._address.get("columns").split(",")
        chosen = [each for each in self._columns if each in given]
        return chosen or [each for each, column in self._columns.items() if "hide" not in column]

    def order(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows in the order of the address."""
        name, falls = self._sort.removeprefix("-"), self._sort.startswith("-")
        if not name:
            return list(rows)
        return sorted(
            rows,
            key=lambda row: row.keys[name] if name in row.keys else row.cells[name].casefold(),
            reverse=falls,
        )

    def show(
        self, shown: Sequence[Row], pages: int, count: str, none: str, problem: str = ""
    ) -> None:
        """Show the rows of one page.

        Args:
            pages: number of pages, as far as it is known.
            count: says how many elements there are.
            none: the text if there is none.
            problem: what is wrong with the address.
        """
        rows = [each.json() for each in shown]
        if rows != self._rows:
            # The table finds rows by their ids and updates them in place, so the focus stays.
            self._grid.run_grid_method("setGridOption", "rowData", rows)
            self._rows = rows
        self._count.set_text(count)
        self._problem.set_text(problem or self._address.problem)
        self._grid.set_visibility(bool(rows))
        self._empty.set_visibility(not rows)
        self._empty.set_text(none)
        self._pages.max = max(pages, 1)
        self._pages.set_value(min(self._address.page, self._pages.max))
        self._pages.set_visibility(pages > 1)
        if self._chosen != self._wanted_columns():
            # Somebody went back to other columns.
            self._picker.set_value(self._wanted_columns())
        if self._sort != self._sorted:
            self._sorted = self._sort
            self._grid.run_grid_method("applyColumnState", self._sort_state())

    async def _handle_columns(self) -> None:
        chosen = [each for each in self._columns if each in self._picker.value]
        if not chosen or chosen == self._chosen:
            return
        self._chosen = chosen
        self._grid.client.run_javascript(
            f"solwardTable.choose(getElement({self._grid.id}).api, {json.dumps(chosen)})"
        )
        await self._address.set(columns=",".join(chosen))

    async def _handle_page(self) -> None:
        if self._pages.value != min(self._address.page, self._pages.max):
            await self._address.set(page=str(self._pages.value))

    async def _handle_selection(self, event: GenericEventArguments) -> None:
        self._selected = [str(each) for each in event.args]
        if self._opened is None:
            self._acts.set_visibility(bool(self._selected))
        elif self._selected:
            # A click or the space bar selects a row.
            try:
                await self._opened(self._selected[0])
            except SolwardError as error:
                sw.notify_error(error)
            self._grid.run_grid_method("deselectAll")

    def _add_bulk(self, bulk: Bulk) -> None:
        look = {"icon": bulk.icon, "look": sw.SMALL, "needs": bulk.needs, "of": "the selected"}
        testid = f"{bulk.verb.lower()}-selected"
        sw.button(bulk.verb, lambda: self._change_selected(bulk), **look, testid=testid)

    async def _change_selected(self, bulk: Bulk) -> None:
        """Change every selected element after a confirmation; one that fails stops no other."""
        first = next(iter(self._columns))
        names = {each["id"]: each[first] for each in self._rows if each["id"] in self._selected}
        many = counted(len(names), self._name)

        def build() -> None:
            sw.text(", ".join(cut(each, 64) for each in names.values()))
            if bulk.warning:
                sw.text(bulk.warning, "sw-text sw-strong")

        note = await ask_note(f"{bulk.verb} {many}?", build, f"{bulk.verb} {many}", bulk.note)
        if note is None:
            return

        async def attempt(own_id: str) -> str:
            try:
                await bulk.call(own_id, note)
            except SolwardError as error:
                return str(error)
            return ""

        answers = await fetch_each(names, attempt)
        failed = [f"{cut(names[each], 64)}: {error}" for each, error in answers.items() if error]
        done = f"{bulk.verb}: done for {len(names) - len(failed)} of {many}."
        self._outcome.set_text("\n".join([f"{done} Not for", *failed]) if failed else "")
        if not failed:
            ui.notify(done, type="positive")
        self._grid.run_grid_method("deselectAll")


class ListTable(RowTable):
    """A table of the elements of a whole list that fit a search and a status.

    Args:
        find: returns the rows, as far as they are known, that fit the text of a search; None
            before the service's first answer.
        create: what the button for a new element does.
        none: the text if there is no element.

    Attributes:
        note: follows the number of elements.
    """

    def __init__(
        self,
        name: str,
        search_label: str,
        statuses: Sequence[str],
        find: Callable[[str], Sequence[Row] | None],
        bulk: Sequence[Bulk],
        create: Callable[[], object],
        none: str,
    ) -> None:
        self._statuses, self._find, self._none, self.note = statuses, find, none, ""
        self.address = Address(f"/{name}s", ("status",), self.draw)
        with sw.row("sw-table-filters") as bar:
            self.address.bind("q", sw.search_field(search_label))
            options = {"": "Any status"} | {each: each for each in statuses}
            self.address.bind("status", sw.choice("Status", options))
        super().__init__(name, bar, self.address, bulk)
        with bar:
            sw.button(f"New {name}", create, icon="add", look=sw.PRIMARY, needs=sw.POLICY)

    def matching(self) -> list[Row]:
        """Return the rows that fit, in the order of the address."""
        status, found = self.address.get("status"), self._find(self.address.get("q"))
        fit = (each for each in found or () if status in ("", each.cells["status"]))
        return self.order(fit)

    def page_of(self, matching: Sequence[Row]) -> Sequence[Row]:
        """Return the rows on the address's page, or on the last one if there are fewer."""
        page = min(self.address.page, _page_count(matching))
        return matching[(page - 1) * PAGE : page * PAGE]

    def draw(self) -> None:
        """Show the elements of the page as they are known."""
        every = self._find("")
        if every is None:
            return
        found, status = self.matching(), self.address.get("status")
        count = f"{len(found):,} of {len(every):,}"
        if len(found) == len(every):
            count = f"{len(every):,} in all"
        none = f"No {self._name} fits the filters." if every else self._none
        wrong = f"status must be one of {', '.join(self._statuses)}."
        wrong = "" if status in ("", *self._statuses) else wrong
        pages = _page_count(found)
        self.show(self.page_of(found), pages, f"{count}{self.note}", none, wrong)


def _page_count(rows: Sequence[object]) -> int:
    return max(1, -(-len(rows) // PAGE))


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
