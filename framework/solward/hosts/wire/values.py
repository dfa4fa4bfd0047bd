"""What travels, as strict structs, and as Solward's own dataclasses on either side.

A struct has the fields of its dataclass under the same names, so a `Pair` converts by the struct's
types; what arrives is of exact built-in types. JSON-like values travel as JSON text.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from solward import context
from solward.solana import token_list
from solward.solana.protocol import MAX_V1_WIRE_BYTES
from solward.support import jsontext
from solward.types import (
    entries,
    guardrail,
    ledger,
    manifest,
    paid,
    payment,
    provider,
    record,
    skill,
    venue,
)
from solward.types.errors import InvalidRequest

if TYPE_CHECKING:
    from solders.instruction import Instruction as SoldersInstruction

W = TypeVar("W", bound="Wire")
D = TypeVar("D")

_MAX_ITEMS: Final = 1_024
_JSON: Final = "json"


class Unreadable(ValueError):
    """A struct that fits its types, with a value inside that cannot be what it stands for."""


class Wire(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every struct that travels."""


Name = Annotated[str, Meta(max_length=200)]
Address = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=128 << 10)]
_MAX_LONG: Final = 4 << 20
LongText = Annotated[str, Meta(max_length=_MAX_LONG)]
Json = Annotated[str, Meta(max_length=128 << 10, extra={_JSON: True})]
"""A JSON-like value as JSON text."""
LongJson = Annotated[str, Meta(max_length=_MAX_LONG, extra={_JSON: True})]
"""The same, for what the service sends."""
Bytes = Annotated[bytes, Meta(max_length=MAX_V1_WIRE_BYTES)]
Natural = Annotated[int, Meta(ge=0)]
"""0 to 2**64 - 1."""
Units = Annotated[dict[Address, int], Meta(max_length=_MAX_ITEMS)]
Addresses = Annotated[tuple[Address, ...], Meta(max_length=_MAX_ITEMS)]
AddressSet = Annotated[frozenset[Address], Meta(max_length=_MAX_ITEMS)]
AddressMap = Annotated[dict[Address, Address], Meta(max_length=_MAX_ITEMS)]
Names = Annotated[tuple[Name, ...], Meta(max_length=_MAX_ITEMS)]


class Empty(Wire):
    """Nothing."""


# Transactions.


class Intent(Wire):
    type: Name
    wallet: Address
    lamports_out: int = 0
    rent_lamports: int = 0
    tokens_out: Units = msgspec.field(default_factory=dict)
    tokens_in: Units = msgspec.field(default_factory=dict)
    destinations: AddressSet = frozenset()
    may_close: AddressSet = frozenset()
    may_revoke: AddressSet = frozenset()
    details: Json = "{}"
    price_impact_bps: int | None = None
    slippage_bps: int | None = None


class GuardrailHold(Wire):
    reason: Text


class Charged(Wire):
    who: Name
    grant: Name
    asset: Address
    units: int


class Request(Wire):
    wallet: Name
    agent: Name | None = None
    key: Name | None = None
    skill: Name | None = None
    plugin: Name | None = None
    charged: tuple[Charged, ...] = ()


class Line(Wire):
    operation: guardrail.Operation
    asset: Address
    units: int
    account: Name | None = None
    owner: Address | None = None
    decimals: int | None = None
    program: Address | None = None


class Outflow(Wire):
    lamports: int
    fee_lamports: int
    rent_lamports: int
    tokens: Units = msgspec.field(default_factory=dict)
    lines: Annotated[tuple[Line, ...], Meta(max_length=_MAX_ITEMS)] = ()


class AuthorityChange(Wire):
    kind: Name
    account: Address
    to: Address | None


class TransactionEffects(Wire):
    lamports_out: int
    fee_lamports: int
    rent_lamports: int = 0
    accounts_created: int = 0
    tokens_out: Units = msgspec.field(default_factory=dict)
    tokens_in: Units = msgspec.field(default_factory=dict)
    closed: AddressMap = {}
    authority_changes: tuple[AuthorityChange, ...] = ()
    programs: AddressSet = frozenset()
    # Keys inside instruction data are among them: some ten for each hundred bytes.
    addresses: Annotated[frozenset[Address], Meta(max_length=16 * _MAX_ITEMS)] = frozenset()
    violations: tuple[tuple[Name, Text], ...] = ()
    created: AddressMap = {}
    instruction_data: tuple[bytes, ...] = ()
    decimals: Units = msgspec.field(default_factory=dict)
    outflow: Outflow | None = None
    tied: bool = True
    request: Request | None = None


class Record(Wire):
    id: Name
    wallet_id: Name
    type: Name
    status: record.TransactionStatus
    details: Json
    guardrails_applied: Names
    created_ms: int
    principal: Name
    agent_id: Name | None = None
    signature: Name | None = None
    error: Text | None = None
    fee_lamports: int | None = None
    compute_units: int | None = None
    compute_unit_limit: int | None = None
    compute_unit_price: int | None = None
    retry_after_s: int | None = None


class PaymentView(Wire):
    id: Name
    wallet_id: Name
    status: record.TransactionStatus
    state: paid.PaymentState
    served: payment.Served
    protocol: Name
    mode: payment.PaymentMode
    site: Text
    url: Text
    method: Name
    asset: Address
    amount: Decimal
    pay_to: Address
    created_ms: int
    symbol: Name | None = None
    signature: Name | None = None
    error: Text | None = None


class PaidAnswer(Wire):
    status: int
    headers: Annotated[tuple[tuple[Text, Text], ...], Meta(max_length=_MAX_ITEMS)]
    body: Annotated[bytes, Meta(max_length=1 << 20)]
    payment: PaymentView | None
    truncated: bool = False


class HeldTransaction(Wire):
    id: Name
    wallet_id: Name
    agent_id: Name | None
    principal: Name
    chain: Names
    type: Name
    state: record.HoldState
    sentence: Text
    reasons: Annotated[tuple[Text, ...], Meta(max_length=_MAX_ITEMS)]
    lines: Annotated[tuple[Json, ...], Meta(max_length=_MAX_ITEMS)]
    costs_lamports: int
    arrives: Units
    details: Json
    repeats: bool
    created_ms: int
    expires_ms: int
    decided_by: Name | None = None
    decided_ms: int | None = None
    note: Text | None = None
    transaction_id: Name | None = None


class AccountMeta(Wire):
    address: Address
    signer: bool
    writable: bool


class Instruction(Wire):
    program: Address
    accounts: Annotated[tuple[AccountMeta, ...], Meta(max_length=256)]
    data: Annotated[bytes, Meta(max_length=10 << 10)]


Instructions = Annotated[tuple[Instruction, ...], Meta(max_length=64)]


# Declarations.


class Secret(Wire):
    env: Name
    site: Name
    in_query: bool = False


class Manifest(Wire):
    sites: Names = ()
    operations: Names | None = None
    assets: Names | None = None
    storage_mb: int = 0
    secrets: Annotated[tuple[Secret, ...], Meta(max_length=_MAX_ITEMS)] = ()


class SkillSpec(Wire, tag="skill"):
    name: Name
    description: Text
    parameters: Json
    effects: skill.Effects = skill.Effects.READ
    timeout_s: float = 60.0
    examples: Annotated[tuple[Json, ...], Meta(max_length=64)] = ()
    manifest: Manifest | None = None
    settings: Json | None = None


class ProviderSpec(Wire, tag="provider"):
    name: Name
    default_model: Name
    options: Json
    secret_env: Name | None = None
    base_url_env: Name | None = None
    is_llm: bool = True
    demo: bool = False
    manifest: Manifest | None = None


class VenueSpec(Wire, tag="venue"):
    name: Name
    manifest: Manifest | None = None
    base_url: Text | None = None
    base_url_env: Name | None = None
    secret_env: Name | None = None
    pools_env: Name | None = None


# Language models.


Tokens = Annotated[int, Meta(ge=0, le=provider.MAX_TOKENS)]
NanoUsd = Annotated[int, Meta(ge=0, le=provider.MAX_NANOUSD)]


class Usage(Wire):
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cost_nanousd: NanoUsd | None = None


class ToolCall(Wire):
    name: Name
    arguments: LongJson


class Completion(Wire):
    text: LongText | None
    tool_calls: Annotated[tuple[ToolCall, ...], Meta(max_length=_MAX_ITEMS)] = ()
    usage: Usage | None = None


class ModelPrice(Wire):
    input_nanousd: NanoUsd
    output_nanousd: NanoUsd
    max_output_tokens: Tokens


class Message(Wire):
    role: Name
    content: LongText


class ToolDefinition(Wire):
    name: Name
    description: Text
    parameters: Json


class CompletionRequest(Wire):
    model: Name
    system: LongText
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    observation: LongJson = "{}"
    strategy: LongText = ""
    max_output_tokens: int | None = None


# Venues.


class QuoteRequest(Wire):
    input_mint: Address
    output_mint: Address
    amount: int
    slippage_bps: int


class Quote(Wire):
    input_mint: Address
    output_mint: Address
    in_amount: int
    out_amount: int
    minimum_out: int
    slippage_bps: int
    price_impact: Decimal
    raw: Json = "{}"


class SwapInstructions(Wire):
    quote: Quote
    swap: Instruction
    accounts: Addresses = ()
    tables: Annotated[
        dict[Address, Annotated[tuple[Address, ...], Meta(max_length=256)]], Meta(max_length=64)
    ] = {}
    compute_units: int | None = None


class SwapTransaction(Wire):
    wire: Bytes
    last_valid_block_height: int


# Payment protocols.


class PaymentSpec(Wire, tag="payment"):
    name: Name


class HttpAnswer(Wire):
    """An answer of a seller, given to a protocol."""

    url: Text
    method: Name
    status: int
    headers: Annotated[tuple[tuple[Text, Text], ...], Meta(max_length=_MAX_ITEMS)] = ()
    body: Annotated[bytes, Meta(max_length=4 << 20)] = b""


class PaymentSplit(Wire):
    recipient: Address
    units: Natural


class PaymentOffer(Wire):
    network: Name
    asset: Address
    units: Natural
    pay_to: Address
    modes: Annotated[tuple[payment.PaymentMode, ...], Meta(max_length=8)]
    fee_payer: Address | None = None
    memo: Text | None = None
    nonce_memo: bool = False
    splits: Annotated[tuple[PaymentSplit, ...], Meta(max_length=64)] = ()
    opens_accounts: bool = False
    decimals: int | None = None
    token_program: Address | None = None
    most_compute_units: Natural = 1_400_000
    most_unit_price: Natural = 5_000_000
    expires_ms: int | None = None
    resource: Text | None = None
    description: Text = ""
    raw: Json = "{}"


class PaymentProof(Wire):
    mode: payment.PaymentMode
    payer: Address
    wire: Bytes | None = None
    signature: Name | None = None


class PaymentReceipt(Wire):
    signature: Name | None = None
    reason: Text | None = None


# The ledger, and what a skill sees of its call.


class Account(Wire):
    lamports: int
    owner: Address
    data: bytes


class Put(Wire):
    key: Name
    value: Json
    version: int | None = None


class Entry(Wire):
    key: Name
    value: Json
    version: int
    changed_ms: int
    transaction_id: Name | None = None
    status: record.TransactionStatus | None = None


class HistoryRequest(Wire):
    type: Name | None = None
    status: Name | None = None
    since_ms: int | None = None
    before: Name | None = None
    limit: int = 50


class TokenHolding(Wire):
    account: Address
    mint: Address
    program: Address
    units: int
    decimals: int


class VoteAccount(Wire):
    address: Address
    activated_stake: int
    commission_percent: int = 100
    epoch_credits: Annotated[tuple[tuple[int, int], ...], Meta(max_length=64)] = ()


class KnownToken(Wire):
    symbol: Name
    mint: Address
    decimals: int


class WalletView(Wire):
    id: Name
    name: Text
    address: Address


class AgentView(Wire):
    id: Name
    name: Text


# Conversion.


def to_json(value: object) -> str:
    """A JSON-like value as text.

    Raises:
        InvalidRequest: it is none, or nested too deep.
    """
    try:
        plain = _plain(value)
        if unfit := jsontext.unfit(plain, has_nul=True):
            raise ValueError(unfit)
        return jsontext.dumps(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None


def from_json(text: str) -> Any:
    """The value of JSON text; fractions are Decimal.

    Raises:
        Unreadable: it is no JSON, nested too deep, or has text or a number that nobody can store.
    """
    try:
        return jsontext.read(text, has_nul=True)
    except (jsontext.DuplicateKey, jsontext.Unfit) as error:
        raise Unreadable(f"not storable JSON: {error}") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {type(error).__name__}") from None


def instruction_to_wire(instruction: SoldersInstruction) -> Instruction:
    """An instruction of solders as it travels."""
    return Instruction(
        str(instruction.program_id),
        tuple(
            AccountMeta(str(each.pubkey), each.is_signer, each.is_writable)
            for each in instruction.accounts
        ),
        bytes(instruction.data),
    )


def instruction_from_wire(wire: Instruction) -> SoldersInstruction:
    """The instruction, as solders has it.

    Raises:
        Unreadable: a text that is no address.
    """
    from solders.instruction import AccountMeta as SoldersMeta
    from solders.instruction import Instruction as SoldersInstruction
    from solders.pubkey import Pubkey

    try:
        return SoldersInstruction(
            Pubkey.from_string(wire.program),
            wire.data,
            [
                SoldersMeta(Pubkey.from_string(each.address), each.signer, each.writable)
                for each in wire.accounts
            ],
        )
    except ValueError:
        raise Unreadable("an instruction names what is no address") from None


_MOST_METAS: Final = 256
"""Accounts that all instructions of a transaction name: each takes a byte of it, and more."""


def instructions_from_wire(wires: tuple[Instruction, ...]) -> tuple[SoldersInstruction, ...]:
    """The instructions of one transaction.

    Raises:
        InvalidRequest: more accounts than any transaction has.
        Unreadable: a text that is no address.
    """
    if sum(len(each.accounts) for each in wires) > _MOST_METAS:
        raise InvalidRequest(f"instructions may name at most {_MOST_METAS} accounts together")
    return tuple(map(instruction_from_wire, wires))


Convert = Callable[[Any], Any]


class Pair(Generic[D, W]):
    """A dataclass and the struct it travels as, with the same fields."""

    def __init__(self, own: type[D], wire: type[W]) -> None:
        self.own = own
        self.wire = wire
        hints = typing.get_type_hints(wire, include_extras=True)
        self._out: list[tuple[str, Convert | None]] = []
        self._in: list[tuple[str, Convert | None]] = []
        for name in wire.__struct_fields__:
            there, back = _conversion(hints[name])
            self._out.append((name, there))
            self._in.append((name, back))
        _PAIRS[wire] = self

    def to_wire(self, value: D) -> W:
        """As it travels.

        Raises:
            InvalidRequest: a value inside that is not JSON-like where it must be.
        """
        return self.wire(**_converted(value, self._out))

    def from_wire(self, wire: W) -> D:
        """As Solward has it, of exact built-in types.

        Raises:
            Unreadable: JSON text that is no JSON, or a text that is no address.
        """
        return self.own(**_converted(wire, self._in))


class _ToolPair(Pair[provider.ToolDefinition, "ToolDefinition"]):
    """Definitions of tools, each written and read once: agents send the same ones each time."""

    def __init__(self) -> None:
        super().__init__(provider.ToolDefinition, ToolDefinition)
        # By identity, which holds as the definition is kept beside what was written of it.
        self._written: dict[int, tuple[provider.ToolDefinition, ToolDefinition]] = {}
        self._read: dict[tuple[str, str, str], provider.ToolDefinition] = {}

    def to_wire(self, value: provider.ToolDefinition) -> ToolDefinition:
        found = self._written.get(id(value))
        if found is None:
            found = (value, super().to_wire(value))
            _keep(self._written, id(value), found)
        return found[1]

    def from_wire(self, wire: ToolDefinition) -> provider.ToolDefinition:
        known = (wire.name, wire.description, wire.parameters)
        found = self._read.get(known)
        if found is None:
            found = super().from_wire(wire)
            _keep(self._read, known, found)
        return found


class _CallPair(Pair[provider.ToolCall, "ToolCall"]):
    """A model's tool call. Arguments that cannot travel become text that is no JSON, which the
    agent does not run: the rest of the answer is read."""

    def to_wire(self, value: provider.ToolCall) -> ToolCall:
        try:
            return ToolCall(value.name, to_json(value.arguments))
        except InvalidRequest:
            return ToolCall(value.name, _NO_JSON)


class _CompletionPair(Pair[provider.Completion, "Completion"]):
    """A model's answer. Arguments that are too long together are as those that cannot travel."""

    def to_wire(self, value: provider.Completion) -> Completion:
        made = super().to_wire(value)
        calls, room = [], _MAX_ARGUMENTS
        for call in made.tool_calls:
            size = len(call.arguments.encode())
            fits = size <= room
            room -= size if fits else len(_NO_JSON)
            calls.append(call if fits else ToolCall(call.name, _NO_JSON))
        return Completion(made.text, tuple(calls), made.usage)


_NO_JSON: Final = '"unreadable"'
# Bytes, in an answer of 4 MiB at most: its text and names are less than the other half.
_MAX_ARGUMENTS: Final = 2 << 20
_KEPT_TOOLS: Final = 1_024


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    if len(kept) >= _KEPT_TOOLS:
        kept.clear()
    kept[key] = value


def _converted(value: object, fields: list[tuple[str, Convert | None]]) -> dict[str, Any]:
    return {
        name: getattr(value, name) if convert is None else convert(getattr(value, name))
        for name, convert in fields
    }


_PAIRS: dict[type, Pair[Any, Any]] = {}
_Both = tuple[Convert | None, Convert | None]


def _conversion(hint: Any) -> _Both:
    """How a field of this type is converted, there and back; None: not at all."""
    inner: Any = hint
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        inner, marks = hint.__origin__, hint.__metadata__
    if any(isinstance(mark, Meta) and (mark.extra or {}).get(_JSON) for mark in marks):
        return to_json, from_json
    if inner is Instruction:
        return instruction_to_wire, instruction_from_wire
    if inner in _PAIRS:
        return _PAIRS[inner].to_wire, _PAIRS[inner].from_wire
    if isinstance(inner, type) and issubclass(inner, Wire):
        raise TypeError(f"{inner.__name__} needs its Pair before those that hold it")
    if inner is Decimal:
        return None, _finite
    origin, arguments = typing.get_origin(inner), typing.get_args(inner)
    if origin in (types.UnionType, typing.Union):
        [some] = [each for each in arguments if each is not types.NoneType]
        there, back = _conversion(some)
        return _optional(there), _optional(back)
    if origin is dict:
        there, back = _conversion(arguments[1])
        return _each_value(there), _each_value(back)
    if origin is frozenset:
        return frozenset, None
    if origin is tuple and arguments[-1] is Ellipsis:
        there, back = _conversion(arguments[0])
        return _each(there), None if back is None else _each(back)
    return None, None


def _optional(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert | None) -> Convert:
    if convert is None:
        return tuple
    return lambda values: tuple(map(convert, values))


def _each_value(convert: Convert | None) -> Convert:
    if convert is None:
        return dict
    return lambda values: {key: convert(value) for key, value in values.items()}


# More digits or a larger power of ten than any amount or price has, which arithmetic would write
# out in full.
_MAX_POWER: Final = 100


def _finite(value: Decimal) -> Decimal:
    if not value.is_finite() or abs(value.adjusted()) > _MAX_POWER:
        raise Unreadable("a number is not finite, or out of any range")
    return value


def _plain(value: object) -> object:
    """JSON-like data of exact built-in types; anything else is returned as it is."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"{value} is no number of JSON")
    return value


INTENT = Pair(guardrail.Intent, Intent)
CHARGED = Pair(guardrail.Charged, Charged)
REQUEST = Pair(guardrail.Request, Request)
LINE = Pair(guardrail.Line, Line)
OUTFLOW = Pair(guardrail.Outflow, Outflow)
AUTHORITY_CHANGE = Pair(guardrail.AuthorityChange, AuthorityChange)
EFFECTS = Pair(guardrail.TransactionEffects, TransactionEffects)
GUARDRAIL_HOLD = Pair(guardrail.Hold, GuardrailHold)
RECORD = Pair(record.TransactionRecord, Record)
PAYMENT_VIEW = Pair(paid.PaymentView, PaymentView)
PAID_ANSWER = Pair(paid.PaidAnswer, PaidAnswer)
HOLD = Pair(record.Hold, HeldTransaction)
SECRET = Pair(manifest.Secret, Secret)
MANIFEST = Pair(manifest.Manifest, Manifest)
SKILL_SPEC = Pair(skill.SkillSpec, SkillSpec)
PROVIDER_SPEC = Pair(provider.ProviderSpec, ProviderSpec)
VENUE_SPEC = Pair(venue.VenueSpec, VenueSpec)
USAGE = Pair(provider.Usage, Usage)
TOOL_CALL = _CallPair(provider.ToolCall, ToolCall)
COMPLETION = _CompletionPair(provider.Completion, Completion)
MODEL_PRICE = Pair(provider.ModelPrice, ModelPrice)
MESSAGE = Pair(provider.Message, Message)
TOOL_DEFINITION = _ToolPair()
COMPLETION_REQUEST = Pair(provider.CompletionRequest, CompletionRequest)
ACCOUNT = Pair(ledger.Account, Account)
TOKEN_HOLDING = Pair(ledger.TokenHolding, TokenHolding)
VOTE_ACCOUNT = Pair(ledger.VoteAccount, VoteAccount)
KNOWN_TOKEN = Pair(token_list.KnownToken, KnownToken)
PUT = Pair(entries.Put, Put)
ENTRY = Pair(entries.Entry, Entry)
HISTORY_REQUEST = Pair(entries.HistoryRequest, HistoryRequest)
WALLET_VIEW = Pair(context.WalletView, WalletView)
AGENT_VIEW = Pair(context.AgentView, AgentView)
QUOTE_REQUEST = Pair(venue.QuoteRequest, QuoteRequest)
QUOTE = Pair(venue.Quote, Quote)
SWAP_INSTRUCTIONS = Pair(venue.SwapInstructions, SwapInstructions)
SWAP_TRANSACTION = Pair(venue.SwapTransaction, SwapTransaction)
PAYMENT_SPEC = Pair(payment.PaymentSpec, PaymentSpec)
HTTP_ANSWER = Pair(payment.HttpAnswer, HttpAnswer)
PAYMENT_SPLIT = Pair(payment.PaymentSplit, PaymentSplit)
PAYMENT_OFFER = Pair(payment.PaymentOffer, PaymentOffer)
PAYMENT_PROOF = Pair(payment.PaymentProof, PaymentProof)
PAYMENT_RECEIPT = Pair(payment.PaymentReceipt, PaymentReceipt)
