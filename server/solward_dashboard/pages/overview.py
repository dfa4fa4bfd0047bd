"""Overview: is it healthy, what is it doing, and how much is left to spend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Event, Health, Plugins, Transaction, Wallet
from solward_dashboard import charts
from solward_dashboard.api import api
from solward_dashboard.feed import Feed
from solward_dashboard.frame import frame
from solward_dashboard.words import ago, plain, sol

EVERY_S = 5.0
_TRANSACTIONS = 500
_WALLETS = 12
_DECISIONS = 8


@dataclass(frozen=True, slots=True)
class Overview:
    """One answer to everything the page shows."""

    health: Health
    wallets: tuple[Wallet, ...]
    limits: tuple[Mapping[str, Any], ...]
    transactions: tuple[Transaction, ...]
    decisions: tuple[Event, ...]
    plugins: Plugins


async def ask() -> Overview:
    """All of it at once; of the limits, the oldest wallets'."""
    health, wallets, transactions, log, plugins = await asyncio.gather(
        api().health(),
        api().wallets.list(),
        api().transactions.list(limit=_TRANSACTIONS),
        api().audit(limit=200),
        api().plugins(),
    )
    limits = await asyncio.gather(*(api().wallets.limits(each.id) for each in wallets[:_WALLETS]))
    decisions = tuple(each for each in log if each.kind == "agent:decision")[:_DECISIONS]
    return Overview(health, wallets, tuple(limits), transactions, decisions, plugins)


def page() -> None:
    """Built once a visitor; what changes is changed in place."""
    with frame("/") as freshness:
        with ui.element("div").classes("sw-grid"):
            status = _figure("Service", "favorite")
            network = _figure("Network", "lan")
            agents = _figure("Agents running", "smart_toy")
            spent = _figure("Spent in 24 hours", "payments")
        with ui.element("div").classes("sw-wide"):
            with ui.element("section").classes("sw-card"):
                ui.label("Transactions over time").classes("sw-card-title")
                times = ui.echart({}).classes("sw-chart").props("role=img")
            with ui.element("section").classes("sw-card"):
                ui.label("Transactions by type").classes("sw-card-title")
                kinds = ui.echart({}).classes("sw-chart")
        with ui.element("div").classes("sw-wide"):
            with ui.element("section").classes("sw-card"):
                ui.label("Spending limits today").classes("sw-card-title")
                limits = ui.element("div").classes("sw-list")
            with ui.element("section").classes("sw-card"):
                ui.label("Recent decisions").classes("sw-card-title")
                decisions = ui.element("div").classes("sw-list")
        problems = ui.element("section").classes("sw-card")

        def show(seen: Overview) -> None:
            health = seen.health
            status.set("ok" if health.status == "ok" else "degraded", f"version {health.version}")
            slot = (
                "the ledger does not answer"
                if not health.ledger_healthy
                else f"slot {health.slot:,}"
            )
            network.set(health.network, slot)
            agents.set(str(health.agents["running"]), f"of {health.agents['total']}")
            today = sum((_spent(each)[0] for each in seen.limits), Decimal(0))
            spent.set(sol(today), f"by {len(seen.wallets)} wallets")
            _chart(times, charts.by_time(seen.transactions, datetime.now(UTC)))
            _chart(kinds, charts.by_type(seen.transactions))
            _limits(limits, seen)
            _decisions(decisions, seen.decisions)
            _problems(problems, seen.plugins)

        Feed(freshness, EVERY_S, ask, show)


class _Figure:
    def __init__(self, title: str, icon: str) -> None:
        with ui.element("section").classes("sw-card"):
            with ui.element("div").classes("sw-row sw-dim"):
                ui.icon(icon).props("aria-hidden=true")
                ui.label(title)
            self._value = ui.label("-").classes("sw-figure")
            self._note = ui.label("").classes("sw-dim")

    def set(self, value: str, note: str) -> None:
        self._value.set_text(value)
        self._note.set_text(note)


def _figure(title: str, icon: str) -> _Figure:
    return _Figure(title, icon)


def _chart(element: ui.echart, options: dict[str, Any]) -> None:
    if element.options != options:
        element.options.clear()
        element.options.update(options)
        element.update()


def _spent(limits: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    day = limits["dailySpendingLimitSol"]
    return Decimal(day.get("spent", 0)) + Decimal(day.get("reserved", 0)), Decimal(day["limit"])


def _limits(place: ui.element, seen: Overview) -> None:
    place.clear()
    with place:
        if not seen.wallets:
            ui.label("No wallet yet. Make one on the Wallets page.").classes("sw-empty")
        for wallet, limits in zip(seen.wallets, seen.limits, strict=False):
            used, limit = _spent(limits)
            with ui.element("div"):
                with ui.element("div").classes("sw-row"):
                    ui.label(wallet.name)
                    ui.space()
                    ui.label(f"{plain(used)} of {plain(limit)} SOL").classes("sw-dim")
                share = float(used / limit) if limit else 1.0
                ui.linear_progress(share, show_value=False, size="6px").props("rounded")


def _decisions(place: ui.element, decisions: Sequence[Event]) -> None:
    place.clear()
    with place:
        if not decisions:
            ui.label("No agent has decided anything yet.").classes("sw-empty")
        for each in decisions:
            with ui.element("div"):
                with ui.element("div").classes("sw-row"):
                    ui.label(str(each.data.get("action") or "wait")).classes("sw-mono")
                    ui.space()
                    if each.timestamp is not None:
                        ui.label(ago(each.timestamp)).classes("sw-dim")
                ui.label(str(each.data.get("outcome", ""))[:200]).classes("sw-dim sw-text")


def _problems(place: ui.element, plugins: Plugins) -> None:
    place.clear()
    with place:
        ui.label("Plugins").classes("sw-card-title")
        ui.label(f"{len(plugins.plugins)} loaded").classes("sw-dim")
        for each in plugins.problems:
            ui.label(f"{each.plugin} of {each.distribution}: {each.detail}").classes("sw-text")
