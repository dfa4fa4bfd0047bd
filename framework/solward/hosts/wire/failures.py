"""Errors by their code: what one end raises, the other raises as the same class of `errors`."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from solward.hosts.wire.values import (
    HOLD,
    RECORD,
    USAGE,
    Convert,
    HeldTransaction,
    Json,
    Record,
    Unreadable,
    Usage,
    Wire,
    from_json,
    to_json,
)
from solward.types import errors
from solward.types.errors import SolwardError

_MAX_TEXT: Final = 2_000

# The order is that of the classes: the first that an exception is one of.
HTTP_BY_NAME: Final = MappingProxyType(
    {
        "ConnectTimeout": "http_connect_timeout",
        "ReadTimeout": "http_read_timeout",
        "WriteTimeout": "http_write_timeout",
        "PoolTimeout": "http_pool_timeout",
        "ConnectError": "http_connect_error",
        "ReadError": "http_read_error",
        "WriteError": "http_write_error",
        "LocalProtocolError": "http_local_protocol_error",
        "RemoteProtocolError": "http_remote_protocol_error",
    }
)
HTTP_BY_CODE: Final = MappingProxyType({code: name for name, code in HTTP_BY_NAME.items()})


class HostBug(Exception):
    """A plugin, or its host, raised what is no deliberate error; says its type and nothing else."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name


class ErrorData(Wire):
    """The attributes of an error beside its text; those of other classes are left out."""

    code: Annotated[str, Meta(max_length=200)] | None = None
    rule: Annotated[str, Meta(max_length=200)] | None = None
    reason: Annotated[str, Meta(max_length=_MAX_TEXT)] | None = None
    record: Record | None = None
    hold: HeldTransaction | None = None
    version: int | None = None
    retryable: bool = False
    may_cost: bool = False
    rpc_code: int | None = None
    rpc_data: Json | None = None
    said: Annotated[str, Meta(max_length=_MAX_TEXT)] | None = None
    usage: Usage | None = None


# Each class of `errors` that travels, and its attributes: theirs -> ours. One that is left out
# travels as the nearest class above it.
_ATTRIBUTES: Final[dict[type[SolwardError], dict[str, str]]] = {
    errors.SkillError: {"code": "code"},
    errors.PaymentRefused: {"code": "code", "reason": "reason"},
    errors.GuardrailBlocked: {"rule": "rule", "reason": "reason"},
    errors.TransactionError: {"record": "record"},
    errors.Held: {"hold": "hold"},
    errors.PolicyChanged: {"version": "version"},
    errors.ProviderError: {"retryable": "retryable", "may_cost": "may_cost", "usage": "usage"},
    errors.ModelRefused: {"reason": "reason", "said": "said"},
    errors.LedgerRejected: {"code": "rpc_code", "data": "rpc_data"},
}
# They may be None, and are left out where they cannot travel; without another one the error is
# unreadable.
_OPTIONAL: Final = frozenset({"rpc_data", "usage"})
# It carries an object of the registry.
_STAYS = {errors.PluginError}
_BY_CODE: Final[dict[str, type[SolwardError]]] = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, SolwardError) and found not in _STAYS
}
BUG: Final = "bug"
_DECODER: Final = msgspec.msgpack.Decoder(ErrorData)
_MAX_DATA: Final = 160 << 10
_THERE: Final[dict[str, Convert]] = {
    "record": RECORD.to_wire,
    "hold": HOLD.to_wire,
    "rpc_data": to_json,
    "usage": USAGE.to_wire,
}
_BACK: Final[dict[str, Convert]] = {
    "record": RECORD.from_wire,
    "hold": HOLD.from_wire,
    "rpc_data": from_json,
    "usage": USAGE.from_wire,
}


def to_wire(error: BaseException) -> tuple[str, str, ErrorData | None]:
    """Code, text and attributes of an error as they travel; of a bug its type's name alone."""
    if isinstance(error, SolwardError):
        # A plugin's error may hold anything, and its text may be made by its own code.
        try:
            text = shortened(str(error))
        except Exception:
            return BUG, _name(type(error).__name__), None
        kind = next(each for each in type(error).__mro__ if _BY_CODE.get(each.__name__) is each)
        for without in (frozenset[str](), _OPTIONAL):
            with suppress(Exception):
                data = _data(error, kind, without)
                from_wire(kind.__name__, text, data)
                return kind.__name__, text, data
        return SolwardError.__name__, text, None
    name = error.type_name if isinstance(error, HostBug) else type(error).__name__
    return BUG, _name(name), None


def from_wire(code: str, text: str, data: ErrorData | None) -> SolwardError | HostBug:
    """The error, of its class in `errors`, or a `HostBug`.

    Raises:
        Unreadable: a code that is none, or attributes that are not those of its class.
    """
    if code == BUG:
        return HostBug(_name(text))
    kind = _BY_CODE.get(code)
    if kind is None:
        raise Unreadable("no error has this code")
    # Their constructors make the text from other values, which it was made from already.
    error = kind.__new__(kind, text)
    error.args = (text,)
    for own, there in _attributes(kind).items():
        value = getattr(data or ErrorData(), there)
        if value is None and there not in _OPTIONAL:
            raise Unreadable(f"{code} without {there}")
        if value is not None and there in _BACK:
            value = _BACK[there](value)
        setattr(error, own, value)
    return error


def _attributes(kind: type[SolwardError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in kind.__mro__:
        found |= _ATTRIBUTES.get(each, {})
    return found


def _data(
    error: SolwardError, kind: type[SolwardError], without: frozenset[str]
) -> ErrorData | None:
    """The attributes, but for those of `without`, as the other end will read them."""
    given = {
        there: _sent(there, getattr(error, own))
        for own, there in _attributes(kind).items()
        if there not in without and getattr(error, own) is not None
    }
    if "usage" in without and getattr(error, "usage", None) is not None:
        # The vendor counted something, and nobody knows what.
        given["may_cost"] = True
    if not given:
        return None
    body = msgspec.msgpack.encode(ErrorData(**given))
    if len(body) > _MAX_DATA:
        raise ValueError("too large")
    return _DECODER.decode(body)


def _sent(name: str, value: Any) -> Any:
    if isinstance(value, str) and name not in _THERE:
        return shortened(value)
    return _THERE[name](value) if name in _THERE else value


def shortened(text: str) -> str:
    """Exact, short, and without what is not UTF-8."""
    return text[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _name(text: str) -> str:
    return text[:100] if text.isidentifier() else "Exception"
