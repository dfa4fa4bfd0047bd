from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from solders.keypair import Keypair
from tests.support.engine_harness import open_bench
from tests.support.skills import SkillBench, open_skills
from tests.support.staking import authorize, by_hand, deactivate, locked_stake

from solward.types.errors import (
    GuardrailBlocked,
    InvalidRequest,
    LedgerUnavailable,
    TransactionFailed,
)
from solward.vault.guardrails import ScopeLimits

STRANGER = Keypair().pubkey()


async def last(skills: SkillBench) -> tuple[str, str]:
    """Stake account and signature of the newest record."""
    record = (await skills.bench.history())[0]
    return str(record.details["stakeAccount"]), str(record.signature)


async def test_a_stakes_whole_life_is_told_with_what_comes_next(skills: SkillBench) -> None:
    none = "The wallet has no stake accounts. stake_sol makes one."
    assert await skills.run("list_stakes") == none
    (validator,) = await skills.bench.ledger.vote_accounts()
    said = await skills.run("stake_sol", amount=Decimal("1.5"))
    account, signature = await last(skills)
    assert said == (
        f"Staked 1.5 SOL with validator {validator.address}. Stake account: {account}."
        f" Status: confirmed. Signature: {signature}. Why this validator: Default: the first of 1"
        " that qualify among 1 validator; commission 5% (at most 10%); no complete epoch to judge"
        " votes by; in the superminority, as none outside it qualifies. It is activating and"
        " becomes active in the next epoch; unstake_sol with this stake account starts to take it"
        " back."
    )

    async def listed() -> str:
        heading, line = (await skills.run("list_stakes")).splitlines()
        assert heading == "Stake accounts:"
        return line.removeprefix(f"- {account}: ")

    assert await listed() == (
        "1.5 SOL, activating (active in the next epoch; unstake_sol takes it back)"
    )
    await skills.bench.localnet.advance_epochs(1)
    assert await listed() == "1.5 SOL, active (unstake_sol takes it back)"
    with pytest.raises(InvalidRequest, match=f"{account} is active; unstake it first"):
        await skills.run("withdraw_stake", stakeAccount=account)

    said = await skills.run("unstake_sol", stakeAccount=account)
    assert said == (
        f"Unstaked stake account {account}, 1.49771712 SOL delegated. Status: confirmed."
        f" Signature: {(await last(skills))[1]}. It can be withdrawn with withdraw_stake once"
        " list_stakes shows it inactive, at the end of the epoch as a rule."
    )
    assert await listed() == (
        "1.5 SOL, deactivating (wait until it is inactive, at the end of the epoch as a rule)"
    )
    await skills.bench.localnet.advance_epochs(1)
    assert await listed() == "1.5 SOL, inactive (withdraw_stake brings it back to the wallet)"

    said = await skills.run("withdraw_stake", stakeAccount=account)
    assert said == (
        f"Withdrew 1.5 SOL from stake account {account} to the wallet. Status: confirmed."
        f" Signature: {(await last(skills))[1]}."
    )
    assert await skills.run("list_stakes") == none


async def test_a_listed_stake_the_wallet_cannot_act_on_says_so(skills: SkillBench) -> None:
    await skills.run("stake_sol", amount=Decimal("1.5"))
    account, _ = await last(skills)
    await by_hand(skills.bench, authorize(skills.bench, account, 0, STRANGER))
    assert "SOL, activating (under another's authority)" in await skills.run("list_stakes")
    await locked_stake(skills.bench, epoch=1)
    assert "SOL, inactive (locked: it cannot be" in await skills.run("list_stakes")


async def test_a_named_validator_is_staked_with(skills: SkillBench) -> None:
    (validator,) = await skills.bench.ledger.vote_accounts()
    skills.bench.wire.away("getVoteAccounts")
    said = await skills.run("stake_sol", amount=2, validator=validator.address)
    assert said.startswith(f"Staked 2 SOL with validator {validator.address}.")
    assert "Why this validator" not in said


async def test_a_refusal_names_the_rule_the_limit_and_what_is_left(tmp_path: Path) -> None:
    limits = ScopeLimits(max_lamports_per_tx=2 * 10**9, max_tx_per_minute=1)
    async with open_skills(tmp_path, limits=limits) as skills:
        text = r"max_per_tx: 2\.1 SOL is more than the 2 SOL allowed per transaction"
        with pytest.raises(GuardrailBlocked, match=text):
            await skills.run("stake_sol", amount=Decimal("2.1"))
        await skills.run("stake_sol", amount=2)
        account, _ = await last(skills)
        with pytest.raises(GuardrailBlocked, match=r"rate_limit: .* of the 1 allowed"):
            await skills.run("unstake_sol", stakeAccount=account)
        await by_hand(skills.bench, deactivate(skills.bench, account))
        with pytest.raises(GuardrailBlocked, match=r"rate_limit: .* of the 1 allowed"):
            await skills.run("withdraw_stake", stakeAccount=account)


async def test_a_ledger_that_is_away_is_told(skills: SkillBench) -> None:
    await skills.run("stake_sol", amount=2)
    account, _ = await last(skills)
    for method in ("getStakeMinimumDelegation", "getMultipleAccounts", "getProgramAccounts"):
        skills.bench.wire.away(method)
    with pytest.raises(TransactionFailed, match="did not answer getStakeMinimumDelegation"):
        await skills.run("stake_sol", amount=2)
    for name in ("unstake_sol", "withdraw_stake"):
        with pytest.raises(TransactionFailed, match="did not answer getMultipleAccounts"):
            await skills.run(name, stakeAccount=account)
    with pytest.raises(LedgerUnavailable, match="did not answer getProgramAccounts"):
        await skills.run("list_stakes")


async def test_a_transaction_on_its_way_is_not_to_be_repeated(tmp_path: Path) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.05) as bench:
        skills = SkillBench(bench)
        bench.wire.away("sendTransaction")
        bench.wire.away("getSignatureStatuses")
        said = await skills.run("stake_sol", amount=2)
        assert said.startswith("Submitted the staking of 2 SOL with validator ")
        assert "Status: pending. It is not known yet whether it lands; do not repeat it." in said
