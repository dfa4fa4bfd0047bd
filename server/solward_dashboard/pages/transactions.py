"""The transactions page: a table of records with filters, its export, and a dialog of contacts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from nicegui import ui

from solward import TransactionStatus, TransactionType
from solward.client import (
    BadRequest,
    ClientError,
    Contact,
    NotFoundError,
    Transaction,
    TransactionFilter,
)
from solward.client.arguments import request_fields
from solward.resources.declare import fields_of
from solward.resources.policy import NewContact
from solward.solana.token_list import TokenList, token_list
from solward.support.clock import iso, now_ms
from solward.types.errors import InvalidRequest
from solward.types.record import amount_of
from solward.types.roles import key_principal
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import show_dialog
from solward_dashboard.forms import RECIPIENT_HINT, FormError, RequestForm
from solward_dashboard.frame import Freshness, Poll, frame
from solward_dashboard.links import address_of
from solward_dashboard.lists import PAGE, Address, Row, RowTable
from solward_dashboard.pages.transaction import row as record_row
from solward_dashboard.pages.transaction import show_record
from solward_dashboard.wording import People, counted, midnight, short

EVERY_S = 3.0
MOST_PAGES = 200
# Maximum empty pages that are requested in a row.
_MOST_EMPTY = 20
_FILTERS = ("status", "rule", "wallet", "agent", "key", "type", "to", "since", "until")


_ABOUT = (
    "A contact is a name for a recipient, and allows no payment: grants say who may be paid."
    " An @name is a group in the address book on the Policy page."
)

EXPORT = "/transactions.csv"
# The request that the dialog of contacts is a form of.
request = NewContact


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one page, and the names for them and for the filters.

    Attributes:
        asked: the address's filters and page, which this is the answer to.
        is_last: whether no older record fits.
        problem: why the service does not take the filters.
    """

    asked: object = None
    records: Sequence[Transaction] = ()
    is_last: bool = True
    people: People = field(default_factory=People)
    network: str = ""
    problem: str = ""


def page() -> None:
    """Build the page once for a visitor; changed rows are updated in place."""
    with frame("/transactions") as freshness:
        Table(freshness)


class Table:
    """One page of the records that match the address's filters."""

    def __init__(self, freshness: Freshness) -> None:
        self._answer: Records | None = None
        self._names: Mapping[str, str] = {}
        self._suggested: list[str] = []
        # For the filters of this text: the ids behind which the pages begin.
        self._begins: tuple[object, list[str | None]] = None, [None]
        self._address = address = Address("/transactions", _FILTERS, self._draw)
        types = {each.value: each.replace("_", " ") for each in TransactionType}
        statuses = {each.value: each.value for each in TransactionStatus}
        with sw.row("sw-table-filters") as bar:
            address.bind("status", sw.choice("Status", {"": "Any status"} | statuses))
            self._wallet = address.bind("wallet", sw.choice("Wallet", {"": "All wallets"}))
            self._agent = address.bind("agent", sw.choice("Agent", {"": "All agents"}))
            self._key = address.bind("key", sw.choice("API key", {"": "All keys"}))
            address.bind("type", sw.choice("Type", {"": "All types"} | types))
            address.bind("rule", sw.search_field("Refused by rule"))
            self._recipient = ui.input("To", autocomplete=[])
            self._recipient.props("outlined dense clearable debounce=400 hide-bottom-space")
            address.bind("to", self._recipient).tooltip(RECIPIENT_HINT)
            address.bind("since", sw.day_field("From"))
            address.bind("until", sw.day_field("Until"))
            address.bind("q", sw.search_field("Search"))
        self._table = RowTable("transaction", bar, address, opened=show_record)
        with bar:
            sw.button("Contacts", edit_contacts)
            export = sw.button("Export CSV", self._export)
            export.tooltip("Export all transactions that fit the filters")
        Poll(freshness, EVERY_S, self._fetch, self._show)

    @property
    def _asked(self) -> tuple[dict[str, str], int]:
        return self._address.filters, self._address.page

    async def _fetch(self) -> Records:
        asked = self._asked
        health, people = await asyncio.gather(api().health(), People.ask())
        shown = partial(Records, asked, people=people, network=health.network)
        try:
            return shown(*await self._fetch_page(*asked))
        except (InvalidRequest, BadRequest, NotFoundError) as wrong:
            return shown(problem=f"Nothing is shown: {wrong}")

    async def _fetch_page(
        self, filters: Mapping[str, str], page: int
    ) -> tuple[Sequence[Transaction], bool]:
        """Return the records of a page, and whether it is the last one."""
        if page > MOST_PAGES:
            raise InvalidRequest(f"page must be at most {MOST_PAGES}; set a time or other filters")
        wanted = record_filter(filters)
        begins: list[str | None] = [None]
        if self._begins[0] == filters:
            begins = self._begins[1][:page]
        records: Sequence[Transaction] = ()
        for number in range(len(begins), page + 1):
            records, behind = await _fetch_records(wanted, begins[number - 1])
            if behind is None:
                self._begins = filters, begins
                return (records if number == page else ()), True
            begins.append(behind)
        self._begins = filters, begins
        return records, False

    def _show(self, answer: Records) -> None:
        if answer.asked == self._asked:
            self._answer = answer
            self._draw()

    def _draw(self) -> None:
        answer = self._answer
        if answer is None:
            return
        if answer.people.names != self._names:
            self._names = answer.people.names
            self._set_options()
        if answer.people.book.suggested != self._suggested:
            self._suggested = answer.people.book.suggested
            self._recipient.set_autocomplete(self._suggested)
        tokens, people = token_list(answer.network), answer.people
        rows = self._table.order(_row(each, people, tokens) for each in answer.records)
        page = self._address.page
        count = counted(len(rows), "transaction")
        if page > 1 or not answer.is_last:
            first = (page - 1) * PAGE
            count = f"Transactions {first + 1:,} to {first + len(rows):,}, newest first"
        if self._address.get("sort") and rows:
            count += ", sorted within this page"
        none = "No transaction fits the filters."
        if not self._address.filters:
            none = "No transaction yet. Airdrop some SOL on the Wallets page."
        if page > 1:
            none = f"There is no page {page}."
        pages = page if answer.is_last else page + 1
        self._table.show(rows, pages, count if rows else "", none, answer.problem)

    def _set_options(self) -> None:
        """Offer the wallets, agents and keys of the service in the filters."""
        for name, every in (("wallet", "wallets"), ("agent", "agents"), ("key", "keys")):
            chosen: ui.select = getattr(self, f"_{name}")
            found = {
                principal.partition(":")[2]: called
                for principal, called in self._names.items()
                if principal.startswith(f"{name}:")
            }
            chosen.set_options({"": f"All {every}"} | found, value=chosen.value)
            self._address.show_field(name)

    def _export(self) -> None:
        if self._answer is not None and self._answer.problem:
            ui.notify(self._answer.problem, type="negative")
            return
        asked = request_fields(TransactionFilter, **asdict(record_filter(self._address.filters)))
        ui.download.from_url(f"{EXPORT}?{urlencode(asked)}")


def _row(record: Transaction, people: People, tokens: TokenList) -> Row:
    wallet, agent = people.wallet(record.wallet_id), record.agent_id
    cells = record_row(record, wallet, tokens, people.book)
    cells["agent"] = people.called(record.principal)
    asker = address_of(record.principal) if record.principal.startswith("key:") else ""
    if agent is not None:
        cells["agent"] = people.names.get(f"agent:{agent}", f"agent {short(agent)}")
        asker = address_of(f"agent:{agent}")
    found = amount_of(record.type, record.details)
    keys = {
        "time": record.timestamp,
        "amount": ("", 0) if found is None else (found.asset or "", found.amount),
        "fee": 0 if record.fee is None else record.fee.lamports,
    }
    tones = {"status": f"sw-text-{record.status}"}
    if cells["alike"]:
        tones["to"] = "sw-text-blocked"
    links = {"wallet": address_of(f"wallet:{record.wallet_id}"), "agent": asker}
    return Row(record.id, cells, keys, links, tones)


def record_filter(filters: Mapping[str, str]) -> TransactionFilter:
    """Return the filter of an address's values. Raises `InvalidRequest`, naming the field."""
    key, days = filters.get("key"), {"since": 0, "until": 1}
    times = {name: midnight(filters.get(name), days=each) for name, each in days.items()}
    for name, moment in times.items():
        if name in filters and moment is None:
            raise InvalidRequest(f"{name} must be a day such as 2026-11-30")
    given = {
        "walletId": filters.get("wallet"),
        "agentId": filters.get("agent"),
        "principal": None if key is None else key_principal(key),
        "recipient": filters.get("to"),
        **{name: filters.get(name) for name in ("status", "type", "rule", "q")},
        **{name: None if each is None else each.isoformat() for name, each in times.items()},
    }
    return TransactionFilter.of({name: each for name, each in given.items() if each is not None})


async def _fetch_records(
    wanted: TransactionFilter, before: str | None
) -> tuple[Sequence[Transaction], str | None]:
    """Return matching records, and the id for requesting older ones; None if these are all."""
    if wanted == TransactionFilter():
        found = await api().transactions.list(limit=PAGE, before=before)
        return found, found[-1].id if len(found) == PAGE else None
    records: tuple[Transaction, ...] = ()
    for _ in range(_MOST_EMPTY):
        answer = await api().transactions.page(wanted, PAGE - len(records), before)
        records, before = records + answer.transactions, answer.next
        if len(records) == PAGE or before is None:
            break
    return records, before


async def edit_contacts() -> None:
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

    contacts = await api().contacts.list()
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
