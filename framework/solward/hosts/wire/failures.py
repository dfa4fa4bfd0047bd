"""Errors by their code: one end raises the same class of `errors` as the other end did."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from solward.hosts.wire.values import Codec, Unreadable
from solward.types import errors
from solward.types.bounds import Name
from solward.types.errors import SolwardError
from solward.types.provider import Usage
from solward.types.record import Hold, TransactionRecord

_MAX_TEXT: Final = 2_000

# The name of each failure of a request in httpx and httpcore, and a text of our own, because theirs
# may quote headers. The first class of which an exception is an instance counts.
HTTP_FAILURES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "http_connect_timeout": ("ConnectTimeout", "The site could not be reached in time"),
        "http_read_timeout": ("ReadTimeout", "The site did not answer in time"),
        "http_write_timeout": ("WriteTimeout", "The request could not be sent in time"),
        "http_pool_timeout": ("PoolTimeout", "No connection was free in time"),
        "http_connect_error": ("ConnectError", "The site could not be reached"),
        "http_read_error": ("ReadError", "The connection ended before the answer was complete"),
        "http_write_error": ("WriteError", "The connection ended before the request was sent"),
        "http_local_protocol_error": ("LocalProtocolError", "The request is not valid HTTP"),
        "http_remote_protocol_error": ("RemoteProtocolError", "The answer is not valid HTTP"),
    }
)


class HostBug(Exception):
    """An unexpected error of a plugin or its host, of which only the type's name is known."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name


_Short = Annotated[str, Meta(max_length=_MAX_TEXT)]
# The attributes of each class of `errors`, without the text. An error of a class that is not here
# travels as the nearest class above it.
_ATTRIBUTES: Final[dict[type[SolwardError], dict[str, Any]]] = {
    errors.SkillError: {"code": Name},
    errors.PaymentRefused: {"code": Name, "reason": _Short},
    errors.GuardrailBlocked: {"rule": Name, "reason": _Short},
    errors.TransactionError: {"record": TransactionRecord},
    errors.Held: {"hold": Hold},
    errors.PolicyChanged: {"version": int},
    errors.ProviderError: {"retryable": bool, "may_cost": bool, "usage": Usage | None},
    errors.ModelRefused: {"reason": _Short, "said": _Short},
    errors.LedgerRejected: {"code": int, "data": Any},
}
# Attributes that are left out if they cannot travel.
_OPTIONAL: Final = ("data", "usage")
# A `PluginError` carries an object of the registry.
_STAYS = {errors.PluginError}
_BY_CODE: Final[dict[str, type[SolwardError]]] = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, SolwardError) and found not in _STAYS
}
BUG: Final = "bug"
_MAX_DATA: Final = 160 << 10
_NIL: Final = msgspec.Raw(msgspec.msgpack.encode(None))


def _class_attributes(kind: type[SolwardError]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        found = {**_ATTRIBUTES.get(each, {}), **found}
    return found


_CODECS: Final = {
    kind: Codec(name, _class_attributes(kind), _MAX_DATA)
    for name, kind in _BY_CODE.items()
    if _class_attributes(kind)
}


def to_wire(error: BaseException) -> tuple[str, str, msgspec.Raw]:
    """Return code, text and attributes of an error; for a bug, only the name of its type."""
    if isinstance(error, SolwardError):
        # A plugin's error may hold anything, and its text may be made by its own code.
        try:
            text = shortened(str(error))
        except Exception:
            return BUG, _type_name(type(error).__name__), _NIL
        kind = next(each for each in type(error).__mro__ if _BY_CODE.get(each.__name__) is each)
        for whole in (True, False):
            with suppress(Exception):
                return kind.__name__, text, _encode_data(error, kind, whole=whole)
        return SolwardError.__name__, text, _NIL
    name = error.type_name if isinstance(error, HostBug) else type(error).__name__
    return BUG, _type_name(name), _NIL


def from_wire(code: str, text: str, data: msgspec.Raw) -> SolwardError | HostBug:
    """Return the error, of its class in `errors`, or a `HostBug`.

    Raises:
        Unreadable, HostileFrame: if the code is unknown, or the attributes are not those of its
            class.
    """
    kind = _BY_CODE.get(code)
    codec = None if kind is None else _CODECS.get(kind)
    if codec is None and data != _NIL:
        raise Unreadable(f"{code} has no attributes")
    if code == BUG:
        return HostBug(_type_name(text))
    if kind is None:
        raise Unreadable("no error has this code")
    # No constructor, because it would make the text a second time from other values.
    error = kind.__new__(kind, text)
    error.args = (text,)
    for name, value in ({} if codec is None else codec.convert(codec.read(data))).items():
        setattr(error, name, value)
    return error


def _encode_data(error: SolwardError, kind: type[SolwardError], *, whole: bool) -> msgspec.Raw:
    """Return an error's attributes as msgpack; optional attributes only if `whole`."""
    codec = _CODECS.get(kind)
    if codec is None:
        return _NIL
    values = {name: _wire_value(getattr(error, name)) for name in _class_attributes(kind)}
    for name in () if whole else set(_OPTIONAL) & set(values):
        if name == "usage" and values[name] is not None:
            # The usage is lost, so that the call may have cost something.
            values["may_cost"] = True
        values[name] = None
    body = codec.write(values)
    codec.convert(codec.read(body))
    return msgspec.Raw(body)


def _wire_value(value: Any) -> Any:
    return shortened(value) if isinstance(value, str) else value


def shortened(text: str) -> str:
    """Return a text cut to the allowed length, an exact `str` that is valid UTF-8."""
    return text[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _type_name(text: str) -> str:
    return text[:100] if text.isidentifier() else "Exception"
