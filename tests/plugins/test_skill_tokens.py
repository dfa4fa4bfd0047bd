from __future__ import annotations

from pathlib import Path

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.instructions import set_authority
from spl.token.models import AuthorityType, SetAuthorityParams
from tests.plugins.skills import SkillBench, funded, open_skills
from tests.promises import promise
from tests.support.tokens import (
    TOKEN,
    TOKEN_2022,
    fund_instructions,
    mint_instructions,
    named_mint_instructions,
)

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.token_list import KnownToken, token_list
from solward.types.errors import InvalidRequest

RENT = 10_000_000


async def with_token(
    skills: SkillBench, units: int, program: Pubkey = TOKEN
) -> tuple[Keypair, Pubkey]:
    """A mint with 6 decimals; the wallet holds `units` of it."""
    stranger, mint = await funded(skills), Keypair()
    owner = Pubkey.from_string(skills.bench.wallet.address)
    payer = stranger.pubkey()
    await skills.land(
        [
            *mint_instructions(payer, mint.pubkey(), RENT, program=program),
            *fund_instructions(payer, owner, mint.pubkey(), units, program=program),
        ],
        stranger,
        mint,
    )
    return stranger, mint.pubkey()


@promise("check-balance-text")
async def test_an_empty_wallet_has_its_name_address_four_decimals_and_no_tokens(
    tmp_path: Path,
) -> None:
    async with open_skills(tmp_path, sol=0) as skills:
        assert await skills.run("check_balance") == (
            f"Wallet: bench ({skills.bench.wallet.address})\n"
            "SOL balance: 0.0000 SOL\n"
            "No token holdings."
        )


@promise("check-balance-text")
async def test_each_token_is_told_by_mint_balance_and_decimals(skills: SkillBench) -> None:
    _, plain = await with_token(skills, 1_500_000)
    _, newer = await with_token(skills, 7, TOKEN_2022)
    skills.known = (KnownToken("DEMO", str(plain), 6),)
    lines = (await skills.run("check_balance")).splitlines()
    assert lines[1:3] == ["SOL balance: 10.0000 SOL", "Tokens:"]
    assert sorted(lines[3:]) == sorted(
        [f"- {plain} (DEMO): 1.5, 6 decimals", f"- {newer}: 0.000007, 6 decimals"]
    )


@pytest.mark.parametrize(("program", "name"), [(TOKEN, "SPL Token"), (TOKEN_2022, "Token-2022")])
async def test_a_token_is_described_from_the_ledger(
    skills: SkillBench, program: Pubkey, name: str
) -> None:
    stranger, mint = await with_token(skills, 2_500_000, program)
    skills.known = (KnownToken("DEMO", str(mint), 6),)
    assert await skills.run("token_info", token="demo") == (
        "Token: DEMO\n"
        f"Mint: {mint}\n"
        f"Program: {name}\n"
        "Decimals: 6\n"
        "Supply: 2.5\n"
        f"Mint authority: {stranger.pubkey()}\n"
        f"Freeze authority: {stranger.pubkey()}\n"
        "Wallet holds: 2.5"
    )


async def test_authorities_given_up_are_told(skills: SkillBench) -> None:
    stranger, mint = await with_token(skills, 1)
    await skills.land(
        [
            set_authority(
                SetAuthorityParams(
                    program_id=TOKEN,
                    account=mint,
                    authority=kind,
                    current_authority=stranger.pubkey(),
                    new_authority=None,
                )
            )
            for kind in (AuthorityType.MINT_TOKENS, AuthorityType.FREEZE_ACCOUNT)
        ],
        stranger,
    )
    text = await skills.run("token_info", token=str(mint))
    assert "Token: unknown symbol\n" in text
    assert "Mint authority: none (the supply is fixed)\nFreeze authority: none\n" in text


@promise("metadata-is-a-claim")
async def test_a_mints_own_name_is_told_as_its_own_claim_without_control_characters(
    skills: SkillBench,
) -> None:
    stranger, mint = await funded(skills), Keypair()
    await skills.land(
        named_mint_instructions(
            stranger.pubkey(), mint.pubkey(), RENT, "US\nDollar\x1b[2J", "USDC"
        ),
        stranger,
        mint,
    )
    text = await skills.run("token_info", token=str(mint.pubkey()))
    real = token_list("localnet").resolve("USDC", "mint")
    told = "Token: calls itself USDC (US Dollar\ufffd[2J), and is NOT USDC, whose mint is"
    assert text.startswith(f"{told} {real}\nMint: ")
    assert "Program: Token-2022\nDecimals: 9\nSupply: 0\n" in text


async def test_sol_as_a_token_is_told_apart_from_the_native_balance(skills: SkillBench) -> None:
    text = await skills.run("token_info", token="SOL")
    assert f"Mint: {WRAPPED_SOL_MINT}\n" in text
    assert text.endswith("natively the wallet has 10.0000 SOL.")


async def test_what_is_no_mint_is_refused_by_name(skills: SkillBench) -> None:
    for token in (str(Keypair().pubkey()), skills.bench.wallet.address, str(TOKEN)):
        with pytest.raises(InvalidRequest, match="token must be a token's mint"):
            await skills.run("token_info", token=token)
    with pytest.raises(InvalidRequest, match="token must be a mint address or a known symbol"):
        await skills.run("token_info", token="NOPE")


async def test_a_token_account_is_no_mint(skills: SkillBench) -> None:
    await with_token(skills, 5)
    (holding,) = await skills.bench.ledger.holdings(skills.bench.wallet.address)
    with pytest.raises(InvalidRequest, match="must be a token's mint"):
        await skills.run("token_info", token=holding.account)
