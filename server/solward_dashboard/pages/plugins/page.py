"""The plugins page: loaded plugins with their schemas, and what is wrong with plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import Plugin, PluginDistribution, Plugins, Skill
from solward.support import jsontext
from solward.types.manifest import Terms
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import frame
from solward_dashboard.pages.plugins import settings
from solward_dashboard.pages.plugins.entries import show_entries
from solward_dashboard.polling import Poll

# Plugins change when somebody installs, upgrades or disables one.
EVERY_S = 10.0
_STATES = {"loaded": "loaded", "disabled": "disabled", "problem": "problem, see above"}
_TITLES = {
    "skill": "Skills",
    "provider": "Providers",
    "venue": "Swap venues",
    "payment": "Payment protocols",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The plugins, and the skills' declarations."""

    plugins: Plugins
    skills: tuple[Skill, ...]


async def fetch() -> Loaded:
    """Fetch both."""
    plugins, skills = await asyncio.gather(api().plugins(), api().skills())
    return Loaded(plugins, skills)


def page() -> None:
    """Built once a visitor; rebuilt when the plugins, or what is searched for, have changed."""
    with frame("/plugins") as freshness:
        shown = _Shown()
        Poll(freshness, EVERY_S, fetch, shown.show)


class _Shown:
    def __init__(self) -> None:
        self._answer: Loaded | None = None
        with ui.element("div").classes("sw-row"):
            self._search = ui.input("Search plugins", on_change=self._draw).classes("sw-search")
            self._search.props("outlined dense clearable debounce=200 type=search")
            kinds = {"": "All kinds"} | _TITLES | {"guardrail": "Guardrails"}
            self._kind = ui.select(kinds, value="", label="Kind", on_change=self._draw)
            self._kind.props("outlined dense options-dense").classes("sw-select")
            self._count = ui.label().classes("sw-dim").props('role=status data-testid="found"')
        self._place = ui.element("div").classes("sw-stack")
        # Not in the place: what is in it goes when it is built anew.
        self._dialogs = ui.element("div").classes("hidden")

    def show(self, answer: Loaded) -> None:
        """Show them, where something has changed."""
        if answer != self._answer:
            self._answer = answer
            self._draw()

    def _draw(self) -> None:
        if self._answer is None:
            return
        text, kind = (self._search.value or "").strip(), self._kind.value or ""
        found = search(self._answer, text, kind)
        count = len(found.plugins.plugins) + len(found.plugins.guardrails)
        every = len(self._answer.plugins.plugins) + len(self._answer.plugins.guardrails)
        self._count.set_text(f"{count} of {every}")
        self._place.clear()
        with self._place:
            # Not searched: what is wrong is not to be overlooked.
            _problems(found.plugins)
            _distributions(found.plugins.distributions, self._entries)
            self._loaded(found, everything=not (text or kind))
            if not count:
                ui.label("No plugin fits.").classes("sw-empty")

    def _loaded(self, answer: Loaded, *, everything: bool) -> None:
        declared = {each.name: each for each in answer.skills}
        for kind, title in _TITLES.items():
            found = [each for each in answer.plugins.plugins if each.kind == kind]
            if not found and not everything:
                continue
            with ui.element("section").classes("sw-card").props(f'data-testid="{kind}s"'):
                heading(f"{title} ({len(found)})")
                with ui.element("div").classes("sw-list"):
                    for each in found:
                        skill = declared.get(each.name) if kind == "skill" else None
                        _plugin(each, skill, self._settings)
        if answer.plugins.guardrails:
            with ui.element("section").classes("sw-card").props('data-testid="guardrails"'):
                heading("Further guardrails")
                for name in answer.plugins.guardrails:
                    ui.label(name)

    async def _settings(self, skill: str) -> None:
        with self._dialogs:
            await settings.edit(skill)

    async def _entries(self, plugin: str) -> None:
        with self._dialogs:
            await show_entries(plugin)


def search(answer: Loaded, text: str, kind: str) -> Loaded:
    """Those of a kind that have every word of a text in their name, distribution, what they need
    or what they say of themselves.

    Args:
        kind: of a plugin, `guardrail`, or empty for all.
    """
    words = text.casefold().split()
    described = {each.name: each.description for each in answer.skills}

    def fits(*texts: str | None) -> bool:
        every = " ".join(each for each in texts if each).casefold()
        return all(word in every for word in words)

    def has(plugin: Plugin) -> bool:
        about = described.get(plugin.name, "") if plugin.kind == "skill" else ""
        needs = _terms(plugin).needs()
        return kind in ("", plugin.kind) and fits(
            plugin.name, plugin.kind, _TITLES[plugin.kind], plugin.distribution, about, *needs
        )

    plugins = tuple(each for each in answer.plugins.plugins if has(each))
    own = {each.distribution for each in plugins}
    return Loaded(
        replace(
            answer.plugins,
            plugins=plugins,
            distributions=tuple(
                each
                for each in answer.plugins.distributions
                if each.name in own
                or (not kind and fits(each.name, *(one.plugin for one in each.accepted)))
            ),
            guardrails=tuple(
                each
                for each in answer.plugins.guardrails
                if kind in ("", "guardrail") and fits(each, "guardrail")
            ),
        ),
        answer.skills,
    )


def _terms(plugin: Plugin) -> Terms:
    return Terms(plugin.manifest, False, plugin.secret_env, plugin.base_url_env)


def _problems(plugins: Plugins) -> None:
    with ui.element("section").classes("sw-card").props('data-testid="problems"'):
        if not plugins.problems:
            with ui.element("div").classes("sw-row"):
                ui.icon("check_circle").classes("sw-good").props("aria-hidden=true")
                ui.label("No plugin has a problem.")
            return
        heading(f"Problems ({len(plugins.problems)})").classes("sw-bad")
        with ui.element("div").classes("sw-list"):
            for each in plugins.problems:
                with ui.element("div"):
                    with ui.element("div").classes("sw-row"):
                        ui.label(each.plugin).classes("sw-strong sw-text")
                        ui.badge(each.code).props("outline").classes("sw-tag")
                        ui.label(each.distribution or "").classes("sw-dim")
                    ui.label(each.detail).classes("sw-text")


def _distributions(
    distributions: Sequence[PluginDistribution], show: Callable[[str], Awaitable[None]]
) -> None:
    """Where others' plugins are installed, and what was accepted of those in their own folders."""
    if not distributions:
        return
    with ui.element("section").classes("sw-card").props('data-testid="distributions"'):
        heading(f"Installed from others ({len(distributions)})")
        with ui.element("div").classes("sw-list"):
            for each in distributions:
                with ui.element("div"):
                    with ui.element("div").classes("sw-row"):
                        ui.label(each.name).classes("sw-strong sw-text")
                        ui.label(each.version).classes("sw-dim sw-text")
                        ui.badge(_STATES[each.state]).props("outline").classes("sw-tag")
                        ui.space()
                        entries = ui.button("Entries", color=None)
                        entries.props('outline dense no-caps padding="2px 10px"')
                        entries.props["aria-label"] = f"Entries of {each.name}"
                        entries.on_click(partial(show, each.name))
                    ui.label(
                        "In a folder of its own, run by plugin hosts alone."
                        if each.trust is None
                        else f"In the service's environment: {each.trust}."
                    ).classes("sw-dim sw-text")
                    for one in each.accepted:
                        _needs(one.terms, one.secrets, f"{one.plugin.partition(':')[2]}: ")


def _needs(terms: Terms, secrets: Mapping[str, bool], whose: str = "") -> None:
    unset = [name for name, has_value in secrets.items() if not has_value]
    for need in terms.needs(unset):
        ui.label(whose + need).classes("sw-dim sw-text").props("data-testid=need")


def _plugin(plugin: Plugin, skill: Skill | None, edit: Callable[[str], Awaitable[None]]) -> None:
    with ui.element("div"):
        with ui.element("div").classes("sw-row"):
            ui.label(plugin.name).classes("sw-strong")
            if skill is not None:
                ui.badge("spends" if skill.effects == "spend" else "reads").props(
                    "outline"
                ).classes("sw-tag")
            if plugin.configured is False:
                ui.badge("no key set").props("outline").classes("sw-tag")
            ui.space()
            ui.label(f"{plugin.distribution} {plugin.version}").classes("sw-dim")
            if plugin.has_settings:
                change = ui.button("Settings", color=None)
                change.props('outline dense no-caps padding="2px 10px"')
                change.props["aria-label"] = f"Settings of {plugin.name}"
                change.on_click(partial(edit, plugin.name))
        _needs(_terms(plugin), plugin.secrets)
        if skill is not None:
            ui.label(skill.description).classes("sw-dim sw-text")
            _schema("Parameters", skill.parameters)
        if plugin.options is not None:
            ui.label(f"Model by default: {plugin.default_model}").classes("sw-dim sw-text")
            _schema("Options", plugin.options)


def _schema(title: str, schema: Mapping[str, Any]) -> None:
    with ui.expansion(title).props("dense").classes("sw-schema"):
        # A label shows text, never markup.
        ui.label(jsontext.indented(dict(schema))).classes("sw-mono sw-pre")
