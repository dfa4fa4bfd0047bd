"""Swaps by each of the swap API's calls, from the request to what landed, at the localnet's market.

What is sent and answered on the way is held against the API's own statement.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from tests.operations.test_swap_in_steps import pockets_are_empty, steps_of
from tests.promises import promise
from tests.support.recordings import check_answer, check_request
from tests.support.swaps import FEE, RENT, SOL, USDC_POOL, SwapBench, open_swaps, pay_sol, whole

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest, TransactionFailed
from solward.types.record import TransactionStatus
from solward.types.venue import SwapInstructions
from solward.vault.store import attempts as attempt_store

V1, V2 = "/swap/v1", "/swap/v2"


@dataclass
class Watched(httpx.AsyncBaseTransport):
    """The market's transport; what passes is as documented.

    Attributes:
        strict: `/build` refuses a taker that does not hold what it sells, as it may.
    """

    bench: SwapBench
    market: httpx.AsyncBaseTransport
    strict: bool = False
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        method, path, query = request.method, request.url.path, dict(request.url.params)
        body = json.loads(request.content) if method == "POST" else None
        check_request(method, path, query, body)
        self.paths.append(path)
        if self.strict and path == f"{V2}/build" and not await self._holds(query):
            return httpx.Response(400, json={"error": "Insufficient funds"})
        response = await self.market.handle_async_request(request)
        answer = json.loads(await response.aread())
        self.bodies.append(answer)
        if response.status_code == 200:
            check_answer(method, path, answer)
        return httpx.Response(response.status_code, json=answer)

    async def _holds(self, query: dict[str, str]) -> bool:
        ledger, amount = self.bench.bench.ledger, int(query["amount"])
        if query["inputMint"] == WRAPPED_SOL_MINT:
            return await ledger.balance(query["taker"]) >= amount
        held = await ledger.holdings(query["taker"])
        return sum(each.units for each in held if each.mint == query["inputMint"]) >= amount


@dataclass
class Traded:
    bench: SwapBench
    watched: Watched


@pytest.fixture
async def traded(tmp_path: Path) -> AsyncIterator[Traded]:
    async with open_swaps(tmp_path) as bench:
        watched = Watched(bench, bench.http._transport)
        async with httpx.AsyncClient(transport=watched, base_url="http://venue") as http:
            bench.http = http
            yield Traded(bench, watched)


async def test_version_1_swaps_in_one_transaction_both_ways(traded: Traded) -> None:
    swaps = traded.bench
    swaps.api = "v1"
    before = await swaps.lamports()
    bought = await swaps.swap("SOL", "USDC", 1)
    assert await steps_of(swaps, bought.id) == [""]
    units = await swaps.units(USDC_POOL.mint)
    assert bought.details["outputAmount"] == whole(units, 6)
    assert units == int(traded.watched.bodies[0]["outAmount"])
    assert await swaps.lamports() == before - SOL - FEE - RENT
    sold = await swaps.swap("USDC", "SOL", 100)
    assert sold.status is TransactionStatus.CONFIRMED
    assert await swaps.units(USDC_POOL.mint) == units - 100_000_000
    # Each price and its swap are of the same version.
    assert set(traded.watched.paths) == {f"{V1}/quote", f"{V1}/swap-instructions"}
    assert await swaps.bench.reserved_units() == SOL


async def in_steps(swaps: SwapBench) -> None:
    """Buy and sell, each as one record whose pocket ends empty."""
    await swaps.swap("SOL", "USDC", 1)
    units = await swaps.units(USDC_POOL.mint)
    assert units > 148_000_000
    lamports = await swaps.lamports()
    sold = await swaps.swap("USDC", "SOL", 100)
    assert await swaps.lamports() > lamports + SOL * 65 // 100
    assert await swaps.units(USDC_POOL.mint) == units - 100_000_000
    records = await swaps.bench.history()
    assert [each.status for each in records] == [TransactionStatus.CONFIRMED] * 2
    assert records[0].id == sold.id
    for record in records:
        assert await steps_of(swaps, record.id) == ["fund", "call", "sweep"]
    # Counted is what was sold, and the network's fees: the float came home.
    assert SOL < await swaps.bench.reserved_units() <= SOL + 50_000
    await pockets_are_empty(swaps)


async def test_an_order_swaps_in_steps_both_ways(traded: Traded) -> None:
    traded.bench.api = "order"
    await in_steps(traded.bench)
    assert set(traded.watched.paths) == {f"{V2}/order"}
    # Its price is asked without a taker, its transaction once the pocket is funded.
    takers = [each["taker"] for each in traded.watched.bodies]
    assert [each is None for each in takers] == [True, True, False, True, True, False]


@promise("funded-taker-gains-nothing")
async def test_where_a_build_wants_funds_the_pocket_is_funded_first_in_the_same_record(
    traded: Traded,
) -> None:
    traded.watched.strict = True
    await in_steps(traded.bench)
    assert traded.watched.paths[-1] == f"{V2}/build"
    promised = traded.watched.bodies[-1]["otherAmountThreshold"]
    (record, _) = await traded.bench.bench.history()
    async with traded.bench.bench.database.read() as connection:
        _, call, _ = await attempt_store.of_transaction(connection, record.id)
    message = VersionedTransaction.from_bytes(bytes(call.wire)).message
    keys = message.account_keys
    assert traded.bench.user not in keys
    # A transfer to itself fails where the account holds less: the bytes keep the minimum.
    asserted = [
        int.from_bytes(each.data[1:9], "little")
        for each in message.instructions
        if each.data[:1] == b"\x0c" and keys[each.accounts[0]] == keys[each.accounts[2]]
    ]
    assert asserted[-1] == int(promised)


async def test_where_version_1_wants_funds_the_same_quote_is_asked_for_again(
    traded: Traded,
) -> None:
    swaps = traded.bench
    swaps.api = "v1"
    real, asked = traded.watched.market.handle_async_request, 0

    async def refuse_the_first(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += request.url.path == f"{V1}/swap-instructions"
        if request.url.path == f"{V1}/swap-instructions" and asked % 2:
            return httpx.Response(400, json={"error": "account not found"})
        return await real(request)

    traded.watched.market.handle_async_request = refuse_the_first  # type: ignore[method-assign]
    await in_steps(swaps)
    assert asked == 4
    assert traded.watched.paths.count(f"{V1}/quote") == 4


@promise("funded-taker-gains-nothing")
async def test_a_venue_that_wants_funds_gains_nothing_by_taking_them(traded: Traded) -> None:
    """What it makes for a funded pocket is held to the quote's minimum as well."""
    swaps = traded.bench
    traded.watched.strict = True
    thief = Keypair().pubkey()
    calls = 0

    async def steal(made: SwapInstructions, taker: str, _destination: str) -> SwapInstructions:
        nonlocal calls
        calls += 1
        user = Pubkey.from_string(taker)
        lamports = await swaps.bench.lamports(taker) - 1_000_000_000 - 5 * RENT
        return replace(made, swap=pay_sol(user, thief, lamports))

    swaps.plugin.remake = steal
    before = await swaps.lamports()
    with pytest.raises(TransactionFailed):
        await swaps.swap("SOL", "USDC", 1)
    (record,) = await swaps.bench.history()
    assert (calls, await steps_of(swaps, record.id)) == (1, ["fund", "sweep"])
    assert await swaps.bench.lamports(str(thief)) == 0
    assert await swaps.lamports() == before - 15_000
    await pockets_are_empty(swaps)


async def test_a_refusal_of_funds_that_are_there_ends_with_everything_at_home(
    traded: Traded,
) -> None:
    swaps = traded.bench
    real = traded.watched.market.handle_async_request

    async def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path == f"{V2}/build":
            return httpx.Response(400, json={"error": "Insufficient funds"})
        return await real(request)

    traded.watched.market.handle_async_request = refuse  # type: ignore[method-assign]
    before = await swaps.lamports()
    with pytest.raises(TransactionFailed, match="refuses even a taker with the sold asset"):
        await swaps.swap("SOL", "USDC", 1)
    assert await swaps.lamports() == before - 15_000
    await pockets_are_empty(swaps)


async def test_a_swap_that_the_funded_pocket_cannot_make_comes_home(traded: Traded) -> None:
    """The price falls after the funding: nothing is called, and all but two fees come back."""
    swaps = traded.bench
    swaps.api = "order"
    real, asked = traded.watched.market.handle_async_request, 0

    async def fallen(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        response = await real(request)
        answer = json.loads(await response.aread())
        if "taker" in request.url.params:
            asked += 1
            answer["otherAmountThreshold"] = "1"
        return httpx.Response(200, json=answer)

    traded.watched.market.handle_async_request = fallen  # type: ignore[method-assign]
    before = await swaps.lamports()
    with pytest.raises(TransactionFailed, match="The price moved"):
        await swaps.swap("SOL", "USDC", 1)
    (record,) = await swaps.bench.history()
    assert (asked, await steps_of(swaps, record.id)) == (1, ["fund", "sweep"])
    assert await swaps.lamports() == before - 15_000
    await pockets_are_empty(swaps)


@pytest.mark.parametrize("api", ["build", "order", "v1"])
async def test_what_no_call_can_trade_is_refused_before_anything_is_funded(
    traded: Traded, api: str
) -> None:
    swaps = traded.bench
    swaps.api = api
    before = await swaps.lamports()
    with pytest.raises(InvalidRequest, match="its markets cannot trade all of this amount"):
        await swaps.swap("SOL", "USDC", Decimal("0.000000001"))
    assert await swaps.lamports() == before
    assert await swaps.bench.history() == []
