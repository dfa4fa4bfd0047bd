"""The context of a skill in a plugin host: its money calls, reads and log lines are messages to the
service, which alone knows whose wallet it is. Each hook runs with its capability, which its
requests carry."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from solward.context import Lifetime, SkillContext
from solward.context.pocket import PocketRequest
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Channel
from solward.hosts.wire.methods import Built, Method
from solward.solana.token_list import TokenList
from solward.types.entries import Put
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.payment import PaidAnswer, PayRequest
from solward.types.record import TransactionRecord
from solward.types.venue import Quote

if TYPE_CHECKING:
    from solders.instruction import Instruction


def remote_context(
    call: Running, asked: Mapping[str, Any], storage: Path | None
) -> tuple[SkillContext, RemoteCalls]:
    """The context of one call, and its money calls, which end with it."""
    calls = RemoteCalls(call)
    context = SkillContext(
        wallet=asked["wallet"],
        agent=asked["agent"],
        ledger=RemoteLedger(call),
        tokens=TokenList(asked["tokens"]),
        calls=calls,
        log=HostLog(call.channel, asked["name"]),
        secrets=asked["secrets"],
        settings=asked["settings"],
        storage=storage,
    )
    return context, calls


class RemoteCalls:
    """`MoneyCalls` over the channel.

    Ordinals stay here: the service numbers the calls as they arrive, which is the order in which
    the skill makes them.
    """

    __slots__ = ("_builds", "_call", "_numbers", "lifetime")

    def __init__(self, call: Running) -> None:
        self.lifetime = Lifetime()
        self._call = call
        self._numbers = itertools.count(1)
        self._builds: dict[int, Any] = {}

    async def perform(
        self, operation: str, ordinal: int, params: Mapping[str, Any], remember: Sequence[Put] = ()
    ) -> TransactionRecord:
        """See `MoneyCalls.perform`."""
        record: TransactionRecord = await self._ask(
            methods.OP_PERFORM, operation=operation, params=params, remember=remember
        )
        return record

    async def transact(
        self,
        ordinal: int,
        intent: Intent,
        instructions: Sequence[Instruction],
        wire: bytes | None,
        remember: Sequence[Put] = (),
    ) -> TransactionRecord:
        """See `MoneyCalls.transact`."""
        record: TransactionRecord = await self._ask(
            methods.OP_TRANSACT,
            intent=intent,
            instructions=instructions,
            wire=wire if wire is None else _bytes(wire),
            remember=remember,
        )
        return record

    async def pocket(
        self, ordinal: int, request: PocketRequest, remember: Sequence[Put] = ()
    ) -> TransactionRecord:
        """See `MoneyCalls.pocket`; the service calls `build` back."""
        if not callable(request.build):
            raise InvalidRequest("build must be an async function of the pocket's address")
        number = next(self._numbers)
        self._builds[number] = request.build
        try:
            record: TransactionRecord = await self._ask(
                methods.OP_POCKET,
                build=number,
                lamports=request.lamports,
                tokens=request.tokens,
                returns=request.returns,
                mints=request.mints,
                program=request.program,
                position=request.position,
                stays=bool(request.stays),
                details=request.details,
                remember=remember,
            )
        finally:
            del self._builds[number]
        return record

    async def pay(
        self, ordinal: int, request: PayRequest, remember: Sequence[Put] = ()
    ) -> PaidAnswer:
        """See `MoneyCalls.pay`."""
        answer: PaidAnswer = await self._ask(
            methods.OP_PAY,
            url=request.url,
            method=request.method,
            max=request.max or "",
            headers=request.headers,
            body=request.body,
            remember=remember,
        )
        return answer

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """See `MoneyCalls.quote`."""
        quote: Quote = await self._ask(methods.OP_QUOTE, params=params)
        return quote

    async def keep(self, what: str, **asked: Any) -> Any:
        """See `StoreCalls.keep`."""
        return await self._ask(_KEPT[what], **asked)

    async def build(self, number: int, address: str) -> Built:
        """What the build function of a pocket that is asked for makes.

        Raises:
            InvalidRequest: no such pocket is asked for, or it makes something else.
        """
        self.lifetime.check()
        build = self._builds.get(number)
        if build is None:
            raise InvalidRequest("no pocket of this number is asked for")
        with running(self._call):
            made = await build(address)
        if isinstance(made, bytes | bytearray | memoryview):
            return Built(wire=bytes(made))
        return Built(instructions=made)

    async def _ask(self, what: Method, /, **asked: Any) -> Any:
        self.lifetime.check()
        return await self._call.ask(what, asked)


_KEPT: Final = {method.name.partition(".")[2]: method for method in methods.KEPT}
_READS: Final = {method.name.partition(".")[2]: method for method in methods.LEDGER}


class RemoteLedger:
    """`ReadLedger` over the channel, each of its methods a call of the service, which answers while
    the call runs."""

    __slots__ = ("_call",)

    def __init__(self, call: Running) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        method = _READS.get(name)
        if method is None:
            raise AttributeError(name)

        async def read(*given: object, **named: object) -> Any:
            # One argument too many is an error here as well.
            arguments = zip([*method.request][: len(given)], given, strict=True)
            return await self._call.ask(method, dict(arguments) | named)

        return read


def _bytes(wire: object) -> bytes:
    if not isinstance(wire, bytes | bytearray | memoryview):
        raise InvalidRequest("wire must be bytes")
    return bytes(wire)


class HostLog:
    """The methods of a structlog logger that skills use: levels, `bind`, `exception`."""

    __slots__ = ("_channel", "_fields")

    def __init__(
        self, channel: Channel, skill: str, fields: Mapping[str, Any] | None = None
    ) -> None:
        self._channel = channel
        self._fields = {"skill": skill} if fields is None else dict(fields)

    def bind(self, **fields: Any) -> HostLog:
        """A logger with more fields."""
        return HostLog(self._channel, "", {**self._fields, **fields})

    def _log(self, level: str, event: object, *args: object, **fields: Any) -> None:
        text = str(event)
        if args:
            text = text % args
        every = {name: str(value) for name, value in {**self._fields, **fields}.items()}
        self._channel.log(level, text, every)

    debug = partialmethod(_log, "debug")
    info = msg = partialmethod(_log, "info")
    warning = warn = partialmethod(_log, "warning")
    error = critical = fatal = partialmethod(_log, "error")

    def exception(self, event: object, *args: object, **fields: Any) -> None:
        """Logs at ERROR, with the traceback of the exception that is being handled."""
        self.error(event, *args, **{**fields, "exception": traceback.format_exc(limit=-5)})


@dataclass(frozen=True, slots=True)
class Running:
    """A running call: its channel to the service, and its capability there."""

    channel: Channel
    cap: bytes

    async def ask(self, method: Method, asked: Mapping[str, Any]) -> Any:
        """Ask the service for something on behalf of this call."""
        return await self.channel.call(method, asked, cap=self.cap)


_RUNNING: ContextVar[Running] = ContextVar("running_call")


@contextmanager
def running(call: Running) -> Iterator[None]:
    """Run what is inside, and the tasks that it starts, as this call."""
    token = _RUNNING.set(call)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def current_cap() -> bytes | None:
    """The capability of the call whose code this is; None where no hook runs, as at import."""
    call = _RUNNING.get(None)
    return None if call is None else call.cap


class CurrentChannel:
    """The channel of the call whose code asks."""

    def stream(self, *given: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """See `Channel.stream`; only while `current_cap` is not None."""
        return _RUNNING.get().channel.stream(*given, **options)
