"""One wallet: what it holds and held, what it may still spend, and what it can be made to do."""

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
    NotFoundError,
    Skill,
    Stake,
    Transaction,
    Wallet,
)
from solward_dashboard.api import api
from solward_dashboard.frame import frame
from solward_dashboard.pages.wallets import history
from solward_dashboard.pages.wallets.actions import (
    AIRDROP,
    SWAP,
    TRANSFER,
    ActionPanel,
    SkillChooser,
)
from solward_dashboard.pages.wallets.cards import Head, Holdings, Limits, Recent, Stakes
from solward_dashboard.polling import Feed

EVERY_S = 10.0
_RECORDS = 200
_DECISIONS = 200
# An agent decides at most once a second.
_NEWEST = 20
_AGENTS = 4


@dataclass(frozen=True, slots=True)
class OneWallet:
    """One answer to everything the page shows; `wallet` is None where there is none."""

    wallet: Wallet
    network: str
    balance: Balance
    limits: Mapping[str, Any]
    stakes: tuple[Stake, ...]
    records: tuple[Transaction, ...]
    decisions: tuple[Decision, ...]
    skills: tuple[Skill, ...]


async def ask(wallet_id: str, decisions: int) -> OneWallet | None:
    """All of it at once; None where there is no such wallet.

    Args:
        decisions: of how many decisions of each of its agents.
    """
    try:
        wallet = await api().wallets.get(wallet_id)
    except NotFoundError:
        return None
    health, skills = await asyncio.gather(api().health(), api().skills())
    balance, limits, stakes, records, agents = await asyncio.gather(
        api().wallets.balance(wallet_id),
        api().wallets.limits(wallet_id),
        api().wallets.stakes(wallet_id),
        api().wallets.transactions(wallet_id, limit=_RECORDS),
        api().agents.list(),
    )
    its = [each.id for each in agents if each.wallet_id == wallet_id][:_AGENTS]
    decided = await asyncio.gather(*(api().agents.decisions(each, limit=decisions) for each in its))
    latest = tuple(each for several in decided for each in several)
    history.SEEN.add(wallet_id, history.Point(datetime.now(UTC), balance.sol))
    return OneWallet(wallet, health.network, balance, limits, stakes, records, latest, skills)


def page(wallet_id: str) -> None:
    """Built once a visitor; what changes is changed in place."""
    with frame("/wallets") as freshness:
        known: list[Wallet] = []
        trail = history.Observed()
        asked: list[datetime] = []
        ui.link("All wallets", "/wallets").classes("sw-back")
        missing = ui.label("There is no such wallet.").classes("sw-empty")
        missing.set_visibility(False)

        def wallet() -> Wallet | None:
            return known[0] if known else None

        async def again() -> None:
            await feed.refresh()

        with ui.element("div").classes("sw-stack") as content:
            head = Head(wallet, again)
            with ui.element("div").classes("sw-wide"):
                with ui.element("div").classes("sw-stack"):
                    holdings = Holdings()
                    limits = Limits()
                with ui.element("section").classes("sw-card"):
                    ui.label("Do something").classes("sw-card-title")
                    chooser, faucet = _doing(wallet, again)
            with ui.element("section").classes("sw-card"):
                ui.label("SOL over time").classes("sw-card-title")
                chart = ui.echart({}).classes("sw-chart")
                chart.props('role=img aria-label="SOL balance over time" data-testid="chart"')
                what = ui.label().classes("sw-dim")
            with ui.element("div").classes("sw-wide sw-top"):
                stakes = Stakes(wallet, again)
                recent = Recent()
        content.set_visibility(False)

        def show(seen: OneWallet | None) -> None:
            content.set_visibility(seen is not None)
            missing.set_visibility(seen is None)
            if seen is None:
                return
            known[:] = [seen.wallet]
            head.show(seen.wallet, frozen=bool(seen.limits.get("frozen")))
            holdings.show(seen.balance)
            limits.show(seen.limits)
            stakes.show(seen.stakes)
            recent.show(seen.records)
            chooser.offer(seen.skills)
            faucet.set_visibility(not seen.network.startswith("mainnet"))
            points, said = _history(seen, trail)
            what.set_text(said)
            _draw(chart, points)

        async def all_or_newest() -> OneWallet | None:
            now = datetime.now(UTC)
            recent = bool(asked) and (now - asked[-1]).total_seconds() < 2 * EVERY_S
            seen = await ask(wallet_id, _NEWEST if recent else _DECISIONS)
            asked[:] = [now]
            return seen

        feed = Feed(freshness, EVERY_S, all_or_newest, show)


def _doing(wallet: Any, done: Any) -> tuple[SkillChooser, ui.tab]:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
        made = [(each, ui.tab(each.name)) for each in (TRANSFER, SWAP, AIRDROP)]
        more = ui.tab("Any skill")
    with ui.tab_panels(tabs, value=made[0][1]).props("keep-alive").classes("sw-panels"):
        for action, tab in made:
            with ui.tab_panel(tab):
                ActionPanel(action, wallet, done)
        with ui.tab_panel(more), ui.element("div").classes("sw-form"):
            chooser = SkillChooser(wallet, done)
    return chooser, made[2][1]


def _history(seen: OneWallet, trail: history.Observed) -> tuple[Sequence[history.Point], str]:
    polled = history.SEEN.of(seen.wallet.id)
    observed = trail.add(history.observed(seen.wallet.address, seen.decisions))
    # Fewer than were asked for are all there are.
    whole = (
        history.rebuilt(seen.wallet.created_at, seen.records, seen.balance.sol)
        if len(seen.records) < _RECORDS
        else ()
    )
    if whole:
        said = "Every change since the wallet was made, from its records; they add up exactly."
        return history.merged(whole, polled), said
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
