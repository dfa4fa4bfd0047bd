"""Whether a plugin blocks the event loop, which all agents and requests share."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

# People notice 0.1 s; the rest is for machines that are busy with other work.
BLOCKED_S = 0.5
_BEAT_S = 0.02
_SAMPLE_S = 0.05


class Watchdog:
    """Inside the block, a thread samples the loop thread's stack while the loop does not run.

    Attributes:
        blocked_s: longest time without the loop in which every sample found the plugin's own code.
        where: its file and line.

    Args:
        is_call: whether code is that of the frame that calls the plugin; the frames below it are
            the plugin's, up to Solward's own modules.
    """

    def __init__(self, is_call: Callable[[CodeType], bool]) -> None:
        self.blocked_s = 0.0
        self.where = ""
        self._is_call = is_call
        self._beat = time.monotonic()
        self._ends = threading.Event()
        self._thread_id = threading.get_ident()
        self._thread = threading.Thread(target=self._sample, name="watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Watchdog:
        self._tick()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> tuple[float, str]:
        """What it has seen until now, which then counts no more."""
        seen = self.blocked_s, self.where
        self.blocked_s, self.where = 0.0, ""
        return seen

    def _tick(self) -> None:
        self._beat = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._tick)

    def _sample(self) -> None:
        beat, since = self._beat, 0.0
        while not self._ends.wait(_SAMPLE_S):
            now, place = time.monotonic(), self._place()
            if self._beat != beat or not place:
                # Counted from the first sample of the plugin's code, not from the last beat.
                beat, since = self._beat, 0.0
            if place:
                since = since or now
                if now - since > self.blocked_s:
                    self.blocked_s, self.where = now - since, place

    def _place(self) -> str:
        """File and line of the plugin's running code; empty while other code runs."""
        frame = sys._current_frames().get(self._thread_id)
        place = ""
        while frame is not None:
            if self._is_call(frame.f_code):
                return place
            if _module(frame).startswith("solward."):
                return ""
            place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
