"""What a landed transaction gives back and reports: its own balances, by a word that is enough."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from sqlalchemy import delete, insert, select
from tests.promises import promise
from tests.support.engine import Bench, Wire, by_hand, open_bench
from tests.support.swaps import (
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    SwapBench,
    ata,
    open_swaps,
    pay_sol,
    swaps,
    whole,
)
from tests.vault.money.test_reconcile import restarted

from solward.database.tables import attempts, reservations
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.types.errors import LedgerUnavailable
from solward.types.guardrail import Line, Operation
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.venue import SwapInstructions
from solward.vault.grants.model import USD
from solward.vault.ledger.client import Ledger
from solward.vault.money.send.settlement import (
    Balances,
    StepsTotal,
    TokenBalance,
    kept_units,
    kept_units_of_failed,
    kept_units_of_steps,
    parse_landed,
    read_landed,
    settled_details,
)
from solward.vault.store.attempts import NetworkCost
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET

__all__ = ["swaps"]

WALLET, STRANGER = str(Keypair().pubkey()), str(Keypair().pubkey())
MINT = USDC_POOL.mint
OWN = str(ata(Pubkey.from_string(WALLET), MINT))
# More than anything here costs.
MUCH = 50_000_000


async def kept(bench: Bench) -> dict[str, int]:
    """asset -> units of the only transaction that is counted."""
    async with bench.database.read() as connection:
        rows = await connection.execute(select(reservations.c.asset, reservations.c.units))
        return {row.asset: row.units for row in rows}


async def landed_swap(swaps: SwapBench, record: TransactionRecord) -> Balances:
    answer = await swaps.bench.ledger.transaction(str(record.signature))
    async with swaps.bench.database.read() as connection:
        wire = await connection.scalar(
            select(attempts.c.wire).where(attempts.c.signature == record.signature)
        )
    assert answer is not None
    assert wire is not None
    message = VersionedTransaction.from_bytes(wire).message
    return parse_landed(answer, str(record.signature), message)


# What a landed transaction of the real VM says.


@promise("landed-gives-back-unused")
async def test_a_purchase_costs_its_amount_its_fee_and_the_account_it_opened(
    swaps: SwapBench,
) -> None:
    reserved = {SOL_ASSET: 2 * SOL, COSTS_ASSET: FEE + 2 * RENT}
    first = await landed_swap(swaps, await swaps.swap("SOL", "USDC", 1))
    assert kept_units(first, swaps.address, FEE, reserved, ()) == {
        SOL_ASSET: SOL,
        COSTS_ASSET: FEE + RENT,
    }
    second = await landed_swap(swaps, await swaps.swap("SOL", "USDC", 1))
    assert kept_units(second, swaps.address, FEE, reserved, ()) == {
        SOL_ASSET: SOL,
        COSTS_ASSET: FEE,
    }


@promise("landed-gives-back-unused")
async def test_a_sale_gives_back_no_sol_and_no_cost_whatever_came_in(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 2)
    record = await swaps.swap("USDC", "SOL", 100)
    landed = await landed_swap(swaps, record)
    reserved = {SOL_ASSET: 0, COSTS_ASSET: FEE + RENT, USDC: 150_000_000}
    lines = [left(100_000_000)]
    assert kept_units(landed, swaps.address, FEE, reserved, lines) == {
        SOL_ASSET: 0,
        COSTS_ASSET: FEE,
        USDC: 100_000_000,
    }


# The engine.


@promise("settled-from-own-balances")
async def test_a_swap_reports_what_arrived_and_not_what_was_simulated(swaps: SwapBench) -> None:
    """The node shows more in the simulation than will come."""
    await swaps.swap("SOL", "USDC", 1)
    held = await swaps.units(MINT)

    async def richer(_method: str, params: Sequence[Any]) -> Any:
        answer = await swaps.bench.wire.direct("simulateTransaction", params)
        return _with_more_tokens(answer, 5_000_000)

    swaps.bench.wire.faults["simulateTransaction"] = richer
    record = await swaps.swap("SOL", "USDC", 1)
    assert record.details["outputAmount"] == whole(await swaps.units(MINT) - held, 6)


def _with_more_tokens(answer: Any, units: int) -> Any:
    for state in filter(None, answer["value"]["accounts"]):
        data = bytearray(base64.b64decode(state["data"][0]))
        if len(data) == 165 and state["owner"] == TOKEN_PROGRAM and data[:32] == bytes(MINT):
            amount = int.from_bytes(data[64:72], "little")
            data[64:72] = (amount + units).to_bytes(8, "little")
            state["data"][0] = base64.b64encode(bytes(data)).decode()
    return answer


@promise("landed-meanwhile-settled")
async def test_a_swap_that_outlived_its_process_reports_what_arrived(tmp_path: Path) -> None:
    async with open_swaps(tmp_path, confirm_wait_s=0.01) as swaps:
        swaps.plugin.remake = promising_more
        swaps.bench.wire.away("getSignatureStatuses")
        record = await swaps.swap("SOL", "USDC", 1)
        assert record.status is TransactionStatus.PENDING
        quoted = record.details["outputAmount"]
        await swaps.bench.engine.sender.close()
        swaps.bench.wire.faults.clear()
        await raise_reservation(swaps.bench, {COSTS_ASSET: MUCH})
        await restarted(swaps.bench)
        [record] = await swaps.bench.history()
        assert record.status is TransactionStatus.CONFIRMED
        assert record.details["outputAmount"] == whole(await swaps.units(MINT), 6)
        assert record.details["outputAmount"] == quoted - Decimal("0.001")
        assert await kept(swaps.bench) == {SOL_ASSET: SOL, COSTS_ASSET: FEE + RENT}


async def promising_more(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
    quote = made.quote
    more = replace(
        quote, out_amount=quote.out_amount + 1_000, minimum_out=quote.minimum_out + 1_000
    )
    return replace(made, quote=more)


async def raise_reservation(bench: Bench, units: Mapping[str, int]) -> None:
    """Reserve more for the only transaction, as gross rows."""
    async with bench.database.write() as connection:
        rows = (await connection.execute(select(reservations))).mappings().all()
        await connection.execute(delete(reservations).where(reservations.c.asset.in_(units)))
        for asset, more in units.items():
            await connection.execute(
                insert(reservations).values({**rows[0], "asset": asset, "units": more})
            )


@promise("balances-need-two-hosts")
@pytest.mark.parametrize(("origin", "costs"), [("this process", FEE + RENT), ("rpc.example", MUCH)])
async def test_one_remote_node_reports_and_gives_nothing_back(
    tmp_path: Path, origin: str, costs: int
) -> None:
    async with open_swaps(tmp_path, confirm_wait_s=0.01) as swaps:
        swaps.bench.wire.origin = origin
        swaps.bench.wire.away("getSignatureStatuses")
        await swaps.swap("SOL", "USDC", 1)
        await swaps.bench.engine.sender.close()
        swaps.bench.wire.faults.clear()
        await raise_reservation(swaps.bench, {COSTS_ASSET: MUCH})
        await restarted(swaps.bench)
        [record] = await swaps.bench.history()
        assert record.details["outputAmount"] == whole(await swaps.units(MINT), 6)
        assert await kept(swaps.bench) == {SOL_ASSET: SOL, COSTS_ASSET: costs}


@promise("balances-need-two-hosts", "less-taken-by-two-hosts")
@pytest.mark.parametrize(
    ("hosts", "lies", "sure"),
    [
        (("one.example", "two.example"), False, True),
        (("one.example", "one.example"), False, False),
        (("one.example", "two.example"), True, False),
    ],
)
async def test_balances_give_back_only_where_two_hosts_have_the_same(
    swaps: SwapBench, hosts: tuple[str, str], lies: bool, sure: bool
) -> None:
    record = await swaps.swap("SOL", "USDC", 1)
    honest = await landed_swap(swaps, record)
    wires = [Wire(swaps.bench.localnet) for _ in hosts]
    for wire, host in zip(wires, hosts, strict=True):
        wire.origin = host

    async def cheaper(method: str, params: Sequence[Any]) -> Any:
        answer = await wires[1].direct(method, params)
        answer["meta"]["postBalances"][0] += 1
        return answer

    if lies:
        wires[1].faults["getTransaction"] = cheaper
    ledger = Ledger(Several([wires[0], wires[1]]))
    async with swaps.bench.database.read() as connection:
        wire_bytes = (await connection.execute(select(attempts.c.wire))).scalar_one()
    message = VersionedTransaction.from_bytes(wire_bytes).message
    assert await read_landed(ledger, str(record.signature), message) == (honest, sure)


class Several:
    """A transport over several nodes, as `FailoverTransport` is."""

    origin = "one.example"

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires

    def nodes(self) -> Sequence[Wire]:
        return self._wires

    def origins(self) -> frozenset[str]:
        return frozenset(wire.origin for wire in self._wires)

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        return await self._wires[0].call(method, params)

    async def close(self) -> None:
        return None


LIES: tuple[Callable[[dict[str, Any]], object], ...] = (
    lambda answer: answer["transaction"].update(signatures=["1" * 64]),
    lambda answer: answer["meta"]["preBalances"].pop(),
    lambda answer: answer["meta"]["postBalances"].__setitem__(0, -1),
    lambda answer: answer["meta"].pop("preTokenBalances"),
    lambda answer: answer["meta"]["postTokenBalances"][0].update(accountIndex=99),
    lambda answer: answer.update(meta=None),
)


@promise("balances-need-two-hosts")
async def test_an_answer_that_is_not_this_transactions_balances_is_none(swaps: SwapBench) -> None:
    record = await swaps.swap("SOL", "USDC", 1)
    honest = await swaps.bench.ledger.transaction(str(record.signature))
    assert honest is not None
    for lie in LIES:
        answer = deepcopy(honest)
        lie(answer)

        async def lying(_method: str, _params: Sequence[Any], said: Any = answer) -> Any:
            return said

        swaps.bench.wire.faults["getTransaction"] = lying
        with pytest.raises(LedgerUnavailable):
            await landed_swap(swaps, record)
    swaps.bench.wire.faults.clear()
    await landed_swap(swaps, record)


@promise("balances-need-two-hosts")
async def test_balances_that_never_come_hold_no_record_open(tmp_path: Path) -> None:
    async with open_swaps(tmp_path) as swaps:
        swaps.bench.engine.sender.balances_s = 0.05

        async def none(_method: str, _params: Sequence[Any]) -> Any:
            raise LedgerUnavailable("no history")

        swaps.bench.wire.faults["getTransaction"] = none
        record = await swaps.swap("SOL", "USDC", 1)
        assert record.status is TransactionStatus.CONFIRMED
        assert swaps.bench.wire.calls["getTransaction"] > 1
        assert await kept(swaps.bench) == {
            SOL_ASSET: SOL,
            COSTS_ASSET: FEE + 2 * TOKEN_ACCOUNT_RENT,
        }


async def test_balances_that_come_late_are_waited_for(swaps: SwapBench) -> None:
    async def late(_method: str, _params: Sequence[Any]) -> Any:
        if swaps.bench.wire.calls["getTransaction"] < 3:
            raise LedgerUnavailable("not yet")

    swaps.bench.wire.faults["getTransaction"] = late
    swaps.plugin.remake = promising_more
    record = await swaps.swap("SOL", "USDC", 1)
    assert record.details["outputAmount"] == whole(await swaps.units(MINT), 6)


@promise("released-only-if-dead", "failed-gives-back")
async def test_what_failed_on_the_ledger_keeps_its_slot_and_its_fee(tmp_path: Path) -> None:
    async with open_bench(tmp_path, sol=3, confirm_wait_s=0.01) as bench:
        bench.wire.away("getSignatureStatuses")
        held: list[Sequence[Any]] = []

        async def hold(_method: str, params: Sequence[Any]) -> Any:
            held.append(params)
            return "held"

        bench.wire.faults["sendTransaction"] = hold
        record = await bench.transfer(2)
        await bench.engine.sender.close()
        await raise_reservation(bench, {COSTS_ASSET: MUCH, USDC: 7})
        # Its SOL is gone when it arrives.
        bench.wire.faults.clear()
        payer = Pubkey.from_string(bench.wallet.address)
        await by_hand(bench, pay_sol(payer, MAKER.pubkey(), 2 * SOL))
        wire, options = held[0]
        await bench.wire.direct("sendTransaction", [wire, {**options, "skipPreflight": True}])
        await restarted(bench)
        [record] = await bench.history()
        assert record.status is TransactionStatus.FAILED
        assert "failed on the ledger" in str(record.error)
        assert await kept(bench) == {SOL_ASSET: 0, COSTS_ASSET: 5_000, USDC: 0}


# The function alone.


def landed(
    lamports: Sequence[tuple[str, int, int]],
    before: Mapping[int, TokenBalance] | None = None,
    after: Mapping[int, TokenBalance] | None = None,
) -> Balances:
    names, first, last = zip(*lamports, strict=True)
    return Balances(names, first, last, before or {}, after or {})


def left(units: int, account: str | None = STRANGER, asset: str = USDC) -> Line:
    return Line(Operation.TRANSFER, asset, units, account)


def held(owner: str, units: int, mint: str = USDC) -> TokenBalance:
    return TokenBalance(mint, owner, TOKEN_PROGRAM, units, 6)


@promise("settled-from-own-balances")
def test_tokens_in_an_account_that_a_delegate_may_empty_are_not_back() -> None:
    """The venue gives what it took to an account of the wallet's that it made itself."""
    said = landed(
        [(WALLET, SOL, SOL - 5_000), (OWN, RENT, RENT), (STRANGER, RENT, RENT)],
        {1: held(WALLET, 900), 2: held(STRANGER, 0)},
        {1: held(WALLET, 0), 2: held(WALLET, 900)},
    )
    assert kept_units(said, WALLET, 5_000, {USDC: 1_000}, [left(900)]) == {USDC: 900}


@promise("inflow-restores-nothing")
def test_units_that_come_in_with_the_same_transaction_give_none_back() -> None:
    """5 leave to a stranger, and 5 are minted to the wallet, or somebody pays them."""
    said = landed(
        [(WALLET, SOL, SOL - 5_000), (OWN, RENT, RENT), (STRANGER, RENT, RENT)],
        {1: held(WALLET, 900), 2: held(STRANGER, 0)},
        {1: held(WALLET, 900), 2: held(STRANGER, 500)},
    )
    lines = [left(500)]
    assert kept_units(said, WALLET, 5_000, {USDC: 500}, lines) == {USDC: 500}
    burned = [replace(left(500, None), operation=Operation.BURN)]
    assert kept_units(said, WALLET, 5_000, {USDC: 500}, burned) == {USDC: 500}
    # What goes from one of the wallet's accounts to its associated one did not leave.
    assert kept_units(said, WALLET, 5_000, {USDC: 500}, [left(500, OWN)]) == {USDC: 0}


@promise("inflow-restores-nothing")
def test_what_a_call_brings_lowers_neither_sol_nor_tokens() -> None:
    """A pocket was filled with 1 SOL and 9 units; its call gives both away, while somebody else
    pays the wallet as much."""
    total = StepsTotal()
    filled = landed(
        [(WALLET, 3 * SOL, 2 * SOL - 5_000), (OWN, RENT, RENT), (STRANGER, 0, SOL)],
        {1: held(WALLET, 9)},
        {1: held(WALLET, 0)},
    )
    total.add(filled, WALLET, 5_000, NetworkCost())
    called = landed(
        [(STRANGER, SOL, 0), (WALLET, 2 * SOL - 5_000, 3 * SOL - 5_000), (OWN, RENT, RENT)],
        {2: held(WALLET, 0)},
        {2: held(WALLET, 9)},
    )
    total.add(called, WALLET, 0, NetworkCost(), is_call=True)
    reserved = {SOL_ASSET: SOL, COSTS_ASSET: 5_000, USDC: 9}
    assert kept_units_of_steps(total, reserved) == reserved
    # It arrived all the same.
    assert (total.tokens_gained(USDC), total.tokens_gained(WRAPPED_SOL_MINT)) == (0, 0)


def test_sol_sent_to_a_token_account_is_no_rent() -> None:
    said = landed(
        [(WALLET, 2 * SOL, SOL - 5_000), (OWN, RENT, RENT + SOL)],
        {1: held(STRANGER, 0)},
        {1: held(STRANGER, 0)},
    )
    for costs in (5_000, MUCH):
        reserved = {SOL_ASSET: SOL, COSTS_ASSET: costs}
        assert kept_units(said, WALLET, 5_000, reserved, ()) == {SOL_ASSET: SOL, COSTS_ASSET: 5_000}


def test_an_account_that_changed_its_owner_is_gone_with_what_it_held() -> None:
    said = landed(
        [(WALLET, SOL, SOL), (OWN, RENT, RENT)], {1: held(WALLET, 900)}, {1: held(STRANGER, 900)}
    )
    assert kept_units(said, WALLET, 5_000, {USDC: 1_000}, [left(900)]) == {USDC: 900}


def test_lamports_that_filled_up_an_account_of_one_lamport_are_no_gift() -> None:
    """The account existed with a lamport, so that its rent looks unpaid."""
    said = landed([(WALLET, SOL, SOL - 5_000 - RENT + 1), (OWN, 1, RENT)], {}, {1: held(WALLET, 0)})
    reserved = {COSTS_ASSET: 5_000 + RENT}
    assert kept_units(said, WALLET, 5_000, reserved, ()) == {COSTS_ASSET: 5_000 + RENT - 1}


def test_rent_that_was_closed_into_the_attackers_wrapped_sol_counts_as_costs() -> None:
    wrapped = str(Keypair().pubkey())
    said = landed(
        [(WALLET, 2 * SOL, SOL - 5_000 - RENT), (wrapped, RENT, RENT + SOL + RENT)],
        {1: held(STRANGER, 0, WRAPPED_SOL_MINT)},
        {1: held(STRANGER, SOL + RENT, WRAPPED_SOL_MINT)},
    )
    reserved = {SOL_ASSET: SOL, COSTS_ASSET: 5_000 + 2 * RENT}
    assert kept_units(said, WALLET, 5_000, reserved, ()) == {
        SOL_ASSET: SOL,
        COSTS_ASSET: 5_000 + RENT,
    }


def test_a_swap_that_does_not_say_what_it_sold_is_told_by_the_balances() -> None:
    said = landed(
        [(WALLET, 5 * SOL, 4 * SOL - 5_000 - RENT), (OWN, 0, RENT), (STRANGER, SOL, 2 * SOL)],
        {},
        {1: held(WALLET, 40)},
    )
    details = {"inputToken": WRAPPED_SOL_MINT, "outputToken": USDC}
    assert settled_details("swap", details, said, WALLET, 5_000) == details | {
        "inputAmount": 1,
        "outputAmount": Decimal("0.00004"),
    }
    unseen = details | {"outputToken": STRANGER}
    assert settled_details("swap", unseen, said, WALLET, 5_000) == unseen | {"inputAmount": 1}
    assert settled_details("other", details, said, WALLET, 5_000) is None


amounts = st.integers(0, 2**40)
places = st.tuples(amounts, amounts, st.booleans(), amounts, amounts, st.booleans(), st.booleans())


@promise("settled-from-own-balances", "landed-gives-back-unused")
@given(
    st.lists(places, max_size=5),
    amounts,
    st.integers(0, 10_000),
    amounts,
    amounts,
    amounts,
)
def test_no_counter_is_negative_or_raised_and_what_left_is_covered(
    others: list[Any], start: int, fee: int, sol: int, costs: int, units: int
) -> None:
    accounts, before, after = [], {}, {}
    for place, (had, has, token, was, became, ours_before, ours_after) in enumerate(others, 1):
        accounts.append((f"account-{place}", had, has))
        if token:
            mint = WRAPPED_SOL_MINT if place % 2 else USDC
            before[place] = held(WALLET if ours_before else STRANGER, min(was, had), mint)
            after[place] = held(WALLET if ours_after else STRANGER, min(became, has), mint)
    gained = sum(has - had for _, had, has in accounts)
    end = start - gained - fee
    said = replace(
        landed([(WALLET, start, 0), *accounts], before, after),
        lamports_after=(end, *(has for _, _, has in accounts)),
    )
    reserved = {SOL_ASSET: sol, COSTS_ASSET: costs, USDC: units}
    found = kept_units(said, WALLET, fee, reserved, [left(units)])
    assert found.keys() == reserved.keys()
    assert all(0 <= found[asset] <= reserved[asset] for asset in reserved)
    assert found[SOL_ASSET] + found[COSTS_ASSET] >= min(start - end, sol + costs)
    failed = kept_units_of_failed(fee, reserved)
    assert failed == {SOL_ASSET: 0, COSTS_ASSET: min(fee, costs), USDC: 0, USD: 0}
