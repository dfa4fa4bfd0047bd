"""What one end of a channel sends arrives equal at the other, of exact built-in types."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import socket
import types
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.examples import examples

from solward.hosts.wire import failures, methods, values
from solward.hosts.wire.channel import Channel, IncomingCall
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import FROM_HOST, TO_HOST, Failure, HostileFrame, read, write
from solward.hosts.wire.methods import METHODS, Method
from solward.hosts.wire.values import Codec, Unreadable
from solward.types import errors, provider, record, venue

BUILT_IN = (int, str, bool, bytes, float, Decimal, types.NoneType, Pubkey, Instruction)

# Drawn from few, so that large structs are made in little time.
TEXT = st.sampled_from(["", "a", "SOL", "9" * 44, "ß\0\n", "日本", "\U0001f642", "\ud7ff", "{}"])
WHOLE = st.integers(0, 2**63 - 1)
DECIMALS = st.decimals(-(10**12), 10**12, places=9)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | DECIMALS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=2)
KEYS = st.integers(0, 255).map(lambda byte: Pubkey(bytes([byte] * 32)))
INSTRUCTIONS = st.builds(
    Instruction,
    KEYS,
    st.binary(max_size=8),
    st.lists(st.builds(AccountMeta, KEYS, st.booleans(), st.booleans()), max_size=2),
)


def hints(kind: type) -> dict[str, Any]:
    # `venue` imports this name for type checkers alone.
    there = {"Instruction": values.Instruction} if dataclasses.is_dataclass(kind) else {}
    return typing.get_type_hints(kind, localns=there, include_extras=True)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint, as Solward has them."""
    if hint in (Any, Mapping[str, Any]):
        return JSON if hint is Any else OBJECTS
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        inner, *marks = arguments
        if inner is str:
            return TEXT.filter(lambda text: len(text) <= marks[0].max_length)
        if inner is int:
            return st.integers(marks[0].ge, marks[0].le or 2**63 - 1)
        return strategy(inner)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(strategy, arguments))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(strategy(arguments[0]), max_size=2).map(tuple)
        return st.tuples(*map(strategy, arguments))
    if origin is frozenset:
        return st.frozensets(strategy(arguments[0]), max_size=2)
    if origin in (dict, Mapping):
        return st.dictionaries(strategy(arguments[0]), strategy(arguments[1]), max_size=2)
    if origin in (type, Callable):
        # A record's cause and a pocket's function stay on their side.
        return st.none()
    if hint is values.Instruction:
        return INSTRUCTIONS
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: WHOLE,
        bool: st.booleans(),
        bytes: st.binary(max_size=8),
        float: st.floats(0.5, 60),
        Decimal: DECIMALS,
        types.NoneType: st.none(),
        None: st.none(),
    }
    if isinstance(hint, Mapping):
        return st.fixed_dictionaries({name: strategy(each) for name, each in hint.items()})
    if hint in simple:
        return simple[hint]
    if issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    fields = {name: strategy(each) for name, each in hints(hint).items()}
    return st.builds(hint, **fields)


def assert_built_in(value: Any) -> None:
    """Every value inside is of an exact built-in type."""
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            assert_built_in(getattr(value, each.name))
    elif isinstance(value, msgspec.Struct):
        for each in msgspec.structs.fields(value):
            assert_built_in(getattr(value, each.name))
    elif type(value) in (tuple, list, frozenset):
        for each in value:
            assert_built_in(each)
    elif type(value) is dict:
        for key, each in value.items():
            assert_built_in(key)
            assert_built_in(each)
    else:
        assert type(value) in BUILT_IN or isinstance(value, enum.Enum)


class Line:
    """A service's and a host's end in a loop of their own, one call at a time."""

    def __init__(self) -> None:
        self.got: Any = None
        self.answers: list[Any] = []
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        here, there = socket.socketpair()
        handlers: dict[str, Callable[[IncomingCall], Any]] = {
            name: self._one if not each.streams else self._many for name, each in METHODS.items()
        }
        self.service = Channel(here, {}, receive_limit=FROM_HOST)
        self.host = Channel(there, handlers, receive_limit=TO_HOST)

    async def _one(self, incoming: IncomingCall) -> Any:
        self.got = incoming.request
        return self.answers[0]

    async def _many(self, incoming: IncomingCall) -> AsyncIterator[Any]:
        self.got = [incoming.request, [piece async for piece in incoming.uploads()]]
        for each in self.answers:
            yield each

    def call(self, method: Method, request: Any, answer: Any) -> tuple[Any, Any]:
        self.answers = [answer]
        answered = self.loop.run_until_complete(self.service.call(method, request))
        return self.got, answered

    def stream(
        self, method: Method, request: Any, sent: list[Any], pieces: list[Any]
    ) -> tuple[Any, Any]:
        self.answers = pieces

        async def uploads() -> AsyncIterator[Any]:
            for each in sent:
                yield each

        async def run() -> list[Any]:
            stream = self.service.stream(method, request, uploads=uploads())
            return [piece async for piece in stream]

        answered = self.loop.run_until_complete(run())
        return self.got, answered

    async def _close(self) -> None:
        await self.service.close()
        await self.host.close()

    def close(self) -> None:
        self.loop.run_until_complete(self._close())
        self.loop.close()


@contextmanager
def line() -> typing.Iterator[Line]:
    made = Line()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.property
@pytest.mark.parametrize("name", sorted(METHODS))
def test_request_and_answer_of_every_method_arrive_equal(name: str) -> None:
    method = METHODS[name]

    with line() as channel:
        if not method.streams:

            @settings(max_examples=examples(8, least=3), deadline=None)
            @given(strategy(method.request), strategy(method.response))
            def check(request: Any, answer: Any) -> None:
                assert channel.call(method, request, answer) == (request, answer)

            check()
        else:
            pieces = st.lists(strategy(method.response), max_size=2)
            sent = (
                st.lists(strategy(method.uploaded), max_size=2) if method.uploaded else st.just([])
            )

            @settings(max_examples=examples(8, least=3), deadline=None)
            @given(strategy(method.request), sent, pieces)
            def check_stream(request: Any, sent: list[Any], pieces: list[Any]) -> None:
                got, answered = channel.stream(method, request, sent, pieces)
                assert got == [request, sent]
                assert answered == pieces

            check_stream()
        assert not channel.host.closed.done()


@pytest.mark.property
@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_arrives_is_of_exact_built_in_types(name: str) -> None:
    method = METHODS[name]
    hint = method.response

    @settings(max_examples=examples(15, least=3), deadline=None)
    @given(strategy(hint))
    def check(value: Any) -> None:
        codec = method.answers
        arrived = codec.convert(codec.read(codec.write(value)))
        assert arrived == value
        assert type(arrived) is type(value)
        assert_built_in(arrived)

    check()


RECORD = record.TransactionRecord(
    "r1",
    "w1",
    "transfer",
    record.TransactionStatus.BLOCKED,
    {"amount": Decimal("1.5"), "to": "x"},
    ("freeze", "grants"),
    1,
    principal="agent:a",
    retry_after_s=7,
)
HOLD = record.Hold(
    "h1",
    "w1",
    None,
    "key:1",
    ("key:1",),
    "transfer",
    record.HoldState.HELD,
    "2 SOL to somebody",
    ("new recipient",),
    ({"operation": "transfer", "units": "5", "decimals": 9},),
    5_000,
    {},
    {"amount": Decimal("0.1")},
    False,
    1,
    2,
)


class Own(errors.SkillError):
    """A plugin's subclass travels as the class above it."""

    def __init__(self) -> None:
        super().__init__("own", "of a plugin")


ERRORS: list[errors.SolwardError] = [
    errors.SolwardError("x"),
    errors.InvalidRequest("amount must be more than 0"),
    errors.NotEnough("amount is more than the wallet holds"),
    errors.PaymentRefused("no_offer", "nothing can be paid"),
    errors.NotFound("nothing"),
    errors.WalletNotFound(),
    errors.AgentNotFound(),
    errors.IdempotencyMismatch(),
    errors.IdempotencyInFlight(),
    errors.SkillError("too_small", "The amount is too small"),
    errors.SkillNotFound("a", ["b", "c"]),
    errors.SkillTimeout("a", 1.5),
    errors.RateReached("5 a minute"),
    errors.TransactionError("x", RECORD),
    errors.GuardrailBlocked("grants", "no grant", RECORD),
    errors.TransactionFailed("expired", RECORD),
    errors.Held(HOLD),
    errors.HoldDecided("denied"),
    errors.PolicyChanged(7),
    errors.ScheduleBusy(is_running=True),
    errors.MayNotDecide("no"),
    errors.ProviderError("busy", retryable=True, may_cost=True),
    errors.ProviderError("unreadable", may_cost=True, usage=provider.Usage(3, 2, 1)),
    errors.ProviderError("wrong key"),
    errors.ModelRefused(
        "no", reason="safety", said="Never.", usage=provider.Usage(3, 2, 1), may_cost=True
    ),
    errors.ModelRefused("no", reason="refusal"),
    errors.TakenOver(),
    errors.TooManyWallets(100),
    errors.KeyRevoked(),
    errors.DecisionRefused("old"),
    errors.TokenBudgetReached("empty"),
    errors.LedgerError("x"),
    errors.LedgerUnavailable("no answer"),
    errors.LedgerRejected(-32002, "simulation failed", {"err": [1, Decimal("0.5")]}),
    errors.LedgerRejected(-32000, "x"),
    errors.KeystoreError("sealed"),
    errors.ConfigError("x"),
    errors.FolderError("x"),
    errors.HomeLocked("x"),
    errors.LocalnetError("x"),
    errors.StoreError("x"),
    errors.OtherSchema(),
    errors.AuditBroken("x"),
    errors.BackupError("x"),
]


def over_the_wire(error: BaseException) -> Exception:
    buffer = bytearray()
    write(Failure(1, *failures.to_wire(error)), buffer)
    assert len(buffer) < FROM_HOST.frame
    frame = read(bytes(buffer[4:]))
    assert isinstance(frame, Failure)
    return failures.from_wire(frame.code, frame.text, frame.data)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_its_class_with_text_and_attributes(error: errors.SolwardError) -> None:
    arrived = over_the_wire(error)
    assert (type(arrived), str(arrived)) == (type(error), str(error))
    assert vars(arrived) == vars(error)
    if isinstance(error, errors.GuardrailBlocked):
        assert isinstance(arrived, errors.GuardrailBlocked)
        assert arrived.retry_after_s == error.retry_after_s == 7


@pytest.mark.parametrize(
    "error",
    [
        errors.ModelRefused("no", reason="safety", said="Never.", usage=provider.Usage(2**60)),
        errors.ProviderError("x", may_cost=True, usage=provider.Usage(-1)),
        errors.ProviderError("x", may_cost=True, usage="many"),  # type: ignore[arg-type]
        errors.LedgerRejected(-32000, "x", ["y" * 300_000]),
        errors.LedgerRejected(-32000, "x", object()),
    ],
    ids=["too many", "negative", "no usage", "too long", "no JSON"],
)
def test_what_an_error_may_lack_is_left_out_where_it_cannot_travel(
    error: errors.ProviderError | errors.LedgerRejected,
) -> None:
    arrived = over_the_wire(error)
    if isinstance(error, errors.ProviderError):
        # What the vendor counted is not known, and it may charge for it.
        left = vars(error) | {"usage": None, "may_cost": True}
    else:
        left = vars(error) | {"data": None}
    assert (type(arrived), vars(arrived)) == (type(error), left)


def test_arguments_that_are_too_long_together_are_not_run_and_the_rest_is_read() -> None:
    long = provider.ToolCall("long", {"note": "\U0001f642" * (1 << 18)})
    short = provider.ToolCall("short", {"a": 1})
    answer = provider.Completion("\U0001f642" * (1 << 18), (long,) * 500 + (short,) * 500)
    codec = methods.PROVIDER_COMPLETE.answers
    sent = codec.write(values.sendable_completion(answer))
    assert len(sent) < methods.PROVIDER_COMPLETE.largest
    arrived = codec.convert(codec.read(sent))
    assert arrived.text == answer.text
    assert arrived.tool_calls[0] == long
    assert arrived.tool_calls[499] == provider.ToolCall("long", "unreadable")
    assert arrived.tool_calls[500:] == (short,) * 500


def test_every_error_travels_but_for_the_one_with_an_object_of_the_registry() -> None:
    tree = {each for each in vars(errors).values() if isinstance(each, type)}
    tree = {each for each in tree if issubclass(each, errors.SolwardError)}
    assert tree - {type(each) for each in ERRORS} == {errors.PluginError}


def test_a_plugins_subclass_arrives_as_the_class_above_it() -> None:
    arrived = over_the_wire(Own())
    assert type(arrived) is errors.SkillError
    assert arrived.code == "own"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the key is 5K..."),
        SystemExit("5K..."),
        type("bad name!", (Exception,), {})("5K"),
    ],
    ids=["error", "exit", "odd"],
)
def test_a_bug_arrives_without_its_text(error: BaseException) -> None:
    arrived = over_the_wire(error)
    assert type(arrived) is HostBug
    assert str(arrived) in ("ValueError", "SystemExit", "Exception")


@pytest.mark.parametrize(
    "error",
    [
        errors.SkillError("x" * 10_000, "y" * 100_000),
        errors.SkillError("x", "\ud800"),
        errors.SkillError(5, "x"),  # type: ignore[arg-type]
        errors.LedgerRejected(2**80, "x"),
        errors.LedgerRejected(1, "x", object()),
        errors.TransactionFailed("x", None),  # type: ignore[arg-type]
        errors.TransactionFailed(
            "x", dataclasses.replace(RECORD, details={"a": "\U0001f642" * 100_000})
        ),
        errors.TransactionFailed("x", dataclasses.replace(RECORD, error="z" * 10**6)),
    ],
    ids=range(8),
)
def test_a_plugins_odd_error_is_still_one_that_the_other_end_can_read(error: Exception) -> None:
    assert isinstance(over_the_wire(error), errors.SolwardError | HostBug)


@pytest.mark.parametrize(
    "value",
    [{"a": Decimal("NaN")}, {"a": float("inf")}, {"a": object()}, {1, 2}],
    ids=range(4),
)
def test_what_is_not_json_is_refused_where_it_is_sent(value: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match="not JSON"):
        values.to_json(value)


@pytest.mark.parametrize("text", ["", "NaN", "[" * 100_000, "9" * 100_000, '{"a":', "\x00"])
def test_what_is_not_json_is_unreadable_where_it_arrives(text: str) -> None:
    with pytest.raises(Unreadable):
        values.from_json(text)


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "1e999999", "1e-999999"])
def test_a_price_that_is_no_number_of_use_is_unreadable(number: str) -> None:
    codec = Codec("quote", venue.Quote)
    sent = codec.write(venue.Quote("a", "b", 1, 1, 1, 1, Decimal(number)))
    with pytest.raises(Unreadable):
        codec.convert(codec.read(sent))


def test_an_instruction_that_names_no_address_is_unreadable() -> None:
    wire = values.Instruction("not an address", (), b"")
    with pytest.raises(Unreadable):
        Codec("instruction", values.Instruction).convert(wire)


async def test_what_cannot_be_read_ends_the_channel_and_not_another() -> None:
    async def nonsense(_incoming: IncomingCall) -> Any:
        return venue.Quote("a", "b", 1, 1, 1, 1, Decimal("NaN"))

    here, there = socket.socketpair()
    service = Channel(here, {}, receive_limit=FROM_HOST)
    host = Channel(there, {"op.quote": nonsense}, receive_limit=TO_HOST)
    with pytest.raises(Unreadable):
        await service.call(methods.OP_QUOTE, {"params": {}})
    assert isinstance(await service.closed, HostileFrame)
    await host.close()


@pytest.mark.parametrize("number", [-1, 2**40 + 1, 2**63, 2**64 - 1])
def test_usage_and_prices_out_of_range_do_not_arrive(number: int) -> None:
    tokens = [
        {"input_tokens": number},
        {"output_tokens": number},
    ]
    for body in [*tokens, {"cost_nanousd": min(number << 13, 2**64 - 1)}]:
        with pytest.raises(HostileFrame):
            Codec("usage", provider.Usage).read(msgspec.msgpack.encode(body))
    for name in ("input_nanousd", "output_nanousd", "max_output_tokens"):
        price = {"input_nanousd": 1, "output_nanousd": 1, "max_output_tokens": 1}
        body = price | {name: min(number << 13, 2**64 - 1)}
        with pytest.raises(HostileFrame):
            Codec("price", provider.ModelPrice).read(msgspec.msgpack.encode(body))


@promise("odd-details-refused")
@pytest.mark.parametrize("text", [r'["a\ud800"]', r'{"\udfff": 1}', "1E+999999999", "1" * 401])
def test_json_that_nobody_can_store_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        values.from_json(text)
