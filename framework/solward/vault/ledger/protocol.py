"""The answers of a Solana cluster, in Solward's own types.

This module alone decides which commitment is asked for, what is final, and how long a slot takes.

Addresses, signatures and blockhashes are base58 text.

With Alpenglow a block is final after some 150 ms, and `confirmed`, a word that will be removed,
reports the same block as `finalized`. Without it `finalized` is some thirty slots behind.

The first measure of a slot is what a node says of its last minutes (`getRecentPerformanceSamples`);
after that, the slots that answers name anyway, without calls of their own. Expiry depends on block
heights alone. What is planned in seconds (the age of a plan, polls, resends, waits) is a number of
slots times this measure, with a margin that its user names.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Final

from solward.solana.protocol import LEAST_SLOT_MS, MOST_SLOT_MS, UNMEASURED_SLOT_MS
from solward.types.errors import LedgerRejected
from solward.types.ledger import Account
from solward.types.money import U64_MAX

# The JSON-RPC code of a node that has not reached the `minContextSlot` asked for
# (agave rpc-client-api/src/custom_error.rs).
MIN_CONTEXT_SLOT: Final = -32016
CONFIRMED: Final = "confirmed"
FINALIZED: Final = "finalized"
# JSON-RPC 2.0: invalid parameters.
_INVALID: Final = -32602
# Seconds over which a slot is measured. Nodes behind one address are tens of slots apart, which
# must be a small part of it; a change of the cluster's pace is followed within this time.
OVER_S: Final = 60.0
LEAST_OVER_S: Final = 10.0
# Least seconds between two slots that are kept.
_APART_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Blockhash:
    """A recent blockhash and the last block height at which it is valid.

    Attributes:
        context_slot: the slot of the node that gave it.
        others_slots: the slots of the other nodes then, of those that answered.
    """

    blockhash: str
    last_valid_block_height: int
    context_slot: int
    others_slots: tuple[int, ...] = ()

    @property
    def earliest_landing_slot(self) -> int:
        """The first slot in which bytes signed now can land: the lower median of the nodes' slots.

        Of two slots it is the lower. Of more, no single node can make it later than an honest
        node's, which would hide what landed, or so early that no history reaches back to it.
        """
        slots = sorted((self.context_slot, *self.others_slots))
        return slots[(len(slots) - 1) // 2]


@dataclass(frozen=True, slots=True)
class Tip:
    """A node's newest block: slot and block height."""

    slot: int
    block_height: int


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The answer of `simulateTransaction`.

    Attributes:
        err: the error in the RPC's JSON shape, None when it would succeed.
        accounts: post-state of each requested address; None if the account would not exist.
        inner_instructions: the RPC's JSON, None when the node gave none.
        loaded_bytes: of all accounts that it loaded; None if the node does not say.
    """

    err: Any
    logs: tuple[str, ...]
    accounts: Mapping[str, Account | None]
    inner_instructions: Any
    units_consumed: int | None
    slot: int
    loaded_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """The status of a signature: slot, error in the RPC's JSON shape, commitment reached."""

    slot: int
    err: Any
    confirmation: str | None


@dataclass(frozen=True, slots=True)
class SignatureRow:
    """A transaction in the history of an address.

    Attributes:
        signature: base58, of its fee payer.
        err: the error in the RPC's JSON shape, None if it succeeded.
        memo: of all its memos, each as `[bytes] text`; None if the node shows none.
        confirmation: the commitment reached; None if the node does not say.
    """

    signature: str
    slot: int
    err: Any
    memo: str | None
    confirmation: str | None


def is_final(status: str | None) -> bool:
    """Return whether a transaction of this `confirmationStatus` stays on the ledger."""
    return status in (CONFIRMED, FINALIZED)


def has_certificate(answer: Any) -> bool:
    """Return whether an answer to `getAgGenesisCert` is Alpenglow's certificate; null before it."""
    return isinstance(answer, dict) and bool(answer)


def refuses_confirmed(error: LedgerRejected) -> bool:
    """Return whether a node does not know the word `confirmed` any more."""
    return error.code == _INVALID and CONFIRMED in str(error)


def in_word(params: Sequence[Any], word: str) -> tuple[Any, ...]:
    """Return the parameters of a call with `word` in place of `confirmed`."""
    return tuple(
        each | {"commitment": word}
        if isinstance(each, dict) and each.get("commitment") == CONFIRMED
        else each
        for each in params
    )


def bounded_s(slot_s: float) -> float:
    """Return a slot time in seconds, within the bounds of `solward.solana.protocol`."""
    return min(max(slot_s, LEAST_SLOT_MS / 1000), MOST_SLOT_MS / 1000)


def sampled_s(samples: Any) -> float | None:
    """Return the seconds that a slot takes by an answer to `getRecentPerformanceSamples`, without
    bounds; None if it does not say."""
    slots = seconds = 0
    for each in samples if isinstance(samples, list) else ():
        counted, took = _count(each, "numSlots"), _count(each, "samplePeriodSecs")
        if counted and took:
            slots, seconds = slots + counted, seconds + took
    return seconds / slots if slots else None


def _count(sample: Any, name: str) -> int:
    found = sample.get(name) if isinstance(sample, Mapping) else None
    return found if type(found) is int and 0 < found < 2**32 else 0


def newest_slot(method: str, answer: Any) -> int | None:
    """Return the slot that an answer calls the newest one of its node; None if it names none."""
    found = answer
    if method != "getSlot":
        found = answer.get("context", answer) if isinstance(answer, Mapping) else {}
        found = found.get("slot", found.get("absoluteSlot")) if isinstance(found, Mapping) else None
    return found if type(found) is int and 0 <= found <= U64_MAX else None


def together_s(times: Iterable[SlotTime]) -> float:
    """Return the seconds that a slot takes: the lower median of what was measured by each node."""
    measured = [each.measured_s for each in times if each.measured_s is not None]
    return median_low(measured) if measured else UNMEASURED_SLOT_MS / 1000


class SlotTime:
    """The time that a slot takes, measured by one node.

    Args:
        clock: monotonic seconds.

    Attributes:
        measured_s: seconds that a slot takes, within bounds; None until it is known.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.measured_s: float | None = None
        # (time, slot) when a slot was the newest one, the oldest first.
        self._seen: deque[tuple[float, int]] = deque()

    def sampled(self, samples: Any) -> None:
        """Take what a node says of its last minutes."""
        said = sampled_s(samples)
        if said is not None:
            self.measured_s = bounded_s(said)

    def saw(self, slot: int) -> None:
        """Take a slot that a node called its newest one now."""
        now, seen = self._clock(), self._seen
        while seen and now - seen[0][0] > OVER_S and (len(seen) < 2 or now - seen[1][0] > OVER_S):
            seen.popleft()
        if seen and (now - seen[-1][0] < _APART_S or slot <= seen[-1][1]):
            # The slot is of a node that is behind; a lie about a newer one is dropped by its age.
            return
        seen.append((now, slot))
        began, first = seen[0]
        if now - began >= LEAST_OVER_S:
            self.measured_s = bounded_s((now - began) / (slot - first))
