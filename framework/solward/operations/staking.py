"""Plans that stake SOL with a validator, unstake it and withdraw it.

Each stake is a separate account at an address derived from the wallet and a random seed, so that it
can be created with the wallet's signature alone. The wallet is its staker and withdrawer. Layouts:
solana-stake-interface. What the Stake program would refuse is refused here, before a fee is paid.

If the caller names no validator, one is chosen. The same vote accounts and the same wallet always
give the same choice. A validator qualifies if it

1. is not delinquent and charges at most `MAX_COMMISSION_PERCENT`,
2. voted in each of the last complete epochs, and earned at least `MIN_CREDITS_PERCENT` of the
   median validator's vote credits in each.

Qualified validators are ranked by, in this order,

1. stake: first one outside the superminority (the validators that together hold more than a third
   of the stake and so could halt the network) with at least `MIN_STAKE_PERCENT` of the median
   validator's stake, because a vote account without stakers costs little; then one with less; then
   one of the superminority, since a network may have no other,
2. the lower commission,
3. more vote credits in its worst epoch, in whole percent of the median, 100 at most,
4. the lower hash of wallet and vote account, so that wallets are spread over equal validators, and
   a wallet keeps its validator while others come and go.

The only source is the node's `getVoteAccounts`, so a node that lies can have its own validator
chosen. That decides only which validator earns a commission: the stake stays the wallet's.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from statistics import median_low
from typing import Final

from solana.constants import STAKE_PROGRAM_ID
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from solward.database.database import Database
from solward.operations.declared import STAKE, UNSTAKE, WITHDRAW_STAKE
from solward.operations.plans import plans
from solward.operations.sol import parse_address
from solward.solana.accounts import rent_now
from solward.solana.builders import create_seeded, new_seed
from solward.solana.programs import (
    CLOCK_SYSVAR,
    RENT_SYSVAR,
    STAKE_CONFIG,
    STAKE_HISTORY_SYSVAR,
    VOTE_PROGRAM,
)
from solward.solana.protocol import Stake as StakeInstruction
from solward.solana.stakes import (
    STAKE_ACCOUNT_BYTES,
    RecordedStakes,
    Stake,
    StakeState,
    read_stake,
)
from solward.types.errors import InvalidRequest, LedgerRejected
from solward.types.guardrail import Intent
from solward.types.ledger import NOT_SERVED, ReadLedger, VoteAccount
from solward.types.money import format_sol, lamports_to_sol, sol_to_lamports
from solward.types.record import TransactionType
from solward.vault.money.request import Draft
from solward.vault.store import transactions

_NO_LOCKUP = bytes(48)

MAX_COMMISSION_PERCENT: Final = 10
MIN_CREDITS_PERCENT: Final = 90
MIN_STAKE_PERCENT: Final = 10
EPOCHS: Final = 4
"""The number of complete epochs judged. A node lists five epochs, the newest incomplete."""


@plans(STAKE)
async def plan_stake(
    wallet: str, *, ledger: ReadLedger, amount: Decimal | int, validator: str | None
) -> Draft:
    """Put `amount` SOL, including the account's rent reserve, into a new stake.

    Args:
        validator: the validator's vote account; if None, `choose_validator` chooses one.

    Raises:
        InvalidRequest: `amount` is invalid, or less than the network's minimum plus rent; the
            validator is not a vote account, or is None and none can be chosen.
        LedgerError: the ledger did not answer.
    """
    lamports = sol_to_lamports(amount, "amount")
    named = None if validator is None else str(parse_address(validator, "validator"))
    rent = await rent_now(ledger, STAKE_ACCOUNT_BYTES)
    minimum = await _minimum_delegation(ledger)
    if lamports < rent + minimum:
        raise InvalidRequest(
            f"amount must be at least {format_sol(rent + minimum)} SOL: the network's minimum"
            f" delegation of {format_sol(minimum)} SOL and {format_sol(rent)} SOL of rent"
        )
    chosen = await (_default_voter(ledger, wallet) if named is None else _voter(ledger, named))
    owner, seed = Pubkey.from_string(wallet), new_seed()
    stake = Pubkey.create_with_seed(owner, seed, STAKE_PROGRAM_ID)
    intent = Intent(
        type=TransactionType.STAKE,
        wallet=wallet,
        lamports_out=lamports,
        details={
            "stakeAccount": str(stake),
            "validator": chosen.address,
            "validatorReason": chosen.reason,
            "amount": lamports_to_sol(lamports),
        },
    )
    program = str(STAKE_PROGRAM_ID)
    authorities = bytes(owner) * 2 + _NO_LOCKUP
    return Draft(
        intent,
        (
            create_seeded(wallet, seed, program, lamports, STAKE_ACCOUNT_BYTES),
            _stake_instruction(
                StakeInstruction.INITIALIZE, authorities, _writable(stake), _readonly(RENT_SYSVAR)
            ),
            _stake_instruction(
                StakeInstruction.DELEGATE,
                b"",
                _writable(stake),
                _readonly(chosen.address),
                _readonly(CLOCK_SYSVAR),
                _readonly(STAKE_HISTORY_SYSVAR),
                _readonly(STAKE_CONFIG),
                AccountMeta(owner, True, False),
            ),
        ),
    )


@plans(UNSTAKE)
async def plan_unstake(wallet: str, *, ledger: ReadLedger, stake_account: str) -> Draft:
    """Deactivate a stake, which usually cools down until the end of the epoch.

    Raises:
        InvalidRequest: the account is not a stake with the wallet as its staker, is not delegated,
            or is already deactivated.
        LedgerError: the ledger did not answer.
    """
    stake = await _read_stake(ledger, stake_account)
    if stake.staker != wallet:
        raise InvalidRequest(
            f"stakeAccount: the staker of {stake.address} is {stake.staker}, not this wallet"
        )
    if stake.validator is None:
        raise InvalidRequest(f"stakeAccount: {stake.address} is not delegated; withdraw it instead")
    if stake.state is StakeState.INACTIVE:
        raise InvalidRequest(
            f"stakeAccount: {stake.address} is inactive already; withdraw it instead"
        )
    if stake.state is StakeState.DEACTIVATING:
        raise InvalidRequest(f"stakeAccount: {stake.address} is deactivating already; {_COOLING}")
    intent = Intent(
        type=TransactionType.UNSTAKE,
        wallet=wallet,
        details={
            "stakeAccount": stake.address,
            "validator": stake.validator,
            "amount": lamports_to_sol(stake.delegated),
        },
    )
    deactivate = _stake_instruction(
        StakeInstruction.DEACTIVATE,
        b"",
        _writable(Pubkey.from_string(stake.address)),
        _readonly(CLOCK_SYSVAR),
        AccountMeta(Pubkey.from_string(wallet), True, False),
    )
    return Draft(intent, (deactivate,))


@plans(WITHDRAW_STAKE)
async def plan_withdraw_stake(wallet: str, *, ledger: ReadLedger, stake_account: str) -> Draft:
    """Withdraw an inactive stake to the wallet, including its rent reserve.

    Raises:
        InvalidRequest: the account is not a stake with the wallet as its withdrawer, is not
            inactive, or is locked.
        LedgerError: the ledger did not answer.
    """
    stake = await _read_stake(ledger, stake_account)
    if stake.withdrawer != wallet:
        raise InvalidRequest(
            f"stakeAccount: the withdrawer of {stake.address} is {stake.withdrawer}, not this"
            " wallet"
        )
    if stake.state is not StakeState.INACTIVE:
        raise InvalidRequest(
            f"stakeAccount: {stake.address} is {stake.state}; {_BEFORE_WITHDRAWAL[stake.state]}"
        )
    if stake.is_locked:
        raise InvalidRequest(f"stakeAccount: the lockup of {stake.address} is still in force")
    owner = Pubkey.from_string(wallet)
    intent = Intent(
        type=TransactionType.WITHDRAW_STAKE,
        wallet=wallet,
        details={"stakeAccount": stake.address, "amount": lamports_to_sol(stake.lamports)},
    )
    withdraw = _stake_instruction(
        StakeInstruction.WITHDRAW,
        struct.pack("<Q", stake.lamports),
        _writable(Pubkey.from_string(stake.address)),
        _writable(owner),
        _readonly(CLOCK_SYSVAR),
        _readonly(STAKE_HISTORY_SYSVAR),
        AccountMeta(owner, True, False),
    )
    return Draft(intent, (withdraw,))


_COOLING = "it can be withdrawn once it is inactive, at the end of the epoch as a rule"
_BEFORE_WITHDRAWAL = {
    StakeState.ACTIVATING: "unstake it first",
    StakeState.ACTIVE: "unstake it first",
    StakeState.DEACTIVATING: _COOLING,
}


async def _read_stake(ledger: ReadLedger, given: str) -> Stake:
    return await read_stake(ledger, str(parse_address(given, "stakeAccount")), "stakeAccount")


async def _minimum_delegation(ledger: ReadLedger) -> int:
    """Return the minimum delegation in lamports; 1 if the node does not know the method.

    The Stake program then refuses a smaller one in the simulation, before a fee is paid.
    """
    try:
        return await ledger.stake_minimum_delegation()
    except LedgerRejected as error:
        if error.code != NOT_SERVED:
            raise
        return 1


async def _default_voter(ledger: ReadLedger, wallet: str) -> ChosenValidator:
    try:
        accounts = await ledger.vote_accounts()
    except LedgerRejected as error:
        if error.code != NOT_SERVED:
            raise
        raise InvalidRequest(
            "validator is required: the node does not list validators (getVoteAccounts)"
        ) from None
    return choose_validator(accounts, wallet)


async def _voter(ledger: ReadLedger, address: str) -> ChosenValidator:
    account = await ledger.account(address)
    if account is None or account.owner != VOTE_PROGRAM:
        raise InvalidRequest(
            f"validator must be a validator's vote account; {address} is none on this network"
        )
    return ChosenValidator(address, "Named in the request")


def _stake_instruction(kind: int, data: bytes, *accounts: AccountMeta) -> Instruction:
    return Instruction(STAKE_PROGRAM_ID, kind.to_bytes(4, "little") + data, list(accounts))


def _writable(account: Pubkey) -> AccountMeta:
    return AccountMeta(account, False, True)


def _readonly(account: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(account), False, False)


class _StakeRank(IntEnum):
    """The rank of a validator by its stake; a lower value is preferred."""

    ORDINARY = 0
    SMALL = 1
    SUPERMINORITY = 2


@dataclass(frozen=True, slots=True)
class ChosenValidator:
    """A vote account, and the reason why it was chosen."""

    address: str
    reason: str


def choose_validator(accounts: Sequence[VoteAccount], wallet: str) -> ChosenValidator:
    """Return the validator that is used by default for a wallet's stakes.

    Args:
        accounts: the vote accounts of validators that are not delinquent.
        wallet: the wallet's address.

    Raises:
        InvalidRequest: there is no validator, or none qualifies.
    """
    if not accounts:
        raise InvalidRequest("validator is required: the network names no validator to stake with")
    cheap = [each for each in accounts if each.commission_percent <= MAX_COMMISSION_PERCENT]
    if not cheap:
        raise InvalidRequest(
            "validator is required: each validator of this network takes a commission of more than"
            f" {MAX_COMMISSION_PERCENT}%"
        )
    history = _VoteHistory(accounts)
    voted = {each: history.percent(each) for each in cheap}
    qualified = [each for each in cheap if voted[each] >= MIN_CREDITS_PERCENT]
    if not qualified:
        raise InvalidRequest(
            "validator is required: no validator of this network with a commission of at most"
            f" {MAX_COMMISSION_PERCENT}% earned {MIN_CREDITS_PERCENT}% of the median's vote credits"
            f" in each of the last {history.known}"
        )
    weights = _stake_ranks(accounts)

    def rank(each: VoteAccount) -> tuple[int, int, int, bytes]:
        spread = hashlib.sha256(f"{wallet}:{each.address}".encode()).digest()
        return weights[each.address], each.commission_percent, -voted[each], spread

    best = min(qualified, key=rank)
    others = sum(rank(each)[:3] == rank(best)[:3] for each in qualified) - 1
    grounds = [
        f"Default: the first of {len(qualified)} that qualify among"
        f" {_count_text(len(accounts), 'validator')}",
        f"commission {best.commission_percent}% (at most {MAX_COMMISSION_PERCENT}%)",
        f"vote credits of {voted[best]}% of the median or more in each of the last {history.known}"
        if history.epochs
        else "no complete epoch to judge votes by",
        _WORDS[weights[best.address]],
    ]
    if others:
        grounds.append(f"equal to {_count_text(others, 'other')}, over which wallets are spread")
    return ChosenValidator(best.address, "; ".join(grounds))


_WORDS: Final = {
    _StakeRank.ORDINARY: "not in the superminority",
    _StakeRank.SMALL: "little stake, as no larger one outside the superminority qualifies",
    _StakeRank.SUPERMINORITY: "in the superminority, as none outside it qualifies",
}


class _VoteHistory:
    """The vote credits of validators in the last complete epochs."""

    def __init__(self, accounts: Sequence[VoteAccount]) -> None:
        self._credits = {each.address: dict(each.epoch_credits) for each in accounts}
        earned: dict[int, list[int]] = {}
        for by_epoch in self._credits.values():
            for epoch, count in by_epoch.items():
                # Accounts without votes are left out: they are free, and would lower the median.
                if count:
                    earned.setdefault(epoch, []).append(count)
        # The newest epoch is not over and left out; early in it no validator has credits.
        self.epochs = sorted(earned)[:-1][-EPOCHS:]
        self._medians = {epoch: median_low(earned[epoch]) for epoch in self.epochs}

    @property
    def known(self) -> str:
        """The number of judged epochs, in words."""
        return _count_text(len(self.epochs), "complete epoch")

    def percent(self, account: VoteAccount) -> int:
        """Return the credits of the account's worst epoch in percent of the median, at most 100.

        It is 0 if the validator did not vote in one of the epochs.
        """
        earned = self._credits[account.address]
        return min(
            (min(100, earned.get(epoch, 0) * 100 // self._medians[epoch]) for epoch in self.epochs),
            default=100,
        )


def _stake_ranks(accounts: Sequence[VoteAccount]) -> Mapping[str, _StakeRank]:
    total = sum(each.activated_stake for each in accounts)
    # Accounts without stake are left out, because anybody can make any number of them.
    staked = [each.activated_stake for each in accounts if each.activated_stake] or [0]
    least = Fraction(median_low(staked) * MIN_STAKE_PERCENT, 100)
    weights: dict[str, _StakeRank] = {}
    held = 0
    for each in sorted(accounts, key=lambda each: (-each.activated_stake, each.address)):
        if held * 3 <= total:
            weights[each.address] = _StakeRank.SUPERMINORITY
        elif each.activated_stake < least or not each.activated_stake:
            weights[each.address] = _StakeRank.SMALL
        else:
            weights[each.address] = _StakeRank.ORDINARY
        held += each.activated_stake
    return weights


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def recorded_stakes(ledger: ReadLedger, database: Database, wallet_id: str) -> RecordedStakes:
    """Return a ledger that finds a wallet's stakes in its records if no RPC node lists them."""

    async def recorded() -> Sequence[str]:
        async with database.read() as connection:
            return await transactions.stake_accounts(connection, wallet_id)

    return RecordedStakes(ledger, recorded)
