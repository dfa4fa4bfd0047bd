"""Prices in dollars, of every configured source, before a transaction is judged."""

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
from solward.vault.grants.dollars import MAX_AGE_MS, AssetPrice, NoPrice, Price, combined, timely

# How long sources may take; a transaction waits for them.
DEADLINE_S: Final = 2.0
# A price is asked for again after this long, a failure sooner: it refuses payments meanwhile.
_KEPT_S = 5.0
_KEPT_FAILURE_S = 1.0
# Callers name assets, so what is kept is bounded.
_MOST_KEPT = 1_000

_CLOSED: Final = NoPrice("the service is closing")

_log = structlog.get_logger(__name__)


class PriceSource(Protocol):
    """Who says what assets are worth."""

    @property
    def name(self) -> str:
        """For refusals."""

    async def prices(self, assets: Collection[str]) -> Mapping[str, Price]:
        """Asset -> its price; without those that it does not know.

        Args:
            assets: mints, and `SOL`, which stands for wrapped SOL too.
        """


@dataclass(frozen=True, slots=True)
class _Kept:
    price: AssetPrice
    until: float  # by the monotonic clock


class Prices:
    """The one price of each asset that all `sources` together give.

    Concurrent calls share one question to the sources, and what was answered is kept for some
    seconds. The age of a price counts from when its source took it.
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
        """Args:
        max_age_ms, max_spread_bps: see `combined`.
        """
        self._sources = {source.name: source for source in sources}
        if len(self._sources) < len(sources):
            raise ValueError("price sources must have different names")
        self._clock_ms = clock_ms
        self._deadline_s = deadline_s
        self._combined = partial(combined, max_age_ms=max_age_ms, max_spread_bps=max_spread_bps)
        self._max_age_ms = max_age_ms
        self._kept: dict[str, _Kept] = {}
        self._asked: dict[str, asyncio.Task[dict[str, AssetPrice]]] = {}

    async def prices(self, assets: Collection[str]) -> dict[str, AssetPrice]:
        """Asset -> its price now, or why it has none; of each asset, within the deadline.

        Wrapped SOL is answered as `SOL`.
        """
        wanted = {SOL if asset == WRAPPED_SOL_MINT else asset for asset in assets}
        found = self._remembered(wanted)
        missing = wanted - found.keys()
        unasked = missing - self._asked.keys()
        if unasked:
            question = asyncio.create_task(self._ask(frozenset(unasked)))
            self._asked |= dict.fromkeys(unasked, question)
        questions = {asset: self._asked[asset] for asset in missing}
        if questions:
            # Unlike a task awaited, one waited for goes on for others when this caller gives up.
            await asyncio.wait(set(questions.values()))
        for asset, question in questions.items():
            found[asset] = _CLOSED if question.cancelled() else question.result()[asset]
        return self.timely(found)

    def timely(self, prices: Mapping[str, AssetPrice]) -> dict[str, AssetPrice]:
        """Prices that were read before, without those that have become too old; for the moment in
        which they decide."""
        return timely(prices, self._clock_ms(), self._max_age_ms)

    async def close(self) -> None:
        """End the questions that are open."""
        await end(self._asked.values())

    def _remembered(self, assets: Collection[str]) -> dict[str, AssetPrice]:
        kept = [(asset, self._kept[asset]) for asset in assets if asset in self._kept]
        now = time.monotonic()
        found = {asset: each.price for asset, each in kept if now < each.until}
        still = self.timely(found)
        # What has become too old meanwhile is asked for again; a failure is for its second.
        return {asset: price for asset, price in found.items() if still[asset] is price}

    async def _ask(self, assets: frozenset[str]) -> dict[str, AssetPrice]:
        try:
            answers = await self._answers(assets)
            now = self._clock_ms()
            prices = {asset: self._price(asset, answers, now) for asset in assets}
            self._keep(prices)
            return prices
        finally:
            for asset in assets:
                del self._asked[asset]

    async def _answers(self, assets: frozenset[str]) -> dict[str, Mapping[str, object] | NoPrice]:
        """Source -> what it answered. One that does not heed its cancellation is left behind."""
        tasks = {
            name: asyncio.create_task(_answer(source, assets))
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

    def _price(
        self, asset: str, answers: Mapping[str, Mapping[str, object] | NoPrice], now_ms: int
    ) -> AssetPrice:
        given: dict[str, object] = {}
        for name, answer in answers.items():
            if isinstance(answer, NoPrice):
                return answer
            given[name] = answer.get(asset)
        return self._combined(asset, given, now_ms)

    def _keep(self, prices: Mapping[str, AssetPrice]) -> None:
        now = time.monotonic()
        if len(self._kept) + len(prices) > _MOST_KEPT:
            self._kept.clear()
        for asset, price in prices.items():
            seconds = _KEPT_S if isinstance(price, Price) else _KEPT_FAILURE_S
            self._kept[asset] = _Kept(price, now + seconds)


async def _answer(source: PriceSource, assets: frozenset[str]) -> Mapping[str, object] | NoPrice:
    """What one source answers, read once, as a plain mapping."""
    try:
        answer: object = await source.prices(assets)
        if isinstance(answer, Mapping):
            return {asset: answer.get(asset) for asset in assets}
    except Exception as error:
        # Its text may hold an address with a key.
        _log.warning("price_source_failed", source=source.name, error=type(error).__name__)
        return NoPrice(f"the price source {source.name} did not answer")
    return NoPrice(f"the price source {source.name} answered something else than prices")
