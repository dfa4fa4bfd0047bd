"""The settings of a plugin's skill, in a form of the schema that it declares.

A secret is written and never shown: its field begins empty, and what is typed replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, titled
from solward_dashboard.forms.fields import same
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.notices import notify_error

_TOLD = ("title", "description")


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


def changes(found: Mapping[str, Any], typed: Mapping[str, Any]) -> Changes:
    """What the typed values change of the stored ones; a secret that is left empty stays.

    Args:
        found: the answer of `GET /plugins/skills/:skill/settings`.
    """
    declared = found["schema"].get("properties", {})
    values, unset = {}, []
    for each in found["settings"]:
        name = each["name"]
        if name not in declared:
            continue
        if each["secret"]:
            if typed.get(name):
                values[name] = typed[name]
        elif name not in typed:
            if each["set"]:
                unset.append(name)
        elif each["set"]:
            if not same(typed[name], each["value"]):
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
    def __init__(self, skill: str, found: Mapping[str, Any], dialog: ui.dialog) -> None:
        self._skill = skill
        self._found = found
        self._dialog = dialog
        secrets = [each["name"] for each in found["settings"] if each["secret"]]
        public = {
            each["name"]: each["value"]
            for each in found["settings"]
            if each["set"] and not each["secret"]
        }
        ui.label("In force from the skill's next call on.").classes("sw-dim")
        self._states = ui.element("div").classes("sw-stack")
        self._form: Form = schema_form(form_schema(found["schema"], secrets), public)
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
            self._button = ui.button("Save", on_click=self._save)
            self._button.classes("sw-needs-policy")
            self._button.props('no-caps unelevated data-testid="save-settings"')
        self._show_states()

    def _show_states(self) -> None:
        declared = self._found["schema"].get("properties", {})
        self._states.clear()
        with self._states:
            for each in self._found["settings"]:
                gone = each["name"] not in declared
                if not each["secret"] and not gone:
                    continue
                with ui.element("div").classes("sw-row"):
                    ui.label(each["name"]).classes("sw-mono sw-strong")
                    text = "not declared any more" if gone else "secret"
                    ui.badge(text).props("outline").classes("sw-tag")
                    ui.label(
                        "set; what is typed replaces it" if each["set"] else "not set"
                    ).classes("sw-dim")
                    if each["set"]:
                        unset = ui.button("Unset", color=None).props("flat dense no-caps")
                        unset.classes("sw-needs-policy")
                        unset.props["aria-label"] = f"Unset {each['name']}"
                        unset.on_click(lambda name=each["name"]: self._unset(name))

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
