"""The overview: holds, causes of refusals, and what can leave; then everything else.

Its numbers are exact sums over all wallets, which the service makes. Lists are rebuilt when they
change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Agent, Decision, Health, Hold, NotFoundError, Plugins
from solward.resources.totals import AssetTotal, BalanceTotals, DayTotals, RefusalCause
from solward.solana.token_list import token_list
from solward.types.guardrail import SOL
from solward.types.money import from_units
from solward_dashboard import charts
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.frame import Poll, frame
from solward_dashboard.leaving import over_text, rule_text
from solward_dashboard.links import address_of, list_address, show_thing
from solward_dashboard.pages.holds import DisplayContext, hold_cards
from solward_dashboard.wording import (
    People,
    ago,
    counted,
    cut,
    dollars,
    exact,
    local_times,
    short,
    sol,
)

EVERY_S = 5.0
BALANCES_EVERY_S = 30.0
_AGENTS = 10
DECISIONS = 6
CAUSES = 8
HOLDS = 3
SHOWN = 10
"""Maximum number of assets in the list of balances."""
_MOST_HOLDS = 100
_NO_LEDGER = "the ledger does not answer"


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the page shows but balances; each decision has the name of its agent."""

    health: Health
    day: DayTotals
    decisions: Sequence[tuple[str, Decision]]
    plugins: Plugins
    holds: tuple[Hold, ...]
    context: DisplayContext


async def fetch() -> Overview:
    """Fetch the data of the page: sums over all wallets, and decisions of some agents."""
    health, day, agents, plugins, holds, people = await asyncio.gather(
        api().health(),
        api().day_totals(),
        api().agents.list(),
        api().plugins(),
        api().holds.list(is_open=True, limit=_MOST_HOLDS),
        People.ask(),
    )
    deciding = running_first(agents)[:_AGENTS]
    decisions = await asyncio.gather(*map(_fetch_decisions, deciding))
    return Overview(
        health,
        day,
        latest_decisions(zip(deciding, decisions, strict=True)),
        plugins,
        tuple(each for each in holds if each.state == "held"),
        DisplayContext(people, token_list(health.network)),
    )


async def _fetch_decisions(agent: Agent) -> tuple[Decision, ...]:
    try:
        return await api().agents.decisions(agent.id, limit=DECISIONS)
    except NotFoundError:
        # Deleted since the agents were listed.
        return ()


def running_first(agents: Sequence[Agent]) -> list[Agent]:
    """Return the agents, running ones first."""
    return sorted(agents, key=lambda each: each.status != "running")


def latest_decisions(
    by_agent: Iterable[tuple[Agent, Sequence[Decision]]], count: int = DECISIONS
) -> Sequence[tuple[str, Decision]]:
    """Return the newest decisions of all agents, newest first, with the names of their agents."""
    everything = [(agent.name, each) for agent, found in by_agent for each in found]
    return sorted(everything, key=lambda each: each[1].timestamp, reverse=True)[:count]


def page() -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame("/") as freshness:
        with sw.stack("sw-grid"):
            service = _Figure("Service", "favorite")
            network = _Figure("Network", "lan")
            agents = _Figure("Agents running", "smart_toy")
            spent = _Figure("Spent in 24 hours", "payments")
            blocked = _Figure("Refused in 24 hours", "block")
        waiting = WaitingHolds()
        with sw.stack("sw-wide sw-top"):
            refused = sw.card_of(
                "What was refused, and why",
                _show_causes,
                "refusals",
                ("All refusals", "/transactions?status=blocked"),
            )
            held = "Balances, and what can leave in 24 hours"
            balances = sw.card_of(held, _show_balances, "exposure", ("All wallets", "/wallets"))
        with sw.stack("sw-wide"):
            times = _Chart("Transactions in 24 hours")
            kinds = _Chart("Transactions in 24 hours by type")
        with sw.stack("sw-wide"):
            problems = sw.card_of("Plugins", _problems, "plugins", ("All plugins", "/plugins"))
            decisions = sw.card_of("Recent decisions", _decisions, more=("All agents", "/agents"))

        def show(latest: Overview) -> None:
            health, day = latest.health, latest.day
            good = health.status == "ok"
            service.set("ok" if good else "degraded", f"version {health.version}", bad=not good)
            answers = f"slot {health.slot:,}" if health.ledger_healthy else _NO_LEDGER
            network.set(health.network, answers, bad=not health.ledger_healthy)
            running, total = health.agents["running"], health.agents["total"]
            agents.set(str(running), f"of {total}" if total else "none created yet")
            worth = dollars(day.spent_sol, day.prices.get(SOL))
            spent.set(sol(day.spent_sol), f"{worth} by {counted(day.wallets, 'wallet')}".strip())
            most = next(iter(day.by_rule), None)
            mostly = "" if most is None else f"mostly by {most}: {day.by_rule[most]:,}"
            blocked.set(f"{day.refused:,}", mostly or "nothing was refused")
            waiting.show(latest.holds, latest.context)
            refused.show((day, latest.context))
            times.show(charts.time_chart(day.hours), day)
            kinds.show(charts.type_chart(day.types), day)
            decisions.show(latest.decisions)
            problems.show(latest.plugins)

        Poll(freshness, EVERY_S, fetch, show)
        Poll(freshness, BALANCES_EVERY_S, fetch_balances, balances.show)


class _Figure:
    def __init__(self, title: str, icon: str) -> None:
        with sw.card():
            with sw.row("sw-dim"):
                ui.icon(icon).props("aria-hidden=true")
                ui.label(title)
            self._value = sw.text("-", "sw-figure", testid=f"figure-{icon}")
            # It has the height of a line from the start, so that the page does not jump.
            self._note = sw.dim("\N{NO-BREAK SPACE}")

    def set(self, value: str, note: str, *, bad: bool = False) -> None:
        self._value.set_text(value)
        self._note.set_text(note)
        sw.set_class(self._value, "sw-bad", bad)


class _Chart:
    def __init__(self, title: str) -> None:
        with sw.card():
            sw.heading(title)
            self._chart = ui.echart({}).classes("sw-chart").props("role=img")
        self._title = title

    def show(self, options: dict[str, Any], day: DayTotals) -> None:
        if charts.draw(self._chart, options):
            self._chart.props["aria-label"] = f"{self._title}. {charts.summary_text(day.types)}"


def _problems(plugins: Plugins) -> None:
    wrong = counted(len(plugins.problems), "problem") if plugins.problems else "no problems"
    sw.dim(f"{len(plugins.plugins)} loaded, {wrong}")
    for each in plugins.problems:
        with ui.element("div"):
            sw.text(f"{each.plugin} of {each.distribution or 'no distribution'}")
            sw.dim(f"{each.code}: {each.detail}", "sw-text sw-bad")


class WaitingHolds:
    """A list of the first holds to decide on, hidden if there are none."""

    def __init__(self) -> None:
        with sw.marked(ui.element("section").classes("sw-stack"), "waits") as self._card:
            with sw.row():
                self._title = sw.heading()
                ui.space()
                ui.link("All approvals", "/holds").classes("sw-more")
            self._cards = hold_cards("", "waiting", compact=True)
            self._more = ui.link("", "/holds").classes("sw-more")
        self._card.set_visibility(False)

    def show(self, holds: Sequence[Hold], context: DisplayContext) -> None:
        """Show the holds that expire first."""
        self._card.set_visibility(bool(holds))
        count = len(holds)
        self._title.set_text(f"{counted(count, 'transaction')} to approve or deny")
        self._cards.show((sorted(holds, key=lambda each: each.expires_at)[:HOLDS], context))
        self._more.set_text(f"and {count - HOLDS} more")
        self._more.set_visibility(count > HOLDS)


def _show_causes(shown: tuple[DayTotals, DisplayContext]) -> None:
    day, context = shown
    sw.show_list(
        day.causes[:CAUSES],
        lambda each: _show_cause(each, context),
        "Nothing was refused in 24 hours.",
    )
    left = day.refused - sum(each.count for each in day.causes[:CAUSES])
    if left:
        sw.dim(f"and {counted(left, 'refusal')} of older causes in 24 hours")


def _show_cause(cause: RefusalCause, context: DisplayContext) -> None:
    """Show the refusals of one cause, with the numbers or else the reason of the newest."""
    people, numbers = context.people, cause.numbers or {}
    with sw.row("sw-refusal"):
        ui.badge(cause.rule).classes("sw-blocked").props["aria-label"] = rule_text(cause.rule)
        filters = {"status": "blocked", "rule": cause.rule, "wallet": cause.wallet_id}
        same = list_address("/transactions", **filters)
        ui.link(counted(cause.count, "time"), same).classes("sw-strong")
        ui.link("the last", address_of(f"transaction:{cause.transaction_id}"))
        sw.Age(cause.timestamp).classes("sw-dim")
        known = {"asked", "limit"} <= numbers.keys()
        why = over_text(numbers, context.tokens) if known else cut(local_times(cause.reason))
        wallet, asked = people.wallet(cause.wallet_id), people.called(cause.principal)
        sw.text(f"{wallet}, asked by {asked}: {why}")


async def fetch_balances() -> tuple[BalanceTotals, Mapping[str, Decimal], People]:
    """Fetch the sums of balances with the parts that can leave, prices, and names."""
    totals, day, people = await asyncio.gather(
        api().balance_totals(), api().day_totals(), People.ask()
    )
    return totals, day.prices, people


def _show_balances(found: tuple[BalanceTotals, Mapping[str, Decimal], People]) -> None:
    """Show the balances of the first `SHOWN` assets, and the part of each that can leave."""
    totals, prices, people = found
    most = "the maximum that all agents, keys and schedules together could move if compromised"
    across = f"Across {counted(totals.wallets, 'wallet')}"
    sw.dim(f"{across}: {most}. Your own actions are not counted.")
    sw.Age(totals.read_at, lambda moment: f"Balances read {ago(moment)}").classes("sw-dim sw-text")
    if totals.not_counted:
        names = cut(", ".join(totals.not_counted))
        words = counted(len(totals.not_counted), "wallet")
        sw.text(f"Not counted: {words} that cannot be read now: {names}", "sw-bad sw-text")
    for each in totals.assets[:SHOWN]:
        _show_asset(each, prices.get(each.asset))
    more = len(totals.assets[SHOWN:]) + totals.more
    if more:
        sw.dim(f"The pages of the wallets have {counted(more, 'more token')}.")
    if totals.others.unbounded or totals.others.dollars:
        with ui.element("div"):
            sw.text("Any other token", "sw-strong")
            sw.text(leaving_text(totals.others, ""), f"{_colour(totals.others)} sw-text")
    if totals.through:
        _show_unlimited(totals, people)


def _show_unlimited(totals: BalanceTotals, people: People) -> None:
    """Show who may swap any amount, each with the link to the grant that would limit it."""
    with sw.marked(sw.stack(), "through"):
        sw.text("They have no grants, so any amount of a token may be swapped by:", "sw-bad")
        for who in totals.through:
            with sw.row():
                if who.startswith("schedule:"):
                    sw.text(people.called(who))
                else:
                    show_thing(who, people)
                grant = ui.link("Add a grant", list_address("/policy", grant=who))
                grant.classes(sw.POLICY).props["aria-label"] = f"Add a grant: {people.called(who)}"
        if totals.through_more:
            sw.dim(f"and {counted(totals.through_more, 'other')}")


def _show_asset(each: AssetTotal, price: Decimal | None) -> None:
    name = each.symbol or short(each.asset)
    held = from_units(each.held, each.decimals)
    with sw.marked(ui.element("div"), f"asset-{name}"):
        with sw.row():
            sw.text(name, "sw-strong")
            if each.symbol not in (SOL, None):
                sw.dim(short(each.asset), "sw-mono")
            ui.space()
            sw.text(exact(held) + dollars(held, price), "sw-number sw-strong")
        if each.wrapped:
            sw.dim(f"including {exact(from_units(each.wrapped, each.decimals))} wrapped SOL")
        sw.text(leaving_text(each, name, price), f"sw-text {_colour(each)}")


def _colour(each: AssetTotal) -> str:
    return "sw-bad" if each.unbounded else "sw-dim"


def leaving_text(each: AssetTotal, name: str, price: Decimal | None = None) -> str:
    """Return what can leave of an asset: `all 46 SOL`, or less; and why, if nothing bounds it."""
    worst = from_units(each.at_worst, each.decimals)
    if each.held and each.at_worst == each.held:
        text = f"all {exact(worst)} {name}"
    elif each.held and each.at_worst:
        text = f"at most {exact(worst)} {name}{dollars(worst, price)}"
    elif each.dollars and not each.held:
        text = f"at most {exact(each.dollars)} dollars' worth"
    else:
        text = "nothing"
    if not each.unbounded:
        return f"{text} can leave"
    why = f"not bounded in {counted(each.unbounded, 'wallet')}: {each.reason}"
    return f"{text} can leave, {why}" if each.held else why


def _show_empty(words: str, link: str, path: str) -> None:
    with sw.stack("sw-empty"):
        ui.label(words)
        ui.link(link, path)


def _decisions(decisions: Sequence[tuple[str, Decision]]) -> None:
    if not decisions:
        nothing = "No agent has decided anything yet."
        _show_empty(nothing, "Create and start an agent on the Agents page", "/agents")
    for agent, each in decisions:
        with ui.element("div"):
            with sw.row():
                sw.text(agent, "sw-strong sw-text")
                ui.space()
                sw.Age(each.timestamp).classes("sw-dim")
            # One line for each text keeps the list's height.
            sw.text(cut((each.action or "wait").removesuffix("({})")), "sw-mono sw-cut")
            sw.text(cut(local_times(each.outcome)), "sw-dim sw-cut")
