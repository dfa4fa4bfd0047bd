from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.instructions import create_idempotent_associated_token_account, set_authority
from spl.token.models import AuthorityType, SetAuthorityParams
from tests.operations.test_staking import BAD_AMOUNTS
from tests.support.engine import by_hand
from tests.support.tokens import FEE, RENT, SOL, TOKEN, TokenBench

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest, TransactionFailed
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN


async def wrap(tokens: TokenBench, amount: Any) -> TransactionRecord:
    return await tokens.operations.perform("wrap_sol", tokens.wallet, ADMIN, {"amount": amount})


async def unwrap(tokens: TokenBench) -> TransactionRecord:
    return await tokens.operations.perform("unwrap_sol", tokens.wallet, ADMIN, {})


async def wrapped(tokens: TokenBench) -> int:
    return await tokens.units(WRAPPED_SOL_MINT)


async def test_wrapping_adds_to_the_account_and_pays_its_rent_once(tokens: TokenBench) -> None:
    account = tokens.account(WRAPPED_SOL_MINT)
    for amount, held, rent in ((Decimal("1.5"), 1_500_000_000, RENT), (1, 2_500_000_000, 0)):
        before, counted = await tokens.lamports(), await tokens.bench.reserved_units()
        record = await wrap(tokens, amount)
        assert (record.type, record.status) == ("wrap_sol", TransactionStatus.CONFIRMED)
        assert record.details == {"amount": amount, "account": account}
        assert await wrapped(tokens) == held
        assert before - await tokens.lamports() == int(amount * SOL) + rent + FEE
        # Limits count what is wrapped, and neither fee nor rent.
        assert await tokens.bench.reserved_units() - counted == amount * SOL
    assert await tokens.bench.lamports(account) == 2_500_000_000 + RENT


async def test_unwrapping_gives_back_all_that_was_wrapped_and_the_rent(tokens: TokenBench) -> None:
    before = await tokens.lamports()
    await wrap(tokens, Decimal("0.5"))
    counted = await tokens.bench.reserved_units()
    record = await unwrap(tokens)
    account = tokens.account(WRAPPED_SOL_MINT)
    assert (record.type, record.status) == ("unwrap_sol", TransactionStatus.CONFIRMED)
    assert record.details == {
        "amount": Decimal("0.5"),
        "account": account,
        "reclaimed": Decimal("0.00203928"),
    }
    assert await tokens.bench.ledger.account(account) is None
    assert await tokens.lamports() == before - 2 * FEE
    assert await tokens.bench.reserved_units() == counted


async def test_lamports_sent_to_the_address_before_do_not_stop_a_wrap(tokens: TokenBench) -> None:
    account = Pubkey.from_string(tokens.account(WRAPPED_SOL_MINT))
    gift = TransferParams(
        from_pubkey=tokens.stranger.pubkey(), to_pubkey=account, lamports=1_000_000
    )
    await tokens.land([transfer(gift)])
    before = await tokens.lamports()
    await wrap(tokens, 1)
    assert await wrapped(tokens) == SOL
    assert before - await tokens.lamports() == SOL + RENT - 1_000_000 + FEE


async def test_an_account_that_is_not_the_wallets_any_more_gets_nothing(tokens: TokenBench) -> None:
    await wrap(tokens, 1)
    give = SetAuthorityParams(
        program_id=TOKEN,
        account=Pubkey.from_string(tokens.account(WRAPPED_SOL_MINT)),
        authority=AuthorityType.ACCOUNT_OWNER,
        current_authority=tokens.owner,
        new_authority=tokens.stranger.pubkey(),
    )
    await by_hand(tokens.bench, set_authority(give))
    before = await tokens.lamports()
    # A transfer of lamports alone would pay the stranger; the idempotent creation looks.
    with pytest.raises(TransactionFailed, match="instruction 0 failed"):
        await wrap(tokens, 1)
    assert await tokens.lamports() == before
    with pytest.raises(InvalidRequest, match=r"^There is nothing to unwrap: .* no wrapped SOL"):
        await unwrap(tokens)


async def test_with_nothing_wrapped_there_is_nothing_to_unwrap(tokens: TokenBench) -> None:
    with pytest.raises(InvalidRequest, match=r"^There is nothing to unwrap: .* no wrapped SOL"):
        await unwrap(tokens)
    opening = create_idempotent_associated_token_account(
        tokens.stranger.pubkey(), tokens.owner, Pubkey.from_string(WRAPPED_SOL_MINT)
    )
    await tokens.land([opening])
    with pytest.raises(InvalidRequest, match="account is empty; closing the token account of"):
        await unwrap(tokens)
    assert await tokens.bench.history() == []
    record = await tokens.operations.perform(
        "close_account", tokens.wallet, ADMIN, {"mint": WRAPPED_SOL_MINT}
    )
    assert record.status is TransactionStatus.CONFIRMED


async def test_what_is_no_amount_is_not_wrapped(tokens: TokenBench) -> None:
    for amount in BAD_AMOUNTS:
        await tokens.refuses(wrap(tokens, amount), "^amount ")


async def test_a_ledger_that_is_away_makes_a_failed_record_of_what_was_asked(
    tokens: TokenBench,
) -> None:
    tokens.bench.wire.away("getAccountInfo")
    tokens.bench.wire.away("getTokenAccountsByOwner")
    with pytest.raises(TransactionFailed, match="did not answer getAccountInfo"):
        await wrap(tokens, Decimal("0.5"))
    with pytest.raises(TransactionFailed, match="did not answer getTokenAccountsByOwner"):
        await unwrap(tokens)
    unwrapping, wrapping = await tokens.bench.history()
    assert (wrapping.type, wrapping.details) == ("wrap_sol", {"amount": Decimal("0.5")})
    assert (unwrapping.type, unwrapping.details) == ("unwrap_sol", {})
