"""The plugins page: loaded plugins with their schemas, what is wrong with plugins, what a
distribution keeps for a wallet, and a form for the settings of a skill.

A secret is written and never shown: its field begins empty, and what is typed replaces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import Plugin, PluginDistribution, Plugins, Skill, Wallet
from solward.resources.plugins import PluginEntry, SkillSettings
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.manifest import Terms
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, show_dialog, titled_dialog
from solward_dashboard.forms import Errors, Form, FormError, is_same
from solward_dashboard.frame import Poll, frame
from solward_dashboard.lists import NewestFirst, search_words
from solward_dashboard.wording import day

# Plugins change when somebody installs, upgrades or disables one.
EVERY_S = 10.0
_STATES = {"loaded": "loaded", "disabled": "disabled", "problem": "problem, see above"}
_TITLES = {
    "skill": "Skills",
    "provider": "Providers",
    "venue": "Swap venues",
    "payment": "Payment protocols",
}

LIMIT = 20

_TOLD = ("title", "description")


@dataclass(frozen=True, slots=True)
class LoadedPlugins:
    """The plugins, and the declarations of skills."""

    plugins: Plugins
    skills: tuple[Skill, ...]

    @property
    def count(self) -> int:
        """The number of plugins and guardrails."""
        return len(self.plugins.plugins) + len(self.plugins.guardrails)


async def fetch() -> LoadedPlugins:
    """Fetch the plugins and the skills' declarations."""
    return LoadedPlugins(*await asyncio.gather(api().plugins(), api().skills()))


def page() -> None:
    """Build the page once for a visitor; it is rebuilt when the plugins or the search change."""
    with frame("/plugins") as freshness:
        latest: list[LoadedPlugins] = []

        def draw() -> None:
            if not latest:
                return
            wanted, only = (words.value or "").strip(), kind.value or ""
            found = search(latest[0], wanted, only)
            count.set_text(f"{found.count} of {latest[0].count}")
            shown.show((found, not (wanted or only)))

        def show(answer: LoadedPlugins) -> None:
            latest[:] = [answer]
            draw()

        with sw.row():
            words = sw.search_field("Search plugins", draw)
            kinds = {"": "All kinds"} | _TITLES | {"guardrail": "Guardrails"}
            kind = sw.choice("Kind", kinds).on_value_change(draw)
            count = sw.marked(sw.dim().props("role=status"), "found")
        shown = sw.LiveContent(_show_plugins, "sw-stack")
        Poll(freshness, EVERY_S, fetch, show)


def _show_plugins(shown: tuple[LoadedPlugins, bool]) -> None:
    found, everything = shown
    # Problems are shown whatever the search, so that nobody overlooks them.
    _show_problems(found.plugins)
    if found.plugins.distributions:
        _show_distributions(found.plugins.distributions)
    declared = {each.name: each for each in found.skills}
    for kind, title in _TITLES.items():
        plugins = [each for each in found.plugins.plugins if each.kind == kind]
        if plugins or everything:
            with sw.card(f"{title} ({len(plugins)})", f"{kind}s"), sw.stack("sw-list"):
                for each in plugins:
                    _show_plugin(each, declared.get(each.name) if kind == "skill" else None)
    if found.plugins.guardrails:
        with sw.card("Further guardrails", "guardrails"):
            for name in found.plugins.guardrails:
                sw.text(name)
    if not found.count:
        ui.label("No plugin fits the search.").classes("sw-empty")


def search(answer: LoadedPlugins, wanted: str, kind: str) -> LoadedPlugins:
    """Return the plugins of a kind that have every word of a text in their name, distribution,
    needs or description.

    Args:
        kind: a kind of plugin, `guardrail`, or empty for all.
    """
    described = {each.name: each.description for each in answer.skills}

    def texts(plugin: Plugin) -> Sequence[str]:
        about = described.get(plugin.name, "") if plugin.kind == "skill" else ""
        named = (plugin.name, plugin.kind, _TITLES[plugin.kind], plugin.distribution)
        return *named, about, *_plugin_terms(plugin).needs()

    of_kind = [each for each in answer.plugins.plugins if kind in ("", each.kind)]
    plugins = search_words(wanted, of_kind, texts)
    own = {each.distribution for each in plugins}
    if not kind:
        others = answer.plugins.distributions
        found = search_words(
            wanted, others, lambda each: (each.name, *(one.plugin for one in each.accepted))
        )
        own |= {each.name for each in found}
    guardrails = answer.plugins.guardrails if kind in ("", "guardrail") else ()
    shown = replace(
        answer.plugins,
        plugins=tuple(plugins),
        distributions=tuple(each for each in answer.plugins.distributions if each.name in own),
        guardrails=tuple(search_words(wanted, guardrails, lambda each: (each, "guardrail"))),
    )
    return LoadedPlugins(shown, answer.skills)


def _plugin_terms(plugin: Plugin) -> Terms:
    return Terms(plugin.manifest, False, plugin.secret_env, plugin.base_url_env)


def _show_problems(plugins: Plugins) -> None:
    with sw.card(testid="problems"):
        if not plugins.problems:
            with sw.row():
                ui.icon("check_circle").classes("sw-good").props("aria-hidden=true")
                ui.label("No plugin has a problem.")
            return
        sw.heading(f"Problems ({len(plugins.problems)})").classes("sw-bad")
        with sw.stack("sw-list"):
            for each in plugins.problems:
                with ui.element("div"):
                    with sw.row():
                        sw.text(each.plugin, "sw-strong sw-text")
                        sw.tag(each.code)
                        sw.dim(each.distribution or "")
                    sw.text(each.detail)


def _show_distributions(distributions: Sequence[PluginDistribution]) -> None:
    """Show third parties' distributions, and what was accepted for those in own folders."""
    with (
        sw.card(f"Distributions of third parties ({len(distributions)})", "distributions"),
        sw.stack("sw-list"),
    ):
        for each in distributions:
            with ui.element("div"):
                with sw.row():
                    sw.text(each.name, "sw-strong sw-text")
                    sw.dim(each.version)
                    sw.tag(_STATES[each.state])
                    ui.space()
                    of = f"of {each.name}"
                    sw.button("Entries", partial(show_entries, each.name), look=sw.SMALL, of=of)
                sw.dim(
                    "Installed in a separate folder; only plugin hosts run it."
                    if each.trust is None
                    else f"Installed in the service's environment: {each.trust}."
                )
                for one in each.accepted:
                    _show_needs(one.terms, one.secrets, f"{one.plugin.partition(':')[2]}: ")


def _show_needs(terms: Terms, secrets: Mapping[str, bool], whose: str = "") -> None:
    unset = [name for name, has_value in secrets.items() if not has_value]
    for need in terms.needs(unset):
        sw.marked(sw.dim(whose + need), "need")


def _show_plugin(plugin: Plugin, skill: Skill | None) -> None:
    with ui.element("div"):
        with sw.row():
            sw.text(plugin.name, "sw-strong")
            if skill is not None:
                sw.tag("spends" if skill.effects == "spend" else "reads")
            if plugin.configured is False:
                sw.tag("no key set")
            ui.space()
            sw.dim(f"{plugin.distribution} {plugin.version}")
            if plugin.has_settings:
                of = f"of {plugin.name}"
                sw.button("Settings", lambda: edit_settings(plugin.name), look=sw.SMALL, of=of)
        _show_needs(_plugin_terms(plugin), plugin.secrets)
        if skill is not None:
            sw.dim(skill.description)
            _show_schema("Parameters", skill.parameters)
        if plugin.options is not None:
            sw.dim(f"Default model: {plugin.default_model}")
            _show_schema("Options", plugin.options)


def _show_schema(title: str, schema: Mapping[str, Any]) -> None:
    with ui.expansion(title).props("dense").classes("sw-schema"):
        sw.text(jsontext.indented(dict(schema)), "sw-mono sw-pre")


async def show_entries(plugin: str) -> None:
    """Show the entries of a distribution in a dialog, until it is closed."""
    wallets = await api().wallets.list()
    async with show_dialog(f"Entries of {plugin}", wide=True):
        await _Entries(plugin, wallets).load()


class _Entries:
    def __init__(self, plugin: str, wallets: tuple[Wallet, ...]) -> None:
        self._plugin = plugin
        self._names = {each.id: each.name for each in wallets}
        sw.dim(
            "Its plugins store these entries for a wallet, unencrypted. Delete one only if you know"
            " which action it keeps the plugin from repeating."
        )
        first = next(iter(self._names), None)
        self._wallet = sw.choice("For wallet", self._names, first, testid="entries-wallet")
        self._prefix = ui.input("Key begins with").props("outlined dense debounce=300")
        self._list = NewestFirst[PluginEntry](
            "entry",
            self._entry,
            lambda last: self._fetch_page(last.key),
            LIMIT,
            key=lambda entry: entry.key,
            none=f"{plugin} stores no such entry for this wallet.",
            testid="entries",
            plural="entries",
            more="Load more",
        )
        for each in (self._wallet, self._prefix):
            each.on_value_change(self.load)

    async def load(self) -> None:
        """Show the first page of entries."""
        self._list.clear()
        if self._wallet.value is None:
            self._list.none = "There is no wallet yet."
            self._list.show(())
            return
        try:
            asked = self._wallet.value, self._prefix.value
            found = await self._fetch_page()
            # Another choice was made meanwhile.
            if asked == (self._wallet.value, self._prefix.value):
                self._list.show(found)
        except SolwardError as error:
            sw.notify_error(error)

    async def _fetch_page(self, after: str | None = None) -> Sequence[PluginEntry]:
        return await api().plugin_state.entries(
            self._wallet.value,
            self._plugin,
            prefix=self._prefix.value or "",
            after=after,
            limit=LIMIT,
        )

    def _entry(self, entry: PluginEntry) -> ui.element:
        key = entry.key
        with ui.element("li") as item:
            with sw.row():
                sw.text(key, "sw-mono sw-strong")
                sw.dim(f"version {entry.version}, {day(entry.changed_at)}")
                if entry.status is not None:
                    sw.dim(f"its transaction is {entry.status}")
            with sw.row("sw-nowrap"):
                sw.text(jsontext.dumps(entry.value), "sw-mono sw-text sw-grow")
                sw.button(
                    "Delete", lambda: self._delete(key), look=sw.SMALL, needs=sw.POLICY, of=key
                )
        return item

    async def _delete(self, key: str) -> None:
        wallet = self._wallet.value
        details = [
            f"{self._plugin} stores the entry for the wallet {self._names[wallet]}.",
            "Without the entry the plugin may repeat an action, such as pay a second time. The"
            " audit log records the deletion, but not the entry's value.",
        ]
        if await confirmed(f"Delete the entry {key}?", details, "Delete"):
            answer = await api().plugin_state.delete(wallet, self._plugin, key=key)
            said = "is deleted" if answer.deleted else "was already deleted"
            ui.notify(f"{key} {said}", type="positive" if answer.deleted else "info")
            await self.load()


def form_schema(schema: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the form. Each setting may be left out. Secrets have no bounds, because
    an error of the form would quote the value."""
    needed = schema.get("required", ())
    properties = {}
    for name, each in schema.get("properties", {}).items():
        field = dict(each)
        if name in secrets:
            field = {key: each[key] for key in _TOLD if key in each}
            field |= {"type": "string", "writeOnly": True}
        if name in needed and "default" not in each:
            # It goes first, because a long text of the plugin would have it cut off.
            told = f"The skill does nothing without this setting. {each.get('description', '')}"
            field["description"] = told.strip()
        properties[name] = field
    return {"type": "object", "properties": properties, "additionalProperties": False}


def changes(found: SkillSettings, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes from stored to typed values: values to set, and None for settings to
    unset. An empty field of a secret changes nothing.

    Args:
        found: the answer of `GET /plugins/skills/:skill/settings`.
    """
    declared = found.schema.get("properties", {})
    values: dict[str, Any] = {}
    for each in found.settings:
        name = each.name
        if name not in declared:
            continue
        if each.secret:
            if typed.get(name):
                values[name] = typed[name]
        elif name not in typed:
            if each.set:
                values[name] = None
        elif each.set:
            if not is_same(typed[name], each.value):
                values[name] = typed[name]
        elif "default" not in declared[name] or not is_same(typed[name], declared[name]["default"]):
            values[name] = typed[name]
    return values


async def edit_settings(skill: str) -> None:
    """Show the settings of a skill in a dialog until they are saved or it is closed."""
    found = await api().plugin_state.settings(skill)
    secrets = [each.name for each in found.settings if each.secret]
    public = {each.name: each.value for each in found.settings if each.set and not each.secret}

    async def unset(name: str) -> None:
        nonlocal found
        details = ["The skill then runs without this setting, and fails if it needs it."]
        if await confirmed(f"Unset {name} of {skill}?", details, "Unset"):
            await api().plugin_state.unset(skill, name)
            found = await api().plugin_state.settings(skill)
            states.show(found)

    async def save() -> None:
        try:
            wanted = changes(found, form.values())
        except FormError:
            return
        # Each value is sent even if the service refuses another one.
        state, errors = api().plugin_state, Errors()
        for name, value in wanted.items():
            try:
                if value is None:
                    await state.unset(skill, name)
                else:
                    await state.set(skill, name, value)
            except SolwardError as error:
                errors[(name,)] = str(error)
        if errors:
            form.show_errors(errors)
            return
        said = f"{len(wanted)} settings of {skill} changed" if wanted else "Nothing was changed"
        ui.notify(said, type="positive" if wanted else "info")
        dialog.close()

    with titled_dialog(f"Settings of {skill}", wide=True) as dialog:
        sw.dim("Changes apply from the skill's next call on.")
        states = sw.LiveContent[SkillSettings](lambda stored: _states(stored, unset), "sw-stack")
        states.show(found)
        form = Form(form_schema(found.schema, secrets), public)
        with sw.row("sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            sw.button("Save", save, look=sw.PRIMARY, needs=sw.POLICY, testid="save-settings")
    await result_of(dialog)


def _states(found: SkillSettings, unset: Callable[[str], Awaitable[None]]) -> None:
    """Show the settings outside the form: secrets, and set values that are not declared."""
    declared = found.schema.get("properties", {})
    for each in found.settings:
        name, is_set, is_gone = each.name, each.set, each.name not in declared
        if not each.secret and not is_gone:
            continue
        with sw.row():
            sw.text(name, "sw-mono sw-strong")
            sw.tag("not declared any more" if is_gone else "secret")
            sw.dim("set; a new value replaces it" if is_set else "not set")
            if is_set:
                sw.button("Unset", partial(unset, name), look=sw.FLAT, needs=sw.POLICY, of=name)
