"""The transactions page: a table of records with filters, its export, and a dialog of contacts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from nicegui import ui

from solward import TransactionStatus, TransactionType
from solward.client import Agent, ClientError, Contact, Transaction, TransactionFilter, Wallet
from solward.client.arguments import request_fields
from solward.resources.declare import fields_of
from solward.resources.policy import NewContact
from solward.solana.token_list import token_list
from solward.support.clock import iso, now_ms
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest
from solward.types.record import PLUGIN_DETAILS, recipient_of
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import show_dialog
from solward_dashboard.forms import RECIPIENT_HINT, FormError, RequestForm
from solward_dashboard.frame import Freshness, Poll, frame
from solward_dashboard.pages.transaction import row as record_row
from solward_dashboard.pages.transaction import show_record
from solward_dashboard.wording import ASKING, counted, midnight

_ALL = TransactionFilter()
EVERY_S = 3.0
LIMIT = 50
# Page size for older records, and if more happened than `LIMIT` holds.
MORE = 250
_STATUS_CLASS = {f"sw-text-{status}": f"x == '{status}'" for status in TransactionStatus}
# Amounts, addresses and reasons are never truncated: a truncated one reads as another.
_WHOLE = {"wrapText": True, "autoHeight": True, "cellClass": "sw-whole"}
_COLUMNS = [
    {"field": "at", "hide": True, "sort": "desc"},
    {"headerName": "Status", "field": "status", "minWidth": 95, "cellClassRules": _STATUS_CLASS},
    {"headerName": "Amount", "field": "amount", "minWidth": 115, "sortable": False} | _WHOLE,
    {
        "headerName": "To",
        "field": "to",
        "minWidth": 115,
        "sortable": False,
        "tooltipField": "to",
        "cellClassRules": {"sw-text-blocked": "data.alike === 'yes'"},
    }
    | _WHOLE,
    {"headerName": "Time", "field": "time", "minWidth": 148, "sortable": False},
    {"headerName": "Type", "field": "type", "minWidth": 100},
    {"headerName": "Wallet", "field": "wallet", "minWidth": 105},
    {"headerName": "Fee", "field": "fee", "minWidth": 120, "sortable": False} | _WHOLE,
    {"headerName": "Why", "field": "why", "minWidth": 130, "flex": 2, "sortable": False} | _WHOLE,
    {"headerName": "Signature", "field": "signature", "minWidth": 140, "sortable": False},
]
# A phone has room for the first three columns; a tap on the row shows the rest.
_FITTED = """params => {
  const api = params.api, width = params.clientWidth;
  if (!width) return;
  api.setColumnsVisible(["time", "type", "wallet", "why"], width >= 640);
  api.setColumnsVisible(["fee"], width >= 1000);
  api.setColumnsVisible(["signature"], width >= 1150);
}"""
# The table is one stop of the Tab key, however many rows it has; inside, the arrows go from
# cell to cell. Tab goes on from the element before or after the table.
_LEFT = """params => {
  document.querySelector(params.backwards ? ".sw-before-table" : ".sw-behind-table")
    .focus({preventScroll: true});
  return false;
}"""
# The focus stays with its record when new rows move it to another place.
_FOCUSED = """params => {
  params.context.focused = params.api.getDisplayedRowAtIndex(params.rowIndex ?? -1)?.id;
}"""
_MOVED = """params => {
  const {api, context} = params, cell = api.getFocusedCell();
  const row = cell && context.focused ? api.getRowNode(context.focused)?.rowIndex ?? null : null;
  if (row === null || row === cell.rowIndex) return;
  if (document.activeElement?.closest(".ag-root")) api.setFocusedCell(row, cell.column);
}"""
_GRID = {
    "columnDefs": _COLUMNS,
    "defaultColDef": {"flex": 1, "resizable": True},
    ":getRowId": "params => params.data.id",
    "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
    "suppressCellFocus": False,
    ":tabToNextCell": _LEFT,
    ":tabToNextHeader": _LEFT,
    ":onCellFocused": _FOCUSED,
    ":onModelUpdated": _MOVED,
    ":onGridSizeChanged": _FITTED,
    "ensureDomOrder": True,
}
# Maximum empty pages that are requested in a row until the button is pressed again.
_MOST_EMPTY = 20

_ABOUT = (
    "A contact is a name for a recipient, and allows no payment: grants say who may be paid."
    " An @name is a group in the address book on the Policy page."
)

EXPORT = "/transactions.csv"
# The request that the dialog of contacts is a form of.
request = NewContact


@dataclass(frozen=True, slots=True)
class Records:
    """The newest records, and the lists of names for them and for the filters."""

    records: Sequence[Transaction] = ()
    wallets: tuple[Wallet, ...] = ()
    agents: tuple[Agent, ...] = ()
    contacts: tuple[Contact, ...] = ()
    network: str = ""


def page() -> None:
    """Build the page once for a visitor; changed rows are updated in place."""
    with frame("/transactions") as freshness:
        Table(freshness)


class Table:
    """The records of one visitor's page, and those that match the filter."""

    def __init__(self, freshness: Freshness) -> None:
        self._known: dict[str, Transaction] = {}
        self._rows: list[dict[str, str]] = []
        self._answer: Records | None = None
        self._wallets: dict[str, str] = {}
        self._recipients = AddressBook()
        self._filter, self._search = _ALL, ""
        self._ended = False
        # The id after which older ones begin, in the order of the service's answer to this filter.
        self._oldest: str | None = None
        types = {each.value: each.replace("_", " ") for each in TransactionType}
        statuses = {each.value: each.value for each in TransactionStatus}
        with sw.row("sw-filters"):
            self._wallet = sw.choice("Wallet", {"": "All wallets"})
            self._type = sw.choice("Type", {"": "All types"} | types)
            self._status = sw.choice("Status", {"": "Any status"} | statuses)
            self._agent = sw.choice("Agent", {"": "All agents"})
            self._recipient = ui.input("To", autocomplete=[], validation=self._recipient_error)
            self._recipient.props("outlined dense clearable debounce=400 hide-bottom-space")
            self._recipient.tooltip(RECIPIENT_HINT)
            self._since, self._until = sw.day_field("From"), sw.day_field("Until")
            self._text = sw.search_field("Search")
            for each in ui.context.slot.children:
                if isinstance(each, ui.input | ui.select):
                    each.on_value_change(self._apply_filters)
        self._empty = sw.text("", "sw-empty", testid="empty")
        ui.element("span").classes("sw-before-table").props("tabindex=-1")
        self._grid = ui.aggrid(_GRID | {"rowData": [], "context": {}}, auto_size_columns=False)
        sw.marked(self._grid, "transactions").classes("sw-table")
        self._grid.on("selectionChanged", self._open_selected, [])
        ui.element("span").classes("sw-behind-table").props("tabindex=-1")
        with sw.row():
            self._count = sw.marked(sw.dim().props("role=status"), "count")
            ui.space()
            sw.button("Contacts", lambda: edit_contacts(self._shown.contacts))
            export = sw.button("Export CSV", self._export)
            export.tooltip("Export all transactions that fit the filters")
            self._older = sw.button("Load older", lambda: self._load(MORE))
        Poll(freshness, EVERY_S, self._fetch, self._show)
        self._draw()

    @property
    def _shown(self) -> Records:
        return self._answer or Records()

    async def _fetch(self) -> Records:
        health, wallets, agents, contacts, newest = await asyncio.gather(
            api().health(),
            api().wallets.list(),
            api().agents.list(),
            api().contacts.list(),
            api().transactions.list(limit=LIMIT),
        )
        records = list(newest)
        # More may have happened since the last poll than one page holds.
        while self._known and records and records[-1].id not in self._known:
            older = await api().transactions.list(limit=MORE, before=records[-1].id)
            if not older or len(records) > 10 * MORE:
                break
            records += older
        return Records(records, wallets, agents, contacts, health.network)

    def _show(self, answer: Records) -> None:
        before, self._answer = self._answer, answer
        if before == answer:
            return
        if not self._known and self._filter == _ALL:
            self._ended = len(answer.records) < LIMIT
            self._oldest = answer.records[-1].id if answer.records else None
        self._known |= {each.id: each for each in answer.records}
        self._wallets = {each.id: each.name for each in answer.wallets}
        recipients = AddressBook.from_lists(answer.wallets, answer.contacts)
        if before is None or before.agents != answer.agents:
            agents = {each.id: each.name for each in answer.agents}
            self._agent.set_options({"": "All agents"} | agents)
        if before is None or before.wallets != answer.wallets:
            self._wallet.set_options({"": "All wallets"} | self._wallets)
        if recipients != self._recipients:
            self._recipients = recipients
            self._recipient.set_autocomplete(recipients.suggested)
        self._draw()

    def _recipient_error(self, text: str | None) -> str | None:
        try:
            self._recipient_address(text)
        except InvalidRequest as error:
            return str(error)
        return None

    def _recipient_address(self, text: str | None) -> str:
        """Return the address of the recipient to search for, or "". Raises `InvalidRequest`."""
        return self._recipients.address(text.strip(), "To") if text and text.strip() else ""

    def _draw(self) -> None:
        """Show the rows that fit the filters, their count and the count of all rows."""
        tokens = token_list(self._shown.network)
        names = self._wallets
        found = [
            each
            for each in self._known.values()
            if matches(each, self._filter, self._search, names.get(each.wallet_id, ""))
        ]
        rows = [
            record_row(each, names.get(each.wallet_id, each.wallet_id), tokens, self._recipients)
            for each in found
        ]
        if rows != self._rows:
            # The table finds rows by their ids and updates them in place, so the focus stays.
            self._grid.run_grid_method("setGridOption", "rowData", rows)
            self._rows = rows
        every = counted(len(self._known), "transaction")
        known = every if len(found) == len(self._known) else f"{len(found):,} of {every}"
        self._count.set_text(known if self._known else "")
        self._older.set_visibility(bool(self._known) and not self._ended)
        self._grid.set_visibility(bool(found))
        self._empty.set_visibility(not found)
        if self._answer is None:
            self._empty.set_text(ASKING)
        elif self._filter != _ALL or self._search:
            self._empty.set_text(
                "No transaction fits the filters."
                if self._ended
                else "No loaded transaction fits. Load older ones, or change the filters."
            )
        else:
            self._empty.set_text("No transaction yet. Airdrop some SOL on the Wallets page.")

    async def _apply_filters(self) -> None:
        try:
            recipient = self._recipient_address(self._recipient.value)
        except InvalidRequest:
            # The field shows the error; the other filters still apply.
            recipient = ""
        before = self._filter
        self._filter = TransactionFilter(
            wallet_id=self._wallet.value or None,
            agent_id=self._agent.value or None,
            recipient=recipient or None,
            type=self._type.value or None,
            status=self._status.value or None,
            since=midnight(self._since.value),
            until=midnight(self._until.value, days=1),
        )
        self._search = self._text.value or ""
        self._draw()
        if self._filter != before:
            self._oldest, self._ended = None, False
            await self._load(LIMIT)

    async def _load(self, limit: int) -> None:
        wanted = self._filter
        try:
            with sw.disabled(self._older):
                older, behind = await _fetch_page(wanted, limit, self._oldest)
        except ClientError as error:
            sw.notify_error(error)
            return
        if wanted == self._filter:
            self._ended, self._oldest = behind is None, behind
            self._known = {each.id: each for each in older} | self._known
            self._draw()

    def _export(self) -> None:
        wrong = self._recipient_error(self._recipient.value)
        if wrong is not None:
            ui.notify(f"To: {wrong}", type="negative")
            return
        asked = request_fields(TransactionFilter, **asdict(self._filter))
        ui.download.from_url(f"{EXPORT}?{urlencode(asked)}")

    async def _open_selected(self) -> None:
        # A click or the space bar selects a row.
        chosen = await self._grid.get_selected_row()
        if chosen is None:
            return
        try:
            await show_record(chosen["id"])
        except ClientError as error:
            sw.notify_error(error)
        self._grid.run_grid_method("deselectAll")


def matches(record: Transaction, wanted: TransactionFilter, search: str, wallet: str) -> bool:
    """Return whether a record fits a filter, in which `recipient` is an address, and has the
    searched text. `wallet` is the name of the record's wallet."""
    found = {
        "wallet_id": record.wallet_id,
        "agent_id": record.agent_id,
        "recipient": recipient_of(record.type, record.details),
        "type": record.type,
        "status": record.status,
    }
    if any(getattr(wanted, name) not in (None, value) for name, value in found.items()):
        return False
    since, until = wanted.since, wanted.until
    if isinstance(since, datetime) and record.timestamp < since:
        return False
    if isinstance(until, datetime) and record.timestamp >= until:
        return False
    # A plugin's own words are not searched: they may name any address.
    details = [each for name, each in record.details.items() if name != PLUGIN_DETAILS]
    parts = [record.id, wallet, record.type, record.signature, record.error, *details]
    searched = " ".join(str(each) for each in parts if each is not None)
    return search.strip().casefold() in searched.casefold()


async def _fetch_page(
    wanted: TransactionFilter, limit: int, before: str | None
) -> tuple[list[Transaction], str | None]:
    """Return matching records, and the id for requesting older ones; None if these are all."""
    if wanted == _ALL:
        found = await api().transactions.list(limit=limit, before=before)
        return list(found), found[-1].id if len(found) == limit else None
    for _ in range(_MOST_EMPTY):
        page = await api().transactions.page(wanted, limit, before)
        before = page.next
        if page.transactions or before is None:
            return list(page.transactions), before
    return [], before


async def edit_contacts(contacts: Sequence[Contact]) -> None:
    """Show the contacts, to add and remove some; returns when the dialog is closed."""

    async def save() -> None:
        try:
            given = {name: value.strip() for name, value in form.values().items()}
            await api().contacts.put(**given)
        except FormError:
            return
        except ClientError as refused:
            form.show_error(str(refused))
            return
        form.clear()
        shown.show(await api().contacts.list())

    async def remove(contact: Contact) -> None:
        await api().contacts.remove(contact.address)
        shown.show(await api().contacts.list())

    def row(contact: Contact) -> None:
        with sw.stack("sw-line"):
            with ui.element("div"):
                sw.text(contact.name)
                sw.dim(contact.address, "sw-mono")
            if contact.created_at is not None:
                name = f"Remove the contact {contact.name}"
                look = {"icon": "delete", "look": sw.ICON, "needs": sw.POLICY, "of": name}
                sw.button("", lambda: remove(contact), **look)

    async with show_dialog("Contacts", wide=True):
        sw.dim(_ABOUT)
        shown = sw.LiveContent[Sequence[Contact]](
            lambda found: sw.show_list(found, row, "No contact yet."), "sw-points"
        )
        sw.marked(shown.element, "contacts")
        shown.show(contacts)
        form = RequestForm(fields_of(request))
        sw.button("Add", save, look=sw.PRIMARY, needs=sw.POLICY, testid="add-contact")


async def export(request: Request) -> Response:
    """Return the records that match the query's filter, in the service's CSV."""
    try:
        wanted = TransactionFilter.of(request.query_params)
        pieces = api().transactions.export(wanted)
        # Read before the status is sent, so that an error does not become a file.
        first = await anext(pieces)
    except InvalidRequest as error:
        return PlainTextResponse(str(error), 400)
    except ClientError as error:
        return PlainTextResponse(str(error), 502)
    name = f"solward-transactions-{iso(now_ms())[:10]}.csv"

    async def stream_pieces() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    return StreamingResponse(
        stream_pieces(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
