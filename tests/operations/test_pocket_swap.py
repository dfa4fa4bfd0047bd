"""A swap that wallet and pocket sign together: to the lamport, and against venues that steal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import WRAPPED_SOL_MINT as WSOL
from spl.token.instructions import create_idempotent_associated_token_account
from sqlalchemy import select
from tests.market_venue import pool_hop, swap_instruction
from tests.promises import promise
from tests.support.engine import front_run
from tests.support.swaps import (
    BONK_POOL,
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    SwapBench,
    ata,
    open_swaps,
    pay,
    whole,
    wrap,
)

from solward.database.tables import attempts
from solward.operations.perform import Operations
from solward.operations.swap import SwapLimits
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT, associated_address
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.types.guardrail import Operation
from solward.types.record import TransactionStatus
from solward.types.venue import SwapInstructions
from solward.vault.guardrails.rules import RULES
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.money.request import ADMIN
from solward.vault.store import pockets as store
from solward.vault.store.pockets import PocketRow, PocketState


async def pockets_of(swaps: SwapBench) -> list[PocketRow]:
    async with swaps.bench.database.read() as connection:
        return await store.of_wallet(connection, swaps.bench.wallet.id)


async def only_pocket_is_empty(swaps: SwapBench) -> None:
    (row,) = await pockets_of(swaps)
    assert row.state is PocketState.SINGLE
    await is_empty(swaps, row.address)


async def is_empty(swaps: SwapBench, address: str) -> None:
    """No lamports, and no token account of the mints it could have had."""
    owner = Pubkey.from_string(address)
    found = await swaps.bench.ledger.accounts(
        [address, *(str(ata(owner, mint)) for mint in (WSOL, USDC_POOL.mint, BONK_POOL.mint))]
    )
    assert set(found.values()) == {None}


async def wire_of_last(swaps: SwapBench) -> VersionedTransaction:
    async with swaps.bench.database.read() as connection:
        wires = (await connection.execute(select(attempts.c.wire))).scalars().all()
    return VersionedTransaction.from_bytes(bytes(wires[-1]))


async def last_message(swaps: SwapBench) -> MessageV1:
    message = (await wire_of_last(swaps)).message
    assert isinstance(message, MessageV1)
    return message


@promise("sol-sale-account-rent")
async def test_a_sale_of_sol_costs_the_amount_two_signatures_and_its_own_account(
    swaps: SwapBench,
) -> None:
    before = await swaps.lamports()
    record = await swaps.swap("SOL", "USDC", 1)
    assert await swaps.lamports() == before - SOL - 10_000 - RENT
    assert record.fee_lamports == 10_000
    assert record.details["outputAmount"] == whole(await swaps.units(USDC_POOL.mint), 6)
    await only_pocket_is_empty(swaps)
    bound = worst_case(await last_message(swaps), swaps.address)
    assert (bound.lamports, bound.fee_lamports, bound.tokens) == (SOL, 10_000, {})
    assert bound.rent_lamports == 2 * TOKEN_ACCOUNT_RENT

    # The account is there now: nothing but the amount and the fee.
    before = await swaps.lamports()
    await swaps.swap("SOL", "USDC", 1)
    assert await swaps.lamports() == before - SOL - 10_000


async def test_a_sale_of_tokens_costs_two_signatures(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)
    before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    record = await swaps.swap("USDC", "SOL", 100)
    gained = await swaps.lamports() - before
    assert (record.details["inputToken"], record.details["outputToken"]) == (USDC, WRAPPED_SOL_MINT)
    assert record.details["inputAmount"] == 100
    assert record.details["outputAmount"] == whole(gained + 10_000, 9)
    assert gained > SOL * 65 // 100
    assert await swaps.units(USDC_POOL.mint) == units - 100_000_000
    # Tokens are not SOL: this one counts nothing against SOL limits.
    assert await swaps.bench.reserved_units() == SOL
    bound = worst_case(await last_message(swaps), swaps.address)
    assert (bound.lamports, bound.tokens) == (0, {USDC: 100_000_000})
    rows = await pockets_of(swaps)
    for row in rows:
        await is_empty(swaps, row.address)
    # Into the pocket's account, whose owner the bytes prove.
    [line] = bound.lines
    assert (line.operation, line.asset, line.units) == (Operation.TRANSFER, USDC, 100_000_000)
    assert line.owner in {row.address for row in rows}
    assert line.account == associated_address(line.owner or "", USDC, TOKEN_PROGRAM)
    assert line.decimals == 6


async def test_tokens_for_tokens_pass_through_the_pocket_too(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)
    # The account for what was bought stays; that of the pocket is gone again.
    for rent in (RENT, 0):
        before, held = await swaps.lamports(), await swaps.units(BONK_POOL.mint)
        record = await swaps.swap("USDC", "BONK", 10)
        bought = await swaps.units(BONK_POOL.mint) - held
        assert record.details["outputAmount"] == whole(bought, 5)
        assert await swaps.lamports() == before - rent - 10_000
    assert worst_case(await last_message(swaps), swaps.address).tokens == {USDC: 10_000_000}
    for row in await pockets_of(swaps):
        await is_empty(swaps, row.address)


Change = Callable[[SwapInstructions, str], SwapInstructions]


def _named(made: SwapInstructions, wallet: str) -> SwapInstructions:
    swap = made.swap
    metas = [*swap.accounts, AccountMeta(Pubkey.from_string(wallet), False, True)]
    return replace(made, swap=Instruction(swap.program_id, swap.data, metas))


def _signed(made: SwapInstructions, wallet: str) -> SwapInstructions:
    swap = made.swap
    metas = [*swap.accounts, AccountMeta(Pubkey.from_string(wallet), True, True)]
    return replace(made, swap=Instruction(swap.program_id, swap.data, metas))


def _cosigned(made: SwapInstructions, _wallet: str) -> SwapInstructions:
    swap = made.swap
    metas = [*swap.accounts, AccountMeta(Keypair().pubkey(), True, True)]
    return replace(made, swap=Instruction(swap.program_id, swap.data, metas))


def _many(made: SwapInstructions, _wallet: str) -> SwapInstructions:
    return replace(made, accounts=tuple(str(Keypair().pubkey()) for _ in range(4)))


def _no_mint(made: SwapInstructions, _wallet: str) -> SwapInstructions:
    return replace(made, accounts=(str(MAKER.pubkey()),))


def _less(made: SwapInstructions, _wallet: str) -> SwapInstructions:
    return replace(made, quote=replace(made.quote, minimum_out=1))


def _endless(made: SwapInstructions, _wallet: str) -> SwapInstructions:
    return replace(made, quote=replace(made.quote, minimum_out=10**19 * 9))


WANTING_MORE: tuple[tuple[Change, str], ...] = (
    (_endless, "The venue's quote has a minimum above what it offers"),
    (_named, "The venue's swap instruction names the wallet"),
    (_signed, "The venue's swap instruction names the wallet"),
    (_cosigned, "The venue's swap instruction needs a signature of somebody else"),
    (_many, "The venue asks for 4 further accounts, more than 3"),
    (_no_mint, "The venue asks for an account of an invalid mint"),
    (_less, "The venue's quote promises less than the slippage allows"),
)


@promise("venue-gets-no-signature", "greedy-instruction-refused")
async def test_an_instruction_that_wants_more_than_the_pocket_is_refused(swaps: SwapBench) -> None:
    for change, text in WANTING_MORE:

        async def remake(
            made: SwapInstructions, _taker: str, _to: str, change: Change = change
        ) -> SwapInstructions:
            return change(made, swaps.address)

        swaps.plugin.remake = remake
        with pytest.raises(TransactionFailed, match=text):
            await swaps.swap("SOL", "USDC", 1)
        assert await swaps.sent() == 0, text
        assert await pockets_of(swaps) == [], text
    history = await swaps.bench.history()
    assert [each.status for each in history] == [TransactionStatus.FAILED] * len(WANTING_MORE)


async def test_a_quote_of_more_than_an_account_can_hold_is_a_failed_record(
    swaps: SwapBench,
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    most = 2**64 - 1

    async def remake(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        return replace(made, quote=replace(made.quote, out_amount=most, minimum_out=most))

    swaps.plugin.remake = remake
    with pytest.raises(TransactionFailed, match="promises more than an account can hold"):
        await swaps.swap("SOL", "USDC", 1)


async def somebody_buys(swaps: SwapBench) -> None:
    """So much that the price is far from what was quoted."""
    maker, lamports = MAKER.pubkey(), 1_000 * SOL
    buy = swap_instruction(
        maker,
        ata(maker, WSOL),
        ata(maker, USDC_POOL.mint),
        [pool_hop(USDC_POOL, True)],
        lamports,
        1,
    )
    await swaps.bench.land([*wrap(maker, lamports), buy], MAKER)


@promise("swap-minimum-asserted", "theft-found-in-simulation")
async def test_what_the_market_gives_less_when_it_lands_costs_the_fee_alone(
    swaps: SwapBench,
) -> None:
    """The venue's own instruction asks for nothing: only the assertion holds it to its quote."""
    await swaps.swap("SOL", "USDC", 1)
    swaps.plugin.remake = _careless
    before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    async with front_run(swaps.bench, lambda: somebody_buys(swaps)):
        with pytest.raises(
            TransactionFailed, match=r"failed on the ledger: instruction \d+ failed: Custom 1"
        ):
            await swaps.swap("SOL", "USDC", 1)
    assert await swaps.lamports() == before - FEE
    assert await swaps.units(USDC_POOL.mint) == units
    for row in await pockets_of(swaps):
        await is_empty(swaps, row.address)


@promise("dust-stops-no-swap")
async def test_a_unit_sent_to_the_pocket_does_not_stop_the_swap(swaps: SwapBench) -> None:
    """The venue knows the pocket's address before anybody: it sends a unit, and no close works."""
    await swaps.swap("SOL", "USDC", 1)
    maker = MAKER.pubkey()

    async def dust(made: SwapInstructions, taker: str, _destination: str) -> SwapInstructions:
        pocket = Pubkey.from_string(taker)
        gift = [
            create_idempotent_associated_token_account(maker, pocket, USDC_POOL.mint),
            pay(USDC_POOL.mint, 6, maker, pocket, 1),
        ]
        await swaps.bench.ledger.send(await swaps.wire(gift, MAKER, payer=maker))
        return made

    swaps.plugin.remake = dust
    before = await swaps.lamports()
    record = await swaps.swap("USDC", "SOL", 100)
    assert record.status is TransactionStatus.CONFIRMED
    assert await swaps.lamports() > before + SOL * 66 // 100
    row = (await pockets_of(swaps))[-1]
    # Its account is known, and left for a sweep.
    assert (row.state, row.mints) == (PocketState.OPEN, (USDC, WRAPPED_SOL_MINT))
    assert await swaps.units(USDC_POOL.mint, Pubkey.from_string(row.address)) == 1


@promise("long-route-shortened")
@pytest.mark.parametrize(("version", "further"), [(0, 30), (1, 60)])
async def test_a_swap_too_large_for_a_transaction_is_asked_for_over_fewer_accounts(
    tmp_path: Path, version: Any, further: int
) -> None:
    async with open_swaps(tmp_path, transaction_version=version) as swaps:
        await _is_shortened(swaps, further)


async def _is_shortened(swaps: SwapBench, further: int) -> None:
    async def wide(made: SwapInstructions, _taker: str, _destination: str) -> SwapInstructions:
        if swaps.plugin.asked_accounts[-1] in (None, 40):
            more = [AccountMeta(Keypair().pubkey(), False, False) for _ in range(further)]
            swap = made.swap
            swap = Instruction(swap.program_id, swap.data, [*swap.accounts, *more])
            return replace(made, swap=swap)
        return made

    swaps.plugin.remake = wide
    await swaps.swap("SOL", "USDC", 1)
    assert swaps.plugin.asked_accounts == [None, 40, 30]
    assert len(set(swaps.plugin.takers)) == 1

    async def ever_wide(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        swaps.plugin.asked_accounts.append(None)
        return await wide(made, _taker, _to)

    swaps.plugin.remake = ever_wide
    with pytest.raises(TransactionFailed, match="does not fit into a transaction"):
        await swaps.swap("SOL", "USDC", 1)


async def test_where_a_venue_has_no_shorter_route_the_size_is_what_is_wrong(
    swaps: SwapBench,
) -> None:
    async def wide_or_none(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        if swaps.plugin.asked_accounts[-1] is not None:
            raise InvalidRequest("The swap venue refused: no route")
        more = [AccountMeta(Keypair().pubkey(), False, False) for _ in range(60)]
        swap = made.swap
        swap = Instruction(swap.program_id, swap.data, [*swap.accounts, *more])
        return replace(made, swap=swap)

    swaps.plugin.remake = wide_or_none
    with pytest.raises(TransactionFailed, match="does not fit into a transaction"):
        await swaps.swap("SOL", "USDC", 1)
    assert swaps.plugin.asked_accounts == [None, 40]


@promise("purchases-follow-each-other")
async def test_two_purchases_of_one_mint_follow_each_other(swaps: SwapBench) -> None:
    """Each asserts what the wallet holds after it, so neither may count what the other brings."""
    await swaps.swap("SOL", "USDC", Decimal("0.1"))
    operations, actor = swaps.operations(), ADMIN
    running = 0
    most = 0

    async def watched(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return made

    swaps.plugin.remake = watched
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.1")}
    wallet = swaps.bench.wallet.id
    records = await asyncio.gather(
        *(operations.perform("swap", wallet, actor, body) for _ in range(5))
    )
    assert {record.status for record in records} == {TransactionStatus.CONFIRMED}
    assert most == 1
    assert operations._purchases == {}
    rows = await pockets_of(swaps)
    assert [row.counter for row in rows] == [1, 2, 3, 4, 5, 6]
    got = sum(record.details["outputAmount"] for record in records)
    held = whole(await swaps.units(USDC_POOL.mint), 6)
    first = (await swaps.bench.history())[-1].details["outputAmount"]
    assert held == got + first


async def _careless(made: SwapInstructions, taker: str, to: str) -> SwapInstructions:
    """It asks the market for nothing: only the assertion holds it to its quote."""
    user = Pubkey.from_string(taker)
    swap = swap_instruction(
        user, ata(user, WSOL), Pubkey.from_string(to), [pool_hop(USDC_POOL, True)], SOL, 1
    )
    return replace(made, swap=swap)


async def _others_purchase(swaps: SwapBench) -> None:
    """By another process, which does not wait its turn here."""
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}
    record = await swaps.operations().perform("swap", swaps.bench.wallet.id, ADMIN, body)
    assert record.status is TransactionStatus.CONFIRMED


@promise("swap-minimum-asserted")
async def test_a_venue_that_waits_for_another_purchase_is_held_to_its_own(
    swaps: SwapBench,
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    stack = AsyncExitStack()

    async def wait(made: SwapInstructions, taker: str, to: str) -> SwapInstructions:
        swaps.plugin.remake = None
        await _others_purchase(swaps)
        landing = front_run(swaps.bench, lambda: somebody_buys(swaps))
        await stack.enter_async_context(landing)
        return await _careless(made, taker, to)

    swaps.plugin.remake = wait
    async with stack:
        with pytest.raises(TransactionFailed, match=r"instruction \d+ failed: Custom 1"):
            await swaps.swap("SOL", "USDC", 1)


def meanwhile(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[None]]
) -> None:
    """Do something between what is judged of a swap and what is signed of it."""
    assessor = swaps.bench.engine._assessor
    assess = assessor.assess_any

    async def and_then(*args: Any, **options: Any) -> Any:
        found = await assess(*args, **options)
        with monkeypatch.context() as undone:
            undone.setattr(assessor, "assess_any", assess)
            await act()
        return found

    monkeypatch.setattr(assessor, "assess_any", and_then)


@pytest.mark.parametrize("gives", [True, False])
async def test_a_purchase_that_ends_while_another_is_judged_does_not_count_for_it(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch, gives: bool
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    others, stack = 0, AsyncExitStack()

    async def other() -> None:
        nonlocal others
        before = await swaps.units(USDC_POOL.mint)
        remake, swaps.plugin.remake = swaps.plugin.remake, None
        await _others_purchase(swaps)
        swaps.plugin.remake = remake
        others = await swaps.units(USDC_POOL.mint) - before
        if not gives:
            landing = front_run(swaps.bench, lambda: somebody_buys(swaps))
            await stack.enter_async_context(landing)

    meanwhile(swaps, monkeypatch, other)
    before = await swaps.units(USDC_POOL.mint)
    if gives:
        record = await swaps.swap("SOL", "USDC", 1)
        got = await swaps.units(USDC_POOL.mint) - before - others
        assert whole(got, 6) == record.details["outputAmount"] > 0
        return
    swaps.plugin.remake = _careless
    async with stack:
        with pytest.raises(TransactionFailed, match=r"instruction \d+ failed: Custom 1"):
            await swaps.swap("SOL", "USDC", 1)


@promise("dust-stops-no-purchase")
async def test_dust_that_comes_between_plan_and_signature_stops_no_purchase(
    swaps: SwapBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    sent = 0

    async def dust() -> None:
        nonlocal sent
        sent += 1
        maker, wallet = MAKER.pubkey(), Pubkey.from_string(swaps.bench.wallet.address)
        mint = USDC_POOL.mint
        await swaps.bench.land([pay(mint, 6, maker, wallet, sent)], MAKER)

    meanwhile(swaps, monkeypatch, dust)
    for cents in (30, 31, 32):
        record = await swaps.swap("SOL", "USDC", Decimal(cents) / 100)
        assert record.status is TransactionStatus.CONFIRMED
    assert sent == 3


@promise("slippage-and-impact-bounded")
async def test_more_slippage_than_the_service_allows_is_a_bad_request(swaps: SwapBench) -> None:
    bench = swaps.bench
    operations = Operations(
        engine=bench.engine,
        wallets=bench.wallets,
        ledger=bench.ledger,
        tokens=swaps.operations()._tokens,
        network="localnet",
        venues=[swaps.venue],
        swap_limits=SwapLimits(max_slippage_bps=100),
    )
    body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1, "slippageBps": 101}
    with pytest.raises(InvalidRequest, match=r"slippageBps must be at most 100 \(MAX_SLIPPAGE_BPS"):
        await operations.perform("swap", bench.wallet.id, ADMIN, body)
    assert swaps.plugin.takers == []
    record = await operations.perform("swap", bench.wallet.id, ADMIN, body | {"slippageBps": 100})
    assert record.status is TransactionStatus.CONFIRMED


@promise("costly-swap-refused")
async def test_a_swap_that_costs_more_than_a_tenth_of_itself_is_a_bad_request(
    swaps: SwapBench,
) -> None:
    with pytest.raises(InvalidRequest, match="amount is too small: the network"):
        await swaps.swap("SOL", "USDC", Decimal("0.000099999"))
    assert await swaps.bench.history() == []
    await swaps.swap("SOL", "USDC", Decimal("0.0001"))


@promise("price-impact-bounded", "slippage-and-impact-bounded")
@pytest.mark.parametrize("in_steps", [False, True])
async def test_a_swap_that_moves_the_price_too_far_is_blocked(
    tmp_path: Path, in_steps: bool
) -> None:
    """Whatever the venue says of it: its own price for a thousandth shows it."""
    async with open_swaps(tmp_path, sol=20_000) as swaps:
        swaps.plugin.requote = lambda quote: replace(quote, price_impact=Decimal(0))
        if in_steps:
            swaps.answer(swaps.honest)
        with pytest.raises(GuardrailBlocked, match=r"would move the price by 90. basis points, "
                           "more than the 500 allowed; MAX_PRICE_IMPACT_BPS sets"):  # fmt: skip
            await swaps.swap("SOL", "USDC", 10_000)
        (record,) = await swaps.bench.history()
        assert record.status is TransactionStatus.BLOCKED
        assert record.guardrails_applied[-1] == "swap_bounds"
        assert await swaps.bench.reserved_units() == 0
        assert await swaps.sent() == 0
        # A tenth of it moves the price by less than 5 %.
        swaps.plugin.build = None
        assert (await swaps.swap("SOL", "USDC", 1_000)).guardrails_applied == RULES


async def test_a_warm_swap_costs_few_ledger_calls_and_as_many_commits_as_a_transfer(
    swaps: SwapBench,
) -> None:
    bench = swaps.bench
    for _ in range(2):
        await swaps.swap("SOL", "USDC", 2)
        # By the version that it finds; what it used is known then.
        await swaps.swap("USDC", "SOL", 10)
    counted: list[str] = []
    bench.database.on_transaction = counted.append
    for sold, bought, amount, calls in (("SOL", "USDC", "0.1", 8), ("USDC", "SOL", "10", 6)):
        made: list[Counter[str]] = []
        # Where a slot begins between two calls, they are made again: the least of several counts.
        while len(made) < 8 and min((each.total() for each in made), default=calls + 1) > calls:
            bench.wire.calls.clear()
            counted.clear()
            await swaps.swap(sold, bought, Decimal(amount))
            assert Counter(counted) == {"write": 3, "read": 1}
            made.append(Counter(bench.wire.calls))
        assert min(each.total() for each in made) <= calls, made
