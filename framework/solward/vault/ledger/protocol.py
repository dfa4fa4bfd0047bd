"""The answers of a Solana cluster, in Solward's own types.

Only this module decides which commitment is requested, what is final, and how long a slot takes.

Addresses, signatures and blockhashes are base58 text.

With Alpenglow a block is final after some 150 ms, and `confirmed` (a word that will be removed)
means the same block as `finalized`. Without Alpenglow `finalized` is some thirty slots behind.

The length of a slot is first measured by a node's report of its last minutes
(`getRecentPerformanceSamples`), and then by the slots that other answers name, without extra calls.
Expiry depends only on block heights. Times in seconds (the age of a plan, polls, resends, waits)
are a number of slots times this length, with a margin that each user of it states.
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
# Seconds over which a slot's length is measured. Nodes behind one address are tens of slots apart,
# which must be a small part of this time. A change of the cluster's pace is followed within it.
OVER_S: Final = 60.0
LEAST_OVER_S: Final = 10.0
# The minimum seconds between two recorded slots.
_APART_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Blockhash:
    """A recent blockhash and the last block height at which it is valid.

    Attributes:
        context_slot: the slot of the node that returned the blockhash.
        others_slots: the slots of the other nodes that answered then.
    """

    blockhash: str
    last_valid_block_height: int
    context_slot: int
    others_slots: tuple[int, ...] = ()

    @property
    def earliest_landing_slot(self) -> int:
        """The first slot in which bytes signed now can land: the lower median of all nodes' slots.

        Of two slots, the lower is used. Of more, no single node can make this later than an honest
        node's, which would hide a landing, or so early that no history reaches back to it.
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
        err: the error in the RPC's JSON shape; None if the transaction would succeed.
        accounts: each requested address's state afterwards; None if the account would not exist.
        inner_instructions: the RPC's JSON; None if the node returned none.
        loaded_bytes: bytes of all loaded accounts; None if the node does not say.
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
        signature: the fee payer's signature, base58.
        err: the error in the RPC's JSON shape, None if it succeeded.
        memo: all its memos, each as `[bytes] text`; None if the node returns none.
        confirmation: the reached commitment; None if the node does not say.
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
    """Return whether an answer to `getAgGenesisCert` is Alpenglow's certificate and not null."""
    return isinstance(answer, dict) and bool(answer)


def refuses_confirmed(error: LedgerRejected) -> bool:
    """Return whether a node's error means that it no longer knows the word `confirmed`."""
    return error.code == _INVALID and CONFIRMED in str(error)


def with_commitment(params: Sequence[Any], word: str) -> tuple[Any, ...]:
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


def sampled_slot_s(samples: Any) -> float | None:
    """Return the unbounded seconds that a slot takes, from an answer to
    `getRecentPerformanceSamples`; None if the answer does not say."""
    slots = seconds = 0
    for each in samples if isinstance(samples, list) else ():
        counted, took = _whole_number(each, "numSlots"), _whole_number(each, "samplePeriodSecs")
        if counted and took:
            slots, seconds = slots + counted, seconds + took
    return seconds / slots if slots else None


def _whole_number(sample: Any, name: str) -> int:
    found = sample.get(name) if isinstance(sample, Mapping) else None
    return found if type(found) is int and 0 < found < 2**32 else 0


def newest_slot(method: str, answer: Any) -> int | None:
    """Return the newest slot that a node names in an answer; None if the answer names no slot."""
    found = answer
    if method != "getSlot":
        found = answer.get("context", answer) if isinstance(answer, Mapping) else {}
        found = found.get("slot", found.get("absoluteSlot")) if isinstance(found, Mapping) else None
    return found if type(found) is int and 0 <= found <= U64_MAX else None


def median_s(times: Iterable[SlotTime]) -> float:
    """Return the seconds that a slot takes: the lower median over all nodes."""
    measured = [each.measured_s for each in times if each.measured_s is not None]
    return median_low(measured) if measured else UNMEASURED_SLOT_MS / 1000


class SlotTime:
    """The length of a slot, measured from one node's answers.

    Args:
        clock: monotonic seconds.

    Attributes:
        measured_s: seconds that a slot takes, within bounds; None until known.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.measured_s: float | None = None
        # (time, slot) of each time when a slot was the newest slot; oldest first.
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, samples: Any) -> None:
        """Set the slot time from a node's performance samples of its last minutes."""
        said = sampled_slot_s(samples)
        if said is not None:
            self.measured_s = bounded_s(said)

    def note_slot(self, slot: int) -> None:
        """Record a slot that a node has just named as its newest slot."""
        now, seen = self._clock(), self._seen
        while seen and now - seen[0][0] > OVER_S and (len(seen) < 2 or now - seen[1][0] > OVER_S):
            seen.popleft()
        if seen and (now - seen[-1][0] < _APART_S or slot <= seen[-1][1]):
            # This node is behind. If the newer slot was a lie, that slot is dropped with age.
            return
        seen.append((now, slot))
        began, first = seen[0]
        if now - began >= LEAST_OVER_S:
            self.measured_s = bounded_s((now - began) / (slot - first))
