"""The page of one wallet: balance and its history, limits, actions, stakes, schedules,
transactions.

The history has exact sources only; nothing in between is interpolated: balances polled while a page
was open (kept by this process); balances that agents observed before their decisions; and a
wallet's records, where they are only airdrops and transfers that add up to its balance to the
lamport.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import (
    Balance,
    Decision,
    Hold,
    NotFoundError,
    Pocket,
    Schedule,
    Skill,
    Stake,
    Transaction,
    Wallet,
)
from solward_dashboard.api import api
from solward_dashboard.charts import LINE_COLOUR, TEXT_COLOUR
from solward_dashboard.dialogs import (
    heading,
)
from solward_dashboard.frame import Poll, frame_of_one
from solward_dashboard.grants import CanLeave, GrantsLeft, OpenHolds
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
    Rent,
    Stakes,
)
from solward_dashboard.pages.wallets.schedules import Schedules

EVERY_S = 10.0
_RECORDS = 200
_DECISIONS = 200
# Decisions between two polls: an agent takes at most one a second.
_NEWEST = 20
_AGENTS = 4

_MAX_POINTS = 2_000
_WALLETS = 50
_SOL_COLOUR = "#0d9488"
# The network's price of one signature (docs.solana.com/transaction_fees); the total must agree.
_FEE = Decimal("0.000005")


@dataclass(frozen=True, slots=True)
class OneWallet:
    """Everything the page shows."""

    wallet: Wallet
    network: str
    balance: Balance
    limits: Mapping[str, Any]
    pockets: tuple[Pocket, ...]
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
    POLLED.add(wallet_id, Point(datetime.now(UTC), balance.sol))
    return OneWallet(
        wallet,
        health.network,
        balance,
        limits,
        pockets.pockets,
        stakes.stakes,
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
        observed = ObservedBalances()
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
                    rent = Rent(wallet, refresh)
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
            rent.show()
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
            if latest is not None:
                await rent.read(wallet_id)
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


def _history(latest: OneWallet, balances: ObservedBalances) -> tuple[Sequence[Point], str]:
    polled = POLLED.of(latest.wallet.id)
    observed = balances.add(observed_points(latest.wallet.address, latest.decisions))
    # Fewer than the limit are all there are.
    complete = (
        points_from_records(latest.wallet.created_at, latest.records, latest.balance.sol)
        if len(latest.records) < _RECORDS
        else ()
    )
    if complete:
        text = "Every change since the wallet was made, from its records; they add up exactly."
        return merged(complete, polled), text
    if observed:
        return (
            merged(observed, polled),
            "As its agents observed it before their last decisions, and as seen on this page.",
        )
    return polled, "As seen while this page was open; the dashboard keeps it until it is stopped."


def _draw(chart: ui.echart, points: Sequence[Point]) -> None:
    options = history_chart(points)
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


@dataclass(frozen=True, slots=True)
class Point:
    """A balance in SOL at a moment."""

    at: datetime
    sol: Decimal


class PolledBalances:
    """The balances that this process polled: the last points of the wallets polled last."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, deque[Point]] = OrderedDict()

    def add(self, wallet_id: str, point: Point) -> None:
        """Add a point; of equal ones in a row the first and the last are kept."""
        points = self._points.setdefault(wallet_id, deque(maxlen=_MAX_POINTS))
        self._points.move_to_end(wallet_id)
        if len(points) > 1 and points[-1].sol == points[-2].sol == point.sol:
            points.pop()
        points.append(point)
        while len(self._points) > _WALLETS:
            self._points.popitem(last=False)

    def of(self, wallet_id: str) -> tuple[Point, ...]:
        """The points of a wallet, oldest first."""
        return tuple(self._points.get(wallet_id, ()))


POLLED = PolledBalances()


class ObservedBalances:
    """The balances that agents observed, kept while a page is open: only new ones are fetched."""

    def __init__(self) -> None:
        self._points: dict[datetime, Point] = {}

    def add(self, points: Iterable[Point]) -> tuple[Point, ...]:
        """Add points; returns the newest ones, in order of time."""
        self._points.update((each.at, each) for each in points)
        for old in sorted(self._points)[:-_MAX_POINTS]:
            del self._points[old]
        return tuple(self._points[at] for at in sorted(self._points))


def observed_points(address: str, decisions: Iterable[Decision]) -> tuple[Point, ...]:
    """The balances of the wallet of this address that agents observed."""
    points = []
    for each in decisions:
        observation = each.observations
        if observation.get("walletAddress") == address and "solBalance" in observation:
            at = datetime.fromisoformat(str(observation["timestamp"]))
            points.append(Point(at, Decimal(observation["solBalance"])))
    return tuple(sorted(points, key=lambda each: each.at))


def points_from_records(
    created_at: datetime, records: Sequence[Transaction], balance: Decimal
) -> tuple[Point, ...]:
    """The whole history, from all of a wallet's records; empty where it is not exact.

    It is exact where the records are airdrops and transfers only, each with one signature's fee,
    and add up to the balance: then nobody else sent the wallet anything.

    Args:
        records: every record of the wallet, in any order.
    """
    points = [Point(created_at, Decimal(0))]
    for each in sorted(records, key=lambda record: record.timestamp):
        if each.status == "blocked" or (each.status == "failed" and each.signature is None):
            continue
        if each.status != "confirmed" or each.type not in ("airdrop", "transfer"):
            return ()
        amount = Decimal(each.details["amount"])
        change = amount if each.type == "airdrop" else -(amount + _FEE)
        points.append(Point(each.timestamp, points[-1].sol + change))
    return tuple(points) if points[-1].sol == balance else ()


def merged(*sources: Iterable[Point]) -> tuple[Point, ...]:
    """All points in order of time."""
    return tuple(sorted((each for points in sources for each in points), key=lambda p: p.at))


def history_chart(points: Sequence[Point]) -> dict[str, Any]:
    """A stepped line: a balance holds until the next known one."""
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis"},
        "grid": {"left": 8, "right": 16, "top": 16, "bottom": 8, "containLabel": True},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": TEXT_COLOUR}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "axisLabel": {"color": TEXT_COLOUR},
            "splitLine": {"lineStyle": {"color": LINE_COLOUR}},
        },
        "series": [
            {
                "name": "SOL",
                "type": "line",
                "step": "end",
                "symbol": "circle",
                "symbolSize": 4,
                "showSymbol": len(points) < 40,
                "lineStyle": {"width": 2},
                "itemStyle": {"color": _SOL_COLOUR},
                "areaStyle": {"opacity": 0.12},
                # Text: a JavaScript number would lose digits.
                "data": [[each.at.isoformat(), f"{each.sol:f}"] for each in points],
            }
        ],
    }
