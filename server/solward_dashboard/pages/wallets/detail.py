"""The page of one wallet: balance and its history, limits, actions, stakes, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from solward.client import (
    Balance,
    Decision,
    Hold,
    NotFoundError,
    Schedule,
    Skill,
    Stake,
    Transaction,
    Wallet,
)
from solward_dashboard.api import api
from solward_dashboard.dialogs import heading
from solward_dashboard.frame import frame_of_one
from solward_dashboard.grants import CanLeave, GrantsLeft, OpenHolds
from solward_dashboard.pages.wallets import history
from solward_dashboard.pages.wallets.actions import (
    AIRDROP,
    SWAP,
    TRANSFER,
    TRANSFER_TOKEN,
    ActionPanel,
    SkillChooser,
)
from solward_dashboard.pages.wallets.cards import (
    Head,
    Holdings,
    Limits,
    Pockets,
    RecentTransactions,
    Stakes,
)
from solward_dashboard.pages.wallets.schedules import Schedules
from solward_dashboard.polling import Poll

EVERY_S = 10.0
_RECORDS = 200
_DECISIONS = 200
# Decisions between two polls: an agent takes at most one a second.
_NEWEST = 20
_AGENTS = 4


@dataclass(frozen=True, slots=True)
class OneWallet:
    """Everything the page shows."""

    wallet: Wallet
    network: str
    balance: Balance
    limits: Mapping[str, Any]
    pockets: tuple[Mapping[str, Any], ...]
    stakes: tuple[Stake, ...]
    schedules: tuple[Schedule, ...]
    records: tuple[Transaction, ...]
    decisions: tuple[Decision, ...]
    skills: tuple[Skill, ...]
    waiting: tuple[Hold, ...]


async def fetch(wallet_id: str, decisions: int) -> OneWallet | None:
    """None where there is no such wallet.

    Args:
        decisions: how many of each of its agents.
    """
    try:
        wallet = await api().wallets.get(wallet_id)
    except NotFoundError:
        return None
    health, skills = await asyncio.gather(api().health(), api().skills())
    balance, limits, pockets, stakes, records, agents = await asyncio.gather(
        api().wallets.balance(wallet_id),
        api().wallets.limits(wallet_id),
        api().wallets.pockets(wallet_id),
        api().wallets.stakes(wallet_id),
        api().wallets.transactions(wallet_id, limit=_RECORDS),
        api().agents.list(),
    )
    waiting, schedules = await asyncio.gather(
        api().holds.list(wallet_id=wallet_id, is_open=True),
        api().schedules.list(wallet_id),
    )
    agent_ids = [each.id for each in agents if each.wallet_id == wallet_id][:_AGENTS]
    by_agent = await asyncio.gather(
        *(api().agents.decisions(each, limit=decisions) for each in agent_ids)
    )
    newest = tuple(each for found in by_agent for each in found)
    history.POLLED.add(wallet_id, history.Point(datetime.now(UTC), balance.sol))
    return OneWallet(
        wallet,
        health.network,
        balance,
        limits,
        pockets,
        stakes,
        schedules,
        records,
        newest,
        skills,
        waiting,
    )


def page(wallet_id: str) -> None:
    """Built once a visitor; elements are updated in place."""
    with frame_of_one("/wallets", "Wallet") as (freshness, title):
        current: list[Wallet] = []
        observed = history.ObservedBalances()
        fetched: list[datetime] = []
        ui.link("All wallets", "/wallets").classes("sw-back")
        missing = ui.label("There is no such wallet.").classes("sw-empty")
        missing.set_visibility(False)

        def wallet() -> Wallet | None:
            return current[0] if current else None

        async def refresh() -> None:
            await poll.refresh()

        with ui.element("div").classes("sw-stack") as content:
            head = Head(wallet, refresh)
            with ui.element("div").classes("sw-wide sw-top"):
                with ui.element("div").classes("sw-stack"):
                    waiting = OpenHolds()
                    holdings = Holdings()
                    leaving = CanLeave()
                    limits = Limits()
                    grants = GrantsLeft()
                    pockets = Pockets()
                with ui.element("section").classes("sw-card"):
                    heading("Do something")
                    chooser, faucet = _actions(wallet, refresh)
            with ui.element("section").classes("sw-card"):
                heading("SOL over time")
                chart = ui.echart({}).classes("sw-chart")
                chart.props('role=img aria-label="SOL balance over time" data-testid="chart"')
                source = ui.label().classes("sw-dim")
            with ui.element("div").classes("sw-wide sw-top"):
                with ui.element("div").classes("sw-stack"):
                    schedules = Schedules(wallet, refresh)
                    stakes = Stakes(wallet, refresh)
                recent = RecentTransactions()
        content.set_visibility(False)

        def show(latest: OneWallet | None) -> None:
            content.set_visibility(latest is not None)
            missing.set_visibility(latest is None)
            title.show(wallet_id if latest is None else latest.wallet.name)
            if latest is None:
                return
            current[:] = [latest.wallet]
            head.show(latest.wallet, frozen=bool(latest.limits.get("frozen")))
            holdings.show(latest.balance)
            limits.show(latest.limits)
            leaving.show(latest.limits["canLeave"])
            grants.show(latest.limits["grants"])
            waiting.show(latest.waiting)
            pockets.show(latest.pockets, latest.wallet, refresh)
            schedules.show(latest.schedules, latest.skills)
            stakes.show(latest.stakes)
            recent.show(latest.records)
            chooser.offer(latest.skills)
            faucet.set_visibility(not latest.network.startswith("mainnet"))
            points, text = _history(latest, observed)
            source.set_text(text)
            _draw(chart, points)

        async def fetch_new() -> OneWallet | None:
            now = datetime.now(UTC)
            just_fetched = bool(fetched) and (now - fetched[-1]).total_seconds() < 2 * EVERY_S
            latest = await fetch(wallet_id, _NEWEST if just_fetched else _DECISIONS)
            fetched[:] = [now]
            return latest

        poll = Poll(freshness, EVERY_S, fetch_new, show)


def _actions(wallet: Any, refresh: Any) -> tuple[SkillChooser, ui.tab]:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
        action_tabs = [
            (each, ui.tab(each.name)) for each in (TRANSFER, TRANSFER_TOKEN, SWAP, AIRDROP)
        ]
        more = ui.tab("Any skill")
    with ui.tab_panels(tabs, value=action_tabs[0][1]).props("keep-alive").classes("sw-panels"):
        for action, tab in action_tabs:
            with ui.tab_panel(tab):
                ActionPanel(action, wallet, refresh)
        with ui.tab_panel(more), ui.element("div").classes("sw-form"):
            chooser = SkillChooser(wallet, refresh)
    return chooser, action_tabs[-1][1]


def _history(
    latest: OneWallet, balances: history.ObservedBalances
) -> tuple[Sequence[history.Point], str]:
    polled = history.POLLED.of(latest.wallet.id)
    observed = balances.add(history.observed_points(latest.wallet.address, latest.decisions))
    # Fewer than the limit are all there are.
    complete = (
        history.points_from_records(latest.wallet.created_at, latest.records, latest.balance.sol)
        if len(latest.records) < _RECORDS
        else ()
    )
    if complete:
        text = "Every change since the wallet was made, from its records; they add up exactly."
        return history.merged(complete, polled), text
    if observed:
        return (
            history.merged(observed, polled),
            "As its agents observed it before their last decisions, and as seen on this page.",
        )
    return polled, "As seen while this page was open; the dashboard keeps it until it is stopped."


def _draw(chart: ui.echart, points: Sequence[history.Point]) -> None:
    options = history.chart(points)
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()
