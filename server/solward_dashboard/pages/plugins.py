"""The plugins page: loaded plugins with their schemas, and what is wrong with plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward import jsontext
from solward.client import Plugin, PluginDistribution, Plugins, Skill
from solward.manifest import Terms
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import frame
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
    """Built once a visitor; rebuilt when the plugins have changed."""
    with frame("/plugins") as freshness:
        place = ui.element("div").classes("sw-stack")
        shown: list[Loaded] = []

        def show(answer: Loaded) -> None:
            if shown and shown[0] == answer:
                return
            shown[:] = [answer]
            place.clear()
            with place:
                _all(answer)

        Poll(freshness, EVERY_S, fetch, show)


def _all(answer: Loaded) -> None:
    _problems(answer.plugins)
    _distributions(answer.plugins.distributions)
    declared = {each.name: each for each in answer.skills}
    for kind, title in _TITLES.items():
        found = [each for each in answer.plugins.plugins if each.kind == kind]
        with ui.element("section").classes("sw-card").props(f'data-testid="{kind}s"'):
            heading(f"{title} ({len(found)})")
            with ui.element("div").classes("sw-list"):
                for each in found:
                    _plugin(each, declared.get(each.name) if kind == "skill" else None)
    if answer.plugins.guardrails:
        with ui.element("section").classes("sw-card").props('data-testid="guardrails"'):
            heading("Further guardrails")
            for name in answer.plugins.guardrails:
                ui.label(name)


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


def _distributions(distributions: Sequence[PluginDistribution]) -> None:
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


def _plugin(plugin: Plugin, skill: Skill | None) -> None:
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
        _needs(
            Terms(plugin.manifest, False, plugin.secret_env, plugin.base_url_env), plugin.secrets
        )
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
