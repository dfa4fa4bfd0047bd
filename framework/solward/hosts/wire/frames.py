"""The frames of a channel and their limits: a 4-byte big-endian length, then msgpack.

Each end numbers the calls that it opens from 1 upwards. In `Piece`, `Credit` and `End`, a positive
number is a call that the sender of the frame opened, a negative one a call that its receiver
opened. Every `Call` is answered by exactly one `Result`, `Failure` or `End`, even after a `Cancel`;
until then it counts against the limits of its opener.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of what one end of a channel may send.

    Attributes:
        frame: bytes of a frame.
        calls: calls that are open at a time.
        open_bytes: bytes of the requests of these calls together.
        frames_per_s: frames that are read in a second, where a call counts as five and each 4 KiB
            as one more; the rest waits in the socket.
    """

    frame: int
    calls: int
    open_bytes: int
    frames_per_s: int


FROM_HOST: Final = Limits(256 << 10, 256, 4 << 20, 10_000)
TO_HOST: Final = Limits(8 << 20, 4_096, 64 << 20, 1_000_000)

CREDIT: Final = 32
"""Maximum number of pieces of one stream that were sent and are not consumed yet."""
PIECE: Final = 64 << 10
"""Maximum bytes of a body in one piece. A larger answer is sent in pieces, one answer at a time."""
PIECE_FRAME: Final = PIECE + 4096
"""Maximum bytes of a frame that carries a piece."""

MAX_TEXT: Final = 2_000
MAX_FIELDS: Final = 16
MAX_NUMBER: Final = (1 << 63) - 1

Number = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Signed = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Short = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class HostileFrame(Exception):
    """The other end sent bytes that correct code never sends; the channel has ended."""


class ChannelClosed(ConnectionError):
    """The channel ended before the call was answered; the call may have run or not.

    Attributes:
        reason: the error that ended it; None if this end closed it.
    """

    reason: BaseException | None = None


class Frame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=True):
    """Base of the frames, each an array that begins with its tag."""


class Call(Frame, tag="call"):
    """Open a call.

    Attributes:
        cap: the capability of the running call on whose behalf it is made.
        deadline_ms: milliseconds after which its handler is cancelled.
    """

    id: Number
    method: Short
    cap: Annotated[bytes, Meta(max_length=64)] | None
    deadline_ms: Number | None
    body: msgspec.Raw


class Result(Frame, tag="result"):
    """The answer to a call; empty bytes if the answer was already sent in pieces."""

    id: Number
    body: msgspec.Raw


class Failure(Frame, tag="failed"):
    """An error that the call raised, by its code; `data` are its attributes, or nil."""

    id: Number
    code: Short
    text: Text
    data: msgspec.Raw


class Piece(Frame, tag="piece"):
    """One piece of a stream, or of an answer that is larger than `PIECE`."""

    id: Signed
    body: msgspec.Raw


class Credit(Frame, tag="credit"):
    """The receiver consumed this many pieces, so the sender may send as many more."""

    id: Signed
    count: Annotated[int, Meta(ge=1, le=CREDIT)]


class End(Frame, tag="end"):
    """The stream has no more pieces."""

    id: Signed


class Cancel(Frame, tag="cancel"):
    """The end that made the call no longer waits for its answer."""

    id: Number


class Log(Frame, tag="log"):
    """A line for the log."""

    level: Short
    event: Text
    fields: Annotated[dict[Short, Text], Meta(max_length=MAX_FIELDS)]


AnyFrame = Call | Result | Failure | Piece | Credit | End | Cancel | Log

# Errors of msgspec for bytes that are not of the type, too deep, not UTF-8 or too large.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)


def write(frame: AnyFrame, buffer: bytearray) -> int:
    """Append the frame with its length to the buffer, and return the number of bytes appended."""
    start = len(buffer)
    buffer += b"\0\0\0\0"
    try:
        _ENCODER.encode_into(frame, buffer, -1)
    except BaseException:
        del buffer[start:]
        raise
    size = len(buffer) - start
    buffer[start : start + 4] = (size - 4).to_bytes(4, "big")
    return size


def read(payload: bytes) -> AnyFrame:
    """Return the frame in a payload without its length.

    Raises:
        HostileFrame: if it is not a frame.
    """
    try:
        return _DECODER.decode(payload)
    except UNREADABLE as error:
        raise HostileFrame(f"not a frame: {type(error).__name__}") from None
