"""Prices in dollars from all configured sources, read before a transaction is judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import structlog

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.support.clock import now_ms
from solward.support.tasks import end
from solward.types.guardrail import SOL
from solward.vault.grants.dollars import MAX_AGE_MS, AssetPrice, NoPrice, Price, combine, timely

# The time limit for price sources, because a transaction waits for them.
DEADLINE_S: Final = 2.0
# How long a price is cached. A failure is cached for less time, because it refuses payments.
_KEPT_S = 5.0
_KEPT_FAILURE_S = 1.0
# The cache has a maximum size, because callers name the assets.
_MOST_KEPT = 1_000

_CLOSED: Final = NoPrice("the service is closing")

_log = structlog.get_logger(__name__)


class PriceSource(Protocol):
    """A source of prices of assets in dollars."""

    @property
    def name(self) -> str:
        """The source's name, as refusals state it."""

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """Return the price of each asset that the source knows, by asset.

        Args:
            assets: mints, and `SOL`, which stands for wrapped SOL too.
        """


@dataclass(frozen=True, slots=True)
class _CachedPrice:
    price: AssetPrice
    until: float  # by the monotonic clock


class Prices:
    """Combines the prices of all `sources` into one price of each asset.

    Concurrent calls share one request to the sources, and answers are cached for some seconds. A
    price's age counts from the time that its source states.
    """

    def __init__(
        self,
        sources: Sequence[PriceSource],
        *,
        clock_ms: Callable[[], int] = now_ms,
        deadline_s: float = DEADLINE_S,
        max_age_ms: int = MAX_AGE_MS,
        max_spread_bps: int | None = None,
    ) -> None:
        """Create an empty cache. For `max_age_ms` and `max_spread_bps` see `combine`."""
        self._sources = {source.name: source for source in sources}
        if len(self._sources) < len(sources):
            raise ValueError("price sources must have different names")
        self._clock_ms = clock_ms
        self._deadline_s = deadline_s
        self._combined = partial(combine, max_age_ms=max_age_ms, max_spread_bps=max_spread_bps)
        self._max_age_ms = max_age_ms
        self._kept: dict[str, _CachedPrice] = {}
        self._asked: dict[str, asyncio.Task[dict[str, AssetPrice]]] = {}

    async def prices(self, assets: Collection[str]) -> dict[str, AssetPrice]:
        """Return each asset's price, or why it has no price, within the deadline.

        The price of wrapped SOL is returned under `SOL`.
        """
        wanted = {SOL if asset == WRAPPED_SOL_MINT else asset for asset in assets}
        found = self._cached_prices(wanted)
        missing = wanted - found.keys()
        unasked = missing - self._asked.keys()
        if unasked:
            question = asyncio.create_task(self._request_prices(frozenset(unasked)))
            self._asked |= dict.fromkeys(unasked, question)
        questions = {asset: self._asked[asset] for asset in missing}
        if questions:
            # `wait` does not cancel the tasks with this caller: other callers wait for them too.
            await asyncio.wait(set(questions.values()))
        for asset, question in questions.items():
            found[asset] = _CLOSED if question.cancelled() else question.result()[asset]
        return self.timely(found)

    def timely(self, prices: Mapping[str, AssetPrice]) -> dict[str, AssetPrice]:
        """Return the prices, with a `NoPrice` in place of each price that is now too old."""
        return timely(prices, self._clock_ms(), self._max_age_ms)

    async def close(self) -> None:
        """Cancel the open requests to the sources."""
        await end(self._asked.values())

    def _cached_prices(self, assets: Collection[str]) -> dict[str, AssetPrice]:
        kept = [(asset, self._kept[asset]) for asset in assets if asset in self._kept]
        now = time.monotonic()
        found = {asset: each.price for asset, each in kept if now < each.until}
        still = self.timely(found)
        # A price that is now too old is requested again; a failure is kept until its cache ends.
        return {asset: price for asset, price in found.items() if still[asset] is price}

    async def _request_prices(self, assets: frozenset[str]) -> dict[str, AssetPrice]:
        try:
            answers = await self._ask_all(assets)
            now = self._clock_ms()
            prices = {asset: self._combined_price(asset, answers, now) for asset in assets}
            self._cache_prices(prices)
            return prices
        finally:
            for asset in assets:
                del self._asked[asset]

    async def _ask_all(self, assets: frozenset[str]) -> dict[str, Mapping[str, object] | NoPrice]:
        """Return each source's answer by name, without waiting for late sources to cancel."""
        tasks = {
            name: asyncio.create_task(_ask_one(source, assets))
            for name, source in self._sources.items()
        }
        if tasks:
            try:
                await asyncio.wait(tasks.values(), timeout=self._deadline_s)
            finally:
                for task in tasks.values():
                    task.cancel()
        return {
            name: task.result()
            if task.done() and not task.cancelled()
            else NoPrice(f"the price source {name} did not answer in time")
            for name, task in tasks.items()
        }

    def _combined_price(
        self, asset: str, answers: Mapping[str, Mapping[str, object] | NoPrice], now_ms: int
    ) -> AssetPrice:
        given: dict[str, object] = {}
        for name, answer in answers.items():
            if isinstance(answer, NoPrice):
                return answer
            given[name] = answer.get(asset)
        return self._combined(asset, given, now_ms)

    def _cache_prices(self, prices: Mapping[str, AssetPrice]) -> None:
        now = time.monotonic()
        if len(self._kept) + len(prices) > _MOST_KEPT:
            self._kept.clear()
        for asset, price in prices.items():
            seconds = _KEPT_S if isinstance(price, Price) else _KEPT_FAILURE_S
            self._kept[asset] = _CachedPrice(price, now + seconds)


async def _ask_one(source: PriceSource, assets: frozenset[str]) -> Mapping[str, object] | NoPrice:
    try:
        answer: object = await source.prices(assets)
        if isinstance(answer, Mapping):
            return {asset: answer.get(asset) for asset in assets}
    except Exception as error:
        # The error's text is not logged, because it may hold a URL with an API key.
        _log.warning("price_source_failed", source=source.name, error=type(error).__name__)
        return NoPrice(f"the price source {source.name} did not answer")
    return NoPrice(f"the price source {source.name} answered something else than prices")
