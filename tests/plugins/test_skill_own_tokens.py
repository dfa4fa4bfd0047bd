from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.skills import SkillBench
from tests.support.localnet import rent
from tests.support.tokens import TOKEN_2022, TokenBench, open_tokens

from solward.solana.token_list import KnownToken
from solward.types.errors import InvalidRequest
from solward.types.money import format_sol

LAUNCH = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": Decimal("10.5")}


async def launched(skills: SkillBench) -> str:
    return str(re.findall(r"Mint: (\w+)\.", await skills.run("launch_token", **LAUNCH))[0])


async def signature(skills: SkillBench) -> str:
    return str((await skills.bench.history())[0].signature)


async def test_a_launch_tells_mint_supply_account_and_signature(skills: SkillBench) -> None:
    text = await skills.run("launch_token", **LAUNCH)
    (record,) = await skills.bench.history()
    details = record.details
    assert text == (
        f"Launched Demo coin (DEMO). Mint: {details['mint']}. Decimals: 6. Supply: 10.5, all in"
        f" the wallet's token account {details['account']}. Status: confirmed."
        f" Signature: {record.signature}."
    )
    held = (await skills.run("check_balance")).splitlines()[-1]
    assert held == f"- {details['mint']}: 10.5, 6 decimals"


async def test_minting_tells_the_supply_there_is_now(skills: SkillBench) -> None:
    mint = await launched(skills)
    text = await skills.run("mint_supply", mint=mint, amount=2)
    account = (await skills.bench.history())[0].details["account"]
    assert text == (
        f"Minted 2 of {mint} to the wallet's token account {account}. Status: confirmed."
        f" Signature: {await signature(skills)}. Supply now: 12.5."
    )
    with pytest.raises(InvalidRequest, match=r"decimals is 9, but the mint .* has 6 decimals"):
        await skills.run("mint_supply", mint=mint, amount=2, decimals=9)


async def test_burning_tells_what_the_wallet_still_holds_and_knows_symbols(
    skills: SkillBench,
) -> None:
    mint = await launched(skills)
    text = await skills.run("burn_tokens", mint=mint, amount=Decimal("0.5"))
    assert text == (
        f"Burned 0.5 of {mint}. Status: confirmed. Signature: {await signature(skills)}."
        " The wallet holds 10 of it now."
    )
    skills.known = (KnownToken("DEMO", mint, 6),)
    text = await skills.run("burn_tokens", mint="DEMO", amount=10)
    assert text.startswith("Burned 10 of DEMO. Status: confirmed.")
    assert text.endswith(" The wallet holds 0 of it now.")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "Revoked the mint authority of {mint}. The token's supply is fixed for ever."),
        (
            {"authorityType": "freeze"},
            "Revoked the freeze authority of {mint}."
            " Nobody can freeze the token's accounts any more.",
        ),
    ],
)
async def test_a_revocation_tells_what_it_means(
    skills: SkillBench, params: dict[str, Any], said: str
) -> None:
    mint = await launched(skills)
    text = await skills.run("revoke_mint_authority", mint=mint, **params)
    end = f" Status: confirmed. Signature: {await signature(skills)}."
    assert text == said.format(mint=mint) + end


async def test_closing_tells_the_account_and_the_rent_that_came_back(tokens: TokenBench) -> None:
    mint = await tokens.mint(TOKEN_2022, units=1)
    skills = SkillBench(tokens.bench)
    with pytest.raises(InvalidRequest, match=r"still holds 0.000001 of .* burn or swap it first"):
        await skills.run("close_token_account", mint=mint)
    await skills.run("burn_tokens", mint=mint, amount=Decimal("0.000001"))
    text = await skills.run("close_token_account", mint=mint)
    assert text == (
        f"Closed the token account {tokens.account(mint, TOKEN_2022)} of {mint};"
        f" {format_sol(rent(170))} SOL of rent came back to the wallet. Status: confirmed."
        f" Signature: {await signature(skills)}."
    )


async def test_a_ledger_that_is_away_afterwards_does_not_make_it_a_failure(
    skills: SkillBench,
) -> None:
    mint = await launched(skills)
    skills.bench.wire.away("getBalance")
    text = await skills.run("burn_tokens", mint=mint, amount=1)
    assert text == (f"Burned 1 of {mint}. Status: confirmed. Signature: {await signature(skills)}.")


async def test_a_transaction_on_its_way_is_not_to_be_repeated(tmp_path: Path) -> None:
    async with open_tokens(tmp_path, confirm_wait_s=0.05) as tokens:
        mint = await tokens.mint(units=5_000_000)
        skills = SkillBench(tokens.bench)
        tokens.bench.wire.away("sendTransaction")
        tokens.bench.wire.away("getSignatureStatuses")
        asked: dict[str, tuple[dict[str, Any], str]] = {
            "launch_token": (LAUNCH, ""),
            "mint_supply": ({"mint": mint, "amount": 1}, ""),
            "burn_tokens": ({"mint": mint, "amount": 5}, ""),
            "revoke_mint_authority": ({"mint": mint}, ""),
            "wrap_sol": ({"amount": 1}, "wrapping of 1 SOL into the wallet's wrapped SOL"),
            "stake_sol": ({"amount": 2}, "staking of 2 SOL with validator "),
        }
        for name, (params, what) in asked.items():
            text = await skills.run(name, **params)
            assert text.startswith(f"Submitted the {what}"), text
            assert (
                "pending. It is not known yet whether the transaction lands; do not repeat it."
                in text
            )
            assert f"Signature: {await signature(skills)}." in text
