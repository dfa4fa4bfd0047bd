"""What a transaction would do, by a dry run, before a person confirms it.

Without an answer, where it is refused, and where what would be sent is not what was looked at any
more, there is nothing to confirm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from nicegui import ui

from solward.client import Balance, Trial
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import TokenList, known_decimals, token_list
from solward.types.errors import SolwardError
from solward.types.money import SOL_DECIMALS
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, titled
from solward_dashboard.people import People
from solward_dashboard.refused import left_texts, number_list, rule_text, units_text
from solward_dashboard.wording import exact, local_times

FRESH_S: Final = 60.0
"""A confirmed preview that is older is asked for again: prices and limits move."""
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the effects of a dry run are read with.

    Attributes:
        limits: of the wallet, before the transaction.
        balance: of the wallet; its tokens say their decimals.
    """

    people: People
    tokens: TokenList
    limits: Mapping[str, Any]
    balance: Balance

    def decimals(self, mint: str) -> int | None:
        """Of a token that a list or the wallet knows."""
        held = (each.decimals for each in self.balance.tokens if each.mint == mint)
        known = known_decimals(mint)
        return next(held, None) if known is None else known


async def surroundings(wallet_id: str) -> Surroundings:
    """Of a wallet, as it is now."""
    health, people, limits, balance = await asyncio.gather(
        api().health(),
        People.ask(),
        api().wallets.limits(wallet_id),
        api().wallets.balance(wallet_id),
    )
    return Surroundings(people, token_list(health.network), limits, balance)


def effect_texts(trial: Trial, around: Surroundings) -> list[tuple[str, str]]:
    """(title, text) of what leaves, what arrives, fee and rent, and what is left of the limits."""
    effects = trial.effects
    if effects is None:
        return [("What it does", "not known before: the network makes it, not this wallet")]
    sol, fee, rent = (Decimal(effects[name]) for name in ("solOut", "fee", "rent"))
    found = []
    if sol:
        found.append(("Leaves", f"{exact(sol)} SOL"))
    out = {mint: int(units) for mint, units in effects["tokensOut"].items()}
    found += [("Leaves", _units(mint, units, around)) for mint, units in out.items()]
    if not sol and not out:
        found.append(("Leaves", "nothing but fee and rent"))
    for mint, units in effects["tokensIn"].items():
        found.append(("Arrives", _units(mint, int(units), around)))
    found.append(("Network fee", f"{exact(fee)} SOL"))
    if rent:
        many = effects["accountsCreated"]
        accounts = "1 new account" if many == 1 else f"{many} new accounts"
        found.append(("Rent", f"{exact(rent)} SOL for {accounts}"))
    for change in effects["authorityChanges"]:
        whom = "nobody" if change["to"] is None else around.people.receiver(change["to"])
        found.append((f"{change['kind']} of {change['account']}", f"passes to {whom}"))
    for account, receiver in effects["closedAccounts"].items():
        found.append((f"Closes {account}", f"its SOL goes to {around.people.receiver(receiver)}"))
    tokens = {mint: (units, *_unit(mint, around)) for mint, units in out.items()}
    left = left_texts(around.limits, sol, fee + rent, tokens)
    return [*found, ("Left of the wallet's limits after it", "\n".join(left))]


def _unit(mint: str, around: Surroundings) -> tuple[str, int]:
    decimals = around.decimals(mint)
    name = around.tokens.symbol_of(mint) or f"token {mint}"
    return (name, 0) if decimals is None else (name, decimals)


def _units(mint: str, units: int, around: Surroundings) -> str:
    if mint == WRAPPED_SOL_MINT:
        return f"{exact(Decimal(units).scaleb(-SOL_DECIMALS))} SOL"
    decimals = around.decimals(mint)
    return units_text(
        mint, units, around.tokens, {} if decimals is None else {"decimals": decimals}
    )


class Preview:
    """Asks for a dry run, shows the answer, and is confirmed only by a fresh one.

    Args:
        place: where the answer is shown.
        confirm: its button is shown where there is something to confirm; `again` where the service
            did not answer.
    """

    def __init__(
        self,
        wallet_id: str,
        trial: Callable[[], Awaitable[Trial]],
        is_current: Callable[[], bool],
        place: ui.element,
        confirm: ui.button,
        again: ui.button,
    ) -> None:
        self._wallet_id = wallet_id
        self._trial = trial
        self._is_current = is_current
        self._place = place
        self._confirm = confirm
        self._again = again
        self._answered_s: float | None = None

    async def ask(self, note: str = "") -> None:
        """Ask for a dry run and show what it says."""
        self._answered_s = None
        self._clear()
        with self._place:
            sw.dim("Asking the service what it would do …", "").props("role=status")
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                trial, around = await asyncio.gather(self._trial(), surroundings(self._wallet_id))
        except TimeoutError:
            self._fail(f"The service did not answer within {_TIMEOUT_S:g} s. Nothing was sent.")
        except SolwardError as error:
            self._fail(f"{error}. Nothing was sent.".replace("..", "."))
        else:
            if self._place.is_deleted:
                return
            self._show(trial, around, note)

    async def confirms(self) -> bool:
        """Whether what is confirmed is what was looked at, and not long ago.

        Otherwise it says so, and asks again where the answer is old.
        """
        answered_s = self._answered_s
        if answered_s is None:
            return False
        if not self._is_current():
            self._answered_s = None
            self._fail(
                "The form was changed since: this is not what would be sent. Cancel, and look"
                " again.",
                again=False,
            )
            return False
        if time.monotonic() - answered_s <= FRESH_S:
            return True
        await self.ask("It was asked once more: the answer was old. Look again.")
        return False

    def _show(self, trial: Trial, around: Surroundings, note: str) -> None:
        self._clear()
        with self._place:
            if note:
                sw.text(note).props("role=status")
            if not trial.allowed:
                _refusal(trial, around.tokens)
            with sw.facts("effects"):
                # What is refused has no effect: its numbers say what is left.
                sw.lines(effect_texts(trial, around) if trial.allowed else ())
        self._answered_s = time.monotonic() if trial.allowed else None
        self._confirm.set_visibility(trial.allowed)

    def _fail(self, why: str, *, again: bool = True) -> None:
        if self._place.is_deleted:
            return
        self._clear(again=again)
        with self._place:
            shown = sw.text(why, "sw-outcome sw-outcome-bad sw-text", testid="preview-failed")
            shown.props("role=alert")

    def _clear(self, *, again: bool = False) -> None:
        """Show nothing, and nothing to confirm."""
        self._place.clear()
        self._confirm.set_visibility(False)
        self._again.set_visibility(again)


def _refusal(trial: Trial, tokens: TokenList) -> None:
    with ui.element("div").classes("sw-outcome sw-outcome-bad").props('data-testid="refused"'):
        rule = trial.rule
        title = "It would fail" if rule is None else f"Refused by {rule_text(rule)}"
        sw.text(f"{title}. Nothing was sent.", "sw-strong sw-text")
        sw.text(local_times(trial.reason or ""))
        number_list(trial.numbers, tokens)


async def previewed(
    wallet_id: str,
    question: str,
    asked: Sequence[tuple[str, str]],
    verb: str,
    trial: Callable[[], Awaitable[Trial]],
    is_current: Callable[[], bool] = lambda: True,
) -> bool:
    """Whether a person confirms what a dry run shows; a dismissed dialog is no.

    Args:
        asked: what was asked for, as (title, text).
        trial: asks for the dry run.
        is_current: whether what would be sent is still what was asked for.
    """
    with titled(question) as dialog:
        with sw.facts():
            sw.lines(asked)
        place = sw.stack("sw-form")
        with sw.row("sw-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat no-caps")
            again = ui.button("Ask again").props('no-caps outline data-testid="ask-again"')
            confirm = ui.button(verb).props('no-caps unelevated data-testid="confirm"')
    preview = Preview(wallet_id, trial, is_current, place, confirm, again)

    async def confirmed() -> None:
        if await preview.confirms():
            dialog.submit(True)

    confirm.on_click(confirmed)
    again.on_click(lambda: preview.ask())
    with dialog:
        ui.timer(0, preview.ask, once=True)
    return bool(await result_of(dialog))
