"""What a hostile end of a channel sends: nothing of it runs, and it costs bounded memory and time.

The other end is a plain socket, or a thread that writes to one.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import random
import re
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.promises import promise
from tests.support.examples import examples

from solward.hosts.wire import methods as m
from solward.hosts.wire.channel import Channel, IncomingCall
from solward.hosts.wire.frames import (
    CREDIT,
    FROM_HOST,
    PIECE,
    TO_HOST,
    ChannelClosed,
    HostileFrame,
)
from solward.hosts.wire.methods import METHODS
from solward.types.ledger import Account

ADDRESS = "11111111111111111111111111111111"
AT = {"address": ADDRESS}
LEDGER_BALANCE = next(each for each in m.LEDGER if each.name == "ledger.balance")
REQUEST = m.HttpRequest("POST", "https://example.org/")
# What a receiver may take for whatever comes, and how long others of its loop may wait.
MAX_GROWTH = 64 << 20
MAX_WAIT_S = 0.1

pack = msgspec.msgpack.encode


@pytest.fixture(scope="module", autouse=True)
def small_collections() -> Iterator[None]:
    """What the whole test run holds is not searched for garbage while others wait."""
    gc.freeze()
    yield
    gc.unfreeze()


def framed(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def frame(*parts: Any) -> bytes:
    return framed(pack(parts))


def array(count: int) -> bytes:
    """The header of an array that claims so many items."""
    return b"\xdd" + struct.pack(">I", count)


def call(number: int, method: str = "ledger.balance", body: Any = None, cap: Any = None) -> bytes:
    return frame("call", number, method, cap, None, {"address": ADDRESS} if body is None else body)


CALL = 1
"""The number of the open call of the attacked service, of its stream and of one not read."""
STREAM = 2
IDLE = 3


class Attacked:
    """The service's end with a call and a stream open, whose other end the test writes to."""

    def __init__(self, channel: Channel, peer: socket.socket) -> None:
        self.channel = channel
        self.peer = peer
        self.pieces: list[m.HttpHead | bytes] = []
        self.served = 0
        self.call = asyncio.create_task(channel.call(LEDGER_BALANCE, AT))
        self.stream = asyncio.create_task(self._stream())
        self.idle = channel.stream(m.HTTP_REQUEST, REQUEST)
        self.first = asyncio.create_task(anext(self.idle))

    async def _stream(self) -> None:
        async with aclosing(self.channel.stream(m.HTTP_REQUEST, REQUEST)) as pieces:
            async for piece in pieces:
                self.pieces.append(piece)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.peer, data)

    async def ended(self) -> BaseException | None:
        async with asyncio.timeout(50):
            return await self.channel.closed


@asynccontextmanager
async def attacked(**options: Any) -> AsyncIterator[Attacked]:
    here, there = socket.socketpair()
    there.setblocking(False)
    blocked = asyncio.Event()

    async def handler(_incoming: IncomingCall) -> int:
        made.served += 1
        await blocked.wait()
        return 1

    async def upload(incoming: IncomingCall) -> AsyncIterator[bytes]:
        made.served += 1
        await blocked.wait()
        yield b""

    async def account(_incoming: IncomingCall) -> Account:
        made.served += 1
        return Account(1, ADDRESS, bytes(1 << 20))

    async def slot(_incoming: IncomingCall) -> int:
        return 1

    handlers = {
        "ledger.balance": handler,
        "ledger.slot": slot,
        "ledger.account": account,
        "op.perform": handler,
        "http.request": upload,
        **options,
    }
    channel = Channel(here, handlers, receive_limit=FROM_HOST, on_log=lambda _line: None)
    made = Attacked(channel, there)
    # The test begins when the calls have been sent.
    await asyncio.get_running_loop().sock_recv(there, 1 << 16)
    try:
        yield made
    finally:
        await channel.close()
        there.close()
        await asyncio.gather(made.call, made.stream, made.first, return_exceptions=True)
        await made.idle.aclose()


def resident() -> tuple[int, int]:
    """Resident bytes of this process: now, and the most since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    now, most = (
        int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
        for name in ("VmRSS", "VmHWM")
    )
    return now, most


@contextmanager
def bounded(most: int = MAX_GROWTH) -> Iterator[None]:
    """At no time is more memory resident than before, but for `most` bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    before, _ = resident()
    yield
    assert resident()[1] - before < most


@asynccontextmanager
async def others_served() -> AsyncIterator[list[float]]:
    """Calls on another channel of the same loop are answered all the while.

    Counted is the processor time of the loop's thread in each, whatever else the machine does; a
    collection of all that the suite holds is no part of it.
    """
    gc.freeze()
    here, there = socket.socketpair()
    service = Channel(here, {}, receive_limit=FROM_HOST)
    host = Channel(there, {}, receive_limit=TO_HOST)
    took: list[float] = []

    async def ping() -> None:
        while True:
            begun = time.thread_time()
            await service.call(m.PING)
            took.append(time.thread_time() - begun)
            await asyncio.sleep(0.001)

    task = asyncio.create_task(ping())
    try:
        yield took
        # An attack may be over before the first is answered.
        while not took and not task.done():
            await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await service.close()
        await host.close()
        gc.unfreeze()
    assert max(took) < MAX_WAIT_S


class Canary:
    """Unpickled, it makes a file."""

    path = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.path),))


EMPTY_ARRAYS = array(200_000) + b"\x90" * 200_000
HOSTILE: dict[str, Callable[[], bytes]] = {
    "pickle": lambda: framed(pickle.dumps(Canary())),
    "pickle as a body": lambda: call(1, body=pickle.dumps(Canary())),
    "nothing": lambda: framed(b""),
    "not msgpack": lambda: framed(b"\xc1" * 10),
    "trailing bytes": lambda: framed(pack(("end", -STREAM)) + b"\x00"),
    "a map": lambda: framed(pack({"type": "end", "id": -STREAM})),
    "unknown tag": lambda: frame("exec", 1, "id"),
    "a tag that is no text": lambda: frame(7, 1),
    "an extension type": lambda: framed(b"\x93" + pack("end") + b"\xd4\x01\x00\x00"),
    "one field more": lambda: frame("end", -STREAM, 1),
    "one field less": lambda: frame("end"),
    "text that is not UTF-8": lambda: framed(
        b"\x95" + pack("log") + b"\xa2\xff\xfe" + pack("a") + b"\x80"
    ),
    "a length of 4 GiB": lambda: b"\xff\xff\xff\xff",
    "a length of one too much": lambda: struct.pack(">I", FROM_HOST.frame + 1),
    "8 MB of empty arrays": lambda: framed(array(8_000_000) + b"\x90" * 8_000_000),
    "a frame of empty arrays": lambda: framed(EMPTY_ARRAYS),
    "4e9 items": lambda: framed(array(4_000_000_000)),
    "a body of 4e9 items": lambda: framed(
        pack(("call", 1, "ledger.accounts", None, None))[:0]
        + b"\x96"
        + b"".join(map(pack, ("call", 1, "ledger.accounts", None, None)))
        + b"\x81"
        + pack("addresses")
        + array(4_000_000_000)
    ),
    "a text of 4 GB": lambda: framed(b"\x92" + pack("end") + b"\xdb\xff\xff\xff\xff"),
    "100,000 nested arrays": lambda: framed(b"\x91" * 100_000 + b"\xc0"),
    "100,000 nested arrays in a body": lambda: framed(
        b"\x96"
        + b"".join(map(pack, ("call", 1, "ledger.balance", None, None)))
        + b"\x91" * 100_000
        + b"\xc0"
    ),
    "100,000 nested maps in a log": lambda: framed(
        b"\x94" + pack("log") + pack("a") + pack("b") + b"\x81\xa1a" * 80_000 + b"\xc0"
    ),
    "a log with many fields": lambda: frame("log", "a", "b", {str(at): "" for at in range(100)}),
    "a result of no call": lambda: frame("result", 99, 1),
    "a result twice": lambda: frame("result", CALL, 1) * 2,
    "a result after an error": lambda: (
        frame("failed", CALL, "bug", "X", None) + frame("result", CALL, 1)
    ),
    "a result of a stream": lambda: frame("result", STREAM, 1),
    "a result of another type": lambda: frame("result", CALL, {"account": None}),
    "a result below 0": lambda: frame("result", CALL, -1),
    "a result that is true": lambda: frame("result", CALL, True),
    "an error of no call": lambda: frame("failed", 99, "bug", "X", None),
    "an error with an unknown code": lambda: frame("failed", CALL, "Exit", "x", None),
    "an error that is not in the tree": lambda: frame("failed", CALL, "PluginError", "x", None),
    "an error without its record": lambda: frame("failed", CALL, "GuardrailBlocked", "x", None),
    "an error with attributes of nobody": lambda: frame("failed", CALL, "bug", "x", {"exec": "id"}),
    "a long error": lambda: frame("failed", CALL, "bug", "x" * 3_000, None),
    "an end of no stream": lambda: frame("end", -99),
    "an end of a call": lambda: frame("end", -CALL),
    "an end twice": lambda: frame("end", -STREAM) * 2,
    "a piece after the end": lambda: frame("end", -STREAM) + frame("piece", -STREAM, b""),
    "a piece of no stream": lambda: frame("piece", -99, b""),
    "a piece of another struct": lambda: frame("piece", -STREAM, {"text": "x"}),
    "a piece that is too large": lambda: frame("piece", -STREAM, bytes(PIECE + 5_000)),
    "pieces beyond credit": lambda: frame("piece", -IDLE, b"") * (CREDIT + 2),
    "a piece of an answer that is not bytes": lambda: frame("piece", -CALL, 1),
    "an answer in pieces without end": lambda: frame("piece", -CALL, bytes(PIECE)) * 100,
    "empty pieces without end": lambda: frame("piece", -CALL, b"") * 100,
    "an upload to no call": lambda: frame("piece", 99, b""),
    "an upload to a call without": lambda: call(1) + frame("piece", 1, b""),
    "an upload beyond credit": lambda: (
        call(1, "http.request", {"method": "GET", "url": ""})
        + frame("piece", 1, b"") * (CREDIT + 1)
    ),
    "an upload after its end": lambda: (
        call(1, "http.request", {"method": "GET", "url": ""})
        + frame("end", 1)
        + frame("piece", 1, b"")
    ),
    "credit for no stream": lambda: frame("credit", 99, 1),
    "credit for a call": lambda: frame("credit", -CALL, 1),
    "credit that was not used": lambda: (
        call(1, "http.request", {"method": "GET", "url": ""}) + frame("credit", 1, 1)
    ),
    "no credit": lambda: frame("credit", -STREAM, 0),
    "a cancellation of no call": lambda: frame("cancel", 99),
    "cancellations of an ended call": lambda: (
        call(1, "ledger.slot", {}) + frame("cancel", 1) * 1_000
    ),
    "an unknown method": lambda: call(1, "os.system", {"command": "id"}),
    "a method of the service": lambda: call(1, "skill.execute", {}),
    "a call's number twice": lambda: call(1) * 2,
    "a call's number that is lower": lambda: call(2) + call(1),
    "a call's number below 1": lambda: call(0),
    "a call's number beyond 64 bits": lambda: framed(
        b"\x96" + pack("call") + b"\xcf" + b"\xff" * 8 + pack("ledger.slot") + b"\xc0\xc0\x80"
    ),
    "a long capability": lambda: call(1, cap=bytes(65)),
    "a capability that is text": lambda: call(1, cap="x"),
    "a field more in a body": lambda: call(1, body={"address": ADDRESS, "wallet": "other"}),
    "a field less in a body": lambda: call(1, body={}),
    "a body that is an array": lambda: call(1, body=[ADDRESS]),
    "a body of another type": lambda: call(1, body={"address": 5}),
    "a body that is too long": lambda: call(1, body={"address": "x" * 1_000}),
    "a deadline below 1": lambda: frame("call", 1, "ledger.slot", None, 0, {}),
    "257 calls": lambda: b"".join(map(call, range(1, 258))),
    "a flood of calls": lambda: b"".join(map(call, range(1, 20_000))),
    "requests of more than 4 MiB": lambda: b"".join(
        call(
            at, "op.perform", {"asked": {"operation": "x", "params": "y" * 64_000}, "remember": ()}
        )
        for at in range(1, 81)
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_it_ends_the_channel_and_its_calls(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "ran"
    monkeypatch.setattr(Canary, "path", str(canary))
    data = HOSTILE[name]()
    with bounded():
        async with others_served(), attacked() as target:
            sending = asyncio.create_task(target.send(data))
            assert isinstance(await target.ended(), HostileFrame)
            await asyncio.gather(sending, return_exceptions=True)
            await asyncio.wait({target.call, target.stream})
            # One of them may have been answered first.
            errors = [target.call.exception(), target.stream.exception()]
            assert any(isinstance(error, ChannelClosed) for error in errors)
            with pytest.raises(ChannelClosed):
                await target.channel.call(LEDGER_BALANCE, AT)
    assert not canary.exists()


def test_the_canary_sings() -> None:
    """Unpickling it is seen."""
    Canary.path = "/nowhere/at/all"
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(Canary()))


@pytest.mark.parametrize("name", sorted(METHODS))
async def test_arrays_in_place_of_any_body_cost_little(name: str) -> None:
    body = msgspec.Raw(EMPTY_ARRAYS)

    async def never(_incoming: IncomingCall) -> Any:
        raise AssertionError("it was run")

    async def pieces(_incoming: IncomingCall) -> AsyncIterator[Any]:
        raise AssertionError("it was run")
        yield

    handler: Any = pieces if METHODS[name].streams else never
    data = frame("call", 1, name, None, None, body)
    with bounded(16 << 20):
        async with others_served(), attacked(**{name: handler}) as target:
            await target.send(data)
            assert isinstance(await target.ended(), HostileFrame)


def mutated(source: random.Random, seeds: list[bytes]) -> bytes:
    """A frame with some bytes changed, cut out, put in or repeated, or random bytes."""
    kind = source.randrange(6)
    if kind == 0:
        return framed(source.randbytes(source.randrange(1, 200)))
    payload = bytearray(source.choice(seeds))
    for _ in range(source.randrange(1, 5)):
        at = source.randrange(len(payload))
        if kind == 1:
            payload[at] = source.randrange(256)
        elif kind == 2 and len(payload) > 1:
            del payload[at]
        elif kind == 3:
            payload[at:at] = source.randbytes(3)
        elif kind == 4:
            payload[at:at] = source.choice(
                [array(2**32 - 1), b"\xdf\xff\xff\xff\xff", b"\x91" * 99]
            )
        else:
            payload += payload[at:]
    return framed(bytes(payload))


@pytest.mark.property
async def test_thousands_of_mutated_frames_end_it_or_are_read_as_what_they_say() -> None:
    loop = asyncio.get_running_loop()
    unexpected: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: unexpected.append(context))
    source = random.Random(16)
    seeds = [
        pack(each)
        for each in (
            ("call", 1, "ledger.balance", b"c", 1_000, {"address": ADDRESS}),
            ("call", 1, "http.request", None, None, {"method": "GET", "url": "https://a.b/"}),
            ("result", CALL, 5),
            ("failed", CALL, "SkillError", "x", {"code": "y"}),
            ("failed", CALL, "LedgerRejected", "x", {"code": 1, "data": "{}"}),
            ("piece", -STREAM, bytes(64)),
            ("credit", -STREAM, 1),
            ("end", -STREAM),
            ("cancel", 1),
            ("log", "info", "event", {"a": "b"}),
        )
    ]
    ends: dict[str, int] = {}
    with bounded():
        async with others_served():
            for _ in range(examples(2_000)):
                async with attacked() as target:
                    await target.send(mutated(source, seeds))
                    target.peer.shutdown(socket.SHUT_WR)
                    name = type(await target.ended()).__name__
                    ends[name] = ends.get(name, 0) + 1
    assert unexpected == []
    assert set(ends) == {"HostileFrame", "ConnectionResetError"}
    assert ends["HostileFrame"] > examples(1_000)


@pytest.mark.parametrize("at", [1, 3, 4, 5, 12])
async def test_a_truncated_frame_fails_the_calls_and_a_slow_one_does_not(at: int) -> None:
    data = frame("result", CALL, 5)
    async with attacked() as target:
        for byte in data[:at]:
            await target.send(bytes([byte]))
        assert not target.call.done()
        target.peer.close()
        assert isinstance(await target.ended(), ConnectionResetError)
        with pytest.raises(ChannelClosed):
            await target.call
    async with attacked() as target:
        for byte in data:
            await target.send(bytes([byte]))
        assert await target.call == 5


async def test_a_capability_is_what_its_own_frame_says() -> None:
    """The number of another call, a piece or a result lend none."""
    seen: list[bytes | None] = []

    async def slot(incoming: IncomingCall) -> int:
        seen.append(incoming.cap)
        return 1

    async with attacked(**{"ledger.slot": slot}) as target:
        await target.send(call(1, "ledger.slot", {}, b"a"))
        await target.send(call(2, "ledger.slot", {}))
        await target.send(call(3, "ledger.slot", {}, b"b"))
        while len(seen) < 3:
            await asyncio.sleep(0)
        assert seen == [b"a", None, b"b"]


def flood(peer: socket.socket, data: bytes, stop: threading.Event) -> None:
    """Write the data again and again, as fast as the other end reads."""
    with open(os.dup(peer.fileno()), "wb", buffering=0) as file:
        os.set_blocking(file.fileno(), True)
        while not stop.is_set():
            try:
                file.write(data)
            except OSError:
                return


FLOODS = {
    "logs": frame("log", "error", "x" * 2_000, {str(at): "y" * 500 for at in range(16)}) * 10,
    "small logs": frame("log", "e", "x", {}) * 1_000,
    "the smallest logs": frame("log", "", "", {}) * 5_000,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "logs" else pytest.mark.more) for name in FLOODS],
)
async def test_a_flood_of_what_is_allowed_is_read_slowly(name: str) -> None:
    stop = threading.Event()
    with bounded():
        async with others_served() as took, attacked() as target:
            thread = threading.Thread(target=flood, args=(target.peer, FLOODS[name], stop))
            thread.start()
            begun, cpu = time.perf_counter(), time.thread_time()
            while time.perf_counter() - begun < 1.1:
                await asyncio.sleep(0.01)
            used = (time.thread_time() - cpu) / (time.perf_counter() - begun)
            assert not target.channel.closed.done()
            stop.set()
            await target.channel.close()
            thread.join(10)
    assert used < 0.7
    assert sorted(took)[len(took) // 2] < 0.02


@pytest.mark.parametrize(("size", "count"), [(1, 250), (2_000, 50)], ids=["small", "large"])
async def test_so_many_frames_are_read_in_a_second_and_the_rest_waits(
    size: int, count: int
) -> None:
    here, there = socket.socketpair()
    there.setblocking(False)
    read: list[float] = []
    channel = Channel(
        here,
        {},
        receive_limit=replace(FROM_HOST, frames_per_s=100),
        on_log=lambda _line: read.append(time.perf_counter()),
    )
    line = frame("log", "info", "x", {str(at): "y" * size for at in range(8)})
    async with asyncio.timeout(30), others_served():
        begun = time.perf_counter()
        sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(there, line * count))
        while len(read) < count:
            await asyncio.sleep(0.01)
        await sending
    assert read[-1] - begun > 0.9
    await channel.close()
    there.close()


@promise("hosts-yield-to-service")
async def test_few_calls_begin_in_one_turn_of_the_loop() -> None:
    """A plugin that asks for all it may at once keeps nobody waiting for all of it."""
    async with attacked() as target:
        before, most = target.served, 0
        await target.send(b"".join(map(call, range(10, 210))))
        while target.served < 200:
            await asyncio.sleep(0)
            before, most = target.served, max(most, target.served - before)
    assert most <= 8


async def test_who_calls_and_does_not_read_holds_little_of_ours() -> None:
    with bounded():
        async with others_served(), attacked() as target:
            for at in range(1, 200):
                await target.send(call(at, "ledger.account"))
            while target.served < 4:
                await asyncio.sleep(0)
            for _ in range(200):
                await asyncio.sleep(0.001)
            assert target.served < 10
            assert not target.channel.closed.done()


@pytest.mark.more
async def test_who_never_reads_is_cut_off() -> None:
    """Cancelled calls end at once; their answers wait, and their places are taken."""

    async def calls(target: Attacked) -> None:
        for at in range(1, 10_000_000, 100):
            cancelled = (call(n) + frame("cancel", n) for n in range(at, at + 100))
            await target.send(b"".join(cancelled))

    with bounded():
        async with others_served(), attacked() as target:
            sending = asyncio.create_task(calls(target))
            assert isinstance(await target.ended(), HostileFrame)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
