"""What leaves, to whom, and what is left of the limits, as texts; and refusals: the rule, its
numbers in units, and what could have left."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from nicegui import ui

from solward.client import Judged
from solward.solana.token_list import TokenList, known_decimals
from solward.types.money import format_sol
from solward.types.record import amount_of
from solward_dashboard.people import People
from solward_dashboard.wording import exact, value_text

_NUMBERS: Final = (("asked", "Asked"), ("limit", "Allowed"), ("left", "Left"), ("used", "Used"))
_RULES: Final = {
    "max_per_tx": "the most of one transaction",
    "rate_limit": "transactions in a minute",
    "daily_limit": "the limit of a day",
    "program_allowlist": "programs that are not known",
    "blocked_address": "a blocked address",
    "spending_limit_check": "the API key's limit of a day",
    "fee_limit": "fee and rent of one transaction",
    "simulated_effects": "more than was declared",
    "authority_change": "control given away",
    "costs_limit": "fees and rent of a day",
    "swap_bounds": "the price of a swap",
    "grants": "grants",
    "freeze": "frozen",
    "clock": "a wrong clock",
}


def rule_text(rule: str) -> str:
    """The rule's name, and what it is about where it is built in."""
    about = _RULES.get(rule)
    return rule if about is None or about == rule else f"{rule}: {about}"


def number_texts(numbers: Mapping[str, str], tokens: TokenList) -> list[str]:
    """`Asked 3 SOL`, `Allowed 2 SOL`, as far as a refusal says them."""
    mint = numbers.get("mint")
    unit = (tokens.symbol_of(mint) if mint else None) or numbers.get("unit", "")
    window = numbers.get("window", "")
    texts = []
    for name, title in _NUMBERS:
        if name in numbers and (name, numbers[name]) != ("used", "0"):
            text = f"{title} {numbers[name]} {unit}".rstrip()
            in_window = name == "limit" and bool(window)
            texts.append(f"{text} in {_period(window)}" if in_window else text)
    return texts


def _period(window: str) -> str:
    return f"a {window}" if window == "minute" else window


def leaving_texts(judged: Judged, tokens: TokenList, people: People) -> list[list[str]]:
    """What could have left, each with its lines of to whom: by the bytes where these were judged,
    else what was asked for."""
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
    """The numbers of a refusal, side by side; nothing where it says none."""
    texts = number_texts(numbers, tokens)
    if texts:
        with ui.element("ul").classes("sw-numbers").props('data-testid="numbers"'):
            for text in texts:
                with ui.element("li"):
                    ui.label(text).classes("sw-text")


def leaving_list(judged: Judged, tokens: TokenList, people: People) -> None:
    """What could have left, a paragraph each."""
    for first, *further in leaving_texts(judged, tokens, people):
        with ui.element("div"):
            ui.label(first).classes("sw-strong sw-text")
            for words in further:
                ui.label(words).classes("sw-mono")


def line_texts(line: Mapping[str, Any], tokens: TokenList, people: People) -> list[str]:
    """`3 SOL`, `to wallet savings, <address>`, and on which account; of what nobody receives the
    amount alone."""
    amount = units_text(line["asset"], int(line["units"]), tokens, line)
    receiver, owner = line.get("account"), line.get("owner")
    if receiver is None:
        return [amount]
    if owner is None or owner == receiver:
        return [amount, f"to {people.receiver(receiver)}"]
    return [amount, f"to {people.receiver(owner)}", f"on its account {receiver}"]


def units_text(
    asset: str, units: int, tokens: TokenList, line: Mapping[str, Any] | None = None
) -> str:
    """An amount in whole units with the asset; the mint is whole where nothing names it."""
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
    """`6.7 of 10 SOL in 24 hours`, a text for each limit that it counts against.

    Args:
        limits: of `GET /wallets/:id/limits`.
        sol: leaves; fee and rent are `costs`.
        tokens: mint -> smallest units that leave, the token's symbol and its decimals.
    """
    found = []
    if sol:
        found.append(_left(limits["dailySpendingLimitSol"], sol, "SOL in 24 hours"))
    for mint, (units, symbol, decimals) in (tokens or {}).items():
        day = limits.get("dailyTokens", {}).get(mint)
        if day is None:
            found.append(f"nothing limits the {symbol} of a day in this wallet")
            continue
        whole = {
            name: Decimal(day[name]).scaleb(-decimals) for name in ("limit", "spent", "reserved")
        }
        found.append(_left(whole, Decimal(units).scaleb(-decimals), f"{symbol} in 24 hours"))
    found.append(_left(limits["maxCostsSolPerDay"], costs, "SOL of fees and rent in 24 hours"))
    return found


def _left(limit: Mapping[str, Any], taken: Decimal, unit: str) -> str:
    if limit["limit"] is None:
        return f"no limit of {unit}"
    most = Decimal(limit["limit"])
    left = most - Decimal(limit["spent"]) - Decimal(limit["reserved"]) - taken
    if left < 0:
        return f"{exact(-left)} too much for the {exact(most)} {unit}"
    return f"{exact(left)} of {exact(most)} {unit}"
