"""Every method of a channel, with its arguments and its answer. There are no others.

`to a host` and `from a host` say which end calls it. Wallet, caller, ordinal and effects are never
arguments: the service derives them from the call's capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final

from msgspec import Meta

from solward.context import (
    AgentView,
    OperationRequest,
    PocketRequest,
    TransactRequest,
    WalletView,
)
from solward.hosts.wire.frames import PIECE
from solward.hosts.wire.values import Codec, Instructions, Wire
from solward.solana.token_list import KnownToken
from solward.types.bounds import (
    Address,
    Addresses,
    LongText,
    Name,
    Names,
    Natural,
    Text,
    WireBytes,
)
from solward.types.entries import MAX_REMEMBERED, Entry, Put
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.ledger import Account, TokenHolding, VoteAccount
from solward.types.payment import (
    HttpAnswer,
    PaidAnswer,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    PayRequest,
)
from solward.types.provider import Completion, CompletionRequest, ModelPrice, ProviderSpec, Usage
from solward.types.record import TransactionRecord
from solward.types.skill import SkillSpec
from solward.types.venue import (
    Quote,
    QuoteRequest,
    SwapInstructions,
    SwapTransaction,
    VenueSpec,
)

_NONE: Final[Mapping[str, Any]] = {}


_ONE: Final = 192 << 10
_BIG: Final = 4 << 20


@dataclass(frozen=True, eq=False)
class Method:
    """A method that one end calls at the other.

    Attributes:
        request: type hints of its arguments by name, or a struct.
        response: type hint of its answer; None if it answers only that it is done.
        largest: maximum bytes of the answer; an answer above `PIECE` travels in pieces.
        at_once: maximum number of its handlers that run at a time; None for no limit.
        most: maximum bytes of the request; None for the limit of a frame.
        streams: whether it answers with any number of responses, each at most a piece.
        uploaded: type of the pieces that the caller sends after the request; None for none.
    """

    name: str
    request: Any = field(default_factory=dict)
    response: Any = None
    largest: int = _ONE
    at_once: int | None = None
    most: int | None = None
    streams: bool = False
    uploaded: Any = None
    requests: Codec = field(init=False, repr=False)
    answers: Codec = field(init=False, repr=False)
    uploads: Codec | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        up = None if self.uploaded is None else Codec(self.name, self.uploaded)
        object.__setattr__(self, "requests", Codec(self.name, self.request, self.most))
        object.__setattr__(self, "answers", Codec(self.name, self.response))
        object.__setattr__(self, "uploads", up)


# Called by both ends.

PING = Method("ping")


# To a host.


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a plugin cannot be used; `code` is a `ProblemCode`."""

    code: Name
    detail: str


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of the distribution, with the declaration of its plugin.

    Attributes:
        group: `solward.skills`, `solward.providers`, `solward.venues`, `solward.payments` or
            `solward.guardrails`.
        hooks: names of the hooks that it implements.
        spec: its declaration; None for a guardrail.
    """

    group: Name
    name: Name
    hooks: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    spec: SkillSpec | ProviderSpec | VenueSpec | PaymentSpec | Problem | None = None


class Verdict(Wire):
    """The answer of a rule. `reason` is None if it allows the transaction; `held`: a person
    decides, for this reason; `failed`: the rule raised, for this reason."""

    reason: Text | None = None
    held: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class BuiltTransaction:
    """The result of a pocket's build function: instructions, or a whole transaction."""

    instructions: Instructions = ()
    wire: WireBytes | None = None


Placeholders = dict[Name, Name | None]
"""By variable, the placeholder of each secret of a plugin's manifest; None if it is not set."""
# params, settings, options: as the schemas of skill or provider say, with defaults.
_SKILL: Final = {
    "name": Name,
    "params": Any,
    "wallet": WalletView,
    "agent": AgentView | None,
    "tokens": tuple[KnownToken, ...],
    "secrets": Placeholders,
    "settings": Any,
}
# secret: the placeholder of the provider's key. base_url: its configured address.
_COMPLETION: Final = {
    "name": Name,
    "request": CompletionRequest,
    "options": Any,
    "secret": Name | None,
    "base_url": str | None,
}
# base_url: the address of the venue's HTTP client, or None.
_VENUE: Final = {
    "name": Name,
    "base_url": str | None,
    "secrets": Placeholders,
    "pools": Addresses,
}
_INSTRUCTED: Final = {
    "quote": Quote,
    "taker": Address,
    "destination": Address,
    "max_accounts": int | None,
}
_OFFERED: Final = {"name": Name, "offer": PaymentOffer}
# A text in place of an offer says why it cannot be read.
_OFFERS: Final = Annotated[tuple[PaymentOffer | str, ...], Meta(max_length=256)]
_SHOWN: Final = Annotated[dict[Name, str], Meta(max_length=256)]
_SPECS: Final = Annotated[tuple[Plugin, ...], Meta(max_length=256)]

# A piece is text, or the usage.
_PIECE: Final = Annotated[str, Meta(max_length=PIECE)] | Usage

START = Method("start")
SPECS = Method("specs", response=_SPECS, largest=_BIG)
SKILL_EXECUTE = Method("skill.execute", _SKILL, LongText, _BIG)
PROVIDER_COMPLETE = Method("provider.complete", _COMPLETION, Completion, _BIG)
PROVIDER_STREAM = Method("provider.stream", _COMPLETION, _PIECE, streams=True)
PROVIDER_PRICE = Method(
    "provider.price", {"name": Name, "model": Name, "options": Any}, ModelPrice | None
)
VENUE_QUOTE = Method("venue.quote", {**_VENUE, "request": QuoteRequest}, Quote)
VENUE_INSTRUCTIONS = Method("venue.instructions", {**_VENUE, **_INSTRUCTED}, SwapInstructions)
VENUE_SWAP = Method("venue.swap", {**_VENUE, "quote": Quote, "wallet": Address}, SwapTransaction)
PAYMENT_OFFERS = Method("payment.offers", {"name": Name, "answer": HttpAnswer}, _OFFERS, _BIG)
PAYMENT_HEADERS = Method("payment.headers", {**_OFFERED, "proof": PaymentProof}, _SHOWN)
PAYMENT_RECEIPT = Method(
    "payment.receipt", {**_OFFERED, "answer": HttpAnswer}, PaymentReceipt | None
)
GUARDRAIL_CHECK = Method(
    "guardrail.check", {"name": Name, "intent": Intent, "effects": TransactionEffects}, Verdict
)
# build: the number in the `op.pocket` that this answers. pocket: the pocket's address.
POCKET_BUILD = Method("pocket.build", {"build": Natural, "pocket": Address}, BuiltTransaction)


# From a host: money. `remember` are the entries that are written with the record.

_REMEMBER: Final = {"remember": Annotated[tuple[Put, ...], Meta(max_length=MAX_REMEMBERED)]}
# Bytes: many times a transaction, with room for details and entries to remember.
_MONEY: Final = 64 << 10
# Bytes: a whole HTTP request, and entries to remember.
_PAY: Final = 192 << 10

OP_PERFORM = Method(
    "op.perform", {"asked": OperationRequest, **_REMEMBER}, TransactionRecord, most=_MONEY
)
OP_TRANSACT = Method(
    "op.transact", {"asked": TransactRequest, **_REMEMBER}, TransactionRecord, most=_MONEY
)
# build: a number that the host chose for the request's build function.
OP_POCKET = Method(
    "op.pocket",
    {"asked": PocketRequest, "build": Natural, **_REMEMBER},
    TransactionRecord,
    most=_MONEY,
)
OP_PAY = Method("op.pay", {"asked": PayRequest, **_REMEMBER}, PaidAnswer, _BIG, most=_PAY)
MONEY: Final = {
    OperationRequest: OP_PERFORM,
    TransactRequest: OP_TRANSACT,
    PocketRequest: OP_POCKET,
    PayRequest: OP_PAY,
}
OP_QUOTE = Method("op.quote", {"params": Any}, Quote, most=_MONEY)


# From a host: store and history. The arguments are those of `Store` and `SkillContext.history`.

# Bytes: a value and its key.
_STORED: Final = 32 << 10
_HISTORY: Final = {
    "type": Name | None,
    "status": Name | None,
    "since_ms": int | None,
    "before": Name | None,
    "limit": int,
}
_PUT: Final = {"key": Name, "value": Any, "version": int | None}
_LIST: Final = {"prefix": Name, "after": Name | None, "limit": Natural}

KEPT: Final = tuple(
    Method(name, request, response, largest, most=_STORED)
    for name, request, response, largest in (
        ("op.history", _HISTORY, tuple[TransactionRecord, ...], _BIG),
        ("store.get", {"key": Name}, Entry | None, _ONE),
        ("store.put", _PUT, Entry, _ONE),
        ("store.delete", {"key": Name, "version": int | None}, bool, _ONE),
        ("store.list", _LIST, tuple[Entry, ...], _BIG),
    )
)


# From a host: the ledger. The arguments are those of `ReadLedger`, whose method has the same name.

_LARGE: Final[dict[str, Any]] = {"largest": 32 << 20, "at_once": 4}
_AT: Final = {"address": Address}
_MANY: Final = {"addresses": Annotated[tuple[Address, ...], Meta(max_length=4_096)]}
_OF_PROGRAM: Final = {"program": Address, "size": Natural, "offset": Natural, "key": Address}

LEDGER: Final = tuple(
    Method(f"ledger.{name}", request, response, **options)
    for name, request, response, options in (
        ("balance", _AT, Natural, {}),
        ("account", _AT, Account | None, _LARGE),
        ("accounts", _MANY, dict[Address, Account | None], _LARGE),
        ("holdings", {"owner": Address}, tuple[TokenHolding, ...], _LARGE),
        ("slot", _NONE, Natural, {}),
        ("rent_exempt_minimum", {"size": Natural}, Natural, {}),
        ("program_accounts", _OF_PROGRAM, dict[Address, Account], _LARGE),
        ("stake_minimum_delegation", _NONE, Natural, {}),
        ("vote_accounts", _NONE, tuple[VoteAccount, ...], _LARGE),
    )
)


# From a host: requests.


Header = tuple[Annotated[bytes, Meta(max_length=256)], Annotated[bytes, Meta(max_length=16 << 10)]]
Headers = Annotated[tuple[Header, ...], Meta(max_length=128)]


class HttpRequest(Wire):
    """One HTTP request; following a redirect takes another request.

    Attributes:
        connect_s: seconds until there is a connection, None for the service's own limit.
        read_s: seconds that the answer may pause.
        write_s: seconds that the site may leave the request unread.
    """

    method: Annotated[str, Meta(max_length=20)]
    url: Annotated[str, Meta(max_length=16 << 10)]
    headers: Headers = ()
    connect_s: float | None = None
    read_s: float | None = None
    write_s: float | None = None


class HttpHead(Wire):
    status: int
    headers: Headers
    reason: Annotated[bytes, Meta(max_length=1_024)] = b""
    http_version: Annotated[bytes, Meta(max_length=16)] = b"HTTP/1.1"


_Bytes = Annotated[bytes, Meta(max_length=PIECE)]
# The first piece of an answer is its head, the others are parts of its body.
HTTP_REQUEST = Method("http.request", HttpRequest, HttpHead | _Bytes, streams=True, uploaded=_Bytes)


# Only the conformance kit's tenant serves these; they report on the plugins that it runs.


class RaisedError(Wire):
    """An error that a plugin's own code raised.

    Attributes:
        place: file and line, if it is not deliberate.
        deliberate: whether it is one of `solward.types.errors`.
        shown: its text and its repr.
    """

    type: Name
    text: Text
    place: Name
    deliberate: bool
    cancelled: bool
    shown: Text


class ObservedCall(Wire):
    """One call of a hook, as its host observed it.

    Attributes:
        executed: whether any of its code ran.
        ended: whether it ended.
        cancelled: whether it was cancelled before it ended.
        returned: whether it returned, even if cancelled.
        answer: the type of its result.
        odd: a guardrail's result that is not a valid answer.
        changed: whether it changed its arguments.
        read: paths of the parameters that it read.
        tasks: its tasks that still run.
    """

    executed: bool = False
    ended: bool = False
    cancelled: bool = False
    returned: bool = False
    answer: Name = ""
    odd: Name = ""
    changed: bool = False
    raised: RaisedError | None = None
    read: Names = ()
    tasks: Names = ()
    seconds: float = 0.0


# key, number: number counts the calls with the same key, from 0.
KIT_OBSERVED = Method("kit.observed", {"key": LongText, "number": Natural}, ObservedCall)
# The longest time for which a plugin blocked its host's event loop, in seconds, and where.
KIT_BLOCKED = Method("kit.blocked", response=tuple[float, Name])

METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {each.name: each for each in (*globals().values(), *KEPT, *LEDGER) if isinstance(each, Method)}
)
