"""The overview: what waits, what was refused and why, what can leave; then all the rest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from solward.client import Health, Plugins, Refusals, Transaction
from solward_dashboard import charts
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import frame
from solward_dashboard.pages.overview import exposure
from solward_dashboard.pages.overview.data import TRANSACTIONS, Overview, fetch
from solward_dashboard.pages.overview.guarded import ExposureRows, RefusalRows, Waiting
from solward_dashboard.pages.overview.rows import DecisionRows, LimitRows
from solward_dashboard.polling import Poll
from solward_dashboard.wording import sol

EVERY_S = 5.0
EXPOSURE_EVERY_S = 30.0


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
        network.set(health.network, f"slot {health.slot:,}" if health.slot is not None else "")
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
