"""Whether a plugin holds up the event loop, on which every agent and every answer waits."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

# A person notices a tenth of a second; a machine that is busy with other work needs some of it.
HELD_UP_S = 0.5
_BEAT_S = 0.02
_LOOK_S = 0.05


class Watchdog:
    """While entered, a thread looks at what the loop's thread does whenever the loop stands still.

    Attributes:
        held_up_s: longest standstill in which every look found the plugin's own code at work.
        where: file and line it was at.

    Args:
        is_call: tells the frame that calls the plugin; what it called in turn is the plugin's,
            up to Solward's own modules.
    """

    def __init__(self, is_call: Callable[[CodeType], bool]) -> None:
        self.held_up_s = 0.0
        self.where = ""
        self._is_call = is_call
        self._beat = time.monotonic()
        self._ends = threading.Event()
        self._thread_id = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
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

    def _tick(self) -> None:
        self._beat = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._tick)

    def _look(self) -> None:
        beat, since = self._beat, 0.0
        while not self._ends.wait(_LOOK_S):
            now, place = time.monotonic(), self._place()
            if self._beat != beat or not place:
                # Counted from the first look that finds the plugin, not from the last beat.
                beat, since = self._beat, 0.0
            if place:
                since = since or now
                if now - since > self.held_up_s:
                    self.held_up_s, self.where = now - since, place

    def _place(self) -> str:
        """Where the plugin's own code is at work; empty when Solward's or nobody's is."""
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
