"""The parts of pages: cards, rows, buttons, fields, facts, bars, and places that are rebuilt when
their content changes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final, Generic, TypeVar

from nicegui import Client, ui

from solward.resources.declare import Answer, declared_fields
from solward.types.errors import SolwardError
from solward_dashboard.api import AROUND_REQUESTS
from solward_dashboard.links import explorer_link
from solward_dashboard.wording import ago, local_times, plain, second, value_text

T = TypeVar("T")
Element = TypeVar("Element", bound=ui.element)

# How a button looks, and whose role hides it.
PRIMARY: Final = "unelevated no-caps"
OUTLINE: Final = "outline no-caps"
SMALL: Final = "outline dense no-caps"
FLAT: Final = "flat dense no-caps"
ICON: Final = "flat round dense"
OPERATE: Final = "sw-needs-operate"
POLICY: Final = "sw-needs-policy"

MANY: Final = 9
"""Maximum number of options of a select without a search field."""
_NEARLY_FULL, _FULL = 0.7, 0.9
# Functions that refresh a page's content, by its client's id.
_POLLS: dict[str, list[Callable[[], Awaitable[None]]]] = {}
# Buttons whose action runs, by page and action; with those that were rebuilt meanwhile.
_BUSY: dict[tuple[str, ...], list[ui.button]] = {}
# Blocks that show that the service is asked, by its client's id.
_PROGRESS: dict[str, Callable[..., AbstractContextManager[None]]] = {}


def row(classes: str = "") -> ui.element:
    """Return a row, whose elements are next to each other."""
    return ui.element("div").classes(f"sw-row {classes}")


def stack(classes: str = "sw-stack") -> ui.element:
    """Return a stack, whose elements are below each other."""
    return ui.element("div").classes(classes)


def text(words: str = "", classes: str = "sw-text", *, testid: str = "") -> ui.label:
    """Return a label with a whole text, which others may have written: labels show no markup."""
    return marked(ui.label(words).classes(classes), testid)


def optional_text(classes: str = "sw-text", *, testid: str = "") -> ui.label:
    """Return a text that is hidden while it is empty."""
    made = text("", classes, testid=testid)
    return made.bind_visibility_from(made, "text", backward=bool)


def error_text() -> ui.label:
    """Return a label for an error, hidden while its text is empty."""
    return optional_text("sw-error").props("role=alert")


def set_class(element: ui.element, name: str, on: bool) -> None:
    """Add a class to an element if `on`, else remove it."""
    element.classes(**{"add" if on else "remove": name})


def dim(words: str = "", classes: str = "sw-text") -> ui.label:
    """Return a text in a less prominent style."""
    return ui.label(words).classes(f"sw-dim {classes}")


def heading(words: str = "", level: int = 2) -> ui.label:
    """Return the heading of a card or a dialog."""
    return ui.label(words).classes("sw-card-title").props(f"role=heading aria-level={level}")


def tag(words: str) -> ui.badge:
    """Return a badge, for a short word about the element next to it."""
    return ui.badge(words).props("outline").classes("sw-tag")


def card(title: str = "", testid: str = "", more: tuple[str, str] | None = None) -> ui.element:
    """Return a card; `more` is the text and the path of a link beside its title."""
    made = marked(ui.element("section").classes("sw-card"), testid)
    with made:
        if more is not None:
            with row():
                heading(title)
                ui.space()
                ui.link(*more).classes("sw-more")
        elif title:
            heading(title)
    return made


def marked(element: Element, testid: str) -> Element:
    """Set an element's test id, and return the element."""
    if testid:
        element.props["data-testid"] = testid
    return element


def at_place(element: Element, place: str) -> Element:
    """Let addresses name an element after their #, and return the element."""
    element.props["data-place"] = place
    return element


def add_progress() -> None:
    """Add a bar over the page that is being built, for requests of its events and until it has its
    first answers. Styles show the bar within half a second, and after 3 s the text."""
    client, under_way = ui.context.client, list[object]()
    with stack("sw-progress").props("role=status") as place:
        bar = ui.linear_progress(show_value=False, size="3px").props("indeterminate")
        bar.props["aria-label"] = "Asking the service"
        ui.label("The service has not answered for 3 s. Still waiting.").classes("sw-late")

    @contextmanager
    def shown(*buttons: ui.button) -> Iterator[None]:
        under_way.append(buttons)
        set_class(place, "sw-asking", True)
        try:
            with disabled(*buttons):
                yield
        finally:
            under_way.pop()
            set_class(place, "sw-asking", bool(under_way))

    _PROGRESS[client.id] = shown
    client.on_delete(lambda: _PROGRESS.pop(client.id, None))


def show_requests_of(client_id: str, *buttons: ui.button) -> None:
    """Show on a page, and on buttons, all requests of what its current event starts."""
    if client_id in _PROGRESS:
        AROUND_REQUESTS.set(partial(_PROGRESS[client_id], *buttons))


def on_refresh(refresh: Callable[[], Awaitable[None]]) -> None:
    """Call `refresh` whenever the page that is being built is refreshed."""
    client = ui.context.client
    if client.id not in _POLLS:
        client.on_delete(lambda: _POLLS.pop(client.id, None))
    _POLLS.setdefault(client.id, []).append(refresh)


async def refresh_page(client: Client | None = None) -> None:
    """Refresh all contents of a page, by default the current one, such as after a change."""
    polls = _POLLS.get((client or ui.context.client).id, ())
    await asyncio.gather(*(each() for each in polls))


def button(
    words: str,
    act: Callable[[], object],
    *,
    icon: str | None = None,
    look: str = OUTLINE,
    needs: str = "",
    of: str = "",
    testid: str = "",
) -> ui.button:
    """Return a button that runs `act` once at a time, and refreshes the page if it was awaited.

    What `act` shows, such as a dialog, belongs to the page and stays if the button is rebuilt; the
    new one is disabled until `act` is done. An error of the service is shown.

    Args:
        needs: `OPERATE` or `POLICY`: hides it from roles that may not do this.
        of: the button's object, if other buttons have the same words.
    """
    client = ui.context.client
    made = ui.button(words, icon=icon, color="primary" if look is PRIMARY else None)
    marked(made.props(look).classes(needs), testid)
    if of:
        made.props["aria-label"] = f"{words} {of}".strip()
    key = (client.id, words, of, testid)
    if key in _BUSY:
        made.disable()
        _BUSY[key].append(made)

    async def pressed() -> None:
        if key in _BUSY:
            return
        _BUSY[key] = []
        show_requests_of(client.id, made)
        try:
            with client:
                try:
                    done = act()
                    if not inspect.isawaitable(done):
                        return
                    await done
                except SolwardError as error:
                    notify_error(error)
        finally:
            _enable_buttons(_BUSY.pop(key))
            show_requests_of(client.id)
        await refresh_page(client)

    return made.on_click(pressed)


def action(
    words: str,
    call: Callable[[], Awaitable[T]],
    *,
    ask: Callable[[], Awaitable[object]] | None = None,
    said: str | Callable[[T], str] = "",
    **more: Any,
) -> ui.button:
    """Return a button that makes one call of the service, and is disabled until its answer comes.

    Args:
        ask: asks a person to confirm it first.
        said: the notice after the call.
        more: arguments of `button`.
    """

    async def act() -> None:
        if ask is not None and not await ask():
            return
        answer = await call()
        if said:
            ui.notify(said if isinstance(said, str) else said(answer), type="positive")

    return button(words, act, **more)


@contextmanager
def disabled(*buttons: ui.button) -> Iterator[None]:
    """Disable buttons while the block runs; the last one spins."""
    # An outer block enables those that it disabled itself.
    enabled = [each for each in buttons if each.enabled and not each.is_deleted]
    for each in enabled:
        each.props("loading" if each is buttons[-1] else "").disable()
    try:
        yield
    finally:
        _enable_buttons(enabled)


def _enable_buttons(buttons: Iterable[ui.button]) -> None:
    for each in buttons:
        if not each.is_deleted:
            each.props(remove="loading").enable()


def choice(label: str, options: Any, value: Any = "", *, testid: str = "") -> ui.select:
    """Return a select for a filter."""
    made = ui.select(options, value=value, label=label).props("outlined dense options-dense")
    return marked(made.classes("sw-select"), testid)


def field_choice(label: str, options: Any, value: Any = None, *, testid: str) -> ui.select:
    """Return a select for a form, with a search among many options."""
    made = ui.select(options, value=value, label=label, with_input=len(options) > MANY)
    return marked(made.props("outlined dense").classes("sw-field"), testid)


def day_field(label: str) -> ui.input:
    """Return a date field for a filter."""
    # The placeholder of a date would lie under the label.
    made = ui.input(label).props("type=date outlined dense stack-label clearable")
    return made.classes("sw-select")


def search_field(label: str, changed: Callable[[], object] | None = None) -> ui.input:
    """Return a search field, which calls `changed` after a short pause in typing."""
    made = ui.input(label, on_change=changed).classes("sw-search")
    return made.props("outlined dense clearable debounce=200 type=search")


@contextmanager
def facts(testid: str = "") -> Iterator[ui.element]:
    """Yield a description list."""
    with marked(ui.element("dl").classes("sw-facts"), testid) as made:
        yield made


@contextmanager
def fact_of(name: str, classes: str = "") -> Iterator[None]:
    """Add a name to a description list; what is built inside describes it."""
    with ui.element("div"):
        with ui.element("dt"):
            ui.label(name)
        with ui.element("dd").classes(classes):
            yield


def fact(name: str, words: str, classes: str = "sw-text") -> None:
    """Add a name and its text to a description list."""
    with fact_of(name):
        ui.label(words).classes(classes)


def facts_of(answer: Answer, *names: str) -> None:
    """Add the fields of an answer that are not None, with their declared labels."""
    declared = declared_fields(type(answer))
    for name in names:
        value = getattr(answer, name)
        label = declared[name].label if name in declared else name.replace("_", " ").capitalize()
        if isinstance(value, datetime):
            fact(label, second(value))
        elif value is not None:
            fact(label, value_text(value), "sw-mono")


def signature_fact(signature: str, network: str) -> None:
    """Add a transaction's signature, which can be copied, and a link to the explorer."""
    with fact_of("Signature", "sw-row"):
        text(signature, "sw-mono", testid="signature")
        copy_button(signature, "Signature")
        explorer_link("tx", signature, network)


def copy_button(words: str, what: str) -> ui.button:
    """Return a button that puts a text on the clipboard."""

    def copy() -> None:
        ui.clipboard.write(words)
        ui.notify(f"{what} copied", type="positive")

    made = ui.button(icon="content_copy", color=None, on_click=copy)
    made.props("flat round dense size=sm").props["aria-label"] = f"Copy {what.lower()}"
    return made


def notify_error(error: Exception | str) -> None:
    """Show an error as a notice, with times in the machine's time zone."""
    ui.notify(local_times(str(error)), type="negative", multi_line=True)


class Age(ui.label):
    """A label that says how long ago a moment was; each response to a poll updates it."""

    def __init__(self, moment: datetime, told: Callable[[datetime], str] = ago) -> None:
        super().__init__(told(moment))
        self._moment, self._told = moment, told

    def tick(self) -> None:
        """Set the text for the present time."""
        self.set_text(self._told(self._moment))


def share(used: Decimal | int, limit: Decimal | int) -> float:
    """Return the used part of a limit, from 0 to 1."""
    return min(1.0, float(Decimal(used) / Decimal(limit))) if limit else 1.0


def show_limit(title: str, limit: Mapping[str, Any], unit: str) -> None:
    """Show the spent, reserved and unused parts of a limit; `limit` is the service's JSON."""
    spent, reserved = (Decimal(limit.get(key, 0)) for key in ("spent", "reserved"))
    more = f", {plain(reserved)} reserved" if reserved else ""
    if limit["limit"] is None:
        show_bar(title, f"{plain(spent)}{unit}{more}, no limit", 0.0)
        return
    most = Decimal(limit["limit"])
    left = plain(max(Decimal(0), most - spent - reserved))
    said = f"{plain(spent)} of {plain(most)}{unit}{more}, {left} left"
    show_bar(title, said, share(spent, most), share(spent + reserved, most))


def show_bar(title: str, words: str, used: float, reserved: float | None = None) -> None:
    """Show a limit's title, its use in words and a bar from 0 to 1, with `reserved` behind it."""
    with ui.element("div"):
        with row("sw-dim"):
            ui.label(title).classes("sw-text")
            ui.space()
            ui.label(words).classes("sw-number")
        line = ui.linear_progress(used, show_value=False, size="6px").props("rounded")
        full = used if reserved is None else reserved
        colour = "negative" if full >= _FULL else "warning" if full >= _NEARLY_FULL else "teal"
        line.props["color"] = colour
        line.props["aria-label"] = ": ".join(filter(None, (title, words)))
        if reserved is not None:
            line.props["buffer"] = reserved


class LiveContent(Generic[T]):
    """A place whose content is rebuilt when its value changes.

    Args:
        build: builds the content of a value.
        of: returns the part of a value that the content shows; other changes rebuild nothing.
        hides: an element that is hidden while the value is empty.
    """

    def __init__(
        self,
        build: Callable[[T], object],
        classes: str = "sw-list",
        *,
        of: Callable[[T], object] = lambda value: value,
        hides: ui.element | None = None,
    ) -> None:
        self._build = build
        self._of = of
        self._hides = hides
        self._shown: object = None
        self._is_shown = False
        self.element = ui.element("div").classes(classes)
        if hides is not None:
            hides.set_visibility(False)

    def show(self, value: T) -> None:
        """Show a value."""
        shown = self._of(value)
        if self._is_shown and shown == self._shown:
            return
        # False until it is built, so that a failed build is tried again.
        self._is_shown = False
        self.element.clear()
        if self._hides is not None:
            self._hides.set_visibility(bool(value))
        with self.element:
            self._build(value)
        self._shown, self._is_shown = shown, True


def card_of(
    title: str,
    build: Callable[[T], object],
    testid: str = "",
    more: tuple[str, str] | None = None,
    *,
    hides: bool = False,
) -> LiveContent[T]:
    """Return a card whose content is rebuilt when its value changes.

    Args:
        hides: whether the card is hidden while the value is empty.
    """
    with card(title, testid, more) as made:
        return LiveContent(build, hides=made if hides else None)


def show_list(values: Iterable[T], show: Callable[[T], object], none: str) -> None:
    """Show each value, or the text `none` if there is no value."""
    some = [show(each) for each in values]
    if not some:
        ui.label(none).classes("sw-dim")


def lines(values: Iterable[tuple[str, str]], classes: str = "sw-text") -> None:
    """Add facts of (name, text)."""
    for name, words in values:
        fact(name, words, classes)
