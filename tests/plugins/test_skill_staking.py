from __future__ import annotations

from decimal import Decimal

import pytest
from solders.keypair import Keypair
from tests.plugins.skills import SkillBench
from tests.promises import promise
from tests.support.engine import authorize, by_hand, locked_stake
from tests.support.localnet import rent

from solward.types.errors import InvalidRequest
from solward.types.money import format_sol

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
        " votes by; in the superminority, as none outside it qualifies. The stake is activating and"
        " becomes active in the next epoch; unstake_sol with this stake account starts its"
        " withdrawal."
    )

    async def listed() -> str:
        heading, line = (await skills.run("list_stakes")).splitlines()
        assert heading == "Stake accounts:"
        return line.removeprefix(f"- {account}: ")

    assert await listed() == (
        "1.5 SOL, activating (active from the next epoch; unstake_sol deactivates it)"
    )
    await skills.bench.localnet.advance_epochs(1)
    assert await listed() == "1.5 SOL, active (unstake_sol deactivates it)"
    with pytest.raises(InvalidRequest, match=f"{account} is active; unstake it first"):
        await skills.run("withdraw_stake", stakeAccount=account)

    said = await skills.run("unstake_sol", stakeAccount=account)
    assert said == (
        f"Unstaked stake account {account}, {format_sol(1_500_000_000 - rent(200))} SOL delegated."
        f" Status: confirmed."
        f" Signature: {(await last(skills))[1]}. Withdraw the stake with withdraw_stake once"
        " list_stakes shows it inactive, usually at the end of the epoch."
    )
    assert await listed() == (
        "1.5 SOL, deactivating (wait until it is inactive, usually at the end of the epoch)"
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


@promise("skill-defaults-as-routes")
async def test_a_named_validator_is_staked_with(skills: SkillBench) -> None:
    (validator,) = await skills.bench.ledger.vote_accounts()
    skills.bench.wire.away("getVoteAccounts")
    said = await skills.run("stake_sol", amount=2, validator=validator.address)
    assert said.startswith(f"Staked 2 SOL with validator {validator.address}.")
    assert "Why this validator" not in said
