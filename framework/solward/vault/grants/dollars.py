"""The worth of an asset's units in dollars: exact, and never rounded down.

A price is an exact fraction in dollars. Amounts are micro-dollars, rounded up. So the parts of an
amount together count at least as much as the whole, and each part counts at least one micro-dollar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from solward.solana.token_list import known_decimals
from solward.support.durations import MINUTE_MS
from solward.types.guardrail import SOL, Line
from solward.types.money import SOL_DECIMALS, format_amount

MICRO_DOLLARS: Final = 10**6
"""The number of micro-dollars in a dollar."""
MAX_AGE_MS: Final = MINUTE_MS
"""The maximum age of a price in a decision, unless the operator allows more."""

_WHOLE_BPS = 10_000

# The range of plausible prices of a whole token, in dollars.
_LEAST, _MOST = Fraction(1, 10**18), Fraction(10**9)
# Pool prices are ratios of products of 64-bit numbers. Longer numbers would be slow to use.
_MAX_BITS = 1024
# A mint's decimals are one byte.
_MAX_DECIMALS = 255


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one whole token of an asset.

    Attributes:
        usd: exact dollars for `10**decimals` smallest units; a float is not accepted.
        decimals: the asset's decimals, as the source knows them.
        taken_ms: when the source took it, in milliseconds since the epoch.
    """

    usd: Fraction
    decimals: int
    taken_ms: int


@dataclass(frozen=True, slots=True)
class NoPrice:
    """The reason why an asset has no price, as text to follow the asset's name and a colon."""

    reason: str


AssetPrice = Price | NoPrice

NOT_ASKED: Final = NoPrice("its price was not requested")


def checked(
    asset: str, answer: object, source: str, now_ms: int, max_age_ms: int = MAX_AGE_MS
) -> AssetPrice:
    """Return the price in a source's answer, or the reason why the answer cannot be used now.

    Types are checked exactly, because a hostile source's number type could compare as it likes.
    """
    if answer is None:
        return NoPrice(f"the price source {source} has no price for this asset")
    if type(answer) is not Price:
        return NoPrice(f"the price source {source} answered with something that is no price")
    usd, decimals, taken = answer.usd, answer.decimals, answer.taken_ms
    if (type(usd), type(decimals), type(taken)) != (Fraction, int, int):
        return NoPrice(f"the price source {source} did not answer with exact numbers")
    if usd <= 0:
        return NoPrice(f"the price source {source} answered a price that is not above 0")
    bits = max(usd.numerator.bit_length(), usd.denominator.bit_length())
    if bits > _MAX_BITS or not _LEAST <= usd <= _MOST:
        return NoPrice(f"the price source {source} answered a price that is not plausible")
    known = SOL_DECIMALS if asset == SOL else known_decimals(asset)
    if not 0 <= decimals <= _MAX_DECIMALS or known not in (None, decimals):
        return NoPrice(f"the price source {source} states other decimals")
    return _check_age(answer, now_ms, max_age_ms)


def combine(
    asset: str,
    answers: Mapping[str, object],
    now_ms: int,
    *,
    max_age_ms: int = MAX_AGE_MS,
    max_spread_bps: int | None = None,
) -> AssetPrice:
    """Combine the answers of all configured sources (source -> answer) into one price.

    The highest price counts, with the oldest time. Every source must answer; otherwise an attacker
    could silence one source so that another's lower price counts.

    Args:
        max_spread_bps: how far the highest price may be above the lowest, in basis points of the
            lowest; if they are further apart, one price is wrong. None for any distance.
    """
    prices: list[Price] = []
    for source, answer in answers.items():
        price = checked(asset, answer, source, now_ms, max_age_ms)
        if isinstance(price, NoPrice):
            return price
        prices.append(price)
    if not prices:
        return NoPrice("there is no price source on this network")
    if len({price.decimals for price in prices}) > 1:
        return NoPrice(f"the price sources {' and '.join(answers)} state different decimals")
    lowest, highest = min(price.usd for price in prices), max(price.usd for price in prices)
    if max_spread_bps is not None and (highest - lowest) * _WHOLE_BPS > lowest * max_spread_bps:
        return NoPrice(
            f"the prices from {' and '.join(answers)} are more than"
            f" {format_amount(Decimal(max_spread_bps) / 100)}% apart"
        )
    return Price(
        highest,
        prices[0].decimals,
        min(price.taken_ms for price in prices),
    )


def timely(
    prices: Mapping[str, AssetPrice], now_ms: int, max_age_ms: int = MAX_AGE_MS
) -> dict[str, AssetPrice]:
    """Return the prices, but replace each price that is too old for a decision with a reason.

    Args:
        now_ms: the time by the clock of the process that requested the prices.
        max_age_ms: an older price does not count.
    """
    return {
        asset: _check_age(price, now_ms, max_age_ms) if isinstance(price, Price) else price
        for asset, price in prices.items()
    }


def micro_dollars(units: int, decimals: int | None, price: AssetPrice) -> int | NoPrice:
    """Return the micro-dollars of an asset's smallest units, rounded up; 0 for 0 units.

    Args:
        decimals: as the transaction's bytes state them; the ledger checks them at landing.
    """
    if isinstance(price, NoPrice):
        return price
    if decimals is None:
        return NoPrice("the transaction does not state the decimals")
    if decimals != price.decimals:
        return NoPrice(
            f"the transaction states {decimals} decimals, but the price has {price.decimals}"
        )
    usd, whole = price.usd, int(10**decimals)
    return -(-units * MICRO_DOLLARS * usd.numerator // (usd.denominator * whole))


def line_dollars(lines: Sequence[Line], prices: Mapping[str, AssetPrice]) -> tuple[int | str, ...]:
    """Return each line's worth in micro-dollars, or why it cannot be counted in dollars.

    Args:
        prices: asset -> price, already checked by `timely`.
    """
    worth: list[int | str] = []
    for line in lines:
        price = prices.get(line.asset, NOT_ASKED)
        found = micro_dollars(line.units, line.decimals, price) if line.units else 0
        worth.append(found.reason if isinstance(found, NoPrice) else found)
    return tuple(worth)


def to_json(prices: Mapping[str, AssetPrice]) -> dict[str, Any]:
    """Return exact prices as JSON, to store with the transaction that they were used to judge."""
    return {
        asset: {"reason": price.reason}
        if isinstance(price, NoPrice)
        else {"usd": str(price.usd), "decimals": price.decimals, "takenMs": price.taken_ms}
        for asset, price in prices.items()
    }


def from_json(stored: Mapping[str, Any]) -> dict[str, AssetPrice]:
    """Return the prices that `to_json` stored."""
    return {
        asset: NoPrice(value["reason"])
        if "reason" in value
        else Price(Fraction(value["usd"]), value["decimals"], value["takenMs"])
        for asset, value in stored.items()
    }


def _check_age(price: Price, now_ms: int, max_age_ms: int) -> AssetPrice:
    age = now_ms - price.taken_ms
    if age < 0:
        return NoPrice("the price has a time in the future; the clocks differ")
    if age > max_age_ms:
        return NoPrice(
            f"the price is {-(-age // 1000)} s old; its maximum age is {max_age_ms // 1000} s"
        )
    return price
