"""The page of one wallet: its head, balance and its history, limits, stakes and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from nicegui import ui

from solward.client import (
    Agent,
    ApiKey,
    Balance,
    Decision,
    Health,
    Hold,
    Pocket,
    Reclaimable,
    Schedule,
    Skill,
    Stake,
    TokenBalance,
    Transaction,
    Wallet,
)
from solward.client.wallets import until_done
from solward.resources.declare import declared_fields, fields_of
from solward.resources.service import Freeze
from solward.resources.wallets import (
    Ceilings,
    ChangedWallet,
    Pockets,
    Stakes,
    ceilings_in_force,
)
from solward.solana.token_list import TokenList, token_list
from solward.types.errors import SolwardError
from solward.types.money import format_sol
from solward_dashboard import parts as sw
from solward_dashboard.api import api, fetch_each
from solward_dashboard.charts import (
    BALANCES,
    Point,
    draw,
    history_chart,
    observed_points,
    points_from_records,
)
from solward_dashboard.dialogs import ask_form, ask_note, confirmed, show_dialog
from solward_dashboard.forms import RequestForm
from solward_dashboard.frame import Poll, frame_of_one, set_frozen
from solward_dashboard.leaving import can_leave_card, confirm_preview, grants_card, holds_card
from solward_dashboard.links import address_of, explorer_link, list_address
from solward_dashboard.pages.transaction import amount
from solward_dashboard.pages.wallet_actions import CurrentWallet, Schedules, add_action_tabs
from solward_dashboard.pages.wallets import token_name
from solward_dashboard.wording import counted, local_times, plain, short, sol

EVERY_S = 10.0
RENT_EVERY_S = 60.0
_RECORDS = 200
_DECISIONS = 200
# Decisions between two polls: an agent takes at most one a second.
_NEWEST = 20
_AGENTS = 4
_RECENT = 8
# Maximum token accounts that are listed with the reason why their rent is not recoverable.
_KEPT = 5
_NO_STAKE = "No stake yet. Run the skill stake_sol to stake SOL."


@dataclass(frozen=True, slots=True)
class OneWallet:
    """Everything that the page of a wallet shows."""

    wallet: Wallet
    agents: Sequence[Agent]
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
    keys: tuple[ApiKey, ...]

    @property
    def claimed(self) -> dict[str, str]:
        """Mint -> the symbol that the wallet itself gave the token that it launched."""
        launched = (each.details for each in self.records if each.type == "token_launch")
        return {str(each.get("mint")): str(each.get("symbol", "")) for each in launched}


async def fetch(wallet_id: str, decisions: int) -> OneWallet:
    """Fetch everything that the page of a wallet shows.

    Args:
        decisions: how many decisions of each of its agents.
    """
    wallet = await api().wallets.get(wallet_id)
    agents = [each for each in await api().agents.list() if each.wallet_id == wallet_id]
    by_agent = await fetch_each(
        [each.id for each in agents[:_AGENTS]],
        lambda agent: api().agents.decisions(agent, limit=decisions),
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
        api().keys.list(),
    )
    decided = tuple(each for some in by_agent.values() for each in some)
    return OneWallet(wallet, agents, decided, *latest)


def page(wallet_id: str) -> None:
    """Build the page once for a visitor; elements are updated in place."""
    with frame_of_one("/wallets", "Wallet", wallet_id) as one:
        current: list[Wallet] = []
        fetched: list[datetime] = []

        def wallet() -> Wallet:
            return current[0]

        head = Head(wallet)
        with sw.stack("sw-wide sw-top"):
            with sw.stack():
                waiting = holds_card()
                balance: sw.LiveContent[tuple[Balance, Mapping[str, str], str]]
                balance = sw.card_of("Balance", lambda found: holdings(*found))
                leaving = can_leave_card()
                limits = limits_card(wallet)
                sw.at_place(limits.element, "limits")
                grants = grants_card()
                pockets: sw.LiveContent[Sequence[Pocket]] = sw.card_of(
                    "Amounts at risk in pockets",
                    lambda found: [*map(partial(_show_pocket, wallet), found)],
                    "pockets",
                    hides=True,
                )
                rent: sw.LiveContent[Reclaimable | None] = sw.card_of(
                    "Rent that can be reclaimed",
                    lambda found: rent_rows(found, wallet),
                    "rent",
                    hides=True,
                )
            with sw.stack():
                with sw.card("Actions"):
                    chooser, faucet = add_action_tabs(wallet)
                every = list_address("/transactions", wallet=wallet_id)
                recent = sw.card_of(
                    "Last transactions", recent_rows, "recent", ("All transactions", every)
                )
                with sw.card("SOL over time"):
                    chart = ui.echart({}).classes("sw-chart")
                    chart.props('role=img aria-label="SOL balance over time" data-testid="chart"')
                    source = sw.dim()
                with sw.at_place(sw.stack(), "schedules"):
                    schedules = Schedules(wallet)
                stakes: sw.LiveContent[Sequence[Stake]] = sw.card_of(
                    "Stakes",
                    lambda found: sw.show_list(found, partial(_show_stake, wallet), _NO_STAKE),
                    "stakes",
                )

        def show(latest: OneWallet) -> None:
            current[:] = [latest.wallet]
            head.show(latest, frozen=bool(latest.limits.get("frozen")))
            balance.show((latest.balance, latest.claimed, latest.health.network))
            limits.show(latest.limits)
            leaving.show(latest.limits["canLeave"])
            grants.show(latest.limits["grants"])
            waiting.show(latest.waiting)
            pockets.show(latest.pockets.pockets)
            schedules.show(latest.schedules, latest.skills)
            stakes.show(latest.stakes.stakes)
            recent.show((latest.records, latest.health.network))
            chooser.offer(latest.skills)
            faucet.set_visibility(not latest.health.network.startswith("mainnet"))
            points, said = _history_points(latest)
            source.set_text(said)
            draw(chart, history_chart(points))

        async def fetch_new() -> OneWallet:
            now = datetime.now(UTC)
            just_fetched = bool(fetched) and (now - fetched[-1]).total_seconds() < 2 * EVERY_S
            latest = await fetch(wallet_id, _NEWEST if just_fetched else _DECISIONS)
            fetched[:] = [now]
            return latest

        one.poll(EVERY_S, fetch_new, show, lambda latest: latest.wallet.name)
        # Finding reclaimable rent takes several calls of the ledger, so it is rare.
        Poll(one.freshness, RENT_EVERY_S, lambda: rent_of(wallet_id), rent.show)


def _history_points(latest: OneWallet) -> tuple[Sequence[Point], str]:
    wallet, now = latest.wallet, Point(datetime.now(UTC), latest.balance.sol)
    observed = observed_points(wallet.address, latest.decisions)
    known = BALANCES.add(wallet.id, [*observed, now])
    # Fewer records than the limit are all records.
    if len(latest.records) < _RECORDS:
        whole = points_from_records(wallet.created_at, latest.records, latest.balance.sol)
        if whole:
            text = "Every change since the wallet was created, from records that add up exactly."
            return sorted({*whole, *known}), text
    if observed:
        text = "Balances that agents observed before their last decisions, or this page has shown."
        return known, text
    return known, "Balances that this page has shown since the dashboard was started."


class Head:
    """The head of the page: address, tags, and the freeze switch."""

    def __init__(self, wallet: CurrentWallet) -> None:
        self._wallet = wallet
        self._frozen = False
        with sw.at_place(sw.card(), "freeze"):
            with sw.row():
                self._address = sw.LiveContent(_show_address, "sw-row", of=lambda shown: shown.id)
                self._badge = ui.badge("frozen", color="blue-8")
                ui.space()
                self._switch = sw.button(
                    "Freeze", self._toggle_freeze, icon="ac_unit", needs=sw.OPERATE, testid="freeze"
                )
            with sw.row():
                self._tags: sw.LiveContent[Sequence[str]]
                self._tags = sw.LiveContent(lambda tags: [*map(sw.tag, tags)], "sw-row")
                sw.button("Edit tags", self._edit_tags, icon="sell", look=sw.FLAT, needs=sw.POLICY)
            self._links = sw.LiveContent(_show_links, "sw-row", of=_linked_names)

    def show(self, latest: OneWallet, *, frozen: bool) -> None:
        self._badge.set_visibility(frozen)
        self._frozen = frozen
        self._switch.set_text("Unfreeze" if frozen else "Freeze")
        # Lifting a freeze needs a wider role than setting it.
        sw.set_class(self._switch, sw.POLICY, frozen)
        self._address.show(latest.wallet)
        self._tags.show(latest.wallet.tags)
        self._links.show(latest)

    async def _edit_tags(self) -> None:
        wallet = self._wallet()
        await ask_form(
            f"Tags of {wallet.name}",
            lambda: RequestForm(fields_of(ChangedWallet), {"tags": wallet.tags}),
            "Save",
            lambda values: api().wallets.tag(wallet.id, tags=values.get("tags", ())),
        )

    async def _toggle_freeze(self) -> None:
        # The state at the press counts: it may change elsewhere while the dialog is open.
        wallet, thaws, reason = self._wallet(), self._frozen, None
        if not thaws:
            reason = await ask_note(
                f"Freeze {wallet.name}?",
                lambda: sw.dim("The wallet makes no new transaction until it is unfrozen."),
                "Freeze",
                declared_fields(Freeze)["reason"],
            )
        else:
            details = ["The wallet may make transactions again.", *await _unfreeze_effects(wallet)]
            if await confirmed(f"Unfreeze {wallet.name}?", details, "Unfreeze"):
                reason = ""
        if reason is not None:
            with sw.disabled(self._switch):
                await set_frozen(not thaws, reason, wallet.id)


def _linked_names(latest: OneWallet) -> object:
    agents = [(each.id, each.name) for each in latest.agents]
    return agents, [(each.id, each.name) for each in latest.keys]


def _show_links(latest: OneWallet) -> None:
    """Show links to a wallet's lists, its agents, its own keys and the explorer."""
    own_id = latest.wallet.id
    for name, path in (("Transactions", "/transactions"), ("Payments", "/payments")):
        ui.link(name, list_address(path, wallet=own_id))
    ui.link("Audit log", list_address("/audit", wallet=own_id))
    who = f"agent:{latest.agents[0].id}" if len(latest.agents) == 1 else ""
    ui.link("Add a grant", list_address("/policy", grant=who)).classes(sw.POLICY)
    for agent in latest.agents:
        ui.link(f"Agent {agent.name}", address_of(f"agent:{agent.id}")).classes("sw-text")
    for key in latest.keys:
        if key.wallet_id == own_id:
            ui.link(f"Key {key.name}", address_of(f"key:{key.id}")).classes("sw-text")
    explorer_link("address", latest.wallet.address, latest.health.network)


def _show_address(wallet: Wallet) -> None:
    sw.text(wallet.address, "sw-mono", testid="address")
    sw.copy_button(wallet.address, "Address")
    sw.button(
        "", lambda: _show_qr(wallet), icon="qr_code_2", look=sw.ICON, of="Show the QR code"
    ).props("size=sm")


async def _show_qr(wallet: Wallet) -> None:
    # Imported here because most visitors never show a code.
    import segno

    code = segno.make_qr(wallet.address, error="m")
    async with show_dialog(f"Address of {wallet.name}"):
        image = ui.image(code.svg_data_uri(scale=8, border=3, dark="#000", light="#fff"))
        sw.marked(image.classes("sw-qr"), "qr").props["alt"] = f"QR code of {wallet.address}"
        ui.label(wallet.address).classes("sw-mono")


async def _unfreeze_effects(wallet: Wallet) -> list[str]:
    """Return sentences about what can leave a wallet once it is unfrozen."""
    try:
        limits, holds = await asyncio.gather(
            api().wallets.limits(wallet.id), api().holds.list(wallet_id=wallet.id, is_open=True)
        )
    except SolwardError as error:
        return [f"What can leave the unfrozen wallet is not known: {error}"]
    texts = [limits["canLeave"]["sentence"]]
    if holds:
        waits = "transaction waits" if len(holds) == 1 else "transactions wait"
        texts.append(f"{len(holds)} {waits} for a person, who can approve once it is unfrozen.")
    return texts


def holdings(balance: Balance, claimed: Mapping[str, str], network: str) -> None:
    """Show the SOL and the tokens of a wallet.

    Args:
        claimed: mint -> the symbol that its maker gave it.
    """
    sw.text(f"{plain(balance.sol)} SOL", "sw-figure", testid="sol")

    def show(token: TokenBalance) -> None:
        _show_token(token, claimed.get(token.mint, ""), network)

    sw.show_list(balance.tokens, show, "No tokens. Swap some SOL, or launch a token.")


def _show_token(token: TokenBalance, claimed: str, network: str) -> None:
    name = token_name(token, claimed)
    with sw.row():
        sw.text(name, "sw-strong")
        if short(token.mint) not in name:
            sw.dim(short(token.mint), "sw-mono")
        sw.copy_button(token.mint, "Mint")
        explorer_link("address", token.mint, network)
        ui.space()
        sw.text(plain(token.amount), "sw-number")


def limits_card(wallet: CurrentWallet) -> sw.LiveContent[Mapping[str, Any]]:
    """Return the card of a wallet's limits, with the button that sets its own ceilings."""
    with sw.card("Limits", "limits"):
        limits = sw.LiveContent(limit_bars)
        with sw.row():
            more = {"look": sw.SMALL, "needs": sw.POLICY, "testid": "ceilings"}
            sw.button("Set ceilings", lambda: _set_ceilings(wallet()), icon="tune", **more)
    return limits


async def _set_ceilings(wallet: Wallet) -> None:
    fields = fields_of(Ceilings)
    known = (await api().wallets.limits(wallet.id))["ceilings"]

    def form() -> RequestForm:
        sw.dim("They bind everybody who uses this wallet, also you. Empty: the service's limit.")
        return RequestForm(fields, known)

    await ask_form(
        f"Ceilings of {wallet.name}",
        form,
        "Save",
        # Another admin's change of a field that is not changed here stays.
        lambda values: api().wallets.set_ceilings(
            wallet.id,
            {
                each.json: values.get(each.name)
                for each in fields
                if values.get(each.name) != known.get(each.json)
            },
        ),
    )


def limit_bars(limits: Mapping[str, Any]) -> None:
    """Show the spent, reserved and unused part of each limit of a wallet."""
    minute = limits["maxTransactionsPerMinute"]
    with sw.row():
        ui.label("One transaction")
        ui.space()
        sw.dim(f"at most {plain(limits['maxSolPerTransaction']['limit'])} SOL")
    sw.show_limit("Transactions in a minute", minute | {"spent": minute["used"]}, "")
    sw.show_limit("SOL in 24 hours", limits["dailySpendingLimitSol"], " SOL")
    sw.show_limit("Fees and rent in 24 hours", limits["maxCostsSolPerDay"], " SOL")
    for mint, each in limits.get("dailyTokens", {}).items():
        sw.show_limit(f"{short(mint)} in 24 hours", each, " smallest units")
    if own := ceilings_in_force(limits):
        sw.dim(f"Ceilings of this wallet: {own}")


def _show_pocket(wallet: CurrentWallet, pocket: Pocket) -> None:
    """Show a pocket, and the amounts in it that its call could take."""
    address = pocket.address
    with sw.row():
        ui.label(pocket.position or "left over").classes("sw-strong")
        sw.dim(short(address), "sw-mono")
        sw.copy_button(address, "Pocket")
        ui.space()
        for risk in _at_risk_texts(pocket):
            ui.label(risk).classes("sw-number")
        sw.action(
            "Sweep",
            lambda: api().wallets.sweep_pocket(wallet().id, address),
            ask=lambda: _confirm_sweep(wallet(), pocket),
            said=lambda record: f"Sweep: {record.status}",
            look=sw.SMALL,
            needs=sw.OPERATE,
            of=short(address),
        )


def _at_risk_texts(pocket: Pocket) -> list[str]:
    return [
        f"{format_sol(int(units))} SOL"
        if asset == "SOL"
        else f"{int(units):,} units of {short(asset)}"
        for asset, units in pocket.at_risk.items()
    ]


async def _confirm_sweep(wallet: Wallet, pocket: Pocket) -> bool:
    """Return whether a person confirms the sweep of a pocket, which has no dry run."""
    details = [
        f"From the pocket {pocket.address}",
        *(f"Arrives: {risk}, as far as the service knows" for risk in _at_risk_texts(pocket)),
        f"To wallet {wallet.name}, {wallet.address}",
        "The wallet pays the network's fee. Nothing goes to anybody else.",
    ]
    return await confirmed("Sweep this pocket?", details, "Sweep")


async def rent_of(wallet_id: str) -> Reclaimable | None:
    """Return the rent that can be recovered; None if there is none or it is not known."""
    with suppress(SolwardError):
        found = await api().wallets.reclaimable(wallet_id)
        return found if found.accounts or found.kept else None
    return None


def rent_rows(found: Reclaimable | None, wallet: CurrentWallet) -> None:
    """Show the rent that can be recovered from token accounts."""
    if found is None:
        return
    said = f"{plain(found.reclaimable)} SOL from {counted(len(found.accounts), 'token account')}"

    def reclaimed(made: Sequence[Transaction]) -> str:
        total = sum((each.details.get("reclaimed", 0) for each in made), Decimal(0))
        return f"Reclaim: {made[-1].status}, {plain(total)} SOL"

    if found.accounts:
        with sw.row():
            sw.text(said)
            ui.space()
            sw.action(
                "Reclaim",
                lambda: until_done(api().wallets.reclaim_rent, wallet().id),
                ask=lambda: confirm_preview(
                    wallet().id,
                    "Reclaim this rent?",
                    [("Total rent that comes back", said)],
                    "Reclaim",
                    lambda: api().wallets.dry_run.reclaim_rent(wallet().id),
                ),
                said=reclaimed,
                look=sw.SMALL,
                needs=sw.POLICY,
            )
    with sw.stack("sw-list"):
        for each in found.kept[:_KEPT]:
            sw.dim(f"{short(each.account)} keeps its rent: {each.reason}")


def _show_stake(wallet: CurrentWallet, stake: Stake) -> None:
    verb = "Withdraw" if stake.can_be_withdrawn else "Unstake"
    name = "withdraw_stake" if stake.can_be_withdrawn else "unstake"

    def call(calls: Any) -> Awaitable[Any]:
        made: Awaitable[Any] = getattr(calls, name)(wallet().id, stake_account=stake.address)
        return made

    with sw.row():
        ui.label(short(stake.address)).classes("sw-mono")
        sw.copy_button(stake.address, "Stake account")
        ui.badge(stake.shown_state).props("outline")
        ui.space()
        ui.label(sol(stake.balance)).classes("sw-number")
        if stake.can_be_withdrawn or stake.state in ("activating", "active"):
            facts = [("Stake account", stake.address), ("Balance", f"{plain(stake.balance)} SOL")]
            sw.action(
                verb,
                lambda: call(api().wallets),
                ask=lambda: confirm_preview(
                    wallet().id,
                    f"{verb} this stake?",
                    facts,
                    verb,
                    lambda: call(api().wallets.dry_run),
                ),
                said=lambda record: f"{verb}: {record.status}",
                look=sw.SMALL,
                needs=sw.POLICY,
                of=short(stake.address),
            )


def recent_rows(found: tuple[Sequence[Transaction], str]) -> None:
    """Show the last transactions on a network."""
    records, tokens = found[0], token_list(found[1])
    none = "No transaction yet. Request an airdrop of SOL."
    sw.show_list(records[:_RECENT], lambda each: _show_recent(each, tokens), none)


def _show_recent(record: Transaction, tokens: TokenList) -> None:
    with ui.element("div"):
        with sw.row():
            ui.link(record.type.replace("_", " "), address_of(f"transaction:{record.id}"))
            ui.badge(record.status).classes(f"sw-{record.status}")
            sw.text(amount(record, tokens), "sw-number")
            ui.space()
            sw.Age(record.timestamp).classes("sw-dim")
        if record.error is not None:
            sw.dim(local_times(record.error))
