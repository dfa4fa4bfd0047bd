"""Bounds of what plugin hosts send and are answered, and of how fast answers are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from solward.types.errors import SkillError
from solward.types.manifest import Site


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of requests.

    Attributes:
        request_bytes, response_bytes: of a body as it is sent, so compressed where it is.
        header_bytes: of all headers of one message together.
        requests: of one running call, refused ones too.
        refused: requests of one running call at which its host is ended.
        at_once: of one tenant; more wait.
        total_s: of one request, its answer included.
        connect_s: until there is a connection.
        head_bytes: as they come until an answer's head is there, so of all heads before it (1xx).
        chunks_a_second: of all answers of one tenant that are read at full speed; more wait.
        encoded: whether answers may be compressed, to bytes that nobody here counts. One that has a
            secret's site may not in any case.
    """

    request_bytes: int = 8 << 20
    response_bytes: int = 32 << 20
    header_bytes: int = 32 << 10
    requests: int = 60
    refused: int = 1_000
    at_once: int = 16
    total_s: float = 600.0
    connect_s: float = 15.0
    head_bytes: int = 64 << 10
    chunks_a_second: int = 2_000
    encoded: bool = True


LIMITS: Final = Limits()


def request_too_large(most: int) -> SkillError:
    return SkillError("too_large", f"The request's body is more than {most} bytes")


def answer_too_large(site: Site, limits: Limits) -> SkillError:
    return SkillError(
        "too_large", f"The answer of {site} is more than {limits.response_bytes} bytes"
    )


class ReadPace:
    """How fast one tenant's answers are read: each chunk costs the service's loop some time,
    however small it is.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._paid_until = 0.0

    async def spend(self, chunks: int) -> None:
        """Count chunks; wait where they came faster than the rate for more than a second."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now - 1.0) + chunks / self._rate
        if self._paid_until > now:
            await asyncio.sleep(self._paid_until - now)


@dataclass(slots=True)
class AnswerReading:
    """The answer that is being read, as its bytes come from the connection.

    Attributes:
        is_whole: whether all of it came, so that its connection may serve another request.
        abort: closes its connection at once; None before there is one.
    """

    site: Site
    limits: Limits
    pace: ReadPace
    received: int = 0
    last: int = 0
    has_head: bool = False
    is_whole: bool = False
    abort: Callable[[], object] | None = None

    def hang_up(self) -> None:
        """Close the connection of an answer that nobody reads to its end. httpcore does so as well,
        but not where it is cancelled while it does."""
        if not self.is_whole and self.abort is not None:
            self.abort()

    async def before(self, max_bytes: int) -> int:
        """Wait until more may be read; how much that is.

        Raises:
            SkillError: `too_large`.
        """
        limits = self.limits
        # Chunks' own lengths and extensions are bytes too.
        if self.received > limits.response_bytes * 5 // 4 + limits.head_bytes:
            raise answer_too_large(self.site, limits)
        if self.has_head:
            return max_bytes
        if self.received >= limits.head_bytes:
            raise SkillError(
                "too_large",
                f"{self.site} sent more than {limits.head_bytes} bytes before its answer began",
            )
        if self.received:
            # Most heads are in the first read. What comes after may be many that announce another,
            # and the parser stops at none of them.
            await self.pace.spend(1 + self.last // _SMALLEST_HEAD)
            await asyncio.sleep(0)
        return min(max_bytes, _HEAD_READ)


_HEAD_READ: Final = 4096
_SMALLEST_HEAD: Final = 32
current_reading: Final[ContextVar[AnswerReading | None]] = ContextVar(
    "egress_reading", default=None
)
"""The answer that the running task reads; its connection counts bytes there."""
