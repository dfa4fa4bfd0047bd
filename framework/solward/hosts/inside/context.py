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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solward.context import Lifetime, SkillContext
from solward.context.pocket import PocketRequest
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Channel
from solward.hosts.wire.values import (
    ACCOUNT,
    AGENT_VIEW,
    ENTRY,
    HISTORY_REQUEST,
    INTENT,
    KNOWN_TOKEN,
    PAID_ANSWER,
    PUT,
    QUOTE,
    RECORD,
    TOKEN_HOLDING,
    VOTE_ACCOUNT,
    WALLET_VIEW,
    Empty,
    Record,
    from_json,
    instruction_to_wire,
    to_json,
)
from solward.solana.token_list import TokenList
from solward.types.entries import Entry, HistoryRequest, Put
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import Account, TokenHolding, VoteAccount
from solward.types.paid import PaidAnswer, PayRequest
from solward.types.record import TransactionRecord
from solward.types.venue import Quote

if TYPE_CHECKING:
    from solders.instruction import Instruction


def remote_context(
    call: Running, request: methods.SkillExecute, storage: Path | None
) -> tuple[SkillContext, RemoteCalls]:
    """The context of one call, and its money calls, which end with it."""
    calls = RemoteCalls(call)
    context = SkillContext(
        wallet=WALLET_VIEW.from_wire(request.wallet),
        agent=None if request.agent is None else AGENT_VIEW.from_wire(request.agent),
        ledger=RemoteLedger(call),
        tokens=TokenList(map(KNOWN_TOKEN.from_wire, request.tokens)),
        calls=calls,
        log=HostLog(call.channel, request.name),
        secrets=request.secrets,
        settings=from_json(request.settings),
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
        self.lifetime.check()
        request = methods.Perform(operation, to_json(params), _puts(remember))
        return await self._money(methods.OP_PERFORM, request)

    async def transact(
        self,
        ordinal: int,
        intent: Intent,
        instructions: Sequence[Instruction],
        wire: bytes | None,
        remember: Sequence[Put] = (),
    ) -> TransactionRecord:
        """See `MoneyCalls.transact`."""
        self.lifetime.check()
        request = methods.Transact(
            intent=INTENT.to_wire(intent),
            instructions=_instructions(instructions),
            wire=_bytes(wire),
            remember=_puts(remember),
        )
        return await self._money(methods.OP_TRANSACT, request)

    async def pocket(
        self, ordinal: int, request: PocketRequest, remember: Sequence[Put] = ()
    ) -> TransactionRecord:
        """See `MoneyCalls.pocket`; the service calls `build` back."""
        self.lifetime.check()
        if not callable(request.build):
            raise InvalidRequest("build must be an async function of the pocket's address")
        number = next(self._numbers)
        self._builds[number] = request.build
        try:
            return await self._money(
                methods.OP_POCKET,
                methods.Pocket(
                    build=number,
                    lamports=request.lamports,
                    tokens=dict(request.tokens),
                    returns=dict(request.returns),
                    mints=tuple(request.mints),
                    program=request.program,
                    position=request.position,
                    stays=bool(request.stays),
                    details=to_json(request.details),
                    remember=_puts(remember),
                ),
            )
        finally:
            del self._builds[number]

    async def pay(
        self, ordinal: int, request: PayRequest, remember: Sequence[Put] = ()
    ) -> PaidAnswer:
        """See `MoneyCalls.pay`."""
        self.lifetime.check()
        asked = methods.Pay(
            url=request.url,
            method=request.method,
            max=request.max or "",
            headers=dict(request.headers),
            body=request.body,
            remember=_puts(remember),
        )
        answer = await self._call.channel.call(methods.OP_PAY, asked, cap=self._call.cap)
        return PAID_ANSWER.from_wire(answer)

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """See `MoneyCalls.quote`."""
        self.lifetime.check()
        request = methods.QuoteParams(to_json(params))
        answer = await self._call.channel.call(methods.OP_QUOTE, request, cap=self._call.cap)
        return QUOTE.from_wire(answer)

    async def entry(self, key: str) -> Entry | None:
        """See `Store.get`."""
        answer = await self._keep(methods.STORE_GET, methods.StoreKey(key))
        return None if answer.entry is None else ENTRY.from_wire(answer.entry)

    async def put(self, put: Put) -> Entry:
        """See `Store.put`."""
        return ENTRY.from_wire(await self._keep(methods.STORE_PUT, PUT.to_wire(put)))

    async def delete(self, key: str, version: int | None) -> bool:
        """See `Store.delete`."""
        answer = await self._keep(methods.STORE_DELETE, methods.StoreDelete(key, version))
        return bool(answer.was_there)

    async def entries(self, prefix: str, after: str | None, limit: int) -> tuple[Entry, ...]:
        """See `Store.list`."""
        asked = methods.StoreList(prefix, after, limit)
        answer = await self._keep(methods.STORE_LIST, asked)
        return tuple(map(ENTRY.from_wire, answer.entries))

    async def history(self, request: HistoryRequest) -> tuple[TransactionRecord, ...]:
        """See `SkillContext.history`."""
        answer = await self._keep(methods.OP_HISTORY, HISTORY_REQUEST.to_wire(request))
        return tuple(map(RECORD.from_wire, answer.records))

    async def _keep(self, method: methods.Method[Any, Any], request: Any) -> Any:
        self.lifetime.check()
        return await self._call.channel.call(method, request, cap=self._call.cap)

    async def build(self, number: int, address: str) -> methods.Built:
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
            return methods.Built(wire=_bytes(made))
        return methods.Built(instructions=_instructions(made))

    async def _money(self, method: methods.Method[Any, Record], request: Any) -> TransactionRecord:
        record = await self._call.channel.call(method, request, cap=self._call.cap)
        return RECORD.from_wire(record)


class RemoteLedger:
    """`ReadLedger` over the channel; the service answers while the call runs."""

    __slots__ = ("_call",)

    def __init__(self, call: Running) -> None:
        self._call = call

    async def _ask(self, method: methods.Method[Any, Any], request: Any) -> Any:
        return await self._call.channel.call(method, request, cap=self._call.cap)

    async def balance(self, address: str) -> int:
        """See `ReadLedger.balance`, as the others."""
        answer = await self._ask(methods.LEDGER_BALANCE, methods.AtAddress(address))
        return int(answer.value)

    async def account(self, address: str) -> Account | None:
        """One account."""
        answer = await self._ask(methods.LEDGER_ACCOUNT, methods.AtAddress(address))
        return _account(answer.account)

    async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
        """Many accounts."""
        answer = await self._ask(methods.LEDGER_ACCOUNTS, methods.ManyAddresses(tuple(addresses)))
        return {address: _account(each) for address, each in answer.accounts.items()}

    async def holdings(self, owner: str) -> tuple[TokenHolding, ...]:
        """A wallet's token accounts."""
        answer = await self._ask(methods.LEDGER_HOLDINGS, methods.AtAddress(owner))
        return tuple(map(TOKEN_HOLDING.from_wire, answer.holdings))

    async def slot(self) -> int:
        """The current slot."""
        return int((await self._ask(methods.LEDGER_SLOT, Empty())).value)

    async def rent_exempt_minimum(self, size: int) -> int:
        """Lamports an account of `size` bytes must hold."""
        answer = await self._ask(methods.LEDGER_RENT_EXEMPT_MINIMUM, methods.Size(size))
        return int(answer.value)

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """A program's accounts."""
        request = methods.ProgramAccounts(program, size, offset, key)
        answer = await self._ask(methods.LEDGER_PROGRAM_ACCOUNTS, request)
        return {address: ACCOUNT.from_wire(each) for address, each in answer.accounts.items()}

    async def stake_minimum_delegation(self) -> int:
        """Lamports a stake must delegate."""
        return int((await self._ask(methods.LEDGER_STAKE_MINIMUM_DELEGATION, Empty())).value)

    async def vote_accounts(self) -> tuple[VoteAccount, ...]:
        """Validators' vote accounts."""
        answer = await self._ask(methods.LEDGER_VOTE_ACCOUNTS, Empty())
        return tuple(map(VOTE_ACCOUNT.from_wire, answer.accounts))


def _account(wire: Any) -> Account | None:
    return None if wire is None else ACCOUNT.from_wire(wire)


def _puts(remember: Sequence[Put]) -> tuple[Any, ...]:
    return tuple(map(PUT.to_wire, remember))


def _bytes(wire: object) -> bytes | None:
    if wire is None:
        return None
    if not isinstance(wire, bytes | bytearray | memoryview):
        raise InvalidRequest("wire must be bytes")
    return bytes(wire)


def _instructions(made: Any) -> tuple[Any, ...]:
    from solders.instruction import Instruction

    try:
        every = tuple(made)
    except TypeError:
        raise InvalidRequest("instructions must be instructions of solders") from None
    if not all(isinstance(each, Instruction) for each in every):
        raise InvalidRequest("instructions must be instructions of solders")
    return tuple(map(instruction_to_wire, every))


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

    def debug(self, event: object, *args: object, **fields: Any) -> None:
        """Log at DEBUG, as the others at theirs."""
        self._log("debug", event, args, fields)

    def info(self, event: object, *args: object, **fields: Any) -> None:
        """INFO."""
        self._log("info", event, args, fields)

    def warning(self, event: object, *args: object, **fields: Any) -> None:
        """WARNING."""
        self._log("warning", event, args, fields)

    def error(self, event: object, *args: object, **fields: Any) -> None:
        """ERROR."""
        self._log("error", event, args, fields)

    def exception(self, event: object, *args: object, **fields: Any) -> None:
        """ERROR, with the traceback of the exception that is being handled."""
        self._log("error", event, args, {**fields, "exception": traceback.format_exc(limit=-5)})

    warn = warning
    critical = fatal = error
    msg = info

    def _log(
        self, level: str, event: object, args: tuple[object, ...], fields: Mapping[str, Any]
    ) -> None:
        text = str(event)
        if args:
            text = text % args
        every = {name: str(value) for name, value in {**self._fields, **fields}.items()}
        self._channel.log(level, text, every)


@dataclass(frozen=True, slots=True)
class Running:
    """A running call: its channel to the service, and its capability there."""

    channel: Channel
    cap: bytes


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
