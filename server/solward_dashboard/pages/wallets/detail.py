"""The page of one wallet: balance and its history, limits, actions, stakes, schedules,
transactions.

The history has exact sources only; nothing in between is interpolated: balances polled while a page
was open, and those that agents observed before their decisions, both kept by this process; and a
wallet's records, where they are only airdrops and transfers that add up to its balance to the
lamport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from nicegui import ui

from solward.client import (
    Balance,
    Decision,
    Health,
    Hold,
    Pocket,
    Reclaimable,
    Schedule,
    Skill,
    Stake,
    Transaction,
    Wallet,
)
from solward.resources.wallets import Pockets, Stakes
from solward_dashboard import charts
from solward_dashboard import parts as sw
from solward_dashboard.api import api, of_each
from solward_dashboard.charts import LINE_COLOUR, TEXT_COLOUR
from solward_dashboard.frame import Poll, frame_of_one
from solward_dashboard.grants import can_leave, grants_left, open_holds
from solward_dashboard.pages.wallets import actions, cards
from solward_dashboard.pages.wallets.schedules import Schedules

EVERY_S = 10.0
RENT_EVERY_S = 60.0
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
    decisions: tuple[Decision, ...]
    health: Health
    skills: tuple[Skill, ...]
    balance: Balance
    limits: Mapping[str, Any]
    pockets: Pockets
    stakes: Stakes
    schedules: tuple[Schedule, ...]
    records: tuple[Transaction, ...]
    waiting: tuple[Hold, ...]


async def fetch(wallet_id: str, decisions: int) -> OneWallet:
    """Everything of a wallet.

    Args:
        decisions: how many of each of its agents.
    """
    wallet = await api().wallets.get(wallet_id)
    agents = [each.id for each in await api().agents.list() if each.wallet_id == wallet_id]
    by_agent = await of_each(
        agents[:_AGENTS], lambda agent: api().agents.decisions(agent, limit=decisions)
    )
    latest: list[Any] = await asyncio.gather(
        api().health(),
        api().skills(),
        api().wallets.balance(wallet_id),
        api().wallets.limits(wallet_id),
        api().wallets.pockets(wallet_id),
        api().wallets.stakes(wallet_id),
        api().schedules.list(wallet_id),
        api().wallets.transactions(wallet_id, limit=_RECORDS),
        api().holds.list(wallet_id=wallet_id, is_open=True),
    )
    decided = tuple(each for some in by_agent.values() for each in some)
    return OneWallet(wallet, decided, *latest)


def page(wallet_id: str) -> None:
    """Built once a visitor; elements are updated in place."""
    with frame_of_one("/wallets", "Wallet", wallet_id) as one:
        current: list[Wallet] = []
        fetched: list[datetime] = []

        def wallet() -> Wallet:
            return current[0]

        head = cards.Head(wallet)
        with sw.stack("sw-wide sw-top"):
            with sw.stack():
                waiting = open_holds()
                balance = sw.card_of("Balance", cards.holdings)
                leaving = can_leave()
                limits = sw.card_of("Limits", cards.limit_bars, "limits")
                grants = grants_left()
                pockets: sw.Redrawn[Sequence[Pocket]] = sw.card_of(
                    "At risk in pockets",
                    lambda found: cards.pocket_rows(found, wallet),
                    "pockets",
                    hides=True,
                )
                rent: sw.Redrawn[Reclaimable | None] = sw.card_of(
                    "Rent that can come back",
                    lambda found: cards.rent_rows(found, wallet),
                    "rent",
                    hides=True,
                )
            with sw.card("Do something"):
                chooser, faucet = _actions(wallet)
        with sw.card("SOL over time"):
            chart = ui.echart({}).classes("sw-chart")
            chart.props('role=img aria-label="SOL balance over time" data-testid="chart"')
            source = sw.dim()
        with sw.stack("sw-wide sw-top"):
            with sw.stack():
                schedules = Schedules(wallet)
                stakes: sw.Redrawn[Sequence[Stake]] = sw.card_of(
                    "Stakes", lambda found: cards.stake_rows(found, wallet), "stakes"
                )
            recent = sw.card_of("Last transactions", cards.recent_rows, "recent")

        def show(latest: OneWallet) -> None:
            current[:] = [latest.wallet]
            head.show(latest.wallet, frozen=bool(latest.limits.get("frozen")))
            balance.show(latest.balance)
            limits.show(latest.limits)
            leaving.show(latest.limits["canLeave"])
            grants.show(latest.limits["grants"])
            waiting.show(latest.waiting)
            pockets.show(latest.pockets.pockets)
            schedules.show(latest.schedules, latest.skills)
            stakes.show(latest.stakes.stakes)
            recent.show(latest.records)
            chooser.offer(latest.skills)
            faucet.set_visibility(not latest.health.network.startswith("mainnet"))
            points, said = _history(latest)
            source.set_text(said)
            charts.draw(chart, history_chart(points))

        async def fetch_new() -> OneWallet:
            now = datetime.now(UTC)
            just_fetched = bool(fetched) and (now - fetched[-1]).total_seconds() < 2 * EVERY_S
            latest = await fetch(wallet_id, _NEWEST if just_fetched else _DECISIONS)
            fetched[:] = [now]
            return latest

        one.poll(EVERY_S, fetch_new, show, lambda latest: latest.wallet.name)
        # What can come back takes the ledger some calls.
        Poll(one.freshness, RENT_EVERY_S, lambda: cards.rent_of(wallet_id), rent.show)


def _actions(wallet: Callable[[], Wallet]) -> tuple[actions.SkillChooser, ui.tab]:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
        action_tabs = [
            (each, ui.tab(each.name))
            for each in (actions.TRANSFER, actions.TRANSFER_TOKEN, actions.SWAP, actions.AIRDROP)
        ]
        more = ui.tab("Any skill")
    with ui.tab_panels(tabs, value=action_tabs[0][1]).props("keep-alive").classes("sw-panels"):
        for action, tab in action_tabs:
            with ui.tab_panel(tab):
                actions.ActionPanel(action, wallet)
        with ui.tab_panel(more), sw.stack("sw-form"):
            chooser = actions.SkillChooser(wallet)
    return chooser, action_tabs[-1][1]


def _history(latest: OneWallet) -> tuple[Sequence[Point], str]:
    wallet, now = latest.wallet, Point(datetime.now(UTC), latest.balance.sol)
    observed = observed_points(wallet.address, latest.decisions)
    known = BALANCES.add(wallet.id, [*observed, now])
    # Fewer than the limit are all there are.
    if len(latest.records) < _RECORDS:
        whole = points_from_records(wallet.created_at, latest.records, latest.balance.sol)
        if whole:
            text = "Every change since the wallet was made, from its records; they add up exactly."
            return sorted({*whole, *known}), text
    if observed:
        text = "As its agents observed it before their last decisions, and as seen on this page."
        return known, text
    return known, "As seen while this page was open; the dashboard keeps it until it is stopped."


class Point(NamedTuple):
    """A balance in SOL at a moment."""

    at: datetime
    sol: Decimal


class Balances:
    """The balances that this process has seen: the last points of the wallets seen last."""

    def __init__(self) -> None:
        self._points: dict[str, list[Point]] = {}

    def add(self, wallet_id: str, points: Iterable[Point]) -> Sequence[Point]:
        """Add points of a wallet; returns all of them, in order of time. Of equal ones in a row the
        first and the last are kept."""
        found = sorted({*self._points.pop(wallet_id, ()), *points})
        alike = zip(found, found[1:], found[2:], strict=False)
        between = {each for before, each, after in alike if before.sol == each.sol == after.sol}
        kept = [each for each in found if each not in between][-_MAX_POINTS:]
        self._points[wallet_id] = kept
        if len(self._points) > _WALLETS:
            del self._points[next(iter(self._points))]
        return kept


BALANCES = Balances()


def observed_points(address: str, decisions: Iterable[Decision]) -> tuple[Point, ...]:
    """The balances of the wallet of this address that agents observed."""
    seen = (each.observations for each in decisions)
    return tuple(
        Point(datetime.fromisoformat(str(each["timestamp"])), Decimal(each["solBalance"]))
        for each in seen
        if each.get("walletAddress") == address and "solBalance" in each
    )


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
