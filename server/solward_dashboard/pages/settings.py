"""The settings page: what the service was started with. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from solward.client import Setting
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import Poll, frame

# They change when the service is started again.
EVERY_S = 30.0
_SOURCES = {"argument": "command option"}
_NOTE = (
    "Read once, at the start, from the environment and .env of the process that answers: change"
    " them there, and restart. docs/configuration.md says what each means. Grants, API keys and"
    " settings of plugins change while the service runs, on pages of their own."
)


async def fetch() -> tuple[Setting, ...]:
    """Fetch them."""
    return await api().settings()


def page() -> None:
    """Built once a visitor; rebuilt when a service with other settings answers."""
    with frame("/settings") as freshness:
        shown = _Shown()
        Poll(freshness, EVERY_S, fetch, shown.show)


class _Shown:
    def __init__(self) -> None:
        self._settings: tuple[Setting, ...] = ()
        ui.label(_NOTE).classes("sw-dim sw-text")
        with ui.element("div").classes("sw-row"):
            self._search = ui.input("Search settings", on_change=self._draw).classes("sw-search")
            self._search.props("outlined dense clearable debounce=200 type=search")
            self._only = ui.switch("Only what was set", on_change=self._draw)
            self._count = ui.label().classes("sw-dim").props("role=status")
        self._place = ui.element("div").classes("sw-stack")

    def show(self, settings: tuple[Setting, ...]) -> None:
        """Show them, ceilings first."""
        if settings != self._settings:
            self._settings = settings
            self._draw()

    def _draw(self) -> None:
        text, only = self._search.value or "", bool(self._only.value)
        found = [each for each in self._settings if matches(each, text, only)]
        self._count.set_text(f"{len(found)} of {len(self._settings)}")
        self._place.clear()
        with self._place:
            _card(
                "Ceilings: no request, grant, agent or key goes beyond them",
                [each for each in found if each.ceiling],
                "ceilings",
            )
            _card("Others", [each for each in found if not each.ceiling], "others")


def _card(title: str, settings: Sequence[Setting], testid: str) -> None:
    if not settings:
        return
    with ui.element("section").classes("sw-card").props(f'data-testid="{testid}"'):
        heading(title)
        with ui.element("ul").classes("sw-list"):
            for each in settings:
                _row(each)


def _row(setting: Setting) -> None:
    with ui.element("li").classes("sw-facts-row") as row:
        row.props["data-testid"] = f"setting-{setting.name}"
        with ui.element("div").classes("sw-row"):
            ui.label(setting.name).classes("sw-mono sw-strong")
            if setting.secret:
                ui.badge("secret").props("outline").classes("sw-tag")
        plain = setting.secret or setting.value is None
        ui.label(value_text(setting)).classes("sw-dim" if plain else "sw-mono sw-text")
        ui.label(default_text(setting)).classes("sw-dim sw-text")
        ui.label(_SOURCES.get(setting.source, setting.source)).classes(
            "sw-strong" if setting.set else "sw-dim"
        )


def value_text(setting: Setting) -> str:
    """A setting's value for people; of a secret only whether it is set."""
    if setting.secret:
        return "set" if setting.set else "not set"
    return "not set" if setting.value is None else setting.value


def default_text(setting: Setting) -> str:
    """What it would be otherwise, empty where that is its value."""
    if setting.secret or setting.value == setting.default:
        return ""
    return f"default: {'not set' if setting.default is None else setting.default}"


def matches(setting: Setting, text: str, only_set: bool) -> bool:
    """Whether a setting is to be shown."""
    words = f"{setting.name} {value_text(setting)} {setting.source}".casefold()
    return (setting.set or not only_set) and text.strip().casefold() in words
