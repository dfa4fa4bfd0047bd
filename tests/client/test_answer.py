"""An answer is read from its JSON by the types of its fields, whatever else the JSON has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.client.conftest import URL

from solward import client as surface
from solward.client import AdminCredential, BadAnswer, CreatedAdmin, CreatedKey, Trial
from solward.client.http import Http
from solward.resources.declare import (
    Answer,
    answer_json,
    declared,
    named_metadata,
    resource,
    whole_metadata,
)
from solward.resources.fields import Flag, Text
from solward.support import jsontext
from solward.types.roles import Role


@dataclass(frozen=True, slots=True)
class Leg(Answer):
    """One of a trip's."""

    to_place: str
    costs: Decimal


@dataclass(frozen=True, slots=True)
class Trip(Answer):
    """A field of every kind."""

    title: str = field(metadata=named_metadata("name"))
    place: str = field(metadata=named_metadata("begin.place"))
    guide: str | None = field(metadata=named_metadata("team.guide"))
    role: Role
    sold: bool = field(default=False, kw_only=True)
    notes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    starts_at: datetime
    ended_at: datetime | None
    last: Leg | None
    legs: tuple[Leg, ...]
    tags: tuple[str, ...] | None
    seats: int = field(metadata=named_metadata("seats", int))
    names: int = field(metadata=whole_metadata(len))


@resource
class Switched(Answer):
    """A field in an object, and one that may be absent."""

    frozen: bool = declared(Flag("Whether."), named="switch.frozen")
    reason: str | None = declared(Text("Why."), named="switch.reason", default=None)


RAW = {
    "name": "North",
    "begin": {"place": "Kiel"},
    "role": "operate",
    "startsAt": "2026-11-23T12:00:00Z",
    "legs": [{"toPlace": "Oslo", "costs": "0.10"}, {"toPlace": "Bergen", "costs": 7}],
    "seats": "12",
}
NULLS = {"team": None, "endedAt": None, "last": None, "tags": None}


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    made = Http(URL, "", timeout_s=1, transport=httpx.MockTransport(lambda _: httpx.Response(200)))
    yield made
    await made.close()


def test_each_field_is_read_by_its_type() -> None:
    trip = Trip.of(RAW)
    assert (trip.title, trip.place, trip.seats, trip.names) == ("North", "Kiel", 12, len(RAW))
    assert trip.role is Role.OPERATE
    assert trip.starts_at == datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert trip.legs == (
        Leg("Oslo", Decimal("0.10"), raw=RAW["legs"][0]),
        Leg("Bergen", Decimal(7), raw=RAW["legs"][1]),
    )


def test_a_decimal_is_exact_from_a_number_and_from_a_text() -> None:
    for text in ('{"toPlace": "Oslo", "costs": 0.10}', '{"toPlace": "Oslo", "costs": "0.10"}'):
        assert str(Leg.of(jsontext.loads(text)).costs) == "0.10"


@pytest.mark.parametrize("raw", [RAW, RAW | NULLS], ids=["missing", "null"])
def test_what_may_be_none_is_none(raw: Mapping[str, Any]) -> None:
    trip = Trip.of(raw)
    assert (trip.guide, trip.ended_at, trip.last, trip.tags) == (None, None, None, None)


def test_what_may_be_none_is_read_where_it_is_something() -> None:
    given = {"team": {"guide": "Ada"}, "endedAt": "2026-11-24T00:00:00Z", "tags": ["sea"]}
    trip = Trip.of(RAW | given | {"last": {"toPlace": "Voss", "costs": 1}})
    assert (trip.guide, trip.ended_at) == ("Ada", datetime(2026, 11, 24, tzinfo=UTC))
    assert (trip.last and trip.last.to_place, trip.tags) == ("Voss", ("sea",))


def test_a_default_stands_where_the_json_has_nothing() -> None:
    assert (Trip.of(RAW).sold, Trip.of(RAW).notes) == (False, {})
    given = Trip.of(RAW | {"sold": True, "notes": {"a": 1}})
    assert (given.sold, given.notes) == (True, {"a": 1})


@pytest.mark.parametrize(
    ("raw", "missing"),
    [
        ({name: value for name, value in RAW.items() if name != "name"}, "name"),
        ({name: value for name, value in RAW.items() if name != "legs"}, "legs"),
        ({name: value for name, value in RAW.items() if name != "begin"}, "begin.place"),
        (RAW | {"begin": {}}, "begin.place"),
        (RAW | {"begin": None}, "begin.place"),
        (RAW | {"legs": [{"toPlace": "Oslo"}]}, "costs"),
    ],
)
def test_a_missing_field_is_named(http: Http, raw: Mapping[str, Any], missing: str) -> None:
    with pytest.raises(BadAnswer, match=rf"KeyError: '{missing}'"):
        http.read(Trip.of, raw)


@pytest.mark.parametrize(
    "raw",
    [
        RAW | {"role": "king"},
        RAW | {"startsAt": "soon"},
        RAW | {"startsAt": None},
        RAW | {"legs": 1},
        RAW | {"legs": ["Oslo"]},
        RAW | {"legs": [{"toPlace": "Oslo", "costs": "much"}]},
        [RAW],
        "name",
        None,
    ],
)
def test_what_is_of_another_type_is_no_answer(http: Http, raw: Any) -> None:
    with pytest.raises(BadAnswer):
        http.read(Trip.of, raw)


def test_what_a_newer_service_adds_is_in_raw_alone() -> None:
    raw = RAW | {"weather": "rain", "team": {"guide": "Ada", "cook": "Bo"}}
    trip = Trip.of(raw)
    assert trip.raw is raw
    assert "rain" not in repr(trip)
    assert repr(trip) == repr(Trip.of(RAW | {"team": {"guide": "Ada"}})).replace(
        f"names={len(RAW) + 1}", f"names={len(RAW) + 2}"
    )


def test_no_secret_and_no_json_is_shown() -> None:
    key = CreatedKey.of({"apiKey": "sk-4711", "id": "k1", "name": "ci"})
    assert (key.api_key, key.raw["apiKey"]) == ("sk-4711", "sk-4711")
    assert repr(key) == "CreatedKey(id='k1', name='ci')"
    credential = {
        "id": "c1",
        "name": "ana",
        "role": "read",
        "createdBy": "admin",
        "createdAt": "2026-11-23T12:00:00Z",
        "lastUsedAt": None,
        "expiresAt": None,
    }
    admin = CreatedAdmin.of(credential | {"adminSecret": "sa-4711"})
    assert (admin.secret, admin.credential.role) == ("sa-4711", Role.READ)
    assert "4711" not in repr(admin)


def test_every_answer_of_the_client_has_its_json_and_does_not_show_it() -> None:
    classes = [each for each in vars(surface).values() if is_dataclass(each)]
    answers = [each for each in classes if isinstance(each, type) and issubclass(each, Answer)]
    assert AdminCredential in answers
    for each in answers:
        (raw,) = (one for one in fields(each) if one.name == "raw")
        assert (raw.repr, raw.kw_only) == (False, True)
    others = {each.__name__ for each in classes if each not in answers}
    assert others == {"AuditFilter", "SignedDecision", "TransactionFilter"}


@pytest.mark.parametrize("raw", [{"dryRun": False}, {"dryRun": "true"}, {}])
def test_no_answer_but_a_dry_runs_is_a_trial(http: Http, raw: Mapping[str, Any]) -> None:
    rest = {"allowed": True, "guardrailsApplied": []}
    assert http.read(Trial.of, rest | {"dryRun": True}).allowed
    with pytest.raises(BadAnswer):
        http.read(Trial.of, rest | raw)


def test_an_answers_json_is_written_of_its_declared_fields() -> None:
    """Times are the source's milliseconds; what is optional and None is left out."""

    @dataclass
    class Row:
        id: str = "i"
        name: str = "ana"
        role: Role = Role.READ
        created_by: str = "admin"
        created_ms: int = 1_000
        last_used_ms: int | None = None
        secret: str = "never"

    written = answer_json(AdminCredential, Row(), expires_at="2027-01-01T00:00:00.000Z")
    assert written == {
        "id": "i",
        "name": "ana",
        "role": "read",
        "createdBy": "admin",
        "createdAt": "1970-01-01T00:00:01.000Z",
        "lastUsedAt": None,
        "expiresAt": "2027-01-01T00:00:00.000Z",
    }
    run = answer_json(Switched, object(), frozen=True, reason=None)
    assert run == {"switch": {"frozen": True}}
    with pytest.raises(AttributeError, match="id"):
        answer_json(AdminCredential, object())
