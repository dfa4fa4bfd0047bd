"""The page of the audit log: what was done, by whom, with filters, live, and as JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from nicegui import ui

from solward.client import AuditEntry, AuditFilter, AuditPage, Event
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.events import EventKind
from solward.types.roles import admin_principal, key_principal
from solward_dashboard.api import api
from solward_dashboard.dialogs import fact, notify_error
from solward_dashboard.frame import Freshness, Poll, frame
from solward_dashboard.wording import ASKING, counted, short, value_text

EVERY_S = 3.0
LIMIT = 50
# Pages in which nothing fits that are passed over before a person is asked whether to go on.
_LOOKS = 10
# New ones that are shown when the visitor asks for them; of more the list begins anew.
MOST_NEW = 100
# Lines of one file; `solward audit export` has no such bound.
MOST_EXPORTED = 20_000
FILE = "solward-audit.jsonl"

# Who does things without being an agent, a key or a credential.
_PRINCIPALS = {
    "admin": "admin (API_SECRET)",
    "cli": "command line",
    "service": "the service itself",
    "webhook": "approvals' webhook",
}
# Fields of an entry's data that say most, in this order; ids that have names are told by these.
_TELLING = (
    "name", "type", "action", "outcome", "status", "reason", "skill", "setting", "distribution",
    "key", "alert", "who", "site", "amount", "text", "detail", "error",
)  # fmt: skip
_MOST_TOLD = 160


@dataclass(frozen=True, slots=True)
class Names:
    """Names of what entries tell by ids: `wallet:<id>`, `agent:<id>`, `key:<id>` -> name."""

    of: Mapping[str, str]

    def chosen(self, kind: str) -> dict[str, str]:
        """id -> name of one kind."""
        prefix = f"{kind}:"
        return {
            name.removeprefix(prefix): text
            for name, text in self.of.items()
            if name.startswith(prefix)
        }

    def principal(self, who: str) -> str:
        """A principal for people."""
        kind = who.partition(":")[0]
        name = self.of.get(who)
        return _PRINCIPALS.get(who, who) if name is None else f"{kind} {name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of what fits `only`, and the names in it.

    Attributes:
        newest: the number of the newest entry of all, where `page` is the first one.
    """

    only: AuditFilter
    page: AuditPage
    names: Names
    newest: int | None


async def names() -> Names:
    """The names of wallets, agents, keys and admin credentials."""
    wallets, agents, keys, admins = await asyncio.gather(
        api().wallets.list(), api().agents.list(), api().keys.list(), api().admins.list()
    )
    return Names(
        {f"wallet:{each.id}": each.name for each in wallets}
        | {f"agent:{each.id}": each.name for each in agents}
        | {key_principal(each.id): each.name for each in keys}
        | {admin_principal(each.id): each.name for each in admins}
    )


async def _first_of(only: AuditFilter, before: int | None) -> AuditPage:
    """The first page that has an entry, of some that the service looks at."""
    for _ in range(_LOOKS - 1):
        page = await api().audit(**asdict(only), limit=LIMIT, before=before)
        if page.entries or page.next is None:
            return page
        before = page.next
    return await api().audit(**asdict(only), limit=LIMIT, before=before)


def page(wallet: str = "", agent: str = "") -> None:
    """Built once a visitor; entries are added, and those that are there stay where they are.

    Args:
        wallet, agent: the id of the one to begin with; empty for all.
    """
    with frame("/audit") as freshness:
        _Log(freshness, AuditFilter(wallet_id=wallet or None, agent_id=agent or None))


def about(event: Event, known: Names) -> str:
    """What an entry is about, on one line."""
    data = event.data if isinstance(event.data, Mapping) else {}
    told = [
        known.of.get(f"{kind}:{data[field]}", short(str(data[field])))
        for kind, field in (("wallet", "walletId"), ("agent", "agentId"))
        if data.get(field) and not (field == "walletId" and event.kind.startswith("wallet:"))
    ]
    if event.kind.startswith("switch:") and data.get("walletId") is None:
        told.append("the whole service")
    for name in _TELLING:
        value = data.get(name)
        if value not in (None, "", [], {}) and not isinstance(value, Mapping | list):
            text = value_text(value)
            if text not in told:
                told.append(text)
    line = ", ".join(told)
    return line if len(line) <= _MOST_TOLD else f"{line[: _MOST_TOLD - 1]}…"


def by(event: Event, known: Names) -> str:
    """Who asked for it; empty where the entry does not say."""
    who = event.data.get("principal") if isinstance(event.data, Mapping) else None
    return f"by {known.principal(str(who))}" if who else ""


def day_of(text: str | None) -> date | None:
    """A day as a field for dates has it, None where it is empty or not one yet."""
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


def midnight(day: date) -> datetime:
    """When a day begins in the zone of the dashboard's machine."""
    return datetime.combine(day, time()).astimezone()


class _Filters:
    """The fields above the list; `changed` is called with what they ask for."""

    def __init__(
        self, only: AuditFilter, changed: Callable[[AuditFilter], Awaitable[None]]
    ) -> None:
        self._only = only
        self._changed = changed
        self._names: Names | None = None
        with ui.element("div").classes("sw-row sw-filters"):
            self._kinds = ui.select(
                [each.value for each in EventKind], multiple=True, value=[], label="Kinds of events"
            )
            self._kinds.props("outlined dense options-dense use-chips").classes("sw-select")
            # The address of the page may name any.
            self._wallet = _select(_one_of({}, only.wallet_id, "All wallets"), "", "Wallet")
            self._agent = _select(_one_of({}, only.agent_id, "All agents"), "", "Agent")
            self._who = _select({"": "Anybody"} | _PRINCIPALS, "", "Asked for by")
            self._since, self._until = _day_input("From day"), _day_input("To day, included")
        self._wallet.set_value(only.wallet_id or "")
        self._agent.set_value(only.agent_id or "")
        for each in (
            self._kinds, self._wallet, self._agent, self._who, self._since, self._until,
        ):  # fmt: skip
            each.on_value_change(self._read)

    async def clear(self) -> None:
        """Ask for everything."""
        self._kinds.set_value([])
        for each in (self._wallet, self._agent, self._who, self._since, self._until):
            each.set_value("")
        await self._read()

    def name(self, names: Names) -> None:
        """Offer these names."""
        if names == self._names:
            return
        self._names = names
        wallets, agents = names.chosen("wallet"), names.chosen("agent")
        self._wallet.set_options(_one_of(wallets, self._only.wallet_id, "All wallets"))
        self._agent.set_options(_one_of(agents, self._only.agent_id, "All agents"))
        others = {who: names.principal(who) for who in names.of if not who.startswith("wallet:")}
        self._who.set_options({"": "Anybody"} | _PRINCIPALS | others)

    async def _read(self) -> None:
        since, until = day_of(self._since.value), day_of(self._until.value)
        only = AuditFilter(
            types=tuple(self._kinds.value or ()),
            wallet_id=self._wallet.value or None,
            agent_id=self._agent.value or None,
            principal=self._who.value or None,
            since=None if since is None else midnight(since),
            until=None if until is None else midnight(until + timedelta(days=1)),
        )
        if only != self._only:
            self._only = only
            await self._changed(only)


def _one_of(names: Mapping[str, str], chosen: str | None, every: str) -> dict[str, str]:
    """Options of a select; what is chosen is one of them, also where it has no name any more."""
    gone = {} if chosen is None or chosen in names else {chosen: short(chosen)}
    return {"": every} | dict(names) | gone


def _select(options: Any, value: Any, label: str) -> ui.select:
    select = ui.select(options, value=value, label=label)
    select.props("outlined dense options-dense").classes("sw-select")
    return select


def _day_input(label: str) -> ui.input:
    # A date's own placeholder would lie under the label.
    field = ui.input(label).props("type=date outlined dense stack-label clearable")
    return field.classes("sw-select")


class _Log:
    """The entries of one visitor's page, newest first."""

    def __init__(self, freshness: Freshness, only: AuditFilter) -> None:
        self._only = only
        self._names = Names({})
        self._begin()
        self._filters = _Filters(only, self._filtered)
        with ui.element("div").classes("sw-row"):
            clear = ui.button("Clear filters", color=None, on_click=self._filters.clear)
            clear.props("flat dense no-caps")
            ui.space()
            self._export = ui.button("Export as JSON lines", icon="download", color=None)
            self._export.props('outline no-caps data-testid="export"').on_click(self._save)
        self._more_news = ui.button("", icon="arrow_upward", on_click=self._show_news)
        self._more_news.props('unelevated rounded no-caps data-testid="news"').classes("sw-news")
        self._more_news.set_visibility(False)
        self._empty = ui.label(ASKING).classes("sw-empty")
        self._place = ui.element("ul").classes("sw-card sw-list").props('data-testid="entries"')
        self._place.set_visibility(False)
        with ui.element("div").classes("sw-row"):
            self._count = ui.label().classes("sw-dim").props('role=status data-testid="count"')
            ui.space()
            self._older = ui.button("Load older", color=None, on_click=self._load_older)
            self._older.props('outline no-caps data-testid="older"').set_visibility(False)
        self._poll = Poll(freshness, EVERY_S, self._fetch, self._show)

    def _begin(self) -> None:
        self._started = False
        self._shown = 0
        self._newest = 0
        self._next: int | None = None
        self._news: AuditPage | None = None

    async def _fetch(self) -> Answer:
        only, known = self._only, await names()
        if self._started:
            page = await api().audit(**asdict(only), limit=MOST_NEW, after=self._newest)
            return Answer(only, page, known, None)
        newest = (await api().audit(limit=1)).entries
        page = await _first_of(only, None)
        return Answer(only, page, known, newest[0].seq if newest else 0)

    def _show(self, answer: Answer) -> None:
        if answer.only != self._only or self._started != (answer.newest is None):
            return
        self._names = answer.names
        self._filters.name(answer.names)
        if answer.newest is None:
            # Those that came while the answer was on its way are shown already.
            if answer.page.entries and answer.page.entries[0].seq > self._newest:
                self._news = answer.page
                if self._shown == 0:
                    self._add_news()
            self._label_news()
            return
        self._started = True
        entries = answer.page.entries
        self._newest = max(answer.newest, entries[0].seq if entries else 0)
        self._next = answer.page.next
        self._place.clear()
        self._append(entries)
        self._label()

    def _label_news(self) -> None:
        count = 0 if self._news is None else len(self._news.entries)
        many = self._news is not None and self._news.next is not None
        self._more_news.set_text(
            f"{count}{'+' if many else ''} new {'entry' if count == 1 else 'entries'}"
        )
        self._more_news.set_visibility(count > 0)

    async def _show_news(self) -> None:
        if self._news is not None and self._news.next is not None:
            # Between them and the list there may be others.
            await self._filtered(self._only)
            return
        self._add_news()
        self._label_news()

    def _add_news(self) -> None:
        if self._news is None:
            return
        entries, self._news = self._news.entries, None
        self._newest = entries[0].seq
        with self._place:
            for place, each in enumerate(entries):
                _entry(each, self._names).move(target_index=place)
        self._shown += len(entries)
        self._label()

    def _append(self, entries: Sequence[AuditEntry]) -> None:
        with self._place:
            for each in entries:
                _entry(each, self._names)
        self._shown += len(entries)

    def _label(self) -> None:
        self._place.set_visibility(self._shown > 0)
        self._empty.set_visibility(self._shown == 0)
        self._empty.set_text(
            "Nothing fits." if self._next is None else "Nothing among the newest fits."
        )
        self._count.set_text(counted(self._shown, "entry", "entries") if self._shown else "")
        self._older.set_text("Load older" if self._shown else "Look further back")
        self._older.set_visibility(self._next is not None)

    async def _load_older(self) -> None:
        only, before = self._only, self._next
        self._older.disable()
        try:
            page = await _first_of(only, before)
        except SolwardError as error:
            notify_error(error)
            return
        finally:
            self._older.enable()
        if (only, before) != (self._only, self._next):
            return
        self._next = page.next
        self._append(page.entries)
        self._label()
        if not page.entries and page.next is not None:
            ui.notify("Nothing that fits so far; there is more further back.")

    async def _filtered(self, only: AuditFilter) -> None:
        self._only = only
        self._begin()
        self._label_news()
        await self._poll.refresh()

    async def _save(self) -> None:
        self._export.disable()
        lines: list[str] = []
        try:
            async with aclosing(api().audit_entries(self._only)) as found:
                async for each in found:
                    lines.append(jsontext.dumps(dict(each.raw)))
                    if len(lines) == MOST_EXPORTED:
                        break
        except SolwardError as error:
            notify_error(error)
            return
        finally:
            self._export.enable()
        if not lines:
            ui.notify("Nothing fits, so there is nothing to export.")
            return
        ui.download.content("\n".join([*lines, ""]), FILE, "application/x-ndjson")
        bounded = len(lines) == MOST_EXPORTED
        ui.notify(
            f"The newest {len(lines):,} entries; `solward audit export` prints all."
            if bounded
            else f"{counted(len(lines), 'entry', 'entries')}."
        )


def _entry(event: AuditEntry, known: Names) -> ui.element:
    with ui.element("li") as item, ui.element("details").classes("sw-entry"):
        item.props["data-testid"] = f"entry-{event.seq}"
        with ui.element("summary"):
            at = event.timestamp.astimezone()
            ui.label(f"{at:%Y-%m-%d %H:%M:%S}").classes("sw-dim sw-number")
            ui.badge(event.kind).props("outline").classes("sw-tag")
            ui.label(about(event, known)).classes("sw-text")
            if who := by(event, known):
                ui.label(who).classes("sw-dim sw-text")
        with ui.element("dl").classes("sw-facts"):
            fact("Number in the log", f"{event.seq}")
            chain = event.chain or "the service's"
            fact("Chain, and number there", f"{chain}, {event.number}", "sw-mono")
            fact("Hash", event.hash or "", "sw-mono")
            fact("Data", jsontext.indented(dict(event.data)), "sw-mono sw-pre")
    return item
