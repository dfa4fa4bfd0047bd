"""The settings page: the settings of the running service. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from solward.client import Setting
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.frame import Poll, frame

# Settings change only when the service is restarted.
EVERY_S = 30.0
_SOURCES = {"argument": "command option"}
_NOTE = (
    "The service read these settings from its environment and .env when it started: change them"
    " there, and restart it. docs/reference/settings.md explains each. Grants, API keys and the"
    " settings of plugins have their own pages, and change while the service runs."
)


def page() -> None:
    """Build the page once for a visitor; it is rebuilt when the settings change."""
    with frame("/settings") as freshness:
        latest: Sequence[Setting] = ()

        def draw() -> None:
            wanted, only = search.value or "", bool(only_set.value)
            found = [each for each in latest if matches(each, wanted, only)]
            count.set_text(f"{len(found)} of {len(latest)}")
            shown.show(found)

        def show(settings: Sequence[Setting]) -> None:
            nonlocal latest
            latest = settings
            draw()

        sw.dim(_NOTE)
        with sw.row():
            search = sw.search_field("Search settings", draw)
            only_set = ui.switch("Only settings that are set", on_change=draw)
            count = sw.dim().props("role=status")
        shown = sw.LiveContent(_show_cards, "sw-stack")
        # In a lambda, because the client is known only once a visitor asks.
        Poll(freshness, EVERY_S, lambda: api().settings(), show)


def _show_cards(settings: Sequence[Setting]) -> None:
    ceilings = "Ceilings: no request, grant, agent or key goes beyond them"
    for title, testid, is_ceiling in ((ceilings, "ceilings", True), ("Others", "others", False)):
        found = [each for each in settings if each.ceiling is is_ceiling]
        if found:
            with sw.card(title, testid), ui.element("ul").classes("sw-list"):
                for each in found:
                    _show_row(each)


def _show_row(setting: Setting) -> None:
    with sw.marked(ui.element("li").classes("sw-facts-row"), f"setting-{setting.name}") as row:
        sw.at_place(row, setting.name)
        with sw.row():
            sw.text(setting.name, "sw-mono sw-strong")
            if setting.secret:
                sw.tag("secret")
        is_plain = setting.secret or setting.value is None
        sw.text(value_text(setting), "sw-dim" if is_plain else "sw-mono sw-text")
        sw.dim(default_text(setting))
        source = _SOURCES.get(setting.source, setting.source)
        sw.text(source, "sw-strong" if setting.set else "sw-dim")


def value_text(setting: Setting) -> str:
    """Return a setting's value for people; for a secret, only whether it is set."""
    if setting.secret:
        return "set" if setting.set else "not set"
    return "not set" if setting.value is None else setting.value


def default_text(setting: Setting) -> str:
    """Return a setting's default as text; empty for secrets, or if the value is the default."""
    if setting.secret or setting.value == setting.default:
        return ""
    return f"default: {'not set' if setting.default is None else setting.default}"


def matches(setting: Setting, text: str, only_set: bool) -> bool:
    """Return whether a setting has a text and, if `only_set`, is set."""
    words = f"{setting.name} {value_text(setting)} {setting.source}".casefold()
    return (setting.set or not only_set) and text.strip().casefold() in words
