"""The entries that a plugin stores for a wallet, each with a key, a JSON value and a version; and a
plugin's requests for the wallet's records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from solward.support import jsontext
from solward.types.bounds import Name
from solward.types.errors import InvalidRequest
from solward.types.record import TransactionStatus, TransactionType

MAX_KEY: Final = 200
"""The maximum characters of a key."""
MAX_LISTED: Final = 200
"""The maximum number of entries of one `Store.list`."""
MAX_REMEMBERED: Final = 16
"""The maximum number of entries that one money call writes."""
MAX_DEPTH: Final = 32
"""The maximum levels of a value; a caller's recursion may fail on more."""
MAX_RECORDS: Final = 100
"""The maximum number of records of one `SkillContext.history`."""
# The largest whole number that every JSON parser reads exactly.
_MAX_WHOLE: Final = 2**53 - 1

# Keys are printable ASCII without spaces. So a key has one spelling, sorts equally in every
# database, and has no character that a path, a log line or a terminal interprets.
_KEY: Final = re.compile(rf"[!-~]{{1,{MAX_KEY}}}")
_PREFIX: Final = re.compile(rf"[!-~]{{0,{MAX_KEY}}}")


@dataclass(frozen=True, slots=True)
class Put:
    """An entry for a money call to write, as `remember`. A money call takes up to 16.

    Attributes:
        key: 1 to 200 printable ASCII characters without spaces.
        value: JSON; a fraction is a `Decimal`.
        version: write only over this version; 0 if there must be no entry; None to overwrite.
    """

    key: Name
    value: Any
    version: int | None = None


Remember: TypeAlias = Put | Sequence[Put]
"""The entries that a money call writes: one, or up to 16 with different keys."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the store. `failed` is true if the money call that wrote it has failed: its
    transaction can no longer land.

    Attributes:
        version: grows with each write and is never used again, even after a deletion.
        changed_ms: time of the write, in milliseconds since the Unix epoch.
        transaction_id: id of the record whose money call wrote the entry; None if `put` wrote it.
        status: status of that record at the time of reading.
    """

    key: Name
    value: Any
    version: int
    changed_ms: int
    transaction_id: Name | None = None
    status: TransactionStatus | None = None

    @property
    def failed(self) -> bool:
        """True if the money call that wrote the entry failed, so that it can no longer land."""
        return self.status is TransactionStatus.FAILED


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A request for records: see `SkillContext.history`.

    Attributes:
        since_ms: milliseconds since the Unix epoch; older records are not returned.
        before: id of a record; only older records are returned.
    """

    type: str | None = None
    status: str | None = None
    since_ms: int | None = None
    before: str | None = None
    limit: int = 50

    def check(self) -> None:
        """Raise `InvalidRequest`, naming the first invalid field."""
        for field, value, known in (
            ("type", self.type, TransactionType),
            ("status", self.status, TransactionStatus),
        ):
            if value is not None and value not in tuple(known):
                raise InvalidRequest(f"{field} must be one of {', '.join(known)}, or None")
        if self.since_ms is not None and not _is_whole(self.since_ms, 0, _MAX_WHOLE):
            raise InvalidRequest(
                "since_ms must be milliseconds since the Unix epoch, a whole number, or None"
            )
        if self.before is not None and not (
            isinstance(self.before, str) and 0 < len(self.before) <= 64
        ):
            raise InvalidRequest("before must be the id of a record, or None")
        if not _is_whole(self.limit, 1, MAX_RECORDS):
            raise InvalidRequest(f"limit must be a whole number from 1 to {MAX_RECORDS}")


_KEYS: Final = f"text of 1 to {MAX_KEY} printable ASCII characters without spaces"


def checked_key(key: object, field: str = "key") -> str:
    """Return the key if it may be stored; raises `InvalidRequest`."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidRequest(f"{field} must be {_KEYS}")
    return key


def check_page(prefix: object, after: object, limit: object) -> None:
    """Raise `InvalidRequest` if a page of entries cannot be listed with these arguments."""
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(f"prefix must be {_KEYS}, or empty")
    if after is not None:
        checked_key(after, "after")
    if not _is_whole(limit, 1, MAX_LISTED):
        raise InvalidRequest(f"limit must be a whole number from 1 to {MAX_LISTED}")


def checked_put(put: object) -> Put:
    """Return a valid entry with its value copied to plain JSON types.

    Raises:
        InvalidRequest: names what does not fit.
    """
    if not isinstance(put, Put):
        raise InvalidRequest("remember must be a Put, or a list of them")
    key = checked_key(put.key)
    return Put(key, jsontext.loads(value_text(put.value)), checked_version(put.version))


def checked_remember(remember: object) -> tuple[Put, ...]:
    """Check the entries that a money call is to write.

    Raises:
        InvalidRequest: names what does not fit.
    """
    if isinstance(remember, Put):
        return (checked_put(remember),)
    if not isinstance(remember, list | tuple) or len(remember) > MAX_REMEMBERED:
        raise InvalidRequest(f"remember must be a Put, or at most {MAX_REMEMBERED} of them")
    puts = tuple(map(checked_put, remember))
    if len({put.key for put in puts}) < len(puts):
        raise InvalidRequest("remember must name each key once")
    return puts


def value_text(value: object) -> str:
    """Return a value as JSON text, which parses to the same value.

    Raises:
        InvalidRequest: it is not JSON-able, or nested too deep.
    """
    try:
        plain = _plain_value(value, MAX_DEPTH)
        text = jsontext.dumps(plain)
        text.encode()
        jsontext.loads(text)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidRequest(f"value must be JSON of at most {MAX_DEPTH} levels: {error}") from None
    return text


def _plain_value(value: object, depth: int) -> Any:
    """Return the value in plain JSON types; a float is refused, because it is not exact."""
    if depth < 0:
        raise ValueError("it has more levels")
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("one of its keys is not text")
        return {key: _plain_value(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(each, depth - 1) for each in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a JSON number")
        return value
    raise TypeError(f"{type(value).__name__} is not JSON; use Decimal for fractions")


def checked_version(version: object) -> int | None:
    """Return the version if an entry can have it; raises `InvalidRequest`."""
    if version is None:
        return None
    if not _is_whole(version, 0, _MAX_WHOLE):
        raise InvalidRequest(
            "version must be the version of an entry, 0 for an entry that must not exist, or None"
        )
    assert isinstance(version, int)
    return version


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
