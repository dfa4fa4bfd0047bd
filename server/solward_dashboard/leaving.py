"""Cards and texts about assets that leave a wallet or may leave it: grants, limits, refusals, and
the preview of a transaction by a dry run, which a person confirms.

Nothing can be confirmed without an answer, after a refusal, or if the form has changed since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from nicegui import ui

from solward.client import Balance, Hold, Judged, Trial
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import TokenList, known_decimals, token_list
from solward.types.errors import SolwardError
from solward.types.money import SOL_DECIMALS, format_sol
from solward.types.record import amount_of
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import result_of, titled_dialog
from solward_dashboard.links import address_of
from solward_dashboard.wording import People, day, exact, local_times, value_text

FRESH_S: Final = 60.0
"""Maximum age of a preview that a person confirms: prices and limits change."""
_TIMEOUT_S: Final = 30.0
_KEPT = {"COSTS": "Fees and rent", "*": "Every other token"}
_NUMBERS: Final = (("asked", "Asked"), ("limit", "Allowed"), ("left", "Left"), ("used", "Used"))
_RULES: Final = {
    "max_per_tx": "the maximum in one transaction",
    "rate_limit": "the maximum of transactions in a minute",
    "daily_limit": "the limit per day",
    "program_allowlist": "an instruction that is not on the list of allowed ones",
    "blocked_address": "a blocked address",
    "spending_limit_check": "the API key's limit per day",
    "fee_limit": "the maximum fee and rent in one transaction",
    "simulated_effects": "more would leave than was declared",
    "authority_change": "control of an account given away",
    "costs_limit": "the limit of fees and rent per day",
    "swap_bounds": "the price impact of a swap",
    "grants": "grants",
    "freeze": "frozen transactions",
    "clock": "a wrong clock",
}


def grants_card() -> sw.LiveContent[Sequence[Mapping[str, Any]]]:
    """Return a card with grants by principal and a bar for each limit; hidden without grants. It
    shows `grants` of `GET /wallets/:id/limits` or `GET /agents/:id/limits`."""
    return sw.card_of(
        "Grants",
        lambda found: [*map(_show_principal, found)],
        "grants",
        ("Policy", "/policy"),
        hides=True,
    )


def _show_principal(found: Mapping[str, Any]) -> None:
    kind = found["who"].partition(":")[0]
    with sw.stack("sw-bars"):
        sw.text(f"{kind.capitalize()} {found['name']}", "sw-strong sw-text")
        if not found["grants"]:
            sw.text("May only read.")
        for grant in found["grants"]:
            sw.text(grant["sentence"])
            for limit in grant["limits"]:
                share = sw.share(Decimal(limit["used"]), Decimal(limit["limit"]))
                sw.show_bar(limit["sentence"], "", share)


def can_leave_card() -> sw.LiveContent[Mapping[str, Any]]:
    """Return a card with the maximum of each asset that can leave a wallet in a day, or why it is
    unlimited. It shows `canLeave` of `GET /wallets/:id/limits`."""
    with sw.card("What can leave this wallet today", "can-leave"):
        shown = sw.LiveContent(_show_leaving_rows)
        sw.dim("The maximum for all agents, keys and schedules together, without your own actions.")
    return shown


def _show_leaving_rows(found: Mapping[str, Any]) -> None:
    for asset, each in found["assets"].items():
        with sw.row():
            ui.label(asset_name(asset)).classes("sw-strong sw-mono")
            ui.space()
            is_bounded = each["most"] is not None
            sw.text(most_text(asset, each), "sw-number" if is_bounded else "sw-bad sw-text")


def asset_name(asset: str) -> str:
    """Return the name of an asset in `canLeave`: its own, or words for `COSTS` and `*`."""
    return _KEPT.get(asset, asset)


def most_text(asset: str, each: Mapping[str, Any]) -> str:
    """Return `at most 20 USDC`, or that the asset is unlimited, and why."""
    if each["most"] is None:
        return f"not bounded: {each['reason']}"
    unit = "dollars' worth" if asset == "*" else "SOL" if asset == "COSTS" else asset
    beside = each.get("dollarsBeside")
    text = f"at most {each['most']} {unit}"
    return text if beside is None else f"{text}, and {beside} dollars' worth in addition"


def holds_card() -> sw.LiveContent[Sequence[Hold]]:
    """Return a card with the transactions that wait for a person; hidden if there are none."""
    return sw.card_of(
        "Waits for approval", lambda found: [*map(_show_hold, found)], "open-holds", hides=True
    )


def _show_hold(hold: Hold) -> None:
    with ui.element("div"):
        sw.text(hold.sentence)
        with sw.row():
            sw.dim(f"until {day(hold.expires_at)}")
            ui.link("Decide", address_of(f"hold:{hold.id}"))


def rule_text(rule: str) -> str:
    """Return a rule's name, followed by what it limits if it is built in."""
    about = _RULES.get(rule)
    return rule if about is None or about == rule else f"{rule}: {about}"


def number_texts(numbers: Mapping[str, str], tokens: TokenList) -> list[str]:
    """Return the numbers of a refusal as texts: `Asked 3 SOL`, `Allowed 2 SOL`."""
    window = numbers.get("window", "")
    texts = []
    for name, title in _NUMBERS:
        if name in numbers and (name, numbers[name]) != ("used", "0"):
            text = f"{title} {_number_text(numbers, name, tokens)}"
            if name == "limit" and window:
                text += f" in a {window}" if window == "minute" else f" in {window}"
            texts.append(text)
    return texts


def over_text(numbers: Mapping[str, str], tokens: TokenList) -> str:
    """Return a refusal's amount and its limit: `3 SOL over 2 SOL`."""
    return " over ".join(_number_text(numbers, name, tokens) for name in ("asked", "limit"))


def _number_text(numbers: Mapping[str, str], name: str, tokens: TokenList) -> str:
    mint = numbers.get("mint")
    unit = (tokens.symbol_of(mint) if mint else None) or numbers.get("unit", "")
    return f"{numbers[name]} {unit}".rstrip()


def leaving_texts(judged: Judged, tokens: TokenList, people: People) -> list[list[str]]:
    """Return the amounts that could have left, each followed by lines about its receiver. Without
    judged bytes, return the requested amount."""
    if judged.could_leave is None:
        return _request_texts(judged, tokens, people)
    found = []
    for line in judged.could_leave.lines:
        amount, *to = line_texts(line, tokens, people)
        found.append([f"{amount} by {str(line['operation']).replace('_', ' ')}", *to])
    if judged.could_leave.costs_sol:
        found.append([f"{exact(judged.could_leave.costs_sol)} SOL of fee and rent"])
    return found


def _request_texts(judged: Judged, tokens: TokenList, people: People) -> list[list[str]]:
    record = judged.transaction
    found = amount_of(record.type, record.details)
    if found is None:
        return []
    asset = found.asset or str(record.details.get("symbol", ""))
    unit = asset if asset == "SOL" else tokens.symbol_of(asset) or f"of the token {asset}"
    text = f"{value_text(found.amount)} {unit} by {record.type.replace('_', ' ')}"
    to = record.details.get("to")
    return [[text] if not isinstance(to, str) else [text, f"to {people.receiver(to)}"]]


def number_list(numbers: Mapping[str, str], tokens: TokenList) -> None:
    """Show the numbers of a refusal, if there are any, side by side."""
    texts = number_texts(numbers, tokens)
    if texts:
        with ui.element("ul").classes("sw-numbers").props('data-testid="numbers"'):
            for text in texts:
                with ui.element("li"):
                    ui.label(text).classes("sw-text")


def leaving_list(judged: Judged, tokens: TokenList, people: People) -> None:
    """Show what could have left, a paragraph for each amount."""
    for first, *further in leaving_texts(judged, tokens, people):
        with ui.element("div"):
            ui.label(first).classes("sw-strong sw-text")
            for words in further:
                ui.label(words).classes("sw-mono")


def line_texts(line: Mapping[str, Any], tokens: TokenList, people: People) -> list[str]:
    """Return a line's texts: the amount, then its recipient (if any) by name and address."""
    amount = units_text(line["asset"], int(line["units"]), tokens, line)
    receiver, owner = line.get("account"), line.get("owner")
    if receiver is None:
        return [amount]
    if owner is None or owner == receiver:
        return [amount, f"to {people.receiver(receiver)}"]
    return [amount, f"to {people.receiver(owner)}", f"in its token account {receiver}"]


def units_text(
    asset: str, units: int, tokens: TokenList, line: Mapping[str, Any] | None = None
) -> str:
    """Return an amount in whole units with its asset; a token without a symbol has its mint."""
    if asset == "SOL":
        return f"{format_sol(units)} SOL"
    decimals = (line or {}).get("decimals", known_decimals(asset))
    name = tokens.symbol_of(asset) or f"of the token {asset}"
    if decimals is None:
        return f"{units:,} smallest units {name}"
    return f"{exact(Decimal(units).scaleb(-int(decimals)))} {name}"


def left_texts(
    limits: Mapping[str, Any],
    sol: Decimal,
    costs: Decimal,
    tokens: Mapping[str, tuple[int, str, int]] | None = None,
) -> list[str]:
    """Return what amounts leave of each of their limits, such as `6.7 of 10 SOL in 24 hours`.

    Args:
        limits: of `GET /wallets/:id/limits`.
        sol: the SOL that leaves, without the fee and rent in `costs`.
        tokens: mint -> smallest units that leave, the token's symbol and its decimals.
    """
    found = []
    if sol:
        found.append(_rest_text(limits["dailySpendingLimitSol"], sol, "SOL in 24 hours"))
    for mint, (units, symbol, decimals) in (tokens or {}).items():
        counted = limits.get("dailyTokens", {}).get(mint)
        if counted is None:
            found.append(f"this wallet has no limit for {symbol} in 24 hours")
            continue
        whole = {
            name: Decimal(counted[name]).scaleb(-decimals)
            for name in ("limit", "spent", "reserved")
        }
        found.append(_rest_text(whole, Decimal(units).scaleb(-decimals), f"{symbol} in 24 hours"))
    found.append(_rest_text(limits["maxCostsSolPerDay"], costs, "SOL of fees and rent in 24 hours"))
    return found


def _rest_text(limit: Mapping[str, Any], taken: Decimal, unit: str) -> str:
    if limit["limit"] is None:
        return f"no limit for {unit}"
    most = Decimal(limit["limit"])
    left = most - Decimal(limit["spent"]) - Decimal(limit["reserved"]) - taken
    if left < 0:
        return f"{exact(-left)} more than the limit of {exact(most)} {unit}"
    return f"{exact(left)} of {exact(most)} {unit}"


@dataclass(frozen=True, slots=True)
class TrialContext:
    """The names, tokens, limits and balance for displaying the effects of a dry run.

    Attributes:
        limits: the wallet's limits before the transaction.
        balance: the wallet's balance, whose tokens have their decimals.
    """

    people: People
    tokens: TokenList
    limits: Mapping[str, Any]
    balance: Balance

    def decimals(self, mint: str) -> int | None:
        """Return a token's decimals if a list or the wallet has them; else None."""
        held = (each.decimals for each in self.balance.tokens if each.mint == mint)
        known = known_decimals(mint)
        return next(held, None) if known is None else known


async def trial_context(wallet_id: str) -> TrialContext:
    """Fetch the data for displaying dry runs of a wallet."""
    health, people, limits, balance = await asyncio.gather(
        api().health(),
        People.ask(),
        api().wallets.limits(wallet_id),
        api().wallets.balance(wallet_id),
    )
    return TrialContext(people, token_list(health.network), limits, balance)


def effect_texts(trial: Trial, around: TrialContext) -> list[tuple[str, str]]:
    """Return a dry run's effects, and the rest of the wallet's limits, as (title, text)."""
    effects = trial.effects
    if effects is None:
        return [("Effects", "not known: the network makes this transaction, not the wallet")]
    sol, fee, rent = (Decimal(effects[name]) for name in ("solOut", "fee", "rent"))
    found = []
    if sol:
        found.append(("Leaves", f"{exact(sol)} SOL"))
    out = {mint: int(units) for mint, units in effects["tokensOut"].items()}
    found += [("Leaves", _amount_text(mint, units, around)) for mint, units in out.items()]
    if not sol and not out:
        found.append(("Leaves", "nothing but fee and rent"))
    for mint, units in effects["tokensIn"].items():
        found.append(("Arrives", _amount_text(mint, int(units), around)))
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
    tokens = {
        mint: (
            units,
            around.tokens.symbol_of(mint) or f"token {mint}",
            around.decimals(mint) or 0,
        )
        for mint, units in out.items()
    }
    left = left_texts(around.limits, sol, fee + rent, tokens)
    return [*found, ("Rest of the wallet's limits after the transaction", "\n".join(left))]


def _amount_text(mint: str, units: int, around: TrialContext) -> str:
    if mint == WRAPPED_SOL_MINT:
        return f"{exact(Decimal(units).scaleb(-SOL_DECIMALS))} SOL"
    decimals = around.decimals(mint)
    return units_text(
        mint, units, around.tokens, {} if decimals is None else {"decimals": decimals}
    )


@dataclass(slots=True)
class Preview:
    """A dry run whose answer is shown; only a fresh answer can be confirmed.

    Attributes:
        place: where the answer is shown.
        confirm: the button that is shown if there is something to confirm.
        again: the button that is shown if the service did not answer.
        answered_s: monotonic time at which the answer to be confirmed came.
    """

    wallet_id: str
    trial: Callable[[], Awaitable[Trial]]
    is_current: Callable[[], bool]
    place: ui.element
    confirm: ui.button
    again: ui.button
    answered_s: float | None = None

    async def ask(self, note: str = "") -> None:
        """Request a dry run and show its answer."""
        self.answered_s = None
        self._clear_answer()
        with self.place:
            sw.dim("Asking the service what the transaction would do …", "").props("role=status")
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                trial, around = await asyncio.gather(self.trial(), trial_context(self.wallet_id))
        except TimeoutError:
            self._fail(f"The service did not answer within {_TIMEOUT_S:g} s. Nothing was sent.")
        except SolwardError as error:
            self._fail(f"{error}. Nothing was sent.".replace("..", "."))
        else:
            if self.place.is_deleted:
                return
            self._show_answer(trial, around, note)

    async def is_confirmable(self) -> bool:
        """Return whether the form is unchanged since the dry run, and the answer is recent.

        Show an error if the form has changed, and a new answer if the answer is old.
        """
        answered_s = self.answered_s
        if answered_s is None:
            return False
        if not self.is_current():
            self.answered_s = None
            self._fail(
                "The form has changed since the preview. Cancel, and look at a new preview.",
                again=False,
            )
            return False
        if time.monotonic() - answered_s <= FRESH_S:
            return True
        await self.ask("The preview was too old, so this is a new one. Check it again.")
        return False

    def _show_answer(self, trial: Trial, around: TrialContext, note: str) -> None:
        self._clear_answer()
        with self.place:
            if note:
                sw.text(note).props("role=status")
            if not trial.allowed:
                _show_refusal(trial, around.tokens)
            with sw.facts("effects"):
                # A refused transaction has no effects; its numbers say what is left.
                sw.lines(effect_texts(trial, around) if trial.allowed else ())
        self.answered_s = time.monotonic() if trial.allowed else None
        self.confirm.set_visibility(trial.allowed)

    def _fail(self, why: str, *, again: bool = True) -> None:
        if self.place.is_deleted:
            return
        self._clear_answer(again=again)
        with self.place:
            shown = sw.text(why, "sw-outcome sw-outcome-bad sw-text", testid="preview-failed")
            shown.props("role=alert")

    def _clear_answer(self, *, again: bool = False) -> None:
        """Remove the answer, and hide the button that confirms it."""
        self.place.clear()
        self.confirm.set_visibility(False)
        self.again.set_visibility(again)


def _show_refusal(trial: Trial, tokens: TokenList) -> None:
    with ui.element("div").classes("sw-outcome sw-outcome-bad").props('data-testid="refused"'):
        rule = trial.rule
        title = "The transaction would fail" if rule is None else f"Refused by {rule_text(rule)}"
        sw.text(f"{title}. Nothing was sent.", "sw-strong sw-text")
        sw.text(local_times(trial.reason or ""))
        number_list(trial.numbers, tokens)


async def confirm_preview(
    wallet_id: str,
    question: str,
    asked: Sequence[tuple[str, str]],
    verb: str,
    trial: Callable[[], Awaitable[Trial]],
    is_current: Callable[[], bool] = lambda: True,
) -> bool:
    """Ask a person to confirm a dry run's result; dismissing the dialog means no.

    Args:
        asked: the request, as (title, text).
        trial: asks for the dry run.
        is_current: returns whether the form is still the one that the dry run was of.
    """
    with titled_dialog(question) as dialog:
        with sw.facts():
            sw.lines(asked)
        place = sw.stack("sw-form")
        with sw.row("sw-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(None)).props("flat no-caps")
            again = ui.button("Ask again").props('no-caps outline data-testid="ask-again"')
            confirm = ui.button(verb).props('no-caps unelevated data-testid="confirm"')
    preview = Preview(wallet_id, trial, is_current, place, confirm, again)

    async def submit() -> None:
        if await preview.is_confirmable():
            dialog.submit(True)

    confirm.on_click(submit)
    again.on_click(lambda: preview.ask())
    with dialog:
        ui.timer(0, preview.ask, once=True)
    return bool(await result_of(dialog))
