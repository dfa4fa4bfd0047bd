from __future__ import annotations

from typing import Any

import pytest
from solders.pubkey import Pubkey
from spl.token.instructions import create_idempotent_associated_token_account, set_authority
from spl.token.models import AuthorityType, SetAuthorityParams
from tests.operations.test_staking import BAD_AMOUNTS
from tests.support.engine import by_hand
from tests.support.tokens import TOKEN, TokenBench

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import InvalidRequest
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN


async def wrap(tokens: TokenBench, amount: Any) -> TransactionRecord:
    return await tokens.operations.perform("wrap_sol", tokens.wallet, ADMIN, {"amount": amount})


async def unwrap(tokens: TokenBench) -> TransactionRecord:
    return await tokens.operations.perform("unwrap_sol", tokens.wallet, ADMIN, {})


async def wrapped(tokens: TokenBench) -> int:
    return await tokens.units(WRAPPED_SOL_MINT)


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
    with pytest.raises(InvalidRequest, match=f"which {tokens.stranger.pubkey()} owns"):
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
