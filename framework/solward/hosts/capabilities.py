"""The running calls of a plugin host, and the requests that the host may make for each call.

A capability identifies one running call, and ends with the call. The call determines the wallet,
the caller, the number of the money call, and READ or SPEND; the host cannot change any of these.
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
from solward.hosts.wire.channel import Handler, IncomingCall
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import HostileFrame
from solward.hosts.wire.methods import BuiltTransaction, Method
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

# Random bytes of a capability, so that a host cannot guess that of another call.
_CAPABILITY_BYTES: Final = 16
# Number of the newest errors of money calls that are remembered for each call.
_RAISED_KEPT: Final = 256
# Reads of the operator's node that one call may make, and how many of them run at a time.
READS: Final = 1_000
_READS_AT_ONCE: Final = 8
# Calls of the store and the history that one call may make, and how many of them run at a time.
STORE_CALLS: Final = 500
_STORE_CALLS_AT_ONCE: Final = 4
# A call that makes this many times the allowed requests ends its host: refusals cost time as well.
_LIMITS_TO_END: Final = 2
# Accounts that one request to a node may name.
_ACCOUNTS_A_READ: Final = 100

_TOO_LONG: Final = "an exceeded time limit"


@dataclass(slots=True)
class CountedCalls:
    """The requests of one kind that one running call may make.

    Attributes:
        code: error code if the call makes more than `most` requests.
        does: the requests' action as a verb phrase, for the error's text.
        going_on: limits how many of the requests run at a time.
        begun: number of requests that the call has begun.
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
        plugin: name of the plugin.
        context: context of a skill, with wallet, caller and effects; None for other plugins.
        manifest: the plugin's manifest; None if it declares none.
        egress: its HTTP requests; None if it may make none.
        effects: effects that the skill declares; READ refuses every money call before decoding.
        variables: context variables of the caller.
        reads: its reads of the operator's node.
        store_calls: its calls of the store and the history, which use the service's database.
        late: event loop time after which a cancellation means that the call took too long.
        refused: the last refusal of one of the call's requests; None if there was none.
        ledger: the ledger that a venue may read; a skill reads the ledger in its context.
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
    store_calls: CountedCalls = field(
        default_factory=lambda: CountedCalls(
            "too_many_store_calls",
            "use its store and history",
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
        """The last refused request as a noun phrase; None if no request was refused."""
        refused = self.refused or (None if self.egress is None else self.egress.refused)
        # Only the code: the error's text quotes the plugin, and everybody can read problems.
        return None if refused is None else f"a refused request ({refused.code})"

    def refuse(self, code: str, text: str) -> SkillError:
        """Record a refusal and return it as an error."""
        self.refused = SkillError(code, text)
        return self.refused

    def trusted_error(self, error: SolwardError) -> SolwardError:
        """Return the error that the service raises in place of the plugin's error.

        A plugin may refuse in its own words. An error with a record or a hold claims that the
        service did something: it is believed only if the service itself raised it in this call.
        """
        for known in reversed(self._raised):
            if type(known) is type(error) and _subject_id(known) == _subject_id(error):
                return known
        return error_of_plugin(error)

    async def run_money_call(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a money call, and record its error for `trusted_error`."""
        try:
            return await self.run_in_call_context(work)
        except SolwardError as error:
            self._raised.append(error)
            raise

    async def run_in_call_context(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work in the call's context, so that log lines and spans belong to the call."""
        return await asyncio.get_running_loop().create_task(work, context=self.variables)


def _subject_id(error: SolwardError) -> str | None:
    """Return the id of the record or the hold that an error carries."""
    if isinstance(error, TransactionError):
        return error.record.id
    return error.hold.id if isinstance(error, Held) else None


_PLUGIN_ERRORS: Final = (InvalidRequest, LedgerUnavailable, LedgerRejected)


def error_of_plugin(
    error: SolwardError, allowed: tuple[type[SolwardError], ...] = _PLUGIN_ERRORS
) -> SolwardError:
    """Return the error if plugins may raise it; otherwise, a `SkillError` in its place."""
    if isinstance(error, SkillError):
        # Only the service may raise the subclasses.
        return error if type(error) is SkillError else SkillError(error.code, str(error))
    if isinstance(error, allowed):
        return error
    return SkillError("plugin_failed", f"The plugin failed: {error}")


class Capabilities:
    """The running calls of one plugin host, by capability."""

    def __init__(self) -> None:
        self._running: dict[bytes, RunningCall] = {}

    @contextmanager
    def capability_for(self, call: RunningCall) -> Iterator[bytes]:
        """Yield a new capability for the call, valid inside the block."""
        cap = secrets.token_bytes(_CAPABILITY_BYTES)
        self._running[cap] = call
        try:
            yield cap
        finally:
            del self._running[cap]
            if call.egress is not None:
                call.egress.end()

    def running_call(self, cap: bytes | None) -> RunningCall:
        """Return the running call of a capability.

        Raises:
            SkillError: `call_ended` if the call has ended, or is not a call of this host.
        """
        call = None if cap is None else self._running.get(cap)
        if call is None:
            raise SkillError(
                "call_ended", "The skill's call has ended, so its context can no longer be used"
            )
        return call

    def handlers(self, egress: Egress) -> dict[str, Handler]:
        """Return the handlers of the host's requests, by method. Each serves a running call."""
        return {
            **self.http_handlers(egress),
            methods.OP_PERFORM.name: self._handle_operation,
            methods.OP_TRANSACT.name: self._handle_transact,
            methods.OP_POCKET.name: self._handle_pocket,
            methods.OP_PAY.name: self._handle_pay,
            methods.OP_QUOTE.name: self._handle_quote,
            **{method.name: self._handle_store_call for method in methods.KEPT},
            **{method.name: self._handle_ledger_read for method in methods.LEDGER},
        }

    def http_handlers(self, egress: Egress) -> dict[str, Handler]:
        """Return the handlers for a host without skills, which may only make HTTP requests."""
        return {methods.HTTP_REQUEST.name: self._http_handler(egress)}

    def _skill_context(self, incoming: IncomingCall) -> SkillContext:
        """Return the context of a skill's call; refuse any other call."""
        call = self.running_call(incoming.cap)
        if call.context is None:
            raise call.refuse("not_a_skill", "Only a skill has a wallet and a ledger")
        return call.context

    def _spending_call(self, incoming: IncomingCall, operation: str) -> RunningCall:
        """Return the running call if it may make this money call, without decoding the request.

        Raises:
            SkillError: `call_ended`, `not_a_skill`, `read_only` or `operation_not_declared`.
        """
        self._skill_context(incoming)
        call = self.running_call(incoming.cap)
        if call.effects is not Effects.SPEND:
            raise call.refuse("read_only", "This skill declares READ and may not transact")
        if not may_operate(call.manifest, operation):
            raise call.refuse(
                "operation_not_declared",
                f"The manifest of {call.plugin!r} does not name the operation {operation!r}",
            )
        return call

    async def _spend(
        self,
        incoming: IncomingCall,
        call: RunningCall,
        asked: MoneyRequest,
        assets: Collection[object],
    ) -> Any:
        """Make a money call on behalf of a running call, if the manifest allows the assets.

        It awaits nothing before the work begins, so that calls are numbered as they arrive.

        Args:
            assets: mints or symbols that leave the wallet. The engine blocks a transaction that
                takes anything that is not declared here.
        """
        context = call.context
        assert context is not None
        for asset in assets:
            if not may_move(call.manifest, *asset_names(asset, context.tokens)):
                raise call.refuse(
                    "asset_not_declared",
                    f"The manifest of {call.plugin!r} does not name the asset {str(asset)[:64]!r}",
                )
        return await call.run_money_call(context._money(asked, incoming.request["remember"]))

    async def _handle_operation(self, incoming: IncomingCall) -> Any:
        call = self._spending_call(incoming, incoming.raw.asked.operation)
        asked: OperationRequest = incoming.request["asked"]
        return await self._spend(incoming, call, asked, _assets_of(asked.operation, asked.params))

    async def _handle_transact(self, incoming: IncomingCall) -> Any:
        call = self._spending_call(incoming, TRANSACT)
        asked: TransactRequest = incoming.request["asked"]
        leaving = _spent_assets(asked.intent.lamports_out, asked.intent.tokens_out)
        return await self._spend(incoming, call, asked, leaving)

    async def _handle_pocket(self, incoming: IncomingCall) -> Any:
        call = self._spending_call(incoming, POCKET)
        number: int = incoming.request["build"]

        async def build(address: str) -> bytes | Sequence[Instruction]:
            wanted = {"build": number, "pocket": address}
            try:
                made: BuiltTransaction = await incoming.channel.call(
                    methods.POCKET_BUILD, wanted, cap=incoming.cap
                )
            except SolwardError as error:
                raise call.trusted_error(error) from None
            if made.wire is not None:
                return made.wire
            return cast("Sequence[Instruction]", made.instructions)

        asked: PocketRequest = replace(incoming.request["asked"], build=build)
        return await self._spend(incoming, call, asked, _spent_assets(asked.lamports, asked.tokens))

    async def _handle_pay(self, incoming: IncomingCall) -> Any:
        call = self._spending_call(incoming, PAY)
        try:
            check_paid_site(call.manifest, incoming.raw.asked.url)
        except SkillError as error:
            raise call.refuse(error.code, str(error)) from None
        _amount, asset = max_parts(incoming.raw.asked.max)
        # Only the operator may choose the payment protocol.
        asked: PayRequest = replace(incoming.request["asked"], protocol=None)
        return await self._spend(incoming, call, asked, [asset])

    async def _handle_quote(self, incoming: IncomingCall) -> Quote:
        context = self._skill_context(incoming)
        async with self._ledger(incoming):
            return await context._quote(**incoming.request)

    @asynccontextmanager
    async def _counted_request(
        self, incoming: IncomingCall, calls: CountedCalls, count: int = 1
    ) -> AsyncIterator[None]:
        """Count a request of a running call, and wait until it may run.

        Raises:
            SkillError: `call_ended`, or the code of `calls`.
        """
        calls.begun += count
        if calls.begun > calls.most:
            if calls.begun > _LIMITS_TO_END * calls.most:
                incoming.channel.end(HostileFrame(f"requests continue after {calls.code}"))
            raise self.running_call(incoming.cap).refuse(
                calls.code, f"A call may {calls.does} at most {calls.most} times; this one has"
            )
        async with calls.going_on:
            # The call may have ended while it waited.
            self.running_call(incoming.cap)
            yield

    async def _handle_store_call(self, incoming: IncomingCall) -> Any:
        context, call = self._skill_context(incoming), self.running_call(incoming.cap)
        async with self._counted_request(incoming, call.store_calls):
            name = incoming.method.partition(".")[2]
            work = context.history if name == "history" else getattr(context.store, name)
            return await call.run_in_call_context(work(**incoming.request))

    @asynccontextmanager
    async def _ledger(self, incoming: IncomingCall, reads: int = 1) -> AsyncIterator[ReadLedger]:
        """Yield the ledger for one read of the call, once the read may begin.

        Raises:
            SkillError: `call_ended`, `no_ledger` or `too_many_reads`.
        """
        call = self.running_call(incoming.cap)
        ledger = call.ledger
        if ledger is None and call.context is not None:
            ledger = call.context.ledger
        if ledger is None:
            raise call.refuse("no_ledger", "Only a skill and a venue have a ledger to read")
        async with self._counted_request(incoming, call.reads, reads):
            with within(READ_WAIT_S, own=True):
                yield ledger

    async def _handle_ledger_read(self, incoming: IncomingCall) -> Any:
        asked = incoming.request
        reads = -(-len(asked.get("addresses", ())) // _ACCOUNTS_A_READ)
        async with self._ledger(incoming, max(1, reads)) as ledger:
            return await getattr(ledger, incoming.method.partition(".")[2])(**asked)

    def _http_handler(self, egress: Egress) -> Handler:
        def call_of(incoming: IncomingCall) -> EgressCall:
            call = self.running_call(incoming.cap)
            if call.egress is None:
                raise call.refuse("no_network", "A guardrail may make no HTTP requests")
            return call.egress

        return egress.handler(call_of)


# Operations that move SOL out of the wallet or lock it.
_SOL_OPERATIONS: Final = frozenset(("transfer", "stake", "wrap_sol"))
# For operations that move tokens: the field that names the mint.
_ASSET_FIELDS: Final = {"swap": "inputToken", "transfer_token": "mint", "burn": "mint"}


def _assets_of(operation: str, params: Any) -> list[object]:
    """Return the assets that a declared operation takes from the wallet, without fees and rent."""
    if operation in _SOL_OPERATIONS:
        return [SOL]
    field = _ASSET_FIELDS.get(operation)
    return [params.get(field)] if field is not None and isinstance(params, dict) else []


def _spent_assets(lamports: int, tokens: Mapping[str, int]) -> list[object]:
    return [*([SOL] if lamports else []), *(mint for mint, units in tokens.items() if units)]


def asset_names(asset: object, tokens: TokenList) -> tuple[str, ...]:
    """Return the mint and the symbol of an asset named by either; a manifest may use both."""
    try:
        mint = tokens.resolve(asset, "asset")
    except InvalidRequest:
        # The operation itself refuses a value that is not an asset.
        return (str(asset),)
    symbol = tokens.symbol_of(mint)
    return (mint,) if symbol is None else (mint, symbol)


@dataclass(frozen=True, slots=True)
class TenantHost:
    """A host and its running calls.

    Attributes:
        connections: name of the host's HTTP connections; hosts with other names never use them.
        on_faulty_call: called with a plugin and a text when a call fails by the plugin's fault.
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
        with self._capability_for(running) as cap:
            return await self.host.call(method, request, cap=cap, timeout_s=timeout_s)

    async def stream(
        self, method: Method, request: Any, running: RunningCall
    ) -> AsyncGenerator[Any, None]:
        """See `Host.stream`."""
        with self._capability_for(running) as cap:
            async with aclosing(self.host.stream(method, request, cap=cap)) as pieces:
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _capability_for(self, running: RunningCall) -> Iterator[bytes]:
        fault: str | None = None
        crashes = self.host.crashes
        try:
            with self.capabilities.capability_for(running) as cap:
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
                fault = "the end of its plugin host"
            fault = running.refusal or fault
            if fault is not None:
                self.on_faulty_call(running.plugin, fault)
