"""What a plugin's distribution keeps for a wallet: listed page by page, and deleted one by one."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from solward.client import Wallet
from solward.client.models import moment
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, titled
from solward_dashboard.notices import notify_error
from solward_dashboard.wording import day

LIMIT = 20


async def show_entries(plugin: str) -> None:
    """Show the entries of a distribution in a dialog, until it is closed."""
    try:
        wallets = await api().wallets.list()
    except SolwardError as error:
        notify_error(error)
        return
    with titled(f"Entries of {plugin}", wide=True) as dialog:
        entries = _Entries(plugin, wallets)
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
    await entries.load()
    await result_of(dialog)


class _Entries:
    def __init__(self, plugin: str, wallets: tuple[Wallet, ...]) -> None:
        self._plugin = plugin
        self._names = {each.id: each.name for each in wallets}
        self._shown: list[dict[str, Any]] = []
        self._ended = True
        ui.label(
            "What its plugins keep for a wallet. It is theirs, and in clear: delete an entry only"
            " when you know what it stops the plugin from doing again."
        ).classes("sw-dim sw-text")
        self._wallet = ui.select(
            self._names, value=next(iter(self._names), None), label="For wallet"
        )
        self._wallet.props('outlined dense options-dense data-testid="entries-wallet"')
        self._prefix = ui.input("Key begins with").props("outlined dense debounce=300")
        self._empty = ui.label().classes("sw-empty")
        self._list = ui.element("ul").classes("sw-list").props('data-testid="entries"')
        self._more = ui.button("Load more", color=None, on_click=self._load_more)
        self._more.props("outline no-caps")
        for each in (self._wallet, self._prefix):
            each.on_value_change(self.load)
        self._draw()

    async def load(self) -> None:
        """Show the first page."""
        self._shown = []
        await self._load_more()

    async def _load_more(self) -> None:
        wallet, prefix = self._wallet.value, self._prefix.value or ""
        if wallet is None:
            self._draw()
            return
        after = self._shown[-1]["key"] if self._shown else None
        try:
            page = await api().plugin_state.entries(
                self._plugin, wallet, prefix=prefix, after=after, limit=LIMIT
            )
        except SolwardError as error:
            notify_error(error)
            return
        # Another choice was made meanwhile.
        if (wallet, prefix) != (self._wallet.value, self._prefix.value or ""):
            return
        self._shown += [dict(each) for each in page]
        self._ended = len(page) < LIMIT
        self._draw()

    def _draw(self) -> None:
        self._empty.set_visibility(not self._shown)
        self._empty.set_text(
            f"{self._plugin} keeps nothing that fits for this wallet."
            if self._names
            else "There is no wallet yet."
        )
        self._more.set_visibility(not self._ended)
        self._list.clear()
        with self._list:
            for each in self._shown:
                self._entry(each)

    def _entry(self, entry: dict[str, Any]) -> None:
        key = entry["key"]
        with ui.element("li"):
            with ui.element("div").classes("sw-row"):
                ui.label(key).classes("sw-mono sw-strong")
                ui.label(f"version {entry['version']}, {day(moment(entry['changedAt']))}").classes(
                    "sw-dim"
                )
                if entry["status"] is not None:
                    ui.label(f"with a transaction that is {entry['status']}").classes("sw-dim")
            with ui.element("div").classes("sw-row sw-nowrap"):
                ui.label(jsontext.dumps(entry["value"])).classes("sw-mono sw-text sw-grow")
                delete = ui.button("Delete", color=None).classes("sw-needs-policy")
                delete.props('outline dense no-caps padding="2px 10px"')
                delete.props["aria-label"] = f"Delete {key}"
                delete.on_click(lambda: self._delete(entry))

    async def _delete(self, entry: dict[str, Any]) -> None:
        wallet, key = self._wallet.value, entry["key"]
        details = [
            f"Of {self._plugin}, for the wallet {self._names[wallet]}.",
            "What it made the plugin leave undone, the plugin may do again, such as pay a second"
            " time. The audit log says that it was deleted, and not what it was.",
        ]
        if not await confirmed(f"Delete the entry {key}?", details, "Delete"):
            return
        try:
            answer = await api().plugin_state.delete(self._plugin, wallet, key)
        except SolwardError as error:
            notify_error(error)
            return
        ui.notify(
            f"{key} is deleted" if answer["deleted"] else f"{key} was not there any more",
            type="positive" if answer["deleted"] else "info",
        )
        await self.load()
