"""Messages between the service and the process that calls the vendors: length, then a pickle.

Pickles keep Decimals and dataclasses. They are no boundary: reading one can run code, so the
service trusts the vendor process, with litellm and its dependencies, as much as itself. No other
process has the pipe.
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
    """To the process: complete, in one answer."""
    STREAM = "stream"
    """To the process: complete, streamed."""
    PRICE = "price"
    """To the process: the price of a model."""
    CANCEL = "cancel"
    """To the process: the caller stopped waiting."""
    PIECE = "piece"
    """From it: a piece of an answer, or the whole."""
    END = "end"
    """From it: the answer is complete."""
    FAILED = "failed"
    """From it: a `ProviderError`, as its text, whether it is retryable and may cost."""
    BUG = "bug"
    """From it: another error, as the name of its type."""
    GONE = "gone"
    """The process ended; created by the service's side."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message; `number` is the request it belongs to."""

    number: int
    kind: Kind
    value: Any = None


def pack(frame: Frame) -> bytes:
    """A message as bytes."""
    data = pickle.dumps((frame.number, frame.kind.value, frame.value))
    return _LENGTH.pack(len(data)) + data


def read(source: IO[bytes]) -> Frame | None:
    """Wait for the next message; None at the end, also in the middle of one."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = source.read(size)
    if len(data) < size:
        return None
    number, kind, value = pickle.loads(data)  # noqa: S301 - from our own child process
    return Frame(number, Kind(kind), value)
