"""The frame of every page: title, navigation, light and dark, banners; the freeze of the whole
service: its switch in the header, and what every page says of it; and polling the API while a page
is visible: without a response its content stays, marked as old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from nicegui import events, ui

from solward.client import ClientError, Frozen, Unauthorized, Unreachable
from solward.support.clean_text import one_line
from solward.types.errors import SolwardError
from solward.types.roles import Role
from solward_dashboard.api import api, behind_login, own_credential, role
from solward_dashboard.dialogs import notify_error, reason_input, result_of, submit_buttons, titled
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
_SCRIPTS = tuple(Path(__file__).parent / "static" / name for name in ("focus.js", "cut.js"))
_DARK = "solward_dark"
_YEAR_S = 365 * 24 * 3600
_ADMINS = "/admins"
_HOLDS = "/holds"
_WAITING_EVERY_S = 5.0
_MOST_WAITING = 100
_FROZEN_EVERY_S = 5.0
# The longest name that the service takes is an agent's.
_MAX_NAME = 100

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


class Title:
    """What a page shows, by name: its first heading, and what its tab is called.

    Args:
        kind: of what is shown, or the whole of it where `show` is never called.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._heading = ui.label().classes("sw-title sw-text")
        self._heading.props("role=heading aria-level=1")
        self._set_text(kind)

    def show(self, name: str) -> None:
        """The name of what is shown, or its id where it has none: text of others."""
        self._set_text(f"{self._kind} {one_line(name, _MAX_NAME)}")

    def _set_text(self, text: str) -> None:
        if text != self._heading.text:
            self._heading.set_text(text)
            ui.page_title(f"{text} - Solward")


@contextmanager
def frame(path: str) -> Iterator[Freshness]:
    """The frame of a page; elements built inside are its content."""
    with _framed(path, next(name for route, name, _ in PAGES if route == path)) as (freshness, _):
        yield freshness


@contextmanager
def frame_of_one(path: str, kind: str) -> Iterator[tuple[Freshness, Title]]:
    """As `frame`, of a page that shows one of what the page at `path` lists.

    Args:
        kind: what it shows, such as `Wallet`; its name is for who has it.
    """
    with _framed(path, kind) as framed:
        yield framed


@contextmanager
def _framed(path: str, called: str) -> Iterator[tuple[Freshness, Title]]:
    ui.add_css(_LOOK)
    for script in _SCRIPTS:
        ui.add_head_html(f"<script>{script.read_text()}</script>")
    # What its role may not do is not offered: the style sheet hides what is marked so.
    ui.query("body").classes(f"sw-role-{role()}")
    ui.colors(primary="#0f766e")
    dark = ui.dark_mode(_dark_cookie())
    with ui.header().classes("sw-header"):
        menu = ui.button(icon="menu", color=None).props('flat round dense aria-label="Menu"')
        menu.classes("sw-menu")
        ui.link("Solward", "/").classes("sw-brand")
        ui.space()
        waiting = _Waiting()
        freeze = FreezeSwitch()
        _dark_switch(dark)
        if behind_login():
            out = ui.button(icon="logout", color=None, on_click=lambda: ui.navigate.to("/logout"))
            out.props('flat round dense aria-label="Log out"')
    # Without a value NiceGUI requests one from the browser, and warns where that is slow.
    drawer = ui.left_drawer(value=False, bordered=True).classes("sw-nav")
    drawer.props("show-if-above width=208 breakpoint=900")
    with drawer, ui.element("nav").props('aria-label="Pages"'):
        for route, name, icon in PAGES:
            if route == _ADMINS and role() is not Role.POLICY:
                continue
            with _nav_link(route, name, icon, current=route == path):
                if route == _HOLDS:
                    waiting.add_badge()
    menu.on_click(drawer.toggle)
    with ui.element("div").classes("sw-main") as main:
        freeze.add_banner()
        title = Title(called)
        freshness = Freshness()
        Poll(freshness, _WAITING_EVERY_S, _Waiting.fetch, waiting.show)
        frozen = Poll(freshness, _FROZEN_EVERY_S, FreezeSwitch.fetch, freeze.show)
        freeze.refresh_by(frozen.refresh)
        yield freshness, title
    ui.skip_link("Skip to the content", target=main)


def _nav_link(route: str, name: str, icon: str, *, current: bool) -> ui.link:
    link = ui.link(target=route).classes("sw-nav-link")
    if current:
        link.props("aria-current=page")
    with link:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(name)
    return link


class _Waiting:
    """How many holds wait for a person: in the header, and beside their page's name."""

    def __init__(self) -> None:
        self._link = ui.link(target=_HOLDS).classes("sw-waiting")
        with self._link.props('data-testid="waiting-link"'):
            ui.icon("how_to_reg").props("aria-hidden=true")
            self._text = ui.label()
        self._link.set_visibility(False)

    def add_badge(self) -> None:
        self._badge = ui.badge().classes("sw-blocked").props('data-testid="waiting-count"')
        self._badge.set_visibility(False)

    @staticmethod
    async def fetch() -> int:
        held = await api().holds.list(is_open=True, limit=_MOST_WAITING)
        return sum(each.state == "held" for each in held)

    def show(self, count: int) -> None:
        number = f"{count}" if count < _MOST_WAITING else f"{_MOST_WAITING}+"
        self._badge.set_text(number)
        self._text.set_text(number)
        self._link.props["aria-label"] = f"{number} wait for you"
        for each in (self._badge, self._link):
            each.set_visibility(count > 0)


def _dark_cookie() -> bool | None:
    request = ui.context.client.request
    return {"1": True, "0": False}.get(request.cookies.get(_DARK, "") if request else "")


def _dark_switch(dark: ui.dark_mode) -> None:
    def choose(value: bool | None) -> None:
        dark.set_value(value)
        stored = "" if value is None else str(int(value))
        # A cookie, so that the next page is rendered in these colours at once.
        ui.run_javascript(
            f"document.cookie = '{_DARK}={stored}; path=/; max-age={_YEAR_S}; samesite=strict'"
        )

    button = ui.button(icon="contrast", color=None)
    with button.props('flat round dense aria-label="Light or dark"'), ui.menu():
        ui.menu_item("Light", lambda: choose(False))
        ui.menu_item("Dark", lambda: choose(True))
        ui.menu_item("As the system", lambda: choose(None))


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
        if self._frozen is None and self._refresh is not None:
            # Pressed before the page's first poll was answered.
            self._button.disable()
            try:
                await self._refresh()
            finally:
                self._button.enable()
        if self._frozen is None:
            ui.notify("The service does not say whether it is frozen. Try again.", type="warning")
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
    return reason_input()


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


class Freshness:
    """The banner of a page: that the API does not respond, and how old the content is.

    Made once a page, inside the element whose content it marks as old.
    """

    def __init__(self) -> None:
        self._client = ui.context.client
        self._content = ui.context.slot.parent
        self._last_response: datetime | None = None
        self._failing: set[object] = set()
        self._unanswered: set[object] = set()
        self._visible = True
        self._on_visible: list[Callable[[], Awaitable[None]]] = []
        with ui.row().classes("sw-banner").props("role=alert aria-live=polite") as self._banner:
            ui.icon("cloud_off").props("aria-hidden=true")
            self._text = ui.label()
        self._banner.props('data-testid="banner"').set_visibility(False)
        ui.on(_VISIBILITY_EVENT, self._visibility_changed)
        ui.run_javascript(_EMIT_VISIBILITY)

    @property
    def visible(self) -> bool:
        """Whether the page is connected, and its tab not in the background."""
        return self._visible and self._client.has_socket_connection

    def when_visible_again(self, action: Callable[[], Awaitable[None]]) -> None:
        """Call `action` whenever the tab comes back to the foreground."""
        self._on_visible.append(action)

    async def _visibility_changed(self, event: events.GenericEventArguments) -> None:
        visible = event.args is True
        came_back = visible and not self._visible
        self._visible = visible
        if came_back:
            await asyncio.gather(*(action() for action in self._on_visible))

    def asks(self, poll: object) -> None:
        """The content is on its way (aria-busy) until each of these has its first response."""
        self._unanswered.add(poll)
        self._content.props("aria-busy=true")

    def succeeded(self, poll: object = None) -> None:
        """Record a response of the API."""
        self._failing.discard(poll)
        if poll in self._unanswered:
            self._unanswered.discard(poll)
            if not self._unanswered:
                self._content.props(remove="aria-busy")
        if self._failing:
            return
        self._last_response = datetime.now(UTC)
        self._banner.set_visibility(False)
        self._content.classes(remove="sw-old")

    def failed(self, error: Exception, poll: object = None) -> None:
        """Record a failed request: the content stays, marked as old."""
        self._failing.add(poll)
        as_of = (
            ""
            if self._last_response is None
            else f" What you see is of {clock(self._last_response)}."
        )
        self._text.set_text(f"{_failure_text(error)}{as_of} Trying again.")
        self._banner.set_visibility(True)
        self._content.classes(add="sw-old")


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
        freshness.asks(self)
        freshness.when_visible_again(self.refresh)
        ui.timer(every_s, self._tick)

    async def _tick(self) -> None:
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
                self._freshness.failed(error, self)
            return
        if self._is_current(number):
            self._freshness.succeeded(self)
            self._show(response)

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
            ended = " Your admin credential has ended: log in again." if visitor.refused else ""
            return f"{text}.{ended}"
        return f"{text}. NEXT_PUBLIC_API_SECRET must be the API_SECRET of the service."
    if isinstance(error, Unreachable):
        return f"The service is away: {text}."
    return f"{text}."
