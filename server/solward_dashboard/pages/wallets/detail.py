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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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
    Schedule,
    ScheduleRun,
    Skill,
    Stake,
    Transaction,
    Wallet,
)
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_dashboard.api import api
from solward_dashboard.charts import LINE_COLOUR, TEXT_COLOUR
from solward_dashboard.dialogs import (
    confirmed,
    heading,
    notify_error,
    result_of,
    submit_buttons,
    titled,
)
from solward_dashboard.forms.form import FormError, schema_form
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
from solward_dashboard.wording import ago, day, local_times

EVERY_S = 10.0
_RECORDS = 200
_DECISIONS = 200
# Decisions between two polls: an agent takes at most one a second.
_NEWEST = 20
_AGENTS = 4

_RUNS = 20
# Of `client.schedules.create`, where they have other names than the form's fields.
_ARGUMENTS = {"timeZone": "time_zone", "maxRuns": "max_runs"}
_CLASSES = {"active": "sw-confirmed", "paused": "sw-failed", "ended": "sw-idle"}

CurrentWallet = Callable[[], Wallet | None]
Refresh = Callable[[], Awaitable[None]]
Change = Callable[[str, str], Awaitable[Any]]

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
    POLLED.add(wallet_id, Point(datetime.now(UTC), balance.sol))
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


class Schedules:
    """Each with its state, when it runs next, and what can be done with it."""

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._shown: tuple[dict[str, Any], ...] | None = None
        self._skills: tuple[Skill, ...] = ()
        with ui.element("section").classes("sw-card").props('data-testid="schedules"'):
            with ui.element("div").classes("sw-row"):
                heading("Schedules")
                ui.space()
                new = ui.button("New schedule", color=None, on_click=self._create)
                new.props('outline no-caps padding="2px 10px" data-testid="new-schedule"')
                new.classes("sw-needs-policy")
            self._list = ui.element("div").classes("sw-list")

    def show(self, schedules: Sequence[Schedule], skills: Sequence[Skill]) -> None:
        self._skills = tuple(skills)
        shown = tuple(dict(each.raw) for each in schedules)
        if shown == self._shown:
            return
        self._shown = shown
        self._list.clear()
        with self._list:
            if not schedules:
                ui.label("No skill runs on this wallet by itself.").classes("sw-dim")
            for each in schedules:
                self._row(each)

    def _row(self, schedule: Schedule) -> None:
        with ui.element("div").classes("sw-row"):
            ui.badge(schedule.status).classes(_CLASSES.get(schedule.status, "sw-idle"))
            ui.label(schedule.name).classes("sw-text")
            ui.label(f"{schedule.skill}, {schedule.when}").classes("sw-dim")
            ui.space()
            self._button(schedule, "Runs", self._runs, "")
            if schedule.status == "active":
                self._button(schedule, "Run now", self._run_now)
                self._button(schedule, "Pause", self._pause, "sw-needs-operate")
            else:
                self._button(schedule, "Resume", self._resume)
            self._button(schedule, "Delete", self._delete)
        ui.label(_state_text(schedule)).classes("sw-dim")

    def _button(
        self,
        schedule: Schedule,
        verb: str,
        act: Callable[[Schedule], Awaitable[None]],
        needs: str = "sw-needs-policy",
    ) -> None:
        button = ui.button(verb, color=None).props('outline no-caps padding="2px 10px"')
        button.props["aria-label"] = f"{verb} of {schedule.name}"
        button.classes(needs)
        button.on_click(lambda: act(schedule))

    async def _pause(self, schedule: Schedule) -> None:
        # A stop is never asked twice.
        await self._do(api().schedules.pause, schedule, "is paused")

    async def _run_now(self, schedule: Schedule) -> None:
        details = [*_terms(schedule), "Beside its due times; it counts like any other run."]
        if await confirmed(f"Run {schedule.name} now?", details, "Run now"):
            await self._do(api().schedules.run, schedule, "begins; Runs shows what becomes of it")

    async def _resume(self, schedule: Schedule) -> None:
        if await confirmed(f"Resume {schedule.name}?", _terms(schedule), "Resume"):
            await self._do(api().schedules.resume, schedule, "is active")

    async def _delete(self, schedule: Schedule) -> None:
        details = ["Its runs go, its transactions stay."]
        if await confirmed(f"Delete {schedule.name}?", details, "Delete"):
            await self._do(api().schedules.delete, schedule, "is deleted")

    async def _do(self, change: Change, schedule: Schedule, done: str) -> None:
        try:
            await change(schedule.wallet_id, schedule.id)
            ui.notify(f"{schedule.name} {done}", type="positive")
        except SolwardError as error:
            notify_error(error)
        await self._refresh()

    async def _runs(self, schedule: Schedule) -> None:
        try:
            found = await api().schedules.runs(schedule.wallet_id, schedule.id, limit=_RUNS)
        except SolwardError as error:
            notify_error(error)
            return
        with titled(f"Runs of {schedule.name}") as dialog:
            with ui.element("div").classes("sw-list").props('data-testid="runs"'):
                if not found:
                    ui.label("It was not due yet.").classes("sw-dim")
                for each in found:
                    _run(each)
            with ui.element("div").classes("sw-row sw-end"):
                ui.button("Close", on_click=dialog.close).props("flat no-caps")
        await result_of(dialog)

    async def _create(self) -> None:
        wallet = self._wallet()
        fields = None if wallet is None else await _new_fields(wallet, self._skills)
        if wallet is None or fields is None:
            return
        details = [f"{name}: {_value_text(value)}" for name, value in fields.items()]
        question = f"Run {fields['skill']} on {wallet.name} by itself?"
        if not await confirmed(question, details, "Create"):
            return
        try:
            made = await api().schedules.create(wallet.id, **fields)
            ui.notify(f"{made.name} {next_run(made)}", type="positive")
        except SolwardError as error:
            notify_error(error)
        await self._refresh()


async def _new_fields(wallet: Wallet, skills: Sequence[Skill]) -> dict[str, Any] | None:
    """The fields of a new schedule; None where the user cancels."""
    with titled(f"New schedule of {wallet.name}") as dialog:
        form = schema_form(_schema([each.name for each in skills]))

        def save() -> None:
            with suppress(FormError):
                values = form.values()
                try:
                    values["parameters"] = jsontext.read(values.get("parameters") or "{}")
                except ValueError as error:
                    form.show_error(f"parameters: no JSON: {error}")
                    return
                dialog.submit(values)

        submit_buttons(dialog, "Continue", save)
    values: dict[str, Any] | None = await result_of(dialog)
    if values is None:
        return None
    return {_ARGUMENTS.get(name, name): value for name, value in values.items()}


def _schema(skills: Sequence[str]) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "properties": {
            "name": {**text, "maxLength": 100},
            "skill": {"type": "string", "enum": list(skills)},
            "parameters": {"type": "string", "description": "Of the skill, as a JSON object."},
            "every": {**text, "description": "1m to 30d, such as 1h; or cron."},
            "cron": {**text, "description": "Five fields, such as 0 9 1 * *; or every."},
            "timeZone": {**text, "description": "Of cron, such as Europe/Berlin; else UTC."},
            "maxRuns": {"type": "integer", "minimum": 1, "description": "Ends after so many."},
            "missed": {"type": "string", "enum": ["skip", "once"], "default": "skip"},
        },
        "required": ["name", "skill"],
        "additionalProperties": False,
    }


def _state_text(schedule: Schedule) -> str:
    if schedule.reason is not None:
        return local_times(schedule.reason)
    failed = f", the last {schedule.failures} refused or failed" if schedule.failures else ""
    return f"{next_run(schedule).capitalize()}; {schedule.runs} runs{failed}"


def next_run(schedule: Schedule) -> str:
    """When an active schedule runs next, after its name."""
    at = schedule.next_run_at
    return "runs now" if schedule.is_running or at is None else f"runs next {day(at)}"


def _terms(schedule: Schedule) -> list[str]:
    return [
        f"{schedule.skill} {jsontext.dumps(dict(schedule.parameters))}",
        schedule.when,
        f"As {schedule.made_by}",
    ]


def _run(run: ScheduleRun) -> None:
    with ui.element("div").classes("sw-row"):
        ui.badge(run.status).props("outline")
        ui.label(ago(run.due_at)).classes("sw-dim")
        ui.label(local_times(run.text)).classes("sw-text")


def _value_text(value: Any) -> str:
    return jsontext.dumps(value) if isinstance(value, dict) else str(value)


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
