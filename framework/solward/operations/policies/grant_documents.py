"""Reads and writes grants as JSON documents, the form that people use.

A document has symbols, names and whole units; a `Grant` has mints, ids and integers. Each refusal
is an `InvalidRequest` that names a path, such as `grants[3].assets.USDC.perTx`, and the expected
value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import structs

from solward.operations.policies.grant_sentences import document_sentence
from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT, WRAPPED_SOL_MINT
from solward.support import jsontext
from solward.support.base58 import is_address
from solward.support.durations import MINUTE_MS
from solward.types.errors import InvalidRequest
from solward.types.guardrail import SOL, Operation
from solward.types.money import SOL_DECIMALS, amount_text
from solward.types.site import SITE, read_site
from solward.vault.grants.model import (
    ANY_ASSET,
    ANYBODY,
    MAX_GRANTS,
    MAX_UNITS,
    OWN,
    USD_DECIMALS,
    AssetLimit,
    Grant,
    Hours,
    NewRecipient,
    SwapBounds,
    Window,
    grant_id,
    sorted_assets,
)
from solward.vault.grants.spelling import (
    APPROVE,
    Names,
    hours_text,
    quoted,
    time_text,
    unit_name,
    window_ms,
    window_text,
)

MAX_NAMED: Final = 100
"""The maximum number of assets, recipients, sites or bought mints in one grant."""
MAX_WINDOWS: Final = 4
MAX_RATE: Final = 1_000_000
"""The maximum number of transactions in a window of `rate`."""
MAX_ADDRESSES: Final = 1_000
"""The maximum number of names in the address book, and of addresses of one name."""
MAX_BPS: Final = 10_000

_KINDS = ("wallet", "agent", "key", "schedule", "plugin", "skill", "site")
_OPERATIONS = {operation.value: operation for operation in Operation}
FIELDS: Final = (
    *("who", "wallet", "may", "assets", "to", "new", "via"),
    *("costs", "rate", "hours", "until", "swap"),
)
"""The fields of a grant's document."""

# `[0-9]`, because `\d` matches the digits of every script.
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,39})(?:\.([0-9]{1,40}))?")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9]) UTC")
_UNTIL = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,3}))?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_BOOK_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GrantPolicy:
    """All principals' grants, and the address book.

    Attributes:
        sets: principal -> its grants in written order; empty if it may only read. A principal that
            is missing is not under grants.
        book: the address book: name of a group -> its addresses.
        version: the policy's version from which the document was made; None if not stated.
    """

    sets: Mapping[str, tuple[Grant, ...]]
    book: Mapping[str, tuple[str, ...]]
    version: int | None = None


def read_policy(value: object, names: Names) -> GrantPolicy:
    """Return a whole policy: `{"version": 7, "book": {...}, "grants": [...], "readOnly": [...]}`.

    Grants may name only groups of the document's own `book`.

    Raises:
        InvalidRequest: a value is wrong; names its path.
    """
    if not isinstance(value, dict):
        raise InvalidRequest(f"A policy is expected to be an object, not {_json_kind(value)}")
    fields = _read_object(value, "", ("version", "book", "grants", "readOnly"))
    version = fields.get("version")
    if version is not None:
        version = _read_whole(version, "version", 0, 2**53)
    book = read_book(fields.get("book", {}), "book")
    sets: dict[str, tuple[Grant, ...]] = {}
    for grant in read_grants(
        fields.get("grants", []), "grants", replace(names, book=frozenset(book))
    ):
        sets[grant.who] = (*sets.get(grant.who, ()), grant)
    for at, each in _array_items(fields.get("readOnly", []), "readOnly", None):
        who = read_principal(each, at, names)
        if who in sets:
            again = "has grants" if sets[who] else "stands twice"
            raise InvalidRequest(f"{at}: {again}")
        sets[who] = ()
    return GrantPolicy(sets, book, version)


def policy_json(policy: GrantPolicy, names: Names) -> dict[str, Any]:
    """Return a policy's document, from which `read_policy` makes the same policy."""
    document: dict[str, Any] = {} if policy.version is None else {"version": policy.version}
    return document | {
        "book": {name: [*addresses] for name, addresses in policy.book.items()},
        "grants": [grant_json(each, names) for grants in policy.sets.values() for each in grants],
        "readOnly": [who for who, grants in policy.sets.items() if not grants],
    }


def read_grants(
    value: object, path: str, names: Names, who: str | None = None
) -> tuple[Grant, ...]:
    """Return a JSON array of grants, in their order.

    Args:
        path: the array's path, for refusals.
        who: the principal of all grants, which they may then omit.

    Raises:
        InvalidRequest: a value is wrong, two grants are equal, or there are over 100.
    """
    found: dict[tuple[str, str], str] = {}
    count: Counter[str] = Counter()
    grants = []
    for at, each in _array_items(value, path, None):
        grant = read_grant(each, at, names, who)
        count[grant.who] += 1
        if count[grant.who] > MAX_GRANTS:
            raise InvalidRequest(f"{at}: at most {MAX_GRANTS} grants of a principal are expected")
        first = found.setdefault((grant.who, grant.id), at)
        if first != at:
            raise InvalidRequest(
                f"{at}: is the same grant as {first}: {grant_sentence(grant, names)}"
            )
        grants.append(grant)
    return tuple(grants)


def read_grant(value: object, path: str, names: Names, who: str | None = None) -> Grant:
    """Return a grant from its document; raises `InvalidRequest` naming the path.

    Args:
        path: the grant's path, for refusals.
        who: the principal of the grant, which it may then omit.
    """
    fields = _read_object(value, path, FIELDS)
    principal = _read_who(fields, path, names, who)
    operations, approves = _read_may(fields, path, principal)
    moves = [word for word, each in _OPERATIONS.items() if each in operations - {Operation.LAUNCH}]
    found: dict[str, Any] = {}
    for name, form in _FORMS.items():
        if name in fields:
            if name == "via":
                _check_via(fields, f"{path}.via", principal)
            found[_ATTRIBUTES[name]] = form.read(fields[name], f"{path}.{name}", names)
        elif name == "assets" and moves:
            raise InvalidRequest(f"{path}.assets: is required, because may has {moves[0]}")
    grant = Grant("", principal, operations, approves, **found)
    return structs.replace(grant, id=grant_id(grant))


def named_mints(value: object) -> frozenset[str]:
    """Return the addresses that a document names as assets, even if the document is invalid.

    The service looks up unknown mints' decimals before it reads the document.
    """
    grants = value if isinstance(value, list) else [value]
    found: set[str] = set()
    for grant in grants[: MAX_GRANTS * MAX_NAMED]:
        if isinstance(grant, dict):
            swap, assets = grant.get("swap"), grant.get("assets")
            into = swap.get("into") if isinstance(swap, dict) else None
            for each in (assets, into):
                if isinstance(each, dict | list):
                    found.update(
                        text for text in each if isinstance(text, str) and is_address(text)
                    )
    return frozenset(found)


def grant_json(grant: Grant, names: Names) -> dict[str, Any]:
    """Return a grant's document, from which `read_grant` makes the same grant."""
    may = [operation.value for operation in Operation if operation in grant.may]
    if grant.approves:
        may.append(APPROVE)
    document: dict[str, Any] = {"who": grant.who, "may": may}
    for name, form in _FORMS.items():
        value = getattr(grant, _ATTRIBUTES[name])
        if value != getattr(_PLAIN, _ATTRIBUTES[name]):
            document[name] = form.write(value, names)
    return document


def grant_sentence(grant: Grant, names: Names) -> str:
    """Return a grant as one sentence, which omits fields that have their default."""
    return document_sentence(grant_json(grant, names), names)


def read_book(value: object, path: str) -> dict[str, tuple[str, ...]]:
    """Return the address book of a document; raises `InvalidRequest` naming the path."""
    names = _read_object(value, path, None)
    if len(names) > MAX_ADDRESSES:
        raise InvalidRequest(f"{path}: at most {MAX_ADDRESSES:,} names are expected")
    return {name: _members(each, jsontext.member(path, name), name) for name, each in names.items()}


def _read_who(fields: Mapping[str, Any], path: str, names: Names, who: str | None) -> str:
    at = f"{path}.who"
    if "who" not in fields:
        if who is None:
            raise InvalidRequest(f"{at}: is required")
        return who
    if who is not None and fields["who"] == who:
        return who
    found = read_principal(fields["who"], at, names)
    if who not in (None, found):
        raise InvalidRequest(f"{at}: is not the principal of the grants")
    return found


def read_principal(value: object, path: str, names: Names) -> str:
    """Return a principal, by its id or its unique name; raises `InvalidRequest` naming the path."""
    kind, _, name = _read_text(value, path).partition(":")
    if not name or kind not in _KINDS:
        kinds = ", ".join(f"{each}:" for each in _KINDS)
        raise InvalidRequest(f"{path}: one of {kinds} and an id or a name is expected")
    if kind == "site":
        return f"{SITE}{read_site(name, path)}"
    return f"{kind}:{_resolve_id(kind, name, path, names)}"


def _resolve_id(kind: str, text: str, path: str, names: Names) -> str:
    found = names.ids(kind, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidRequest(
            f"{path}: {len(found)} have the name {_quoted_start(text)}; an id is expected"
        )
    raise InvalidRequest(f"{path}: no {kind} has the id or name {_quoted_start(text)}")


def _read_may(
    fields: Mapping[str, Any], path: str, principal: str
) -> tuple[frozenset[Operation], bool]:
    at = f"{path}.may"
    if "may" not in fields:
        raise InvalidRequest(f"{at}: is required")
    known = ", ".join((*_OPERATIONS, APPROVE))
    found: set[str] = set()
    for item, each in _array_items(fields["may"], at, len(_OPERATIONS) + 1):
        word = _read_text(each, item)
        if word not in _OPERATIONS and word != APPROVE:
            raise InvalidRequest(f"{item}: one of {known} is expected, not {_quoted_start(word)}")
        if word in found:
            raise InvalidRequest(f"{item}: {word} stands twice")
        if word == APPROVE and not principal.startswith("key:"):
            raise InvalidRequest(f"{item}: only a key may approve")
        if word != Operation.PAY and principal.startswith(SITE):
            raise InvalidRequest(
                f"{item}: for a site {Operation.PAY} is expected, not {_quoted_start(word)}"
            )
        found.add(word)
    if not found:
        raise InvalidRequest(f"{at}: at least one of {known} is expected")
    return frozenset(_OPERATIONS[word] for word in found - {APPROVE}), APPROVE in found


def _read_wallet(value: object, path: str, names: Names) -> str:
    return _resolve_id("wallet", _read_text(value, path), path, names)


def _read_assets(value: object, path: str, names: Names) -> dict[str, AssetLimit]:
    given = _read_object(value, path, None)
    if not 1 <= len(given) <= MAX_NAMED:
        raise InvalidRequest(f"{path}: 1 to {MAX_NAMED} assets are expected")
    limits: dict[str, AssetLimit] = {}
    for word, each in given.items():
        item = jsontext.member(path, word)
        asset, decimals = _resolve_asset(word, item, names)
        if asset in limits:
            raise InvalidRequest(f"{item}: the same asset stands twice")
        if asset == ANY_ASSET:
            each = _read_object(each, item, ("usd",)).get("usd")
            item, word = f"{item}.usd", "dollars"
        limits[asset] = _read_limit(each, item, asset, decimals, word)
    return {asset: limits[asset] for asset in sorted_assets(limits)}


def _assets_json(limits: Mapping[str, AssetLimit], names: Names) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for asset in sorted_assets(limits):
        limit = _limit_json(limits[asset])
        if asset == ANY_ASSET:
            document[asset] = {"usd": limit}
        else:
            document[unit_name(asset, names)] = limit
    return document


def _resolve_asset(word: str, path: str, names: Names) -> tuple[str, int]:
    """Return the asset of a symbol, a mint or `*`, and its decimals."""
    if word == ANY_ASSET:
        return ANY_ASSET, USD_DECIMALS
    mint = names.tokens.resolve(word, path)
    if mint in (WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT):
        return SOL, SOL_DECIMALS
    decimals = next((each.decimals for each in names.tokens if each.mint == mint), None)
    if decimals is None:
        decimals = names.decimals(mint)
    if decimals is None:
        raise InvalidRequest(f"{path}: no known mint has this address")
    return mint, decimals


def _read_limit(value: object, path: str, asset: str, decimals: int, unit: str) -> AssetLimit:
    fields = _read_object(value, path, ("perTx", "per", "hold"))

    def amount(each: object, at: str) -> int:
        return _read_amount(each, at, decimals, unit)

    if "per" not in fields:
        raise InvalidRequest(f'{path}.per: is required, such as {{"24h": "20"}}')
    return AssetLimit(
        asset=asset,
        decimals=decimals,
        windows=_windows(fields["per"], f"{path}.per", amount),
        per_tx=amount(fields["perTx"], f"{path}.perTx") if "perTx" in fields else None,
        hold=amount(fields["hold"], f"{path}.hold") if "hold" in fields else None,
    )


def _limit_json(limit: AssetLimit) -> dict[str, Any]:
    def text(units: int) -> str:
        return amount_text(units, limit.decimals)

    document: dict[str, Any] = {} if limit.per_tx is None else {"perTx": text(limit.per_tx)}
    document["per"] = {window_text(each.length_ms): text(each.most) for each in limit.windows}
    return document if limit.hold is None else document | {"hold": text(limit.hold)}


def _windows(value: object, path: str, most: Callable[[object, str], int]) -> tuple[Window, ...]:
    given = _read_object(value, path, None)
    if not 1 <= len(given) <= MAX_WINDOWS:
        raise InvalidRequest(f'{path}: 1 to {MAX_WINDOWS} windows such as "24h" are expected')
    found: dict[int, Window] = {}
    for text, each in given.items():
        at = jsontext.member(path, text)
        length = window_ms(text)
        if length is None:
            raise InvalidRequest(f'{at}: a window of "1m" to "30d" is expected')
        if length in found:
            raise InvalidRequest(f"{at}: the same window stands twice")
        found[length] = Window(length, most(each, at))
    return tuple(found[length] for length in sorted(found))


def _read_rate(value: object, path: str, _names: Names) -> tuple[Window, ...]:
    return _windows(value, path, lambda each, at: _read_whole(each, at, 1, MAX_RATE))


def _read_amount(value: object, path: str, decimals: int, unit: str) -> int:
    """Return the smallest units of an amount, which is a decimal string of whole units."""
    expected = f'a decimal string of {unit} such as "1.5" is expected'
    if not isinstance(value, str):
        raise InvalidRequest(f"{path}: {expected}, not {_json_kind(value)}")
    match = _AMOUNT.fullmatch(value)
    if match is None:
        raise InvalidRequest(f"{path}: {expected}, not {_quoted_start(value)}")
    whole, fraction = match[1], match[2] or ""
    if len(fraction) > decimals:
        raise InvalidRequest(f"{path}: at most {decimals} decimals are expected")
    units = int(whole + fraction.ljust(decimals, "0"))
    if units > MAX_UNITS:
        most = amount_text(MAX_UNITS, decimals)
        raise InvalidRequest(f"{path}: at most {most} is expected")
    return units


def _read_recipients(value: object, path: str, names: Names) -> tuple[str, ...]:
    def recipient(each: object, at: str) -> str:
        text = _read_text(each, at)
        if text.startswith("@"):
            if not _BOOK_NAME.fullmatch(text[1:]) or not names.in_book(text[1:]):
                raise InvalidRequest(f"{at}: the address book has no {_quoted_start(text[1:])}")
        elif text not in (ANYBODY, OWN) and not is_address(text):
            raise InvalidRequest(
                f"{at}: {ANYBODY}, {OWN}, an address or @name of the address book is expected, "
                f"not {_quoted_start(text)}"
            )
        return text

    found = _read_distinct(value, path, MAX_NAMED, "recipient", recipient)
    if ANYBODY in found and len(found) > 1:
        raise InvalidRequest(f"{path}: {ANYBODY} is expected as the only recipient")
    # Names of the book's groups are sorted before addresses.
    return tuple(sorted(found, key=lambda each: (each != OWN, not each.startswith("@"), each)))


def _check_via(fields: Mapping[str, Any], path: str, principal: str) -> None:
    if principal.startswith(SITE):
        raise InvalidRequest(f"{path}: is not expected if who is a site")
    if fields["may"] != [Operation.PAY]:
        # With another operation, `via` would seem to limit that operation too.
        raise InvalidRequest(f'{path}: ["pay"] is expected as the only value of may')


def _read_sites(value: object, path: str, _names: Names) -> tuple[str, ...]:
    """Return the sites in `via` as principals."""

    def site(each: object, at: str) -> str:
        text = _read_text(each, at)
        if not text.startswith(SITE):
            raise InvalidRequest(
                f"{at}: {SITE} and a host such as site:api.example.com is expected, "
                f"not {_quoted_start(text)}"
            )
        return f"{SITE}{read_site(text.removeprefix(SITE), at)}"

    return tuple(sorted(_read_distinct(value, path, MAX_NAMED, "site", site)))


def _read_new(value: object, path: str, _names: Names) -> NewRecipient:
    known = [each.value for each in NewRecipient]
    if not isinstance(value, str) or value not in known:
        raise InvalidRequest(f"{path}: one of {', '.join(known)} is expected")
    return NewRecipient(value)


def _read_hours(value: object, path: str, _names: Names) -> Hours:
    match = _HOURS.fullmatch(_read_text(value, path))
    if match is None:
        raise InvalidRequest(f'{path}: hours such as "07:00-22:00 UTC" are expected')
    start, end = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
    if start == end:
        raise InvalidRequest(f"{path}: two different times are expected")
    return Hours(start, end)


def _read_until(value: object, path: str, _names: Names) -> int:
    match = _UNTIL.fullmatch(_read_text(value, path))
    expected = InvalidRequest(
        f'{path}: a time with zone such as "2026-12-31T00:00:00Z" is expected'
    )
    if match is None:
        raise expected
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        raise expected from None
    ms = (moment - _EPOCH) // timedelta(milliseconds=1) + int((match[2] or "").ljust(3, "0"))
    if match[3]:
        offset = (int(match[4]) * 60 + int(match[5])) * MINUTE_MS
        ms += -offset if match[3] == "+" else offset
    if not 0 <= ms <= (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1):
        raise expected
    return ms


def _read_swap(value: object, path: str, names: Names) -> SwapBounds:
    fields = _read_object(value, path, ("slippageBps", "impactBps", "into"))
    if not fields:
        raise InvalidRequest(f"{path}: slippageBps, impactBps or into is expected")
    bounds = {
        each: _read_whole(fields[each], f"{path}.{each}", 0, MAX_BPS) if each in fields else None
        for each in ("slippageBps", "impactBps")
    }

    def asset(each: object, at: str) -> str:
        found, _ = _resolve_asset(_read_text(each, at), at, names)
        if found == ANY_ASSET:
            raise InvalidRequest(f"{at}: a symbol or a mint is expected")
        return found

    into: list[str] = []
    if "into" in fields:
        into = _read_distinct(fields["into"], f"{path}.into", MAX_NAMED, "asset", asset)
    return SwapBounds(bounds["slippageBps"], bounds["impactBps"], frozenset(into))


def _swap_json(swap: SwapBounds, names: Names) -> dict[str, Any]:
    into = [unit_name(each, names) for each in sorted_assets(swap.into)]
    document = {"slippageBps": swap.slippage_bps, "impactBps": swap.impact_bps, "into": into}
    return {name: value for name, value in document.items() if value not in (None, [])}


@dataclass(frozen=True, slots=True)
class _Form:
    """The reader and writer of one field of a grant.

    Attributes:
        read: reads a document's value, given its path; raises `InvalidRequest` naming it.
        write: returns the document's value.
    """

    read: Callable[[object, str, Names], object]
    write: Callable[[Any, Names], object]


# The optional fields of a document, in the order in which they are read.
_FORMS: Final = {
    "wallet": _Form(_read_wallet, lambda wallet, _: wallet),
    "assets": _Form(_read_assets, _assets_json),
    "to": _Form(_read_recipients, lambda to, _: list(to)),
    "new": _Form(_read_new, lambda new, _: new.value),
    "costs": _Form(
        lambda value, path, _: _read_amount(value, path, SOL_DECIMALS, SOL),
        lambda lamports, _: amount_text(lamports, SOL_DECIMALS),
    ),
    "rate": _Form(_read_rate, lambda rates, _: {window_text(w.length_ms): w.most for w in rates}),
    "hours": _Form(_read_hours, lambda hours, _: hours_text(hours)),
    "until": _Form(_read_until, lambda ms, _: time_text(ms)),
    "swap": _Form(_read_swap, _swap_json),
    "via": _Form(_read_sites, lambda via, _: list(via)),
}
# Field of the document -> attribute of the grant.
_ATTRIBUTES: Final = {each.encode_name: each.name for each in structs.fields(Grant)}
# A document omits fields that are equal to this grant's.
_PLAIN: Final = Grant("", "", frozenset())


def _members(value: object, path: str, name: str) -> tuple[str, ...]:
    if not _BOOK_NAME.fullmatch(name):
        raise InvalidRequest(
            f"{path}: a name of 1 to 32 characters of a-z, 0-9 and - is expected, - not first"
        )

    def address(each: object, at: str) -> str:
        # A contact's name is refused, because it may belong to another address later.
        if not isinstance(each, str) or not is_address(each):
            raise InvalidRequest(f"{at}: an address, base58 of 32 bytes, is expected")
        return each

    return tuple(_read_distinct(value, path, MAX_ADDRESSES, "address", address))


def _read_object(value: object, path: str, known: Sequence[str] | None) -> dict[str, Any]:
    """Return a JSON object, which may have only the fields in `known`, if given."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"{path}: an object is expected, not {_json_kind(value)}")
    for key in value:
        if known is not None and key not in known:
            raise InvalidRequest(
                f"{jsontext.member(path, key)}: is not a field; the fields are {', '.join(known)}"
            )
    return value


def _array_items(value: object, path: str, most: int | None) -> Iterator[tuple[str, object]]:
    """Return path and value of each item of a JSON array."""
    if not isinstance(value, list):
        raise InvalidRequest(f"{path}: an array is expected, not {_json_kind(value)}")
    if most is not None and len(value) > most:
        raise InvalidRequest(f"{path}: at most {most:,} items are expected")
    return ((f"{path}[{at}]", each) for at, each in enumerate(value))


def _read_distinct(
    value: object, path: str, most: int, what: str, read: Callable[[object, str], str]
) -> list[str]:
    """Read the items of a JSON array, which must have one item or more and no duplicates."""
    found: dict[str, None] = {}
    for at, each in _array_items(value, path, most):
        item = read(each, at)
        if item in found:
            raise InvalidRequest(f"{at}: the same {what} stands twice")
        found[item] = None
    if not found:
        raise InvalidRequest(f"{path}: at least one {what} is expected")
    return list(found)


def _read_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{path}: a string is expected, not {_json_kind(value)}")
    return value


def _read_whole(value: object, path: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest(f"{path}: a whole number of {least} to {most:,} is expected")
    return value


def _quoted_start(text: str) -> str:
    return quoted(text if len(text) <= 60 else f"{text[:60]}...")


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")
