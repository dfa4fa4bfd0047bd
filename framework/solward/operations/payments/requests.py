"""A request that may be paid for, as its caller gives it: checked, and recognised again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import httpx

from solward.plugins.payment_checks import is_plain
from solward.support import jsontext
from solward.types.errors import InvalidRequest, PaymentRefused, SkillError
from solward.types.manifest import MAX_URL, Site, site_name, split_url
from solward.types.payment import MAX_BODY_BYTES, METHODS, PayRequest, max_parts
from solward.types.site import read_site

MAX_HEADERS: Final = 64
MAX_HEADER_BYTES: Final = 16 << 10
_NO_BODY: Final = frozenset({"GET", "HEAD"})

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# Visible ASCII and spaces, as every server reads it alike.
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]{0,8190}[\x21-\x7e])?|")
# Of the connection and the message's frame, which are the service's.
_FRAME: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_ESCAPED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
# By which protocols show a payment: nobody but the service shows one.
_PAYMENT: Final = frozenset({"payment-signature", "x-payment"})
_PAYMENT_SCHEME: Final = re.compile(r"payment(?:[\s,]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Most:
    """The most that may be paid: `amount` whole units of `asset`, a symbol or mint as given."""

    amount: Decimal
    asset: str


@dataclass(frozen=True, slots=True)
class SellerRequest:
    """A checked request.

    Attributes:
        url: as it is requested, without a fragment.
        path: path and query as they are sent.
        fingerprint: SHA-256 of method, address, headers and body, hex.
    """

    url: str
    site: Site
    path: str
    method: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    most: Most | None
    protocol: str | None
    fingerprint: str

    @property
    def shown_url(self) -> str:
        """The address without its query, which may hold what is not to be stored; in one
        spelling, so that a price does not rise unseen under another (RFC 3986, 6.2.2)."""
        return _ESCAPED.sub(_unescaped, self.url.partition("?")[0])


def address_of(text: str, field: str) -> tuple[str, Site, str]:
    """An address as it is requested, without its fragment; its site, and its path with query.

    Raises:
        InvalidRequest: naming `field`.
    """
    expected = (
        f"{field} must be an https:// address of a site, without user, of at most {MAX_URL}"
        f" characters"
    )
    if not 0 < len(text) <= MAX_URL or not text.isprintable() or text != text.strip():
        raise InvalidRequest(expected)
    try:
        url = httpx.URL(text)
        if url.userinfo or url.scheme not in ("http", "https"):
            raise InvalidRequest(expected)
        made = str(url.copy_with(fragment=None))
        site, path = split_url(made)
    except (httpx.InvalidURL, SkillError, ValueError):
        raise InvalidRequest(expected) from None
    # By another spelling it would be a site under which nothing is granted or known.
    read_site(site_name(site), field)
    return made, site, path


def read_request(request: PayRequest, *, needs_most: bool) -> SellerRequest:
    """Check what a caller gives.

    Args:
        needs_most: whether `max` must be given.

    Raises:
        InvalidRequest: naming the field.
    """
    most = None
    if needs_most or request.max is not None:
        most = Most(*max_parts(request.max))
    url, site, path = address_of(request.url, "url")
    method = request.method.upper()
    if method not in METHODS:
        raise InvalidRequest(f"method must be one of {', '.join(METHODS)}")
    headers = read_headers(request.headers)
    body = request.body
    if len(body) > MAX_BODY_BYTES:
        raise InvalidRequest(f"body must not be larger than {MAX_BODY_BYTES >> 20} MiB")
    if body and method in _NO_BODY:
        raise InvalidRequest(f"body must be absent: {method} has none; method may be POST")
    return SellerRequest(
        url=url,
        site=site,
        path=path,
        method=method,
        headers=headers,
        body=body,
        most=most,
        protocol=request.protocol,
        fingerprint=_fingerprint(method, url, headers, body),
    )


def _unescaped(escape: re.Match[str]) -> str:
    """What needs no escape plainly, what does in capitals."""
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.fullmatch(character) else escape[0].upper()


def read_headers(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Headers that a caller may send; raises `InvalidRequest` naming one that it may not."""
    if len(given) > MAX_HEADERS or sum(map(len, (*given, *given.values()))) > MAX_HEADER_BYTES:
        raise InvalidRequest(
            f"headers must be at most {MAX_HEADERS}, of {MAX_HEADER_BYTES >> 10} KiB together"
        )
    seen: set[str] = set()
    for name, value in given.items():
        shown = name[:64] if name.isprintable() else "a name"
        if not _TOKEN.fullmatch(name):
            raise InvalidRequest(f"headers: {shown!r} is no name of a header")
        lower = name.lower()
        if lower in seen:
            raise InvalidRequest(f"headers: {shown} stands twice")
        seen.add(lower)
        if lower in _FRAME:
            raise InvalidRequest(f"headers: {shown} is set by the service")
        shows = lower == "authorization" and _PAYMENT_SCHEME.match(value)
        if lower in _PAYMENT or shows:
            raise InvalidRequest(
                f"headers: {shown} shows a payment, which the service alone may do"
            )
        if not _VALUE.fullmatch(value):
            raise InvalidRequest(f"headers: the value of {shown} must be printable ASCII, one line")
    return tuple(given.items())


def shown_headers(made: Mapping[str, str], protocol: str) -> tuple[tuple[str, str], ...]:
    """The headers by which a protocol shows a payment; raises `PaymentRefused` for others."""
    found = tuple(made.items())
    fits = 0 < len(found) <= 8 and sum(len(n) + len(v) for n, v in found) <= 2 * MAX_HEADER_BYTES
    for name, value in found:
        fits = fits and bool(_TOKEN.fullmatch(name)) and name.lower() not in _FRAME
        fits = fits and is_plain(value)
    if not fits:
        raise PaymentRefused("protocol_failed", f"{protocol} made headers that cannot be sent")
    return found


def with_headers(
    given: tuple[tuple[str, str], ...], more: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Headers with `more` in place of those of the same name."""
    names = {name.lower() for name, _ in more}
    return (*(each for each in given if each[0].lower() not in names), *more)


def _fingerprint(method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes) -> str:
    named = sorted([name.lower(), value] for name, value in headers)
    whole = [method, url, named, hashlib.sha256(body).hexdigest()]
    return hashlib.sha256(jsontext.dumps(whole, canonical=True).encode()).hexdigest()
