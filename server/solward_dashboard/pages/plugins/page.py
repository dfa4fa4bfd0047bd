"""The plugins page: loaded plugins with their schemas, what is wrong with plugins, what a
distribution keeps for a wallet, and the settings of a skill, in a form of the schema that it
declares.

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
from solward.resources.plugin_state import PluginEntry, SkillSettings
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward.types.manifest import Terms
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, heading, notify_error, result_of, titled
from solward_dashboard.forms.fields import same
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.frame import Poll, frame
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
            await edit(skill)

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
        self._shown: list[PluginEntry] = []
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
        after = self._shown[-1].key if self._shown else None
        try:
            page = await api().plugin_state.entries(
                wallet, self._plugin, prefix=prefix, after=after, limit=LIMIT
            )
        except SolwardError as error:
            notify_error(error)
            return
        # Another choice was made meanwhile.
        if (wallet, prefix) != (self._wallet.value, self._prefix.value or ""):
            return
        self._shown += page
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

    def _entry(self, entry: PluginEntry) -> None:
        key = entry.key
        with ui.element("li"):
            with ui.element("div").classes("sw-row"):
                ui.label(key).classes("sw-mono sw-strong")
                ui.label(f"version {entry.version}, {day(entry.changed_at)}").classes("sw-dim")
                if entry.status is not None:
                    ui.label(f"with a transaction that is {entry.status}").classes("sw-dim")
            with ui.element("div").classes("sw-row sw-nowrap"):
                ui.label(jsontext.dumps(entry.value)).classes("sw-mono sw-text sw-grow")
                delete = ui.button("Delete", color=None).classes("sw-needs-policy")
                delete.props('outline dense no-caps padding="2px 10px"')
                delete.props["aria-label"] = f"Delete {key}"
                delete.on_click(lambda: self._delete(entry))

    async def _delete(self, entry: PluginEntry) -> None:
        wallet, key = self._wallet.value, entry.key
        details = [
            f"Of {self._plugin}, for the wallet {self._names[wallet]}.",
            "What it made the plugin leave undone, the plugin may do again, such as pay a second"
            " time. The audit log says that it was deleted, and not what it was.",
        ]
        if not await confirmed(f"Delete the entry {key}?", details, "Delete"):
            return
        try:
            answer = await api().plugin_state.delete(wallet, self._plugin, key=key)
        except SolwardError as error:
            notify_error(error)
            return
        ui.notify(
            f"{key} is deleted" if answer.deleted else f"{key} was not there any more",
            type="positive" if answer.deleted else "info",
        )
        await self.load()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a form's values change: settings to set, by name, and to unset."""

    values: Mapping[str, Any]
    unset: Sequence[str]


def form_schema(schema: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """The schema of the form: each setting may be left out, and no bound of a secret is in it,
    because an error of the form would quote the value."""
    needed = schema.get("required", ())
    properties = {}
    for name, each in schema.get("properties", {}).items():
        field = dict(each)
        if name in secrets:
            field = {key: each[key] for key in _TOLD if key in each}
            field |= {"type": "string", "writeOnly": True}
        if name in needed and "default" not in each:
            # First, so that no length of the plugin's own text has it cut off.
            told = f"The skill does nothing without it. {each.get('description', '')}"
            field["description"] = told.strip()
        properties[name] = field
    return {"type": "object", "properties": properties, "additionalProperties": False}


def changes(found: SkillSettings, typed: Mapping[str, Any]) -> Changes:
    """What the typed values change of the stored ones; a secret that is left empty stays.

    Args:
        found: the answer of `GET /plugins/skills/:skill/settings`.
    """
    declared = found.schema.get("properties", {})
    values, unset = {}, []
    for each in found.settings:
        name = each.name
        if name not in declared:
            continue
        if each.secret:
            if typed.get(name):
                values[name] = typed[name]
        elif name not in typed:
            if each.set:
                unset.append(name)
        elif each.set:
            if not same(typed[name], each.value):
                values[name] = typed[name]
        elif "default" not in declared[name] or not same(typed[name], declared[name]["default"]):
            values[name] = typed[name]
    return Changes(values, unset)


async def edit(skill: str) -> None:
    """Show the settings of a skill in a dialog, until they are saved or it is closed."""
    try:
        found = await api().plugin_state.settings(skill)
    except SolwardError as error:
        notify_error(error)
        return
    with titled(f"Settings of {skill}", wide=True) as dialog:
        _Settings(skill, found, dialog)
    await result_of(dialog)


class _Settings:
    def __init__(self, skill: str, found: SkillSettings, dialog: ui.dialog) -> None:
        self._skill = skill
        self._found = found
        self._dialog = dialog
        secrets = [each.name for each in found.settings if each.secret]
        public = {each.name: each.value for each in found.settings if each.set and not each.secret}
        ui.label("In force from the skill's next call on.").classes("sw-dim")
        self._states = ui.element("div").classes("sw-stack")
        self._form: Form = schema_form(form_schema(found.schema, secrets), public)
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            self._button = ui.button("Save", on_click=self._save)
            self._button.classes("sw-needs-policy")
            self._button.props('no-caps unelevated data-testid="save-settings"')
        self._show_states()

    def _show_states(self) -> None:
        declared = self._found.schema.get("properties", {})
        self._states.clear()
        with self._states:
            for each in self._found.settings:
                gone = each.name not in declared
                if not each.secret and not gone:
                    continue
                with ui.element("div").classes("sw-row"):
                    ui.label(each.name).classes("sw-mono sw-strong")
                    text = "not declared any more" if gone else "secret"
                    ui.badge(text).props("outline").classes("sw-tag")
                    ui.label("set; what is typed replaces it" if each.set else "not set").classes(
                        "sw-dim"
                    )
                    if each.set:
                        unset = ui.button("Unset", color=None).props("flat dense no-caps")
                        unset.classes("sw-needs-policy")
                        unset.props["aria-label"] = f"Unset {each.name}"
                        unset.on_click(lambda name=each.name: self._unset(name))

    async def _unset(self, name: str) -> None:
        details = ["The skill goes on without it; what it needs and has not is an error."]
        if not await confirmed(f"Unset {name} of {self._skill}?", details, "Unset"):
            return
        try:
            await api().plugin_state.unset(self._skill, name)
            self._found = await api().plugin_state.settings(self._skill)
        except SolwardError as error:
            self._form.show_error(str(error))
            return
        self._show_states()

    async def _save(self) -> None:
        try:
            wanted = changes(self._found, self._form.values())
        except FormError:
            return
        self._button.disable()
        errors: dict[tuple[str | int, ...], str] = {}
        state = api().plugin_state
        try:
            for name, value in wanted.values.items():
                try:
                    await state.set(self._skill, name, value)
                except SolwardError as error:
                    # One that does not fit does not keep the others back.
                    errors[(name,)] = str(error)
            for name in wanted.unset:
                try:
                    await state.unset(self._skill, name)
                except SolwardError as error:
                    errors[(name,)] = str(error)
        finally:
            self._button.enable()
        if errors:
            self._form.show_errors(errors)
            return
        count = len(wanted.values) + len(wanted.unset)
        ui.notify(
            f"{count} settings of {self._skill} changed" if count else "Nothing was changed",
            type="positive" if count else "info",
        )
        self._dialog.close()
