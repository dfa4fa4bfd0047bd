"""Cases for checks, read from JSON files. They contain no code, so that the code of a third
party's project runs only in a plugin host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from solward.support import jsontext
from solward.testing.conformance.payments import ExpectedOffer, PaymentCases
from solward.testing.conformance.venues import VenueCases
from solward.types.errors import InvalidRequest
from solward.types.payment import HttpAnswer
from solward.types.venue import QuoteRequest

T = TypeVar("T")

FOLDER: Final = "checks"
_MAX_FILE = 4 << 20
_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of one plugin; `given` are keyword arguments for the check of its kind."""

    plugin: str
    kind: str
    given: Mapping[str, Any] = field(repr=False)


def read_project_cases(folder: Path) -> list[Cases]:
    """Return the cases in the files `checks/*.json` of a project.

    Raises:
        InvalidRequest: if a file cannot be read; the error says where.
    """
    return [read_cases(each) for each in sorted((folder / FOLDER).glob("*.json"))]


def read_cases(path: Path) -> Cases:
    """Return the cases of a file.

    Raises:
        InvalidRequest: if it cannot be read; says where.
    """
    try:
        with path.open("rb") as file:
            value = jsontext.read(file.read(_MAX_FILE))
        return _parse_cases(value)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidRequest(f"{path} is no JSON: {error}") from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error}") from None


def _parse_cases(value: object) -> Cases:
    fields = _read_object(value, "the file")
    kind = _read_text(fields, "kind", "")
    if kind not in _OF_KIND:
        raise InvalidRequest(f"kind must be one of {', '.join(sorted(_OF_KIND))}; got {kind!r}")
    names, read = _OF_KIND[kind]
    unknown = sorted(fields.keys() - names - {"kind", "plugin"})
    if unknown:
        known = ", ".join(sorted(names))
        raise InvalidRequest(f"{unknown[0]} is not a field of a {kind}'s cases; use {known}")
    return Cases(_read_text(fields, "plugin", ""), kind, read(fields))


def _parse_skill(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"settings": _read_object(fields.get("settings", {}), "settings")}


def _parse_provider(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if "address" not in fields:
        return {}
    text = _read_text(fields, "address", "")
    # A third party's project must not choose a server on the network.
    if urlsplit(text).hostname not in _THIS_MACHINE:
        raise InvalidRequest("address must be on this machine, such as http://127.0.0.1:8080")
    return {"address": text}


def _parse_venue(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    requests = _members(fields, "requests", _parse_request)
    return {"cases": VenueCases(None, requests, _members(fields, "pools", _parse_pool))}


def _parse_payment(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    answers = _members(fields, "answers", _parse_answer)
    receipts = _members(fields, "receipts", _parse_answer)
    return {"cases": PaymentCases(answers, receipts, _members(fields, "answers", _parse_expected))}


# The fields of a kind's file, without `kind` and `plugin`, and their reader.
_OF_KIND: Final[Mapping[str, tuple[Set[str], Callable[[Mapping[str, Any]], Mapping[str, Any]]]]] = {
    "skill": ({"settings"}, _parse_skill),
    "provider": ({"address"}, _parse_provider),
    "venue": ({"requests", "pools"}, _parse_venue),
    "payment": ({"answers", "receipts"}, _parse_payment),
}


def _parse_request(value: object, where: str) -> QuoteRequest:
    fields = _read_object(value, where)
    return QuoteRequest(
        _read_text(fields, "inputMint", where),
        _read_text(fields, "outputMint", where),
        _read_integer(fields, "amount", where),
        _read_integer(fields, "slippageBps", where),
    )


def _parse_pool(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{where} must be a text")
    return value


def _parse_answer(value: object, where: str) -> HttpAnswer:
    fields = _read_object(value, where)
    headers = _list(fields, "headers", where)
    if not all(
        isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)
        for each in headers
    ):
        raise InvalidRequest(f"{where}.headers must be a list of pairs of texts")
    return HttpAnswer(
        _read_text(fields, "url", where),
        _read_text(fields, "method", where) if "method" in fields else "GET",
        _read_integer(fields, "status", where),
        tuple((name, content) for name, content in headers),
        (_read_text(fields, "body", where) if "body" in fields else "").encode(),
    )


def _parse_expected(answer: Mapping[str, Any], where: str) -> Sequence[ExpectedOffer] | None:
    if "offers" not in answer:
        return None
    return _members(answer, "offers", _parse_offer, where)


def _parse_offer(value: object, where: str) -> ExpectedOffer:
    fields = _read_object(value, where)
    asset, units = _read_text(fields, "asset", where), _read_integer(fields, "units", where)
    return ExpectedOffer(asset, units, _read_text(fields, "payTo", where))


def _read_object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"{where} must be an object")
    return value


def _list(fields: Mapping[str, Any], name: str, where: str = "") -> list[Any]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a list")
    return value


def _members(
    fields: Mapping[str, Any], name: str, read: Callable[[Any, str], T], where: str = ""
) -> tuple[T, ...]:
    """Return the members of a list field, each converted by `read(member, place)`."""
    place = jsontext.member(where, name)
    return tuple(read(each, f"{place}[{at}]") for at, each in enumerate(_list(fields, name, where)))


def _read_text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a text")
    return value


def _read_integer(fields: Mapping[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a whole number of at least 0")
    return value
