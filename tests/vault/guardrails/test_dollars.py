"""Dollars of units: exact, rounded up, and never by a price that cannot be one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.promises import promise

from solward.solana.programs import LOCALNET_USDC_MINT
from solward.types.guardrail import Line, Operation
from solward.vault.grants.dollars import (
    AssetPrice,
    NoPrice,
    Price,
    checked,
    combine,
    from_json,
    line_dollars,
    micro_dollars,
    timely,
    to_json,
)

NOW = 1_800_000_000_000
MINT = "So1dTokenNobodyLists11111111111111111111111"
U64_MAX = 2**64 - 1

amounts = st.integers(1, U64_MAX)
dollars = st.fractions(Fraction(1, 10**18), 10**9, max_denominator=10**30)
decimals = st.integers(0, 18)


def price(usd: Any = 1, of: int = 6, taken: int = NOW) -> Price:
    return Price(Fraction(usd), of, taken)


def reason(found: AssetPrice | int) -> str:
    assert isinstance(found, NoPrice)
    return found.reason


@given(amounts, dollars, decimals)
def test_dollars_are_the_exact_product_rounded_up(units: int, usd: Fraction, of: int) -> None:
    exact = usd * 1_000_000 * units / 10**of
    assert micro_dollars(units, of, price(usd, of)) == ceil(exact) >= 1


@given(st.lists(amounts, min_size=1, max_size=20), dollars, decimals)
def test_parts_never_count_less_than_the_whole(parts: list[int], usd: Fraction, of: int) -> None:
    one = price(usd, of)
    counted = sum(int(str(micro_dollars(units, of, one))) for units in parts)
    assert counted >= micro_dollars(sum(parts), of, one)  # type: ignore[operator]


def test_the_decimals_of_the_bytes_must_be_those_of_the_price() -> None:
    one = price(1, 6)
    assert reason(micro_dollars(1_000_000, 9, one)) == (
        "the transaction states 9 decimals, but the price has 6"
    )
    assert reason(micro_dollars(1_000_000, None, one)) == (
        "the transaction does not state the decimals"
    )


def test_each_line_has_its_dollars_or_the_reason_why_not() -> None:
    lines = (
        Line(Operation.TRANSFER, "SOL", 10**9, "a", decimals=9),
        Line(Operation.TRANSFER, MINT, 5, "b", decimals=6),
        Line(Operation.BURN, "unknown", 5, decimals=6),
        Line(Operation.LAUNCH, "new", 0, decimals=6),
    )
    prices: dict[str, AssetPrice] = {"SOL": price(150, 9), MINT: NoPrice("nobody trades it")}
    assert line_dollars(lines, prices) == (
        150_000_000,
        "nobody trades it",
        "its price was not requested",
        0,
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "the price source s has no price for this asset"),
        ("1.0", "answered with something that is no price"),
        ({"usd": 1}, "answered with something that is no price"),
        (Price("1", 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(1.0, 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(float("nan"), 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(Decimal("NaN"), 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(Decimal("1e999999999"), 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(1, 6, NOW), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (Price(Fraction(1), True, NOW), "did not answer with exact numbers"),
        (Price(Fraction(1), 6, float(NOW)), "did not answer with exact numbers"),  # type: ignore[arg-type]
        (price(0), "not above 0"),
        (price(-1), "not above 0"),
        (price(Fraction(1, 10**19)), "not plausible"),
        (price(10**9 + 1), "not plausible"),
        (price(10**100_000), "not plausible"),
        (price(Fraction(10**400 + 1, 10**400)), "not plausible"),
        (price(of=-1), "other decimals"),
        (price(of=256), "other decimals"),
        (price(taken=NOW + 1), "in the future"),
        (price(taken=NOW - 60_001), "the price is 61 s old; its maximum age is 60 s"),
    ],
)
def test_an_answer_that_can_be_no_price_is_refused(answer: object, words: str) -> None:
    assert words in reason(checked(MINT, answer, "s", NOW))


def test_a_price_of_60_seconds_counts() -> None:
    old = price(taken=NOW - 60_000)
    assert checked(MINT, old, "s", NOW) == old


class Agreeable(Fraction):
    """Compares as its reader likes."""

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __le__


class Fickle(Price):
    """Says another price each time it is read."""

    __slots__ = ()
    said = iter(range(1, 1_000))

    def __getattribute__(self, name: str) -> Any:
        return Fraction(next(Fickle.said)) if name == "usd" else super().__getattribute__(name)


def test_a_price_of_the_sources_own_kind_is_not_believed() -> None:
    answer = Fickle(Fraction(1), 6, NOW)
    assert answer.usd != answer.usd
    assert "something that is no price" in reason(checked(MINT, answer, "s", NOW))


def test_a_number_of_the_sources_own_kind_is_not_believed() -> None:
    assert "did not answer with exact numbers" in reason(
        checked(MINT, Price(Agreeable(-1), 6, NOW), "s", NOW)
    )


@pytest.mark.parametrize(("asset", "wrong"), [("SOL", 6), (LOCALNET_USDC_MINT, 9)])
def test_a_listed_token_has_the_decimals_of_the_list(asset: str, wrong: int) -> None:
    found = checked(asset, price(of=wrong), "s", NOW)
    assert reason(found) == "the price source s states other decimals"


@given(st.lists(dollars, min_size=1, max_size=4), st.lists(st.integers(0, 60_000), min_size=4))
def test_the_highest_of_all_sources_counts_and_is_as_old_as_the_oldest(
    said: list[Fraction], ages: list[int]
) -> None:
    answers = {
        f"s{index}": price(usd, taken=NOW - age)
        for index, (usd, age) in enumerate(zip(said, ages, strict=False))
    }
    oldest = max(ages[: len(said)])
    assert combine(MINT, answers, NOW) == Price(max(said), 6, NOW - oldest)


@promise("higher-price-counts")
@pytest.mark.parametrize("bad", [None, "1", price(taken=NOW - 90_000), price(0), price(of=9)])
def test_one_source_without_a_price_leaves_none(bad: object) -> None:
    for answers in ({"a": price(), "b": bad}, {"b": bad, "a": price()}):
        assert reason(combine(MINT, answers, NOW))


def test_without_a_source_there_is_no_price() -> None:
    assert reason(combine(MINT, {}, NOW)) == "there is no price source on this network"


@promise("stale-price-counts-not")
def test_a_price_becomes_too_old_before_it_decides() -> None:
    prices: dict[str, AssetPrice] = {MINT: price(), "other": NoPrice("why")}
    assert timely(prices, NOW + 60_000) == prices
    later = timely(prices, NOW + 60_001)
    assert reason(later[MINT]).startswith("the price is 61 s old")
    assert later["other"] == NoPrice("why")
    # A clock that was set back.
    assert "in the future" in reason(timely(prices, NOW - 1)[MINT])


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.builds(Price, dollars, decimals, st.integers(0, NOW)) | st.builds(NoPrice, st.text()),
    )
)
def test_stored_prices_are_the_same_prices(prices: dict[str, AssetPrice]) -> None:
    assert from_json(to_json(prices)) == prices
