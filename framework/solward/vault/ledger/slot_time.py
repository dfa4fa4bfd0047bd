"""How long a slot of the cluster takes: the one place that knows.

It is measured by the slots that answers name anyway, so that no call is made for it; what a node
says of its last minutes (`getRecentPerformanceSamples`) is the first measure. Expiry is a matter of
block heights alone; what is planned in seconds (the age of a plan, polls, resends, waits) is a
number of slots times this, with a margin that its user names.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from statistics import median_low
from typing import Any, Final

from solward.solana.protocol import LEAST_SLOT_MS, MOST_SLOT_MS, UNMEASURED_SLOT_MS
from solward.types.money import U64_MAX

# Over how long it is measured: nodes behind one address are tens of slots apart, which shall be a
# small part of it; and a cluster that changes its pace is followed within as long.
OVER_S: Final = 60.0
LEAST_OVER_S: Final = 10.0
# Between the slots that are kept.
_APART_S: Final = 1.0


def bounded_s(slot_s: float) -> float:
    """A slot time in seconds, within the bounds of `solward.solana.protocol`."""
    return min(max(slot_s, LEAST_SLOT_MS / 1000), MOST_SLOT_MS / 1000)


def sampled_s(samples: Any) -> float | None:
    """Seconds a slot by an answer to `getRecentPerformanceSamples`, unbounded; None where it says
    none."""
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
    """The slot that an answer calls the newest one of its node; None where it names none."""
    found = answer
    if method != "getSlot":
        found = answer.get("context", answer) if isinstance(answer, Mapping) else {}
        found = found.get("slot", found.get("absoluteSlot")) if isinstance(found, Mapping) else None
    return found if type(found) is int and 0 <= found <= U64_MAX else None


def together_s(times: Iterable[SlotTime]) -> float:
    """Seconds that a slot takes by all nodes: no node's word where most say otherwise."""
    measured = [each.measured_s for each in times if each.measured_s is not None]
    return median_low(measured) if measured else UNMEASURED_SLOT_MS / 1000


class SlotTime:
    """The measure by one node.

    Attributes:
        measured_s: seconds that a slot takes, within bounds; None until it is known.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Args:
        clock: monotonic seconds.
        """
        self._clock = clock
        self.measured_s: float | None = None
        # When a slot was the newest one, the oldest first.
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
            # Of a node that is behind another one; the last word of one that lied is old some day.
            return
        seen.append((now, slot))
        began, first = seen[0]
        if now - began >= LEAST_OVER_S:
            self.measured_s = bounded_s((now - began) / (slot - first))
