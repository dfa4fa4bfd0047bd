"""Stake accounts: whose they are, what they hold, and how far their delegation has come.

Layouts: solana-stake-interface (`StakeStateV2`, 200 bytes), and the Clock and StakeHistory sysvars.
The state is that of the Solana CLI: computed from the delegation, the epoch and the history.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from solders.pubkey import Pubkey

from solward.errors import InvalidRequest, LedgerUnavailable
from solward.solana.delegation import Entry, read_delegation, status
from solward.solana.ledger import Account, ReadLedger
from solward.solana.programs import CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR, STAKE_PROGRAM

STAKE_ACCOUNT_BYTES = 200
_INITIALIZED, _DELEGATED = 1, 2
_STAKER_AT, _WITHDRAWER_AT = 12, 44
# slot, start of the epoch, epoch, epoch of the leader schedule, unix time
_CLOCK = struct.Struct("<QqQQq")
_LOCKUP = struct.Struct("<qQ")
_LOCKUP_AT = 76
_HISTORY_ENTRY = struct.Struct("<QQQQ")


class StakeState(StrEnum):
    """How far a delegation has come; only an inactive stake can be withdrawn."""

    ACTIVATING = "activating"
    """Delegated, and not yet wholly counted: from the next epoch on, as a rule."""
    ACTIVE = "active"
    """Counted, and earning rewards."""
    DEACTIVATING = "deactivating"
    """Cooling down: until the end of the epoch, as a rule."""
    INACTIVE = "inactive"
    """Not delegated, or cooled down."""


@dataclass(frozen=True, slots=True)
class Stake:
    """One stake account at one moment.

    Attributes:
        lamports: all it holds, its rent reserve included.
        staker: who may delegate and deactivate it.
        withdrawer: who may withdraw from it.
        validator: the vote account it is or was delegated to, None for neither.
        delegated: lamports delegated, 0 where it is not.
        is_locked: its lockup still forbids a withdrawal.
    """

    address: str
    lamports: int
    state: StakeState
    staker: str
    withdrawer: str
    validator: str | None
    delegated: int
    is_locked: bool


@dataclass(frozen=True, slots=True)
class StakeTime:
    """What a stake's state depends on besides the account.

    Attributes:
        unix_time: seconds since the Unix epoch, as the ledger has it.
        history: epoch -> lamports of the cluster (effective, activating, deactivating).
    """

    epoch: int
    unix_time: int
    history: Mapping[int, Entry]


def parse_stake(address: str, account: Account | None, time: StakeTime) -> Stake | None:
    """The stake in an account, None where it is no initialised stake account."""
    if account is None or account.owner != STAKE_PROGRAM or len(account.data) < STAKE_ACCOUNT_BYTES:
        return None
    data = account.data
    if int.from_bytes(data[:4], "little") not in (_INITIALIZED, _DELEGATED):
        return None
    locked_until, locked_epoch = _LOCKUP.unpack_from(data, _LOCKUP_AT)
    delegation = read_delegation(data)
    return Stake(
        address=address,
        lamports=account.lamports,
        state=_state(status(delegation, time.epoch, time.history) if delegation else (0, 0, 0)),
        staker=_key(data, _STAKER_AT),
        withdrawer=_key(data, _WITHDRAWER_AT),
        validator=str(delegation.voter) if delegation else None,
        delegated=delegation.stake if delegation else 0,
        is_locked=locked_until > time.unix_time or locked_epoch > time.epoch,
    )


def parse_time(clock: Account | None, history: Account | None) -> StakeTime:
    """The two sysvars' content; raises `LedgerUnavailable` where they are not what they must be."""
    try:
        if clock is None or history is None:
            raise LedgerUnavailable("The ledger did not show its clock and stake history")
        _slot, _start, epoch, _leaders, unix_time = _CLOCK.unpack_from(clock.data)
        count = int.from_bytes(history.data[:8], "little")
        entries = _HISTORY_ENTRY.iter_unpack(history.data[8 : 8 + count * _HISTORY_ENTRY.size])
        return StakeTime(epoch, unix_time, {entry: (a, b, c) for entry, a, b, c in entries})
    except struct.error:
        raise LedgerUnavailable("The ledger's clock or stake history is malformed") from None


async def read_stake(ledger: ReadLedger, address: str, field: str) -> Stake:
    """Read one stake account.

    Raises:
        InvalidRequest: naming `field`, when it does not exist or is no stake account.
        LedgerError: the ledger did not answer.
    """
    found = await ledger.accounts([address, CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR])
    time = parse_time(found[CLOCK_SYSVAR], found[STAKE_HISTORY_SYSVAR])
    stake = parse_stake(address, found[address], time)
    if stake is None:
        raise InvalidRequest(f"{field} must be a stake account; {address} is none on this network")
    return stake


async def read_stakes(ledger: ReadLedger, wallet: str) -> tuple[Stake, ...]:
    """Every stake account whose staker or withdrawer is the wallet, by address.

    Raises:
        LedgerError: the ledger did not answer.
    """
    accounts: dict[str, Account] = {}
    for offset in (_STAKER_AT, _WITHDRAWER_AT):
        accounts |= await ledger.program_accounts(
            STAKE_PROGRAM, size=STAKE_ACCOUNT_BYTES, offset=offset, key=wallet
        )
    if not accounts:
        return ()
    found = await ledger.accounts([CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR])
    time = parse_time(found[CLOCK_SYSVAR], found[STAKE_HISTORY_SYSVAR])
    stakes = (parse_stake(address, accounts[address], time) for address in sorted(accounts))
    return tuple(stake for stake in stakes if stake is not None)


def _state(lamports: Entry) -> StakeState:
    effective, activating, deactivating = lamports
    if deactivating:
        return StakeState.DEACTIVATING
    if activating:
        return StakeState.ACTIVATING
    return StakeState.ACTIVE if effective else StakeState.INACTIVE


def _key(data: bytes, start: int) -> str:
    return str(Pubkey.from_bytes(data[start : start + 32]))
