"""Dialogs that create an agent or change one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from solward.client import Agent, NotFoundError, Plugin, Wallet
from solward.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, titled
from solward_dashboard.forms.form import Form, FormError, schema_form
from solward_dashboard.pages.agents import fields

_NEW = ""


async def create_agent(page: ui.element, refresh: Callable[[], Awaitable[None]]) -> None:
    """The dialog that creates an agent; returns when it is closed.

    Args:
        page: an element that outlives the button that was pressed.
        refresh: called when the agent is created.
    """
    try:
        providers, wallets = await _providers(), await api().wallets.list()
        limits = await _limits(wallets)
    except SolwardError as error:
        ui.notify(str(error), type="negative", multi_line=True)
        return

    with page, titled("New agent", wide=True) as dialog:
        dialog.props("persistent")
        forms = _Forms(providers, None, limits, wallets)
        start = ui.switch("Start it at once", value=True).props('data-testid="start-at-once"')
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            make = ui.button("Create").props('no-caps unelevated data-testid="create"')

    async def create() -> None:
        values = forms.read()
        if values is None:
            return
        make.disable()
        try:
            agent = await api().agents.create(**fields.create_parameters(values, forms.wallet))
        except SolwardError as error:
            forms.say(str(error))
            return
        finally:
            make.enable()
        dialog.close()
        with page:
            await _start(agent) if start.value else ui.notify(f"{agent.name} is made", type="info")
        await refresh()

    make.on_click(create)
    await result_of(dialog)


async def change_agent(
    agent: Agent, page: ui.element, refresh: Callable[[], Awaitable[None]]
) -> None:
    """The dialog that changes an agent; returns when it is closed."""
    try:
        providers = await _providers()
    except SolwardError as error:
        ui.notify(str(error), type="negative", multi_line=True)
        return

    with page, titled(f"Change {agent.name}", wide=True) as dialog:
        dialog.props("persistent")
        forms = _Forms(providers, agent, agent.guardrails)
        with ui.element("div").classes("sw-row sw-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            save = ui.button("Save").props('no-caps unelevated data-testid="save"')

    async def change() -> None:
        values = forms.read()
        if values is None:
            return
        save.disable()
        try:
            await api().agents.change(agent.id, **fields.change_parameters(values))
        except SolwardError as error:
            forms.say(str(error))
            return
        finally:
            save.enable()
        dialog.close()
        with page:
            ui.notify("Changed; it goes by it from its next cycle", type="positive")
        await refresh()

    save.on_click(change)
    await result_of(dialog)


class _Forms:
    """The forms of a dialog; options and model follow the chosen provider."""

    def __init__(
        self,
        providers: Mapping[str, Plugin],
        agent: Agent | None,
        limits: Mapping[str, Any],
        wallets: tuple[Wallet, ...] | None = None,
    ) -> None:
        self._providers = providers
        self._agent = agent
        self._options: Form | None = None
        self._wallet: ui.select | None = None
        with ui.element("div").classes("sw-form"):
            self._name = schema_form(fields.NAME, None if agent is None else {"name": agent.name})
            if wallets is not None:
                self._wallet = _wallets(wallets)
            chosen = fields.first_choice(providers) if agent is None else agent.llm_provider
            self._add_provider(chosen, agent)
            self._about = ui.label().classes("sw-dim sw-text").props("aria-live=polite")
            self._strategy = schema_form(
                fields.STRATEGY, None if agent is None else fields.form_values(agent)
            )
            with ui.element("fieldset").classes("sw-fieldset"):
                with ui.element("legend"):
                    ui.label("Guardrails")
                ui.label(
                    "Held by the service for every transaction of the agent, beside its own limits."
                ).classes("sw-dim")
                self._rails = schema_form(fields.GUARDRAILS, limits)
            with ui.expansion("What the model is asked with").props("dense") as self._model_options:
                self._model_options.classes("sw-expansion")
                self._place = ui.element("div").classes("sw-form")
            with ui.expansion("What the model may cost").props("dense") as self._cost:
                self._cost.classes("sw-expansion")
                self._budget = schema_form(
                    fields.BUDGET, None if agent is None else agent.llm_budget
                )
            self._error = ui.label().classes("sw-error").props("role=alert")
        self._error.set_visibility(False)
        self._show_provider(None if agent is None else agent.llm_options)

    @property
    def wallet(self) -> str | None:
        """The chosen wallet's id; None for a new one."""
        return None if self._wallet is None else str(self._wallet.value or "") or None

    def say(self, error: str) -> None:
        """Show an error of the whole, such as the service's."""
        self._error.set_text(error)
        self._error.set_visibility(bool(error))

    def read(self) -> dict[str, Any] | None:
        """The values; None where one does not fit, which its field shows."""
        self.say("")
        read: dict[str, dict[str, Any] | None] = {
            "name": _values(self._name),
            "strategy": _values(self._strategy),
            "guardrails": _values(self._rails),
            "options": {} if self._options is None else _values(self._options),
            "budget": _values(self._budget) if self._cost.visible else {},
        }
        if read["options"] is None:
            self._model_options.open()
        if read["budget"] is None:
            self._cost.open()
        model = (self._model.value or "").strip()
        self._model.error = None if model else "is required"
        found = {name: each for name, each in read.items() if each is not None}
        if not model or len(found) < len(read):
            self.say("Something above does not fit; it is told at its field.")
            return None
        interval = fields.milliseconds(found["strategy"]["seconds"])
        if interval is None:
            self.say("Seconds between cycles: at most 3 decimals.")
            return None
        return {
            "name": found["name"]["name"],
            "strategy": found["strategy"]["strategy"],
            "milliseconds": interval,
            "provider": self._provider.value,
            "model": model,
            "options": found["options"],
            "budget": found["budget"],
            "guardrails": found["guardrails"],
        }

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
    """The service's limits, read from any wallet."""
    if not wallets:
        return fields.SERVICE_LIMITS
    try:
        return fields.limits_now(await api().wallets.limits(wallets[0].id))
    except NotFoundError:
        return fields.SERVICE_LIMITS


async def _start(agent: Agent) -> None:
    try:
        await api().agents.start(agent.id)
    except SolwardError as error:
        ui.notify(
            f"{agent.name} is made, but does not run: {error}", type="negative", multi_line=True
        )
    else:
        ui.notify(f"{agent.name} is made and runs", type="positive")
