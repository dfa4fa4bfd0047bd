"""The dialogs that create or change an agent, with the editor of its strategy; a new one may start
from a copy or a template, and a change is reviewed before it is saved."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import Agent, AgentTemplate, AuditEntry, Plugin, PrincipalGrants, Wallet
from solward.resources.agents import Guardrails, LlmBudget, NewAgent
from solward.resources.declare import declared_fields, fields_of
from solward.resources.fields import REQUIRED, Field
from solward.types.errors import SolwardError
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, result_of, titled_dialog
from solward_dashboard.forms import Form, FormError, RequestForm, fieldset, form_schema, read_all
from solward_dashboard.leaving import asset_name, most_text
from solward_dashboard.wording import ago, interval_text, plain, value_text

_LONGEST_COPIED = 95
_MOST_EARLIER = 50
_NEW = declared_fields(NewAgent)
LONGEST = _NEW["strategy"].schema()["maxLength"]
# Required, since an empty one may look like no limit; without own costs the wallet's apply.
_RAILS = tuple(
    each if each.name == "max_costs_sol_per_day" else replace(each, default=REQUIRED)
    for each in fields_of(Guardrails)
)
_RAILS_TEXT = "Each transaction of the agent must keep these limits and those of the service."
_SECONDS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seconds": {
            "type": "number",
            "title": "Seconds between cycles",
            "minimum": 1,
            "maximum": 2_147_483,
            "default": 60,
        }
    },
    "required": ["seconds"],
}
_RULES = (
    "This provider is not a language model. Its strategy is rules, one per line; the first"
    " rule that matches applies. Example: when balance.SOL < 0.5 do airdrop amount=1"
)
_MODEL = "The strategy tells the model what to do, in your own words."
# The browser asks before it leaves the page; `null` removes the question.
_GUARD = "window.onbeforeunload = {}"
_ASKS = "event => { event.preventDefault(); return '' }"
_SIGNS = {"+": "added", "-": "removed", " ": "unchanged", "…": "left out"}


async def create_agent(copied: Agent | None = None) -> None:
    """Show the dialog that creates an agent; returns when it is closed.

    Args:
        copied: an agent whose fields and grants the new one begins with.
    """
    providers, wallets = await _fetch_providers(), await api().wallets.list()
    templates: Sequence[AgentTemplate] = ()
    grants: PrincipalGrants | None = None
    limits: Mapping[str, Any]
    if copied is None:
        templates = await api().agents.templates()
        limits = default_limits({each.name: each.value for each in await api().settings()})
    else:
        limits = copied.guardrails
        grants = await api().policy.of(f"agent:{copied.id}")

    async def create() -> str | None:
        values = forms.read()
        if values is None:
            return None
        template = forms.template
        if template is not None:
            values = with_template(values, template)
            question = f"Create {values['name']}?"
            # Grants of the form replace the template's.
            if "grants" not in values and not await confirmed(
                question, leaving_texts(template), "Create"
            ):
                return None
        if grants is not None and grants.grants is not None:
            values["grants"] = grants_to_copy(grants.grants)
        agent = await api().agents.create(wallet_id=forms.wallet, **values)
        return await _start_created(agent) if start.value else f"{agent.name} was created"

    title = "New agent" if copied is None else f"Copy of {copied.name}"
    with titled_dialog(title, wide=True) as dialog:
        forms = AgentForms(providers, copied, limits, wallets, templates)
        if grants is not None:
            _show_copied_grants(grants)
        start = ui.switch("Start the agent at once", value=copied is None)
        sw.marked(start, "start-at-once")
        _add_buttons(dialog, forms, "Create", create)
    await result_of(dialog)


async def change_agent(agent: Agent) -> None:
    """Show the dialog that changes an agent; returns when it is closed."""
    providers = await _fetch_providers()
    history = await api().audit(types=["agent:changed"], agent_id=agent.id, limit=_MOST_EARLIER)

    async def change() -> str | None:
        values = forms.read()
        if values is None:
            return None
        # The review compares with what is stored now: somebody may have changed it.
        stored = await api().agents.get(agent.id)
        found = changes(stored, values)
        if not found and stored.strategy == values["strategy"]:
            forms.show_message("Nothing is changed.")
            return None
        is_other = stored.strategy != agent.strategy
        if not await review(stored, found, values["strategy"], is_other=is_other):
            return None
        # Numbers of the budget that the form leaves out are removed.
        budget = {each.json: None for each in fields_of(LlmBudget)} | values["llm_budget"]
        await api().agents.change(agent.id, **values | {"llm_budget": budget})
        return "Saved; the changes apply from the agent's next cycle on"

    with titled_dialog(f"Change {agent.name}", wide=True) as dialog:
        forms = AgentForms(providers, agent, agent.guardrails, history=history.entries)
        _add_buttons(dialog, forms, "Save", change)
    await result_of(dialog)


def _add_buttons(
    dialog: ui.dialog, forms: AgentForms, verb: str, send: Callable[[], Awaitable[str | None]]
) -> None:
    """Add Cancel, and a button that closes the dialog once `send` returns what was done."""

    def close() -> None:
        forms.editor.release()
        dialog.close()

    async def submit() -> None:
        try:
            with sw.disabled(save):
                said = await send()
        except SolwardError as error:
            forms.show_message(str(error))
            return
        if said is not None:
            close()
            ui.notify(said, type="positive")

    async def leave() -> None:
        details = ["The strategy that you wrote is lost."]
        question = "Leave without saving?"
        if not forms.editor.is_changed or await confirmed(question, details, "Leave"):
            close()

    dialog.props("no-backdrop-dismiss")
    with sw.row("sw-end"):
        sw.button("Cancel", leave, look="flat no-caps")
        save = sw.button(verb, submit, look=sw.PRIMARY, testid=verb.lower())


def _show_copied_grants(grants: PrincipalGrants) -> None:
    with sw.marked(sw.stack("sw-outcome"), "copied-grants"):
        if grants.grants is None:
            sw.text("The original agent has no grants, nor has the copy: only guardrails limit it.")
            return
        sw.heading("Grants that the copy gets", 3)
        for each in grants.sentences:
            sw.text(each)


class AgentForms:
    """The forms of a dialog; options and model follow the chosen provider.

    Args:
        agent: the agent whose fields they begin with, if any.
        wallets: wallets to choose from for a new agent; None if an agent is changed.
        templates: templates to choose from for a new agent.
        history: entries of the audit log about changes of the agent, the newest first.

    Attributes:
        template: the chosen template.
    """

    def __init__(
        self,
        providers: Mapping[str, Plugin],
        agent: Agent | None,
        limits: Mapping[str, Any],
        wallets: Sequence[Wallet] | None = None,
        templates: Sequence[AgentTemplate] = (),
        history: Sequence[AuditEntry] = (),
    ) -> None:
        self._providers = providers
        self._agent = agent
        self._wallet: ui.select | None = None
        self.template: AgentTemplate | None = None
        with sw.stack("sw-form"):
            if templates:
                self._add_templates({each.name: each for each in templates})
            named = None
            if agent is not None:
                is_copy = wallets is not None
                named = f"{agent.name[:_LONGEST_COPIED]} copy" if is_copy else agent.name
            self._name = RequestForm([_NEW["name"]], {"name": named})
            if wallets is not None:
                choices = {"": "A new wallet for this agent"}
                choices |= {each.id: each.name for each in wallets}
                self._wallet = sw.field_choice("Wallet", choices, "", testid="wallet")
            self._add_provider(agent)
            self._about = sw.optional_text("sw-dim sw-text").props("aria-live=polite")
            self.editor = StrategyEditor("" if agent is None else agent.strategy)
            if agent is not None:
                self._add_earlier(earlier_strategies(history, agent.strategy))
            self._bounds_place = sw.stack("sw-form")
            with _add_expansion("Options of the model") as self._asked_with:
                self._options_place = sw.stack("sw-form")
            with _add_expansion("Budget of the model") as self._cost:
                known = None if agent is None else agent.llm_budget
                self._budget = Form(form_schema(fields_of(LlmBudget)), known)
            with _add_expansion("Grants of the agent") as may:
                self._grants = RequestForm([_NEW["grants"]] if agent is None else [])
            may.set_visibility(agent is None)
            self._error = sw.error_text()
        self._show_bounds(None if agent is None else agent.loop_interval_ms, limits)
        self._show_provider(None if agent is None else agent.llm_options)

    @property
    def wallet(self) -> str | None:
        """The chosen wallet's id; None for a new one."""
        return None if self._wallet is None else str(self._wallet.value or "") or None

    def show_message(self, said: str) -> None:
        """Show a text about the whole form, such as the service's error; empty removes it."""
        self._error.set_text(said)

    def read(self) -> dict[str, Any] | None:
        """Return the client's arguments; None if a field has an invalid value, which it shows."""
        self.show_message("")
        model = (self._model.value or "").strip()
        self._model.error = None if model else "is required"
        fits = self.editor.validate() and bool(model)
        try:
            name, pace, rails, options, budget, grants = read_all(
                self._name, self._pace, self._rails, self._options, self._budget, self._grants
            )
        except FormError:
            for expansion, form in ((self._asked_with, self._options), (self._cost, self._budget)):
                if form.valid_values() is None:
                    expansion.open()
            fits = False
        if not fits:
            self.show_message("A value above is not valid: its field says why.")
            return None
        interval = milliseconds(pace["seconds"])
        if interval is None:
            self.show_message("Seconds between cycles: at most 3 decimals.")
            return None
        return {
            **name,
            "strategy": self.editor.text,
            "llm_provider": self._provider.value,
            "llm_model": model,
            "llm_options": options,
            "llm_budget": budget,
            "loop_interval_ms": interval,
            **rails,
            # An agent without grants acts within its limits, or its template's grants.
            **grants,
        }

    def _add_templates(self, templates: Mapping[str, AgentTemplate]) -> None:
        def chosen() -> None:
            before, self.template = self.template, templates.get(str(select.value))
            place.clear()
            template = self.template
            if template is None:
                return
            # A strategy that the user wrote stays.
            written = self.editor.text
            if not written.strip() or (before and written == before.strategy):
                self.editor.put(template.strategy)
            self._show_bounds(template.loop_interval_ms, template.guardrails)
            with place:
                sw.dim(template.summary)
                with sw.marked(sw.stack("sw-outcome"), "template-leaving"):
                    for each in leaving_texts(template):
                        sw.text(each)
                    for each in template.sentences:
                        sw.dim(each)

        choices = {"": "No template: write the strategy yourself"}
        choices |= {name: each.title for name, each in templates.items()}
        select = sw.field_choice("Start from", choices, "", testid="template")
        place = sw.stack("sw-form").props("aria-live=polite")
        select.on_value_change(chosen)

    def _add_earlier(self, found: Sequence[tuple[AuditEntry, str]]) -> None:
        """Add the agent's earlier strategies, each with a button that puts it into the editor."""
        with _add_expansion(f"Earlier strategies ({len(found)})") as earlier:
            for entry, words in found:
                with sw.stack("sw-form"):
                    with sw.row():
                        until = ago(entry.timestamp)
                        sw.dim(f"in use until {until}, changed by {entry.data['principal']}")
                        ui.space()
                        put = partial(self.editor.put, words)
                        sw.button("Copy into the editor", put, look=sw.SMALL)
                    sw.text(words, "sw-text sw-clamp")
        earlier.set_visibility(bool(found))

    def _show_bounds(self, interval_ms: int | None, limits: Mapping[str, Any]) -> None:
        self._bounds_place.clear()
        with self._bounds_place:
            known = None if interval_ms is None else {"seconds": seconds_text(interval_ms)}
            self._pace = Form(_SECONDS, known)
            with fieldset("Guardrails", _RAILS_TEXT):
                self._rails = RequestForm(_RAILS, limits)

    def _add_provider(self, agent: Agent | None) -> None:
        choices = provider_choices(self._providers)
        chosen = first_choice(self._providers) if agent is None else agent.llm_provider
        if agent is not None and agent.llm_provider not in choices:
            choices[agent.llm_provider] = f"{agent.llm_provider} (not installed)"
        with sw.stack("sw-pair"):
            self._provider = sw.field_choice("Provider", choices, chosen, testid="provider")
            self._model = ui.input("Model", value="" if agent is None else agent.llm_model)
            self._model.props("outlined dense hide-bottom-space maxlength=200 autocomplete=off")
            self._model.without_auto_validation().classes("sw-field")
        self._provider.on_value_change(lambda: self._show_provider(None))

    def _show_provider(self, options: Mapping[str, Any] | None) -> None:
        provider = self._providers.get(self._provider.value or "")
        if self._agent is None or options is None:
            self._model.set_value(provider.default_model if provider else "")
        self._about.set_text(provider_hint(provider) if provider else "")
        self._cost.set_visibility(provider is None or provider.is_llm)
        self._options_place.clear()
        with self._options_place:
            self._options = Form((provider.options if provider else None) or {}, options)
        self._asked_with.set_visibility(not self._options.empty)


def _add_expansion(title: str) -> ui.expansion:
    return ui.expansion(title).props("dense").classes("sw-expansion")


async def _fetch_providers() -> dict[str, Plugin]:
    loaded = (await api().plugins()).plugins
    return {each.name: each for each in loaded if each.kind == "provider"}


async def _start_created(agent: Agent) -> str:
    try:
        await api().agents.start(agent.id)
    except SolwardError as error:
        return f"{agent.name} was created, but did not start: {error}"
    return f"{agent.name} was created and started"


def provider_choices(providers: Mapping[str, Plugin]) -> dict[str, str]:
    """Return providers as choices: name -> label."""
    labels = {}
    for name, each in providers.items():
        notes = [] if each.is_llm else ["not a language model"]
        notes += [] if each.configured else ["no key set"]
        labels[name] = f"{name} ({', '.join(notes)})" if notes else name
    return labels


def first_choice(providers: Mapping[str, Plugin]) -> str | None:
    """Return the default choice: a configured language model, else a configured provider."""
    ranked = sorted(providers.values(), key=lambda each: (not each.configured, not each.is_llm))
    return ranked[0].name if ranked else None


def provider_hint(provider: Plugin) -> str:
    """Return a hint to read before creating an agent with this provider; may be empty."""
    if not provider.configured:
        return (
            f"Set {provider.secret_env} and restart the service before an agent of this provider"
            " can be started."
        )
    return _RULES if provider.name == "rules" else _MODEL if provider.is_llm else ""


def milliseconds(seconds: Any) -> int | None:
    """Return seconds as `loopIntervalMs`; None if it is no whole number of milliseconds."""
    exact = seconds * 1_000
    return int(exact) if exact == int(exact) else None


def seconds_text(milliseconds: int) -> str:
    """Return an interval in the form of its input field."""
    return f"{Decimal(milliseconds) / 1_000:f}"


def default_limits(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the settings' limits for the guardrails that an agent must have, by field."""
    found = {each.json: settings.get(each.name.upper()) for each in _RAILS if each.is_required}
    return {name: Decimal(each) for name, each in found.items() if each}


def with_template(values: Mapping[str, Any], template: AgentTemplate) -> dict[str, Any]:
    """Return an agent's arguments with its template, and without a strategy equal to its own."""
    own = values["strategy"] == template.strategy
    return {**values, "template": template.name, "strategy": None if own else values["strategy"]}


def grants_to_copy(grants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an agent's grants without their principal, so that another agent can have them."""
    return [{name: each for name, each in grant.items() if name != "who"} for grant in grants]


def leaving_texts(template: AgentTemplate) -> list[str]:
    """Return the maximum that a template's agent can move in a day, a line for each asset."""
    leaving = [
        f"{asset_name(asset)}: {most_text(asset, each)}"
        for asset, each in template.can_leave["assets"].items()
        if each["most"] != "0"
    ]
    title = "Maximum that an agent with this template can move out of its wallet in a day:"
    return [title, *(leaving or ["Nothing: such an agent signs no transaction."])]


class StrategyEditor:
    """A field for a strategy that keeps its line breaks and counts its characters.

    Args:
        stored: the strategy that the service has.
    """

    def __init__(self, stored: str = "") -> None:
        self._stored = stored
        with sw.stack("sw-form"):
            self._area = ui.textarea("Strategy", value=stored, validation=_strategy_error)
            sw.marked(self._area, "strategy").classes("sw-field sw-strategy")
            # A line break is part of the strategy, so Enter never sends the form.
            self._area.props("outlined dense autogrow hide-bottom-space spellcheck=true")
            with sw.row():
                count = sw.marked(sw.dim("", "sw-number"), "strategy-count")
                count.bind_text_from(
                    self._area, "value", lambda _: f"{len(self.text):,} of {LONGEST:,} characters"
                )
                unsaved = sw.dim("Not saved")
                unsaved.bind_visibility_from(self._area, "value", lambda _: self.is_changed)
        self._area.without_auto_validation().on_value_change(self._handle_change)

    @property
    def text(self) -> str:
        """The current text of the field."""
        return str(self._area.value or "")

    @property
    def is_changed(self) -> bool:
        """True if the text differs from the stored strategy."""
        return self.text != self._stored

    def put(self, text: str) -> None:
        """Replace the text, as typing does."""
        self._area.set_value(text)

    def validate(self) -> bool:
        """Return whether the strategy is valid; the field shows an error if it is not."""
        return self._area.validate()

    def release(self) -> None:
        """Let the user leave the page without a question, after the text was saved or discarded."""
        ui.run_javascript(_GUARD.format("null"))

    def _handle_change(self) -> None:
        self._area.error = None
        ui.run_javascript(_GUARD.format(_ASKS if self.is_changed else "null"))


def _strategy_error(text: str | None) -> str | None:
    if not (text or "").strip():
        return "is required"
    more = len(text or "") - LONGEST
    return f"has {more:,} characters too many" if more > 0 else None


async def review(stored: Agent, found: Sequence[Change], strategy: str, *, is_other: bool) -> bool:
    """Show changes, and return whether the user saves them.

    Args:
        stored: the agent as it is now.
        strategy: the new one.
        is_other: whether somebody changed the strategy since it was opened here.
    """
    wider = sum(each.is_wider for each in found)
    with titled_dialog(f"Save the changes to {stored.name}?", wide=True) as dialog:
        if wider:
            bounds = "a bound" if wider == 1 else f"{wider} bounds"
            said = f"This widens {bounds}: the agent can move or spend more than before."
            sw.text(said, "sw-bad sw-text").props("role=alert")
        with sw.stack("sw-list"):
            for each in found:
                sw.text(each.text, "sw-bad sw-text" if each.is_wider else "sw-text")
        if stored.strategy != strategy:
            sw.heading("Strategy", 3)
            if is_other:
                sw.text(
                    "The strategy was changed elsewhere since you opened it. These lines compare"
                    " yours with the one that is stored now.",
                    "sw-bad sw-text",
                )
            # Added and removed lines are marked by sign and colour.
            with ui.element("div").classes("sw-diff").props('role=list data-testid="diff"'):
                for sign, line in diff(stored.strategy, strategy):
                    kind = _SIGNS[sign]
                    row = ui.label(f"{sign} {line}").classes(f"sw-mono sw-diff-{kind.split()[0]}")
                    row.props["role"] = "listitem"
                    row.props["aria-label"] = f"{kind}: {line}"
        with sw.row("sw-end"):
            ui.button("Go on editing", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            save = ui.button("Save", on_click=lambda: dialog.submit(True)).props(sw.PRIMARY)
        sw.marked(save, "save-changes")
    return bool(await result_of(dialog))


@dataclass(frozen=True, slots=True)
class Change:
    """A field whose value changes.

    Attributes:
        is_wider: whether it is a bound that now allows more.
    """

    name: str
    before: str
    after: str
    is_wider: bool = False

    @property
    def text(self) -> str:
        """`Most SOL in 24 hours: 1 becomes 5, which is wider`."""
        wider = ", which is wider" if self.is_wider else ""
        return f"{self.name}: {self.before} becomes {self.after}{wider}"


def changes(stored: Agent, values: Mapping[str, Any]) -> list[Change]:
    """Return the changes that saving a form's values makes to an agent, except its strategy.

    Args:
        values: arguments of `agents.change`; a number of the budget that is left out is removed.
    """
    options, given = stored.llm_options, values["llm_options"]
    cycle, every = stored.loop_interval_ms, values["loop_interval_ms"]
    found = [
        Change("Name", stored.name, values["name"]),
        Change("Provider", stored.llm_provider, values["llm_provider"]),
        Change("Model", stored.llm_model, values["llm_model"]),
        Change("Cycle", interval_text(cycle), interval_text(every)),
        *(
            Change(f"The model's {name}", _option(options.get(name)), _option(given.get(name)))
            for name in sorted({*options, *given})
        ),
    ]
    for each in fields_of(Guardrails):
        before = stored.guardrails.get(each.json)
        found.append(_bound_change(each, before, values.get(each.name, before)))
    for each in fields_of(LlmBudget):
        before, after = (of.get(each.json) for of in (stored.llm_budget, values["llm_budget"]))
        found.append(_bound_change(each, before, after))
    return [each for each in found if each.before != each.after]


def _bound_change(field: Field, before: Any, after: Any) -> Change:
    """Return the change of a bound, which a greater number or no bound makes wider."""
    wider = before is not None and (after is None or Decimal(after) > Decimal(before))
    return Change(field.label, _limit_text(before), _limit_text(after), wider)


def _limit_text(value: Any) -> str:
    return "no limit of its own" if value is None else plain(value)


def _option(value: Any) -> str:
    return "the model's default" if value is None else value_text(value)


def diff(before: str, after: str) -> list[tuple[str, str]]:
    """Return the differing lines of two texts, and three lines around each, as (sign, line). A sign
    is `+`, `-`, ` ` or `…` for a gap. Equal texts have no lines."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=3)
    found: list[tuple[str, str]] = []
    for line in list(lines)[2:]:
        if line.startswith("@@"):
            if found:
                found.append(("…", ""))
            continue
        found.append((line[0], line[1:]))
    return found


def earlier_strategies(entries: Sequence[AuditEntry], now: str) -> list[tuple[AuditEntry, str]]:
    """Return an agent's earlier strategies, latest first, each with the entry that ended it.

    Args:
        entries: `agent:changed` of the audit log, the newest first.
    """
    found: list[tuple[AuditEntry, str]] = []
    known = {now}
    for each in entries:
        text = (each.data.get("before") or {}).get("strategy")
        if isinstance(text, str) and text not in known:
            known.add(text)
            found.append((each, text))
    return found
