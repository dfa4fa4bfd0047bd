"""Transports of JSON-RPC calls to a cluster: over HTTP, or directly to the embedded localnet.

Calls that are made at the same moment are sent in one JSON-RPC batch, if the node accepts batches.

A single call costs this process, and a node on this machine, more than computing most answers. So
the reads of a transfer are sent together, as are polls and sends of concurrent transfers.
"""

from __future__ import annotations

import asyncio
import contextvars
import ipaddress
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

import httpx
import msgspec

from solward.support.tasks import end
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger.answers import (
    MOST_ANSWER_BYTES,
    ONCE,
    ForeignResponse,
    LongAnswer,
    NoAnswer,
    busy,
    is_refusal,
    json_error,
    no_answer,
    parsed,
    request,
    result,
)
from solward.vault.ledger.connections import FAILURES, Answer, Connections

# The origin of a ledger in our own process; no host can have this name.
IN_PROCESS: Final = "this process"
# The number of hosts that must agree before money is released; see `is_enough`.
WITNESSES: Final = 2
# Longer than a loaded public node needs for an answer.
REQUEST_TIMEOUT_S = 15.0
# The maximum number of connections to one node; further calls wait.
CONNECTIONS = 32
# A connection that was idle for longer is closed.
_IDLE_S = 15.0
# Compression is refused: the size of a decompressed answer would need a bound of its own.
_HEADERS = [(b"Content-Type", b"application/json"), (b"Accept-Encoding", b"identity")]

# Methods that every node answers quickly, and that may be called twice.
TOGETHER: Final = frozenset(
    {
        "getAccountInfo",
        "getBalance",
        "getBlockHeight",
        "getEpochInfo",
        "getLatestBlockhash",
        "getMultipleAccounts",
        "getSignatureStatuses",
        "getSlot",
        "getTokenAccountsByOwner",
        "simulateTransaction",
    }
)
# Sends are batched with sends: the same bytes land once, however often a node gets them.
SEND: Final = "sendTransaction"
# Some providers accept at most 10 calls in a batch; Agave accepts a body of 50 KiB.
MOST_CALLS: Final = 10
MOST_BYTES: Final = 40 * 1024
# The maximum bytes of a batch's answer: other calls do not wait for one call's longer answer.
MOST_ANSWERS_BYTES: Final = 4 * 1024 * 1024
# How long calls are sent singly after a node did not answer a batch as one; doubles each time.
ALONE_S: Final = 60.0
MOST_ALONE_S: Final = 3600.0

# Ids of requests, unique in this process and hard to guess, so that no response is mistaken for the
# response to another request.
_NUMBERS: Final = itertools.count(secrets.randbelow(2**40) + 1)

Post = Callable[[bytes, int], Awaitable[Answer]]


class Transport(Protocol):
    """A way to make JSON-RPC calls."""

    @property
    def origin(self) -> str:
        """The origin of the transport's answers: the node's host, or `IN_PROCESS`."""

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """Return the `result`; raises `LedgerRejected` for an error, else `LedgerUnavailable`."""

    async def close(self) -> None:
        """Release connections."""


@runtime_checkable
class ManyNodes(Protocol):
    """A transport over several nodes."""

    def origins(self) -> frozenset[str]:
        """Return the origins of all nodes, including resting nodes."""

    def nodes(self) -> Sequence[Transport]:
        """Return a transport for each usable node, the preferred first; they never switch nodes."""


@runtime_checkable
class ChangeCounter(Protocol):
    """A transport to a ledger of which this process sees every change."""

    @property
    def changes(self) -> int:
        """The number of changes to the ledger so far."""


def is_enough(origins: Collection[str]) -> bool:
    """Return whether agreement of these hosts releases money: two hosts, or this process.

    Every release of money depends on this check. One node's word is enough to count money as spent.
    To count it as unspent (the transaction is dead, failed, or took less than was reserved) frees
    budget that can be spent again, so no single node, under one name or two, may decide it.
    """
    return IN_PROCESS in origins or len(set(origins)) >= WITNESSES


def host_of(url: str) -> str:
    """Return a URL's host in one spelling; any name of this machine becomes `localhost`."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "localhost" if host.endswith(".localhost") else host
    address = getattr(address, "ipv4_mapped", None) or address
    return "localhost" if address.is_loopback else str(address)


class HttpTransport:
    """A cluster behind a URL. The URL may hold a provider's key, so no error shows it.

    Calls that are made at the same moment are sent in one batch (`Batches`).

    Args:
        retries: number of retries of a request that was cut off; each sends the same bytes.
        together: whether calls may be sent in batches.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        retries: int = 1,
        together: bool = True,
    ) -> None:
        self.origin = host_of(url)
        self._connections = Connections(httpx.URL(url), _HEADERS, idle_s=_IDLE_S)
        self._timeout_s = timeout_s
        self._retries = retries
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._together = TOGETHER | {SEND} if together else frozenset()
        self._batches = Batches(self._post)
        # Sends are batched only with sends, so that none waits for another call's simulation.
        self._sends = Batches(self._post)

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`; raises `NodeBusy` if the node says that it will answer later."""
        encoded = msgspec.json.encode(params)
        if method in self._together:
            batches = self._sends if method == SEND else self._batches
            return await batches.call(method, encoded)
        post = partial(self._post, retries=0) if method in ONCE else self._post
        return await _call_alone(post, method, encoded)

    async def close(self) -> None:
        """Close every connection."""
        await self._batches.close()
        await self._sends.close()
        await self._connections.close()

    async def _post(
        self, body: bytes, most: int = MOST_ANSWER_BYTES, retries: int | None = None
    ) -> Answer:
        """Post a body; raises `NoAnswer`, or `LongAnswer` if the answer exceeds `most` bytes."""
        retries = self._retries if retries is None else retries
        while True:
            try:
                # This timeout bounds the whole exchange; single reads have no timeout.
                async with asyncio.timeout(self._timeout_s), self._turns:
                    return await self._connections.post(body, most)
            except FAILURES as error:
                if not retries:
                    raise NoAnswer(type(error).__name__) from None
                retries -= 1


class InProcessTransport:
    """A dispatcher in this process: `call` is the localnet's function, without a socket."""

    origin = IN_PROCESS

    def __init__(
        self,
        call: Callable[[str, Sequence[Any]], Awaitable[Any]],
        rejection: Callable[[Exception], LedgerRejected | None],
        changes: Callable[[], int],
    ) -> None:
        """Use `call`. `rejection` turns the errors of `call` into ours, and other errors into None;
        `changes` returns how often the ledger changed."""
        self._call = call
        self._rejection = rejection
        self._changes = changes

    @property
    def changes(self) -> int:
        """See `ChangeCounter`."""
        return self._changes()

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`."""
        try:
            return await self._call(method, params)
        except Exception as error:
            rejected = self._rejection(error)
            if rejected is None:
                raise LedgerUnavailable(f"The ledger did not answer {method}") from error
            raise rejected from None

    async def close(self) -> None:
        """Leave the dispatcher open: it belongs to whoever opened it."""


@dataclass(slots=True)
class _Call:
    """A call that is sent together with other calls made at the same moment; `params` are JSON."""

    method: str
    params: bytes
    answer: asyncio.Future[Any]


class Batches:
    """Sends concurrent calls to one node together: calls of methods in `TOGETHER`, or only sends.

    If a node refuses a batch, or answers it with anything but one response for each call, or with
    more than `MOST_ANSWERS_BYTES`, each call is sent singly, and no batch is sent for a while.

    Args:
        post: posts a body, and also gets the maximum bytes of the answer. Raises `NoAnswer`, or
            `LongAnswer` for a longer answer.
        clock: monotonic seconds.
    """

    def __init__(self, post: Post, clock: Callable[[], float] = time.monotonic) -> None:
        self._post = post
        self._clock = clock
        self._leaving: list[_Call] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._alone_until = float("-inf")
        self._alone_s = 0.0

    async def call(self, method: str, params: bytes) -> Any:
        """See `Transport.call`. Cancelling a call does not affect the rest of its batch."""
        loop = asyncio.get_running_loop()
        if not self._leaving:
            # Runs after all ready tasks, so that their calls join, in no caller's context.
            loop.call_soon(self._post_waiting, context=contextvars.Context())
        call = _Call(method, params, loop.create_future())
        self._leaving.append(call)
        return await call.answer

    async def close(self) -> None:
        """Stop posting; waiting calls fail as if there were no answer."""
        await end(self._tasks)

    def _post_waiting(self) -> None:
        calls, self._leaving = self._leaving, []
        most = 1 if self._clock() < self._alone_until else MOST_CALLS
        batch: list[_Call] = []
        size = 0
        for call in calls:
            if call.answer.cancelled():
                continue
            if len(batch) == most or (batch and size + len(call.params) > MOST_BYTES):
                self._post_batch(batch)
                batch, size = [], 0
            batch.append(call)
            size += len(call.params)
        if batch:
            self._post_batch(batch)

    def _post_batch(self, batch: Sequence[_Call]) -> None:
        """Post a batch; cancel it if nobody waits for its answers any more."""
        task = asyncio.create_task(
            self._send_alone(batch[0]) if len(batch) == 1 else self._ask_batch(batch)
        )
        self._tasks.add(task)

        def cancel_if_unwanted(_answer: asyncio.Future[Any]) -> None:
            if all(call.answer.cancelled() for call in batch):
                task.cancel()

        def done(_task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            for call in batch:
                _fail_call(
                    call, error or no_answer(call.method, NoAnswer("its connections are closed"))
                )

        for call in batch:
            call.answer.add_done_callback(cancel_if_unwanted)
        task.add_done_callback(done)

    async def _send_alone(self, call: _Call) -> None:
        try:
            found = await _call_alone(self._post, call.method, call.params)
        except Exception as error:
            _fail_call(call, error)
        else:
            if not call.answer.done():
                call.answer.set_result(found)

    async def _ask_batch(self, batch: Sequence[_Call]) -> None:
        numbers = [next(_NUMBERS) for _ in batch]
        numbered = (
            request(number, call.method, call.params)
            for number, call in zip(numbers, batch, strict=True)
        )
        try:
            said = await self._post(b"[%s]" % b",".join(numbered), MOST_ANSWERS_BYTES)
        except LongAnswer:
            await self._send_singly(batch)
            return
        except NoAnswer as error:
            for call in batch:
                _fail_call(call, no_answer(call.method, error))
            return
        answer = parsed(said.body)
        responses = _order_responses(answer, numbers)
        if responses is not None:
            self._alone_s = 0.0
            for number, call, response in zip(numbers, batch, responses, strict=True):
                _settle_call(number, call, said, response)
            return
        is_list = isinstance(answer, list)
        if is_list:
            # It may be the answer to another batch; then the next answer would be wrong too.
            said.hang_up()
        if is_list and len(answer) == 1 and json_error(answer[0]) is not None:
            # Some nodes put their error about a batch into a list.
            answer = answer[0]
        code, message, _data = json_error(answer) or (None, "", None)
        is_refused = is_list or is_refusal(said.status) or (said.status == 200 and code is not None)
        if is_refused and busy("a batch", said.status, code, message, said.headers) is None:
            await self._send_singly(batch)
            return
        # Busy or out of order: this says nothing about batches, but the next calls are sent singly.
        self._suspend_batches()
        for call in batch:
            _settle_call(None, call, said, answer)

    async def _send_singly(self, batch: Sequence[_Call]) -> None:
        """Send singly each call of a batch that the node did not answer as one."""
        self._suspend_batches()
        await asyncio.gather(*(self._send_alone(call) for call in batch if not call.answer.done()))

    def _suspend_batches(self) -> None:
        if self._clock() < self._alone_until:
            # Batches that were sent together count as one refusal.
            return
        self._alone_s = min(max(2 * self._alone_s, ALONE_S), MOST_ALONE_S)
        self._alone_until = self._clock() + self._alone_s


def _order_responses(answer: Any, numbers: Sequence[int]) -> list[Any] | None:
    """Return the responses in the order of a batch's calls. None unless each call has one response
    and there are no others: if a node uses wrong ids, no response certainly belongs to a call."""
    if not isinstance(answer, list) or len(answer) != len(numbers):
        return None
    found = {
        each["id"]: each
        for each in answer
        if isinstance(each, dict) and type(each.get("id")) is int
    }
    return [found[n] for n in numbers] if found.keys() == set(numbers) else None


async def _call_alone(post: Post, method: str, params: bytes) -> Any:
    """Make a call that is sent singly; see `Transport.call`."""
    number = next(_NUMBERS)
    try:
        said = await post(request(number, method, params), MOST_ANSWER_BYTES)
    except NoAnswer as error:
        raise no_answer(method, error) from None
    return _read_result(number, method, said, parsed(said.body))


def _read_result(number: int | None, method: str, said: Answer, response: Any) -> Any:
    try:
        return result(number, method, said.status, said.headers, response)
    except ForeignResponse:
        said.hang_up()
        raise


def _settle_call(number: int | None, call: _Call, said: Answer, response: Any) -> None:
    try:
        found = _read_result(number, call.method, said, response)
    except Exception as error:
        _fail_call(call, error)
    else:
        if not call.answer.done():
            call.answer.set_result(found)


def _fail_call(call: _Call, error: BaseException) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
