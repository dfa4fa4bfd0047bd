"""Vendors' calls in a process of their own.

A call through litellm with all skills as tools takes ten milliseconds of processor time and more
(`benchmarks/fleet.py`): a hundred of them would hold up a server, and every answer of it, for
seconds, in its loop or in another thread. In another process they take another processor, and the
service is spared the import (2 s, 170 MB).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from solward import Completion, CompletionRequest, ProviderContext, ProviderError, Usage
from solward_plugins.llm.frames import Frame, Kind, packed, read
from solward_plugins.llm.library import ENVIRONMENT
from solward_plugins.llm.vendor import Vendor

_STOP_S = 2.0

_lock = threading.Lock()
_current: Worker | None = None


async def complete(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
) -> Completion:
    """As `call.complete`."""
    pieces = _asked(Kind.COMPLETE, vendor, request, options, context)
    async with contextlib.aclosing(pieces):
        completion: Completion = await anext(pieces)
    return completion


async def stream(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
) -> AsyncIterator[str | Usage]:
    """As `call.stream`."""
    pieces = _asked(Kind.STREAM, vendor, request, options, context)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            yield piece


async def _asked(
    kind: Kind,
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
) -> AsyncGenerator[Any, None]:
    # What only providers that are no language models read is not worth sending.
    request = replace(request, observation={})
    worker = await asyncio.to_thread(running) if _current is None else running()
    number, answers = worker.ask(kind, (vendor, request, dict(options), context))
    ended = False
    try:
        while not ended:
            frame = await answers.get()
            ended = kind is Kind.COMPLETE or frame.kind is not Kind.PIECE
            if frame.kind is Kind.PIECE:
                yield frame.value
            elif frame.kind is Kind.FAILED:
                text, retryable = frame.value
                raise ProviderError(text, retryable=retryable)
            elif frame.kind is Kind.BUG:
                raise RuntimeError(f"{frame.value} in the process that calls {vendor.company}")
            elif frame.kind is Kind.GONE:
                raise ProviderError(
                    f"The process that calls {vendor.company} ended; try again", retryable=True
                )
    finally:
        worker.forget(number, cancel=not ended)


def running() -> Worker:
    """The process, started where there is none or where it ended."""
    global _current
    with _lock:
        if _current is None or _current.gone:
            _current = Worker()
        return _current


class Worker:
    """The process as this side sees it; any event loop of this process may use it.

    Attributes:
        gone: it ended, by itself or killed; what was asked of it has been told so.
    """

    def __init__(self) -> None:
        self.gone = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "solward_plugins.llm.llm_process_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
        )
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Frame]]] = {}
        # One thread, so that requests are written whole and never by the event loop: a pipe may
        # be full for as long as the process is busy.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="vendors-write")
        threading.Thread(target=self._listen, name="vendors-read", daemon=True).start()
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, kind: Kind, work: tuple[Any, ...]) -> tuple[int, asyncio.Queue[Frame]]:
        """Send a request; its answers come into the queue, on the running loop."""
        number, answers = next(self._numbers), asyncio.Queue[Frame]()
        self._asked[number] = (asyncio.get_running_loop(), answers)
        self._send(Frame(number, kind, work))
        if self.gone:
            answers.put_nowait(Frame(number, Kind.GONE))
        return number, answers

    def forget(self, number: int, *, cancel: bool) -> None:
        """Take no more answers; with `cancel`, let the process stop working on them."""
        self._asked.pop(number, None)
        if cancel:
            self._send(Frame(number, Kind.CANCEL))

    def close(self) -> None:
        """End the process: it ends with its input, or is killed."""
        atexit.unregister(self.close)
        self._writer.shutdown(cancel_futures=True)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, frame: Frame) -> None:
        def write() -> None:
            assert self._process.stdin is not None
            # Where the pipe is broken, the listening thread says so.
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(packed(frame))
                self._process.stdin.flush()

        with contextlib.suppress(RuntimeError):
            self._writer.submit(write)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while (frame := read(self._process.stdout)) is not None:
                self._tell(frame)
        self.gone = True
        for number in list(self._asked):
            self._tell(Frame(number, Kind.GONE))

    def _tell(self, frame: Frame) -> None:
        found = self._asked.get(frame.number)
        if found is not None:
            loop, answers = found
            # A loop that was closed has nobody waiting.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(answers.put_nowait, frame)
