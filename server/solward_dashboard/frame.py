"""The frame of every page: title, navigation, banners, and the switch that freezes the service.
While a page is visible it polls the API. Without an answer the content stays, marked as old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from nicegui import events, ui

from solward.client import ClientError, Frozen, NotFoundError, Unauthorized, Unreachable
from solward.resources.declare import declared_fields
from solward.resources.service import Freeze
from solward.support.clean_text import one_line
from solward.types.roles import Role
from solward_dashboard import parts as sw
from solward_dashboard.api import api, needs_login, own_credential, role
from solward_dashboard.dialogs import ask_note
from solward_dashboard.links import address_of
from solward_dashboard.wording import clock, day

PAGES = (
    ("/", "Overview", "space_dashboard"),
    ("/agents", "Agents", "smart_toy"),
    ("/wallets", "Wallets", "account_balance_wallet"),
    ("/transactions", "Transactions", "receipt_long"),
    ("/payments", "Payments", "shopping_cart"),
    ("/holds", "Approvals", "how_to_reg"),
    ("/policy", "Policy", "policy"),
    ("/api-keys", "API keys", "key"),
    ("/admins", "Admins", "admin_panel_settings"),
    ("/plugins", "Plugins", "extension"),
    ("/audit", "Audit log", "history"),
    ("/settings", "Settings", "tune"),
)
_LOOK = Path(__file__).parent / "static" / "look.css"
_SCRIPTS = tuple(
    Path(__file__).parent / "static" / name for name in ("focus.js", "cut.js", "place.js")
)
_DARK = "solward_dark"
_YEAR_S = 365 * 24 * 3600
_ADMINS = "/admins"
_HOLDS = "/holds"
_WAITING_EVERY_S = 5.0
_MOST_WAITING = 100
_FROZEN_EVERY_S = 5.0
# Agents have the longest names that the service accepts.
_MAX_NAME = 100

STOPS = (
    "New transactions of every wallet: from agents, API keys, schedules, MCP, this dashboard and"
    " the command line.",
    "Payments over HTTP: no seller gets a new payment.",
    "Approved transactions that are not carried out yet.",
)
GOES_ON = (
    "Transactions that were already sent: nothing can undo them.",
    "Agents: they still call their models, which costs money, but make no transaction.",
    "Sweeps, which return money from pockets to wallets, and everything that only reads.",
)
_NAMED = 5

T = TypeVar("T")

# A slower request is abandoned; the next poll takes its place.
_TIMEOUT_S = 15.0
_VISIBILITY_EVENT = "solward_seen"
_EMIT_VISIBILITY = f"""
const emit = () => emitEvent("{_VISIBILITY_EVENT}", !document.hidden);
document.addEventListener("visibilitychange", emit);
emit();
"""


class PageOfOne(Generic[T]):
    """The page of one element of a list; its content is hidden if the element does not exist."""

    def __init__(self, freshness: Freshness, path: str, kind: str, own_id: str) -> None:
        self.freshness = freshness
        self._kind, self._id = kind, own_id
        ui.link(f"All {_page_name(path).lower()}", path).classes("sw-back")
        self._missing = ui.label(f"There is no such {kind.lower()}.").classes("sw-empty")
        self.content = sw.stack()
        for each in (self._missing, self.content):
            each.set_visibility(False)

    def poll(
        self,
        every_s: float,
        fetch: Callable[[], Awaitable[T]],
        show: Callable[[T], None],
        named: Callable[[T], str] | None = None,
    ) -> None:
        """Fetch the element every `every_s` seconds, and show it.

        Args:
            fetch: raises `NotFoundError` if there is no such element.
            named: returns its name; None if it has only an id.
        """

        async def fetch_or_none() -> T | None:
            try:
                return await fetch()
            except NotFoundError:
                return None

        def show_latest(latest: T | None) -> None:
            self._missing.set_visibility(latest is None)
            self.content.set_visibility(latest is not None)
            self._show_name(self._id if latest is None or named is None else named(latest))
            if latest is not None:
                show(latest)

        if named is None:
            self._show_name(self._id)
        Poll(self.freshness, every_s, fetch_or_none, show_latest)

    def _show_name(self, name: str) -> None:
        """Set the title to the element's name, shortened to a line because others wrote it."""
        self.freshness.set_title(f"{self._kind} {one_line(name, _MAX_NAME)}")


@contextmanager
def frame_of_one(path: str, kind: str, own_id: str) -> Iterator[PageOfOne[Any]]:
    """Yield a page in its frame, for one element of the list at `path`.

    Args:
        kind: of the element, such as `Wallet`.
        own_id: its title if it has no name.
    """
    with frame(path, kind) as freshness:
        page: PageOfOne[Any] = PageOfOne(freshness, path, kind, own_id)
        with page.content:
            yield page


def _page_name(path: str) -> str:
    return next(name for route, name, _ in PAGES if route == path)


@contextmanager
def frame(path: str, kind: str = "") -> Iterator[Freshness]:
    """Yield the frame of a page; elements built inside are its content.

    Args:
        kind: of the one element that it shows, such as `Wallet`.
    """
    ui.add_css(_LOOK)
    for script in _SCRIPTS:
        ui.add_head_html(f"<script>{script.read_text()}</script>")
    # The style sheet hides elements that the role may not use.
    ui.query("body").classes(f"sw-role-{role()}")
    ui.colors(primary="#0f766e")
    request = ui.context.client.request
    stored = request.cookies.get(_DARK, "") if request else ""
    dark = ui.dark_mode({"1": True, "0": False}.get(stored))
    with ui.header().classes("sw-header"):
        menu = ui.button(icon="menu", color=None).props('flat round dense aria-label="Menu"')
        menu.classes("sw-menu")
        ui.link("Solward", "/").classes("sw-brand")
        ui.space()
        waiting = _WaitingCount()
        freeze = FreezeSwitch()
        _add_dark_switch(dark)
        if needs_login():
            out = ui.button(icon="logout", color=None, on_click=lambda: ui.navigate.to("/logout"))
            out.props('flat round dense aria-label="Log out"')
    # Without a value NiceGUI asks the browser for one, and warns if that is slow.
    drawer = ui.left_drawer(value=False, bordered=True).classes("sw-nav")
    drawer.props("show-if-above width=184 breakpoint=900")
    with drawer, ui.element("nav").props('aria-label="Pages"'):
        for route, name, icon in PAGES:
            if route == _ADMINS and role() is not Role.POLICY:
                continue
            with ui.link(target=route).classes("sw-nav-link") as link:
                if route == path:
                    link.props("aria-current=page")
                ui.icon(icon).props("aria-hidden=true")
                ui.label(name)
                if route == _HOLDS:
                    waiting.add_badge()
    menu.on_click(drawer.toggle)
    with ui.element("div").classes("sw-main") as main:
        sw.add_progress()
        freeze.add_banner()
        freshness = Freshness(kind or _page_name(path))
        Poll(freshness, _WAITING_EVERY_S, _WaitingCount.fetch, waiting.show)
        Poll(freshness, _FROZEN_EVERY_S, FreezeSwitch.fetch, freeze.show)
        yield freshness
    ui.skip_link("Skip to the content", target=main)


class _WaitingCount:
    """The number of holds that wait for a person, in the header and in the navigation."""

    def __init__(self) -> None:
        self._link = ui.link(target=_HOLDS).classes("sw-waiting sw-held")
        with self._link.props('data-testid="waiting-link"'):
            ui.icon("how_to_reg").props("aria-hidden=true")
            self._text = ui.label()
        self._link.set_visibility(False)

    def add_badge(self) -> None:
        self._badge = ui.badge().classes("sw-held").props('data-testid="waiting-count"')
        self._badge.set_visibility(False)

    @staticmethod
    async def fetch() -> int:
        held = await api().holds.list(is_open=True, limit=_MOST_WAITING)
        return sum(each.state == "held" for each in held)

    def show(self, count: int) -> None:
        number = f"{count}" if count < _MOST_WAITING else f"{_MOST_WAITING}+"
        self._badge.set_text(number)
        self._text.set_text(number)
        self._link.props["aria-label"] = f"Transactions that wait for you: {number}"
        for each in (self._badge, self._link):
            each.set_visibility(count > 0)


def _add_dark_switch(dark: ui.dark_mode) -> None:
    def choose(value: bool | None) -> None:
        dark.set_value(value)
        stored = "" if value is None else str(int(value))
        # A cookie lets the next page be rendered in these colours at once.
        ui.run_javascript(
            f"document.cookie = '{_DARK}={stored}; path=/; max-age={_YEAR_S}; samesite=strict'"
        )

    button = ui.button(icon="contrast", color=None)
    with button.props('flat round dense aria-label="Light or dark"'), ui.menu():
        ui.menu_item("Light", lambda: choose(False))
        ui.menu_item("Dark", lambda: choose(True))
        ui.menu_item("Same as the system", lambda: choose(None))


class FreezeSwitch:
    """A button in the header, and a banner over the content while something is frozen."""

    def __init__(self) -> None:
        self._frozen: Frozen | None = None
        look = {"icon": "ac_unit", "look": sw.FLAT, "testid": "freeze-all"}
        self._button = sw.button("Freeze all", self._toggle_freeze, needs=sw.OPERATE, **look)
        self._button.classes("sw-freeze").props["aria-label"] = "Freeze all"

    def add_banner(self) -> None:
        """Add the banner at the current place of the page."""
        self._banner = ui.element("div").classes("sw-frozen").props("role=status")
        sw.marked(self._banner, "frozen").set_visibility(False)

    @staticmethod
    async def fetch() -> Frozen:
        """Fetch whether the service is frozen, and the first frozen wallets."""
        return await api().frozen(limit=_NAMED)

    def show(self, frozen: Frozen) -> None:
        """Update the button and the banner."""
        if frozen == self._frozen:
            return
        self._frozen = frozen
        name = "Unfreeze all" if frozen.service else "Freeze all"
        self._button.set_text(name)
        self._button.props["aria-label"] = name
        sw.set_class(self._button, "sw-freeze-on", frozen.service)
        # Lifting a freeze needs a wider role than setting it.
        sw.set_class(self._button, sw.POLICY, frozen.service)
        self._banner.clear()
        self._banner.set_visibility(frozen.service or frozen.frozen_wallets > 0)
        with self._banner:
            ui.icon("ac_unit").props("aria-hidden=true")
            with sw.stack("sw-grow"):
                if frozen.service:
                    sw.text(service_text(frozen), "sw-text sw-strong")
                if frozen.frozen_wallets:
                    _show_frozen_wallets(frozen)

    async def _toggle_freeze(self) -> None:
        frozen = await self.fetch()
        reason = await _ask_reason(frozen)
        if reason is None:
            return
        await set_frozen(not frozen.service, reason)
        said = "Transactions are allowed again." if frozen.service else "Everything is frozen."
        ui.notify(said, type="positive")


async def set_frozen(frozen: bool, reason: str, wallet_id: str | None = None) -> None:
    """Freeze or unfreeze a wallet, or the whole service if `wallet_id` is None."""
    if frozen:
        await api().freeze(wallet_id=wallet_id, reason=reason or None)
    else:
        await api().unfreeze(wallet_id=wallet_id)


def service_text(frozen: Frozen) -> str:
    """Return the sentence of the banner, that everything is frozen."""
    since = "" if frozen.since is None else f" since {day(frozen.since)}"
    why = f" ({frozen.reason})" if frozen.reason else ""
    return f"Everything is frozen{since}{why}: no wallet makes a new transaction."


def _show_frozen_wallets(frozen: Frozen) -> None:
    count = frozen.frozen_wallets
    with sw.row():
        if frozen.service:
            ui.label("Wallets that are also frozen individually:")
        else:
            ui.label("One wallet is frozen:" if count == 1 else f"{count:,} wallets are frozen:")
        for each in frozen.wallets:
            ui.link(each.name, address_of(f"wallet:{each.wallet_id}")).classes("sw-text")
            if each.reason:
                sw.text(f"({each.reason})")
        if count > len(frozen.wallets):
            ui.label(f"and {count - len(frozen.wallets):,} more")


async def _ask_reason(frozen: Frozen) -> str | None:
    """Return the reason for the (un)freeze, maybe empty; None if the person does not confirm."""

    def show_stops() -> None:
        _show_list("These stop at once until you unfreeze, even across restarts:", STOPS)
        _show_list("These do not stop:", GOES_ON)

    def show_effect() -> None:
        sw.text(service_text(frozen), "sw-text sw-sentence")
        sw.text(
            "Agents, API keys and schedules may make transactions again at once, within their"
            " limits. Transactions that were refused meanwhile are not repeated."
        )
        if frozen.frozen_wallets:
            sw.text(f"Individually frozen wallets, which stay frozen: {frozen.frozen_wallets:,}.")

    if frozen.service:
        return await ask_note("Unfreeze everything?", show_effect, "Unfreeze all", wide=True)
    reason = declared_fields(Freeze)["reason"]
    return await ask_note(
        "Freeze everything?", show_stops, "Freeze all", reason, wide=True, testid="freeze-reason"
    )


def _show_list(title: str, items: tuple[str, ...]) -> None:
    ui.label(title).classes("sw-strong")
    with ui.element("ul").classes("sw-points"):
        for each in items:
            with ui.element("li"):
                sw.text(each)


class Freshness:
    """The head of a page: its title, and a banner with the data's age while the API is away.

    Make one for a page, inside the element whose content it marks as old.
    """

    def __init__(self, title: str) -> None:
        self._heading = ui.label().classes("sw-title sw-text")
        self._heading.props("role=heading aria-level=1")
        self.set_title(title)
        self._client = ui.context.client
        self.content = ui.context.slot.parent
        self._last_response: datetime | None = None
        self._failing: set[object] = set()
        self._unanswered: set[object] = set()
        self._visible = True
        with ui.row().classes("sw-banner").props("role=alert aria-live=polite") as self._banner:
            ui.icon("cloud_off").props("aria-hidden=true")
            self._text = ui.label().classes("sw-grow")
            again = ui.button("Try again", color=None, on_click=lambda: sw.refresh_page())
            again.props(sw.SMALL).classes("sw-keep")
        self._banner.props('data-testid="banner"').set_visibility(False)
        ui.on(_VISIBILITY_EVENT, self._visibility_changed)
        ui.run_javascript(_EMIT_VISIBILITY)

    def set_title(self, title: str) -> None:
        """Set the page's heading and the title of its browser tab."""
        if title != self._heading.text:
            self._heading.set_text(title)
            ui.page_title(f"{title} - Solward")

    @property
    def visible(self) -> bool:
        """True if the page is connected and its tab is not in the background."""
        return self._visible and self._client.has_socket_connection

    async def _visibility_changed(self, event: events.GenericEventArguments) -> None:
        visible = event.args is True
        came_back = visible and not self._visible
        self._visible = visible
        if came_back:
            await sw.refresh_page(self._client)

    def expect_response(self, poll: object) -> None:
        """Mark the content as loading (aria-busy) until this poll has its first response."""
        self._unanswered.add(poll)
        self.content.props("aria-busy=true")

    def record_response(self, poll: object) -> None:
        """Record a response of the API."""
        self._failing.discard(poll)
        if poll in self._unanswered:
            self._unanswered.discard(poll)
            if not self._unanswered:
                self.content.props(remove="aria-busy")
        if self._failing:
            return
        self._last_response = datetime.now(UTC)
        self._banner.set_visibility(False)
        self.content.classes(remove="sw-old")

    def record_failure(self, error: Exception, poll: object) -> None:
        """Record a failed request: the content stays, marked as old."""
        self._failing.add(poll)
        last = self._last_response
        as_of = "" if last is None else f" This page shows the state at {clock(last)}."
        self._text.set_text(f"{_failure_text(error)}{as_of} Trying again.")
        self._banner.set_visibility(True)
        self.content.classes(add="sw-old")


class Poll(Generic[T]):
    """A request to the API, repeated every `every_s` seconds while the page is visible.

    Args:
        fetch: sends the request.
        show: renders its response; called on the page.
    """

    def __init__(
        self,
        freshness: Freshness,
        every_s: float,
        fetch: Callable[[], Awaitable[T]],
        show: Callable[[T], None],
    ) -> None:
        self._freshness = freshness
        self._client = ui.context.client
        self._fetch = fetch
        self._show = show
        self._sent = 0
        self._newest_shown = 0
        freshness.expect_response(self)
        sw.on_refresh(self.refresh)
        ui.timer(every_s, self._refresh_if_visible)

    async def _refresh_if_visible(self) -> None:
        if self._freshness.visible:
            await self.refresh()

    async def refresh(self) -> None:
        """Send the request now, for example after an action."""
        self._sent += 1
        number = self._sent
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                response = await self._fetch()
        except (ClientError, TimeoutError) as error:
            if self._is_current(number):
                self._freshness.record_failure(error, self)
            return
        if self._is_current(number):
            self._freshness.record_response(self)
            self._show(response)
            for each in self._freshness.content.descendants():
                if isinstance(each, sw.Age):
                    each.tick()

    def _is_current(self, number: int) -> bool:
        # A later request may have been faster, and the page may be gone.
        if number < self._newest_shown or self._client.is_deleted:
            return False
        self._newest_shown = number
        return True


def _failure_text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"The service did not answer within {_TIMEOUT_S:g} s."
    text = str(error).rstrip(".")
    if isinstance(error, Unauthorized):
        visitor = own_credential()
        if visitor is not None:
            ended = " Your credential is no longer valid: log in again." if visitor.refused else ""
            return f"{text}.{ended}"
        return f"{text}. NEXT_PUBLIC_API_SECRET must be the API_SECRET of the service."
    if isinstance(error, Unreachable):
        return f"The service cannot be reached: {text}."
    return f"{text}."
