"""token_price at the localnet's market."""

from __future__ import annotations

from decimal import Decimal

import pytest
from solana_skills import token_price

from solward import InvalidRequest
from solward.testing import TestWallet, conformance

test_it_conforms = conformance.skill_test(token_price)


async def test_the_price_is_what_a_swap_then_pays(wallet: TestWallet) -> None:
    told = await wallet.run(token_price, token="SOL", amount=Decimal("0.5"))
    await wallet.run("swap", inputToken="SOL", outputToken="USDC", amount=Decimal("0.5"))
    received = (await wallet.records())[0].details["outputAmount"]
    assert told.startswith(f"0.5 SOL gives {received} USDC: ")


async def test_it_sends_nothing(wallet: TestWallet) -> None:
    before = await wallet.lamports()
    assert "BONK" in await wallet.run(token_price, **{"token": "SOL", "in": "BONK"})
    assert await wallet.lamports() == before
    assert await wallet.records() == []


async def test_what_has_no_price_is_named(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match="inputToken must be a mint address"):
        await wallet.run(token_price, token="NOPE")
    with pytest.raises(InvalidRequest, match="must differ"):
        await wallet.run(token_price, token="USDC")
