from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.engine_harness import open_bench
from tests.support.skills import SkillBench, open_skills

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.types.errors import GuardrailBlocked, TransactionFailed
from solward.vault.guardrails import ScopeLimits


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
        f"Unwrapped 0.5 SOL from the wallet's wrapped SOL account {account}, with 0.00203928"
        f" SOL of rent. Status: confirmed. Signature: {unwrapped.signature}."
    )


async def test_a_refusal_names_the_rule_the_limit_and_what_is_left(tmp_path: Path) -> None:
    limits = ScopeLimits(max_lamports_per_tx=10**9, max_tx_per_minute=1)
    async with open_skills(tmp_path, limits=limits) as skills:
        text = r"max_per_tx: 1\.1 SOL is more than the 1 SOL allowed"
        with pytest.raises(GuardrailBlocked, match=text):
            await skills.run("wrap_sol", amount=Decimal("1.1"))
        await skills.run("wrap_sol", amount=1)
        with pytest.raises(GuardrailBlocked, match=r"rate_limit: .* of the 1 allowed"):
            await skills.run("unwrap_sol")


async def test_a_ledger_that_is_away_is_told(skills: SkillBench) -> None:
    skills.bench.wire.away("getAccountInfo")
    with pytest.raises(TransactionFailed, match="did not answer getAccountInfo"):
        await skills.run("wrap_sol", amount=1)


async def test_a_transaction_on_its_way_is_not_to_be_repeated(tmp_path: Path) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.05) as bench:
        skills = SkillBench(bench)
        bench.wire.away("sendTransaction")
        bench.wire.away("getSignatureStatuses")
        said = await skills.run("wrap_sol", amount=1)
        assert said.startswith("Submitted the wrapping of 1 SOL into the wallet's wrapped SOL")
        assert "Status: pending. It is not known yet whether it lands; do not repeat it." in said
