"""One price of each asset from every configured source, whatever one of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from tests.support.grants import NOW_MS, Clock, SaidPrices

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.vault.grants.dollars import AssetPrice, NoPrice, Price
from solward.vault.money.judge import prices as module
from solward.vault.money.judge.prices import Prices

MINT = "So1dTokenNobodyLists11111111111111111111111"
OTHER = "So1dTokenNobodyLists22222222222222222222222"


def said(clock: Clock, name: str = "said", **usd: Any) -> SaidPrices:
    known = {"SOL": (150, 9), MINT: ("0.5", 6), OTHER: ("0.25", 6)}
    return SaidPrices(name, known | usd, clock)


def reason(found: AssetPrice) -> str:
    assert isinstance(found, NoPrice)
    return found.reason


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The monotonic clock of what is kept, in milliseconds."""
    ticks = Clock(0)
    monkeypatch.setattr(module.time, "monotonic", lambda: ticks.ms / 1000)
    return ticks


async def test_sol_and_wrapped_sol_are_one_asset(clock: Clock) -> None:
    source = said(clock)
    found = await Prices([source], clock_ms=clock).prices([WRAPPED_SOL_MINT, "SOL"])
    assert found == {"SOL": Price(Fraction(150), 9, NOW_MS)}
    assert source.asked == [{"SOL"}]


async def fails() -> None:
    raise ConnectionError("https://prices.example/?key=secret")


async def hangs() -> None:
    await asyncio.Event().wait()


async def hangs_on() -> None:
    while True:
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            return await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (fails, "the price source b did not answer"),
        (hangs, "the price source b did not answer in time"),
        (hangs_on, "the price source b did not answer in time"),
    ],
)
async def test_a_source_that_does_not_answer_leaves_no_price(
    clock: Clock, before: Any, words: str
) -> None:
    broken = said(clock, "b")
    broken.before = before
    prices = Prices([said(clock, "a"), broken], clock_ms=clock, deadline_s=0.05)
    found = await asyncio.wait_for(prices.prices(["SOL", MINT]), 5)
    assert found == {"SOL": NoPrice(words), MINT: NoPrice(words)}


class Moody(Mapping[str, Any]):
    """Raises where it is read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class Liar:
    name = "liar"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def prices(self, _assets: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [None, "SOL", ["SOL"], Moody(), {}, {"SOL": "150"}, {"SOL": 150.0}, {"SOL": NoPrice("mine")}],
)
async def test_a_liar_gets_no_payment_through_and_stops_the_other_source(
    clock: Clock, answer: Any
) -> None:
    prices = Prices([said(clock), Liar(answer)], clock_ms=clock)
    found = await prices.prices(["SOL"])
    assert "the price source liar" in reason(found["SOL"])


async def test_decimals_on_which_sources_differ_leave_no_price(clock: Clock) -> None:
    other = said(clock, "b")
    other.usd[MINT] = ("0.5", 9)
    found = await Prices([said(clock, "a"), other], clock_ms=clock).prices([MINT, OTHER])
    assert reason(found[MINT]) == "the price sources a and b state different decimals"
    assert isinstance(found[OTHER], Price)


async def test_concurrent_calls_ask_once_and_for_what_nobody_asked(clock: Clock) -> None:
    source, gate = said(clock), asyncio.Event()
    source.before = gate.wait
    prices = Prices([source], clock_ms=clock)
    first = [asyncio.create_task(prices.prices(["SOL"])) for _ in range(20)]
    await asyncio.sleep(0)
    second = asyncio.create_task(prices.prices(["SOL", MINT]))
    await asyncio.sleep(0)
    first[0].cancel()
    gate.set()
    found = await asyncio.gather(*first[1:], second)
    assert source.asked == [{"SOL"}, {MINT}]
    assert {each["SOL"] for each in found} == {Price(Fraction(150), 9, NOW_MS)}
    assert found[-1].keys() == {"SOL", MINT}


async def test_a_price_is_kept_for_seconds_and_a_failure_for_less(
    clock: Clock, monotonic: Clock
) -> None:
    source = said(clock)
    prices = Prices([source], clock_ms=clock)
    await prices.prices(["SOL", "unknown"])
    monotonic.ms = 900
    await prices.prices(["SOL", "unknown"])
    assert source.asked == [{"SOL", "unknown"}]
    monotonic.ms = 1_100
    await prices.prices(["SOL", "unknown"])
    assert source.asked[1:] == [{"unknown"}]
    monotonic.ms = 5_100
    await prices.prices(["SOL"])
    assert source.asked[2:] == [{"SOL"}]


async def test_the_age_counts_from_when_the_source_took_it(clock: Clock, monotonic: Clock) -> None:
    source = said(clock)
    source.age_ms = 58_000
    prices = Prices([source], clock_ms=clock)
    assert isinstance((await prices.prices(["SOL"]))["SOL"], Price)
    # Three seconds later it is kept still, and too old; the source has a newer one.
    clock.ms, monotonic.ms, source.age_ms = NOW_MS + 3_000, 3_000, 0
    assert (await prices.prices(["SOL"]))["SOL"] == Price(Fraction(150), 9, NOW_MS + 3_000)
    source.age_ms, monotonic.ms = 61_000, 60_000
    assert "61 s old" in reason((await prices.prices(["SOL"]))["SOL"])


async def test_a_clock_set_back_or_a_day_ahead_leaves_no_old_price(
    clock: Clock, monotonic: Clock
) -> None:
    source = said(clock)
    prices = Prices([source], clock_ms=clock)
    read = await prices.prices(["SOL"])
    for change in (-86_400_000, 86_400_000):
        clock.ms = NOW_MS + change
        assert isinstance(prices.timely(read)["SOL"], NoPrice)
        asked_again = (await prices.prices(["SOL"]))["SOL"]
        assert asked_again == Price(Fraction(150), 9, NOW_MS + change)


async def test_what_is_kept_is_bounded(clock: Clock) -> None:
    prices = Prices([said(clock)], clock_ms=clock)
    for start in range(0, 3_000, 100):
        await prices.prices([f"mint {start + index}" for index in range(100)])
    assert len(prices._kept) <= 1_000
    found = await prices.prices([f"mint {index}" for index in range(1_500)])
    assert len(found) == 1_500


async def test_two_sources_of_one_name_are_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="different names"):
        Prices([said(clock), said(clock)])


async def test_closing_ends_what_waits_for_a_source(clock: Clock) -> None:
    source = said(clock)
    source.before = hangs
    prices = Prices([source], clock_ms=clock)
    waiting = asyncio.create_task(prices.prices(["SOL"]))
    await asyncio.sleep(0.01)
    await prices.close()
    assert reason((await waiting)["SOL"]) == "the service is closing"
