"""The cards of one wallet's page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from nicegui import ui

from solward.client import (
    Balance,
    Pocket,
    Reclaimable,
    Stake,
    TokenBalance,
    Transaction,
    Wallet,
)
from solward.client.wallets import until_done
from solward.resources.declare import declared_fields, fields_of
from solward.resources.service import Freeze
from solward.resources.wallets import ChangedWallet
from solward.types.errors import SolwardError
from solward.types.money import format_sol
from solward.types.record import amount_of
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import close_button, confirmed, filled, noted, result_of, titled
from solward_dashboard.forms import RequestForm
from solward_dashboard.frame import set_frozen
from solward_dashboard.pages.wallets.page import token_name
from solward_dashboard.previews import previewed
from solward_dashboard.wording import counted, local_times, plain, short, sol, value_text

_RECENT = 8
# Token accounts that are named with why they keep their rent.
_KEPT = 5

CurrentWallet = Callable[[], Wallet]


class Head:
    """Address, tags, and the freeze switch."""

    def __init__(self, wallet: CurrentWallet) -> None:
        self._wallet = wallet
        self._frozen = False
        with sw.card():
            with sw.row():
                self._address = sw.Redrawn(_address, "sw-row", of=lambda shown: shown.id)
                self._badge = ui.badge("frozen", color="blue-8")
                ui.space()
                self._switch = sw.button(
                    "Freeze", self._toggle, icon="ac_unit", needs=sw.OPERATE, testid="freeze"
                )
            with sw.row():
                self._tags = sw.Redrawn[Sequence[str]](lambda tags: [*map(sw.tag, tags)], "sw-row")
                sw.button("Edit tags", self._edit_tags, icon="sell", look=sw.FLAT, needs=sw.POLICY)

    def show(self, wallet: Wallet, *, frozen: bool) -> None:
        self._badge.set_visibility(frozen)
        self._frozen = frozen
        self._switch.set_text("Unfreeze" if frozen else "Freeze")
        # Lifting a freeze needs a wider role than setting it.
        sw.set_class(self._switch, sw.POLICY, frozen)
        self._address.show(wallet)
        self._tags.show(wallet.tags)

    async def _edit_tags(self) -> None:
        wallet = self._wallet()
        await filled(
            f"Tags of {wallet.name}",
            lambda: RequestForm(fields_of(ChangedWallet), {"tags": wallet.tags}),
            "Save",
            lambda values: api().wallets.tag(wallet.id, tags=values.get("tags", ())),
        )

    async def _toggle(self) -> None:
        # As it was when it was pressed: it may be switched elsewhere while the dialog is open.
        wallet, thaws, reason = self._wallet(), self._frozen, None
        if not thaws:
            reason = await noted(
                f"Freeze {wallet.name}?",
                lambda: sw.dim("It makes no new transaction until it is unfrozen."),
                "Freeze",
                declared_fields(Freeze)["reason"],
            )
        else:
            details = ["It may make transactions again.", *await _unfrozen(wallet)]
            if await confirmed(f"Unfreeze {wallet.name}?", details, "Unfreeze"):
                reason = ""
        if reason is not None:
            with sw.disabled(self._switch):
                await set_frozen(not thaws, reason, wallet.id)


def _address(wallet: Wallet) -> None:
    sw.text(wallet.address, "sw-mono", testid="address")
    sw.copy_button(wallet.address, "Address")
    sw.button(
        "", lambda: _show_qr(wallet), icon="qr_code_2", look=sw.ICON, of="Show the QR code"
    ).props("size=sm")
    ui.link("Payments", f"/payments?wallet={wallet.id}")


async def _show_qr(wallet: Wallet) -> None:
    """Show the wallet's address as a QR code."""
    # Imported when the first code is shown.
    import segno

    code = segno.make_qr(wallet.address, error="m")
    with titled(f"Address of {wallet.name}") as dialog:
        image = ui.image(code.svg_data_uri(scale=8, border=3, dark="#000", light="#fff"))
        sw.marked(image.classes("sw-qr"), "qr").props["alt"] = f"QR code of {wallet.address}"
        ui.label(wallet.address).classes("sw-mono")
        close_button(dialog)
    await result_of(dialog)


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


def holdings(balance: Balance) -> None:
    """SOL and tokens."""
    sw.text(f"{plain(balance.sol)} SOL", "sw-figure", testid="sol")
    sw.listed(balance.tokens, _token, "No tokens. Swap some SOL, or launch one.")


def _token(token: TokenBalance) -> None:
    name = token_name(token)
    with sw.row():
        sw.text("Token" if name == short(token.mint) else name, "sw-strong")
        sw.dim(short(token.mint), "sw-mono")
        sw.copy_button(token.mint, "Mint")
        ui.space()
        sw.text(plain(token.amount), "sw-number")


def limit_bars(limits: Mapping[str, Any]) -> None:
    """How much of each limit is spent, reserved and left."""
    minute = limits["maxTransactionsPerMinute"]
    with sw.row():
        ui.label("One transaction")
        ui.space()
        sw.dim(f"at most {plain(limits['maxSolPerTransaction']['limit'])} SOL")
    sw.show_limit("Transactions in a minute", minute | {"spent": minute["used"]}, "")
    sw.show_limit("In 24 hours", limits["dailySpendingLimitSol"], " SOL")
    sw.show_limit("Fees and rent in 24 hours", limits["maxCostsSolPerDay"], " SOL")
    for mint, each in limits.get("dailyTokens", {}).items():
        sw.show_limit(f"{short(mint)} in 24 hours", each, " smallest units")


def pocket_rows(pockets: Sequence[Pocket], wallet: CurrentWallet) -> None:
    """Pockets that may hold something: what a call could take."""
    for each in pockets:
        _pocket(each, wallet)


def _pocket(pocket: Pocket, wallet: CurrentWallet) -> None:
    address = pocket.address
    with sw.row():
        ui.label(pocket.position or "left over").classes("sw-strong")
        sw.dim(short(address), "sw-mono")
        sw.copy_button(address, "Pocket")
        ui.space()
        for risk in _at_risk(pocket):
            ui.label(risk).classes("sw-number")
        sw.action(
            "Sweep",
            lambda: api().wallets.sweep_pocket(wallet().id, address),
            ask=lambda: _sweeps(wallet(), pocket),
            said=lambda record: f"Sweep: {record.status}",
            look=sw.SMALL,
            needs=sw.OPERATE,
            of=short(address),
        )


def _at_risk(pocket: Pocket) -> list[str]:
    return [
        f"{format_sol(int(units))} SOL"
        if asset == "SOL"
        else f"{int(units):,} units of {short(asset)}"
        for asset, units in pocket.at_risk.items()
    ]


async def _sweeps(wallet: Wallet, pocket: Pocket) -> bool:
    """Whether a person confirms to take home what a pocket holds. It has no dry run: what is in the
    pocket is what comes."""
    details = [
        f"From the pocket {pocket.address}",
        *(f"Arrives: {risk}, as the service knows it" for risk in _at_risk(pocket)),
        f"To wallet {wallet.name}, {wallet.address}",
        "The network's fee is paid by the wallet; nothing goes to anybody else.",
    ]
    return await confirmed("Sweep this pocket?", details, "Sweep")


async def rent_of(wallet_id: str) -> Reclaimable | None:
    """What rent can come back; None where there is none, or it is not known."""
    with suppress(SolwardError):
        found = await api().wallets.reclaimable(wallet_id)
        return found if found.accounts or found.kept else None
    return None


def rent_rows(found: Reclaimable | None, wallet: CurrentWallet) -> None:
    """Rent that token accounts can give back."""
    if found is None:
        return
    said = f"{plain(found.reclaimable)} SOL of {counted(len(found.accounts), 'token account')}"
    if found.accounts:
        with sw.row():
            sw.text(said)
            ui.space()
            sw.action(
                "Reclaim",
                lambda: until_done(api().wallets.reclaim_rent, wallet().id),
                ask=lambda: previewed(
                    wallet().id,
                    "Reclaim this rent?",
                    [("Comes back in all", said)],
                    "Reclaim",
                    lambda: api().wallets.dry_run.reclaim_rent(wallet().id),
                ),
                said=_reclaimed,
                look=sw.SMALL,
                needs=sw.POLICY,
            )
    with sw.stack("sw-list"):
        for each in found.kept[:_KEPT]:
            sw.dim(f"{short(each.account)} keeps its rent: {each.reason}")


def _reclaimed(made: Sequence[Transaction]) -> str:
    total = sum((each.details.get("reclaimed", 0) for each in made), Decimal(0))
    return f"Reclaim: {made[-1].status}, {plain(total)} SOL"


def stake_rows(stakes: Sequence[Stake], wallet: CurrentWallet) -> None:
    """Stake accounts with their actions."""
    none = "Nothing staked. Run the skill stake_sol to stake some."
    sw.listed(stakes, lambda each: _stake(each, wallet), none)


def _stake(stake: Stake, wallet: CurrentWallet) -> None:
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
            facts = [("Stake account", stake.address), ("It holds", f"{plain(stake.balance)} SOL")]
            sw.action(
                verb,
                lambda: call(api().wallets),
                ask=lambda: previewed(
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


def recent_rows(records: Sequence[Transaction]) -> None:
    """The last transactions."""
    sw.listed(records[:_RECENT], _recent, "None yet. Ask the faucet for some SOL.")


def _recent(record: Transaction) -> None:
    with ui.element("div"):
        with sw.row():
            ui.label(record.type.replace("_", " "))
            ui.badge(record.status).classes(f"sw-{record.status}")
            found = amount_of(record.type, record.details)
            if found is not None:
                ui.label(value_text(found.amount)).classes("sw-number")
            ui.space()
            sw.Age(record.timestamp).classes("sw-dim")
        if record.error is not None:
            sw.dim(local_times(record.error))
