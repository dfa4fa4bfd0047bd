"""The overview: what waits, what was refused and why, what can leave; then all the rest.

Rows of its lists of limits and decisions are updated in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from solward.client import Health, Hold, Judged, Plugins, Refusals, Transaction
from solward_dashboard import charts
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import Poll, frame
from solward_dashboard.holds import DisplayContext, HoldCards
from solward_dashboard.pages.holds import open_record
from solward_dashboard.pages.overview import exposure
from solward_dashboard.pages.overview.data import (
    DECISIONS,
    HOLDS,
    TRANSACTIONS,
    WALLETS,
    AgentDecision,
    Budget,
    Overview,
    fetch,
)
from solward_dashboard.pages.overview.exposure import SHOWN, Exposure, Exposures
from solward_dashboard.refused import leaving_texts, number_list, rule_text
from solward_dashboard.wording import ASKING, ago, exact, local_times, plain, short, sol

EVERY_S = 5.0
EXPOSURE_EVERY_S = 30.0

_CUT = 240


def page() -> None:
    """Built once a visitor; elements are updated in place."""
    with frame("/") as freshness:
        with ui.element("div").classes("sw-grid"):
            service = _Figure("Service", "favorite")
            network = _Figure("Network", "lan")
            agents = _Figure("Agents running", "smart_toy")
            spent = _Figure("Spent in 24 hours", "payments")
            blocked = _Figure("Refused in 24 hours", "block")
        waiting = Waiting(lambda: poll.refresh())
        with ui.element("div").classes("sw-wide sw-top"):
            refused = RefusalRows()
            exposed = ExposureRows()
        with ui.element("div").classes("sw-wide"):
            times = _Chart("Transactions over time")
            kinds = _Chart("Transactions by type")
        with ui.element("div").classes("sw-wide"):
            with ui.element("div").classes("sw-stack"):
                with ui.element("section").classes("sw-card"):
                    _heading("Spending limits today", "All wallets", "/wallets")
                    limits = LimitRows()
                problems = _Problems()
            with ui.element("section").classes("sw-card"):
                _heading("Recent decisions", "All agents", "/agents")
                decisions = DecisionRows()

        def show(latest: Overview) -> None:
            _show_health(latest.health, service, network)
            running, total = latest.health.agents["running"], latest.health.agents["total"]
            agents.set(str(running), f"of {total}" if total else "none made yet")
            spent.set(sol(latest.spent), latest.spent_by)
            now = datetime.now(UTC)
            _show_refused(latest.refusals, blocked)
            waiting.show(latest.holds, latest.context)
            refused.show(latest.refusals, latest.context, now)
            times.show(charts.by_time(latest.transactions, now), latest.transactions)
            kinds.show(charts.by_type(latest.transactions), latest.transactions)
            limits.show(latest.budgets)
            decisions.show(latest.decisions, now)
            problems.show(latest.plugins)

        poll = Poll(freshness, EVERY_S, fetch, show)
        # Each balance is a request of the ledger.
        Poll(freshness, EXPOSURE_EVERY_S, exposure.fetch, exposed.show)


def _show_refused(refusals: Refusals, figure: _Figure) -> None:
    count = f"{refusals.last_day:,}" + ("" if refusals.is_complete else " or more")
    rules = refusals.by_rule
    most = next(iter(rules), None)
    note = "nothing was refused" if most is None else f"most by {most}: {rules[most]:,}"
    figure.set(count, note)


def _show_health(health: Health, service: _Figure, network: _Figure) -> None:
    good = health.status == "ok"
    service.set("ok" if good else "degraded", f"version {health.version}", bad=not good)
    if health.ledger_healthy:
        network.set(health.network, f"slot {health.slot:,}")
    else:
        network.set(health.network, "the ledger does not answer", bad=True)


def _heading(title: str, more: str, route: str) -> None:
    with ui.element("div").classes("sw-row"):
        heading(title)
        ui.space()
        ui.link(more, route).classes("sw-more")


class _Figure:
    def __init__(self, title: str, icon: str) -> None:
        with ui.element("section").classes("sw-card"):
            with ui.element("div").classes("sw-row sw-dim"):
                ui.icon(icon).props("aria-hidden=true")
                ui.label(title)
            self._value = ui.label("-").classes("sw-figure")
            # A line high from the start, so that the page does not jump.
            self._note = ui.label("\N{NO-BREAK SPACE}").classes("sw-dim")
        self._value.props(f'data-testid="figure-{icon}"')

    def set(self, value: str, note: str, *, bad: bool = False) -> None:
        self._value.set_text(value)
        self._note.set_text(note)
        change = {"add": "sw-bad"} if bad else {"remove": "sw-bad"}
        self._value.classes(**change)


class _Chart:
    def __init__(self, title: str) -> None:
        with ui.element("section").classes("sw-card"):
            with ui.element("div").classes("sw-row"):
                heading(title)
                ui.space()
                self._of = ui.label().classes("sw-dim")
            self._chart = ui.echart({}).classes("sw-chart").props("role=img")
            self._title = title

    def show(self, options: dict[str, Any], transactions: tuple[Transaction, ...]) -> None:
        newest = len(transactions) == TRANSACTIONS
        self._of.set_text(f"the newest {TRANSACTIONS}" if newest else f"{len(transactions)}")
        if self._chart.options != options:
            self._chart.options.clear()
            self._chart.options.update(options)
            self._chart.props["aria-label"] = f"{self._title}. {charts.summary_text(transactions)}"
            self._chart.update()


class _Problems:
    """Rebuilt only when the plugins change, which is at a start of the service."""

    def __init__(self) -> None:
        self._shown: Plugins | None = None
        self._card = ui.element("section").classes("sw-card").props('data-testid="plugins"')

    def show(self, plugins: Plugins) -> None:
        if plugins == self._shown:
            return
        self._shown = plugins
        self._card.clear()
        with self._card:
            _heading("Plugins", "All plugins", "/plugins")
            count = len(plugins.problems)
            wrong = "no problems" if not count else f"{count} problem{'s' * (count > 1)}"
            ui.label(f"{len(plugins.plugins)} loaded, {wrong}").classes("sw-dim")
            for each in plugins.problems:
                with ui.element("div"):
                    ui.label(f"{each.plugin} of {each.distribution or 'no distribution'}")
                    ui.label(f"{each.code}: {each.detail}").classes("sw-dim sw-text sw-bad")


class Waiting:
    """The first holds with their decision; hidden where nothing waits."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._card = ui.element("section").classes("sw-stack").props('data-testid="waits"')
        self._card.set_visibility(False)
        with self._card:
            with ui.element("div").classes("sw-row"):
                self._title = heading()
                ui.space()
                ui.link("All approvals", "/holds").classes("sw-more")
            self._cards = HoldCards(refresh, open_record, "", "waiting", compact=True)
            self._more = ui.link("", "/holds").classes("sw-more")

    def show(self, holds: Sequence[Hold], context: DisplayContext) -> None:
        """Show the first of them, oldest first: their time ends first."""
        self._card.set_visibility(bool(holds))
        count = len(holds)
        self._title.set_text(f"{count} {'waits' if count == 1 else 'wait'} for you")
        self._cards.show(sorted(holds, key=lambda each: each.expires_at)[:HOLDS], context)
        self._more.set_text(f"and {count - HOLDS} more")
        self._more.set_visibility(count > HOLDS)


class RefusalRows:
    """The latest refusals of all wallets; built anew where there is another."""

    def __init__(self) -> None:
        self._shown: tuple[Any, ...] = ()
        self._ages: list[tuple[ui.label, Judged]] = []
        with ui.element("section").classes("sw-card").props('data-testid="refusals"'):
            with ui.element("div").classes("sw-row"):
                heading("What was refused, and why")
                ui.space()
                ui.link("All transactions", "/transactions").classes("sw-more")
            self._rules = ui.element("div").classes("sw-row").props('data-testid="by-rule"')
            self._empty = ui.label(ASKING).classes("sw-empty")
            self._list = ui.element("div").classes("sw-list")
            self._note = ui.label().classes("sw-dim sw-text")

    def show(self, refusals: Refusals, context: DisplayContext, now: datetime) -> None:
        """Show them with their age."""
        found = refusals.refusals
        shown = (refusals.raw, context.people)
        if shown != self._shown:
            self._shown = shown
            self._empty.set_text("Nothing was refused yet.")
            self._empty.set_visibility(not found)
            self._build(refusals, context)
        for label, each in self._ages:
            label.set_text(ago(each.transaction.timestamp, now))

    def _build(self, refusals: Refusals, context: DisplayContext) -> None:
        for place in (self._rules, self._list):
            place.clear()
        with self._rules:
            for rule, count in refusals.by_rule.items():
                ui.badge(f"{rule} {count:,}").classes("sw-blocked")
        with self._list:
            self._ages = [_refusal(each, context) for each in refusals.refusals]
        shown, day = len(refusals.refusals), refusals.last_day
        notes = [f"The newest {shown} of {day:,} in 24 hours."] if day > shown else []
        if not refusals.is_complete:
            notes.append("Older ones of these 24 hours are among too many transactions to count.")
        self._note.set_text(" ".join(notes))
        self._note.set_visibility(bool(notes))


def _refusal(judged: Judged, context: DisplayContext) -> tuple[ui.label, Judged]:
    record = judged.transaction
    with ui.element("div").classes("sw-refusal"):
        with ui.element("div").classes("sw-row"):
            ui.badge(judged.rule or "").classes("sw-blocked").props["aria-label"] = rule_text(
                judged.rule or ""
            )
            link = ui.link(record.type.replace("_", " "), f"/transactions/{record.id}")
            link.classes("sw-strong")
            ui.space()
            age = ui.label().classes("sw-dim")
        for texts in leaving_texts(judged, context.tokens, context.people)[:1]:
            # Without the account of a token, which its owner says better.
            ui.label(" ".join(texts[:2])).classes("sw-text")
        number_list(judged.numbers, context.tokens)
        reason = local_times(judged.reason)
        ui.label(_cut(reason)).classes("sw-dim sw-text")
        asked = context.people.called(record.principal or "")
        wallet = context.people.wallet(record.wallet_id)
        ui.label(f"Asked by {asked}, from wallet {wallet}").classes("sw-dim sw-text")
    return age, judged


class ExposureRows:
    """What is held of each asset, and what of it can leave; built anew where it changed."""

    def __init__(self) -> None:
        self._shown: Exposures | None = None
        with ui.element("section").classes("sw-card").props('data-testid="exposure"'):
            with ui.element("div").classes("sw-row"):
                heading("Held, and what can leave in 24 hours")
                ui.space()
                ui.link("All wallets", "/wallets").classes("sw-more")
            self._note = ui.label(ASKING).classes("sw-dim sw-text")
            self._list = ui.element("div").classes("sw-list")

    def show(self, found: Exposures) -> None:
        """Show the first `SHOWN`."""
        if found == self._shown:
            return
        self._shown = found
        who = "All agents, keys and schedules at once, whoever fools them; not you."
        frozen = f" {found.frozen} frozen: nothing new leaves while so." if found.frozen else ""
        self._note.set_text(f"{found.of_text.capitalize()}. {who}{frozen}")
        self._list.clear()
        with self._list:
            for each in found.assets[:SHOWN]:
                _asset(each)
            more = len(found.assets) - SHOWN
            if more > 0:
                ui.label(f"and {more} more tokens, on their wallets' pages").classes("sw-dim")
            if found.others:
                with ui.element("div"):
                    ui.label("Any other token").classes("sw-strong")
                    bad = "sw-bad" if found.others.startswith("not") else "sw-dim"
                    ui.label(found.others).classes(f"{bad} sw-text")


def _asset(each: Exposure) -> None:
    with ui.element("div") as row:
        row.props["data-testid"] = f"asset-{each.name}"
        with ui.element("div").classes("sw-row"):
            ui.label(each.name).classes("sw-strong")
            if each.mint is not None and each.name != short(each.mint):
                ui.label(short(each.mint)).classes("sw-mono sw-dim")
            ui.space()
            ui.label(exact(each.held)).classes("sw-number sw-strong")
        if each.wrapped:
            ui.label(f"{exact(each.wrapped)} of it wrapped").classes("sw-dim")
        loose = each.most is None
        ui.label(each.most_text).classes("sw-text " + ("sw-bad" if loose else "sw-dim"))
        if each.held:
            ui.label(_worst_text(each)).classes("sw-text " + ("sw-bad" if loose else "sw-dim"))


def _worst_text(each: Exposure) -> str:
    if not each.at_worst:
        return "At worst none of it leaves in a day."
    if each.at_worst == each.held:
        return f"At worst all of it leaves in a day: {exact(each.held)} {each.name}."
    return f"At worst {exact(each.at_worst)} {each.name} of it leave in a day."


class LimitRows:
    """A bar a wallet."""

    def __init__(self) -> None:
        self._empty = ui.element("div").classes("sw-empty")
        with self._empty:
            ui.label("No wallet yet.")
            ui.link("Make one on the Wallets page", "/wallets")
        self._empty.set_visibility(False)
        with ui.element("div").classes("sw-list"):
            self._rows = [_LimitRow() for _ in range(WALLETS)]

    def show(self, budgets: Sequence[Budget]) -> None:
        """Show the first `WALLETS`."""
        self._empty.set_visibility(not budgets)
        for at, row in enumerate(self._rows):
            row.show(budgets[at] if at < len(budgets) else None)


class _LimitRow:
    def __init__(self) -> None:
        self._row = ui.element("div")
        with self._row:
            with ui.element("div").classes("sw-row"):
                self._name = ui.label().classes("sw-text")
                ui.space()
                self._used = ui.label().classes("sw-dim")
            self._bar = ui.linear_progress(0, show_value=False, size="8px")
            self._bar.props("rounded instant-feedback")
        self._row.set_visibility(False)

    def show(self, budget: Budget | None) -> None:
        self._row.set_visibility(budget is not None)
        if budget is None:
            return
        text = f"{plain(budget.used)} of {plain(budget.limit)} SOL"
        self._name.set_text(f"{budget.wallet} (frozen)" if budget.frozen else budget.wallet)
        self._used.set_text(text)
        self._bar.set_value(budget.share)
        colour = "negative" if budget.share >= 0.9 else "warning" if budget.share >= 0.7 else "teal"
        self._bar.props["color"] = colour
        self._bar.props["aria-label"] = f"{budget.wallet}: {text}"
        self._bar.update()


class DecisionRows:
    """The newest decisions, newest first."""

    def __init__(self) -> None:
        self._empty = ui.element("div").classes("sw-empty")
        with self._empty:
            ui.label("No agent has decided anything yet.")
            ui.link("Make and start one on the Agents page", "/agents")
        self._empty.set_visibility(False)
        with ui.element("div").classes("sw-list"):
            self._rows = [_DecisionRow() for _ in range(DECISIONS)]

    def show(self, decisions: Sequence[AgentDecision], now: datetime) -> None:
        """Show the first `DECISIONS` with their age."""
        self._empty.set_visibility(not decisions)
        for at, row in enumerate(self._rows):
            row.show(decisions[at] if at < len(decisions) else None, now)


class _DecisionRow:
    def __init__(self) -> None:
        self._row = ui.element("div")
        with self._row:
            with ui.element("div").classes("sw-row"):
                self._agent = ui.label().classes("sw-strong sw-text")
                ui.space()
                self._ago = ui.label().classes("sw-dim")
            # One line each, so that the list keeps its height.
            self._action = ui.label().classes("sw-mono sw-cut")
            self._outcome = ui.label().classes("sw-dim sw-cut")
        self._row.set_visibility(False)

    def show(self, taken: AgentDecision | None, now: datetime) -> None:
        self._row.set_visibility(taken is not None)
        if taken is None:
            return
        decision = taken.decision
        self._agent.set_text(taken.agent)
        self._action.set_text(_cut((decision.action or "wait").removesuffix("({})")))
        self._ago.set_text(ago(decision.timestamp, now))
        self._outcome.set_text(_cut(local_times(decision.outcome)))


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"
