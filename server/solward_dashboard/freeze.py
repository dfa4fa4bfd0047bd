"""The freeze of the whole service: its switch in the header, and what every page says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from solward.client import Frozen
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, submit_buttons, titled
from solward_dashboard.notices import notify_error
from solward_dashboard.wording import day

STOPS = (
    "New transactions of every wallet, whoever asks: agents, API keys, schedules, MCP, this"
    " dashboard and the command line.",
    "Payments over HTTP: no seller is shown anything new.",
    "What was approved and is not carried out yet.",
)
GOES_ON = (
    "What was sent already goes on to its end; nothing calls it back.",
    "Agents go on thinking, and their models go on costing: what they try is refused.",
    "Money in pockets comes home, and everything can be read.",
)
_MAX_REASON = 200
_NAMED = 5


class FreezeSwitch:
    """A button in the header, and a banner over the content while something is frozen."""

    def __init__(self) -> None:
        self._frozen: Frozen | None = None
        self._refresh: Callable[[], Awaitable[None]] | None = None
        self._button = ui.button("Freeze all", icon="ac_unit", color=None, on_click=self._toggle)
        self._button.props('flat dense no-caps data-testid="freeze-all"')
        self._button.classes("sw-freeze sw-needs-operate")
        self._button.props["aria-label"] = "Freeze all"

    def add_banner(self) -> None:
        """The banner, at the current place of the page."""
        self._banner = ui.element("div").classes("sw-frozen").props("role=status")
        self._banner.props('data-testid="frozen"').set_visibility(False)
        # Not in the header: what a dialog has would be styled as the header is.
        self._dialogs = ui.element("div").classes("hidden")

    def refresh_by(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Call `refresh` after a change."""
        self._refresh = refresh

    @staticmethod
    async def fetch() -> Frozen:
        """What is frozen; of many wallets some."""
        return await api().frozen(limit=_NAMED)

    def show(self, frozen: Frozen) -> None:
        """Show it."""
        if frozen == self._frozen:
            return
        self._frozen = frozen
        name = "Unfreeze all" if frozen.service else "Freeze all"
        self._button.set_text(name)
        self._button.props["aria-label"] = name
        # Lifting it needs a wider role than setting it.
        on = "sw-freeze-on sw-needs-policy"
        self._button.classes(
            add=on if frozen.service else "",
            remove="" if frozen.service else on,
        )
        self._banner.clear()
        self._banner.set_visibility(frozen.service or frozen.frozen_wallets > 0)
        with self._banner:
            ui.icon("ac_unit").props("aria-hidden=true")
            with ui.element("div").classes("sw-grow"):
                if frozen.service:
                    ui.label(service_text(frozen)).classes("sw-text sw-strong")
                if frozen.frozen_wallets:
                    _wallets(frozen)

    async def _toggle(self) -> None:
        if self._frozen is None:
            ui.notify("The service has not said yet whether it is frozen.", type="warning")
            return
        thaws = self._frozen.service
        with self._dialogs:
            reason = await _confirmed(self._frozen)
        if reason is None:
            return
        self._button.disable()
        try:
            if thaws:
                await api().unfreeze()
            else:
                await api().freeze(reason=reason or None)
        except SolwardError as error:
            notify_error(error)
        else:
            text = "Transactions are allowed again." if thaws else "Everything is frozen."
            ui.notify(text, type="positive")
        finally:
            self._button.enable()
        if self._refresh is not None:
            await self._refresh()


def service_text(frozen: Frozen) -> str:
    """What the banner says of a service that is frozen."""
    since = "" if frozen.since is None else f" since {day(frozen.since)}"
    why = f" ({frozen.reason})" if frozen.reason else ""
    return f"Everything is frozen{since}{why}: no wallet makes a new transaction."


def _wallets(frozen: Frozen) -> None:
    count = frozen.frozen_wallets
    with ui.element("div").classes("sw-row"):
        if frozen.service:
            ui.label("Frozen by themselves too:")
        else:
            ui.label("One wallet is frozen:" if count == 1 else f"{count:,} wallets are frozen:")
        for each in frozen.wallets:
            ui.link(each.name, f"/wallets/{each.wallet_id}").classes("sw-text")
            if each.reason:
                ui.label(f"({each.reason})").classes("sw-text")
        if count > len(frozen.wallets):
            ui.label(f"and {count - len(frozen.wallets):,} more")


async def _confirmed(frozen: Frozen) -> str | None:
    """The reason, empty or not, where the person confirms that all is to be frozen, or unfrozen;
    else None."""
    verb = "Unfreeze" if frozen.service else "Freeze"
    with titled(f"{verb} everything?", wide=True) as dialog:
        reason = None if frozen.service else _freezing()
        if frozen.service:
            _thawing(frozen)
        submit_buttons(
            dialog, f"{verb} all", lambda: dialog.submit(reason.value or "" if reason else "")
        )
    result = await result_of(dialog)
    return None if result is None else str(result).strip()


def _freezing() -> ui.input:
    _list("Stops at once, until you unfreeze, also across restarts:", STOPS)
    _list("Does not stop:", GOES_ON)
    reason = ui.input("Reason (optional)").classes("sw-field")
    reason.props["hint"] = "Shown to whoever is refused."
    return reason.props(f'outlined dense maxlength={_MAX_REASON} data-testid="freeze-reason"')


def _thawing(frozen: Frozen) -> None:
    ui.label(service_text(frozen)).classes("sw-text sw-sentence")
    ui.label(
        "Agents, API keys and schedules may make transactions again at once, within their limits."
        " What was refused meanwhile is not made up for."
    ).classes("sw-text")
    if frozen.frozen_wallets:
        ui.label(
            f"Wallets that were frozen by themselves stay so: {frozen.frozen_wallets:,}."
        ).classes("sw-text")


def _list(title: str, items: tuple[str, ...]) -> None:
    ui.label(title).classes("sw-strong")
    with ui.element("ul").classes("sw-points"):
        for each in items:
            with ui.element("li"):
                ui.label(each).classes("sw-text")
