"""The transactions page: a table of records with filters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nicegui import ui

from solward import TransactionStatus, TransactionType
from solward.client import ClientError, Transaction, Wallet
from solward.solana.token_list import token_list
from solward_dashboard.api import api
from solward_dashboard.frame import frame
from solward_dashboard.pages.transactions.detail import show_record
from solward_dashboard.pages.transactions.rows import Filter, changed, row
from solward_dashboard.polling import Freshness, Poll

EVERY_S = 3.0
LIMIT = 50
# Page size where more has happened than `LIMIT` holds, and for older records.
MORE = 250
_STATUS_CLASS = {f"sw-text-{status}": f"x == '{status}'" for status in TransactionStatus}
_COLUMNS = [
    {"field": "at", "hide": True, "sort": "desc"},
    {"headerName": "Time", "field": "time", "minWidth": 140, "sortable": False},
    {"headerName": "Type", "field": "type", "minWidth": 100},
    {"headerName": "Amount", "field": "amount", "minWidth": 130, "sortable": False},
    {
        "headerName": "Status",
        "field": "status",
        "minWidth": 100,
        "cellClassRules": _STATUS_CLASS,
    },
    {"headerName": "Wallet", "field": "wallet", "minWidth": 110},
    {"headerName": "Fee", "field": "fee", "minWidth": 120, "sortable": False},
    {"headerName": "Why", "field": "why", "minWidth": 130, "flex": 2, "sortable": False},
    {"headerName": "Signature", "field": "signature", "minWidth": 150, "sortable": False},
]


@dataclass(frozen=True, slots=True)
class Records:
    """The newest records, the wallets and the network."""

    records: tuple[Transaction, ...]
    wallets: tuple[Wallet, ...]
    network: str


def page() -> None:
    """Built once a visitor; changed rows are updated in place."""
    with frame("/transactions") as freshness:
        Table(freshness)


class Table:
    """The records of one visitor's page, and those that match the filter."""

    def __init__(self, freshness: Freshness) -> None:
        self._known: dict[str, Transaction] = {}
        self._wallets: dict[str, str] = {}
        self._network = ""
        self._filter = Filter()
        self._ended = False
        # The id after which older ones begin, in the service's order.
        self._oldest = ""
        with ui.element("div").classes("sw-row sw-filters"):
            self._wallet = _select("Wallet", {"": "All wallets"})
            kinds = {"": "All types"} | {
                each.value: each.replace("_", " ") for each in TransactionType
            }
            self._type = _select("Type", kinds)
            self._status = _select(
                "Status",
                {"": "Any status"} | {each.value: each.value for each in TransactionStatus},
            )
            self._text = ui.input("Search").props("outlined dense clearable debounce=300")
            self._text.classes("sw-search")
        for control in (self._wallet, self._type, self._status, self._text):
            control.on_value_change(self._filtered)
        self._empty = ui.label().classes("sw-empty").props('data-testid="empty"')
        self._grid = ui.aggrid(
            {
                "columnDefs": _COLUMNS,
                "rowData": [],
                "defaultColDef": {"flex": 1, "resizable": True},
                ":getRowId": "params => params.data.id",
                "rowSelection": {
                    "mode": "singleRow",
                    "checkboxes": False,
                    "enableClickSelection": True,
                },
                "suppressCellFocus": False,
                "ensureDomOrder": True,
            },
            auto_size_columns=False,
        )
        self._grid.classes("sw-table").props('data-testid="transactions"')
        self._grid.on("selectionChanged", self._selected, [])
        with ui.element("div").classes("sw-row"):
            self._count = ui.label().classes("sw-dim").props('data-testid="count" role=status')
            ui.space()
            self._older = ui.button("Load older", color=None, on_click=self._load_older)
            self._older.props("outline no-caps")
        self._poll = Poll(freshness, EVERY_S, self._fetch, self._show)
        self._update_count()

    async def _fetch(self) -> Records:
        health, wallets, newest = await asyncio.gather(
            api().health(), api().wallets.list(), api().transactions.list(limit=LIMIT)
        )
        records = list(newest)
        # More may have happened since the last poll than one page holds.
        while self._known and records and records[-1].id not in self._known:
            older = await api().transactions.list(limit=MORE, before=records[-1].id)
            if not older or len(records) > 10 * MORE:
                break
            records += older
        return Records(tuple(records), wallets, health.network)

    def _show(self, answer: Records) -> None:
        names = {each.id: each.name for each in answer.wallets}
        renamed = names != self._wallets
        self._wallets, self._network = names, answer.network
        if renamed:
            self._wallet.set_options({"": "All wallets"} | names)
        new, updated = changed(self._known, answer.records)
        first = not self._known
        self._known |= {each.id: each for each in (*new, *updated)}
        if first:
            self._ended = len(answer.records) < LIMIT
            self._oldest = answer.records[-1].id if answer.records else ""
            self._reload_rows()
        elif new or updated:
            self._apply(new, updated)
        self._update_count()

    def _apply(self, new: list[Transaction], updated: list[Transaction]) -> None:
        # An updated record may match the filter now, or not any more.
        self._grid.run_grid_method(
            "applyTransaction", {"remove": [{"id": each.id} for each in updated]}
        )
        shown = [each for each in (*new, *updated) if self._matches(each)]
        self._grid.run_grid_method("applyTransaction", {"add": [self._row(each) for each in shown]})

    def _reload_rows(self) -> None:
        rows = [self._row(each) for each in self._known.values() if self._matches(each)]
        self._grid.run_grid_method("setGridOption", "rowData", rows)

    def _row(self, record: Transaction) -> dict[str, str]:
        wallet = self._wallets.get(record.wallet_id, record.wallet_id)
        return row(record, wallet, token_list(self._network))

    def _matches(self, record: Transaction) -> bool:
        return self._filter.matches(record, self._wallets.get(record.wallet_id, ""))

    def _filtered(self) -> None:
        self._filter = Filter(
            wallet_id=self._wallet.value or "",
            type=self._type.value or "",
            status=self._status.value or "",
            text=self._text.value or "",
        )
        self._reload_rows()
        self._update_count()

    async def _load_older(self) -> None:
        self._older.disable()
        try:
            older = await api().transactions.list(limit=MORE, before=self._oldest)
        except ClientError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        finally:
            self._older.enable()
        self._ended = len(older) < MORE
        self._oldest = older[-1].id if older else self._oldest
        new, _ = changed(self._known, older)
        self._known |= {each.id: each for each in new}
        self._apply(new, [])
        self._update_count()

    def _update_count(self) -> None:
        shown = sum(map(self._matches, self._known.values()))
        of = f" of {len(self._known):,}" if shown != len(self._known) else ""
        self._count.set_text(f"{shown:,}{of} transactions" if self._known else "")
        self._older.set_visibility(bool(self._known) and not self._ended)
        self._grid.set_visibility(shown > 0)
        self._empty.set_visibility(shown == 0)
        if self._filter != Filter():
            self._empty.set_text(
                "Nothing fits this filter. Older ones may: load them, or change it."
            )
        else:
            self._empty.set_text("No transaction yet. Airdrop some SOL on the Wallets page.")

    async def _selected(self) -> None:
        # By a click or the space bar.
        chosen = await self._grid.get_selected_row()
        record = self._known.get(str((chosen or {}).get("id")))
        if record is None:
            return
        await show_record(
            record, self._wallets.get(record.wallet_id, record.wallet_id), self._network
        )
        self._grid.run_grid_method("deselectAll")


def _select(label: str, options: dict[str, str]) -> ui.select:
    chosen = ui.select(options, value="", label=label).props("outlined dense options-dense")
    return chosen.classes("sw-select")
