from __future__ import annotations

from decimal import Decimal

from tests.plugins.skills import SkillBench
from tests.support.localnet import rent

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.money import format_sol


async def test_wrapping_and_unwrapping_tell_account_amounts_and_signature(
    skills: SkillBench,
) -> None:
    said = await skills.run("wrap_sol", amount=Decimal("0.5"))
    (wrapped,) = await skills.bench.history()
    account = wrapped.details["account"]
    assert said == (
        f"Wrapped 0.5 SOL into the wallet's wrapped SOL account {account}. Status: confirmed."
        f" Signature: {wrapped.signature}. unwrap_sol turns all of it back into SOL."
    )
    held = (await skills.run("check_balance")).splitlines()[-1]
    assert held == f"- {WRAPPED_SOL_MINT} (SOL): 0.5, 9 decimals"
    said = await skills.run("unwrap_sol")
    unwrapped = (await skills.bench.history())[0]
    assert said == (
        f"Unwrapped 0.5 SOL from the wallet's wrapped SOL account {account}, with"
        f" {format_sol(rent(165))} SOL of rent."
        f" Status: confirmed. Signature: {unwrapped.signature}."
    )
