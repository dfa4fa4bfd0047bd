"""Checked and limited requests and answers. Secrets are put into a request where it names them, and
removed from answers that quote them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpcore
import httpx

from solward.hosts.egress.connections import Limits, request_too_large
from solward.hosts.wire.failures import HTTP_FAILURES
from solward.hosts.wire.methods import HttpHead, HttpRequest
from solward.support import jsontext
from solward.types.errors import SkillError
from solward.types.manifest import Site, Target

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_LENGTH: Final = re.compile(rb"[0-9]{1,10}")
# Headers of the connection, which belongs to the service.
_HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Headers that could make a secret come back encoded or in parts, which would not be recognized.
_DISGUISES: Final = frozenset({b"accept-encoding", b"if-range", b"range"})

# Headers that every httpx client sends; the operator set any other.
_CLIENTS: Final = frozenset({b"accept", b"accept-encoding", b"connection", b"host", b"user-agent"})

HEADER_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,16384}")


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A checked request with its secrets filled in.

    Attributes:
        length: bytes of its body; None if it is sent in chunks.
        patterns: forms in which its answer could quote the site's secrets, and their replacements.
            All secrets of the site are here, sent with this request or not.
    """

    method: str
    path: bytes
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    timeouts: Mapping[str, float]
    length: int | None
    patterns: Mapping[bytes, bytes] = field(repr=False)


def outgoing_request(
    request: HttpRequest,
    target: Target,
    placed: tuple[PlacedSecret, ...],
    client: httpx.AsyncClient | None,
    limits: Limits,
) -> OutgoingRequest:
    if request.method not in _METHODS:
        raise _bad_http(f"The method must be one of {', '.join(sorted(_METHODS))}")
    own = {
        name.lower(): value
        for name, value in (client.headers.raw if client is not None else ())
        if name.lower() not in _CLIENTS
    }
    patterns = {
        form: each.placeholder.encode() for each in placed for form in quoted_forms(each.value)
    } | {form: b"*" for value in own.values() for form in quoted_forms(value.decode("latin-1"))}
    is_plain = bool(patterns) or not limits.encoded
    headers = [(b"Host", host_header(target.site))]
    size, lengths, chunked = 0, [], False
    for name, value in request.headers:
        size += len(name) + len(value)
        if not _TOKEN.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise _bad_http("A header has characters that HTTP does not allow, or is too long")
        lower = name.lower()
        if lower == b"content-length":
            lengths.append(value)
        elif lower == b"transfer-encoding":
            chunked = True
        elif lower not in _HOP_BY_HOP and lower not in own:
            if is_plain and lower in _DISGUISES:
                continue
            filled = fill_header(lower, value, placed)
            if filled != value and lower == b"authorization":
                patterns[filled.partition(b" ")[2]] = b"*"
            headers.append((name, filled))
    if size > limits.header_bytes:
        raise SkillError(
            "too_large", f"The headers together are larger than {limits.header_bytes} bytes"
        )
    if is_plain:
        headers.append((b"Accept-Encoding", b"identity"))
    length: int | None = 0
    if lengths:
        length = _content_length(lengths, limits)
        headers.append((b"Content-Length", str(length).encode()))
    elif chunked:
        length = None
        headers.append((b"Transfer-Encoding", b"chunked"))
    timeouts = {
        "connect": _shorter_timeout(request.connect_s, limits.connect_s),
        "read": _shorter_timeout(request.read_s, limits.total_s),
        "write": _shorter_timeout(request.write_s, limits.total_s),
    }
    path = fill_query(target.path, target.site, placed).encode()
    # A short pattern could be an ordinary word.
    patterns = {text: instead for text, instead in patterns.items() if len(text) >= _MIN_PATTERN}
    return OutgoingRequest(request.method, path, tuple(headers), timeouts, length, patterns)


_MIN_PATTERN: Final = 8


def _bad_http(text: str) -> SkillError:
    return SkillError("bad_http_request", text)


def host_header(site: Site) -> bytes:
    default = 443 if site.scheme == "https" else 80
    return (site.host if site.port == default else f"{site.host}:{site.port}").encode()


def _shorter_timeout(asked: float | None, limit: float) -> float:
    # This comparison is false for NaN and for negative numbers.
    return asked if asked is not None and 0 < asked < limit else limit


def _content_length(lengths: list[bytes], limits: Limits) -> int:
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise _bad_http("Content-Length must be one number")
    if int(lengths[0]) > limits.request_bytes:
        raise request_too_large(limits.request_bytes)
    return int(lengths[0])


async def bounded_body(
    body: AsyncIterator[bytes], length: int | None, most: int
) -> AsyncIterator[bytes]:
    sent = 0
    async for piece in body:
        sent += len(piece)
        if sent > (most if length is None else length):
            break
        yield piece
    if length is None and sent > most:
        raise request_too_large(most)
    if length is not None and sent != length:
        raise _bad_http(f"The request's body must have the {length} bytes of its Content-Length")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose head was received."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    extensions: Mapping[str, Any]
    chunks: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


@asynccontextmanager
async def site_errors(until: float) -> AsyncIterator[None]:
    """End the block at this event loop time; convert the site's failures to `SkillError`s."""
    try:
        async with asyncio.timeout_at(until):
            yield
    except TimeoutError:
        raise SkillError("http_read_timeout", "The answer was not complete in time") from None
    except Exception as error:
        for code, (name, text) in HTTP_FAILURES.items():
            if isinstance(error, getattr(httpcore, name) | getattr(httpx, name)):
                raise SkillError(code, _tls_failure(error) or text) from None
        raise


def _tls_failure(error: Exception) -> str | None:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "The site's certificate could not be verified"
    return "The TLS connection failed" if isinstance(cause, ssl.SSLError) else None


def answer_head(
    answer: Answer, site: Site, patterns: Mapping[bytes, bytes], limits: Limits
) -> HttpHead:
    """Return the head of an answer, within the limits of what a host accepts.

    Raises:
        SkillError: `too_large`, `encoded_answer` or `http_remote_protocol_error`.
    """
    longest_first = sorted(patterns, key=len, reverse=True)

    def screened(value: bytes) -> bytes:
        for pattern in longest_first:
            value = value.replace(pattern, patterns[pattern])
        return value

    headers: list[tuple[bytes, bytes]] = []
    size = 0
    for name, value in answer.headers:
        lower = name.lower()
        if lower in _HOP_BY_HOP:
            continue
        is_encoded = lower == b"content-encoding" and value.lower() != b"identity"
        if is_encoded and (patterns or not limits.encoded):
            raise SkillError(
                "encoded_answer",
                f"{site} sent an encoded answer that was not requested: secrets in it and its"
                " decoded size cannot be checked",
            )
        headers.append((screened(name), screened(value)))
        longest = max(len(headers[-1][0]) * 64, len(headers[-1][1]))
        size += sum(map(len, headers[-1]))
        if size > limits.header_bytes or longest > 16 << 10 or len(headers) > 128:
            raise SkillError(
                "too_large", f"{site} answered with more headers than a plugin host accepts"
            )
    if not 200 <= answer.status <= 599:
        raise SkillError("http_remote_protocol_error", "The answer is not valid HTTP")
    return HttpHead(
        answer.status,
        tuple(headers),
        screened(answer.extensions.get("reason_phrase", b""))[:256],
        answer.extensions.get("http_version", b"HTTP/1.1")[:16],
    )


@dataclass(frozen=True, slots=True)
class PlacedSecret:
    """A secret of a call and its placeholder in the host.

    Attributes:
        sites: sites that get the value, and whether a query may carry it there.
    """

    env: str
    placeholder: str
    value: str = field(repr=False)
    sites: Mapping[Site, bool]


def fill_header(name: bytes, value: bytes, placed: tuple[PlacedSecret, ...]) -> bytes:
    """Return a header's value with the site's secrets in place of their placeholders."""
    if name == b"authorization" and value[:6].lower() == b"basic ":
        try:
            credentials = base64.b64decode(value[6:].strip(), validate=True)
        except binascii.Error:
            return value
        filled = fill_header(b"", credentials, placed)
        return value if filled == credentials else b"Basic " + base64.b64encode(filled)
    for each in placed:
        if each.placeholder.encode() in value:
            secret = each.value.encode("utf-8", "replace")
            if not HEADER_VALUE.fullmatch(secret) or secret != secret.strip():
                raise SkillError(
                    "secret_unusable", f"{each.env} has characters that no header may contain"
                )
            value = value.replace(each.placeholder.encode(), secret)
    return value


def fill_query(path: str, site: Site, placed: tuple[PlacedSecret, ...]) -> str:
    before, mark, query = path.partition("?")
    for each in placed:
        if each.sites[site]:
            query = query.replace(each.placeholder, quote(each.value, safe=""))
    return before + mark + query


def quoted_forms(value: str) -> set[bytes]:
    """Return the forms in which an answer may quote a secret, the secret itself included."""
    quoted = jsontext.dumps(value)[1:-1]
    in_url = quote(value, safe="")
    raw = value.encode("utf-8", "replace")
    return {
        raw,
        quoted.encode(),
        quoted.replace("/", "\\/").encode(),
        in_url.encode(),
        re.sub("%[0-9A-F]{2}", lambda each: each[0].lower(), in_url).encode(),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
    }


class AnswerScreen:
    """A filter that overwrites secrets in an answer that comes in chunks, at the same length.

    It holds back only bytes that could begin a secret, so that it does not delay a stream.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # The longest first, because one may be part of another.
        self._patterns = sorted(patterns, key=len, reverse=True)
        self._longest = max(map(len, self._patterns), default=0)
        self._held = b""

    def screen(self, chunk: bytes) -> bytes:
        """Add a chunk, and return the bytes that can be passed on now."""
        if not self._patterns:
            return chunk
        data = self._overwrite_secrets(self._held + chunk)
        kept = next(
            (
                size
                for size in range(min(len(data), self._longest - 1), 0, -1)
                if any(each.startswith(data[-size:]) for each in self._patterns)
            ),
            0,
        )
        self._held = data[len(data) - kept :]
        return data[: len(data) - kept]

    def end(self) -> bytes:
        """Return the bytes that were held back."""
        held, self._held = self._held, b""
        return held

    def _overwrite_secrets(self, data: bytes) -> bytes:
        for each in self._patterns:
            if each in data:
                data = data.replace(each, b"*" * len(each))
        return data
