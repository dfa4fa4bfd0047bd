"""Rent as the cluster asks it: shown and paid as it is now, bounded as it was at most."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.engine import Bench, Fault
from tests.support.localnet import FEE
from tests.support.swaps import open_swaps
from tests.support.tokens import TokenBench, open_tokens
from tests.vault.money.test_fates import pair
from tests.vault.money.test_pocket_run import paying, row_of, use

from solward.operations.sol import plan_wrap_sol
from solward.operations.tokens import plan_mint_supply
from solward.solana.message import AnyMessage
from solward.solana.programs import RENT_SYSVAR
from solward.solana.protocol import MOST_RENT_PER_BYTE, rent_of
from solward.solana.token_list import token_list
from solward.types.errors import GuardrailBlocked, SolwardError, TransactionFailed
from solward.types.money import U64_MAX, sol_to_lamports
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.money.request import ADMIN, Draft
from solward.vault.store import attempts as attempt_store

SOL = 1_000_000_000
LAUNCH = {"name": "D", "symbol": "D", "decimals": 6, "initialSupply": 1}
# Down by SIMD-0437, and back up by SIMD-0438.
RENTS = (6_960, 5_080, 2_575, 696, 6_960)


async def do(tokens: TokenBench, name: str, /, **values: Any) -> TransactionRecord:
    record = await tokens.operations.perform(name, tokens.wallet, ADMIN, values)
    assert record.status is TransactionStatus.CONFIRMED
    return record


async def shown(tokens: TokenBench, draft: Draft) -> Mapping[str, Any]:
    """The effects that a preview shows, SOL in lamports."""
    trial = await tokens.bench.engine.dry_run(tokens.wallet, ADMIN, draft)
    assert trial.allowed
    effects = trial.to_json()["effects"]
    return {name: int(effects[name] * SOL) for name in ("solOut", "rent")}


async def opening(tokens: TokenBench, mint: str) -> Draft:
    """A token minted to the wallet, whose account is opened for it."""
    return await plan_mint_supply(
        tokens.address,
        ledger=tokens.bench.ledger,
        tokens=token_list("localnet"),
        mint=mint,
        amount=1,
        decimals=None,
    )


async def message_of(bench: Bench, record: TransactionRecord) -> AnyMessage:
    """What was signed last of a record."""
    async with bench.database.read() as connection:
        steps = await attempt_store.of_transaction(connection, record.id)
    return VersionedTransaction.from_bytes(bytes(steps[-1].wire)).message


@promise("rent-of-the-cluster")
async def test_what_is_shown_and_paid_is_what_the_cluster_asks_now(tmp_path: Path) -> None:
    async with open_tokens(tmp_path) as tokens:
        for per_byte in RENTS:
            await tokens.bench.localnet.set_rent(per_byte)
            token, stake = rent_of(165, per_byte), rent_of(200, per_byte)
            mint = await tokens.mint()
            before = await tokens.lamports()
            draft = await opening(tokens, mint)
            assert await shown(tokens, draft) == {"solOut": 0, "rent": token}
            await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
            assert before - await tokens.lamports() == token + FEE
            await do(tokens, "burn", mint=mint, amount=1)
            closed = await do(tokens, "close_account", mint=mint)
            assert closed.details["reclaimed"] == Decimal(token).scaleb(-9)

            draft = await plan_wrap_sol(tokens.address, ledger=tokens.bench.ledger, amount=1)
            assert await shown(tokens, draft) == {"solOut": SOL, "rent": token}
            await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
            back = await do(tokens, "unwrap_sol")
            assert back.details["reclaimed"] == Decimal(token).scaleb(-9)

            before = await tokens.lamports()
            await do(tokens, "launch_token", **LAUNCH)
            paid = before - await tokens.lamports() - FEE
            assert paid % per_byte == 0
            assert paid < rent_of(700, per_byte)

            least = Decimal(SOL + stake).scaleb(-9)
            staking = do(tokens, "stake", amount=least - Decimal("0.000000001"))
            await tokens.refuses(staking, f"^amount must be at least {least.normalize():f} SOL")
        await do(tokens, "stake", amount=least)


@promise("rent-of-the-cluster")
async def test_swaps_pay_the_rent_of_now_and_count_the_most(tmp_path: Path) -> None:
    async with open_swaps(tmp_path) as swaps:
        for place, per_byte in enumerate(RENTS):
            await swaps.bench.localnet.set_rent(per_byte)
            before = await swaps.lamports()
            record = await swaps.swap("SOL", "USDC", Decimal("0.5"))
            paid = before - await swaps.lamports()
            # The wallet's own account of what is bought stays.
            opened = 0 if place else rent_of(165, per_byte)
            assert paid == SOL // 2 + (record.fee_lamports or 0) + opened
            before = await swaps.lamports()
            record = await swaps.swap("USDC", "SOL", 10)
            got = sol_to_lamports(record.details["outputAmount"])
            assert await swaps.lamports() == before + got - (record.fee_lamports or 0)
            bound = worst_case(await message_of(swaps.bench, record), swaps.address)
            assert bound.rent_lamports == 2 * rent_of(165, MOST_RENT_PER_BYTE)


@promise("rent-of-the-cluster")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("wrap_sol", {"amount": 1}),
        ("launch_token", LAUNCH),
        ("stake", {"amount": 2}),
    ],
)
async def test_where_rent_is_more_than_counted_nothing_that_pays_it_is_signed(
    tokens: TokenBench, name: str, values: dict[str, Any]
) -> None:
    await tokens.bench.localnet.set_rent(MOST_RENT_PER_BYTE + 1)
    with pytest.raises(SolwardError, match=r"requires 6961 lamports of rent per byte; above 6960,"):
        await do(tokens, name, **values)
    assert tokens.sent() == 0
    await tokens.bench.transfer(1)
    await tokens.bench.localnet.set_rent(MOST_RENT_PER_BYTE)
    await do(tokens, name, **values)


LIES = {
    "0": struct.pack("<QdB", 0, 1.0, 50),
    "2^64": struct.pack("<QdB", U64_MAX, 1.0, 50),
    "negative": struct.pack("<QdB", 5_080, -1.0, 50),
    "no number": struct.pack("<QdB", 5_080, float("nan"), 50),
    "infinite": struct.pack("<QdB", U64_MAX, float("inf"), 50),
    "short": b"\x00",
}


def showing(bench: Bench, data: Callable[[], bytes]) -> Fault:
    """A node that shows the Rent sysvar with other data."""

    async def fault(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        for address, value in zip(params[0], answer["value"], strict=True):
            if address == RENT_SYSVAR:
                value["data"][0] = base64.b64encode(data()).decode()
        return answer

    return fault


@promise("rent-of-the-cluster")
@pytest.mark.parametrize("lie", LIES)
async def test_a_node_that_lies_about_rent_lowers_no_bound_and_stops_no_plain_payment(
    tokens: TokenBench, lie: str
) -> None:
    tokens.bench.wire.faults["getMultipleAccounts"] = showing(tokens.bench, lambda: LIES[lie])
    await tokens.bench.transfer(1)
    before = await tokens.lamports()
    try:
        record = await do(tokens, "wrap_sol", amount=1)
    except GuardrailBlocked:
        assert await tokens.lamports() == before
        assert tokens.sent() == 1
    else:
        message = await message_of(tokens.bench, record)
        assert worst_case(message, tokens.address).rent_lamports == rent_of(165, MOST_RENT_PER_BYTE)
    del tokens.bench.wire.faults["getMultipleAccounts"]
    await do(tokens, "wrap_sol", amount=1)


@pytest.mark.parametrize("answer", [-1, 2**64, 1.5, "1488440", None, True, [], 2**63])
async def test_an_answer_that_is_no_rent_is_named_and_stops_no_plain_payment(
    tokens: TokenBench, answer: Any
) -> None:
    async def said(_method: str, _params: Sequence[Any]) -> Any:
        return {} if answer is None else answer

    tokens.bench.wire.faults["getMinimumBalanceForRentExemption"] = said
    for name, values in (
        ("launch_token", LAUNCH),
        ("stake", {"amount": 2}),
    ):
        with pytest.raises(SolwardError, match=r"unexpected shape|lamports of rent per byte"):
            await do(tokens, name, **values)
    assert tokens.sent() == 0
    await tokens.bench.transfer(1)
    await do(tokens, "wrap_sol", amount=1)


async def test_rent_that_rises_between_plan_and_signature_stops_no_payment(
    tokens: TokenBench,
) -> None:
    await tokens.bench.localnet.set_rent(696)
    mint = await tokens.mint()
    draft = await opening(tokens, mint)
    await tokens.bench.localnet.set_rent(6_960)
    before = await tokens.lamports()
    record = await tokens.bench.engine.execute(tokens.wallet, ADMIN, draft)
    assert record.status is TransactionStatus.CONFIRMED
    assert before - await tokens.lamports() == rent_of(165, 6_960) + FEE


async def test_a_payment_that_pays_no_rent_asks_nothing_for_it(bench: Bench) -> None:
    await bench.transfer(1)
    bench.wire.calls.clear()
    await bench.transfer(1)
    calls = bench.wire.calls
    assert calls["getMinimumBalanceForRentExemption"] == 0
    # State, beside it the ledger's time and rent; and the simulation.
    assert (calls["getMultipleAccounts"], calls["simulateTransaction"]) == (1, 1)


@promise("rent-of-the-cluster")
async def test_of_several_nodes_the_one_that_says_most_counts(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        bench = nodes.bench
        nodes.ignorant.faults["getMultipleAccounts"] = showing(bench, lambda: LIES["2^64"])
        draft = await plan_wrap_sol(bench.wallet.address, ledger=bench.ledger, amount=1)
        with pytest.raises(GuardrailBlocked, match="lamports of rent per byte"):
            await nodes.engine.execute(bench.wallet.id, ADMIN, draft)
        # One that shows nothing that can be read says nothing.
        nodes.engine._assessor._rent = (-math.inf, 0)
        nodes.ignorant.faults["getMultipleAccounts"] = 500
        await nodes.engine.dry_run(bench.wallet.id, ADMIN, draft)


@promise("rent-of-the-cluster")
@pytest.mark.parametrize("in_steps", [False, True])
async def test_a_swap_is_not_begun_where_its_accounts_take_more_rent_than_counted(
    tmp_path: Path, in_steps: bool
) -> None:
    async with open_swaps(tmp_path) as swaps:
        if in_steps:
            swaps.answer(swaps.honest)
        before = await swaps.lamports()
        await swaps.bench.localnet.set_rent(MOST_RENT_PER_BYTE + 1)
        with pytest.raises(GuardrailBlocked, match=r"6961 lamports of rent per byte"):
            await swaps.swap("SOL", "USDC", 1)
        assert await swaps.lamports() == before


@promise("rent-of-the-cluster")
async def test_a_pocket_keeps_a_token_whose_account_would_take_more_rent_than_counted(
    tmp_path: Path,
) -> None:
    async with open_tokens(tmp_path) as tokens:
        bench, mint = tokens.bench, await tokens.mint(units=5)
        given = {"tokens": {mint: 5}, "program": tokens.address, "position": "pool", "stays": True}
        await use(bench, paying(Keypair().pubkey(), rent_of(0, MOST_RENT_PER_BYTE)), **given)
        await do(tokens, "close_account", mint=mint)
        pocket = await row_of(bench)
        await bench.localnet.set_rent(MOST_RENT_PER_BYTE + 1)
        with pytest.raises(TransactionFailed, match="Something is left in the pocket"):
            await bench.engine.sweep_pocket(tokens.wallet, ADMIN, pocket.address)
        assert await bench.lamports(pocket.address) == 0
        assert await tokens.units(mint) == 0
        await bench.localnet.set_rent(MOST_RENT_PER_BYTE)
        await bench.engine.sweep_pocket(tokens.wallet, ADMIN, pocket.address)
        assert await tokens.units(mint) == 5
