"""The process that calls the vendors: `python -m solward_plugins.llm.llm_process_main`.

It reads requests from standard input, answers on standard output, and ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO

from solward import ProviderError
from solward_plugins.llm import call
from solward_plugins.llm.frames import Frame, Kind, pack, read

Send = Callable[[Frame], None]


async def serve(source: IO[bytes], send: Send) -> None:
    """Answer each request in its own task, until the source ends."""
    loop = asyncio.get_running_loop()
    tasks: dict[int, asyncio.Task[None]] = {}
    ended = asyncio.Event()

    def handle(frame: Frame) -> None:
        if frame.kind is Kind.CANCEL:
            if frame.number in tasks:
                tasks[frame.number].cancel()
            return
        task = tasks[frame.number] = loop.create_task(answer(frame, send))
        task.add_done_callback(lambda _: tasks.pop(frame.number))

    def listen() -> None:
        # In a thread, so that reading continues while the loop is busy.
        while (frame := read(source)) is not None:
            loop.call_soon_threadsafe(handle, frame)
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, name="requests", daemon=True).start()
    await ended.wait()


async def answer(frame: Frame, send: Send) -> None:
    """Answer one request, errors included; a cancelled one sends nothing more."""
    number = frame.number
    try:
        if frame.kind is Kind.STREAM:
            async with contextlib.aclosing(call.stream(*frame.value)) as pieces:
                async for piece in pieces:
                    send(Frame(number, Kind.PIECE, piece))
        else:
            ask = call.price if frame.kind is Kind.PRICE else call.complete
            send(Frame(number, Kind.PIECE, await ask(*frame.value)))
        send(Frame(number, Kind.END))
    except ProviderError as error:
        send(Frame(number, Kind.FAILED, (str(error), error.retryable, error.may_cost)))
    except Exception as error:
        # Only its type: the text may quote the request, with key and prompt.
        send(Frame(number, Kind.BUG, type(error).__name__))


def main() -> None:
    """Run until standard input ends."""
    # Ctrl-C is for the service: it lets running cycles end before it closes this input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    # Libraries may print, which must not mix with the answers.
    os.dup2(2, 1)

    def send(frame: Frame) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(pack(frame))

    asyncio.run(serve(sys.stdin.buffer, send))
    # Not sys.exit: threads of libraries would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
