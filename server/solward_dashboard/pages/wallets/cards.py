"""The cards of one wallet's page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import Balance, Pocket, Reclaimable, Stake, TokenBalance, Transaction, Wallet
from solward.client.wallets import until_done
from solward.types.errors import SolwardError
from solward.types.money import format_sol
from solward.types.record import amount_of
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed, copy_button, heading, notify_error
from solward_dashboard.pages.wallets.data import token_name
from solward_dashboard.pages.wallets.dialogs import freeze_reason, new_tags, show_qr
from solward_dashboard.previews import previewed
from solward_dashboard.wording import ago, local_times, plain, short, sol, value_text

_RECENT = 8
# Token accounts that are named with why they keep their rent.
_KEPT = 5
_RENT_EVERY_S = 60.0

CurrentWallet = Callable[[], Wallet | None]
Refresh = Callable[[], Awaitable[None]]


class Head:
    """Address, tags, and the freeze switch."""

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._frozen = False
        self._shown_tags: tuple[str, ...] | None = None
        with ui.element("section").classes("sw-card"):
            with ui.element("div").classes("sw-row"):
                self._place = ui.element("div").classes("sw-row")
                self._badge = ui.badge("frozen", color="blue-8")
                ui.space()
                self._switch = ui.button(
                    "Freeze", icon="ac_unit", color=None, on_click=self._toggle_freeze
                )
                self._switch.props('outline no-caps padding="4px 12px" data-testid="freeze"')
                self._switch.classes("sw-needs-operate")
            with ui.element("div").classes("sw-row"):
                self._tags = ui.element("div").classes("sw-row")
                edit = ui.button("Edit tags", icon="sell", color=None, on_click=self._edit_tags)
                edit.props("flat dense no-caps size=sm").classes("sw-needs-policy")
        self._badge.set_visibility(False)

    def show(self, wallet: Wallet, *, frozen: bool) -> None:
        self._badge.set_visibility(frozen)
        self._frozen = frozen
        self._switch.set_text("Unfreeze" if frozen else "Freeze")
        widens = "sw-needs-policy"
        self._switch.classes(add=widens if frozen else "", remove="" if frozen else widens)
        if self._shown_tags is None:
            with self._place:
                ui.label(wallet.address).classes("sw-mono").props('data-testid="address"')
                copy_button(wallet.address, "Address")
                code = ui.button(icon="qr_code_2", color=None, on_click=lambda: show_qr(wallet))
                code.props('flat round dense size=sm aria-label="Show the QR code"')
                ui.link("Payments", f"/payments?wallet={wallet.id}")
        if wallet.tags != self._shown_tags:
            self._shown_tags = wallet.tags
            self._tags.clear()
            with self._tags:
                for tag in wallet.tags:
                    ui.badge(tag).props("outline").classes("sw-tag")

    async def _edit_tags(self) -> None:
        wallet = self._wallet()
        tags = None if wallet is None else await new_tags(wallet)
        if wallet is None or tags is None:
            return
        try:
            await api().wallets.tag(wallet.id, tags=tags)
        except SolwardError as error:
            notify_error(error)
        await self._refresh()

    async def _toggle_freeze(self) -> None:
        wallet = self._wallet()
        if wallet is None:
            return
        if self._frozen:
            details = ["It may make transactions again.", *await _unfrozen(wallet)]
            agreed = await confirmed(f"Unfreeze {wallet.name}?", details, "Unfreeze")
            reason: str | None = "" if agreed else None
        else:
            reason = await freeze_reason(wallet.name)
        if reason is None:
            return
        self._switch.disable()
        try:
            if self._frozen:
                await api().unfreeze(wallet_id=wallet.id)
            else:
                await api().freeze(wallet_id=wallet.id, reason=reason or None)
        except SolwardError as error:
            notify_error(error)
        finally:
            self._switch.enable()
        await self._refresh()


async def _unfrozen(wallet: Wallet) -> list[str]:
    """What can happen once it is unfrozen."""
    try:
        limits, holds = await asyncio.gather(
            api().wallets.limits(wallet.id), api().holds.list(wallet_id=wallet.id, is_open=True)
        )
    except SolwardError as error:
        return [f"What can leave it then is not known: {error}"]
    texts = [limits["canLeave"]["sentence"]]
    if holds:
        waits = "transaction waits" if len(holds) == 1 else "transactions wait"
        texts.append(f"{len(holds)} {waits} for a person, and may be approved then.")
    return texts


class Holdings:
    """SOL and tokens."""

    def __init__(self) -> None:
        self._tokens: tuple[tuple[str, Decimal], ...] | None = None
        with ui.element("section").classes("sw-card"):
            heading("Balance")
            self._sol = ui.label("…").classes("sw-figure").props('data-testid="sol"')
            self._list = ui.element("div").classes("sw-list")

    def show(self, balance: Balance) -> None:
        self._sol.set_text(f"{plain(balance.sol)} SOL")
        amounts = tuple((each.mint, each.amount) for each in balance.tokens)
        if amounts == self._tokens:
            return
        self._tokens = amounts
        self._list.clear()
        with self._list:
            if not balance.tokens:
                ui.label("No tokens. Swap some SOL, or launch one.").classes("sw-dim")
            for each in balance.tokens:
                _token(each)


def _token(token: TokenBalance) -> None:
    with ui.element("div").classes("sw-row"):
        name = token_name(token)
        ui.label("Token" if name == short(token.mint) else name).classes("sw-strong")
        ui.label(short(token.mint)).classes("sw-mono sw-dim")
        copy_button(token.mint, "Mint")
        ui.space()
        ui.label(plain(token.amount)).classes("sw-number")


class Limits:
    """How much of each limit is spent, reserved and left."""

    def __init__(self) -> None:
        self._shown: Mapping[str, Any] | None = None
        with ui.element("section").classes("sw-card").props('data-testid="limits"'):
            heading("Limits")
            self._list = ui.element("div").classes("sw-list")

    def show(self, limits: Mapping[str, Any]) -> None:
        if limits == self._shown:
            return
        self._shown = limits
        day = limits["dailySpendingLimitSol"]
        minute = limits["maxTransactionsPerMinute"]
        self._list.clear()
        with self._list:
            with ui.element("div").classes("sw-row"):
                ui.label("One transaction")
                ui.space()
                most = limits["maxSolPerTransaction"]["limit"]
                ui.label(f"at most {plain(most)} SOL").classes("sw-dim")
            _bar("Transactions in a minute", minute["used"], 0, minute["limit"], "")
            _bar("In 24 hours", day["spent"], day["reserved"], day["limit"], " SOL")
            costs = limits["maxCostsSolPerDay"]
            _bar(
                "Fees and rent in 24 hours",
                costs["spent"],
                costs["reserved"],
                costs["limit"],
                " SOL",
            )
            for mint, each in limits.get("dailyTokens", {}).items():
                spent, reserved, most = (
                    Decimal(each[key]) for key in ("spent", "reserved", "limit")
                )
                _bar(f"{short(mint)} in 24 hours", spent, reserved, most, " smallest units")


class Pockets:
    """Pockets that may hold something: what a call could take. Hidden where there is none."""

    def __init__(self) -> None:
        self._shown: Sequence[Pocket] | None = None
        self._card = ui.element("section").classes("sw-card").props('data-testid="pockets"')
        self._card.set_visibility(False)
        with self._card:
            heading("At risk in pockets")
            self._list = ui.element("div").classes("sw-list")

    def show(self, pockets: Sequence[Pocket], wallet: Wallet, refresh: Refresh) -> None:
        if pockets == self._shown:
            return
        self._shown = pockets
        self._card.set_visibility(bool(pockets))
        self._list.clear()
        with self._list:
            for each in pockets:
                with ui.element("div").classes("sw-row"):
                    ui.label(each.position or "left over").classes("sw-strong")
                    ui.label(short(each.address)).classes("sw-mono sw-dim")
                    copy_button(each.address, "Pocket")
                    ui.space()
                    for text in _at_risk(each):
                        ui.label(text).classes("sw-number")
                    button = ui.button("Sweep", color=None).classes("sw-needs-operate")
                    button.props('outline no-caps padding="2px 10px"')
                    button.props["aria-label"] = f"Sweep {short(each.address)}"
                    button.on_click(
                        lambda each=each, button=button: _sweep(wallet, each, button, refresh)
                    )


def _at_risk(pocket: Pocket) -> list[str]:
    return [
        f"{format_sol(int(units))} SOL"
        if asset == "SOL"
        else f"{int(units):,} units of {short(asset)}"
        for asset, units in pocket.at_risk.items()
    ]


async def _sweep(wallet: Wallet, pocket: Pocket, button: ui.button, refresh: Refresh) -> None:
    """Take home what a pocket holds, where a person confirms it. It has no dry run: what is in the
    pocket is what comes."""
    details = [
        f"From the pocket {pocket.address}",
        *(f"Arrives: {text}, as the service knows it" for text in _at_risk(pocket)),
        f"To wallet {wallet.name}, {wallet.address}",
        "The network's fee is paid by the wallet; nothing goes to anybody else.",
    ]
    button.disable()
    try:
        if not await confirmed("Sweep this pocket?", details, "Sweep"):
            return
        record = await api().wallets.sweep_pocket(wallet.id, pocket.address)
        ui.notify(f"Sweep: {record.status}", type="positive")
    except SolwardError as error:
        notify_error(error)
    finally:
        if not button.is_deleted:
            button.enable()
    await refresh()


def _bar(
    title: str, spent: Decimal | int, reserved: Decimal | int, limit: Decimal | int, unit: str
) -> None:
    spent, reserved, limit = Decimal(spent), Decimal(reserved), Decimal(limit)
    left = max(Decimal(0), limit - spent - reserved)
    reserved_text = f", {plain(reserved)} reserved" if reserved else ""
    with ui.element("div"):
        with ui.element("div").classes("sw-row"):
            ui.label(title)
            ui.space()
            text = f"{plain(spent)} of {plain(limit)}{unit}{reserved_text}, {plain(left)} left"
            ui.label(text).classes("sw-dim")
        used = float((spent + reserved) / limit) if limit else 1.0
        bar = ui.linear_progress(min(1.0, used), show_value=False, size="6px").props("rounded")
        # The reserved part is drawn behind the spent one.
        bar.props["buffer"] = min(1.0, used)
        bar.set_value(min(1.0, float(spent / limit)) if limit else 1.0)
        bar.props["aria-label"] = f"{title}: {text}"


class Rent:
    """Rent that token accounts can give back. Hidden where there is none, or it is not known."""

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._found: Reclaimable | None = None
        self._shown: Reclaimable | None = None
        self._due_s = 0.0
        self._card = ui.element("section").classes("sw-card").props('data-testid="rent"')
        self._card.set_visibility(False)
        with self._card:
            heading("Rent that can come back")
            with ui.element("div").classes("sw-row"):
                self._text = ui.label().classes("sw-text")
                ui.space()
                self._button = ui.button("Reclaim", color=None, on_click=self._reclaim)
                self._button.props('outline no-caps padding="2px 10px"')
                self._button.classes("sw-needs-policy")
            self._kept = ui.element("div").classes("sw-list")

    async def read(self, wallet_id: str) -> None:
        """Ask what can come back, which takes the ledger some calls, once in a while."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + _RENT_EVERY_S
        self._found = None
        with suppress(SolwardError):
            self._found = await api().wallets.reclaimable(wallet_id)

    def show(self) -> None:
        """Show what was read last."""
        if self._found == self._shown:
            return
        self._shown = self._found
        found = self._found
        accounts, kept = ((), ()) if found is None else (found.accounts, found.kept)
        self._card.set_visibility(bool(accounts or kept))
        self._button.set_visibility(bool(accounts))
        many = "1 token account" if len(accounts) == 1 else f"{len(accounts)} token accounts"
        self._text.set_text(f"{plain(found.reclaimable if found else 0)} SOL of {many}")
        self._kept.clear()
        with self._kept:
            for each in kept[:_KEPT]:
                ui.label(f"{short(each.account)} keeps its rent: {each.reason}").classes(
                    "sw-dim sw-text"
                )

    async def _reclaim(self) -> None:
        wallet = self._wallet()
        if wallet is None or self._shown is None:
            return
        self._button.disable()
        wallets = api().wallets
        try:
            facts = [("Comes back in all", self._text.text)]
            agreed = await previewed(
                wallet.id,
                "Reclaim this rent?",
                facts,
                "Reclaim",
                lambda: wallets.dry_run.reclaim_rent(wallet.id),
            )
            if not agreed:
                return
            made = await until_done(wallets.reclaim_rent, wallet.id)
            total = sum((each.details.get("reclaimed", 0) for each in made), Decimal(0))
            ui.notify(f"Reclaim: {made[-1].status}, {plain(total)} SOL", type="positive")
        except SolwardError as error:
            notify_error(error)
        finally:
            self._button.enable()
        self._due_s = 0.0
        await self._refresh()


class Stakes:
    """Stake accounts with their actions."""

    def __init__(self, wallet: CurrentWallet, refresh: Refresh) -> None:
        self._wallet = wallet
        self._refresh = refresh
        self._shown: tuple[Stake, ...] | None = None
        with ui.element("section").classes("sw-card").props('data-testid="stakes"'):
            heading("Stakes")
            self._list = ui.element("div").classes("sw-list")

    def show(self, stakes: tuple[Stake, ...]) -> None:
        if stakes == self._shown:
            return
        self._shown = stakes
        self._list.clear()
        with self._list:
            if not stakes:
                ui.label("Nothing staked. Run the skill stake_sol to stake some.").classes("sw-dim")
            for each in stakes:
                self._row(each)

    def _row(self, stake: Stake) -> None:
        with ui.element("div").classes("sw-row"):
            ui.label(short(stake.address)).classes("sw-mono")
            copy_button(stake.address, "Stake account")
            ui.badge(stake.shown_state).props("outline")
            ui.space()
            ui.label(sol(stake.balance)).classes("sw-number")
            verb = "Withdraw" if stake.can_be_withdrawn else "Unstake"
            if stake.can_be_withdrawn or stake.state in ("activating", "active"):
                button = ui.button(verb, color=None).props('outline no-caps padding="2px 10px"')
                button.props["aria-label"] = f"{verb} {short(stake.address)}"
                button.classes("sw-needs-policy")
                button.on_click(lambda: self._run(stake, verb, button))

    async def _run(self, stake: Stake, verb: str, button: ui.button) -> None:
        wallet = self._wallet()
        if wallet is None:
            return
        is_unstake = verb == "Unstake"
        wallets = api().wallets
        call = wallets.unstake if is_unstake else wallets.withdraw_stake
        dry = wallets.dry_run.unstake if is_unstake else wallets.dry_run.withdraw_stake
        button.disable()
        try:
            facts = [("Stake account", stake.address), ("It holds", f"{plain(stake.balance)} SOL")]
            agreed = await previewed(
                wallet.id,
                f"{verb} this stake?",
                facts,
                verb,
                lambda: dry(wallet.id, stake_account=stake.address),
            )
            if not agreed:
                return
            record = await call(wallet.id, stake_account=stake.address)
            ui.notify(f"{verb}: {record.status}", type="positive")
        except SolwardError as error:
            notify_error(error)
        finally:
            button.enable()
        await self._refresh()


class RecentTransactions:
    """The last transactions."""

    def __init__(self) -> None:
        self._shown: tuple[tuple[str, str], ...] | None = None
        self._ages: list[tuple[ui.label, Transaction]] = []
        with ui.element("section").classes("sw-card").props('data-testid="recent"'):
            heading("Last transactions")
            self._list = ui.element("div").classes("sw-list")

    def show(self, records: Sequence[Transaction]) -> None:
        records = records[:_RECENT]
        states = tuple((each.id, each.status) for each in records)
        if states != self._shown:
            self._shown = states
            self._list.clear()
            with self._list:
                if not records:
                    ui.label("None yet. Ask the faucet for some SOL.").classes("sw-dim")
                self._ages = [self._row(each) for each in records]
        for label, each in self._ages:
            label.set_text(ago(each.timestamp))

    def _row(self, record: Transaction) -> tuple[ui.label, Transaction]:
        with ui.element("div"):
            with ui.element("div").classes("sw-row"):
                ui.label(record.type.replace("_", " "))
                ui.badge(record.status).classes(f"sw-{record.status}")
                found = amount_of(record.type, record.details)
                if found is not None:
                    ui.label(value_text(found.amount)).classes("sw-number")
                ui.space()
                age = ui.label().classes("sw-dim")
            if record.error is not None:
                ui.label(local_times(record.error)).classes("sw-dim sw-text")
        return age, record
