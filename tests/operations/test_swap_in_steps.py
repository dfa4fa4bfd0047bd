"""A venue of whole transactions: a pocket signs them alone, once the wallet has filled it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from solders.account import Account
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams
from tests.promises import promise
from tests.support.swaps import (
    BONK_POOL,
    MAKER,
    RENT,
    SOL,
    USDC_POOL,
    SwapBench,
    ata,
    market_and_makers,
    open_swaps,
    pay,
    pay_sol,
    whole,
)

from solward.solana.programs import TOKEN_2022_PROGRAM
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.types.errors import GuardrailBlocked, TransactionFailed
from solward.types.guardrail import Outflow
from solward.types.record import TransactionStatus
from solward.types.venue import Quote, QuoteRequest, VenueContext
from solward.vault.guardrails.rules import Policy
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.store import attempts as attempt_store
from solward.vault.store import pockets as store
from solward.vault.store.attempts import PocketStep
from solward.vault.store.pockets import PocketRow, PocketState

# Funding and sweep by the wallet, the call by the pocket and the pool.
FEES = 5_000 + 10_000 + 10_000


async def steps_of(swaps: SwapBench, record_id: str) -> list[str]:
    async with swaps.bench.database.read() as connection:
        found = await attempt_store.of_transaction(connection, record_id)
    return [each.step for each in found]


async def pockets_of(swaps: SwapBench) -> list[PocketRow]:
    async with swaps.bench.database.read() as connection:
        return list(await store.of_wallet(connection, swaps.bench.wallet.id))


async def pockets_are_empty(swaps: SwapBench) -> None:
    for row in await pockets_of(swaps):
        assert row.state is not PocketState.OPEN
        owner = Pubkey.from_string(row.address)
        assert await swaps.bench.lamports(row.address) == 0
        assert await swaps.bench.ledger.holdings(str(owner)) == ()


async def test_an_account_of_a_token_on_the_way_comes_home_too(swaps: SwapBench) -> None:
    """A route over a further token leaves an account of it: its rent is the wallet's."""

    def over_bonk(quote: Quote, user: Pubkey) -> Sequence[Instruction]:
        on_the_way = create_idempotent_associated_token_account(user, user, BONK_POOL.mint)
        return [on_the_way, *swaps.honest(quote, user)]

    swaps.answer(over_bonk)
    before = await swaps.lamports()
    record = await swaps.swap("SOL", "USDC", 1)
    assert await steps_of(swaps, record.id) == ["fund", "call", "sweep"]
    assert await swaps.lamports() == before - SOL - FEES - RENT
    await pockets_are_empty(swaps)


async def test_a_call_that_opens_many_accounts_makes_no_endless_sweep(tmp_path: Path) -> None:
    """Each of another token costs the wallet a part of a sweep, so three are looked after."""
    mints = [Keypair().pubkey() for _ in range(4)]

    def genesis() -> Mapping[Pubkey, Account]:
        found = dict(market_and_makers())
        return found | dict.fromkeys(mints, found[BONK_POOL.mint])

    async with open_swaps(tmp_path, genesis=genesis) as swaps:
        swaps.answer(
            lambda quote, user: [
                *(create_idempotent_associated_token_account(user, user, each) for each in mints),
                *swaps.honest(quote, user),
            ]
        )
        record = await swaps.swap("SOL", "USDC", 1)
        assert record.status is TransactionStatus.CONFIRMED
        (row,) = await pockets_of(swaps)
        left = await swaps.bench.ledger.holdings(row.address)
        assert len({each.mint for each in left} & set(map(str, mints))) == 1
        assert len(await steps_of(swaps, record.id)) <= 4


@promise("message-versions")
async def test_an_order_of_version_1_is_signed_by_the_pocket(swaps: SwapBench) -> None:
    limits = {"compute_unit_limit": 200_000, "loaded_accounts_data_size_limit": 1 << 20}
    swaps.answer(swaps.honest, config=TransactionConfig(priority_fee=7_000, **limits))
    before = await swaps.lamports()
    record = await swaps.swap("SOL", "USDC", 1)
    assert record.status is TransactionStatus.CONFIRMED
    async with swaps.bench.database.read() as connection:
        steps = await attempt_store.of_transaction(connection, record.id)
    [call] = [step for step in steps if step.step == PocketStep.CALL]
    assert isinstance(VersionedTransaction.from_bytes(call.wire).message, MessageV1)
    assert before - await swaps.lamports() == 10**9 + FEES + 7_000 + RENT
    await pockets_are_empty(swaps)


async def test_tokens_buy_sol(swaps: SwapBench) -> None:
    swaps.answer(swaps.honest)
    await swaps.swap("SOL", "USDC", 1)
    before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    counted = await swaps.bench.reserved_units()

    def sell(quote: Quote, user: Pubkey) -> Sequence[Instruction]:
        return [
            pay(USDC_POOL.mint, 6, user, MAKER.pubkey(), quote.in_amount),
            pay_sol(MAKER.pubkey(), user, quote.out_amount),
        ]

    swaps.answer(sell)
    record = await swaps.swap("USDC", "SOL", 100)
    gained = await swaps.lamports() - before
    assert await swaps.units(USDC_POOL.mint) == units - 100_000_000
    # What came home, the wallet's fees aside: less the pocket's own.
    assert record.details["outputAmount"] == whole(gained + 15_000, 9)
    assert gained > SOL * 66 // 100
    # It gave SOL: no SOL counts, and nothing is given back beyond what it had reserved.
    assert await swaps.bench.reserved_units() == counted
    await pockets_are_empty(swaps)


@promise("pocket-funding-is-bounded")
async def test_what_the_wallet_signs_around_the_call_is_bounded_by_its_bytes(
    swaps: SwapBench,
) -> None:
    """The funding takes what is counted, the sweep a fee; the call is none of the wallet's."""
    swaps.answer(swaps.honest)
    record = await swaps.swap("SOL", "USDC", 1)
    async with swaps.bench.database.read() as connection:
        steps = await attempt_store.of_transaction(connection, record.id)
    messages = {
        step.step: VersionedTransaction.from_bytes(bytes(step.wire)).message for step in steps
    }
    bounds = {step: worst_case(message, swaps.address) for step, message in messages.items()}
    funding = bounds["fund"].lamports
    assert funding >= SOL
    # What is in the pocket is all a call can take; beside the price it is for fee and rent.
    assert funding <= SOL + 6 * TOKEN_ACCOUNT_RENT + 10_000
    assert (bounds["sweep"].lamports, bounds["sweep"].tokens) == (0, {})
    assert bounds["call"] == Outflow(lamports=0, fee_lamports=0, rent_lamports=0, tokens={})
    assert swaps.user not in messages["call"].account_keys[:2]


@promise("bad-call-unsigned")
async def test_less_than_the_minimum_is_not_signed_and_everything_comes_home(
    swaps: SwapBench,
) -> None:
    def short(quote: Quote, user: Pubkey) -> Sequence[Instruction]:
        return swaps.honest(quote, user, given=quote.minimum_out - quote.out_amount - 1)

    swaps.answer(short)
    before = await swaps.lamports()
    with pytest.raises(TransactionFailed, match="The call would bring 148800766 units") as caught:
        await swaps.swap("SOL", "USDC", 1)
    assert await steps_of(swaps, caught.value.record.id) == ["fund", "sweep"]
    assert await swaps.lamports() == before - 15_000
    assert await swaps.bench.reserved_units() == 0
    await pockets_are_empty(swaps)

    swaps.answer(lambda quote, user: swaps.honest(
        quote, user, given=quote.minimum_out - quote.out_amount
    ))  # fmt: skip
    record = await swaps.swap("SOL", "USDC", 1)
    assert record.details["outputAmount"] == Decimal("148.800767")


async def refused(swaps: SwapBench, text: str) -> None:
    before = await swaps.lamports()
    with pytest.raises(TransactionFailed, match=text):
        await swaps.swap("SOL", "USDC", 1)
    # The funding and the sweep were paid; the bytes were never signed.
    assert await swaps.lamports() == before - 15_000
    assert await swaps.bench.reserved_units() == 0
    await pockets_are_empty(swaps)


@promise("venue-gets-no-signature", "bad-call-unsigned")
async def test_bytes_that_want_the_wallets_signature_are_refused(swaps: SwapBench) -> None:
    async def paid_by_the_wallet(quote: Quote, taker: str) -> bytes:
        return await swaps.wire(swaps.honest(quote, Pubkey.from_string(taker)), MAKER)

    swaps.plugin.build = paid_by_the_wallet
    await refused(swaps, "needs the wallet's signature, which no call gets")

    async def instead_of_the_pocket(quote: Quote, _taker: str) -> bytes:
        return await swaps.wire(swaps.honest(quote, swaps.user), MAKER)

    swaps.plugin.build = instead_of_the_pocket
    await refused(swaps, "needs the wallet's signature, which no call gets")


async def test_bytes_that_lack_another_signature_are_refused(swaps: SwapBench) -> None:
    async def unsigned(quote: Quote, taker: str) -> bytes:
        user = Pubkey.from_string(taker)
        return await swaps.wire(swaps.honest(quote, user), payer=user)

    swaps.plugin.build = unsigned
    await refused(swaps, "A signature other than the pocket's is missing or wrong")


async def test_bytes_on_a_blockhash_the_ledger_does_not_know_are_not_sent(
    swaps: SwapBench,
) -> None:
    async def build(quote: Quote, taker: str) -> bytes:
        stale, user = Hash.from_bytes(bytes(Keypair().pubkey())), Pubkey.from_string(taker)
        return await swaps.wire(swaps.honest(quote, user), MAKER, payer=user, blockhash=stale)

    swaps.plugin.build = build
    await refused(swaps, "The call would fail: BlockhashNotFound")


@promise("pocket-purchase-checked")
@pytest.mark.parametrize("is_allowed", [False, True])
async def test_a_mint_that_its_issuer_can_take_is_bought_where_the_operator_allows_it(
    tmp_path: Path, is_allowed: bool
) -> None:
    """The pocket buys it; nothing that the wallet signs before shows the mint."""
    mint = Keypair().pubkey()
    named = frozenset({str(mint)} if is_allowed else ())
    program = Pubkey.from_string(TOKEN_2022_PROGRAM)

    def at(owner: Pubkey) -> Pubkey:
        return get_associated_token_address(owner, mint, program)

    def genesis() -> Mapping[Pubkey, Account]:
        found = dict(market_and_makers())
        delegate = b"\x0c\x00\x20\x00" + bytes(Keypair().pubkey())
        data = bytes(found[USDC_POOL.mint].data).ljust(165, b"\x00") + b"\x01" + delegate
        held = bytes(found[ata(MAKER.pubkey(), USDC_POOL.mint)].data)[32:]
        found[mint] = Account(SOL, data, program)
        found[at(MAKER.pubkey())] = Account(SOL, bytes(mint) + held + b"\x02", program)
        return found

    async with open_swaps(tmp_path, genesis=genesis, policy=Policy(regulated_mints=named)) as swaps:

        async def quote(request: QuoteRequest, _: VenueContext) -> Quote:
            least = request.amount * (10_000 - request.slippage_bps) // 10_000
            return Quote(
                request.input_mint,
                request.output_mint,
                request.amount,
                request.amount,
                least,
                request.slippage_bps,
                Decimal(0),
            )

        def give(quote: Quote, user: Pubkey) -> Sequence[Instruction]:
            move = TransferCheckedParams(
                program_id=program,
                source=at(MAKER.pubkey()),
                mint=mint,
                dest=at(user),
                owner=MAKER.pubkey(),
                amount=quote.out_amount,
                decimals=6,
            )
            return [
                create_idempotent_associated_token_account(user, user, mint, program),
                pay_sol(user, MAKER.pubkey(), quote.in_amount),
                transfer_checked(move),
            ]

        swaps.plugin.quote = quote  # type: ignore[method-assign]
        swaps.answer(give)
        before = await swaps.lamports()
        if is_allowed:
            await swaps.swap("SOL", str(mint), 1)
            assert await swaps.held(at(swaps.user)) == SOL
            return
        text = f"mint {mint} has a permanent delegate; REGULATED_MINTS can allow this mint"
        with pytest.raises(GuardrailBlocked, match=text) as blocked:
            await swaps.swap("SOL", str(mint), 1)
        assert blocked.value.rule == "simulated_effects"
        assert await swaps.lamports() == before


@promise("call-fee-capped")
@pytest.mark.parametrize("most", [5_000_000, 5_000_001 + 10_000])
async def test_a_call_that_pays_the_network_more_than_is_allowed_is_not_signed(
    tmp_path: Path, most: int
) -> None:
    """The pocket pays it, of what the wallet put in."""
    async with open_swaps(tmp_path, policy=Policy(max_fee_lamports=most)) as swaps:
        swaps.answer(
            lambda quote, user: [
                set_compute_unit_limit(1_000_000),
                set_compute_unit_price(5_000_000),
                *swaps.honest(quote, user),
            ]
        )
        if most > 5_000_000:
            await swaps.swap("SOL", "USDC", 1)
            return
        with pytest.raises(TransactionFailed, match=r"network fee of 0\.00501 SOL is more than"):
            await swaps.swap("SOL", "USDC", 1)
        await pockets_are_empty(swaps)
        assert await swaps.units(USDC_POOL.mint) == 0
