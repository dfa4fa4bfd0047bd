"""Every method of a channel: its request and its answer. There are no others.

`to a host` and `from a host` say who may call it; wallet, caller, ordinal and effects are never
arguments: the service derives them from the call's capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from solward.hosts.wire.frames import PIECE, UNREADABLE, HostileFrame
from solward.hosts.wire.values import (
    Account,
    Address,
    Addresses,
    AgentView,
    Bytes,
    Completion,
    CompletionRequest,
    Empty,
    Entry,
    HistoryRequest,
    HttpAnswer,
    Instructions,
    Intent,
    Json,
    KnownToken,
    LongText,
    ModelPrice,
    Name,
    Names,
    Natural,
    PaidAnswer,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    ProviderSpec,
    Put,
    Quote,
    QuoteRequest,
    Record,
    SkillSpec,
    SwapInstructions,
    SwapTransaction,
    Text,
    TokenHolding,
    TransactionEffects,
    Units,
    Usage,
    VenueSpec,
    VoteAccount,
    WalletView,
    Wire,
)
from solward.types.entries import MAX_REMEMBERED
from solward.types.errors import InvalidRequest

Req = TypeVar("Req", bound=Wire)
Res = TypeVar("Res", bound=Wire)
U = TypeVar("U", bound=Wire)
T = TypeVar("T", bound=Wire)

_ENCODER = msgspec.msgpack.Encoder()


class Codec(Generic[T]):
    """Writes and reads one struct; what it writes, the other end's reads."""

    def __init__(self, name: str, kind: type[T], most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)

    def write(self, value: T) -> bytes:
        """As msgpack.

        Raises:
            InvalidRequest: a field that is not of its type, or out of its bounds; names it. Or it
                is larger than the method takes.
        """
        try:
            body = _ENCODER.encode(value)
            # Structs are checked where they are read: a value of ours that does not fit must be
            # this caller's error, not the end of the channel.
            self._decoder.decode(body)
        except (TypeError, *UNREADABLE) as error:
            raise InvalidRequest(f"{self._name}: {error}") from None
        if self._most is not None and len(body) > self._most:
            raise InvalidRequest(f"{self._name}: {len(body)} bytes, at most are {self._most}")
        return body

    def read(self, body: bytes | msgspec.Raw) -> T:
        """From msgpack.

        Raises:
            HostileFrame: it is not this struct, or larger than the method takes.
        """
        if self._most is not None and len(body) > self._most:
            # Not decoded at all: that is what would take the time.
            raise HostileFrame(f"{self._name}: a request of {len(body)} bytes")
        try:
            return self._decoder.decode(body)
        except UNREADABLE as error:
            text = f"{self._name}: not its struct ({type(error).__name__})"
            raise HostileFrame(text) from None


@dataclass(frozen=True)
class Method(Generic[Req, Res]):
    """A method with one answer.

    Attributes:
        largest: most bytes of the answer; beyond `PIECE` it travels in pieces.
        at_once: most handlers of it that run at a time; None for as many as are called.
        most: bytes of the request; None for as many as a frame has.
    """

    name: str
    request: type[Req]
    response: type[Res]
    largest: int = 192 << 10
    at_once: int | None = None
    most: int | None = None
    requests: Codec[Req] = field(init=False, repr=False)
    answers: Codec[Res] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", Codec(self.name, self.request, self.most))
        object.__setattr__(self, "answers", Codec(self.name, self.response))


@dataclass(frozen=True)
class StreamMethod(Generic[Req, Res, U]):
    """A method that answers with pieces.

    Attributes:
        uploaded: the pieces that its caller sends after the request; None where it sends none.
    """

    name: str
    request: type[Req]
    piece: type[Res]
    uploaded: type[U] | None = None
    requests: Codec[Req] = field(init=False, repr=False)
    answers: Codec[Res] = field(init=False, repr=False)
    uploads: Codec[U] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", Codec(self.name, self.request))
        object.__setattr__(self, "answers", Codec(self.name, self.piece))
        up = None if self.uploaded is None else Codec(self.name, self.uploaded)
        object.__setattr__(self, "uploads", up)


AnyMethod = Method[Any, Any] | StreamMethod[Any, Any, Any]

_BIG: Final = 4 << 20

# Either way.

PING = Method("ping", Empty, Empty)


# To a host.


class Problem(Wire, tag="problem"):
    """Why a plugin cannot be used; `code` is one of the registry's."""

    code: Name
    detail: Text


class Plugin(Wire):
    """One entry point of the distribution, in the service's order.

    Attributes:
        group: `solward.skills`, `solward.providers`, `solward.venues`, `solward.payments` or
            `solward.guardrails`.
        hooks: the hooks it implements.
        spec: its declaration, None of a guardrail.
    """

    group: Name
    name: Name
    hooks: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    spec: SkillSpec | ProviderSpec | VenueSpec | PaymentSpec | Problem | None = None


class Specs(Wire):
    plugins: Annotated[tuple[Plugin, ...], Meta(max_length=256)]


Placeholders = dict[Name, Name | None]
"""By variable, what stands for each secret of a plugin's manifest; None where it is not set."""


class SkillExecute(Wire):
    """Attributes: params, settings: by the skill's schemas, defaults applied."""

    name: Name
    params: Json
    wallet: WalletView
    agent: AgentView | None
    tokens: tuple[KnownToken, ...]
    secrets: Placeholders = msgspec.field(default_factory=dict)
    settings: Json = "{}"


class Outcome(Wire):
    text: LongText


class ProviderComplete(Wire):
    """Attributes: secret: what stands for the provider's key. base_url: its configured address."""

    name: Name
    request: CompletionRequest
    options: Json
    secret: Name | None = None
    base_url: Text | None = None


class CompletionPiece(Wire):
    """Text, or the usage, or both."""

    text: Annotated[str, Meta(max_length=PIECE)] = ""
    usage: Usage | None = None


class ProviderPrice(Wire):
    name: Name
    model: Name
    options: Json


class Price(Wire):
    price: ModelPrice | None


class VenueQuote(Wire):
    """Attributes: base_url: of the venue's HTTP client, None where it has none."""

    name: Name
    request: QuoteRequest
    base_url: Text | None
    secrets: Placeholders = msgspec.field(default_factory=dict)
    pools: Addresses = ()


class VenueInstructions(Wire):
    name: Name
    quote: Quote
    taker: Address
    destination: Address
    max_accounts: int | None
    base_url: Text | None
    secrets: Placeholders = msgspec.field(default_factory=dict)
    pools: Addresses = ()


class VenueSwap(Wire):
    name: Name
    quote: Quote
    wallet: Address
    base_url: Text | None
    secrets: Placeholders = msgspec.field(default_factory=dict)
    pools: Addresses = ()


class ReadOffers(Wire):
    name: Name
    answer: HttpAnswer


class Offers(Wire):
    # A text in place of an entry says why it cannot be read.
    offers: Annotated[tuple[PaymentOffer | Text, ...], Meta(max_length=256)]


class ShowPayment(Wire):
    name: Name
    offer: PaymentOffer
    proof: PaymentProof


class ShownHeaders(Wire):
    headers: Annotated[dict[Name, Text], Meta(max_length=256)]


class ReadReceipt(Wire):
    name: Name
    offer: PaymentOffer
    answer: HttpAnswer


class Receipt(Wire):
    receipt: PaymentReceipt | None


class GuardrailCheck(Wire):
    name: Name
    intent: Intent
    effects: TransactionEffects


class Verdict(Wire):
    """Attributes: reason: None allows it. held: a person decides, for this reason. failed: the rule
    raised, for this reason."""

    reason: Text | None = None
    held: bool = False
    failed: bool = False


class PocketBuild(Wire):
    """Attributes: build: as the `op.pocket` that is answered named it. pocket: its address."""

    build: Natural
    pocket: Address


class Built(Wire):
    """Instructions, or a whole transaction."""

    instructions: Instructions = ()
    wire: Bytes | None = None


START = Method("start", Empty, Empty)
SPECS = Method("specs", Empty, Specs, largest=_BIG)
SKILL_EXECUTE = Method("skill.execute", SkillExecute, Outcome, largest=_BIG)
PROVIDER_COMPLETE = Method("provider.complete", ProviderComplete, Completion, largest=_BIG)
PROVIDER_STREAM: StreamMethod[ProviderComplete, CompletionPiece, Empty] = StreamMethod(
    "provider.stream", ProviderComplete, CompletionPiece
)
PROVIDER_PRICE = Method("provider.price", ProviderPrice, Price)
VENUE_QUOTE = Method("venue.quote", VenueQuote, Quote)
VENUE_INSTRUCTIONS = Method("venue.instructions", VenueInstructions, SwapInstructions)
VENUE_SWAP = Method("venue.swap", VenueSwap, SwapTransaction)
PAYMENT_OFFERS = Method("payment.offers", ReadOffers, Offers, largest=_BIG)
PAYMENT_HEADERS = Method("payment.headers", ShowPayment, ShownHeaders)
PAYMENT_RECEIPT = Method("payment.receipt", ReadReceipt, Receipt)
GUARDRAIL_CHECK = Method("guardrail.check", GuardrailCheck, Verdict)
POCKET_BUILD = Method("pocket.build", PocketBuild, Built)


# From a host.


Puts = Annotated[tuple[Put, ...], Meta(max_length=MAX_REMEMBERED)]
"""What a money call remembers."""


class Perform(Wire):
    """Attributes: params: the operation's fields by their JSON names."""

    operation: Name
    params: Json
    remember: Puts = ()


class Transact(Wire):
    """Attributes: intent: its wallet is that of the call, whatever it says."""

    intent: Intent
    instructions: Instructions = ()
    wire: Bytes | None = None
    remember: Puts = ()


class Pocket(Wire):
    """`PocketRequest`, with a number of the host's in place of its function."""

    build: Natural
    lamports: int = 0
    tokens: Units = msgspec.field(default_factory=dict)
    returns: Units = msgspec.field(default_factory=dict)
    mints: Addresses = ()
    program: Address | None = None
    position: Name | None = None
    stays: bool = False
    details: Json = "{}"
    remember: Puts = ()


class Pay(Wire):
    """`PayRequest`."""

    url: Annotated[str, Meta(max_length=16 << 10)]
    method: Annotated[str, Meta(max_length=20)]
    max: Name
    headers: Annotated[dict[Name, Annotated[str, Meta(max_length=16 << 10)]], Meta(max_length=128)]
    # As much as a request to the service itself has.
    body: Annotated[bytes, Meta(max_length=64 << 10)] = b""
    remember: Puts = ()


class StoreKey(Wire):
    key: Name


class StoreDelete(Wire):
    key: Name
    version: int | None = None


class StoreList(Wire):
    prefix: Name
    after: Name | None
    limit: Natural


class FoundEntry(Wire):
    entry: Entry | None


class FoundEntries(Wire):
    entries: tuple[Entry, ...]


class Deleted(Wire):
    was_there: bool


class FoundRecords(Wire):
    records: tuple[Record, ...]


class QuoteParams(Wire):
    params: Json


class AtAddress(Wire):
    address: Address


class ManyAddresses(Wire):
    addresses: Annotated[tuple[Address, ...], Meta(max_length=4_096)]


class Size(Wire):
    size: Natural


class ProgramAccounts(Wire):
    program: Address
    size: Natural
    offset: Natural
    key: Address


class Amount(Wire):
    value: Natural


class FoundAccount(Wire):
    account: Account | None


class FoundAccounts(Wire):
    """By address; None where there is none."""

    accounts: dict[Address, Account | None]


class Holdings(Wire):
    holdings: tuple[TokenHolding, ...]


class VoteAccounts(Wire):
    accounts: tuple[VoteAccount, ...]


Header = tuple[Annotated[bytes, Meta(max_length=256)], Annotated[bytes, Meta(max_length=16 << 10)]]
Headers = Annotated[tuple[Header, ...], Meta(max_length=128)]


class HttpRequest(Wire):
    """One request; a redirect is another.

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


class HttpBody(Wire):
    data: Annotated[bytes, Meta(max_length=PIECE)]


class HttpHead(Wire):
    status: int
    headers: Headers
    reason: Annotated[bytes, Meta(max_length=1_024)] = b""
    http_version: Annotated[bytes, Meta(max_length=16)] = b"HTTP/1.1"


class HttpPiece(Wire):
    """The first has the head, the others a part of the body."""

    head: HttpHead | None = None
    data: Annotated[bytes, Meta(max_length=PIECE)] = b""


# What the conformance kit's tenant tells of the plugins that it runs; no other tenant serves it.


class CallNumber(Wire):
    """The call number `number`, from 0, of those with the same key."""

    key: LongText
    number: Natural


class Raised(Wire):
    """What a plugin's own code raised.

    Attributes:
        place: its file and line, of what is not deliberate.
        deliberate: it is one of `solward.types.errors`.
        shown: its text and its repr.
    """

    type: Name
    text: Text
    place: Name
    deliberate: bool
    cancelled: bool
    shown: Text


class Observed(Wire):
    """One call of a hook, as seen where it runs.

    Attributes:
        executed: whether any of its code ran.
        ended: whether it ended.
        cancelled: whether it was cancelled before it ended.
        returned: whether it returned, even so.
        answer: the type of what it returned.
        odd: what a guardrail answered, where that is no answer.
        changed: whether it changed what it was given.
        read: paths of the parameters it read.
        tasks: those of its tasks that still run.
    """

    executed: bool = False
    ended: bool = False
    cancelled: bool = False
    returned: bool = False
    answer: Name = ""
    odd: Name = ""
    changed: bool = False
    raised: Raised | None = None
    read: Names = ()
    tasks: Names = ()
    seconds: float = 0.0


class Blocked(Wire):
    """How long a plugin held up the event loop of its host at a time, and where."""

    seconds: float
    where: Name


_LEDGER: Final = 32 << 20
_LARGE_AT_ONCE: Final = 4
# Many times a transaction, of which the rest is details, and what is remembered.
_MONEY: Final = 64 << 10
# A whole request over HTTP, and what is remembered.
_PAY: Final = 192 << 10
# A value and its key.
_STORED: Final = 32 << 10

OP_PERFORM = Method("op.perform", Perform, Record, most=_MONEY)
OP_TRANSACT = Method("op.transact", Transact, Record, most=_MONEY)
OP_POCKET = Method("op.pocket", Pocket, Record, most=_MONEY)
OP_PAY = Method("op.pay", Pay, PaidAnswer, _BIG, most=_PAY)
OP_QUOTE = Method("op.quote", QuoteParams, Quote, most=_MONEY)
OP_HISTORY = Method("op.history", HistoryRequest, FoundRecords, _BIG, most=_STORED)
STORE_GET = Method("store.get", StoreKey, FoundEntry, most=_STORED)
STORE_PUT = Method("store.put", Put, Entry, most=_STORED)
STORE_DELETE = Method("store.delete", StoreDelete, Deleted, most=_STORED)
STORE_LIST = Method("store.list", StoreList, FoundEntries, _BIG, most=_STORED)
LEDGER_BALANCE = Method("ledger.balance", AtAddress, Amount)
LEDGER_ACCOUNT = Method("ledger.account", AtAddress, FoundAccount, _LEDGER, _LARGE_AT_ONCE)
LEDGER_ACCOUNTS = Method("ledger.accounts", ManyAddresses, FoundAccounts, _LEDGER, _LARGE_AT_ONCE)
LEDGER_HOLDINGS = Method("ledger.holdings", AtAddress, Holdings, _LEDGER, _LARGE_AT_ONCE)
LEDGER_SLOT = Method("ledger.slot", Empty, Amount)
LEDGER_RENT_EXEMPT_MINIMUM = Method("ledger.rent_exempt_minimum", Size, Amount)
LEDGER_PROGRAM_ACCOUNTS = Method(
    "ledger.program_accounts", ProgramAccounts, FoundAccounts, _LEDGER, _LARGE_AT_ONCE
)
LEDGER_STAKE_MINIMUM_DELEGATION = Method("ledger.stake_minimum_delegation", Empty, Amount)
LEDGER_VOTE_ACCOUNTS = Method("ledger.vote_accounts", Empty, VoteAccounts, _LEDGER, _LARGE_AT_ONCE)
HTTP_REQUEST = StreamMethod("http.request", HttpRequest, HttpPiece, HttpBody)
KIT_OBSERVED = Method("kit.observed", CallNumber, Observed)
KIT_BLOCKED = Method("kit.blocked", Empty, Blocked)

METHODS: Final[Mapping[str, AnyMethod]] = MappingProxyType(
    {
        each.name: each
        for each in list(globals().values())
        if isinstance(each, Method | StreamMethod)
    }
)
