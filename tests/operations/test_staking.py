from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.engine import authorize, by_hand, locked_stake
from tests.support.localnet import rent
from tests.support.tokens import FEE, SOL, TokenBench, open_tokens

from solward.solana.programs import STAKE_PROGRAM
from solward.solana.stakes import StakeState, read_stake, read_stakes
from solward.types.errors import (
    LedgerRejected,
    LedgerUnavailable,
    TransactionFailed,
)
from solward.types.money import format_sol
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.money.request import ADMIN

RENT = rent(200)
LEAST = SOL + RENT
STRANGER = Keypair().pubkey()


async def stake(tokens: TokenBench, amount: Any = 2, validator: Any = None) -> TransactionRecord:
    return await tokens.operations.perform(
        "stake", tokens.wallet, ADMIN, {"amount": amount, "validator": validator}
    )


async def unstake(tokens: TokenBench, account: Any) -> TransactionRecord:
    return await tokens.operations.perform(
        "unstake", tokens.wallet, ADMIN, {"stakeAccount": account}
    )


async def withdraw(tokens: TokenBench, account: Any) -> TransactionRecord:
    return await tokens.operations.perform(
        "withdraw_stake", tokens.wallet, ADMIN, {"stakeAccount": account}
    )


async def staked(tokens: TokenBench, amount: Any = 2) -> str:
    return str((await stake(tokens, amount)).details["stakeAccount"])


async def state(tokens: TokenBench, account: str) -> StakeState:
    found = {each.address: each for each in await read_stakes(tokens.bench.ledger, tokens.address)}
    assert found[account] == await read_stake(tokens.bench.ledger, account, "stakeAccount")
    return found[account].state


async def validator(tokens: TokenBench) -> str:
    (only,) = await tokens.bench.ledger.vote_accounts()
    return only.address


async def test_a_stake_lives_from_delegation_to_withdrawal_over_real_epochs(
    tokens: TokenBench,
) -> None:
    start = await tokens.lamports()
    record = await stake(tokens, Decimal("2.5"))
    account = record.details["stakeAccount"]
    assert (record.type, record.status) == ("stake", TransactionStatus.CONFIRMED)
    assert record.details == {
        "stakeAccount": account,
        "validator": await validator(tokens),
        "validatorReason": record.details["validatorReason"],
        "amount": Decimal("2.5"),
    }
    # The amount is all that leaves: the rent reserve is in it, and it is what limits count.
    assert start - await tokens.lamports() == 2_500_000_000 + FEE
    assert await tokens.bench.reserved_units() == 2_500_000_000
    held = await read_stake(tokens.bench.ledger, account, "stakeAccount")
    assert (held.lamports, held.delegated) == (2_500_000_000, 2_500_000_000 - RENT)
    assert held.staker == held.withdrawer == tokens.address
    assert held.state is StakeState.ACTIVATING

    await tokens.bench.localnet.advance_epochs(1)
    assert await state(tokens, account) is StakeState.ACTIVE
    await tokens.refuses(withdraw(tokens, account), "is active; unstake it first$")

    record = await unstake(tokens, account)
    assert (record.type, record.status) == ("unstake", TransactionStatus.CONFIRMED)
    assert record.details == {
        "stakeAccount": account,
        "validator": held.validator,
        "amount": Decimal("2.5") - Decimal(RENT).scaleb(-9),
    }
    assert await state(tokens, account) is StakeState.DEACTIVATING
    await tokens.refuses(unstake(tokens, account), "is deactivating already; it can be")
    await tokens.refuses(withdraw(tokens, account), "is deactivating; it can be withdrawn")

    await tokens.bench.localnet.advance_epochs(1)
    assert await state(tokens, account) is StakeState.INACTIVE
    await tokens.refuses(unstake(tokens, account), "is inactive already; withdraw it instead$")
    record = await withdraw(tokens, account)
    assert (record.type, record.status) == ("withdraw_stake", TransactionStatus.CONFIRMED)
    assert record.details == {"stakeAccount": account, "amount": Decimal("2.5")}
    assert await tokens.lamports() == start - 3 * FEE
    assert await read_stakes(tokens.bench.ledger, tokens.address) == ()
    await tokens.refuses(withdraw(tokens, account), "must be a stake account; .* is none on")
    assert await tokens.bench.reserved_units() == 2_500_000_000


async def test_a_large_stake_takes_epochs_to_warm_up_and_to_cool_down(tmp_path: Path) -> None:
    # The cluster has 1,000,000 SOL of stake, of which 9% may change in an epoch.
    async with open_tokens(tmp_path, sol=300_000) as tokens:
        account = await staked(tokens, 200_000)
        seen = []
        for _ in range(4):
            seen.append(await state(tokens, account))
            await tokens.bench.localnet.advance_epochs(1)
        assert seen == [StakeState.ACTIVATING] * 3 + [StakeState.ACTIVE]
        await unstake(tokens, account)
        assert await state(tokens, account) is StakeState.DEACTIVATING
        await tokens.bench.localnet.advance_epochs(1)
        assert await state(tokens, account) is StakeState.DEACTIVATING
        await tokens.refuses(withdraw(tokens, account), "is deactivating; it can be withdrawn")
        await tokens.bench.localnet.advance_epochs(1)
        assert await state(tokens, account) is StakeState.INACTIVE
        await withdraw(tokens, account)
        assert await tokens.lamports() == 300_000 * SOL - 3 * FEE


@promise("small-stake-is-400")
async def test_the_least_amount_is_the_minimum_delegation_and_the_rent(tokens: TokenBench) -> None:
    least = Decimal(LEAST).scaleb(-9)
    call = stake(tokens, least - Decimal("0.000000001"))
    need = f"{format_sol(LEAST)} SOL: .* of 1 SOL and {format_sol(RENT)} SOL of rent"
    text = f"^amount must be at least {need}$"
    await tokens.refuses(call, text)
    account = await staked(tokens, least)
    held = await read_stake(tokens.bench.ledger, account, "stakeAccount")
    assert held.delegated == SOL


BAD_AMOUNTS = (
    0, -1, True, "5", None, Decimal("NaN"), Decimal("Infinity"), Decimal("1e999999999"),
    Decimal("2.0000000001"), Decimal("18446744073.709551616"),
)  # fmt: skip


async def test_what_is_no_amount_is_not_staked(tokens: TokenBench) -> None:
    for amount in BAD_AMOUNTS:
        await tokens.refuses(stake(tokens, amount), "^amount ")
    assert (await tokens.bench.reserved_units(), tokens.sent()) == (0, 0)


@promise("stake-fields")
async def test_the_default_validator_is_chosen_and_the_record_says_why(tokens: TokenBench) -> None:
    real = (await tokens.bench.wire.direct("getVoteAccounts", []))["current"][0]
    # One with two thirds of the stake, that would be first by its commission, and the real one.
    large = {
        **real,
        "votePubkey": str(STRANGER),
        "commission": 0,
        "activatedStake": real["activatedStake"] * 2,
    }
    listed = {"current": [large, real]}

    async def several(_method: str, _params: Sequence[Any]) -> Any:
        return listed

    tokens.bench.wire.faults["getVoteAccounts"] = several
    record = await stake(tokens)
    assert record.details["validator"] == real["votePubkey"]
    assert record.details["validatorReason"] == (
        "Default: the first of 2 that qualify among 2 validators; commission 5% (at most 10%); no"
        " complete epoch to judge votes by; not in the superminority"
    )
    account = await read_stake(
        tokens.bench.ledger, str(record.details["stakeAccount"]), "stakeAccount"
    )
    assert account.validator == real["votePubkey"]
    listed["current"] = []
    await tokens.refuses(stake(tokens), "^validator is required: the network names no")


async def test_the_localnets_validator_is_judged_by_its_last_epochs(tokens: TokenBench) -> None:
    await tokens.bench.localnet.advance_epochs(6)
    record = await stake(tokens)
    assert record.details["validatorReason"] == (
        "Default: the first of 1 that qualify among 1 validator; commission 5% (at most 10%);"
        " vote credits of 100% of the median or more in each of the last 4 complete epochs; in the"
        " superminority, as none outside it qualifies"
    )


async def test_a_node_that_lists_no_validators_needs_one_to_be_named(tokens: TokenBench) -> None:
    address = await validator(tokens)
    tokens.bench.wire.faults["getVoteAccounts"] = _rejects(-32601)
    await tokens.refuses(stake(tokens), "^validator is required: the node does not list validators")
    assert (await stake(tokens, validator=address)).details["validatorReason"] == (
        "Named in the request"
    )
    tokens.bench.wire.faults["getVoteAccounts"] = _rejects(-32000)
    with pytest.raises(TransactionFailed):
        await stake(tokens)


async def test_where_the_node_does_not_know_the_minimum_the_stake_program_says_it(
    tokens: TokenBench,
) -> None:
    tokens.bench.wire.faults["getStakeMinimumDelegation"] = _rejects(-32601)
    before = await tokens.lamports()
    with pytest.raises(TransactionFailed, match="instruction 2 failed: Custom 12"):
        await stake(tokens, Decimal("0.5"))
    assert await tokens.lamports() == before
    text = f"^amount must be at least {format_sol(RENT + 1)} SOL"
    await tokens.refuses(stake(tokens, Decimal(RENT).scaleb(-9)), text)
    assert (await stake(tokens, 2)).status == TransactionStatus.CONFIRMED
    tokens.bench.wire.faults["getStakeMinimumDelegation"] = _rejects(-32000)
    with pytest.raises(TransactionFailed):
        await stake(tokens)


def _rejects(code: int) -> Any:
    async def reject(_method: str, _params: Sequence[Any]) -> Any:
        raise LedgerRejected(code, "Method not found")

    return reject


async def test_a_given_validator_is_staked_with_and_must_be_a_vote_account(
    tokens: TokenBench,
) -> None:
    text = "^validator must be a validator's vote account; .* is none on this network$"
    for bad in (str(STRANGER), tokens.address, STAKE_PROGRAM):
        await tokens.refuses(stake(tokens, validator=bad), text)
    for bad in ("nobody", "", 5):
        text = "^validator must be a (base58 Solana address|string of 1 to 200 characters)$"
        await tokens.refuses(stake(tokens, validator=bad), text)
    tokens.bench.wire.away("getVoteAccounts")
    (only,) = (await tokens.bench.wire.direct("getVoteAccounts", []))["current"]
    record = await stake(tokens, validator=only["votePubkey"])
    assert record.details["validator"] == only["votePubkey"]


@pytest.mark.parametrize("call", [unstake, withdraw])
async def test_what_is_no_stake_account_is_refused(tokens: TokenBench, call: Any) -> None:
    for bad in ("nobody", "", None, 5):
        text = "^stakeAccount (is required and )?must be a (base58 Solana address|string)"
        await tokens.refuses(call(tokens, bad), text)
    for none in (str(STRANGER), tokens.address, await validator(tokens)):
        text = f"^stakeAccount must be a stake account; {none} is none on this network$"
        await tokens.refuses(call(tokens, none), text)


async def test_only_who_has_the_authority_may_unstake_and_withdraw(tokens: TokenBench) -> None:
    account = await staked(tokens)
    await by_hand(tokens.bench, authorize(tokens.bench, account, 0, STRANGER))
    text = f"^stakeAccount: the staker of {account} is {STRANGER}, not this wallet$"
    await tokens.refuses(unstake(tokens, account), text)
    # As the withdrawer it is still the wallet's stake, until that is given away too.
    assert await state(tokens, account) is StakeState.ACTIVATING
    await by_hand(tokens.bench, authorize(tokens.bench, account, 1, STRANGER))
    text = f"^stakeAccount: the withdrawer of {account} is {STRANGER}, not this wallet$"
    await tokens.refuses(withdraw(tokens, account), text)
    assert await read_stakes(tokens.bench.ledger, tokens.address) == ()


async def test_a_stake_that_is_not_delegated_can_only_be_withdrawn(tokens: TokenBench) -> None:
    account = await locked_stake(tokens.bench, epoch=0)
    assert await state(tokens, account) is StakeState.INACTIVE
    await tokens.refuses(unstake(tokens, account), "is not delegated; withdraw it instead$")
    await withdraw(tokens, account)
    assert await tokens.lamports() == 10 * SOL - 2 * FEE


async def test_a_locked_stake_is_withdrawn_once_its_lockup_is_over(tokens: TokenBench) -> None:
    account = await locked_stake(tokens.bench, epoch=1)
    text = f"^stakeAccount: the lockup of {account} is still in force$"
    await tokens.refuses(withdraw(tokens, account), text)
    await tokens.bench.localnet.advance_epochs(1)
    await withdraw(tokens, account)
    assert await tokens.lamports() == 10 * SOL - 2 * FEE


async def test_a_ledger_that_is_away_makes_a_failed_record_of_what_was_asked(
    tokens: TokenBench,
) -> None:
    vote, account = await validator(tokens), await staked(tokens)
    wire = tokens.bench.wire
    for method in ("getStakeMinimumDelegation", "getVoteAccounts", "getMultipleAccounts"):
        wire.away(method)
        call = unstake(tokens, account) if method == "getMultipleAccounts" else stake(tokens)
        with pytest.raises(TransactionFailed, match=f"did not answer {method}"):
            await call
        if method != "getMultipleAccounts":
            wire.faults.clear()
    with pytest.raises(TransactionFailed, match="did not answer getMultipleAccounts"):
        await withdraw(tokens, account)
    wire.away("getAccountInfo")
    with pytest.raises(TransactionFailed, match="did not answer getAccountInfo"):
        await stake(tokens, validator=vote)
    wire.away("getProgramAccounts")
    with pytest.raises(LedgerUnavailable):
        await read_stakes(tokens.bench.ledger, tokens.address)
    told = [(each.type, each.details) for each in await tokens.bench.history()]
    assert told[:-1] == [
        ("stake", {"amount": 2, "validator": vote}),
        ("withdraw_stake", {"stakeAccount": account}),
        ("unstake", {"stakeAccount": account}),
        ("stake", {"amount": 2}),
        ("stake", {"amount": 2}),
    ]
