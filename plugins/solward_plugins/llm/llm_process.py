"""Vendors' calls in a process of their own.

A call through litellm with all skills as tools takes ten milliseconds of processor time and more
(`benchmarks/fleet.py`): a hundred of them would block a server for seconds, in its loop or in
another thread. Another process uses another processor, and spares the service the import (2 s,
170 MB).
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

from solward import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderError,
    Usage,
)
from solward_plugins.llm.frames import Frame, Kind, pack, read
from solward_plugins.llm.library import ENVIRONMENT
from solward_plugins.llm.vendor import DEFAULT_MAX_TOKENS, Vendor

_STOP_S = 2.0
# Variables of the service that its child gets, no other: the requests bring keys and addresses.
_PASSED = {"PATH", "LANG", "TZ", "SSL_CERT_DIR", "SSL_CERT_FILE"} | {
    f"{scheme}_PROXY" for scheme in ("ALL", "HTTPS", "HTTP", "NO")
}
_MOST_PRICES = 1_024

_lock = threading.Lock()
_current: VendorProcess | None = None
_prices: dict[tuple[str, str], ModelPrice | None] = {}


async def complete(
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
) -> Completion:
    """As `call.complete`."""
    pieces = _completing(Kind.COMPLETE, vendor, request, options, context)
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
    pieces = _completing(Kind.STREAM, vendor, request, options, context)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            yield piece


async def price(vendor: Vendor, model: str, options: Mapping[str, Any]) -> ModelPrice | None:
    """The dearest rates of a model, None where they are not known; asked once a process."""
    known = (vendor.name, model)
    if known not in _prices:
        pieces = _call(Kind.PRICE, vendor, (vendor, model))
        async with contextlib.aclosing(pieces):
            found = await anext(pieces)
        if len(_prices) >= _MOST_PRICES:
            _prices.clear()
        _prices[known] = found
    rates = _prices[known]
    most = int(options.get("maxTokens", DEFAULT_MAX_TOKENS))
    return None if rates is None else replace(rates, max_output_tokens=most)


def _completing(
    kind: Kind,
    vendor: Vendor,
    request: CompletionRequest,
    options: Mapping[str, Any],
    context: ProviderContext,
) -> AsyncGenerator[Any, None]:
    # Only providers that are no language models read the observation.
    return _call(kind, vendor, (vendor, replace(request, observation={}), dict(options), context))


async def _call(kind: Kind, vendor: Vendor, work: tuple[Any, ...]) -> AsyncGenerator[Any, None]:
    process = await asyncio.to_thread(vendor_process) if _current is None else vendor_process()
    number, answers = process.send(kind, work)
    ended = False
    try:
        while not ended:
            frame = await answers.get()
            ended = kind is not Kind.STREAM or frame.kind is not Kind.PIECE
            if frame.kind is Kind.PIECE:
                yield frame.value
            elif frame.kind is Kind.FAILED:
                text, retryable, may_cost = frame.value
                raise ProviderError(text, retryable=retryable, may_cost=may_cost)
            elif frame.kind is Kind.BUG:
                raise RuntimeError(f"{frame.value} in the process that calls {vendor.company}")
            elif frame.kind is Kind.GONE:
                text = f"The process that calls {vendor.company} ended; try again"
                raise ProviderError(text, retryable=True, may_cost=True)
    finally:
        process.forget(number, cancel=not ended)


def vendor_process() -> VendorProcess:
    """The process, started if there is none or it has ended."""
    global _current
    with _lock:
        if _current is None or _current.gone:
            _current = VendorProcess()
        return _current


class VendorProcess:
    """The process as seen from the service; any event loop of the service may use it.

    Attributes:
        gone: it ended, by itself or killed; its pending requests got `Kind.GONE`.
    """

    def __init__(self) -> None:
        self.gone = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "solward_plugins.llm.llm_process_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={n: v for n, v in os.environ.items() if n.upper() in _PASSED} | ENVIRONMENT,
        )
        self._numbers = itertools.count(1)
        self._pending: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Frame]]] = {}
        # One thread, so that requests are not interleaved; not the event loop, which a full pipe
        # would block while the process is busy.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="vendors-write")
        threading.Thread(target=self._listen, name="vendors-read", daemon=True).start()
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, kind: Kind, work: tuple[Any, ...]) -> tuple[int, asyncio.Queue[Frame]]:
        """Send a request; the queue gets its answers, on the running loop."""
        number, answers = next(self._numbers), asyncio.Queue[Frame]()
        self._pending[number] = (asyncio.get_running_loop(), answers)
        self._write(Frame(number, kind, work))
        if self.gone:
            answers.put_nowait(Frame(number, Kind.GONE))
        return number, answers

    def forget(self, number: int, *, cancel: bool) -> None:
        """Drop later answers; `cancel` also cancels the request in the process."""
        self._pending.pop(number, None)
        if cancel:
            self._write(Frame(number, Kind.CANCEL))

    def close(self) -> None:
        """Close the process's input, which ends it; kill it if that takes too long."""
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

    def _write(self, frame: Frame) -> None:
        def write() -> None:
            assert self._process.stdin is not None
            # The listening thread reports a broken pipe.
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(pack(frame))
                self._process.stdin.flush()

        with contextlib.suppress(RuntimeError):
            self._writer.submit(write)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while (frame := read(self._process.stdout)) is not None:
                self._deliver(frame)
        self.gone = True
        for number in list(self._pending):
            self._deliver(Frame(number, Kind.GONE))

    def _deliver(self, frame: Frame) -> None:
        found = self._pending.get(frame.number)
        if found is not None:
            loop, answers = found
            # On a closed loop nobody waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(answers.put_nowait, frame)
