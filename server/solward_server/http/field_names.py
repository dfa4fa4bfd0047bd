"""Fields of a body that resemble a known one: refused, since a misspelled bound binds nothing.

On the contract's routes unknown fields are ignored, so `{"wallet_id": ...}` would confine a new key
to no wallet, and freeze or unfreeze all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, Final

from quart import Quart, current_app, request

from solward.errors import InvalidRequest

# (method, rule) -> the names of the fields that its body may have.
FieldNames = Mapping[tuple[str, str], Collection[str]]

# Whoever sends more of them does not misspell, and each is compared.
MOST_UNKNOWN: Final = 30
_LEAST_LETTERS: Final = 4
_COMMON_LETTERS: Final = 6
_LONGEST: Final = 64
_ALIKE: Final = 0.75
DRY_RUN: Final = "dryRun"
NO_DRY_RUN: Final = "This has no dry run (dryRun); nothing was sent"
_KEY_HEADER: Final = "idempotencykey"
_EXTENSION: Final = "solward_field_names"
_NOT_IN_NAMES: Final = re.compile("[^a-z0-9]")


def know_fields(app: Quart, names: FieldNames) -> None:
    """Let `refuse_misspelled` compare bodies with these."""
    app.extensions[_EXTENSION] = names


def known_fields() -> Collection[str]:
    """Names of the fields of the current route's body; empty where it has none, or refuses unknown
    ones itself."""
    names: FieldNames = current_app.extensions.get(_EXTENSION, {})
    rule = "" if request.url_rule is None else request.url_rule.rule
    return names.get((request.method, rule), ())


def refuse_misspelled(body: Mapping[str, Any]) -> None:
    """Refuse a field that the current route does not know and that resembles one it knows.

    Raises:
        InvalidRequest: naming both; one is the header `Idempotency-Key`; a dry run of what has
            none; or there are more than `MOST_UNKNOWN` unknown ones.
    """
    known = known_fields()
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
        if letters == letters_of(DRY_RUN):
            if DRY_RUN not in known and body[name] not in (None, False):
                raise InvalidRequest(NO_DRY_RUN)
            # `wants_dry_run` reads the others.
            continue
        meant = resembled(name, known)
        if meant is not None:
            raise InvalidRequest(f"{name} is not a field, but {meant} is. Nothing was done")


def resembled(name: str, known: Iterable[str]) -> str | None:
    """The first known name that this one is written like: in other letters, with a word more or
    less, or with few letters otherwise; None where there is none."""
    if len(name) > _LONGEST:
        return None
    written = letters_of(name)
    return next((each for each in known if _are_alike(written, letters_of(each))), None)


def letters_of(name: str) -> str:
    """A name's letters and digits, in lower case."""
    return _NOT_IN_NAMES.sub("", name.casefold())


def _are_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    if min(len(one), len(other)) < _LEAST_LETTERS:
        return False
    if one in other or other in one or one[:_COMMON_LETTERS] == other[:_COMMON_LETTERS]:
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() >= _ALIKE <= matcher.ratio()
