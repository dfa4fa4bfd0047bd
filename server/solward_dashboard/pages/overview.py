"""The overview: holds, refusals with reasons, and what can leave; then everything else.

Lists are rebuilt when they change. The sums of what all wallets hold of each asset, and of what can
leave in 24 hours, are exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import (
    Agent,
    Balance,
    Decision,
    Health,
    Hold,
    Judged,
    NotFoundError,
    Plugins,
    Refusals,
    Transaction,
    Wallet,
)
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward_dashboard import charts
from solward_dashboard import parts as sw
from solward_dashboard.api import api, fetch_each
from solward_dashboard.frame import Poll, frame
from solward_dashboard.leaving import leaving_texts, number_list, rule_text
from solward_dashboard.links import address_of
from solward_dashboard.pages.holds import DisplayContext, hold_cards
from solward_dashboard.pages.wallets import Holding, fetch_holding, raise_if_all
from solward_dashboard.wording import People, counted, cut, exact, local_times, short, sol

EVERY_S = 5.0
EXPOSURE_EVERY_S = 30.0
# Maximum number of transactions that one request returns.
TRANSACTIONS = 500
WALLETS = 10
_AGENTS = 10
DECISIONS = 6
REFUSALS = 6
HOLDS = 3
EXPOSED = 25
"""Maximum number of wallets whose balances are fetched: each takes a request to the ledger."""
SHOWN = 10
"""Maximum number of assets in the list of balances."""
_MOST_HOLDS = 100
_SOL, _COSTS, _OTHERS = "SOL", "COSTS", "*"
_NO_LEDGER = "the ledger does not answer"


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the page shows; each decision has the name of its agent.

    Attributes:
        limits: limits of some wallets, by the wallets' names (`GET /wallets/:id/limits`).
    """

    health: Health
    wallets: int
    limits: Sequence[tuple[str, Mapping[str, Any]]]
    transactions: tuple[Transaction, ...]
    decisions: Sequence[tuple[str, Decision]]
    plugins: Plugins
    refusals: Refusals
    holds: tuple[Hold, ...]
    context: DisplayContext

    @property
    def spent(self) -> Decimal:
        """The SOL that the wallets of `limits` spent; reserved amounts count as spent."""
        days = [each["dailySpendingLimitSol"] for _, each in self.limits]
        used = (Decimal(day.get(name, 0)) for day in days for name in ("spent", "reserved"))
        return sum(used, Decimal(0))

    @property
    def spent_by(self) -> str:
        """The wallets that `spent` covers, in words."""
        if self.wallets > len(self.limits):
            return f"by the {len(self.limits)} most active of {self.wallets:,} wallets"
        return "by 1 wallet" if self.wallets == 1 else f"by {self.wallets} wallets"


async def fetch() -> Overview:
    """Fetch the data of the page: limits of the most active wallets, decisions of some agents."""
    health, wallets, transactions, agents, plugins = await asyncio.gather(
        api().health(),
        api().wallets.list(),
        api().transactions.list(limit=TRANSACTIONS),
        api().agents.list(),
        api().plugins(),
    )
    refusals, holds, people = await asyncio.gather(
        api().transactions.refusals(limit=REFUSALS),
        api().holds.list(is_open=True, limit=_MOST_HOLDS),
        People.ask(),
    )
    active = most_active(wallets, transactions)[:WALLETS]
    deciding = running_first(agents)[:_AGENTS]
    limits, decisions = await asyncio.gather(
        asyncio.gather(*(api().wallets.limits(each.id) for each in active)),
        asyncio.gather(*map(_fetch_decisions, deciding)),
    )
    return Overview(
        health,
        len(wallets),
        [(each.name, found) for each, found in zip(active, limits, strict=True)],
        transactions,
        latest_decisions(zip(deciding, decisions, strict=True)),
        plugins,
        refusals,
        tuple(each for each in holds if each.state == "held"),
        DisplayContext(people, token_list(health.network)),
    )


async def _fetch_decisions(agent: Agent) -> tuple[Decision, ...]:
    try:
        return await api().agents.decisions(agent.id, limit=DECISIONS)
    except NotFoundError:
        # Deleted since the agents were listed.
        return ()


def most_active(wallets: Sequence[Wallet], transactions: Sequence[Transaction]) -> list[Wallet]:
    """Return the wallets of the newest transactions, filled up with the oldest, by age."""
    newest = list(dict.fromkeys(each.wallet_id for each in transactions))
    place = {wallet_id: at for at, wallet_id in enumerate(newest)}
    chosen = sorted(wallets, key=lambda each: place.get(each.id, len(place)))[:WALLETS]
    # Ordered by age, so that bars do not swap places with every transaction.
    return sorted(chosen, key=lambda each: (each.created_at, each.id))


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
                _show_refusals,
                "refusals",
                ("All transactions", "/transactions"),
            )
            held = "Balances, and what can leave in 24 hours"
            exposed = sw.card_of(held, _show_exposures, "exposure", ("All wallets", "/wallets"))
        with sw.stack("sw-wide"):
            times = _Chart("Transactions over time")
            kinds = _Chart("Transactions by type")
        with sw.stack("sw-wide"):
            with sw.stack():
                limits = sw.card_of(
                    "Spending limits today", _show_limits, more=("All wallets", "/wallets")
                )
                problems = sw.card_of("Plugins", _problems, "plugins", ("All plugins", "/plugins"))
            decisions = sw.card_of("Recent decisions", _decisions, more=("All agents", "/agents"))

        def show(latest: Overview) -> None:
            health, rules = latest.health, latest.refusals.by_rule
            good = health.status == "ok"
            service.set("ok" if good else "degraded", f"version {health.version}", bad=not good)
            answers = f"slot {health.slot:,}" if health.ledger_healthy else _NO_LEDGER
            network.set(health.network, answers, bad=not health.ledger_healthy)
            running, total = health.agents["running"], health.agents["total"]
            agents.set(str(running), f"of {total}" if total else "none created yet")
            spent.set(sol(latest.spent), latest.spent_by)
            now = datetime.now(UTC)
            count = f"{latest.refusals.last_day:,}"
            most = next(iter(rules), None)
            note = "nothing was refused" if most is None else f"mostly by {most}: {rules[most]:,}"
            blocked.set(count if latest.refusals.is_complete else f"{count} or more", note)
            waiting.show(latest.holds, latest.context)
            refused.show((latest.refusals, latest.context))
            times.show(charts.time_chart(latest.transactions, now), latest.transactions)
            kinds.show(charts.type_chart(latest.transactions), latest.transactions)
            limits.show(latest.limits)
            decisions.show(latest.decisions)
            problems.show(latest.plugins)

        Poll(freshness, EVERY_S, fetch, show)
        # Each balance is a request of the ledger.
        Poll(freshness, EXPOSURE_EVERY_S, fetch_exposures, exposed.show)


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
            with sw.row():
                sw.heading(title)
                ui.space()
                self._of = sw.dim()
            self._chart = ui.echart({}).classes("sw-chart").props("role=img")
        self._title = title

    def show(self, options: dict[str, Any], transactions: tuple[Transaction, ...]) -> None:
        newest = len(transactions) == TRANSACTIONS
        self._of.set_text(f"the newest {TRANSACTIONS}" if newest else f"{len(transactions)}")
        if charts.draw(self._chart, options):
            self._chart.props["aria-label"] = f"{self._title}. {charts.summary_text(transactions)}"


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


def _show_refusals(shown: tuple[Refusals, DisplayContext]) -> None:
    found, context = shown
    with sw.marked(sw.row(), "by-rule"):
        for rule, count in found.by_rule.items():
            ui.badge(f"{rule} {count:,}").classes("sw-blocked")
    sw.show_list(found.refusals, lambda each: _show_refusal(each, context), "No refusals yet.")
    count, day = len(found.refusals), found.last_day
    if day > count:
        sw.dim(f"These are the newest {count} of {day:,} refusals in 24 hours.")
    if not found.is_complete:
        sw.dim("There were too many transactions in 24 hours to count all refusals.")


def _show_refusal(judged: Judged, context: DisplayContext) -> None:
    record = judged.transaction
    with sw.stack("sw-refusal"):
        with sw.row():
            rule = judged.rule or ""
            ui.badge(rule).classes("sw-blocked").props["aria-label"] = rule_text(rule)
            link = ui.link(record.type.replace("_", " "), address_of(f"transaction:{record.id}"))
            link.classes("sw-strong")
            ui.space()
            sw.Age(record.timestamp).classes("sw-dim")
        for texts in leaving_texts(judged, context.tokens, context.people)[:1]:
            # The token account is left out: its owner says more.
            sw.text(" ".join(texts[:2]))
        number_list(judged.numbers, context.tokens)
        sw.dim(cut(local_times(judged.reason)))
        asked = context.people.called(record.principal or "")
        wallet = context.people.wallet(record.wallet_id)
        sw.dim(f"Asked by {asked}, from wallet {wallet}")


def _show_exposures(found: Exposures) -> None:
    """Show the balances of the first `SHOWN` assets, and the part of each that can leave."""
    most = "the maximum that all agents, keys and schedules together could move if compromised"
    frozen = f" Nothing new can leave the {found.frozen} frozen ones." if found.frozen else ""
    sw.dim(f"{found.of_text.capitalize()}: {most}. Your own actions are not counted.{frozen}")
    for each in found.assets[:SHOWN]:
        _show_asset(each)
    more = len(found.assets) - SHOWN
    if more > 0:
        sw.dim(f"The pages of the wallets have {more} more tokens.")
    if found.others:
        with ui.element("div"):
            sw.text("Any other token", "sw-strong")
            bad = "sw-bad" if found.others.startswith("not") else "sw-dim"
            sw.text(found.others, f"{bad} sw-text")


def _show_asset(each: Exposure) -> None:
    with sw.marked(ui.element("div"), f"asset-{each.name}"):
        with sw.row():
            sw.text(each.name, "sw-strong")
            if each.mint is not None and each.name != short(each.mint):
                sw.dim(short(each.mint), "sw-mono")
            ui.space()
            sw.text(exact(each.held), "sw-number sw-strong")
        if each.wrapped:
            sw.dim(f"including {exact(each.wrapped)} wrapped SOL")
        colour = "sw-bad" if each.most is None else "sw-dim"
        sw.text(each.most_text, f"sw-text {colour}")
        if each.held:
            sw.text(_worst_case_text(each), f"sw-text {colour}")


def _worst_case_text(each: Exposure) -> str:
    if not each.at_worst:
        return f"At worst no {each.name} leaves in a day."
    if each.at_worst == each.held:
        return f"At worst all {exact(each.held)} {each.name} leave in a day."
    return f"At worst {exact(each.at_worst)} {each.name} leave in a day."


def _show_empty(words: str, link: str, path: str) -> None:
    with sw.stack("sw-empty"):
        ui.label(words)
        ui.link(link, path)


def _show_limits(limits: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    if not limits:
        _show_empty("No wallet yet.", "Create a wallet on the Wallets page", "/wallets")
    for name, each in limits:
        title = f"{name} (frozen)" if each.get("frozen") else name
        sw.show_limit(title, each["dailySpendingLimitSol"], " SOL")


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


@dataclass(slots=True)
class Exposure:
    """The sums of one asset over some wallets, in whole units.

    Attributes:
        mint: None for SOL, which includes wrapped SOL.
        bounded: what may leave in 24 hours from wallets with a bound; for SOL without `costs`, its
            fees and rent.
        dollars: what may leave in dollars' worth, instead or in addition.
        at_worst: the maximum of the held amount that can leave in 24 hours.
        reasons: why nothing bounds it, for each wallet without a bound.
    """

    name: str
    mint: str | None
    held: Decimal = Decimal(0)
    wrapped: Decimal = Decimal(0)
    bounded: Decimal = Decimal(0)
    costs: Decimal = Decimal(0)
    dollars: Decimal = Decimal(0)
    at_worst: Decimal = Decimal(0)
    reasons: list[str] = field(default_factory=list)

    def add(
        self, held: Decimal, bound: Mapping[str, Any], *, costs: Decimal = Decimal(0), usd: bool
    ) -> None:
        """Add one wallet's holding and bound of the asset; the bound is in dollars if `usd`."""
        self.held += held
        self.costs += costs
        if bound["most"] is None:
            self.reasons.append(str(bound["reason"]))
            self.at_worst += held
            return
        most = Decimal(bound["most"])
        beside = Decimal(bound.get("dollarsBeside", 0))
        self.dollars += most if usd else beside
        self.bounded += Decimal(0) if usd else most
        # The amount of the asset that the dollars would buy is not known here.
        in_dollars = bool(most if usd else beside)
        self.at_worst += held if in_dollars else min(held, Decimal(0) if usd else most + costs)

    @property
    def most(self) -> Decimal | None:
        """The maximum that may leave in 24 hours; None if any wallet has no limit."""
        return None if self.reasons else self.bounded

    @property
    def most_text(self) -> str:
        """`at most 10 SOL and 0.05 SOL of fees and rent`, or that it is unlimited, and why."""
        if self.reasons:
            return _unbounded_text(self.reasons)
        parts = [f"{exact(self.bounded)} {self.name}"] if self.bounded or not self.dollars else []
        if self.dollars:
            parts.append(f"{exact(self.dollars)} dollars' worth")
        if self.costs:
            parts.append(f"{exact(self.costs)} SOL of fees and rent")
        if parts == [f"0 {self.name}"]:
            return "nothing may leave"
        return f"at most {' and '.join(parts)}"


def _unbounded_text(reasons: Sequence[str]) -> str:
    return f"not bounded in {counted(len(reasons), 'wallet')}: {reasons[0]}"


@dataclass(frozen=True, slots=True)
class Exposures:
    """The sums of every held asset: SOL, then unlimited assets, then the others by name.

    Attributes:
        others: what may leave of tokens that no wallet holds now; empty if nothing may.
        of: how many of the `wallets` are covered.
        frozen: how many of these are frozen.
        unread: how many more were asked for, but cannot be read now.
    """

    assets: tuple[Exposure, ...]
    others: str
    of: int
    wallets: int
    frozen: int
    unread: int = 0

    @property
    def of_text(self) -> str:
        """The wallets in the sums, such as `across 2 wallets`."""
        if self.unread:
            return f"across {self.of} of {self.wallets:,} wallets, {self.unread} cannot be read now"
        if self.wallets > self.of:
            return f"across the {self.of} oldest of {self.wallets:,} wallets"
        return "across 1 wallet" if self.wallets == 1 else f"across {self.wallets} wallets"


def sum_exposures(
    rows: Iterable[tuple[Balance, Mapping[str, Any]]], wallets: int, unread: int = 0
) -> Exposures:
    """Return the sums over wallets of their balances and answers of `GET /wallets/:id/limits`.

    Args:
        wallets: how many there are in all.
        unread: see `Exposures`.
    """
    rows = tuple(rows)
    sums = {_SOL: Exposure("SOL", None)}
    # Each asset is summed over all wallets, also over those that do not hold it.
    for balance, _ in rows:
        for token in balance.tokens:
            if token.mint != WRAPPED_SOL_MINT:
                name = token.symbol or short(token.mint)
                sums.setdefault(token.mint, Exposure(name, token.mint))
    others: list[Mapping[str, Any]] = []
    for balance, limits in rows:
        bounds = limits["canLeave"]["assets"]
        held = {each.mint: each.amount for each in balance.tokens}
        wrapped = held.pop(WRAPPED_SOL_MINT, Decimal(0))
        costs = bounds.get(_COSTS, {"most": "0"})["most"]
        if costs is None:
            # Costs are lent to pockets, so without a bound SOL has none either.
            bounds = {**bounds, _SOL: {"most": None, "reason": bounds[_COSTS]["reason"]}}
        sums[_SOL].wrapped += wrapped
        sums[_SOL].add(balance.sol + wrapped, bounds[_SOL], costs=Decimal(costs or 0), usd=False)
        others.append(bounds[_OTHERS])
        for mint, each in sums.items():
            if mint == _SOL:
                continue
            named = bounds.get(each.name, bounds.get(mint))
            each.add(held.get(mint, Decimal(0)), named or bounds[_OTHERS], usd=named is None)
    sol, *tokens = sums.values()
    tokens.sort(key=lambda each: (-len(each.reasons), each.at_worst == 0, each.name, each.mint))
    frozen = sum(bool(limits.get("frozen")) for _, limits in rows)
    loose = [each["reason"] for each in others if each["most"] is None]
    dollars = sum((Decimal(each["most"] or 0) for each in others), Decimal(0))
    bounded = f"at most {exact(dollars)} dollars' worth" if dollars else ""
    rest = _unbounded_text(loose) if loose else bounded
    return Exposures((sol, *tokens), rest, len(rows), wallets, frozen, unread)


async def fetch_exposures() -> Exposures:
    """Fetch the assets of the `EXPOSED` oldest wallets, and the part of each that can leave."""
    wallets = await api().wallets.list()
    found = (await fetch_each([each.id for each in wallets[:EXPOSED]], fetch_holding)).values()
    raise_if_all([*found])
    read = [(each.balance, each.limits) for each in found if isinstance(each, Holding)]
    return sum_exposures(read, len(wallets), len(found) - len(read))
