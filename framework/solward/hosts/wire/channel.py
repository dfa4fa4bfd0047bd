"""One end of the socket between the service and a plugin host; both ends call each other.

The other end is not trusted: a frame that is not valid, or that nobody asked for, ends the channel
with `HostileFrame`. All that is held for it is limited: requests by `Limits`, pieces by credit, one
large answer at a time, and output by `_HIGH`.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from solward.hosts.wire import failures
from solward.hosts.wire.frames import (
    CREDIT,
    FROM_HOST,
    MAX_FIELDS,
    MAX_TEXT,
    PIECE,
    PIECE_FRAME,
    TO_HOST,
    AnyFrame,
    Call,
    Cancel,
    ChannelClosed,
    Credit,
    End,
    Failure,
    HostileFrame,
    Limits,
    Log,
    Piece,
    Result,
    read,
    write,
)
from solward.hosts.wire.methods import METHODS, PING, Method
from solward.hosts.wire.values import Codec, Unreadable
from solward.types.errors import InvalidRequest, SkillError

# Bytes of output above which writers wait.
_HIGH: Final = 256 << 10
_LOW: Final = 64 << 10
# Answers and credits never wait. This many bytes of them mean that the other end does not read.
_UNREAD: Final = 4 << 20
_RECV: Final = 128 << 10
# Frames that are read in one turn of the loop, counted as for `frames_per_s`: 32 whole calls would
# keep a payment waiting for 5 ms each time.
_FRAMES_AT_ONCE: Final = 32
_CREDIT_STEP: Final = CREDIT // 2
# Bytes of a frame's fields other than its body.
_FRAME_HEAD: Final = 256
_CLOSING_S: Final = 2.0
_DEADLINE_S: Final = 0.25
# A call counts as this many frames more, and so many bytes count as a frame.
_CALL_FRAMES: Final = 4
_BYTES_A_FRAME: Final = 4096

_CHUNKS: Final = msgspec.msgpack.Decoder(bytes)
_CHUNK_ENCODER: Final = msgspec.msgpack.Encoder()
_NOTHING: Final = msgspec.Raw(msgspec.msgpack.encode(b""))


class BadAnswer(Exception):
    """A handler of this end gave an answer that does not fit its method, or is too large."""


class IncomingCall:
    """A received call, in the form for its handler.

    Attributes:
        method: name of the method.
        raw: the request as it travelled, checked; JSON in it is still text.
        cap: the capability that it names, unchecked.
        channel: the end at which it came in.
    """

    def __init__(self, channel: Channel, serving: _ServedCall, raw: Any, cap: bytes | None):
        self.channel = channel
        self.method = serving.method.name
        self.raw = raw
        self.cap = cap
        self._serving = serving

    @cached_property
    def request(self) -> Any:
        """The arguments by name, or the method's only request; converted at the first access.

        Raises:
            InvalidRequest, Unreadable: if a value in it is not valid.
        """
        return self._serving.method.requests.convert(self.raw)

    async def uploads(self) -> AsyncIterator[Any]:
        """Yield the pieces that the caller sends after the request, as they come. Read it once."""
        serving = self._serving
        while True:
            piece = await serving.inbox.next_piece()
            if piece is None:
                return
            assert serving.method.uploads is not None
            yield serving.method.uploads.convert(piece)
            if not serving.answered:
                self.channel._count_consumed(-serving.id, serving.inbox)


Handler = Callable[[IncomingCall], Coroutine[Any, Any, Any] | AsyncGenerator[Any, None]]


@dataclass(slots=True, eq=False)
class _Inbox:
    """Received pieces that were not consumed yet, and the sender's remaining credit."""

    credit: int = CREDIT
    taken: int = 0
    ended: bool = False
    error: BaseException | None = None
    _items: deque[Any] = field(default_factory=deque)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, piece: Any) -> None:
        self._items.append(piece)
        self._changed.set()

    def end(self, error: BaseException | None = None) -> None:
        if not self.ended:
            self.ended, self.error = True, error
            self._changed.set()

    async def next_piece(self) -> Any:
        """Return the next piece; None after the last; raise the error that ended them."""
        while not self._items:
            if self.error is not None:
                raise self.error
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._items.popleft()


@dataclass(slots=True, eq=False)
class _Outbox:
    """The number of pieces of a stream that may be sent now."""

    credit: int = CREDIT
    closed: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, count: int) -> None:
        if self.credit + count > CREDIT:
            raise HostileFrame("more credit than pieces")
        self.credit += count
        self._changed.set()

    def close(self) -> None:
        self.closed = True
        self._changed.set()

    async def wait_for_credit(self) -> bool:
        """Wait for credit; return False if the other end accepts no more pieces."""
        while self.credit == 0 and not self.closed:
            self._changed.clear()
            await self._changed.wait()
        return not self.closed


@dataclass(slots=True, eq=False)
class _OutgoingCall:
    """A call that this end made and that is not answered yet."""

    method: Method
    body: bytes
    cap: bytes | None
    deadline_ms: int | None
    future: asyncio.Future[Any]
    size: int
    id: int = 0
    abandoned_at: float | None = None
    inbox: _Inbox | None = None
    outbox: _Outbox | None = None

    def end(self, result: Any, error: BaseException | None = None) -> None:
        if self.inbox is not None:
            self.inbox.end(error)
        elif not self.future.done():
            if error is None:
                self.future.set_result(result)
            else:
                self.future.set_exception(error)
        if self.outbox is not None:
            self.outbox.close()


@dataclass(slots=True, eq=False)
class _ServedCall:
    """A call of the other end that is not answered yet."""

    id: int
    method: Method
    size: int
    inbox: _Inbox = field(default_factory=_Inbox)
    outbox: _Outbox = field(default_factory=_Outbox)
    task: asyncio.Task[None] | None = None
    deadline: asyncio.TimerHandle | None = None
    started: bool = False
    cancelled: bool = False
    answered: bool = False
    in_pieces: bool = False


class Channel:
    """One end of a channel; it belongs to the running event loop.

    Args:
        sock: a connected stream socket, which the channel closes.
        handlers: async functions of an `IncomingCall`, or async generators for streams, by method.
        receive_limit: limits of the other end: `FROM_HOST` in the service, `TO_HOST` in a host.
            The limits of this end are the other of the two.
        on_log: called with each `Log`.
        on_bug: called with method and error if a handler raises anything but a `SolwardError`.
    """

    def __init__(
        self,
        sock: socket.socket,
        handlers: Mapping[str, Handler],
        *,
        receive_limit: Limits,
        on_log: Callable[[Log], object] | None = None,
        on_bug: Callable[[str, BaseException], object] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._handlers = {PING.name: _answer_ping, **handlers}
        self._receive = receive_limit
        self._limit = TO_HOST if receive_limit is FROM_HOST else FROM_HOST
        self._on_log = on_log
        self._on_bug = on_bug
        self._ended = False
        self._cause: BaseException | None = None
        self._closed: asyncio.Future[BaseException | None] = self._loop.create_future()
        # Calls that this end makes.
        self._next = 1
        self._opened: dict[int, _OutgoingCall] = {}
        self._open_bytes = 0
        self._queue: deque[_OutgoingCall] = deque()
        self._joining: tuple[int, bytearray] | None = None
        # Calls that the other end makes.
        self._last = 0
        self._serving: dict[int, _ServedCall] = {}
        self._serving_bytes = 0
        self._late = 0
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._sending_large = asyncio.Lock()
        # The socket.
        self._in = bytearray()
        self._out = bytearray()
        self._flushing = False
        self._writable = False
        self._has_room = asyncio.Event()
        self._reading = False
        self._window = 0.0
        self._window_frames = 0
        sock.setblocking(False)
        self._fd = sock.fileno()
        self._resume_reading()

    @property
    def closed(self) -> asyncio.Future[BaseException | None]:
        """A future that is done when the channel has ended: None after `close`, or the error."""
        return self._closed

    @property
    def unanswered_s(self) -> float:
        """Seconds since the oldest call that was cancelled or timed out and is not answered yet."""
        since = [each.abandoned_at for each in self._opened.values() if each.abandoned_at]
        return self._loop.time() - min(since) if since else 0.0

    async def call(
        self,
        method: Method,
        request: Any = MappingProxyType({}),
        *,
        cap: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Call the other end and return its answer; a cancellation does not wait for the other end.

        Args:
            request: the arguments by name.

        Raises:
            SolwardError: as the handler raised it.
            HostBug: if the handler raised anything else.
            InvalidRequest: if the request does not fit the method; nothing was sent.
            SkillError: `too_large`: the request or the answer.
            TimeoutError: if there is no answer within `timeout_s`; the handler is cancelled too.
            ChannelClosed: if the channel has ended.
            Unreadable: if a value in the answer is not valid; this ends the channel.
        """
        opened = self._open_call(method, method.requests.write(request), cap, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await opened.future
        finally:
            self._abandon_call(opened)
        return self._convert_answer(method, answer)

    async def stream(
        self,
        method: Method,
        request: Any,
        *,
        cap: bytes | None = None,
        uploads: AsyncIterator[Any] | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call the other end and yield its answer in pieces, of which it may send `CREDIT` ahead.

        Args:
            request: the arguments by name.
            uploads: pieces to send after the request, for a method that takes them.

        Raises:
            SolwardError: as `call`; errors of `uploads` are raised too.
        """
        opened = self._open_call(method, method.requests.write(request), cap, None)
        assert opened.inbox is not None
        uploading = None
        if opened.outbox is not None:
            uploading = self._loop.create_task(self._send_uploads(opened, uploads))
        try:
            while (piece := await opened.inbox.next_piece()) is not None:
                yield self._convert_answer(method, piece)
                self._count_consumed(opened.id, opened.inbox)
        finally:
            self._abandon_call(opened)
            if uploading is not None:
                uploading.cancel()

    def _convert_answer(self, method: Method, answer: Any) -> Any:
        try:
            return method.answers.convert(answer)
        except Unreadable as error:
            self.end(HostileFrame(str(error)))
            raise

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Add handlers to those passed to the constructor."""
        self._handlers.update(handlers)

    def log(self, level: str, event: str, fields: Mapping[str, str] | None = None) -> None:
        """Send a line, shortened, for the other end's log; drop it if nobody reads."""
        if self._ended or len(self._out) > _HIGH:
            return
        kept = list((fields or {}).items())[:MAX_FIELDS]
        self._send(
            Log(_cut(level, 64), _cut(event), {_cut(key, 64): _cut(each) for key, each in kept})
        )

    async def close(self) -> None:
        """End the channel: calls fail, and handlers are cancelled and get 2 s to end."""
        if not self._ended and self._out:
            self._flush()
        self.end(None)
        tasks = [each.task for each in self._serving.values() if each.task is not None]
        tasks = [task for task in tasks if task is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)

    def _open_call(
        self, method: Method, body: bytes, cap: bytes | None, timeout_s: float | None
    ) -> _OutgoingCall:
        if len(body) + _FRAME_HEAD > self._limit.frame:
            raise SkillError(
                "too_large",
                f"{method.name}: the request has {len(body)} bytes, more than the"
                f" maximum of {self._limit.frame - _FRAME_HEAD}",
            )
        if self._ended:
            raise self._closing_error()
        # Later than this end's own limit, so that the timeout is raised here.
        deadline_ms = None if timeout_s is None else round((timeout_s + _DEADLINE_S) * 1000)
        opened = _OutgoingCall(
            method, body, cap, deadline_ms, self._loop.create_future(), len(body)
        )
        if method.streams:
            opened.inbox = _Inbox()
        if method.uploads is not None:
            # No credit until the call itself is sent, which may have to wait.
            opened.outbox = _Outbox(credit=0)
        self._queue.append(opened)
        self._send_waiting_calls()
        return opened

    def _send_waiting_calls(self) -> None:
        """Send waiting calls in their order while there is room."""
        while self._queue and not self._ended:
            opened = self._queue[0]
            size = self._open_bytes + opened.size
            fits = not self._opened or (
                len(self._opened) < self._limit.calls and size <= self._limit.open_bytes
            )
            if not fits or len(self._out) > _HIGH:
                return
            self._queue.popleft()
            opened.id = self._next
            self._next += 1
            self._opened[opened.id] = opened
            self._open_bytes = size
            body, opened.body = msgspec.Raw(opened.body), b""
            self._send(Call(opened.id, opened.method.name, opened.cap, opened.deadline_ms, body))
            if opened.outbox is not None:
                opened.outbox.add(CREDIT)

    def _abandon_call(self, opened: _OutgoingCall) -> None:
        """Cancel a call for which nobody waits any more."""
        if opened.id == 0:
            if opened in self._queue:
                self._queue.remove(opened)
        elif opened.id in self._opened and not self._ended:
            opened.abandoned_at = self._loop.time()
            if opened.outbox is not None:
                opened.outbox.close()
            self._send(Cancel(opened.id))
        if opened.future.done() and not opened.future.cancelled():
            # Retrieved, so that asyncio does not log it.
            opened.future.exception()

    def _pop_opened(self, number: int) -> _OutgoingCall:
        opened = self._find_opened(number)
        del self._opened[number]
        self._open_bytes -= opened.size
        return opened

    def _find_opened(self, number: int) -> _OutgoingCall:
        opened = self._opened.get(number)
        if opened is None:
            raise HostileFrame("an answer to a call that is not open")
        return opened

    async def _send_uploads(self, opened: _OutgoingCall, pieces: AsyncIterator[Any] | None) -> None:
        uploads = opened.method.uploads
        assert opened.outbox is not None
        assert uploads is not None
        try:
            if not await opened.outbox.wait_for_credit():
                return
            if pieces is not None:
                async for piece in pieces:
                    body = _encode_within(uploads, piece, PIECE_FRAME - _FRAME_HEAD)
                    await self._wait_for_room()
                    if not await opened.outbox.wait_for_credit():
                        return
                    opened.outbox.credit -= 1
                    self._send(Piece(opened.id, body))
            if not opened.outbox.closed:
                self._send(End(opened.id))
        except Exception as error:
            opened.end(None, error)

    def _on_call(self, frame: Call) -> None:
        method = METHODS.get(frame.method)
        handler = self._handlers.get(frame.method)
        if method is None or handler is None:
            raise HostileFrame("a call of a method that is not served here")
        if frame.id <= self._last:
            raise HostileFrame("a call's number was used again")
        self._last = frame.id
        request = method.requests.read(frame.body)
        serving = _ServedCall(frame.id, method, len(frame.body))
        if self._serving and (
            len(self._serving) >= self._receive.calls
            or self._serving_bytes + serving.size > self._receive.open_bytes
        ):
            raise HostileFrame("more open calls than allowed")
        # Frames about it that may still come after its end: its cancellation and the end of its
        # upload. Pieces are counted as they are sent.
        self._late += 2
        if method.uploads is not None:
            self._late += CREDIT
        else:
            serving.inbox.credit = 0
            serving.inbox.end()
        self._serving[frame.id] = serving
        self._serving_bytes += serving.size
        incoming = IncomingCall(self, serving, request, frame.cap)
        serving.task = self._loop.create_task(self._serve(serving, handler, incoming))
        if frame.deadline_ms is not None:
            after = min(frame.deadline_ms / 1000, 86_400.0)
            serving.deadline = self._loop.call_later(after, self._cancel_served, serving)

    def _cancel_served(self, serving: _ServedCall) -> None:
        if not serving.cancelled and serving.task is not None:
            serving.cancelled = True
            serving.outbox.close()
            # A task that is cancelled before its first step never runs, so it would not answer.
            if serving.started and not serving.task.cancelling():
                serving.task.cancel()

    async def _serve(self, serving: _ServedCall, handler: Handler, incoming: IncomingCall) -> None:
        final: AnyFrame
        serving.started = True
        try:
            if serving.cancelled:
                raise asyncio.CancelledError
            final = await self._run_handler(serving, handler, incoming)
        except asyncio.CancelledError:
            final = Failure(serving.id, *failures.to_wire(asyncio.CancelledError()))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            final = Failure(serving.id, *failures.to_wire(error))
            if final.code == failures.BUG and self._on_bug is not None:
                self._on_bug(incoming.method, error)
        finally:
            serving.answered = True
            # A cancellation from now on has no effect.
            serving.cancelled = True
            if serving.deadline is not None:
                serving.deadline.cancel()
        try:
            if not serving.in_pieces:
                await self._wait_for_room()
        finally:
            del self._serving[serving.id]
            self._serving_bytes -= serving.size
        self._send(final)

    async def _run_handler(
        self, serving: _ServedCall, handler: Handler, incoming: IncomingCall
    ) -> Result | End:
        method = serving.method
        if method.streams:
            made = handler(incoming)
            assert isinstance(made, AsyncGenerator)
            async with aclosing(made) as pieces:
                async for piece in pieces:
                    body = _encode_within(method.answers, piece, PIECE_FRAME - _FRAME_HEAD)
                    await self._wait_for_room()
                    if not await serving.outbox.wait_for_credit():
                        break
                    serving.outbox.credit -= 1
                    # Its credit may come after the end of the stream.
                    self._late += 1
                    self._send(Piece(-serving.id, body))
            return End(-serving.id)
        if method.at_once is None:
            return await self._make_result(serving, handler(incoming))
        gate = self._gates.setdefault(method.name, asyncio.Semaphore(method.at_once))
        async with gate:
            return await self._make_result(serving, handler(incoming))

    async def _make_result(self, serving: _ServedCall, made: Any) -> Result:
        method = serving.method
        assert isinstance(made, Coroutine)
        body = _encode_within(method.answers, await made, method.largest)
        if len(body) <= PIECE:
            return Result(serving.id, body)
        # One at a time, because the receiver holds the pieces of only one answer.
        async with self._sending_large:
            view = memoryview(body)
            for start in range(0, len(body), PIECE):
                await self._wait_for_room()
                serving.in_pieces = True
                chunk = _CHUNK_ENCODER.encode(view[start : start + PIECE])
                self._send(Piece(-serving.id, msgspec.Raw(chunk)))
            # The end, or a failure, does not wait for room, so it is sent before another's pieces.
            return Result(serving.id, _NOTHING)

    def _on_frame(self, frame: AnyFrame, size: int) -> None:
        match frame:
            case Result():
                self._on_result(frame)
            case Call():
                self._on_call(frame)
            case Failure():
                self._find_opened(frame.id)
                self._pop_parts(frame.id)
                try:
                    error = failures.from_wire(frame.code, frame.text, frame.data)
                except Unreadable as problem:
                    raise HostileFrame(str(problem)) from None
                self._pop_opened(frame.id).end(None, error)
                self._send_waiting_calls()
            case Piece():
                if size > PIECE_FRAME:
                    raise HostileFrame("a piece is too large")
                self._on_piece(frame)
            case Credit():
                self._on_credit(frame)
            case End():
                self._on_end(frame)
            case Cancel():
                serving = self._find_served(frame.id)
                if serving is not None:
                    self._cancel_served(serving)
            case Log():
                if self._on_log is not None:
                    self._on_log(frame)

    def _on_result(self, frame: Result) -> None:
        opened = self._find_opened(frame.id)
        method = opened.method
        if method.streams:
            raise HostileFrame("an answer to a stream")
        parts = self._pop_parts(frame.id)
        if parts is None and len(frame.body) > PIECE_FRAME:
            raise HostileFrame("an answer is too large for one frame")
        answer = None
        if opened.abandoned_at is None:
            answer = method.answers.read(frame.body if parts is None else bytes(parts))
        self._pop_opened(frame.id)
        opened.end(answer)
        self._send_waiting_calls()

    def _pop_parts(self, number: int) -> bytearray | None:
        """Remove and return the pieces of this call's answer, or None."""
        if self._joining is None or self._joining[0] != number:
            return None
        parts, self._joining = self._joining[1], None
        return parts

    def _on_piece(self, frame: Piece) -> None:
        if frame.id > 0:
            serving = self._find_served(frame.id)
            if serving is None:
                return
            method = serving.method
            uploads = method.uploads
            if uploads is None or serving.inbox.ended or serving.inbox.credit == 0:
                raise HostileFrame("a piece beyond credit")
            serving.inbox.credit -= 1
            serving.inbox.put(uploads.read(frame.body))
            return
        opened = self._find_opened(-frame.id)
        if opened.inbox is None:
            self._add_part(opened, frame)
            return
        if opened.inbox.credit == 0:
            raise HostileFrame("a piece beyond credit")
        opened.inbox.credit -= 1
        if opened.abandoned_at is None:
            opened.inbox.put(opened.method.answers.read(frame.body))

    def _add_part(self, opened: _OutgoingCall, frame: Piece) -> None:
        try:
            chunk = _CHUNKS.decode(frame.body)
        except (msgspec.MsgspecError, RecursionError):
            raise HostileFrame("a piece of an answer is not bytes") from None
        if self._joining is None:
            self._joining = (opened.id, bytearray())
        number, parts = self._joining
        if number != opened.id or not chunk or len(parts) + len(chunk) > opened.method.largest:
            raise HostileFrame("pieces of a too large answer, or of two answers at once")
        parts += chunk

    def _on_credit(self, frame: Credit) -> None:
        if frame.id > 0:
            serving = self._find_served(frame.id)
            if serving is not None:
                serving.outbox.add(frame.count)
            return
        outbox = self._find_opened(-frame.id).outbox
        if outbox is None:
            raise HostileFrame("credit for a call without upload")
        outbox.add(frame.count)

    def _on_end(self, frame: End) -> None:
        if frame.id > 0:
            serving = self._find_served(frame.id)
            if serving is not None:
                if serving.inbox.ended:
                    raise HostileFrame("a second end of an upload")
                serving.inbox.end()
            return
        opened = self._find_opened(-frame.id)
        if opened.inbox is None:
            raise HostileFrame("an end for a call without stream")
        self._pop_opened(opened.id)
        opened.end(None)
        self._send_waiting_calls()

    def _find_served(self, number: int) -> _ServedCall | None:
        """Return a call of the other end; None if it ended, which the other end may not know."""
        serving = self._serving.get(number)
        if serving is None:
            self._late -= 1
            if not 0 < number <= self._last or self._late < 0:
                raise HostileFrame("a frame for a call that is not open")
        return serving

    def _count_consumed(self, number: int, inbox: _Inbox) -> None:
        """Count a piece as consumed, and send the sender new credit every `_CREDIT_STEP` pieces."""
        inbox.taken += 1
        if inbox.taken == _CREDIT_STEP and not inbox.ended and not self._ended:
            inbox.credit += inbox.taken
            self._send(Credit(number, inbox.taken))
            inbox.taken = 0

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_RECV)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.end(error)
            return
        if not data:
            self.end(ConnectionResetError("the other end has closed the channel"))
            return
        self._in += data
        self._parse_frames()

    def _parse_frames(self) -> None:
        if self._ended:
            return
        buffer, at, cost = self._in, 0, 0
        try:
            while len(buffer) - at >= 4 and cost < _FRAMES_AT_ONCE:
                size = int.from_bytes(buffer[at : at + 4], "big")
                if size > self._receive.frame:
                    raise HostileFrame(f"a frame of {size} bytes")
                if len(buffer) - at - 4 < size:
                    break
                with memoryview(buffer) as view:
                    payload = bytes(view[at + 4 : at + 4 + size])
                at += 4 + size
                frame = read(payload)
                cost += 1 + size // _BYTES_A_FRAME + _CALL_FRAMES * isinstance(frame, Call)
                self._on_frame(frame, size)
                if self._ended:
                    return
        except Exception as error:
            # Any error but a `HostileFrame` is a bug here, after which the input is unreliable.
            self.end(error)
            return
        del buffer[:at]
        now = self._loop.time()
        if now - self._window >= 1:
            self._window, self._window_frames = now, 0
        self._window_frames += cost
        # Other tasks of the loop run first, and the socket's data waits.
        if self._window_frames > self._receive.frames_per_s:
            self._pause_reading()
            self._loop.call_at(self._window + 1, self._continue_reading)
        elif cost >= _FRAMES_AT_ONCE:
            self._pause_reading()
            self._loop.call_soon(self._continue_reading)

    def _continue_reading(self) -> None:
        if not self._ended:
            self._resume_reading()
            self._parse_frames()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _send(self, frame: AnyFrame) -> None:
        if self._ended:
            return
        write(frame, self._out)
        if len(self._out) > self._limit.frame + _HIGH + _UNREAD:
            self.end(HostileFrame("the other end does not read"))
        elif not self._flushing:
            # Written at the end of this turn of the loop, so that frames share a system call.
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._ended:
            return
        try:
            with memoryview(self._out) as view:
                sent = self._sock.send(view)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self.end(error)
            return
        del self._out[:sent]
        if self._out and not self._writable:
            self._writable = True
            self._loop.add_writer(self._fd, self._flush)
        elif not self._out and self._writable:
            self._writable = False
            self._loop.remove_writer(self._fd)
        if len(self._out) <= _LOW:
            self._has_room.set()
            self._send_waiting_calls()

    async def _wait_for_room(self) -> None:
        while not self._ended and len(self._out) > _HIGH:
            self._has_room.clear()
            await self._has_room.wait()

    def end(self, error: BaseException | None) -> None:
        """End the channel at once for this reason; unread input is dropped."""
        if self._ended:
            return
        self._ended = True
        self._cause = error
        self._pause_reading()
        if self._writable:
            self._loop.remove_writer(self._fd)
        self._sock.close()
        self._in, self._out = bytearray(), bytearray()
        self._joining = None
        for opened in (*self._opened.values(), *self._queue):
            opened.end(None, self._closing_error())
        self._opened.clear()
        self._queue.clear()
        for serving in list(self._serving.values()):
            serving.inbox.end(self._closing_error())
            self._cancel_served(serving)
        self._has_room.set()
        if not self._closed.done():
            self._closed.set_result(error)

    def _closing_error(self) -> ChannelClosed:
        error = ChannelClosed("the channel to the other process has ended")
        error.reason = self._cause
        return error


def _encode_within(codec: Codec, value: Any, most: int) -> msgspec.Raw:
    try:
        body = codec.write(value)
    except InvalidRequest as error:
        raise BadAnswer(str(error)) from None
    if len(body) > most:
        raise BadAnswer(f"{len(body)} bytes are more than the maximum of {most}")
    return msgspec.Raw(body)


async def _answer_ping(_incoming: IncomingCall) -> None:
    return None


def _cut(text: str, most: int = MAX_TEXT) -> str:
    return text[:most].encode("utf-8", "replace").decode("utf-8")
