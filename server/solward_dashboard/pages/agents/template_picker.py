"""The choice of a template for a new agent: its parameters, and the most that can leave by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from solward.client import AgentTemplate, TemplatePreview
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.grants import asset_name, most_text

_NOTHING = ""


class TemplatePicker:
    """A choice of templates; what is chosen is filled in and shown.

    Args:
        filled: called with what a template comes to, whenever it is filled in anew.
    """

    def __init__(
        self, templates: Sequence[AgentTemplate], filled: Callable[[TemplatePreview], None]
    ) -> None:
        self._templates = {each.name: each for each in templates}
        self._filled = filled
        self._form: Form | None = None
        self._given: dict[str, Any] | None = None
        self.preview: TemplatePreview | None = None
        choices = {_NOTHING: "Nothing: write it yourself"}
        choices |= {each.name: each.title for each in templates}
        self._select = ui.select(choices, value=_NOTHING, label="Start from")
        self._select.props('outlined dense data-testid="template"').classes("sw-field")
        self._place = ui.element("div").classes("sw-form")
        self._select.on_value_change(self._show)

    @property
    def chosen(self) -> AgentTemplate | None:
        """The template that is chosen."""
        return self._templates.get(str(self._select.value or _NOTHING))

    @property
    def is_filled_in(self) -> bool:
        """Whether what was filled in is of the parameters that stand in the form now."""
        return self._given is not None and self._given == self.parameters()

    def parameters(self) -> dict[str, Any] | None:
        """The parameters; None where one does not fit, which its field shows."""
        try:
            return {} if self._form is None else self._form.values()
        except FormError:
            return None

    async def fill_in(self) -> bool:
        """Fill the chosen template in; whether its parameters fit."""
        template, values = self.chosen, self.parameters()
        if template is None or values is None:
            return False
        try:
            preview = await api().agents.preview(template.name, values)
        except SolwardError as error:
            if self._form is not None:
                self._form.show_error(str(error))
            return False
        self._filled(preview)
        self.preview, self._given = preview, values
        self._result.clear()
        with self._result:
            show_leaving(preview.can_leave, preview.sentences)
        return True

    async def _show(self) -> None:
        self._place.clear()
        self._form = self.preview = self._given = None
        template = self.chosen
        if template is None:
            return
        with self._place:
            ui.label(template.summary).classes("sw-dim sw-text")
            if template.missing_skills:
                missing = ", ".join(template.missing_skills)
                ui.label(f"It needs skills that are not loaded: {missing}.").classes("sw-bad")
            with ui.element("fieldset").classes("sw-fieldset"):
                with ui.element("legend"):
                    ui.label("Parameters")
                self._form = schema_form(template.parameters)
                if self._form.empty:
                    ui.label("It has none.").classes("sw-dim")
                else:
                    fill = ui.button("Fill in", color=None, on_click=self.fill_in)
                    fill.props('outline no-caps data-testid="fill-in"').classes("sw-start")
            self._result = ui.element("div").classes("sw-form").props("aria-live=polite")
        # Where every parameter has a default there is something to see at once.
        if not template.parameters["required"]:
            await self.fill_in()


def show_leaving(can_leave: Mapping[str, Any], sentences: Sequence[str]) -> None:
    """The most that can leave by an agent in a day, and what it may do."""
    with ui.element("div").classes("sw-outcome").props('data-testid="template-leaving"'):
        heading("What this agent can move out of its wallet in a day, at most", 3)
        bounded = {
            asset: each for asset, each in can_leave["assets"].items() if each["most"] != "0"
        }
        if not bounded:
            ui.label("Nothing: it signs no transaction.").classes("sw-text")
        for asset, each in bounded.items():
            with ui.element("div").classes("sw-row"):
                ui.label(asset_name(asset)).classes("sw-strong sw-mono")
                ui.space()
                known = each["most"] is not None
                ui.label(most_text(asset, each)).classes("sw-number" if known else "sw-bad sw-text")
        for each in sentences:
            ui.label(each).classes("sw-dim sw-text")
