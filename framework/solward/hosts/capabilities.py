"""The running calls of a plugin host, and what it may ask for on their behalf.

A capability names one running call and dies with it. Wallet, caller, number of the money call, and
READ or SPEND are those of the call; nothing that the host sends says or changes them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from solward.context import (
    MoneyRequest,
    OperationRequest,
    PocketRequest,
    SkillContext,
    TransactRequest,
)
from solward.hosts.egress import Egress, EgressCall
from solward.hosts.host import Host
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Handler, Incoming
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import HostileFrame
from solward.hosts.wire.methods import Built, Method
from solward.solana.token_list import TokenList
from solward.types.errors import (
    Held,
    InvalidRequest,
    LedgerRejected,
    LedgerUnavailable,
    SkillError,
    SolwardError,
    TransactionError,
)
from solward.types.guardrail import SOL
from solward.types.ledger import ReadLedger
from solward.types.manifest import (
    PAY,
    POCKET,
    TRANSACT,
    Manifest,
    check_paid_site,
    may_move,
    may_operate,
)
from solward.types.payment import PayRequest, max_parts
from solward.types.skill import Effects
from solward.types.venue import Quote
from solward.vault.ledger.patience import READ_WAIT_S, within

if TYPE_CHECKING:
    from solders.instruction import Instruction

T = TypeVar("T")

# Of random bytes: nobody guesses one, nor another host's.
_CAPABILITY_BYTES: Final = 16
# Of a call's refused money calls, the last ones.
_RAISED_KEPT: Final = 256
# Of one call, of the operator's node: reads in all, and at a time, where more wait.
READS: Final = 1_000
_READS_AT_ONCE: Final = 8
# Likewise of the service's database: calls of the store and of the history.
STORE_CALLS: Final = 500
_STORE_CALLS_AT_ONCE: Final = 4
# A call that makes so many times its limit's requests ends its host: refusals cost time as well.
_LIMITS_TO_END: Final = 2
# Accounts that one request to a node asks for.
_ACCOUNTS_A_READ: Final = 100

_TOO_LONG: Final = "a time limit that passed"


@dataclass(slots=True)
class CountedCalls:
    """What one running call asks for of one kind.

    Attributes:
        code: of the refusal of more than `most`.
        does: what they do, in words.
        going_on: lets some of them go on at a time.
        begun: how many it has begun.
    """

    code: str
    does: str
    most: int
    going_on: asyncio.Semaphore = field(repr=False)
    begun: int = 0


@dataclass(slots=True)
class RunningCall:
    """One running call of a plugin.

    Attributes:
        plugin: its name.
        context: what its skill may do, with wallet, caller and effects; None for other plugins.
        manifest: what it declared; None where it declared nothing.
        egress: what it may send by HTTP.
        effects: what its skill declared; of READ no money call is read any further.
        variables: the context variables of who made the call.
        reads: what it reads of the ledger: the node is the operator's.
        kept: what it asks its store and history: the database is everybody's.
        late: the loop's time from which on it is cancelled because it has taken too long.
        refused: why it was refused something last; None where it was not.
        ledger: what a venue may read; a skill reads that of its context.
    """

    plugin: str
    context: SkillContext | None = None
    manifest: Manifest | None = None
    egress: EgressCall | None = None
    effects: Effects = Effects.READ
    variables: Context = field(default_factory=copy_context, repr=False)
    reads: CountedCalls = field(
        default_factory=lambda: CountedCalls(
            "too_many_reads", "read the ledger", READS, asyncio.Semaphore(_READS_AT_ONCE)
        )
    )
    kept: CountedCalls = field(
        default_factory=lambda: CountedCalls(
            "too_many_store_calls",
            "ask its store and history",
            STORE_CALLS,
            asyncio.Semaphore(_STORE_CALLS_AT_ONCE),
        )
    )
    late: float | None = None
    refused: SkillError | None = None
    ledger: ReadLedger | None = None
    _raised: deque[SolwardError] = field(
        default_factory=lambda: deque(maxlen=_RAISED_KEPT), repr=False
    )

    @property
    def refusal(self) -> str | None:
        """What its plugin should not have asked for, and was refused last; None where nothing."""
        refused = self.refused or (None if self.egress is None else self.egress.refused)
        # The code alone: the text quotes the plugin, and problems are for everybody's eyes.
        return None if refused is None else f"a request that was refused ({refused.code})"

    def refuse(self, code: str, text: str) -> SkillError:
        """Return the error of what the plugin should not have asked for."""
        self.refused = SkillError(code, text)
        return self.refused

    def own(self, error: SolwardError) -> SolwardError:
        """What the service makes of an error that the plugin raised.

        A plugin may refuse in its own words. What says that the service did something, as a
        record or a hold does, is only believed of the service: then it is its own object.
        """
        for known in reversed(self._raised):
            if type(known) is type(error) and _about(known) == _about(error):
                return known
        return sayable(error)

    async def money(self, work: Coroutine[Any, Any, T]) -> T:
        """Do a money call, and remember how it was refused."""
        try:
            return await self.of_call(work)
        except SolwardError as error:
            self._raised.append(error)
            raise

    async def of_call(self, work: Coroutine[Any, Any, T]) -> T:
        """Await what is done for the call, its log lines and spans those of the call."""
        return await asyncio.get_running_loop().create_task(work, context=self.variables)


def _about(error: SolwardError) -> str | None:
    """Return the id of the record or the hold that an error carries."""
    if isinstance(error, TransactionError):
        return error.record.id
    return error.hold.id if isinstance(error, Held) else None


_SAYABLE: Final = (InvalidRequest, LedgerUnavailable, LedgerRejected)


def sayable(
    error: SolwardError, allowed: tuple[type[SolwardError], ...] = _SAYABLE
) -> SolwardError:
    """Return an error as a plugin may raise it, with its code where it is a `SkillError`."""
    if isinstance(error, SkillError):
        # Those of its subclasses are the service's answers about skills.
        return error if type(error) is SkillError else SkillError(error.code, str(error))
    if isinstance(error, allowed):
        return error
    return SkillError("plugin_failed", f"The plugin failed: {error}")


class Capabilities:
    """The running calls of one plugin host, by capability."""

    def __init__(self) -> None:
        self._running: dict[bytes, RunningCall] = {}

    @contextmanager
    def given(self, call: RunningCall) -> Iterator[bytes]:
        """Yield the call's capability, until the block ends."""
        cap = secrets.token_bytes(_CAPABILITY_BYTES)
        self._running[cap] = call
        try:
            yield cap
        finally:
            del self._running[cap]
            if call.egress is not None:
                call.egress.end()

    def of(self, cap: bytes | None) -> RunningCall:
        """Return the running call of a capability.

        Raises:
            SkillError: `call_ended`: it ended, or was never this host's.
        """
        call = None if cap is None else self._running.get(cap)
        if call is None:
            raise SkillError(
                "call_ended", "The skill's call has ended; its context can do nothing any more"
            )
        return call

    def handlers(self, egress: Egress) -> dict[str, Handler]:
        """What the host may ask for, by method; each on behalf of a running call."""
        return {
            **self.http_handlers(egress),
            methods.OP_PERFORM.name: self._perform,
            methods.OP_TRANSACT.name: self._transact,
            methods.OP_POCKET.name: self._pocket,
            methods.OP_PAY.name: self._pay,
            methods.OP_QUOTE.name: self._quote,
            **{method.name: self._keep for method in methods.KEPT},
            **{method.name: self._read for method in methods.LEDGER},
        }

    def http_handlers(self, egress: Egress) -> dict[str, Handler]:
        """What a host without skills may ask for: requests."""
        return {methods.HTTP_REQUEST.name: self._http(egress)}

    def _context(self, incoming: Incoming) -> SkillContext:
        """Return the context of the call, which must be a skill's."""
        call = self.of(incoming.cap)
        if call.context is None:
            raise call.refuse("not_a_skill", "Only a skill has a wallet and a ledger")
        return call.context

    def _spending(self, incoming: Incoming, operation: str) -> RunningCall:
        """Return the call, where a money call may be made at all; before anything of it is read.

        Raises:
            SkillError: `call_ended`, `not_a_skill`, `read_only` or `operation_not_declared`.
        """
        self._context(incoming)
        call = self.of(incoming.cap)
        if call.effects is not Effects.SPEND:
            raise call.refuse("read_only", "This skill declares READ and may not transact")
        if not may_operate(call.manifest, operation):
            raise call.refuse(
                "operation_not_declared",
                f"The manifest of {call.plugin!r} does not name the operation {operation!r}",
            )
        return call

    async def _money(
        self,
        incoming: Incoming,
        call: RunningCall,
        asked: MoneyRequest,
        assets: Collection[object],
    ) -> Any:
        """Do for a running call what it asks for and its manifest allows.

        Args:
            assets: mints or symbols of what leaves the wallet. More than is declared here leaves by
                no transaction: the engine holds it to its declaration.

        Nothing is waited for before the work begins, so that the calls are numbered as they arrive.
        """
        context = call.context
        assert context is not None
        for asset in assets:
            if not may_move(call.manifest, *names_of(asset, context.tokens)):
                raise call.refuse(
                    "asset_not_declared",
                    f"The manifest of {call.plugin!r} does not name the asset {str(asset)[:64]!r}",
                )
        return await call.money(context._money(asked, incoming.request["remember"]))

    # Money.

    async def _perform(self, incoming: Incoming) -> Any:
        call = self._spending(incoming, incoming.raw.asked.operation)
        asked: OperationRequest = incoming.request["asked"]
        return await self._money(incoming, call, asked, _leaving(asked.operation, asked.params))

    async def _transact(self, incoming: Incoming) -> Any:
        call = self._spending(incoming, TRANSACT)
        asked: TransactRequest = incoming.request["asked"]
        leaving = _sold(asked.intent.lamports_out, asked.intent.tokens_out)
        return await self._money(incoming, call, asked, leaving)

    async def _pocket(self, incoming: Incoming) -> Any:
        call = self._spending(incoming, POCKET)
        number: int = incoming.request["build"]

        async def build(address: str) -> bytes | Sequence[Instruction]:
            wanted = {"build": number, "pocket": address}
            try:
                made: Built = await incoming.channel.call(
                    methods.POCKET_BUILD, wanted, cap=incoming.cap
                )
            except SolwardError as error:
                raise call.own(error) from None
            if made.wire is not None:
                return made.wire
            return cast("Sequence[Instruction]", made.instructions)

        asked: PocketRequest = replace(incoming.request["asked"], build=build)
        return await self._money(incoming, call, asked, _sold(asked.lamports, asked.tokens))

    async def _pay(self, incoming: Incoming) -> Any:
        call = self._spending(incoming, PAY)
        try:
            check_paid_site(call.manifest, incoming.raw.asked.url)
        except SkillError as error:
            raise call.refuse(error.code, str(error)) from None
        _amount, asset = max_parts(incoming.raw.asked.max)
        # Only the operator names the protocol.
        asked: PayRequest = replace(incoming.request["asked"], protocol=None)
        return await self._money(incoming, call, asked, [asset])

    async def _quote(self, incoming: Incoming) -> Quote:
        context = self._context(incoming)
        async with self._reading(incoming):
            return await context._quote(**incoming.request)

    # What is kept, and reads.

    @asynccontextmanager
    async def _counted(
        self, incoming: Incoming, calls: CountedCalls, count: int = 1
    ) -> AsyncIterator[None]:
        """Let a running call ask for something, counted; may have to wait.

        Raises:
            SkillError: `call_ended`, or the code of `calls`.
        """
        calls.begun += count
        if calls.begun > calls.most:
            if calls.begun > _LIMITS_TO_END * calls.most:
                incoming.channel.end(HostileFrame(f"{calls.code} that go on being refused"))
            raise self.of(incoming.cap).refuse(
                calls.code, f"A call may {calls.does} {calls.most} times, and has done so"
            )
        async with calls.going_on:
            # It may have ended meanwhile.
            self.of(incoming.cap)
            yield

    async def _keep(self, incoming: Incoming) -> Any:
        context, call = self._context(incoming), self.of(incoming.cap)
        async with self._counted(incoming, call.kept):
            name = incoming.method.partition(".")[2]
            work = context.history if name == "history" else getattr(context.store, name)
            return await call.of_call(work(**incoming.request))

    @asynccontextmanager
    async def _reading(self, incoming: Incoming, reads: int = 1) -> AsyncIterator[ReadLedger]:
        """Yield the ledger of a call that reads.

        Raises:
            SkillError: `call_ended`, `no_ledger` or `too_many_reads`.
        """
        call = self.of(incoming.cap)
        ledger = call.ledger
        if ledger is None and call.context is not None:
            ledger = call.context.ledger
        if ledger is None:
            raise call.refuse("no_ledger", "Only a skill and a venue have a ledger to read")
        async with self._counted(incoming, call.reads, reads):
            with within(READ_WAIT_S, own=True):
                yield ledger

    async def _read(self, incoming: Incoming) -> Any:
        asked = incoming.request
        reads = -(-len(asked.get("addresses", ())) // _ACCOUNTS_A_READ)
        async with self._reading(incoming, max(1, reads)) as ledger:
            return await getattr(ledger, incoming.method.partition(".")[2])(**asked)

    # Requests.

    def _http(self, egress: Egress) -> Handler:
        def call_of(incoming: Incoming) -> EgressCall:
            call = self.of(incoming.cap)
            if call.egress is None:
                raise call.refuse(
                    "no_network", "A guardrail judges what it is given, without network"
                )
            return call.egress

        return egress.handler(call_of)


# Operations by which SOL leaves the wallet or its hands.
_OF_SOL: Final = frozenset(("transfer", "stake", "wrap_sol"))
# Fields that name what leaves, of operations by which tokens do.
_ASSET_FIELDS: Final = {"swap": "inputToken", "transfer_token": "mint", "burn": "mint"}


def _leaving(operation: str, params: Any) -> list[object]:
    """What leaves the wallet by a declared operation; its fees and rent do not count here."""
    if operation in _OF_SOL:
        return [SOL]
    field = _ASSET_FIELDS.get(operation)
    return [params.get(field)] if field is not None and isinstance(params, dict) else []


def _sold(lamports: int, tokens: Mapping[str, int]) -> list[object]:
    return [*([SOL] if lamports else []), *(mint for mint, units in tokens.items() if units)]


def names_of(asset: object, tokens: TokenList) -> tuple[str, ...]:
    """Return the mint and the symbol of an asset that is named by either, as a manifest may name
    it."""
    try:
        mint = tokens.resolve(asset, "asset")
    except InvalidRequest:
        # No asset, which the operation itself refuses.
        return (str(asset),)
    symbol = tokens.symbol_of(mint)
    return (mint,) if symbol is None else (mint, symbol)


@dataclass(frozen=True, slots=True)
class TenantHost:
    """A host and its running calls.

    Attributes:
        connections: whose connections its requests are made by; shared with no other name.
        on_faulty_call: called with a plugin and what was wrong with a call, by its own fault.
    """

    host: Host
    capabilities: Capabilities
    connections: str
    on_faulty_call: Callable[[str, str], object] = lambda _plugin, _fault: None

    async def call(
        self,
        method: Method,
        request: Any,
        running: RunningCall,
        timeout_s: float | None = None,
    ) -> Any:
        """See `Host.call`."""
        with self._given(running) as cap:
            return await self.host.call(method, request, cap=cap, timeout_s=timeout_s)

    async def stream(
        self, method: Method, request: Any, running: RunningCall
    ) -> AsyncGenerator[Any, None]:
        """See `Host.stream`."""
        with self._given(running) as cap:
            async with aclosing(self.host.stream(method, request, cap=cap)) as pieces:
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _given(self, running: RunningCall) -> Iterator[bytes]:
        fault: str | None = None
        crashes = self.host.crashes
        try:
            with self.capabilities.given(running) as cap:
                yield cap
        except HostBug as bug:
            fault = f"an unexpected {bug.type_name}"
            raise
        except TimeoutError:
            fault = _TOO_LONG
            raise
        except asyncio.CancelledError:
            if running.late is not None and asyncio.get_running_loop().time() >= running.late:
                fault = _TOO_LONG
            raise
        finally:
            if self.host.crashes > crashes:
                fault = "an end of its plugin host"
            fault = running.refusal or fault
            if fault is not None:
                self.on_faulty_call(running.plugin, fault)
