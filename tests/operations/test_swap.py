from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.constants import WRAPPED_SOL_MINT as WSOL
from spl.token.instructions import (
    approve,
    create_idempotent_associated_token_account,
)
from spl.token.models import ApproveParams
from tests.support.swap import (
    BONK,
    BONK_MAKER,
    BONK_POOL,
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    Build,
    SwapBench,
    ata,
    close,
    open_swaps,
    pay,
    pay_sol,
    whole,
    wrap,
)

from solward.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.operations.declared.fields import camel
from solward.operations.declared.swap import SWAP
from solward.operations.swap import NO_SWAP_LIMITS, plan_swap
from solward.record import TransactionRecord, TransactionStatus, TransactionType
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.vault.guardrails import RULES, ScopeLimits
from solward.venue import Quote, SwapInstructions
from solward_localnet.market import genesis_accounts

SLIPPAGE = "slippageBps must be a whole number from 0 to 10000"

Extra = Callable[[SwapBench], Sequence[Instruction]]


async def plan(swaps: SwapBench, **asked: Any) -> Any:
    given = {camel(name): value for name, value in asked.items()}
    async with swaps.bench.wallets.new_pocket(swaps.bench.wallet.id) as pocket:
        return await plan_swap(
            swaps.address,
            swaps.venue,
            pocket=pocket,
            tokens=token_list("localnet"),
            ledger=swaps.bench.ledger,
            limits=NO_SWAP_LIMITS,
            **SWAP.read({"inputToken": "SOL", "outputToken": "USDC", "amount": 1} | given),
        )


async def only_record(swaps: SwapBench) -> TransactionRecord:
    (record,) = await swaps.bench.history()
    return record


async def test_sol_buys_tokens_in_one_transaction_with_exact_balances(swaps: SwapBench) -> None:
    record = await swaps.swap("SOL", "USDC", Decimal("1.5"))
    bought = await swaps.units(USDC_POOL.mint)
    assert record.status is TransactionStatus.CONFIRMED
    assert record.type == TransactionType.SWAP
    assert record.guardrails_applied == RULES
    assert record.fee_lamports == FEE
    assert record.details == {
        "inputToken": WRAPPED_SOL_MINT,
        "outputToken": USDC,
        "inputAmount": Decimal("1.5"),
        "outputAmount": whole(bought, 6),
        "slippageBps": 50,
        "priceImpact": Decimal("0.003015"),
    }
    assert 224_000_000 < bought < 225_000_000
    assert await swaps.lamports() == 10 * SOL - 15 * SOL // 10 - RENT - FEE
    assert await swaps.held(USDC_POOL.sol_vault) == USDC_POOL.sol + 15 * SOL // 10
    assert await swaps.held(USDC_POOL.mint_vault) == USDC_POOL.units - bought
    stored = await only_record(swaps)
    assert stored == replace(record, created_ms=stored.created_ms)
    # What the limits count is the amount, without the fee and the rent.
    assert await swaps.bench.reserved_units() == 15 * SOL // 10


async def test_tokens_buy_sol_with_exact_balances(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 2)
    held, lamports = await swaps.units(USDC_POOL.mint), await swaps.lamports()
    record = await swaps.swap("usdc", WRAPPED_SOL_MINT, Decimal("100.25"))
    received = await swaps.lamports() - lamports + FEE
    assert record.details["inputToken"] == USDC
    assert record.details["outputToken"] == WRAPPED_SOL_MINT
    assert record.details["inputAmount"] == Decimal("100.25")
    # What came in, before the fee.
    assert record.details["outputAmount"] == whole(received, 9)
    assert received > SOL * 66 // 100
    assert await swaps.units(USDC_POOL.mint) == held - 100_250_000
    # Tokens are not SOL: the second swap counts nothing against SOL limits.
    assert await swaps.bench.reserved_units() == 2 * SOL


async def test_tokens_buy_tokens_through_both_pools(swaps: SwapBench) -> None:
    await swaps.swap("SOL", USDC, 1)
    lamports, held = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    record = await swaps.swap("USDC", "BONK", 100)
    assert await swaps.units(USDC_POOL.mint) == held - 100_000_000
    bought = await swaps.units(BONK_POOL.mint)
    assert record.details["outputAmount"] == whole(bought, 5)
    # The account for what was bought stays; that of the pocket is gone again.
    assert await swaps.lamports() == lamports - RENT - FEE


async def test_the_whole_balance_cannot_be_sold_since_fee_and_rent_are_due(
    tmp_path: Path,
) -> None:
    async with open_swaps(tmp_path, sol=1) as swaps:
        with pytest.raises(TransactionFailed, match=r"would fail: insufficient balance"):
            await swaps.swap("SOL", "USDC", 1)
        # The rent of the pocket's account is needed on the way, and comes back.
        most = SOL - 2 * RENT - FEE
        with pytest.raises(TransactionFailed, match="insufficient balance"):
            await swaps.swap("SOL", "USDC", whole(most + 1, 9))
        assert await swaps.lamports() == SOL
        assert await swaps.sent() == 0
        await swaps.swap("SOL", "USDC", whole(most, 9))
        assert await swaps.lamports() == RENT


async def test_more_tokens_than_held_is_a_failed_record(swaps: SwapBench) -> None:
    with pytest.raises(TransactionFailed, match="The transaction would fail"):
        await swaps.swap("USDC", "SOL", 5)
    assert (await only_record(swaps)).status is TransactionStatus.FAILED
    await swaps.swap("SOL", "USDC", 1)
    with pytest.raises(TransactionFailed, match="insufficient balance"):
        await swaps.swap("USDC", "SOL", 5_000)


async def test_a_sale_of_sol_is_held_to_the_limits(tmp_path: Path) -> None:
    limits = ScopeLimits(max_lamports_per_tx=2 * SOL)
    async with open_swaps(tmp_path, limits=limits) as swaps:
        with pytest.raises(GuardrailBlocked) as caught:
            await swaps.swap("SOL", "USDC", Decimal("2.000000001"))
        assert caught.value.rule == "max_per_tx"
        await swaps.swap("SOL", "USDC", 2)


async def test_a_blocked_pool_is_not_traded_with(tmp_path: Path) -> None:
    blocked = frozenset({str(USDC_POOL.mint_vault)})
    async with open_swaps(tmp_path, blocked=blocked) as swaps:
        with pytest.raises(GuardrailBlocked) as caught:
            await swaps.swap("SOL", "USDC", 1)
        assert caught.value.rule == "blocked_address"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"input_token": "DOGE"}, "inputToken must be a mint address or a known symbol (SOL, "),
        ({"output_token": "DOGE"}, "outputToken must be a mint address or a known symbol (SOL, "),
        ({"input_token": 7}, "inputToken must be a string"),
        ({"output_token": None}, "outputToken is required and must be a string"),
        ({"output_token": "sol"}, "inputToken and outputToken must differ"),
        ({"output_token": WRAPPED_SOL_MINT}, "inputToken and outputToken must differ"),
        ({"input_token": "1" * 32}, "inputToken must be a token's mint; 1111"),
        ({"output_token": str(MAKER.pubkey())}, "outputToken must be a token's mint"),
        ({"amount": Decimal("0.0000000001")}, "amount has more than 9 decimals"),
        (
            {"input_token": "USDC", "output_token": "SOL", "amount": Decimal("0.0000001")},
            "amount has more than 6 decimals",
        ),
        ({"amount": 0}, "amount must be greater than 0"),
        ({"amount": Decimal(-1)}, "amount must be greater than 0"),
        ({"amount": True}, "amount must be a number"),
        ({"amount": 1.5}, "amount must be a number"),
        ({"amount": Decimal("NaN")}, "amount must be a finite number"),
        ({"amount": 2**64}, "amount is larger than the ledger can hold"),
        ({"slippage_bps": -1}, SLIPPAGE),
        ({"slippage_bps": 10_001}, SLIPPAGE),
        ({"slippage_bps": Decimal("0.5")}, SLIPPAGE),
        ({"slippage_bps": True}, "slippageBps must be a number"),
        ({"slippage_bps": "50"}, "slippageBps must be a number"),
        ({"slippage_bps": Decimal("NaN")}, SLIPPAGE),
        ({"slippage_bps": Decimal("Infinity")}, SLIPPAGE),
        ({"slippage_bps": Decimal("1e999999")}, SLIPPAGE),
        ({"slippage_bps": Decimal("1e-999999")}, SLIPPAGE),
        ({"amount": Decimal("1e999999")}, "amount is out of range"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_field_before_the_venue_is_asked(
    swaps: SwapBench, asked: dict[str, Any], text: str
) -> None:

    def never(_quote: Quote) -> Quote:
        raise AssertionError("the venue was asked")

    swaps.plugin.requote = never
    request = {"input_token": "SOL", "output_token": "USDC", "amount": 1, **asked}
    with pytest.raises(InvalidRequest) as caught:
        await swaps.swap(**request)
    assert text in str(caught.value)
    assert await swaps.bench.history() == []


async def test_a_whole_slippage_may_be_written_as_a_decimal(swaps: SwapBench) -> None:
    assert (await plan(swaps, slippage_bps=Decimal("100.0"))).intent.details["slippageBps"] == 100


async def test_what_the_venue_refuses_is_told_and_not_recorded(swaps: SwapBench) -> None:
    with pytest.raises(InvalidRequest, match="The swap venue refused: amount is too small"):
        await swaps.swap("SOL", "USDC", Decimal("0.000000001"))
    assert await swaps.bench.history() == []


@pytest.mark.parametrize("swapping", [False, True], ids=["price", "swap"])
async def test_a_venue_that_is_away_is_a_failed_record(swaps: SwapBench, swapping: bool) -> None:
    served = swaps.http

    async def handler(request: httpx.Request) -> httpx.Response:
        # Both are asked of one path; a price has no destination.
        if ("destinationTokenAccount" in request.url.params) is swapping:
            raise httpx.ConnectError("refused")
        return await served.send(
            served.build_request(request.method, request.url.copy_with(host="venue"))
        )

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(handler), base_url="http://venue"
    ) as swaps.http:
        with pytest.raises(TransactionFailed, match="did not answer") as caught:
            await swaps.swap("SOL", "USDC", 1, 75)
    stored = await only_record(swaps)
    assert caught.value.record.id == stored.id
    assert stored.status is TransactionStatus.FAILED
    assert stored.error == "The swap venue did not answer (ConnectError)"
    assert stored.details == {
        "inputToken": "SOL",
        "outputToken": "USDC",
        "inputAmount": 1,
        "slippageBps": 75,
    }
    assert await swaps.bench.reserved_units() == 0


OTHER = "The venue's quote is not for the swap that was asked for"
LESS = "The venue's quote promises less than the slippage allows"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"input_mint": BONK}, OTHER),
        ({"output_mint": BONK}, OTHER),
        ({"in_amount": SOL - 1}, OTHER),
        ({"in_amount": SOL + 1}, OTHER),
        ({"slippage_bps": 49}, OTHER),
        ({"minimum_out": 148_800_766}, LESS),
        ({"minimum_out": 0}, LESS),
        ({"out_amount": 0, "minimum_out": 0}, LESS),
        ({"out_amount": 2**64, "minimum_out": 2**64}, LESS),
        ({"price_impact": Decimal("NaN")}, "a price impact that is no fraction"),
        ({"price_impact": Decimal("1e999999")}, "a price impact that is no fraction"),
    ],
)
async def test_a_quote_for_something_else_fails_before_any_bytes_are_asked_for(
    swaps: SwapBench, change: dict[str, Any], text: str
) -> None:
    swaps.plugin.requote = lambda quote: replace(quote, **change)
    with pytest.raises(TransactionFailed) as caught:
        await swaps.swap("SOL", "USDC", 1)
    assert text in str(caught.value)
    assert swaps.plugin.wallets == []
    assert (await only_record(swaps)).status is TransactionStatus.FAILED


async def test_the_least_that_slippage_allows_is_enough_and_a_unit_less_is_blocked(
    swaps: SwapBench,
) -> None:
    swaps.answer(lambda quote: swaps.honest(quote, given=quote.minimum_out - quote.out_amount))
    record = await swaps.swap("SOL", "USDC", 1)
    # The record tells what came, not what was hoped for.
    assert record.details["outputAmount"] == Decimal("148.800767")
    assert await swaps.units(USDC_POOL.mint) == 148_800_767

    swaps.answer(lambda quote: swaps.honest(quote, given=quote.minimum_out - quote.out_amount - 1))
    before, sent = await swaps.lamports(), await swaps.sent()
    with pytest.raises(GuardrailBlocked) as caught:
        await swaps.swap("SOL", "USDC", 1)
    assert caught.value.rule == "simulated_effects"
    assert f"tokens of mint {USDC} would arrive, at least" in caught.value.reason
    assert (await swaps.lamports(), await swaps.sent()) == (before, sent)


async def test_sol_below_the_least_is_blocked_too(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)

    def short(quote: Quote) -> list[Instruction]:
        return [
            pay(USDC_POOL.mint, 6, swaps.user, MAKER.pubkey(), quote.in_amount),
            pay_sol(MAKER.pubkey(), swaps.user, quote.minimum_out - 1),
        ]

    swaps.answer(short)
    with pytest.raises(GuardrailBlocked) as caught:
        await swaps.swap("USDC", "SOL", 100)
    assert caught.value.rule == "simulated_effects"
    assert "would arrive" in caught.value.reason


def _more_sol(swaps: SwapBench) -> list[Instruction]:
    return [pay_sol(swaps.user, MAKER.pubkey(), 1)]


def _approve(swaps: SwapBench) -> list[Instruction]:
    return [
        approve(
            ApproveParams(
                program_id=TOKEN_PROGRAM_ID,
                source=ata(swaps.user, USDC_POOL.mint),
                delegate=MAKER.pubkey(),
                owner=swaps.user,
                amount=1,
            )
        )
    ]


def _other_tokens(swaps: SwapBench) -> list[Instruction]:
    maker = MAKER.pubkey()
    return [
        create_idempotent_associated_token_account(maker, maker, BONK_POOL.mint),
        pay(BONK_POOL.mint, 5, swaps.user, maker, 1),
    ]


def _output_taken_back(swaps: SwapBench) -> list[Instruction]:
    return [pay(USDC_POOL.mint, 6, swaps.user, MAKER.pubkey(), 1)]


def _wrapped_sol(swaps: SwapBench) -> list[Instruction]:
    maker = MAKER.pubkey()
    return [
        create_idempotent_associated_token_account(maker, maker, WSOL),
        pay(WSOL, 9, swaps.user, maker, 1),
    ]


def _account_for_a_stranger(swaps: SwapBench) -> list[Instruction]:
    return [create_idempotent_associated_token_account(swaps.user, MAKER.pubkey(), BONK_POOL.mint)]


def _close_to_itself(swaps: SwapBench) -> list[Instruction]:
    return [close(swaps.user, WSOL, MAKER.pubkey())]


@pytest.mark.parametrize(
    ("extra", "rule", "reason"),
    [
        (_more_sol, "simulated_effects", "1.000000001 SOL would leave the wallet, 1 SOL is"),
        (_approve, "authority_change", f"would pass to {MAKER.pubkey()}"),
        (_other_tokens, "simulated_effects", f"{BONK} would leave the wallet, 0 are"),
        (
            _output_taken_back,
            "simulated_effects",
            f"0.000001 tokens of mint {USDC} would leave the wallet",
        ),
        (
            _wrapped_sol,
            "simulated_effects",
            f"0.000000001 tokens of mint {WRAPPED_SOL_MINT} would leave",
        ),
        (_account_for_a_stranger, "simulated_effects", "is not declared"),
        (_close_to_itself, "simulated_effects", "SOL would leave the wallet, 1 SOL is declared"),
    ],
)
async def test_a_venue_that_takes_more_than_it_quoted_is_blocked(
    swaps: SwapBench, extra: Extra, rule: str, reason: str
) -> None:
    await swaps.swap("SOL", "BONK", 1)
    await give_wrapped(swaps, 3 * SOL)
    swaps.answer(lambda quote: [*swaps.honest(quote), *extra(swaps)])
    before, sent = await swaps.lamports(), await swaps.sent()
    with pytest.raises(GuardrailBlocked) as caught:
        await swaps.swap("SOL", "USDC", 1)
    assert caught.value.rule == rule
    assert reason in caught.value.reason
    record = caught.value.record
    assert record.status is TransactionStatus.BLOCKED
    assert record.guardrails_applied[-1] == rule
    assert record.details["outputAmount"] > 0
    assert (await swaps.lamports(), await swaps.sent()) == (before, sent)


async def give_wrapped(swaps: SwapBench, lamports: int) -> None:
    """Wrapped SOL in the wallet's own account, paid by the pool."""
    maker = MAKER.pubkey()
    gift = [
        create_idempotent_associated_token_account(maker, swaps.user, WSOL),
        *wrap(maker, lamports),
        pay(WSOL, 9, maker, swaps.user, lamports),
    ]
    wire = await swaps.wire(gift, MAKER, payer=maker)
    await swaps.bench.ledger.send(wire)


async def test_tokens_beyond_the_input_are_blocked(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)

    def greedy(quote: Quote) -> list[Instruction]:
        return [
            pay(USDC_POOL.mint, 6, swaps.user, MAKER.pubkey(), quote.in_amount + 1),
            pay_sol(MAKER.pubkey(), swaps.user, quote.out_amount),
        ]

    swaps.answer(greedy)
    with pytest.raises(GuardrailBlocked) as caught:
        await swaps.swap("USDC", "SOL", 100)
    assert caught.value.reason == (
        f"100.000001 tokens of mint {USDC} would leave the wallet, 100 are declared"
    )


@pytest.mark.parametrize("held", [0, 3 * SOL])
async def test_an_aggregator_may_wrap_the_sol_it_sells_and_close_the_account_again(
    swaps: SwapBench, held: int
) -> None:
    """As Jupiter's `wrapAndUnwrapSol` does, which ends by unwrapping all the wallet has."""
    if held:
        await give_wrapped(swaps, held)
    before, maker = await swaps.lamports(), MAKER.pubkey()

    def wrapping(quote: Quote) -> list[Instruction]:
        return [
            *wrap(swaps.user, quote.in_amount),
            create_idempotent_associated_token_account(swaps.user, swaps.user, USDC_POOL.mint),
            create_idempotent_associated_token_account(maker, maker, WSOL),
            pay(WSOL, 9, swaps.user, maker, quote.in_amount),
            pay(USDC_POOL.mint, 6, maker, swaps.user, quote.out_amount),
            close(swaps.user, WSOL, swaps.user),
        ]

    swaps.answer(wrapping)
    record = await swaps.swap("SOL", "USDC", 1)
    assert record.details["outputAmount"] == whole(await swaps.units(USDC_POOL.mint), 6)
    # Wrapped SOL held before is the wallet's SOL now, with the rent of its account.
    back = held + RENT if held else 0
    assert await swaps.lamports() == before - SOL - RENT - FEE + back
    assert await swaps.bench.reserved_units() == SOL


@pytest.mark.parametrize("held", [0, 3 * SOL])
async def test_an_aggregator_may_pay_sol_wrapped_and_unwrap_it(swaps: SwapBench, held: int) -> None:
    await swaps.swap("SOL", "USDC", 1)
    if held:
        await give_wrapped(swaps, held)
    before, maker = await swaps.lamports(), MAKER.pubkey()

    def wrapping(quote: Quote) -> list[Instruction]:
        return [
            create_idempotent_associated_token_account(swaps.user, swaps.user, WSOL),
            pay(USDC_POOL.mint, 6, swaps.user, maker, quote.in_amount),
            *wrap(maker, quote.out_amount),
            pay(WSOL, 9, maker, swaps.user, quote.out_amount),
            close(swaps.user, WSOL, swaps.user),
        ]

    swaps.answer(wrapping)
    record = await swaps.swap("USDC", "SOL", 100)
    received = int(record.details["outputAmount"] * SOL)
    back = held + RENT if held else 0
    assert await swaps.lamports() == before + received - FEE + back
    assert 0.66 * SOL < received < 0.67 * SOL


async def test_a_swap_between_tokens_may_not_unwrap_the_wallets_sol(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)
    await swaps.swap("SOL", "BONK", 1)
    await give_wrapped(swaps, SOL)

    async def build(quote: Quote, _wallet: str) -> bytes:
        instructions = [
            pay(USDC_POOL.mint, 6, swaps.user, MAKER.pubkey(), quote.in_amount),
            pay(BONK_POOL.mint, 5, BONK_MAKER.pubkey(), swaps.user, quote.out_amount),
            close(swaps.user, WSOL, swaps.user),
        ]
        return await swaps.wire(instructions, BONK_MAKER)

    swaps.plugin.build = build
    with pytest.raises(GuardrailBlocked, match="would be closed, which is not declared"):
        await swaps.swap("USDC", "BONK", 1)


async def bytes_refused(swaps: SwapBench, build: Build, text: str) -> None:
    """The venue's fault: a failed record, and nothing signed or sent."""
    swaps.plugin.build = build
    with pytest.raises(TransactionFailed) as caught:
        await swaps.swap("SOL", "USDC", 1)
    assert "The swap venue's transaction was refused" in str(caught.value)
    assert text in str(caught.value)
    record = (await swaps.bench.history())[0]
    assert record.status is TransactionStatus.FAILED
    assert record.error == str(caught.value)
    assert record.signature is None
    assert await swaps.sent() == 0
    assert await swaps.bench.reserved_units() == 0


async def test_bytes_somebody_else_pays_for_are_refused(swaps: SwapBench) -> None:

    async def build(quote: Quote, _wallet: str) -> bytes:
        return await swaps.wire(swaps.honest(quote), MAKER, payer=MAKER.pubkey())

    await bytes_refused(swaps, build, "fee payer is not the wallet")


async def test_bytes_that_lack_the_pools_signature_are_refused(swaps: SwapBench) -> None:

    async def build(quote: Quote, _wallet: str) -> bytes:
        return await swaps.wire(swaps.honest(quote))

    await bytes_refused(swaps, build, "A signature other than the wallet's is missing")


async def test_bytes_that_are_no_transaction_are_refused(swaps: SwapBench) -> None:
    for garbage in (b"", b"\x80", bytes(200), b"\xff" * 5_000):

        async def build(_quote: Quote, _wallet: str, wire: bytes = garbage) -> bytes:
            return wire

        await bytes_refused(swaps, build, "transaction")


async def test_bytes_on_a_blockhash_the_ledger_does_not_know_fail(swaps: SwapBench) -> None:

    async def build(quote: Quote, _wallet: str) -> bytes:
        stale = Hash.from_bytes(bytes(Keypair().pubkey()))
        return await swaps.wire(swaps.honest(quote), MAKER, blockhash=stale)

    swaps.plugin.build = build
    with pytest.raises(TransactionFailed, match="would fail: BlockhashNotFound"):
        await swaps.swap("SOL", "USDC", 1)
    assert await swaps.sent() == 0


async def test_the_declaration_is_what_the_quote_says(swaps: SwapBench) -> None:
    sale = (await plan(swaps)).intent
    (pocket,) = swaps.plugin.takers
    assert (sale.lamports_out, dict(sale.tokens_out)) == (SOL, {})
    assert sale.tokens_in == {USDC: 148_800_767}
    # No program of a venue: none gets the wallet's signature.
    assert sale.programs == frozenset()
    assert (sale.destinations, sale.may_revoke) == (frozenset({pocket}), frozenset())
    assert sale.rent_lamports == 2 * RENT
    assert sale.price_impact_bps == 31

    purchase = (await plan(swaps, input_token="USDC", output_token="SOL")).intent
    assert (purchase.lamports_out, purchase.tokens_out) == (0, {USDC: 1_000_000})
    assert list(purchase.tokens_in) == [WRAPPED_SOL_MINT]

    exchange = (await plan(swaps, input_token="USDC", output_token="BONK")).intent
    assert (exchange.rent_lamports, exchange.may_close) == (2 * RENT, frozenset())


async def test_the_account_of_a_token_2022_mint_is_larger(tmp_path: Path) -> None:
    token = Keypair().pubkey()

    def genesis() -> dict[Pubkey, Account]:
        mint = Mint(
            mint_authority=None,
            supply=0,
            decimals=2,
            is_initialized=True,
            freeze_authority=None,
        )
        return {**genesis_accounts(), token: Account(1_461_600, bytes(mint), TOKEN_2022_PROGRAM_ID)}

    async with open_swaps(tmp_path, genesis=genesis) as swaps:
        quoted = Quote(WRAPPED_SOL_MINT, str(token), SOL, 100, 100, 50, Decimal(0))
        swaps.plugin = _Quoting(swaps, quoted)
        intent = (await plan(swaps, output_token=str(token))).intent
        # The immutable-owner extension makes it 170 bytes; beside it one account to wrap in.
        rent = await swaps.bench.wire.direct("getMinimumBalanceForRentExemption", [170])
        assert intent.rent_lamports == rent + RENT
        assert intent.details["outputAmount"] == 1


class _Quoting:
    """A venue with one quote, and an instruction nobody looks at."""

    gives_instructions = True

    def __init__(self, swaps: SwapBench, quoted: Quote) -> None:
        self.spec = swaps.plugin.spec
        self._quoted = quoted

    async def quote(self, _request: Any, _context: Any) -> Quote:
        return self._quoted

    async def instructions(self, quote: Quote, *_: Any) -> SwapInstructions:
        return SwapInstructions(quote, Instruction(Keypair().pubkey(), b"", []))
