from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.account import Account
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint
from spl.token.constants import TOKEN_2022_PROGRAM_ID
from tests.support.swaps import (
    BONK,
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC,
    USDC_POOL,
    SwapBench,
    open_swaps,
    whole,
)

from solward.operations.declared import SWAP
from solward.operations.swap import NO_SWAP_LIMITS, plan_swap
from solward.operations.venues import Venues
from solward.resources.fields import camel
from solward.solana.accounts import max_rent
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.types.errors import GuardrailBlocked, InvalidRequest, TransactionFailed
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.types.venue import Quote, SwapInstructions
from solward.vault.guardrails.rules import RULES
from solward_localnet.market import genesis_accounts

SLIPPAGE = "slippageBps must be a whole number from 0 to 10000"


async def plan(swaps: SwapBench, **asked: Any) -> Any:
    given = {camel(name): value for name, value in asked.items()}
    async with swaps.bench.wallets.new_pocket(swaps.bench.wallet.id) as pocket:
        return await plan_swap(
            swaps.address,
            Venues((swaps.venue,)),
            pocket=pocket,
            tokens=token_list("localnet"),
            ledger=swaps.bench.ledger,
            limits=NO_SWAP_LIMITS,
            versions=swaps.bench.engine.versions,
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
        "venue": "jupiter",
    }
    assert 224_000_000 < bought < 225_000_000
    assert await swaps.lamports() == 10 * SOL - 15 * SOL // 10 - RENT - FEE
    assert await swaps.held(USDC_POOL.sol_vault) == USDC_POOL.sol + 15 * SOL // 10
    assert await swaps.held(USDC_POOL.mint_vault) == USDC_POOL.units - bought
    stored = await only_record(swaps)
    assert stored == replace(record, created_ms=stored.created_ms)
    # What the limits count is the amount, without the fee and the rent.
    assert await swaps.bench.reserved_units() == 15 * SOL // 10


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


async def test_a_blocked_pool_is_not_traded_with(tmp_path: Path) -> None:
    blocked = frozenset({str(USDC_POOL.mint_vault)})
    async with open_swaps(tmp_path, blocked=blocked) as swaps:
        with pytest.raises(GuardrailBlocked) as caught:
            await swaps.swap("SOL", "USDC", 1)
        assert caught.value.rule == "blocked_address"


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
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
)


async def test_what_cannot_be_meant_is_refused_by_field_before_the_venue_is_asked(
    swaps: SwapBench,
) -> None:

    def never(_quote: Quote) -> Quote:
        raise AssertionError("the venue was asked")

    swaps.plugin.requote = never
    for asked, text in REFUSED:
        request = {"input_token": "SOL", "output_token": "USDC", "amount": 1, **asked}
        with pytest.raises(InvalidRequest, match=re.escape(text)):
            await swaps.swap(**request)
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


class Rigged(int):
    """Equal to everything, and never less than anything."""

    def __eq__(self, _other: object) -> bool:
        return True

    def __ge__(self, _other: object) -> bool:
        return True

    def __mul__(self, _other: object) -> Rigged:
        return self

    __hash__ = int.__hash__


class RiggedText(str):
    """Equal to everything."""

    def __eq__(self, _other: object) -> bool:
        return True

    __hash__ = str.__hash__


class RiggedDecimal(Decimal):
    """Finite and small, whatever it is."""

    def is_finite(self) -> bool:
        return True

    def __abs__(self) -> Decimal:
        return Decimal(0)


OTHER = "The venue's quote is not for the swap that was asked for"
LESS = "The venue's quote promises less than the slippage allows"


QUOTES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"input_mint": BONK}, OTHER),
    ({"output_mint": BONK}, OTHER),
    ({"in_amount": SOL - 1}, OTHER),
    ({"in_amount": SOL + 1}, OTHER),
    ({"slippage_bps": 49}, OTHER),
    ({"minimum_out": 148_800_765}, LESS),
    ({"minimum_out": 0}, LESS),
    ({"out_amount": 0, "minimum_out": 0}, LESS),
    ({"out_amount": 2**64, "minimum_out": 2**64}, LESS),
    ({"price_impact": Decimal("NaN")}, "a price impact that is not a fraction"),
    ({"price_impact": Decimal("1e999999")}, "a price impact that is not a fraction"),
    ({"minimum_out": Rigged(1)}, LESS),
    ({"in_amount": Rigged(SOL - 1)}, OTHER),
    ({"input_mint": RiggedText(BONK)}, OTHER),
    ({"price_impact": RiggedDecimal("NaN")}, "a price impact that is not a fraction"),
    ({"minimum_out": Decimal(148_800_767)}, "a value of the wrong type"),
    ({"slippage_bps": None}, "a value of the wrong type"),
    ({"out_amount": True}, "a value of the wrong type"),
)


async def test_a_quote_for_something_else_fails_before_any_bytes_are_asked_for(
    swaps: SwapBench,
) -> None:
    for change, text in QUOTES:
        swaps.plugin.requote = lambda quote, change=change: replace(quote, **change)
        with pytest.raises(TransactionFailed, match=text):
            await swaps.swap("SOL", "USDC", 1)
        assert swaps.plugin.wallets == [], change
    history = await swaps.bench.history()
    assert [each.status for each in history] == [TransactionStatus.FAILED] * len(QUOTES)


@pytest.mark.parametrize("minimum", [148_800_766, 148_800_767])
async def test_a_minimum_that_a_venue_rounds_another_way_is_the_same_promise(
    swaps: SwapBench, minimum: int
) -> None:
    """99.5% of 149,548,509 is 148,800,766.455: rounded down or up."""
    swaps.plugin.requote = lambda quote: replace(quote, minimum_out=minimum)
    assert dict((await plan(swaps)).intent.tokens_in) == {USDC: 148_800_767}


async def test_the_declaration_is_what_the_quote_says(swaps: SwapBench) -> None:
    sale = (await plan(swaps)).intent
    (pocket,) = swaps.plugin.takers
    assert (sale.lamports_out, dict(sale.tokens_out)) == (SOL, {})
    assert sale.tokens_in == {USDC: 148_800_767}
    assert (sale.destinations, sale.may_revoke) == (frozenset({pocket}), frozenset())
    assert sale.rent_lamports == 2 * TOKEN_ACCOUNT_RENT
    assert sale.price_impact_bps == 31

    purchase = (await plan(swaps, input_token="USDC", output_token="SOL")).intent
    assert (purchase.lamports_out, purchase.tokens_out) == (0, {USDC: 1_000_000})
    assert list(purchase.tokens_in) == [WRAPPED_SOL_MINT]

    exchange = (await plan(swaps, input_token="USDC", output_token="BONK")).intent
    assert (exchange.rent_lamports, exchange.may_close) == (2 * TOKEN_ACCOUNT_RENT, frozenset())


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
        assert intent.rent_lamports == max_rent(170) + TOKEN_ACCOUNT_RENT
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
