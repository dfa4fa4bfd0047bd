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
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, titled
from solward_dashboard.forms.form import Form, FormError, read_all
from solward_dashboard.grants import asset_name, leaving_rows, most_text
from solward_dashboard.pages.agents import fields
from solward_dashboard.pages.agents.strategy_editor import (
    StrategyEditor,
    changes,
    reviewed,
    show_earlier,
)

_NEW = ""
_LONGEST_COPIED = 95
_MOST_EARLIER = 50

_NOTHING = ""


async def create_agent(copied: Agent | None = None) -> None:
    """The dialog that creates an agent; returns when it is closed.

    Args:
        copied: an agent whose fields and grants the new one begins with.
    """
    providers, wallets = await _providers(), await api().wallets.list()
    limits = await _limits(wallets) if copied is None else copied.guardrails
    templates = () if copied is not None else await api().agents.templates()
    grants = None if copied is None else await api().policy.of(f"agent:{copied.id}")

    async def create() -> str | None:
        values = forms.read()
        if values is None or not await forms.agreed(values):
            return None
        if grants is not None and grants.grants is not None:
            values["grants"] = fields.grants_to_copy(grants.grants)
        agent = await api().agents.create(**fields.create_parameters(values, forms.wallet))
        return await _started(agent) if start.value else f"{agent.name} is made"

    title = "New agent" if copied is None else f"Copy of {copied.name}"
    with titled(title, wide=True) as dialog:
        forms = _Forms(providers, copied, limits, wallets, templates)
        if grants is not None:
            _show_copied(grants)
        start = ui.switch("Start it at once", value=copied is None)
        sw.marked(start, "start-at-once")
        _buttons(dialog, forms, "Create", create)
    await result_of(dialog)


async def change_agent(agent: Agent) -> None:
    """The dialog that changes an agent; returns when it is closed."""
    providers = await _providers()
    history = await api().audit(types=["agent:changed"], agent_id=agent.id, limit=_MOST_EARLIER)

    async def change() -> str | None:
        values = forms.read()
        if values is None:
            return None
        # What is replaced is what is stored now, whoever changed it since.
        stored = await api().agents.get(agent.id)
        found = changes(stored, values)
        if not found and stored.strategy == values["strategy"]:
            forms.show_message("Nothing is changed.")
            return None
        is_other = stored.strategy != agent.strategy
        if not await reviewed(
            agent.name, found, stored.strategy, values["strategy"], is_other=is_other
        ):
            return None
        await api().agents.change(agent.id, **fields.change_parameters(values))
        return "Changed; it goes by it from its next cycle"

    with titled(f"Change {agent.name}", wide=True) as dialog:
        forms = _Forms(providers, agent, agent.guardrails, history=history.entries)
        _buttons(dialog, forms, "Save", change)
    await result_of(dialog)


def _buttons(
    dialog: ui.dialog, forms: _Forms, verb: str, send: Callable[[], Awaitable[str | None]]
) -> None:
    """Cancel, and a button that closes the dialog once `send` says what was done."""

    async def submit() -> None:
        try:
            with sw.disabled(save):
                said = await send()
        except SolwardError as error:
            forms.show_message(str(error))
            return
        if said is not None:
            forms.editor.release()
            dialog.close()
            ui.notify(said, type="positive")

    async def leave() -> None:
        details = ["The strategy that you wrote is lost."]
        if not forms.editor.is_changed or await confirmed(
            "Leave without saving?", details, "Leave"
        ):
            forms.editor.release()
            dialog.close()

    dialog.props("no-backdrop-dismiss")
    with sw.row("sw-end"):
        sw.button("Cancel", leave, look="flat no-caps")
        save = sw.button(verb, submit, look=sw.PRIMARY, testid=verb.lower())


def _show_copied(grants: PrincipalGrants) -> None:
    with sw.marked(sw.stack("sw-outcome"), "copied-grants"):
        if grants.grants is None:
            sw.text(
                "The agent that is copied has no grants, so the copy has none: it acts within its"
                " guardrails alone."
            )
            return
        sw.heading("Grants that are copied", 3)
        for each in grants.sentences:
            sw.text(each)


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
        self._wallet: ui.select | None = None
        self._picker: TemplatePicker | None = None
        with sw.stack("sw-form"):
            if templates:
                self._picker = TemplatePicker(templates, self._fill_in)
            self._name = Form(fields.NAME, _named(agent, is_copy=wallets is not None))
            if wallets is not None:
                choices = {_NEW: "A new wallet of its own"}
                choices |= {each.id: each.name for each in wallets}
                self._wallet = sw.field_choice("Wallet", choices, _NEW, testid="wallet")
            self._add_provider(agent)
            self._about = sw.dim().props("aria-live=polite")
            self.editor = StrategyEditor("" if agent is None else agent.strategy)
            if agent is not None:
                show_earlier(self.editor, history, agent.strategy)
            self._bounds_place = sw.stack("sw-form")
            with _expansion("What the model is asked with") as self._asked_with:
                self._place = sw.stack("sw-form")
            with _expansion("What the model may cost") as self._cost:
                self._budget = Form(fields.BUDGET, None if agent is None else agent.llm_budget)
            with _expansion("What it may do") as may:
                self._grants = Form(fields.GRANTS if agent is None else {})
            may.set_visibility(agent is None)
            self._error = sw.text("", "sw-error").props("role=alert")
        self.show_message("")
        self._show_bounds(None if agent is None else agent.loop_interval_ms, limits)
        self._show_provider(None if agent is None else agent.llm_options)

    @property
    def wallet(self) -> str | None:
        """The chosen wallet's id; None for a new one."""
        return None if self._wallet is None else str(self._wallet.value or "") or None

    def show_message(self, said: str) -> None:
        """Show what concerns the whole form, such as the service's error; nothing where empty."""
        self._error.set_text(said)
        self._error.set_visibility(bool(said))

    def read(self) -> dict[str, Any] | None:
        """The values; None where one does not fit, which its field shows."""
        self.show_message("")
        model, strategy = (self._model.value or "").strip(), self.editor.read()
        self._model.error = None if model else "is required"
        try:
            name, bounds, options, budget, grants = read_all(
                self._name, self._bounds, self._options, self._budget, self._grants
            )
        except FormError:
            for expansion, form in ((self._asked_with, self._options), (self._cost, self._budget)):
                if form.unchecked() is None:
                    expansion.open()
            strategy = None
        if not model or strategy is None:
            self.show_message("Something above does not fit; it is told at its field.")
            return None
        interval = fields.milliseconds(bounds["seconds"])
        if interval is None:
            self.show_message("Seconds between cycles: at most 3 decimals.")
            return None
        return {
            "name": name["name"],
            "strategy": strategy,
            "milliseconds": interval,
            "provider": self._provider.value,
            "model": model,
            "options": options,
            "budget": budget,
            "guardrails": bounds["guardrails"],
            # Without any it acts by its limits alone, or by its template's.
            "grants": grants.get("grants"),
        }

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
        known: dict[str, Any] = {"guardrails": limits}
        if milliseconds is not None:
            known["seconds"] = fields.seconds_text(milliseconds)
        self._bounds_place.clear()
        with self._bounds_place:
            self._bounds = Form(fields.BOUNDS, known)

    def _add_provider(self, agent: Agent | None) -> None:
        choices = fields.provider_choices(self._providers)
        chosen = fields.first_choice(self._providers) if agent is None else agent.llm_provider
        if agent is not None and agent.llm_provider not in choices:
            choices[agent.llm_provider] = f"{agent.llm_provider} (not installed)"
        with sw.stack("sw-pair"):
            self._provider = sw.field_choice("Provider", choices, chosen, testid="provider")
            self._model = ui.input("Model", value="" if agent is None else agent.llm_model)
            self._model.props("outlined dense hide-bottom-space maxlength=200 autocomplete=off")
            self._model.without_auto_validation().classes("sw-field")
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
            self._options = Form((provider.options if provider else None) or {}, options)
        self._asked_with.set_visibility(not self._options.empty)


def _expansion(title: str) -> ui.expansion:
    return ui.expansion(title).props("dense").classes("sw-expansion")


def _named(agent: Agent | None, *, is_copy: bool) -> dict[str, str] | None:
    if agent is None:
        return None
    return {"name": f"{agent.name[:_LONGEST_COPIED]} copy" if is_copy else agent.name}


async def _providers() -> dict[str, Plugin]:
    loaded = (await api().plugins()).plugins
    return {each.name: each for each in loaded if each.kind == "provider"}


async def _limits(wallets: tuple[Wallet, ...]) -> Mapping[str, Any]:
    """The service's limits, read from any wallet; without one from its settings."""
    if wallets:
        with contextlib.suppress(NotFoundError):
            return fields.limits_now(await api().wallets.limits(wallets[0].id))
    return fields.limits_set({each.name: each.value for each in await api().settings()})


async def _started(agent: Agent) -> str:
    try:
        await api().agents.start(agent.id)
    except SolwardError as error:
        return f"{agent.name} is made, but does not run: {error}"
    return f"{agent.name} is made and runs"


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
        self._select = sw.field_choice("Start from", choices, _NOTHING, testid="template")
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
        sw.heading("What an agent of it can move out of its wallet in a day, at most", 3)
        bounded = {
            asset: each for asset, each in can_leave["assets"].items() if each["most"] != "0"
        }
        if not bounded:
            ui.label("Nothing: it signs no transaction.").classes("sw-text")
        leaving_rows(bounded)
        for each in sentences:
            ui.label(each).classes("sw-dim sw-text")
