from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.skills import run_on
from tests.support.swaps import USDC, SwapBench, open_swaps

from solward.operations.perform import Operations
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import KnownToken, TokenList
from solward.types.errors import SkillError
from solward.vault.money.request import ADMIN, Actor


async def run(
    swaps: SwapBench,
    params: dict[str, Any],
    *,
    actor: Actor = ADMIN,
    tokens: TokenList | None = None,
    operations: Operations | None = None,
) -> str:
    operations = operations or swaps.operations()
    return await run_on(
        swaps.bench, "swap", params, actor=actor, tokens=tokens, operations=operations
    )


SALE = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("1.5")}


async def test_a_swap_tells_what_was_sold_what_came_and_its_signature(swaps: SwapBench) -> None:
    text = await run(swaps, SALE)
    (record,) = await swaps.bench.history()
    assert text == (
        f"Swapped 1.5 SOL for 224.321645 USDC. Status: confirmed. Signature: {record.signature}."
    )
    # Half a percent of slippage where none is named.
    assert record.details["slippageBps"] == 50


async def test_mints_are_told_by_their_symbol_where_there_is_one(swaps: SwapBench) -> None:
    by_mint = {"inputToken": WRAPPED_SOL_MINT, "outputToken": USDC, "amount": 1}
    assert (await run(swaps, by_mint)).startswith("Swapped 1 SOL for 149.548509 USDC.")
    unlisted = TokenList([KnownToken("SOL", WRAPPED_SOL_MINT, 9)])
    text = await run(swaps, by_mint, tokens=unlisted)
    assert f" {USDC}. Status: confirmed." in text


async def test_a_swap_the_ledger_does_not_confirm_is_told_as_open(tmp_path: Path) -> None:
    async with open_swaps(tmp_path, confirm_wait_s=0.05) as swaps:

        async def nothing(_method: str, params: Any) -> Any:
            return {"context": {"slot": 1}, "value": [None] * len(params[0])}

        swaps.bench.wire.faults["getSignatureStatuses"] = nothing
        text = await run(swaps, SALE)
        (record,) = await swaps.bench.history()
        assert text == (
            "Submitted a swap of 1.5 SOL for about 224.321645 USDC. Status: pending."
            " It is not known yet whether the transaction lands; do not repeat it."
            f" Signature: {record.signature}."
        )
        swaps.bench.wire.faults.clear()


async def test_an_action_done_before_is_told_again_in_the_same_words(swaps: SwapBench) -> None:
    actor = Actor("agent:a", "a", action_key="a:1:swap")
    whole = {"inputToken": "SOL", "outputToken": "USDC", "amount": 2}
    first = await run(swaps, whole, actor=actor)
    assert first.startswith("Swapped 2 SOL for 299.")
    left = await swaps.lamports()
    # A re-run cycle's model may word the same action differently; the first one counts.
    assert await run(swaps, {**whole, "outputToken": USDC, "amount": 1}, actor=actor) == first
    assert await swaps.lamports() == left
    assert len(await swaps.bench.history()) == 1


async def test_without_a_venue_the_skill_says_so(swaps: SwapBench) -> None:
    operations = swaps.bench.operations()
    with pytest.raises(SkillError, match="No swap venue plugin is loaded"):
        await run(swaps, SALE, operations=operations)
