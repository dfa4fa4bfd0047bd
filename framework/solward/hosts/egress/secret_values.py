"""Secrets of a call: put in where a request names them, and taken out of what answers quote."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from solward.support import jsontext
from solward.types.errors import SkillError
from solward.types.manifest import Site

HEADER_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]{0,16384}")


@dataclass(frozen=True, slots=True)
class PlacedSecret:
    """A secret of a call, and what stands for it in the host.

    Attributes:
        sites: those that get the value, and whether it may stand in a query there.
    """

    env: str
    placeholder: str
    value: str = field(repr=False)
    sites: Mapping[Site, bool]


def fill_header(name: bytes, value: bytes, placed: tuple[PlacedSecret, ...]) -> bytes:
    """A header's value with the secrets of its site in their places."""
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
                    "secret_unusable", f"{each.env} has characters that no header can carry"
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
    """A secret as it is, and as an answer may quote it."""
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
    """Takes secrets out of an answer that comes in chunks; its length stays the same.

    Held back is only what could be the beginning of one, so that a stream is not delayed.
    """

    def __init__(self, patterns: Iterable[bytes]) -> None:
        # The longest first: one may be part of another.
        self._patterns = sorted(patterns, key=len, reverse=True)
        self._longest = max(map(len, self._patterns), default=0)
        self._held = b""

    def take(self, chunk: bytes) -> bytes:
        """What may go on of all that came."""
        if not self._patterns:
            return chunk
        data = self._without(self._held + chunk)
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
        """The rest."""
        held, self._held = self._held, b""
        return held

    def _without(self, data: bytes) -> bytes:
        for each in self._patterns:
            if each in data:
                data = data.replace(each, b"*" * len(each))
        return data
