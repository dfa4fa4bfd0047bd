"""The page of one wallet: balance and its history, limits, actions, stakes, schedules,
transactions.

The history has exact sources only; nothing in between is interpolated: balances polled while a page
was open, and those that agents observed before their decisions, both kept by this process; and a
wallet's records, where they are only airdrops and transfers that add up to its balance to the
lamport. An action is a form, made of a JSON Schema, and what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import uuid4

from nicegui import ui

from solward.client import (
    Balance,
    ClientError,
    Decision,
    Health,
    Hold,
    Pocket,
    Reclaimable,
    Schedule,
    Skill,
    Stake,
    Transaction,
    Trial,
    Wallet,
)
from solward.client.wallets import SKILL_ROUTES
from solward.operations import declared
from solward.operations.declared import Operation, recipient_fields
from solward.resources.wallets import Pockets, Stakes
from solward.support.jsontext import dumps
from solward.types.address_book import AddressBook
from solward.types.errors import SolwardError
from solward.types.record import TransactionType
from solward_dashboard import charts
from solward_dashboard import parts as sw
from solward_dashboard.api import api, of_each
from solward_dashboard.charts import LINE_COLOUR, TEXT_COLOUR
from solward_dashboard.dialogs import confirmed
from solward_dashboard.forms import Form, FormError, in_words
from solward_dashboard.frame import Poll, frame_of_one
from solward_dashboard.grants import can_leave, grants_left, open_holds
from solward_dashboard.pages.wallets import cards
from solward_dashboard.pages.wallets.schedules import Schedules
from solward_dashboard.people import People
from solward_dashboard.previews import previewed
from solward_dashboard.wording import value_text

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


def _actions(wallet: Callable[[], Wallet]) -> tuple[SkillChooser, ui.tab]:
    with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as tabs:
        action_tabs = [
            (each, ui.tab(each.name)) for each in (TRANSFER, TRANSFER_TOKEN, SWAP, AIRDROP)
        ]
        more = ui.tab("Any skill")
    with ui.tab_panels(tabs, value=action_tabs[0][1]).props("keep-alive").classes("sw-panels"):
        for action, tab in action_tabs:
            with ui.tab_panel(tab):
                ActionPanel(action, wallet)
        with ui.tab_panel(more), sw.stack("sw-form"):
            chooser = SkillChooser(wallet)
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


# The distribution of built-in skills: another's skill of the same name is another.
_OWN: Final = "solward"
_NO_TRIAL: Final = (
    "This skill has no dry run: what it makes is judged when it makes it, and the wallet's limits"
    " bound it."
)


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with a wallet.

    Attributes:
        run: does it with the form's values under an idempotency key; returns the outcome as text.
        asks: whether a person confirms it first.
        trial: a dry run with the form's values; None where it has none.
        recipient: the field of whom it pays, which takes a name too; empty where there is none.
        known: what the form begins with, beside the schema's defaults.
    """

    name: str
    verb: str
    about: str
    schema: Mapping[str, Any]
    run: Callable[[str, Mapping[str, Any], str], Awaitable[str]]
    asks: bool = False
    trial: Callable[[str, Mapping[str, Any]], Awaitable[Trial]] | None = None
    recipient: str = ""
    known: Mapping[str, Any] = field(default_factory=dict)


def of_operation(declared: Operation, known: Mapping[str, str] | None = None) -> Action:
    """Performing a declared operation; its form begins with what is `known`."""

    def fields(values: Mapping[str, Any]) -> dict[str, Any]:
        return {each.name: _stripped(values.get(each.json)) for each in declared.fields}

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        method = getattr(api().wallets, declared.name)
        return _ended(await method(wallet_id, **fields(values), idempotency_key=key))

    async def trial(wallet_id: str, values: Mapping[str, Any]) -> Trial:
        found: Trial = await getattr(api().wallets.dry_run, declared.name)(
            wallet_id, **fields(values)
        )
        return found

    schema = declared.schema()
    for each in declared.fields:
        if each.title:
            schema["properties"][each.json]["title"] = each.title
    return Action(
        declared.name.replace("_", " ").capitalize(),
        declared.verb,
        f"{declared.title}." + (" It cannot be taken back." if declared.is_irreversible else ""),
        schema,
        run,
        known=known or {},
        asks=declared.type != TransactionType.AIRDROP,
        trial=trial,
        recipient=_recipient_of(declared.name),
    )


def of_skill(skill: Skill) -> Action:
    """Running a skill, whoever wrote it."""

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        return await api().wallets.run_skill(wallet_id, skill.name, values, idempotency_key=key)

    async def trial(wallet_id: str, values: Mapping[str, Any]) -> Trial:
        return await api().wallets.try_route(wallet_id, SKILL_ROUTES[skill.name], values)

    spends = skill.effects != "read"
    is_built_in = skill.distribution == _OWN and skill.name in SKILL_ROUTES
    return Action(
        skill.name,
        "Run",
        skill.description,
        skill.parameters,
        run,
        asks=spends,
        trial=trial if spends and is_built_in else None,
        recipient=_recipient_of(skill.name) if is_built_in else "",
    )


def _recipient_of(operation: str) -> str:
    return next((each.json for each in recipient_fields(operation)), "")


AIRDROP, TRANSFER = of_operation(declared.AIRDROP), of_operation(declared.TRANSFER)
TRANSFER_TOKEN = of_operation(declared.TRANSFER_TOKEN)
SWAP = of_operation(declared.SWAP, {"inputToken": "SOL"})


class ActionPanel:
    """The form of an action at this place of the page."""

    def __init__(self, action: Action, wallet: Callable[[], Wallet]) -> None:
        self._action = action
        self._wallet = wallet
        # A payment whose fate is not known is asked for again under its own key.
        self._open: tuple[Mapping[str, Any], str] | None = None
        slug = action.name.lower().replace(" ", "-")
        with sw.stack(f"sw-form {sw.POLICY}"):
            sw.dim(action.about)
            self._form = Form(action.schema, action.known)
            if action.recipient:
                self._form.take_names(action.recipient, AddressBook())
            with sw.row():
                self._button = sw.button(
                    action.verb, self._run, look=sw.PRIMARY, testid=f"run-{slug}"
                )
            with ui.element("div").props("role=status"):
                self._outcome = sw.told("sw-outcome sw-text", testid=f"outcome-{slug}")
        if action.recipient:
            ui.timer(0, self.learn_names, once=True)

    async def _run(self) -> None:
        if self._action.recipient:
            # By today's names: a wallet or a contact may be new, or be called otherwise.
            await self.learn_names()
        try:
            values = self._form.values()
        except FormError:
            return
        wallet, key = self._wallet(), self._key(values)
        if not await self._agreed(wallet, values):
            return
        self._button.props("loading")
        try:
            with sw.disabled(self._button):
                self._notify(await self._action.run(wallet.id, values, key), good=True)
            self._open = None
        except SolwardError as error:
            self._failed(error, values)
        finally:
            self._button.props(remove="loading")

    async def learn_names(self) -> None:
        """Let the recipient be given by what the service calls it; where it does not answer, by an
        address and the names known so far."""
        try:
            wallets, contacts = await asyncio.gather(api().wallets.list(), api().contacts.list())
        except SolwardError:
            return
        self._form.take_names(self._action.recipient, AddressBook.of(wallets, contacts))

    async def _agreed(self, wallet: Wallet, values: Mapping[str, Any]) -> bool:
        """Whether a person confirms it, where one is asked."""
        action = self._action
        if not action.asks:
            return True
        of, name = ("on", action.name) if action.verb == "Run" else ("from", "")
        question = f"{' '.join(filter(None, (action.verb, name, of)))} {wallet.name}?"
        if self._open is not None and self._open[0] == values:
            # It may be paid: a dry run would judge a second payment, and might refuse that.
            again = "It was sent, and no answer came. Under its own key it pays at most once."
            return await confirmed(question, [again, *_lines(values)], action.verb)
        trial = action.trial
        if trial is None:
            about = [*_lines(values), _NO_TRIAL, await _can_leave(wallet.id)]
            return await confirmed(question, about, action.verb)
        return await previewed(
            wallet.id,
            question,
            await _facts(values, action.schema["properties"]),
            action.verb,
            lambda: trial(wallet.id, values),
            lambda: self._form.unchecked() == values,
        )

    def _key(self, values: Mapping[str, Any]) -> str:
        if self._open is not None and self._open[0] == values:
            return self._open[1]
        return str(uuid4())

    def _failed(self, error: SolwardError, values: Mapping[str, Any]) -> None:
        key = error.idempotency_key if isinstance(error, ClientError) else None
        self._open = None if key is None else (values, key)
        sw.notify_error(error)
        said = str(error)
        if key is not None:
            said += f" Whether it was paid is not known: {self._action.verb} again with the same"
            said += " values tells, and pays at most once."
        self._notify(said, good=False)

    def _notify(self, said: str, *, good: bool) -> None:
        self._outcome.set_text(said)
        sw.set_class(self._outcome, "sw-outcome-good", good)
        sw.set_class(self._outcome, "sw-outcome-bad", not good)


class SkillChooser:
    """Any skill that is loaded, and its form."""

    def __init__(self, wallet: Callable[[], Wallet]) -> None:
        self._wallet = wallet
        self._skills: dict[str, Skill] = {}
        self._select = ui.select([], label="Skill", with_input=True, on_change=self._chosen)
        self._select.props('outlined dense data-testid="skill"').classes("sw-field")
        self._place = ui.element("div")

    def offer(self, skills: Sequence[Skill]) -> None:
        """The skills there are; what is being filled in stays."""
        fresh = {each.name: each for each in skills}
        if fresh.keys() != self._skills.keys():
            self._select.set_options(
                {each.name: f"{each.name} ({each.distribution})" for each in skills},
                value=self._select.value if self._select.value in fresh else None,
            )
        self._skills = fresh

    def _chosen(self) -> None:
        self._place.clear()
        skill = self._skills.get(str(self._select.value))
        if skill is not None:
            with self._place:
                ActionPanel(of_skill(skill), self._wallet)


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}: {_value_text(value)}" for name, value in values.items()]


async def _facts(values: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for; addresses with their names, where the service says them."""
    people = People()
    with suppress(SolwardError):
        people = await People.ask()
    found = []
    for name, value in values.items():
        said = _value_text(value)
        if name == "to" and isinstance(value, str):
            said = f"{value.strip()}\n{people.warned(value.strip())}"
        found.append((fields[name].get("title", in_words(name)), said))
    return found


async def _can_leave(wallet_id: str) -> str:
    try:
        sentence = (await api().wallets.limits(wallet_id))["canLeave"]["sentence"]
    except SolwardError as error:
        return f"What can leave the wallet is not known: {error}"
    return str(sentence)


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _value_text(value: Any) -> str:
    return dumps(value) if isinstance(value, list | dict) else value_text(value)


def _ended(record: Transaction) -> str:
    what = record.type.replace("_", " ").capitalize()
    signature = "" if record.signature is None else f". Signature {record.signature}"
    arrived = record.details.get("outputAmount")
    got = "" if arrived is None else f", {value_text(arrived)} received"
    return f"{what} {record.status}{got}{signature}"
