"""Dialogs that create an agent, as a copy or from a template too, or change one."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from solward.client import (
    Agent,
    AgentTemplate,
    AuditEntry,
    NotFoundError,
    Plugin,
    PrincipalGrants,
    Wallet,
)
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, heading, notify_error, result_of, titled
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.grants import asset_name, most_text
from solward_dashboard.pages.agents import fields
from solward_dashboard.pages.agents.strategy_editor import (
    EarlierStrategies,
    StrategyEditor,
    changes,
    reviewed,
)

_NEW = ""
_LONGEST_COPIED = 95
_MOST_EARLIER = 50

_NOTHING = ""


async def create_agent(
    page: ui.element, refresh: Callable[[], Awaitable[None]], copied: Agent | None = None
) -> None:
    """The dialog that creates an agent; returns when it is closed.

    Args:
        page: an element that outlives the button that was pressed.
        refresh: called when the agent is created.
        copied: an agent whose fields and grants the new one begins with.
    """
    grants: PrincipalGrants | None = None
    try:
        providers, wallets = await _providers(), await api().wallets.list()
        limits = await _limits(wallets) if copied is None else copied.guardrails
        templates = () if copied is not None else await api().agents.templates()
        if copied is not None:
            grants = await api().policy.of(f"agent:{copied.id}")
    except SolwardError as error:
        notify_error(error)
        return

    title = "New agent" if copied is None else f"Copy of {copied.name}"
    with page, titled(title, wide=True) as dialog:
        dialog.props("no-backdrop-dismiss")
        forms = _Forms(providers, copied, limits, wallets, templates)
        if grants is not None:
            _show_copied(grants)
        start = ui.switch("Start it at once", value=copied is None)
        start.props('data-testid="start-at-once"')
        with ui.element("div").classes("sw-row sw-end"):
            cancel = ui.button("Cancel").props("flat no-caps")
            make = ui.button("Create").props('no-caps unelevated data-testid="create"')

    async def create() -> None:
        values = forms.read()
        try:
            if values is None or not await forms.agreed(values):
                return
        except SolwardError as error:
            forms.show_message(str(error))
            return
        if grants is not None and grants.grants is not None:
            values["grants"] = fields.grants_to_copy(grants.grants)
        make.disable()
        try:
            agent = await api().agents.create(**fields.create_parameters(values, forms.wallet))
        except SolwardError as error:
            forms.show_message(str(error))
            return
        finally:
            make.enable()
        forms.editor.release()
        dialog.close()
        with page:
            await _start(agent) if start.value else ui.notify(f"{agent.name} is made", type="info")
        await refresh()

    cancel.on_click(lambda: _leave(dialog, forms.editor))
    make.on_click(create)
    await result_of(dialog)


async def change_agent(
    agent: Agent, page: ui.element, refresh: Callable[[], Awaitable[None]]
) -> None:
    """The dialog that changes an agent; returns when it is closed."""
    try:
        providers = await _providers()
        history = await api().audit(types=["agent:changed"], agent_id=agent.id, limit=_MOST_EARLIER)
    except SolwardError as error:
        notify_error(error)
        return

    with page, titled(f"Change {agent.name}", wide=True) as dialog:
        dialog.props("no-backdrop-dismiss")
        forms = _Forms(providers, agent, agent.guardrails, history=history.entries)
        with ui.element("div").classes("sw-row sw-end"):
            cancel = ui.button("Cancel").props("flat no-caps")
            save = ui.button("Save").props('no-caps unelevated data-testid="save"')

    async def change() -> None:
        values = forms.read()
        if values is None:
            return
        save.disable()
        try:
            # What is replaced is what is stored now, whoever changed it since.
            stored = await api().agents.get(agent.id)
            found = changes(stored, values)
            if not found and stored.strategy == values["strategy"]:
                forms.show_message("Nothing is changed.")
                return
            is_other = stored.strategy != agent.strategy
            with page:
                agreed = await reviewed(
                    agent.name, found, stored.strategy, values["strategy"], is_other=is_other
                )
            if not agreed:
                return
            await api().agents.change(agent.id, **fields.change_parameters(values))
        except SolwardError as error:
            forms.show_message(str(error))
            return
        finally:
            save.enable()
        forms.editor.release()
        dialog.close()
        with page:
            ui.notify("Changed; it goes by it from its next cycle", type="positive")
        await refresh()

    cancel.on_click(lambda: _leave(dialog, forms.editor))
    save.on_click(change)
    await result_of(dialog)


async def _leave(dialog: ui.dialog, editor: StrategyEditor) -> None:
    """Close a dialog; a strategy that was not saved is given up only when the user says so."""
    if editor.is_changed and not await confirmed(
        "Leave without saving?", ["The strategy that you wrote is lost."], "Leave"
    ):
        return
    editor.release()
    dialog.close()


def _show_copied(grants: PrincipalGrants) -> None:
    with ui.element("div").classes("sw-outcome").props('data-testid="copied-grants"'):
        if grants.grants is None:
            ui.label(
                "The agent that is copied has no grants, so the copy has none: it acts within its"
                " guardrails alone."
            ).classes("sw-text")
            return
        heading("Grants that are copied", 3)
        for each in grants.sentences:
            ui.label(each).classes("sw-text")


class _Forms:
    """The forms of a dialog; options and model follow the chosen provider.

    Args:
        agent: whose fields they begin with; None for none.
        wallets: to choose from for a new agent; None where one is changed.
        templates: to start a new agent from.
        history: entries of the audit log that changed the agent, the newest first.
    """

    def __init__(
        self,
        providers: Mapping[str, Plugin],
        agent: Agent | None,
        limits: Mapping[str, Any],
        wallets: tuple[Wallet, ...] | None = None,
        templates: Sequence[AgentTemplate] = (),
        history: Sequence[AuditEntry] = (),
    ) -> None:
        self._providers = providers
        self._agent = agent
        self._options: Form | None = None
        self._wallet: ui.select | None = None
        self._picker: TemplatePicker | None = None
        with ui.element("div").classes("sw-form"):
            if templates:
                self._picker = TemplatePicker(templates, self._fill_in)
            self._name = schema_form(fields.NAME, _named(agent, is_copy=wallets is not None))
            if wallets is not None:
                self._wallet = _wallets(wallets)
            chosen = fields.first_choice(providers) if agent is None else agent.llm_provider
            self._add_provider(chosen, agent)
            self._about = ui.label().classes("sw-dim sw-text").props("aria-live=polite")
            self.editor = StrategyEditor("" if agent is None else agent.strategy)
            if agent is not None:
                EarlierStrategies(self.editor, history, agent.strategy)
            self._interval_place = ui.element("div").classes("sw-form")
            with ui.element("fieldset").classes("sw-fieldset"):
                with ui.element("legend"):
                    ui.label("Guardrails")
                ui.label(
                    "Held by the service for every transaction of the agent, beside its own limits."
                ).classes("sw-dim")
                self._rails_place = ui.element("div").classes("sw-form")
            with ui.expansion("What the model is asked with").props("dense") as self._model_options:
                self._model_options.classes("sw-expansion")
                self._place = ui.element("div").classes("sw-form")
            with ui.expansion("What the model may cost").props("dense") as self._cost:
                self._cost.classes("sw-expansion")
                self._budget = schema_form(
                    fields.BUDGET, None if agent is None else agent.llm_budget
                )
            self._grants: Form | None = None
            if agent is None:
                with ui.expansion("What it may do").props("dense").classes("sw-expansion"):
                    self._grants = schema_form(fields.GRANTS)
            self._error = ui.label().classes("sw-error").props("role=alert")
        self._error.set_visibility(False)
        self._show_bounds(None if agent is None else agent.loop_interval_ms, limits)
        self._show_provider(None if agent is None else agent.llm_options)

    @property
    def wallet(self) -> str | None:
        """The chosen wallet's id; None for a new one."""
        return None if self._wallet is None else str(self._wallet.value or "") or None

    def show_message(self, text: str) -> None:
        """Show what concerns the whole form, such as the service's error; nothing where empty."""
        self._error.set_text(text)
        self._error.set_visibility(bool(text))

    def read(self) -> dict[str, Any] | None:
        """The values; None where one does not fit, which its field shows."""
        self.show_message("")
        read: dict[str, dict[str, Any] | None] = {
            "name": _values(self._name),
            "interval": _values(self._interval),
            "guardrails": _values(self._rails),
            "grants": {} if self._grants is None else _values(self._grants),
            "options": {} if self._options is None else _values(self._options),
            # What is not shown stays as it is.
            "budget": _values(self._budget) if self._cost.visible else self._budget_now(),
        }
        if read["options"] is None:
            self._model_options.open()
        if read["budget"] is None:
            self._cost.open()
        model = (self._model.value or "").strip()
        self._model.error = None if model else "is required"
        found = {name: each for name, each in read.items() if each is not None}
        strategy = self.editor.read()
        if not model or strategy is None or len(found) < len(read):
            self.show_message("Something above does not fit; it is told at its field.")
            return None
        interval = fields.milliseconds(found["interval"]["seconds"])
        if interval is None:
            self.show_message("Seconds between cycles: at most 3 decimals.")
            return None
        return {
            "name": found["name"]["name"],
            "strategy": strategy,
            "milliseconds": interval,
            "provider": self._provider.value,
            "model": model,
            "options": found["options"],
            "budget": found["budget"],
            "guardrails": found["guardrails"],
            # Without any it acts by its limits alone, or by its template's.
            "grants": found["grants"].get("grants"),
        }

    def _budget_now(self) -> dict[str, Any]:
        return {} if self._agent is None else dict(self._agent.llm_budget)

    async def agreed(self, values: dict[str, Any]) -> bool:
        """Whether the user agrees to what can leave by an agent of the chosen template; puts the
        template's own values among `values`. Grants of the form replace the template's."""
        template = None if self._picker is None else self._picker.chosen
        if template is None:
            return True
        values["template"] = template.name
        if values["strategy"] == template.strategy:
            values["strategy"] = None
        if values["grants"] is not None:
            return True
        leaving = [
            f"{asset_name(asset)}: {most_text(asset, each)}"
            for asset, each in template.can_leave["assets"].items()
            if each["most"] != "0"
        ]
        details = ["What it can move out of its wallet in a day, at most:"]
        details += leaving or ["Nothing: it signs no transaction."]
        return await confirmed(f"Create {values['name']}?", details, "Create")

    def _fill_in(self, before: AgentTemplate | None, template: AgentTemplate) -> None:
        """Show what a template gives; a strategy that the user wrote stays."""
        if not self.editor.text.strip() or (before and self.editor.text == before.strategy):
            self.editor.put(template.strategy)
        self._show_bounds(template.loop_interval_ms, template.guardrails)

    def _show_bounds(self, milliseconds: int | None, limits: Mapping[str, Any]) -> None:
        self._interval_place.clear()
        with self._interval_place:
            seconds = None if milliseconds is None else fields.seconds_text(milliseconds)
            self._interval = schema_form(
                fields.INTERVAL, None if seconds is None else {"seconds": seconds}
            )
        self._rails_place.clear()
        with self._rails_place:
            self._rails = schema_form(fields.GUARDRAILS, limits)

    def _add_provider(self, chosen: str | None, agent: Agent | None) -> None:
        choices = fields.provider_choices(self._providers)
        if agent is not None and agent.llm_provider not in choices:
            choices[agent.llm_provider] = f"{agent.llm_provider} (not installed)"
        with ui.element("div").classes("sw-pair"):
            self._provider = ui.select(choices, value=chosen, label="Provider")
            self._provider.props('outlined dense data-testid="provider"').classes("sw-field")
            self._model = ui.input("Model").without_auto_validation()
            self._model.props("outlined dense hide-bottom-space maxlength=200 autocomplete=off")
            self._model.classes("sw-field")
        if agent is not None:
            self._model.set_value(agent.llm_model)
        self._provider.on_value_change(lambda: self._show_provider(None))

    def _show_provider(self, options: Mapping[str, Any] | None) -> None:
        """Show the model, options and costs of the chosen provider."""
        provider = self._providers.get(self._provider.value or "")
        if self._agent is None or options is None:
            self._model.set_value(provider.default_model if provider else "")
        self._about.set_text(fields.about(provider) if provider else "")
        self._about.set_visibility(bool(self._about.text))
        self._cost.set_visibility(provider is None or provider.is_llm)
        self._place.clear()
        with self._place:
            schema = provider.options if provider else None
            self._options = None if not schema else schema_form(schema, options)
        self._model_options.set_visibility(self._options is not None and not self._options.empty)


def _named(agent: Agent | None, *, is_copy: bool) -> dict[str, str] | None:
    if agent is None:
        return None
    return {"name": f"{agent.name[:_LONGEST_COPIED]} copy" if is_copy else agent.name}


def _values(form: Form) -> dict[str, Any] | None:
    try:
        return form.values()
    except FormError:
        return None


def _wallets(wallets: tuple[Wallet, ...]) -> ui.select:
    choices = {_NEW: "A new wallet of its own"} | {each.id: each.name for each in wallets}
    select = ui.select(choices, value=_NEW, label="Wallet", with_input=len(wallets) > 8)
    select.props('outlined dense data-testid="wallet"').classes("sw-field")
    return select


async def _providers() -> dict[str, Plugin]:
    loaded = (await api().plugins()).plugins
    return {each.name: each for each in loaded if each.kind == "provider"}


async def _limits(wallets: tuple[Wallet, ...]) -> Mapping[str, Any]:
    """The service's limits, read from any wallet; without one from its settings."""
    if wallets:
        with contextlib.suppress(NotFoundError):
            return fields.limits_now(await api().wallets.limits(wallets[0].id))
    return fields.limits_set({each.name: each.value for each in await api().settings()})


async def _start(agent: Agent) -> None:
    try:
        await api().agents.start(agent.id)
    except SolwardError as error:
        notify_error(f"{agent.name} is made, but does not run: {error}")
    else:
        ui.notify(f"{agent.name} is made and runs", type="positive")


class TemplatePicker:
    """A choice of templates; shows what the chosen one is.

    Args:
        fill_in: called with the template that was chosen before and the one that is.
    """

    def __init__(
        self,
        templates: Sequence[AgentTemplate],
        fill_in: Callable[[AgentTemplate | None, AgentTemplate], None],
    ) -> None:
        self._templates = {each.name: each for each in templates}
        self._fill_in = fill_in
        self.chosen: AgentTemplate | None = None
        choices = {_NOTHING: "Nothing: write it yourself"}
        choices |= {each.name: each.title for each in templates}
        self._select = ui.select(choices, value=_NOTHING, label="Start from")
        self._select.props('outlined dense data-testid="template"').classes("sw-field")
        self._place = ui.element("div").classes("sw-form").props("aria-live=polite")
        self._select.on_value_change(self._show)

    def _show(self) -> None:
        before, self.chosen = self.chosen, self._templates.get(str(self._select.value))
        self._place.clear()
        if self.chosen is None:
            return
        self._fill_in(before, self.chosen)
        with self._place:
            ui.label(self.chosen.summary).classes("sw-dim sw-text")
            show_leaving(self.chosen.can_leave, self.chosen.sentences)


def show_leaving(can_leave: Mapping[str, Any], sentences: Sequence[str]) -> None:
    """The most that can leave by an agent in a day, and what it may do."""
    with ui.element("div").classes("sw-outcome").props('data-testid="template-leaving"'):
        heading("What an agent of it can move out of its wallet in a day, at most", 3)
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
