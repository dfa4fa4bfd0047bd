"""The page of the audit log: live entries with filters, and an export as JSON lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass

from nicegui import ui

from solward.client import AuditEntry, AuditFilter, AuditPage, Event
from solward.support import jsontext
from solward.types.events import EventKind
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.frame import Freshness, Poll, frame
from solward_dashboard.links import show_thing
from solward_dashboard.wording import (
    ASKING,
    People,
    counted,
    cut,
    midnight,
    second,
    short,
    value_text,
)

EVERY_S = 3.0
LIMIT = 50
# Maximum pages without a matching entry that are skipped until a person requests more.
_LOOKS = 10
# Maximum new entries that are added to the list; if there are more, the list is loaded again.
MOST_NEW = 100
# Lines of one file; `solward audit export` has no such bound.
MOST_EXPORTED = 20_000
FILE = "solward-audit.jsonl"

# Principals that are not an agent, a key or a credential.
_PRINCIPALS = {
    "admin": "admin (API_SECRET)",
    "cli": "command line",
    "service": "the service itself",
    "webhook": "approvals' webhook",
}
# The most telling fields of an entry's data, in this order.
_TELLING = (
    "name", "type", "action", "outcome", "status", "reason", "skill", "setting", "distribution",
    "key", "alert", "who", "site", "amount", "text", "detail", "error",
)  # fmt: skip
_MOST_TOLD = 160
# The fields of an entry's data that name a thing by its id.
_IDS = ("transactionId", "holdId", "walletId", "agentId", "keyId", "adminId")
_OWN_ID = {"transaction": "transaction", "payment": "transaction", "hold": "hold"}


@dataclass(frozen=True, slots=True)
class FilteredPage:
    """A page of the entries that fit `only`, and the names in them.

    Attributes:
        newest: the number of the newest entry of all, if `page` is the first page.
    """

    only: AuditFilter
    page: AuditPage
    people: People
    newest: int | None


async def _first_page_with_entry(only: AuditFilter, before: int | None) -> AuditPage:
    """Return the first page with an entry among `_LOOKS` pages, or the last of these."""
    for _ in range(_LOOKS):
        page = await api().audit(**asdict(only), limit=LIMIT, before=before)
        if page.entries or page.next is None:
            break
        before = page.next
    return page


def page(wallet: str = "", agent: str = "", who: str = "", about: str = "") -> None:
    """Build the page once for a visitor; new entries do not move those that are shown.

    Args:
        wallet, agent: the id of the one to begin with; empty for all.
        who: the principal to begin with; empty for all.
        about: the id of the record, hold or payment to begin with; empty for all.
    """
    first = {"wallet_id": wallet, "agent_id": agent, "principal": who, "about": about}
    with frame("/audit") as freshness:
        _Log(freshness, AuditFilter(**{name: value or None for name, value in first.items()}))


def things_of(event: Event) -> Iterator[str]:
    """Yield what an entry is about, such as `hold:<id>`, and who asked for it."""
    data = event.data if isinstance(event.data, Mapping) else {}
    own = _OWN_ID.get(event.kind.partition(":")[0])
    if own is not None and data.get("id"):
        yield f"{own}:{data['id']}"
    yield from (f"{each.removesuffix('Id')}:{data[each]}" for each in _IDS if data.get(each))
    yield from (str(data[each]) for each in ("asked", "principal") if ":" in str(data.get(each)))


def subject_text(event: Event, people: People) -> str:
    """Return an entry's subject on one line."""
    data = event.data if isinstance(event.data, Mapping) else {}
    told = [
        people.names.get(f"{kind}:{data[field]}", short(str(data[field])))
        for kind, field in (("wallet", "walletId"), ("agent", "agentId"))
        if data.get(field) and not (field == "walletId" and event.kind.startswith("wallet:"))
    ]
    if event.kind.startswith("switch:") and data.get("walletId") is None:
        told.append("the whole service")
    for name in _TELLING:
        value = data.get(name)
        if value not in (None, "", [], {}) and not isinstance(value, Mapping | list):
            said = value_text(value)
            if said not in told:
                told.append(said)
    return cut(", ".join(told), _MOST_TOLD)


def principal_text(event: Event, people: People) -> str:
    """Return the principal in an entry, such as `by agent scout`; empty if it has none."""
    who = event.data.get("principal") if isinstance(event.data, Mapping) else None
    return f"by {_principal_name(str(who), people)}" if who else ""


def _principal_name(who: str, people: People) -> str:
    return _PRINCIPALS.get(who) or people.called(who)


# The filter's fields that are selects, with label and the option that means all.
_SELECTS = {
    "wallet_id": ("Wallet", "All wallets"),
    "agent_id": ("Agent", "All agents"),
    "principal": ("Asked for by", "Anybody"),
}


class _Filters:
    """The filters above the list; a change calls `changed` with the new filter."""

    def __init__(
        self, only: AuditFilter, changed: Callable[[AuditFilter], Awaitable[None]]
    ) -> None:
        self._only = only
        self._changed = changed
        self._people = People()
        with sw.row("sw-filters"):
            kinds = [each.value for each in EventKind]
            self._kinds = ui.select(kinds, multiple=True, value=[], label="Kinds of events")
            self._kinds.props("outlined dense options-dense use-chips").classes("sw-select")
            self._selects = {
                name: sw.choice(label, self._options(name), getattr(only, name) or "")
                for name, (label, _) in _SELECTS.items()
            }
            self._about = sw.search_field("About (an id)")
            self._about.set_value(only.about or "")
            self._since, self._until = sw.day_field("From day"), sw.day_field("To day, included")
        self._single = (*self._selects.values(), self._about, self._since, self._until)
        for each in (self._kinds, *self._single):
            each.on_value_change(self._read_filters)

    async def clear(self) -> None:
        """Clear all filters."""
        self._kinds.set_value([])
        for each in self._single:
            each.set_value("")
        await self._read_filters()

    def offer_names(self, people: People) -> None:
        """Offer the names of wallets and principals as options."""
        if people != self._people:
            self._people = people
            for name, select in self._selects.items():
                select.set_options(self._options(name))

    def _options(self, name: str) -> dict[str, str]:
        """Return a select's options; the page's address may name a value that does not exist."""
        people, chosen, prefix = self._people, getattr(self._only, name), ""
        found = {"": _SELECTS[name][1]}
        if name == "principal":
            principals = (each for each in people.names if not each.startswith("wallet:"))
            found |= _PRINCIPALS | {each: people.called(each) for each in principals}
        else:
            prefix = f"{name.removesuffix('_id')}:"
            for each, called in people.names.items():
                if each.startswith(prefix):
                    found[each.removeprefix(prefix)] = called
        if chosen:
            found.setdefault(chosen, people.called(f"{prefix}{chosen}"))
        return found

    async def _read_filters(self) -> None:
        only = AuditFilter(
            types=tuple(self._kinds.value or ()),
            **{name: each.value or None for name, each in self._selects.items()},
            about=(self._about.value or "").strip() or None,
            since=midnight(self._since.value),
            until=midnight(self._until.value, days=1),
        )
        if only != self._only:
            self._only = only
            await self._changed(only)


class _Log:
    """The entries of one visitor's page, newest first."""

    def __init__(self, freshness: Freshness, only: AuditFilter) -> None:
        self._reset(only)
        self._people = People()
        self._filters = _Filters(only, self._apply_filter)
        with sw.row():
            sw.button("Clear filters", self._filters.clear, look=sw.FLAT)
            ui.space()
            self._export = sw.button(
                "Export as JSON lines", self._save_export, icon="download", testid="export"
            )
        look = "unelevated rounded no-caps color=primary"
        self._more_news = sw.button(
            "", self._show_news, icon="arrow_upward", look=look, testid="news"
        )
        self._more_news.classes("sw-news")
        self._empty = ui.label().classes("sw-empty")
        self._place = sw.marked(ui.element("ul").classes("sw-card sw-list"), "entries")
        with sw.row():
            self._count = sw.marked(sw.dim().props("role=status"), "count")
            ui.space()
            self._older = sw.button("Load older", self._load_older, testid="older")
        self._update_controls()
        self._poll = Poll(freshness, EVERY_S, self._fetch, self._show)

    def _reset(self, only: AuditFilter) -> None:
        self._only = only
        # The number of the newest entry that is shown or was passed over; None before an answer.
        self._newest: int | None = None
        self._next: int | None = None
        self._shown = 0
        self._news: AuditPage | None = None

    async def _fetch(self) -> FilteredPage:
        only, people = self._only, await People.ask()
        if self._newest is not None:
            page = await api().audit(**asdict(only), limit=MOST_NEW, after=self._newest)
            return FilteredPage(only, page, people, None)
        newest = (await api().audit(limit=1)).entries
        page = await _first_page_with_entry(only, None)
        return FilteredPage(only, page, people, newest[0].seq if newest else 0)

    def _show(self, answer: FilteredPage) -> None:
        is_first = answer.newest is not None
        if answer.only != self._only or is_first != (self._newest is None):
            return
        self._people = answer.people
        self._filters.offer_names(answer.people)
        entries = answer.page.entries
        if self._newest is None:
            self._newest = max(answer.newest or 0, entries[0].seq if entries else 0)
            self._next = answer.page.next
            self._place.clear()
            self._add_entries(entries)
        # Entries that were shown while the answer was on its way are not news.
        elif entries and entries[0].seq > self._newest:
            self._news = answer.page
            if not self._shown:
                self._add_news()
        self._update_controls()

    async def _show_news(self) -> None:
        if self._news is not None and self._news.next is not None:
            # Between them and the list there may be others.
            await self._apply_filter(self._only)
            return
        self._add_news()
        self._update_controls()

    def _add_news(self) -> None:
        if self._news is not None:
            entries, self._news = self._news.entries, None
            self._newest = entries[0].seq
            for place, each in enumerate(self._add_entries(entries)):
                each.move(target_index=place)

    def _add_entries(self, entries: Sequence[AuditEntry]) -> list[ui.element]:
        self._shown += len(entries)
        with self._place:
            return [_make_entry(each, self._people) for each in entries]

    def _update_controls(self) -> None:
        """Update the counts, the buttons, and the text of an empty list."""
        news = 0 if self._news is None else len(self._news.entries)
        more = "+" if self._news is not None and self._news.next is not None else ""
        self._more_news.set_text(f"{news}{more} new {'entry' if news == 1 else 'entries'}")
        self._more_news.set_visibility(news > 0)
        self._place.set_visibility(self._shown > 0)
        self._empty.set_visibility(self._shown == 0)
        none = "No entry fits." if self._next is None else "None of the newest entries fits."
        self._empty.set_text(ASKING if self._newest is None else none)
        self._count.set_text(counted(self._shown, "entry", "entries") if self._shown else "")
        self._older.set_text("Load older" if self._shown else "Search older entries")
        self._older.set_visibility(self._next is not None)

    async def _load_older(self) -> None:
        only, before = self._only, self._next
        with sw.disabled(self._older):
            page = await _first_page_with_entry(only, before)
        if (only, before) != (self._only, self._next):
            return
        self._next = page.next
        self._add_entries(page.entries)
        self._update_controls()
        if not page.entries and page.next is not None:
            ui.notify("None of the entries so far fits; there are older ones.")

    async def _apply_filter(self, only: AuditFilter) -> None:
        self._reset(only)
        self._update_controls()
        await self._poll.refresh()

    async def _save_export(self) -> None:
        lines: list[str] = []
        with sw.disabled(self._export):
            async with aclosing(api().audit_entries(self._only)) as found:
                async for each in found:
                    lines.append(jsontext.dumps(dict(each.raw)))
                    if len(lines) == MOST_EXPORTED:
                        break
        if not lines:
            ui.notify("No entry fits the filters, so nothing was exported.")
            return
        ui.download.content("\n".join([*lines, ""]), FILE, "application/x-ndjson")
        bounded = len(lines) == MOST_EXPORTED
        ui.notify(
            f"Exported the newest {len(lines):,} entries; `solward audit export` prints all."
            if bounded
            else f"Exported {counted(len(lines), 'entry', 'entries')}."
        )


def _make_entry(event: AuditEntry, people: People) -> ui.element:
    with ui.element("li") as item, ui.element("details").classes("sw-entry"):
        sw.marked(item, f"entry-{event.seq}")
        with ui.element("summary"):
            sw.dim(second(event.timestamp, zone=False), "sw-number")
            sw.tag(event.kind)
            sw.text(subject_text(event, people))
            if who := principal_text(event, people):
                sw.dim(who)
        with sw.facts():
            with sw.fact_of("About", "sw-row"):
                for each in dict.fromkeys(things_of(event)):
                    show_thing(each, people)
            sw.fact("Number in the log", f"{event.seq}")
            chain = event.chain or "the service's"
            sw.fact("Chain, and number in the chain", f"{chain}, {event.number}", "sw-mono")
            sw.facts_of(event, "hash")
            sw.fact("Data", jsontext.indented(dict(event.data)), "sw-mono sw-pre")
    return item
