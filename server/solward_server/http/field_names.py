"""Unknown names in a request that bind nothing: fields of a body that resemble a known one, and
parameters of the query.

On the contract's routes unknown fields are ignored, so `{"wallet_id": ...}` would confine a new key
to no wallet, and freeze or unfreeze all of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

from quart import Quart, current_app, request

from solward.types.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class RouteFields:
    """Names that a route knows.

    Attributes:
        body: of its body's fields; none where it is not described.
        query: of its query's parameters.
        is_closed: its body has no unknown fields.
        reads_body: it has a body, or is not described.
    """

    body: Collection[str] = ()
    query: Collection[str] = ()
    is_closed: bool = False
    reads_body: bool = True


# (method, rule) -> what it knows.
RoutesFields = Mapping[tuple[str, str], RouteFields]
_UNDESCRIBED: Final = RouteFields()

# Whoever sends more of them does not misspell, and each is compared.
MOST_UNKNOWN: Final = 30
_LEAST_LETTERS: Final = 4
_COMMON_LETTERS: Final = 6
_LONGEST: Final = 64
_ALIKE: Final = 0.75
DRY_RUN: Final = "dryRun"
NO_DRY_RUN: Final = "This has no dry run (dryRun); nothing was sent"
# Of other tools, for the same.
_TRIALS: Final = frozenset(
    {
        "dry",
        "preview",
        "simulate",
        "simulateonly",
        "simulation",
        "testonly",
        "validateonly",
        "whatif",
    }
)
_KEY_HEADER: Final = "idempotencykey"
_EXTENSION: Final = "solward_field_names"
_NOT_IN_NAMES: Final = re.compile("[^a-z0-9]")


def know_fields(app: Quart, names: RoutesFields) -> None:
    """Let requests be compared with these."""
    app.extensions[_EXTENSION] = names


def route_fields() -> RouteFields:
    """What the current route knows; nothing where it is not described, such as a skill's own, which
    refuses what it does not know itself."""
    names: RoutesFields = current_app.extensions.get(_EXTENSION, {})
    rule = "" if request.url_rule is None else request.url_rule.rule
    return names.get((request.method, rule), _UNDESCRIBED)


def refuse_misspelled(body: Mapping[str, Any]) -> None:
    """Refuse a field that the current route does not know and that resembles one it knows, or that
    it does not know at all where each counts.

    Raises:
        InvalidRequest: naming both; one is the header `Idempotency-Key`; a dry run of what has
            none; or there are more than `MOST_UNKNOWN` unknown ones.
    """
    fields = route_fields()
    known = fields.body
    if not known:
        return
    unknown = [name for name in body if name not in known]
    if len(unknown) > MOST_UNKNOWN:
        raise InvalidRequest(f"More than {MOST_UNKNOWN} fields are unknown. Nothing was done")
    for name in unknown:
        letters = letters_of(name)
        if letters == _KEY_HEADER:
            # Ignored, it would let a repeated payment be another.
            raise InvalidRequest(f"{name} is a header, Idempotency-Key. Nothing was done")
        if means_dry_run(name):
            if DRY_RUN not in known and body[name] not in (None, False):
                raise InvalidRequest(NO_DRY_RUN)
            # `wants_dry_run` reads the others.
            continue
        meant = resembled(name, known)
        if meant is not None:
            raise InvalidRequest(f"{name} is not a field, but {meant} is. Nothing was done")
        if fields.is_closed:
            names = ", ".join(sorted(known))
            raise InvalidRequest(f"{name:.64} is none of the fields {names}. Nothing was done")


def refuse_unknown_parameters() -> None:
    """Refuse a parameter of the query that the current route does not know: a bound that belongs
    into the body would bind nothing.

    Raises:
        InvalidRequest: naming it.
    """
    known = route_fields().query
    for name in request.args:
        if name not in known:
            its = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidRequest(
                f"{name:.64} is no parameter of this route's query; {its}. Nothing was done"
            )


def means_dry_run(name: str) -> bool:
    """Whether whoever writes it wants a dry run, however it is spelled."""
    letters = letters_of(name)
    return letters_of(DRY_RUN) in letters or letters in _TRIALS


def resembled(name: str, known: Iterable[str]) -> str | None:
    """The first known name that this one is written like: in other letters, with a word more or
    less, or with few letters otherwise; None where there is none."""
    written = letters_of(name)
    if len(written) > _LONGEST:
        return None
    return next((each for each in known if _are_alike(written, letters_of(each))), None)


def letters_of(name: str) -> str:
    """A name's letters and digits, in lower case, without accents and other forms of them."""
    plain = name if name.isascii() else unicodedata.normalize("NFKD", name)
    return _NOT_IN_NAMES.sub("", plain.casefold())


def _are_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    if min(len(one), len(other)) < _LEAST_LETTERS:
        return False
    if one in other or other in one or one[:_COMMON_LETTERS] == other[:_COMMON_LETTERS]:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() >= _ALIKE <= matcher.ratio()
