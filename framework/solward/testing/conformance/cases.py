"""What plugins are checked with, from JSON files: data, so that a check of a stranger's project
runs nothing of it outside a plugin host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from solward.support import jsontext
from solward.testing.conformance.payments import ExpectedOffer
from solward.types.errors import InvalidRequest
from solward.types.payment import HttpAnswer
from solward.types.venue import QuoteRequest

FOLDER: Final = "checks"
_MAX_FILE = 4 << 20
_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "skill": frozenset({"settings"}),
    "provider": frozenset({"address"}),
    "venue": frozenset({"requests", "pools"}),
    "payment": frozenset({"answers", "receipts"}),
}


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of one plugin.

    Attributes:
        settings: what is set for a skill.
        address: of a server of this machine that speaks a provider's protocol.
        requests: swaps that a venue can make.
        pools: what its operator configures.
        answers: of sellers with the status 402, each with an offer of a payment protocol.
        receipts: of sellers to a paid request.
        expected: what each of `answers` offers, where that is said.
    """

    plugin: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    address: str | None = None
    requests: Sequence[QuoteRequest] = ()
    pools: Sequence[str] = ()
    answers: Sequence[HttpAnswer] = ()
    receipts: Sequence[HttpAnswer] = ()
    expected: Sequence[Sequence[ExpectedOffer] | None] = ()


def of_project(folder: Path) -> list[Cases]:
    """Those of the files `checks/*.json` of a project; none where there are none.

    Raises:
        InvalidRequest: one of them cannot be read; says where.
    """
    return [read_cases(each) for each in sorted((folder / FOLDER).glob("*.json"))]


def read_cases(path: Path) -> Cases:
    """The cases of a file.

    Raises:
        InvalidRequest: it cannot be read; says where.
    """
    try:
        with path.open("rb") as file:
            value = jsontext.read(file.read(_MAX_FILE))
        return _cases(value)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidRequest(f"{path} is no JSON: {error}") from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error}") from None


def _cases(value: object) -> Cases:
    fields = _object(value, "the file")
    kind = _text(fields, "kind", "")
    if kind not in _FIELDS:
        raise InvalidRequest(f"kind must be one of {', '.join(sorted(_FIELDS))}; got {kind!r}")
    unknown = sorted(fields.keys() - _FIELDS[kind] - {"kind", "plugin"})
    if unknown:
        known = ", ".join(sorted(_FIELDS[kind]))
        raise InvalidRequest(f"{unknown[0]} is no field of a {kind}'s cases; {known} are")
    return Cases(
        _text(fields, "plugin", ""),
        kind,
        _object(fields.get("settings", {}), "settings"),
        _address(fields) if "address" in fields else None,
        tuple(_request(each, at) for at, each in enumerate(_list(fields, "requests"))),
        tuple(_pool(each, at) for at, each in enumerate(_list(fields, "pools"))),
        tuple(_answer(each, f"answers[{at}]") for at, each in enumerate(_list(fields, "answers"))),
        tuple(
            _answer(each, f"receipts[{at}]") for at, each in enumerate(_list(fields, "receipts"))
        ),
        tuple(
            _expected(each, f"answers[{at}]") for at, each in enumerate(_list(fields, "answers"))
        ),
    )


def _address(fields: Mapping[str, Any]) -> str:
    text = _text(fields, "address", "")
    # A stranger's project must not choose a server of the network.
    if urlsplit(text).hostname not in _THIS_MACHINE:
        raise InvalidRequest("address must be of this machine, such as http://127.0.0.1:8080")
    return text


def _request(value: object, at: int) -> QuoteRequest:
    where = f"requests[{at}]"
    fields = _object(value, where)
    return QuoteRequest(
        _text(fields, "inputMint", where),
        _text(fields, "outputMint", where),
        _whole(fields, "amount", where),
        _whole(fields, "slippageBps", where),
    )


def _pool(value: object, at: int) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"pools[{at}] must be a text")
    return value


def _answer(value: object, where: str) -> HttpAnswer:
    fields = _object(value, where)
    headers = _list(fields, "headers", where)
    if not all(
        isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)
        for each in headers
    ):
        raise InvalidRequest(f"{where}.headers must be a list of pairs of texts")
    return HttpAnswer(
        _text(fields, "url", where),
        _text(fields, "method", where) if "method" in fields else "GET",
        _whole(fields, "status", where),
        tuple((name, content) for name, content in headers),
        (_text(fields, "body", where) if "body" in fields else "").encode(),
    )


def _expected(answer: Mapping[str, Any], where: str) -> Sequence[ExpectedOffer] | None:
    if "offers" not in answer:
        return None
    found = []
    for at, value in enumerate(_list(answer, "offers", where)):
        place = f"{where}.offers[{at}]"
        fields = _object(value, place)
        found.append(
            ExpectedOffer(
                _text(fields, "asset", place),
                _whole(fields, "units", place),
                _text(fields, "payTo", place),
            )
        )
    return tuple(found)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"{where} must be an object")
    return value


def _list(fields: Mapping[str, Any], name: str, where: str = "") -> list[Any]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a list")
    return value


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a text")
    return value


def _whole(fields: Mapping[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest(f"{jsontext.member(where, name)} must be a whole number of at least 0")
    return value
