"""The frames of a channel and their limits: a 4-byte big-endian length, then msgpack.

Calls are numbered upwards from 1 by who opens them. In `Piece`, `Credit` and `End` the number of a
call that the frame's sender opened is positive, and that of one that its receiver opened negative.
Every `Call` is answered by exactly one `Result`, `Failed` or `End`, even after a `Cancel`: until
then it takes one of its opener's places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta


@dataclass(frozen=True, slots=True)
class Limits:
    """What one end of a channel may send.

    Attributes:
        frame: most bytes of a frame.
        calls: most calls that it has open at a time.
        open_bytes: most bytes of the requests of these calls together.
        frames_per_s: most frames that are read in a second, of which a call is five and each
            4 KiB one more; the rest waits in the socket.
    """

    frame: int
    calls: int
    open_bytes: int
    frames_per_s: int


FROM_HOST: Final = Limits(256 << 10, 256, 4 << 20, 10_000)
TO_HOST: Final = Limits(8 << 20, 4_096, 64 << 20, 1_000_000)

CREDIT: Final = 32
"""Pieces of one stream that may be on their way, or wait to be taken."""
PIECE: Final = 64 << 10
"""Most bytes of a body in one piece. A larger answer is sent in pieces, one answer at a time."""
PIECE_FRAME: Final = PIECE + 4096
"""Most bytes of a piece with its names."""

MAX_TEXT: Final = 2_000
MAX_FIELDS: Final = 16
MAX_NUMBER: Final = (1 << 63) - 1

Number = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Signed = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Short = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class HostileFrame(Exception):
    """What came is nothing that the other end of a channel says; the channel has ended."""


class ChannelClosed(ConnectionError):
    """The channel ended before the call did; whether the call was carried out is not known.

    Attributes:
        reason: why it ended; None where this end closed it.
    """

    reason: BaseException | None = None


class Frame(msgspec.Struct, array_like=True, forbid_unknown_fields=True, tag=True):
    """Base of the frames, each an array that begins with its name."""


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
    """The answer; empty bytes where the pieces before it are the answer."""

    id: Number
    body: msgspec.Raw


class Failed(Frame, tag="failed"):
    """The call raised an error, by its code; `data` are its attributes, or nil."""

    id: Number
    code: Short
    text: Text
    data: msgspec.Raw


class Piece(Frame, tag="piece"):
    """One piece of a stream, or of an answer that is larger than `PIECE`."""

    id: Signed
    body: msgspec.Raw


class Credit(Frame, tag="credit"):
    """The receiver took so many pieces, so that as many more may come."""

    id: Signed
    count: Annotated[int, Meta(ge=1, le=CREDIT)]


class End(Frame, tag="end"):
    """The stream has no more pieces."""

    id: Signed


class Cancel(Frame, tag="cancel"):
    """The opener waits no longer."""

    id: Number


class Log(Frame, tag="log"):
    """A line for the log."""

    level: Short
    event: Text
    fields: Annotated[dict[Short, Text], Meta(max_length=MAX_FIELDS)]


AnyFrame = Call | Result | Failed | Piece | Credit | End | Cancel | Log

# What msgspec raises of bytes that it cannot read as the type: too deep, not UTF-8, too large.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, ValueError, OverflowError)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)


def write(frame: AnyFrame, buffer: bytearray) -> int:
    """Append the frame with its length to the buffer; the number of bytes appended."""
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
    """Read a frame without its length.

    Raises:
        HostileFrame: it is none.
    """
    try:
        return _DECODER.decode(payload)
    except UNREADABLE as error:
        raise HostileFrame(f"not a frame: {type(error).__name__}") from None
