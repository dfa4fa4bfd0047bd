from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
from solders.keypair import Keypair

from solward.solana.programs import CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR, STAKE_PROGRAM
from solward.solana.stakes import StakeState, StakeTime, read_stake, stake_at, stake_time
from solward.types.errors import LedgerUnavailable
from solward.types.ledger import Account, VoteAccount
from solward.vault.ledger.client import Ledger

SOL = 10**9
NEVER = 2**64 - 1
STAKER, WITHDRAWER, VOTER = (Keypair().pubkey() for _ in range(3))
ADDRESS = str(Keypair().pubkey())
# A small cluster, in which 9% an epoch is less than the stake below.
CLUSTER = 10 * SOL


def account(
    kind: int = 2,
    *,
    start: int = 5,
    end: int = NEVER,
    lockup: tuple[int, int] = (0, 0),
    owner: str = STAKE_PROGRAM,
) -> Account:
    """A stake account of 3 SOL, as the Stake program writes it."""
    data = struct.pack("<IQ", kind, 2_282_880) + bytes(STAKER) + bytes(WITHDRAWER)
    data += struct.pack("<qQ", *lockup) + bytes(32)
    data += bytes(VOTER) + struct.pack("<QQQdQ4x", 3 * SOL, start, end, 0.25, 0)
    assert len(data) == 200
    return Account(3 * SOL + 2_282_880, owner, data)


def at(epoch: int, **history: tuple[int, int, int]) -> StakeTime:
    entries = {int(name[1:]): entry for name, entry in history.items()}
    return StakeTime(epoch, 1_000, entries)


def state(found: Account, time: StakeTime) -> StakeState:
    stake = stake_at(ADDRESS, found, time)
    assert stake is not None
    return stake.state


def test_a_delegated_stake_is_read_whole() -> None:
    stake = stake_at(ADDRESS, account(), at(5))
    assert stake is not None
    assert (stake.address, stake.lamports, stake.delegated) == (ADDRESS, 3_002_282_880, 3 * SOL)
    assert (stake.staker, stake.withdrawer) == (str(STAKER), str(WITHDRAWER))
    assert (stake.validator, stake.is_locked) == (str(VOTER), False)


def test_what_is_not_delegated_is_inactive_and_has_no_validator() -> None:
    stake = stake_at(ADDRESS, account(kind=1), at(5))
    assert stake is not None
    assert (stake.state, stake.validator, stake.delegated) == (StakeState.INACTIVE, None, 0)


@pytest.mark.parametrize(
    "found",
    [
        None,
        account(kind=0),
        account(kind=3),
        account(owner="11111111111111111111111111111111"),
        Account(SOL, STAKE_PROGRAM, b""),
        Account(SOL, STAKE_PROGRAM, account().data[:199]),
    ],
)
def test_what_is_no_initialised_stake_is_none(found: Account | None) -> None:
    assert stake_at(ADDRESS, found, at(5)) is None


@pytest.mark.parametrize(
    ("found", "time", "expected"),
    [
        (account(), at(4), StakeState.INACTIVE),
        (account(), at(5), StakeState.ACTIVATING),
        # Room for all of it in one epoch, and room for less.
        (account(), at(6, e5=(1_000 * SOL, 3 * SOL, 0)), StakeState.ACTIVE),
        (account(), at(6, e5=(CLUSTER, 3 * SOL, 0)), StakeState.ACTIVATING),
        # What the history no longer holds was long ago.
        (account(), at(600), StakeState.ACTIVE),
        (account(end=9), at(8), StakeState.ACTIVE),
        (account(end=9), at(9), StakeState.DEACTIVATING),
        (account(end=9), at(10, e9=(1_000 * SOL, 0, 3 * SOL)), StakeState.INACTIVE),
        (account(end=9), at(10, e9=(CLUSTER, 0, 3 * SOL)), StakeState.DEACTIVATING),
        (account(end=9), at(600), StakeState.INACTIVE),
        # Taken back in the epoch it was delegated in, and effective since genesis.
        (account(end=5), at(5), StakeState.INACTIVE),
        (account(start=NEVER), at(0), StakeState.ACTIVE),
    ],
)
def test_the_state_follows_from_epoch_and_history(
    found: Account, time: StakeTime, expected: StakeState
) -> None:
    assert state(found, time) is expected


@pytest.mark.parametrize(
    ("lockup", "locked"),
    [((0, 0), False), ((1_000, 5), False), ((1_001, 0), True), ((0, 6), True)],
)
def test_a_lockup_holds_until_its_time_and_its_epoch(lockup: tuple[int, int], locked: bool) -> None:
    stake = stake_at(ADDRESS, account(lockup=lockup), at(5))
    assert stake is not None
    assert stake.is_locked is locked


def sysvars() -> tuple[Account, Account]:
    clock = struct.pack("<QqQQq", 99, 1, 7, 8, 1_234)
    history = history_bytes([(6, 30, 20, 10), (5, 3, 2, 1)])
    return Account(1, "Sysvar", clock), Account(1, "Sysvar", history)


def history_bytes(entries: Sequence[tuple[int, int, int, int]]) -> bytes:
    """The sysvar: a count and its entries, then zeros, as the account is of a fixed size."""
    packed = b"".join(struct.pack("<QQQQ", *entry) for entry in entries)
    return struct.pack("<Q", len(entries)) + packed + bytes(64)


def test_clock_and_history_are_read_without_their_padding() -> None:
    time = stake_time(*sysvars())
    assert time == StakeTime(7, 1_234, {6: (30, 20, 10), 5: (3, 2, 1)})


@pytest.mark.parametrize("missing", [0, 1])
def test_sysvars_that_are_missing_or_malformed_are_no_answer(missing: int) -> None:
    both: list[Account | None] = list(sysvars())
    both[missing] = None
    with pytest.raises(LedgerUnavailable, match="did not show its clock"):
        stake_time(*both)
    both[missing] = Account(1, "Sysvar", b"\x01" + bytes(8))
    with pytest.raises(LedgerUnavailable, match="malformed"):
        stake_time(*both)


class Answers:
    """A transport that has one answer to each method."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[tuple[str, Sequence[Any]]] = []

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        self.asked.append((method, params))
        return self._answers[method]

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("answer", [None, 5, [{}], [{"pubkey": ADDRESS, "account": {"data": 5}}]])
async def test_program_accounts_of_another_shape_are_no_answer(answer: Any) -> None:
    ledger = Ledger(Answers(getProgramAccounts=answer))
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await ledger.program_accounts(STAKE_PROGRAM, size=200, offset=12, key=ADDRESS)


VOTE = {"votePubkey": "v", "activatedStake": 7, "commission": 5, "epochCredits": [[1, 9, 2]]}


async def test_a_vote_account_is_read_with_what_it_earned_in_each_epoch() -> None:
    transport = Answers(getVoteAccounts={"current": [VOTE], "delinquent": [VOTE, VOTE]})
    [found] = await Ledger(transport).vote_accounts()
    assert found == VoteAccount("v", 7, 5, ((1, 7),))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"current": [{}]},
        {"current": [VOTE | {"activatedStake": "1"}]},
        {"current": [VOTE | {"commission": None}]},
        {"current": [VOTE | {"epochCredits": [[1, 2]]}]},
        {"current": [VOTE | {"epochCredits": [[1, "2", 0]]}]},
        {"current": [VOTE | {"epochCredits": 5}]},
    ],
)
async def test_vote_accounts_of_another_shape_are_no_answer(answer: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Answers(getVoteAccounts=answer)).vote_accounts()


@pytest.mark.parametrize("answer", [5, {"value": "1"}, {"value": None}])
async def test_a_minimum_delegation_of_another_shape_is_no_answer(answer: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Answers(getStakeMinimumDelegation=answer)).stake_minimum_delegation()


async def test_a_stake_is_read_with_its_clock_in_one_call() -> None:
    transport = Answers(getMultipleAccounts={"value": [None, None, None]})
    with pytest.raises(LedgerUnavailable):
        await read_stake(Ledger(transport), ADDRESS, "stakeAccount")
    [(_method, params)] = transport.asked
    assert params[0] == [ADDRESS, CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR]
