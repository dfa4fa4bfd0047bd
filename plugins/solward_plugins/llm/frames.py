"""Messages between the service and the process that calls the vendors: length, then a pickle.

Both ends are this program, of one user, over a pipe nobody else has: a pickle is safe there, and
keeps Decimals and dataclasses as they are.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Any

_LENGTH = struct.Struct("!I")


class Kind(StrEnum):
    """What a message is."""

    COMPLETE = "complete"
    """To the process: answer whole."""
    STREAM = "stream"
    """To the process: answer in pieces."""
    CANCEL = "cancel"
    """To the process: nobody waits any more."""
    PIECE = "piece"
    """From it: a piece of an answer, or the whole."""
    END = "end"
    """From it: there is no more."""
    FAILED = "failed"
    """From it: a `ProviderError`, as its text and whether it is retryable."""
    BUG = "bug"
    """From it: another error, as the name of its type."""
    GONE = "gone"
    """The process ended; made up on this side."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message; `number` is the request it belongs to."""

    number: int
    kind: Kind
    value: Any = None


def packed(frame: Frame) -> bytes:
    """A message as bytes."""
    data = pickle.dumps((frame.number, frame.kind.value, frame.value))
    return _LENGTH.pack(len(data)) + data


def read(source: IO[bytes]) -> Frame | None:
    """The next message, waited for; None at the end, also in the middle of one."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = source.read(size)
    if len(data) < size:
        return None
    number, kind, value = pickle.loads(data)  # noqa: S301 - only ourselves can write here
    return Frame(number, Kind(kind), value)
