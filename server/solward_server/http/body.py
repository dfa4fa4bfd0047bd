"""JSON bodies of requests and responses with exact numbers, server-sent events, and queries; a
refusal names the field.

Routes that change something refuse unknown fields. If `{"wallet_id": ...}` were ignored, a new key
would not be confined to the wallet, and an unfreeze would be for all wallets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from quart import Quart, Request, Response, current_app, g, request
from quart.json.provider import JSONProvider
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.sansio.response import Response as BaseResponse

from solward.resources.declare import Request as Declared
from solward.resources.declare import fields_of
from solward.resources.fields import Field, Flag, Texts, Whole
from solward.support import jsontext
from solward.types.errors import InvalidRequest, refuse_unknown

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
MAX_BODY_BYTES = 64 * 1024
# Enough for a book of 1,000 addresses and 1,000 grants, written out.
MAX_POLICY_BYTES = 1024 * 1024
# Enough for the body of a paid request, 1 MiB, written as JSON.
MAX_PAY_BYTES = 2 * 1024 * 1024
_POLICY = "/api/v1/policy"
_PAY = re.compile(r"/api/v1/wallets/[^/]+/pay")
# A body of more than `MAX_BODY_BYTES` takes up to a second: the event loop goes on meanwhile.
# Each principal has one parsed at a time, so that it does not delay others.
_PARSERS: Final = ThreadPoolExecutor(2, "solward-json")
_LOCKS: Final = "solward_body_locks"
NOT_JSON = "The request body must be valid JSON"
NUL_IN_PATH = "The path must not contain a NUL character"

Body = Mapping[str, Any]
R = TypeVar("R", bound=Declared)


class ExactJSON(JSONProvider):
    """JSON in which decimals are numbers and fractions are read as Decimals; NaN is refused."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return the JSON text of a value."""
        return jsontext.dumps(obj)

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        """Return the value of a JSON text; raises ValueError."""
        return jsontext.read(s)

    def response(self, *args: Any, **kwargs: Any) -> BaseResponse:
        """Return a JSON response."""
        value = self._prepare_response_obj(args, kwargs)
        return self._app.response_class(self.dumps(value), content_type=JSON)


def json_response(body: dict[str, Any], status: int = 200) -> Response:
    """Return a JSON response with a status, for routes that do more than return a dict."""
    return Response(jsontext.dumps(body), status, content_type=JSON)


def list_response(field: str, texts: Iterable[bytes], more: Mapping[str, Any] = {}) -> Response:
    """Return the response `{field: [...]}` of JSON texts, followed by the fields of `more`."""
    behind = jsontext.dumps(dict(more)).encode() if more else b"}"
    end = b"," + behind[1:] if more else behind
    body = b"".join((b'{"', field.encode(), b'":[', b",".join(texts), b"]", end))
    return Response(body, content_type=JSON)


def event_stream(events: AsyncGenerator[str | bytes, None] | bytes) -> Response:
    """Return a response of server-sent events, which Quart's timeout of 60 s does not end."""
    response = Response(events, 200, content_type=f"{EVENT_STREAM}; charset=utf-8")
    response.timeout = None
    # Without it reverse proxies buffer small pieces.
    response.headers["X-Accel-Buffering"] = "no"
    return response


def max_body_bytes(path: str) -> int:
    """Return the maximum number of bytes of a request's body on this path."""
    is_policy = path == _POLICY or path.startswith(f"{_POLICY}/")
    if _PAY.fullmatch(path):
        return MAX_PAY_BYTES
    return MAX_POLICY_BYTES if is_policy else MAX_BODY_BYTES


class SizedRequest(Request):
    """A request whose body may be as large as its path allows; the rest is not stored."""

    def __init__(
        self,
        method: str,
        scheme: str,
        path: str,
        *args: Any,
        max_content_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        """See `quart.Request`."""
        most = max_body_bytes(path)
        super().__init__(method, scheme, path, *args, max_content_length=most, **kwargs)


async def read_body() -> Body:
    """Return the request's JSON object; an absent body is an empty one.

    Raises:
        InvalidRequest: it is not JSON, not an object, has a key twice, a text or a number that
            nothing here can hold, or a field that the route does not know.
        werkzeug.exceptions.RequestEntityTooLarge: it has more than `max_body_bytes`.
    """
    data: str | bytes = await request.get_data(cache=False, as_text=False)
    assert isinstance(data, bytes)
    if not data.strip(jsontext.SPACE):
        return {}
    body = await _read_object(data)
    names: RoutesFields = current_app.extensions[_EXTENSION]
    rule = "" if request.url_rule is None else request.url_rule.rule
    fields = names.get((request.method, rule))
    if fields is not None and fields.body is not None:
        refuse_unknown(body, fields.body)
    return body


async def _read_object(data: bytes) -> Body:
    if len(data) <= MAX_BODY_BYTES:
        body = parse_body(data)
    else:
        locks: WeakValueDictionary[str, asyncio.Lock] = current_app.extensions[_LOCKS]
        async with locks.setdefault(g.caller.principal, asyncio.Lock()):
            body = await asyncio.get_running_loop().run_in_executor(_PARSERS, parse_body, data)
    if not isinstance(body, dict):
        raise InvalidRequest("The request body must be a JSON object")
    return body


def parse_body(data: bytes) -> Any:
    """Return the value of a body's JSON text; raises `InvalidRequest`."""
    try:
        return jsontext.read(data)
    except jsontext.DuplicateKey as error:
        raise InvalidRequest(f"The request body is ambiguous: {error}") from None
    except jsontext.UnfitValue as error:
        raise InvalidRequest(str(error)) from None
    except ValueError:
        raise InvalidRequest(NOT_JSON) from None


def query_text(field: str) -> str | None:
    """Return a field of the query string; raises `InvalidRequest` if it is given twice."""
    values = request.args.getlist(field)
    if len(values) > 1:
        # Proxies and services differ in which value they use.
        raise InvalidRequest(f"{field} must be given once")
    if values and "\x00" in values[0]:
        raise InvalidRequest(f"{field} must not contain a NUL character")
    return values[0] if values else None


def query_of(kind: type[R]) -> R:
    """Return the query as a declared request; raises `InvalidRequest`."""
    return kind.of({each.json: _parse(each, query_text(each.json)) for each in fields_of(kind)})


def _parse(field: Field, text: str | None) -> Any:
    """Convert a text of the query to the JSON type of its field."""
    if text is None:
        return None
    match field:
        case Whole():
            if not (text.isascii() and text.isdecimal() and len(text) <= 18):
                raise InvalidRequest(field.expected)
            return int(text)
        case Flag():
            return {"true": True, "false": False}.get(text, text)
        case Texts():
            return text.split(",")
        case _:
            return text


@dataclass(frozen=True, slots=True)
class RouteFields:
    """The names of the fields and parameters that a route accepts.

    Attributes:
        body: names of its body's fields; None if it has no body.
        query: names of its query's parameters.
        takes_key: whether it accepts an `Idempotency-Key`.
    """

    body: Collection[str] | None
    query: Collection[str]
    takes_key: bool = False


# (method, rule) -> the names that the route knows.
RoutesFields = Mapping[tuple[str, str], RouteFields]

DRY_RUN: Final = "dryRun"
_NO_FLAG: Final = "dryRun must be true or false; nothing was sent"
_EXTENSION: Final = "solward_field_names"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def set_route_fields(app: Quart, names: RoutesFields) -> None:
    """Set the names of fields and parameters that each route accepts."""
    app.extensions[_EXTENSION] = names
    app.extensions[_LOCKS] = WeakValueDictionary()


def check_requests(app: Quart, prefix: str) -> None:
    """Check each request, after its credential was checked.

    A NUL in a path is refused, since no name or id has one, and so is an encoded body, such as
    gzip's. Below `prefix`, a request that may change something is also refused for names that its
    query or body does not know: a bound under a wrong name would bind nothing, while money moves.
    `read_body` refuses unknown fields of a body that is read.
    """

    @app.before_request
    async def check() -> None:
        if "\x00" in request.path:
            raise InvalidRequest(NUL_IN_PATH)
        if request.method in _READING:
            return
        lines = request.headers.getlist("Content-Encoding")
        codings = {coding.strip().lower() for line in lines for coding in line.split(",")}
        if codings - {"", "identity"}:
            raise UnsupportedMediaType
        rule = request.url_rule
        if rule is None or not rule.rule.startswith(prefix):
            return
        names: RoutesFields = app.extensions[_EXTENSION]
        # A skill's own route is described by the skill's name, and refuses what its schema lacks.
        fields = names.get((request.method, rule.rule), RouteFields((), (), takes_key=True))
        for name in key_headers():
            # A key in another header, or of a route that takes none, would have no effect.
            if not fields.takes_key:
                raise InvalidRequest(
                    f"{name}: this request takes no idempotency key. Nothing was done"
                )
            if name.lower() != "idempotency-key":
                raise InvalidRequest(f"{name} must be written Idempotency-Key. Nothing was done")
        refuse_unknown(request.args, fields.query, after=" in the query")
        if fields.body is None:
            data: str | bytes = await request.get_data(as_text=False)
            assert isinstance(data, bytes)
            if data.strip(jsontext.SPACE):
                refuse_unknown(await _read_object(data), ())


def key_headers() -> list[str]:
    """Return the request's headers whose letters spell an idempotency key."""
    return [
        name
        for name, _ in request.headers.items()
        if "".join(filter(str.isalnum, name.lower())).removeprefix("x") == "idempotencykey"
    ]


def wants_dry_run(body: Body) -> bool:
    """Return whether the query or the body has a true `dryRun`; null means absent. A malformed
    value is refused, so that it never sends a transaction.

    Raises:
        InvalidRequest: one of them is neither true nor false, or the query has it twice.
    """
    in_body, in_query = body.get(DRY_RUN), request.args.getlist(DRY_RUN)
    is_flag = in_body is None or isinstance(in_body, bool)
    if not is_flag or not set(in_query) <= {"true", "false"} or len(in_query) > 1:
        raise InvalidRequest(_NO_FLAG)
    return in_body is True or "true" in in_query
