"""Stake accounts and how a delegation warms up and cools down over epochs.

The rule is Agave's `Delegation::stake_activating_and_deactivating` with the new rate: in an epoch
at most 9% of the cluster's effective stake may become effective or cease to be, shared by all in
proportion. Lamports throughout.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from solders.pubkey import Pubkey

NEVER = 2**64 - 1
"""An epoch that does not come. As an activation epoch: effective since genesis."""

STAKE_ACCOUNT_BYTES = 200
_DELEGATED = 2
_DELEGATION = struct.Struct("<32sQQQ")
_DELEGATION_OFFSET = 124
# 9% as Agave's NEW_WARMUP_COOLDOWN_RATE, in a ratio of integers.
_RATE = (9, 100)

HISTORY_EPOCHS = 512
"""Entries the StakeHistory sysvar keeps."""

Entry = tuple[int, int, int]
"""(effective, activating, deactivating) lamports: of a cluster in an epoch, or of one stake."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """A stake account's delegation to the vote account `voter`."""

    voter: Pubkey
    stake: int
    activation_epoch: int
    deactivation_epoch: int


def read_delegation(data: bytes) -> Delegation | None:
    """The delegation in the data of a stake account, None where it is not delegated."""
    if len(data) < STAKE_ACCOUNT_BYTES or int.from_bytes(data[:4], "little") != _DELEGATED:
        return None
    voter, stake, activation, deactivation = _DELEGATION.unpack_from(data, _DELEGATION_OFFSET)
    return Delegation(Pubkey(voter), stake, activation, deactivation)


def pack_genesis_stake(authority: Pubkey, voter: Pubkey, stake: int, rent_reserve: int) -> bytes:
    """The data of a stake account that is effective since genesis."""
    return (
        struct.pack("<IQ", _DELEGATED, rent_reserve)
        + bytes(authority) * 2
        + struct.pack("<qQ32x", 0, 0)
        + _DELEGATION.pack(bytes(voter), stake, NEVER, NEVER)
        # The warm-up rate is no longer read, and holds Agave's default; then the credits observed.
        + struct.pack("<dQ4x", 0.25, 0)
    )


def status(delegation: Delegation, epoch: int, history: Mapping[int, Entry]) -> Entry:
    """Effective, activating and deactivating lamports of a delegation in `epoch`."""
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
        effective += _share(stake - effective, cluster[1], cluster[0])
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
        effective -= _share(effective, cluster[2], cluster[0])
        current += 1
        if effective <= 0:
            return 0
        if current >= epoch:
            break
        cluster = history.get(current)
    return effective


def _share(part: int, whole: int, cluster_effective: int) -> int:
    numerator, denominator = _RATE
    return max(1, part * cluster_effective * numerator // (whole * denominator))


def cluster_entry(
    delegations: Iterable[Delegation], epoch: int, history: Mapping[int, Entry]
) -> Entry:
    """The cluster's stake in `epoch`: what StakeHistory keeps of it once it is over."""
    entries = [status(delegation, epoch, history) for delegation in delegations]
    effective, activating, deactivating = (sum(entry[i] for entry in entries) for i in range(3))
    return effective, activating, deactivating


def pass_epochs(
    delegations: Iterable[Delegation], first: int, end: int, history: Mapping[int, Entry]
) -> dict[int, Entry]:
    """The entries of the epochs from `first` up to, not including, `end`.

    Nothing changes any more once an epoch has neither activating nor deactivating stake, so a long
    stretch of epochs (a ledger that was closed for weeks) costs no more than the newest 512.
    """
    held = list(delegations)
    known = dict(history)
    added: dict[int, Entry] = {}
    epoch = first
    while epoch < end:
        entry = cluster_entry(held, epoch, known)
        known[epoch] = added[epoch] = entry
        epoch += 1
        if not entry[1] and not entry[2]:
            epoch = max(epoch, end - HISTORY_EPOCHS)
    return added


def epoch_stakes(
    delegations: Iterable[Delegation], epoch: int, history: Mapping[int, Entry]
) -> dict[Pubkey, int]:
    """The effective stake of each vote account in `epoch`."""
    stakes: dict[Pubkey, int] = {}
    for delegation in delegations:
        effective = status(delegation, epoch, history)[0]
        if effective:
            stakes[delegation.voter] = stakes.get(delegation.voter, 0) + effective
    return stakes
