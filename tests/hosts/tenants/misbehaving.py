"""A tenant of tests: its skills are what a hostile or broken plugin may do."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from solward.hosts.inside.main import Setup
from solward.hosts.wire.channel import Handler, IncomingCall

_kept: list[Any] = []


def serve(setup: Setup) -> Mapping[str, Handler]:
    """`skill.execute` does what the skill's name says."""
    if setup.options.get("start") == "fails":
        raise ValueError("no such thing")
    if setup.options.get("start") == "hangs":
        time.sleep(float(setup.options.get("seconds", "60")))

    async def execute(incoming: IncomingCall) -> str:
        asked = incoming.request
        done = _SKILLS[asked["name"]](asked["params"], setup)
        if asyncio.iscoroutine(done):
            done = await done
        return json.dumps(done)

    async def stream(incoming: IncomingCall) -> AsyncGenerator[str, None]:
        for number in range(3):
            yield str(number)
        if incoming.request["name"] == "ends":
            os._exit(3)

    return {"skill.execute": execute, "provider.stream": stream}


def _skill(function: Callable[[dict[str, Any], Setup], Any]) -> Callable[..., Any]:
    _SKILLS[function.__name__] = function
    return function


_SKILLS: dict[str, Callable[[dict[str, Any], Setup], Any]] = {}


@_skill
def tell(params: dict[str, Any], setup: Setup) -> dict[str, Any]:
    """What this process is and has."""
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "environment": dict(os.environ),
        "path": sys.path,
        "modules": sorted(sys.modules),
        "descriptors": sorted(_open_descriptors()),
        "loop": type(asyncio.get_running_loop()).__module__,
        "threads": threading.active_count(),
        "asked": params,
    }


def _open_descriptors() -> list[int]:
    found = []
    for descriptor in range(64):
        try:
            os.fstat(descriptor)
        except OSError:
            continue
        found.append(descriptor)
    return found


@_skill
def leave(params: dict[str, Any], setup: Setup) -> None:
    """End this process."""
    os._exit(params.get("status", 7))


@_skill
def fault(params: dict[str, Any], setup: Setup) -> None:
    """Read where nothing is: SIGSEGV."""
    ctypes.string_at(0)


@_skill
def spin(params: dict[str, Any], setup: Setup) -> None:
    """Never give the event loop back."""
    while True:
        pass


@_skill
async def wait(params: dict[str, Any], setup: Setup) -> str:
    """Wait as a well-behaved plugin, and keep a note of being told to stop."""
    _kept.append("started")
    try:
        await asyncio.sleep(params.get("seconds", 60))
    except asyncio.CancelledError:
        _kept.append("cancelled")
        raise
    return "waited"


@_skill
def notes(params: dict[str, Any], setup: Setup) -> list[Any]:
    """What `wait` noted."""
    return _kept


@_skill
async def ignore(params: dict[str, Any], setup: Setup) -> None:
    """Go on when told to stop."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@_skill
def bomb(params: dict[str, Any], setup: Setup) -> None:
    """All the memory there is."""
    while True:
        _kept.append(bytearray(16 << 20))


@_skill
async def grow(params: dict[str, Any], setup: Setup) -> None:
    """So much memory, kept while others may run."""
    _kept.append(bytearray(params["bytes"]))
    await asyncio.sleep(60)


@_skill
def talk(params: dict[str, Any], setup: Setup) -> None:
    """Print, to standard output, standard error, their descriptors, and a logger."""
    for line in range(params["lines"]):
        print(f"line {line} {params['text']}")
    print(params["text"], file=sys.stderr)
    os.write(1, b"straight to the descriptor\n")
    os.write(2, b"straight to the descriptor\n")


@_skill
def endless_line(params: dict[str, Any], setup: Setup) -> None:
    """Print without an end of line."""
    for _ in range(1000):
        sys.stdout.write("x" * 100_000)


@_skill
def raw_frames(params: dict[str, Any], setup: Setup) -> None:
    """Write bytes into the channel, past its code."""
    with socket.socket(fileno=os.dup(_channel())) as sock:
        sock.setblocking(True)
        for _ in range(params.get("times", 1)):
            sock.sendall(bytes.fromhex(params["hex"]))


@_skill
def close_channel(params: dict[str, Any], setup: Setup) -> None:
    """Close the channel and go on in secret."""
    os.close(_channel())
    while True:
        time.sleep(1)


@_skill
def burn_on(params: dict[str, Any], setup: Setup) -> str:
    """Return, and leave a thread behind that burns a processor."""
    threading.Thread(target=spin, args=({}, setup), daemon=True).start()
    return "returned"


@_skill
def multiply(params: dict[str, Any], setup: Setup) -> str:
    """Start threads that stay."""
    for _ in range(params["threads"]):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return "multiplied"


@_skill
def store(params: dict[str, Any], setup: Setup) -> str:
    """Write files into the scratch folder."""
    assert setup.scratch is not None
    for number in range(params["files"]):
        with open(os.path.join(setup.scratch, str(number)), "wb") as file:
            file.write(b"x" * params["bytes"])
    return "stored"


@_skill
def read(params: dict[str, Any], setup: Setup) -> str:
    """Read a file."""
    try:
        with open(params["path"]) as file:
            return file.read(100)
    except OSError as error:
        return type(error).__name__


@_skill
def bring(params: dict[str, Any], setup: Setup) -> str:
    """Import a module and say where it stands."""
    import importlib

    try:
        return str(importlib.import_module(params["module"]).__file__)
    except ImportError as error:
        return type(error).__name__


def _channel() -> int:
    # A loop has descriptors of its own; the channel is the one stream socket.
    for descriptor in _open_descriptors():
        try:
            with socket.socket(fileno=os.dup(descriptor)) as sock:
                if sock.type == socket.SOCK_STREAM and not sock.get_inheritable():
                    sock.getpeername()
                    names = {sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4]}
                    if int.from_bytes(next(iter(names)), sys.byteorder) != os.getpid():
                        return descriptor
        except OSError:
            continue
    raise AssertionError("no channel")
