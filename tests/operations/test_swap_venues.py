"""Several venues: the best offer is taken, one that fails or is late costs no swap, and no word of
a venue lowers what must arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.swaps import SOL, USDC, USDC_POOL, Rogue, SwapBench, swaps

from solward.operations import venues as venues_module
from solward.operations.perform import Operations
from solward.operations.venues import Venue
from solward.types.errors import InvalidRequest, LedgerUnavailable, SkillError, TransactionFailed
from solward.types.record import TransactionRecord
from solward.types.venue import Quote, QuoteRequest, SwapInstructions, VenueContext, VenueSpec
from solward.vault.money.request import ADMIN

__all__ = ["swaps"]


class Named(Rogue):
    """The real plugin under another name."""

    name = "other"

    @property
    def spec(self) -> VenueSpec:
        return VenueSpec(self.name)


class Failing(Named):
    """A venue that raises at every call."""

    error: Exception = LedgerUnavailable("The swap venue answered with status 500")

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        raise self.error


class Silent(Named):
    """A venue that never answers."""

    cancelled = 0

    async def quote(self, request: QuoteRequest, context: VenueContext) -> Quote:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


def more(part: str) -> Callable[[Quote], Quote]:
    """An offer of so many times what the market gives, and the same of the minimum."""
    by = Decimal(part)
    return lambda quote: replace(
        quote,
        out_amount=int(quote.out_amount * by),
        minimum_out=int(quote.minimum_out * by) + 1,
    )


def operations(swaps: SwapBench, *plugins: Any, chosen: str = "best") -> Operations:
    context = VenueContext(swaps.http)
    bench = swaps.bench
    return Operations(
        engine=bench.engine,
        wallets=bench.wallets,
        ledger=bench.ledger,
        tokens=bench.operations()._tokens,
        network="localnet",
        venues=[Venue(each, context) for each in plugins],
        swap_venue=chosen,
    )


async def swap(swaps: SwapBench, using: Operations) -> TransactionRecord:
    params = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1, "slippageBps": 500}
    return await using.perform("swap", swaps.bench.wallet.id, ADMIN, params)


@promise("failing-venue-left-out")
@pytest.mark.parametrize("first", [True, False])
async def test_the_best_offer_makes_the_swap_whatever_the_order(
    swaps: SwapBench, first: bool
) -> None:
    worse = Named(swaps.plugin.real, requote=more("0.99"))
    plugins = [worse, swaps.plugin] if first else [swaps.plugin, worse]
    record = await swap(swaps, operations(swaps, *plugins))
    assert record.details["venue"] == "jupiter"
    assert (len(swaps.plugin.takers), worse.takers) == (1, [])


async def test_the_record_and_the_grants_name_the_venue(swaps: SwapBench) -> None:
    better = Named(swaps.plugin.real, requote=more("1.01"))
    record = await swap(swaps, operations(swaps, swaps.plugin, better))
    assert record.details["venue"] == "other"
    [stored] = await swaps.bench.history()
    assert stored.details["venue"] == "other"


@promise("minimum-of-making-venue")
async def test_the_minimum_of_the_best_offer_holds_and_not_that_of_another(
    swaps: SwapBench,
) -> None:
    """What the best one promised is what must arrive: the market gives less, so nothing is sold."""
    liar = Named(swaps.plugin.real, requote=more("1.06"))
    held = await swaps.lamports()
    with pytest.raises(TransactionFailed):
        await swap(swaps, operations(swaps, swaps.plugin, liar))
    assert await swaps.units(USDC_POOL.mint) == 0
    assert held - await swaps.lamports() < SOL // 100


async def test_a_named_venue_is_the_only_one_asked(swaps: SwapBench) -> None:
    asked: list[str] = []
    better = Named(swaps.plugin.real, requote=lambda quote: asked.append("other") or quote)  # type: ignore[func-returns-value]
    record = await swap(swaps, operations(swaps, swaps.plugin, better, chosen="jupiter"))
    assert (record.details["venue"], asked) == ("jupiter", [])
    record = await swap(swaps, operations(swaps, swaps.plugin, better, chosen="other"))
    assert record.details["venue"] == "other"
    assert asked


async def test_an_unknown_name_is_told_with_those_that_there_are(swaps: SwapBench) -> None:
    using = operations(swaps, swaps.plugin, Named(swaps.plugin.real), chosen="orca")
    with pytest.raises(SkillError, match=r"No swap venue 'orca'.*best or one of jupiter, other"):
        await swap(swaps, using)
    with pytest.raises(SkillError, match="No swap venue plugin is loaded"):
        await swap(swaps, operations(swaps))


async def test_a_venue_that_lacks_a_setting_is_not_asked(swaps: SwapBench) -> None:
    using = operations(swaps, swaps.plugin)
    context = VenueContext(swaps.http)
    lacking = Venue(Failing(swaps.plugin.real), context, "set OTHER_POOLS")
    using.use_venues([lacking, Venue(swaps.plugin, context)])
    assert (await swap(swaps, using)).details["venue"] == "jupiter"
    using.use_venues([lacking])
    with pytest.raises(SkillError, match="set OTHER_POOLS"):
        await swap(swaps, using)


@promise("failing-venue-left-out")
@pytest.mark.parametrize(
    "error",
    [
        LedgerUnavailable("away"),
        InvalidRequest("The swap venue refused: no route"),
        SkillError("plugin_failed", "The plugin failed"),
        ValueError("a bug"),
    ],
)
async def test_a_venue_that_fails_costs_no_swap(swaps: SwapBench, error: Exception) -> None:
    failing = Failing(swaps.plugin.real)
    failing.error = error
    record = await swap(swaps, operations(swaps, failing, swaps.plugin))
    assert record.details["venue"] == "jupiter"


async def test_a_venue_that_lies_in_its_quote_costs_no_swap(swaps: SwapBench) -> None:
    """What no check lets pass is no offer, however much it says."""
    cheap = Named(
        swaps.plugin.real,
        requote=lambda quote: replace(quote, out_amount=2 * quote.out_amount, minimum_out=1),
    )
    record = await swap(swaps, operations(swaps, cheap, swaps.plugin))
    assert record.details["venue"] == "jupiter"


@promise("failing-venue-left-out")
async def test_one_that_never_answers_is_waited_for_a_little_and_cancelled(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venues_module, "OFFERS_S", 0.3)
    silent = Silent(swaps.plugin.real)
    async with asyncio.timeout(20):
        record = await swap(swaps, operations(swaps, silent, swaps.plugin))
    assert record.details["venue"] == "jupiter"
    assert silent.cancelled


async def test_the_only_answer_is_waited_for_however_late(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venues_module, "OFFERS_S", 0.0)
    record = await swap(swaps, operations(swaps, Failing(swaps.plugin.real), swaps.plugin))
    assert record.details["venue"] == "jupiter"


async def test_where_every_venue_fails_each_reason_is_told(swaps: SwapBench) -> None:
    one, two = Failing(swaps.plugin.real), Failing(swaps.plugin.real)
    two.name, two.error = "third", ValueError("secret words")
    with pytest.raises(TransactionFailed) as caught:
        await swap(swaps, operations(swaps, one, two))
    assert "other: The swap venue answered with status 500" in str(caught.value)
    assert "third: ValueError" in str(caught.value)
    assert "secret words" not in str(caught.value)
    one.error = two.error = InvalidRequest("no route")
    with pytest.raises(InvalidRequest, match="other: no route; third: no route"):
        await swap(swaps, operations(swaps, one, two))


async def wallet_named(swaps: SwapBench) -> Callable[..., Awaitable[SwapInstructions]]:
    async def remake(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        meta = AccountMeta(Pubkey.from_string(swaps.address), False, True)
        swap = Instruction(made.swap.program_id, made.swap.data, [*made.swap.accounts, meta])
        return replace(made, swap=swap)

    return remake


@promise("minimum-of-making-venue")
async def test_where_the_best_makes_no_valid_instruction_the_next_one_makes_the_swap(
    swaps: SwapBench,
) -> None:
    hostile = Named(swaps.plugin.real, requote=more("1.02"), remake=await wallet_named(swaps))
    record = await swap(swaps, operations(swaps, hostile, swaps.plugin))
    assert (record.details["venue"], len(hostile.takers)) == ("jupiter", 1)


async def test_where_none_makes_one_the_best_ones_reason_is_told(swaps: SwapBench) -> None:
    hostile = Named(swaps.plugin.real, requote=more("1.02"), remake=await wallet_named(swaps))

    async def refuse(*_given: Any) -> SwapInstructions:
        raise LedgerUnavailable("away")

    swaps.plugin.remake = refuse
    with pytest.raises(TransactionFailed, match="names the wallet"):
        await swap(swaps, operations(swaps, swaps.plugin, hostile))


async def test_a_quote_for_a_skill_is_the_best_one(swaps: SwapBench) -> None:
    better = Named(swaps.plugin.real, requote=more("1.02"))
    params = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}
    alone = await operations(swaps, swaps.plugin).quote(params)
    both = await operations(swaps, swaps.plugin, better, Failing(swaps.plugin.real)).quote(params)
    assert both.out_amount == int(alone.out_amount * Decimal("1.02"))
    assert both.output_mint == USDC
