"""Stake accounts: their layout, their reads, and how a delegation warms up and cools down.

Layouts: solana-stake-interface (`StakeStateV2`, 200 bytes), and the Clock and StakeHistory sysvars.
The state is computed like the Solana CLI's, from the delegation, the epoch and the history. The
rule is Agave's `Delegation::stake_activating_and_deactivating` with the new rate: in an epoch at
most 9% of the cluster's effective stake may become effective or cease to be, shared by all in
proportion. Lamports throughout.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from solders.pubkey import Pubkey

from solward.solana.accounts import key_at
from solward.solana.programs import CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR, STAKE_PROGRAM
from solward.types.errors import InvalidRequest, LedgerRejected, LedgerUnavailable
from solward.types.ledger import NOT_SERVED, Account, ReadLedger, ReadOnlyLedger

NEVER: Final = 2**64 - 1
"""The epoch that never comes; as an activation epoch it means effective since genesis."""

HISTORY_EPOCHS: Final = 512
"""Maximum number of entries in the StakeHistory sysvar."""

STAKE_ACCOUNT_BYTES: Final = 200
_INITIALIZED, _DELEGATED = 1, 2
# u32 kind, u64 rent reserve, staker, withdrawer, lockup (i64 time, u64 epoch, custodian).
_META = struct.Struct("<IQ32s32sqQ32s")
_STAKER_AT, _WITHDRAWER_AT = 12, 44
# Vote account, lamports, activation and deactivation epoch, warm-up rate (no longer read by the
# program), credits observed.
_DELEGATION = struct.Struct("<32sQQQdQ")
_DELEGATION_AT = _META.size

# Slot, start of the epoch, epoch, epoch of the leader schedule, unix time.
CLOCK: Final = struct.Struct("<QqQQq")
_HISTORY_ENTRY = struct.Struct("<QQQQ")

# The ratio of Agave's NEW_WARMUP_COOLDOWN_RATE, 9%, in integers.
_RATE = (9, 100)

Entry: TypeAlias = tuple[int, int, int]
"""(effective, activating, deactivating) lamports: of a cluster in an epoch, or of one stake."""


class Lockup(NamedTuple):
    """The time until which a stake can be withdrawn only with its custodian's signature."""

    unix_time: int
    epoch: int
    custodian: str

    @property
    def is_set(self) -> bool:
        """True if a time or an epoch is set, even a past one: the custodian may change it."""
        return bool(self.unix_time or self.epoch)


@dataclass(frozen=True, slots=True)
class Delegation:
    """A stake account's delegation to the vote account `voter`."""

    voter: Pubkey
    stake: int
    activation_epoch: int
    deactivation_epoch: int
    warmup_rate: float = 0.25
    credits_observed: int = 0


@dataclass(frozen=True, slots=True)
class StakeAccount:
    """An initialised stake account's data; `delegation` is None if it was never delegated."""

    rent_reserve: int
    staker: str
    withdrawer: str
    lockup: Lockup
    delegation: Delegation | None


def stake_account(account: Account | None) -> StakeAccount | None:
    """Return the initialised or delegated stake account in `account`; None if there is none."""
    if account is None or account.owner != STAKE_PROGRAM or len(account.data) < STAKE_ACCOUNT_BYTES:
        return None
    kind, reserve, staker, withdrawer, until, epoch, custodian = _META.unpack_from(account.data)
    if kind not in (_INITIALIZED, _DELEGATED):
        return None
    delegation = None
    if kind == _DELEGATED:
        voter, *amounts = _DELEGATION.unpack_from(account.data, _DELEGATION_AT)
        delegation = Delegation(Pubkey(voter), *amounts)
    return StakeAccount(
        reserve,
        key_at(staker, 0),
        key_at(withdrawer, 0),
        Lockup(until, epoch, key_at(custodian, 0)),
        delegation,
    )


def pack_genesis_stake(authority: Pubkey, voter: Pubkey, stake: int, rent_reserve: int) -> bytes:
    """Return the data of a stake account that is effective since genesis."""
    meta = _META.pack(_DELEGATED, rent_reserve, *[bytes(authority)] * 2, 0, 0, bytes(32))
    delegation = _DELEGATION.pack(bytes(voter), stake, NEVER, NEVER, 0.25, 0)
    return (meta + delegation).ljust(STAKE_ACCOUNT_BYTES, b"\0")


def read_stake_history(data: bytes) -> dict[int, Entry]:
    """Return the StakeHistory sysvar: epoch -> the cluster's stake in it.

    Raises:
        struct.error: the data is shorter than it says.
    """
    (count,) = struct.unpack_from("<Q", data)
    if count * _HISTORY_ENTRY.size > len(data) - 8:
        raise struct.error(f"{count} entries do not fit")
    entries = _HISTORY_ENTRY.iter_unpack(data[8 : 8 + count * _HISTORY_ENTRY.size])
    return {epoch: (effective, on, off) for epoch, effective, on, off in entries}


class StakeState(StrEnum):
    """The state of a delegation; only an inactive stake can be withdrawn."""

    ACTIVATING = "activating"
    """Delegated, and not yet fully effective: usually from the next epoch on."""
    ACTIVE = "active"
    """Fully effective, and earning rewards."""
    DEACTIVATING = "deactivating"
    """Cooling down, usually until the end of the epoch."""
    INACTIVE = "inactive"
    """Not delegated, or cooled down."""


@dataclass(frozen=True, slots=True)
class Stake:
    """One stake account at one moment.

    Attributes:
        lamports: all that it holds, its rent included.
        state: `activating`, `active`, `deactivating` or `inactive`.
        staker: address that may delegate and deactivate it.
        withdrawer: address that may withdraw from it.
        validator: vote account of the latest delegation, None if there was none.
        delegated: lamports that are delegated.
        is_locked: True if its lockup still forbids a withdrawal.
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
    """The ledger's time and stake history, on which the state of a stake account depends.

    Attributes:
        unix_time: seconds since the Unix epoch, as the ledger has it.
        history: epoch -> lamports of the cluster (effective, activating, deactivating).
    """

    epoch: int
    unix_time: int
    history: Mapping[int, Entry]


def stake_at(address: str, account: Account | None, time: StakeTime) -> Stake | None:
    """Return the stake in `account` at a moment; None if it is not an initialised stake account."""
    found = stake_account(account)
    if account is None or found is None:
        return None
    delegation, lockup = found.delegation, found.lockup
    return Stake(
        address=address,
        lamports=account.lamports,
        state=_state_of(status(delegation, time.epoch, time.history) if delegation else (0, 0, 0)),
        staker=found.staker,
        withdrawer=found.withdrawer,
        validator=str(delegation.voter) if delegation else None,
        delegated=delegation.stake if delegation else 0,
        is_locked=lockup.unix_time > time.unix_time or lockup.epoch > time.epoch,
    )


def unix_time(clock: Account | None) -> int:
    """Return the clock sysvar's time in seconds since the epoch; raises `LedgerUnavailable`."""
    try:
        if clock is None:
            raise LedgerUnavailable("The ledger did not show its clock")
        return int(CLOCK.unpack_from(clock.data)[-1])
    except struct.error:
        raise LedgerUnavailable("The ledger's clock is malformed") from None


def stake_time(clock: Account | None, history: Account | None) -> StakeTime:
    """Return the two sysvars' content; raises `LedgerUnavailable` if they cannot be read."""
    try:
        if clock is None or history is None:
            raise LedgerUnavailable("The ledger did not show its clock and stake history")
        _slot, _start, epoch, _leaders, seconds = CLOCK.unpack_from(clock.data)
        return StakeTime(epoch, seconds, read_stake_history(history.data))
    except struct.error:
        raise LedgerUnavailable("The ledger's clock or stake history is malformed") from None


async def read_stake(ledger: ReadLedger, address: str, field: str) -> Stake:
    """Read one stake account.

    Raises:
        InvalidRequest: naming `field`, when it does not exist or is no stake account.
        LedgerError: the ledger did not answer.
    """
    found = await ledger.accounts([address, CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR])
    time = stake_time(found[CLOCK_SYSVAR], found[STAKE_HISTORY_SYSVAR])
    stake = stake_at(address, found[address], time)
    if stake is None:
        raise InvalidRequest(f"{field} must be a stake account; {address} is none on this network")
    return stake


async def read_stakes(
    ledger: ReadLedger, wallet: str, *, of_others: bool = False
) -> tuple[Stake, ...]:
    """Return every stake account whose withdrawer is the wallet, sorted by address.

    Args:
        of_others: also return accounts that name the wallet only as staker; anybody can do so.

    Raises:
        LedgerRejected: `NOT_SERVED` if no RPC provider lists them; see `RecordedStakes`.
        LedgerError: the ledger did not answer.
    """
    accounts: dict[str, Account] = {}
    for offset in (_WITHDRAWER_AT, _STAKER_AT) if of_others else (_WITHDRAWER_AT,):
        accounts |= await ledger.program_accounts(
            STAKE_PROGRAM, size=STAKE_ACCOUNT_BYTES, offset=offset, key=wallet
        )
    if not accounts:
        return ()
    found = await ledger.accounts([CLOCK_SYSVAR, STAKE_HISTORY_SYSVAR])
    time = stake_time(found[CLOCK_SYSVAR], found[STAKE_HISTORY_SYSVAR])
    stakes = (stake_at(address, accounts[address], time) for address in sorted(accounts))
    return tuple(stake for stake in stakes if stake is not None)


class RecordedStakes(ReadOnlyLedger):
    """A ledger that finds a wallet's stakes even if no RPC provider lists a program's accounts. It
    then finds the recorded stakes that exist on the ledger.

    Args:
        recorded: the addresses of the recorded stakes.

    Attributes:
        complete: False once a list contained only recorded stakes.
    """

    __slots__ = ("_recorded", "complete")

    def __init__(
        self, ledger: ReadLedger, recorded: Callable[[], Awaitable[Sequence[str]]]
    ) -> None:
        super().__init__(ledger, lambda: None)
        self._recorded = recorded
        self.complete = True

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """See `ReadLedger.program_accounts`."""
        try:
            return await self._ledger.program_accounts(program, size=size, offset=offset, key=key)
        except LedgerRejected as error:
            if error.code != NOT_SERVED or program != STAKE_PROGRAM:
                raise
        self.complete = False
        wanted = bytes(Pubkey.from_string(key))
        found = await self.accounts(await self._recorded())
        return {
            address: account
            for address, account in found.items()
            if account is not None
            and (account.owner, len(account.data)) == (program, size)
            and account.data[offset : offset + len(wanted)] == wanted
        }


def _state_of(lamports: Entry) -> StakeState:
    effective, activating, deactivating = lamports
    if deactivating:
        return StakeState.DEACTIVATING
    if activating:
        return StakeState.ACTIVATING
    return StakeState.ACTIVE if effective else StakeState.INACTIVE


def status(delegation: Delegation, epoch: int, history: Mapping[int, Entry]) -> Entry:
    """Return the effective, activating and deactivating lamports of a delegation in `epoch`."""
    effective, activating = _warm_up(delegation, epoch, history)
    if epoch < delegation.deactivation_epoch:
        return effective, activating, 0
    if epoch == delegation.deactivation_epoch:
        return effective, 0, effective
    remaining = _cool_down(effective, delegation.deactivation_epoch, epoch, history)
    return remaining, 0, remaining


def _warm_up(delegation: Delegation, epoch: int, history: Mapping[int, Entry]) -> tuple[int, int]:
    stake, start = delegation.stake, delegation.activation_epoch
    if start == NEVER:
        return stake, 0
    if start == delegation.deactivation_epoch or epoch < start:
        return 0, 0
    if epoch == start:
        return 0, stake
    cluster = history.get(start)
    if cluster is None:
        return stake, 0
    effective, current = 0, start
    while cluster is not None and cluster[1]:
        effective += _epoch_change(stake - effective, cluster[1], cluster[0])
        current += 1
        if effective >= stake:
            return stake, 0
        if current >= epoch or current >= delegation.deactivation_epoch:
            break
        cluster = history.get(current)
    return effective, stake - effective


def _cool_down(effective: int, start: int, epoch: int, history: Mapping[int, Entry]) -> int:
    cluster, current = history.get(start), start
    if cluster is None:
        return 0
    while cluster is not None and cluster[2]:
        effective -= _epoch_change(effective, cluster[2], cluster[0])
        current += 1
        if effective <= 0:
            return 0
        if current >= epoch:
            break
        cluster = history.get(current)
    return effective


def _epoch_change(part: int, whole: int, cluster_effective: int) -> int:
    numerator, denominator = _RATE
    return max(1, part * cluster_effective * numerator // (whole * denominator))


def pass_epochs(
    delegations: Iterable[Delegation], first: int, end: int, history: Mapping[int, Entry]
) -> dict[int, Entry]:
    """Return the StakeHistory entries of the epochs from `first` to `end`, without `end`.

    Nothing changes any more once an epoch has neither activating nor deactivating stake, so a long
    stretch of epochs (a ledger that was closed for weeks) costs no more than the newest 512.
    """
    every = list(delegations)
    known = dict(history)
    added: dict[int, Entry] = {}
    epoch = first
    while epoch < end:
        stakes = [status(delegation, epoch, known) for delegation in every]
        effective, activating, deactivating = (sum(stake[i] for stake in stakes) for i in range(3))
        known[epoch] = added[epoch] = effective, activating, deactivating
        epoch += 1
        if not activating and not deactivating:
            epoch = max(epoch, end - HISTORY_EPOCHS)
    return added


def epoch_stakes(
    delegations: Iterable[Delegation], epoch: int, history: Mapping[int, Entry]
) -> dict[Pubkey, int]:
    """Return the effective stake of each vote account in `epoch`."""
    stakes: dict[Pubkey, int] = {}
    for delegation in delegations:
        effective = status(delegation, epoch, history)[0]
        if effective:
            stakes[delegation.voter] = stakes.get(delegation.voter, 0) + effective
    return stakes
