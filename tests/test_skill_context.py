"""What a skill may declare of a transaction of its own, and what it is not given."""

from __future__ import annotations

from typing import Any

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from spl.token.instructions import close_account
from spl.token.models import CloseAccountParams

from solward import GuardrailBlocked, InvalidRequest
from solward.testing import TestWallet


async def emptied(wallet: TestWallet) -> tuple[str, Instruction]:
    """The wallet's empty token account of a mint, and what closes it."""
    await wallet.run("launch_token", name="Gone", symbol="GONE", decimals=0, initialSupply=1)
    details = (await wallet.records())[0].details
    await wallet.run("burn_tokens", mint=details["mint"], amount=1)
    owner, mint = Pubkey.from_string(wallet.address), Pubkey.from_string(details["mint"])
    program = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
    account = get_associated_token_address(owner, mint, program)
    closing = CloseAccountParams(program_id=program, account=account, dest=owner, owner=owner)
    return str(account), close_account(closing)


async def test_its_ledger_only_reads(wallet: TestWallet) -> None:
    ledger = wallet.context("transfer").ledger
    assert await ledger.balance(wallet.address) == 10 * 10**9
    for name in ("send", "request_airdrop", "simulate", "close"):
        assert not hasattr(ledger, name)


async def test_a_type_that_no_record_has_is_refused(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match="type must be one of transfer, token_transfer"):
        await wallet.context("transfer").transact(type="gift")
    assert await wallet.records() == []


async def test_an_account_is_closed_only_where_that_is_declared(wallet: TestWallet) -> None:
    account, closing = await emptied(wallet)
    context = wallet.context("transfer")
    with pytest.raises(GuardrailBlocked, match="simulated_effects"):
        await context.transact(instructions=[closing])
    record = await context.transact(instructions=[closing], may_close=[account])
    assert record.status == "confirmed"
    assert await context.ledger.account(account) is None


async def test_what_must_arrive_and_does_not_blocks_it(wallet: TestWallet) -> None:
    account, closing = await emptied(wallet)
    mint = (await wallet.records())[0].details["mint"]
    with pytest.raises(GuardrailBlocked, match="simulated_effects"):
        await wallet.context("transfer").transact(
            instructions=[closing], may_close=[account], tokens_in={mint: 1}
        )


@pytest.mark.parametrize(
    ("method", "given", "field"),
    [
        ("revoke_authority", {"mint": "SOL", "authority_type": None}, "authorityType"),
        ("airdrop", {"amount": None}, "amount"),
        ("launch_token", {"name": "A", "symbol": "A", "decimals": None}, "decimals"),
        ("launch_token", {"name": "A", "symbol": "A", "initial_supply": None}, "initialSupply"),
        (
            "swap",
            {"input_token": "SOL", "output_token": "USDC", "amount": 1, "slippage_bps": None},
            "slippageBps",
        ),
    ],
)
async def test_none_is_no_default(
    wallet: TestWallet, method: str, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field} must be"):
        await getattr(wallet.context("transfer"), method)(**given)
    assert await wallet.records() == []
