"""Removes secrets from data before it is written: by field name, by pattern, by known value."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

REDACTED = "[redacted]"

# Whole words of a field's name, so that `author` and `tokens` are not taken for secrets.
_SECRET_WORDS = frozenset(
    {
        "apikey",
        "authorization",
        "cookie",
        "credential",
        "credentials",
        "kek",
        "keypair",
        "mnemonic",
        "passphrase",
        "password",
        "secret",
        "seed",
    }
)
_SECRET_NAMES = frozenset({"api_key", "private_key", "data_key", "access_token", "bearer"})
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")

_BASE58 = "[1-9A-HJ-NP-Za-km-z]"
_BASE58_64 = re.compile(f"(?<!{_BASE58}){_BASE58}{{80,90}}(?!{_BASE58})")
_NUMBERS = re.compile(r"\[\s*\d{1,3}(?:\s*,\s*\d{1,3}){31,63}\s*\]")
_PATTERNS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {REDACTED}"),
    # OpenAI, Anthropic and Solward's own; xAI; Google.
    (re.compile(r"\b(?:sk-|xai-|AIza)[A-Za-z0-9_-]{16,}|\bsa-[0-9a-f]{48}"), REDACTED),
    (re.compile(r"://[^\s/@'\"]+@"), f"://{REDACTED}@"),
)
# The pattern matches a whole URL. A pattern up to the query would search the rest of the text for a
# query from each URL without one; texts come from plugins, so the time must stay linear.
_ADDRESS = re.compile(r"(?i)\b(?:https?|wss?)://[^\s'\"]+")
# Every pattern needs one of these. Most log texts have none of them, so one search replaces all
# patterns. This matters because the money path logs each step.
_SUSPICIOUS = re.compile(rf"://|\[\s*\d|sk-|sa-|xai-|AIza|(?i:bearer|basic)\s|{_BASE58}{{80}}")
# Recent signatures known to be no keypairs: checking one takes a scalar multiplication.
_signatures: set[str] = set()
_MAX_SIGNATURES = 4096

# The process's own secrets, longest first.
_known: list[str] = []
_MIN_KNOWN = 8
# The longest match of a pattern: an array of 64 numbers, one a line, or credentials in a URL.
_LONGEST = 1024
_MIN_PATH_KEY = 16


def conceal(secrets: Iterable[str]) -> None:
    """Redact these texts from now on, except texts under 8 characters, which may be words."""
    long_enough = {each for each in secrets if len(each) >= _MIN_KNOWN}
    if long_enough.issubset(_known):
        return
    _known[:] = sorted(long_enough.union(_known), key=len, reverse=True)


def known_secrets() -> tuple[str, ...]:
    """Return the secrets given to `conceal`, longest first, to remove them from other texts."""
    return tuple(_known)


def concealed(text: str) -> str:
    """Remove the process's own secrets from `text`."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def secrets_of_url(url: str) -> list[str]:
    """Return the parts of a URL that may be keys, as written and decoded: user information, query
    values, query names without a value, the fragment, and long path segments."""
    parts = urlsplit(url)
    named = [each.partition("=") for each in parts.query.split("&")]
    found = [
        *(parts.username or "", parts.password or "", parts.fragment),
        *(value or name for name, _, value in named),
        *(part for part in parts.path.split("/") if len(part) >= _MIN_PATH_KEY),
    ]
    decoded = [unquote_plus(value) for _, _, value in named]
    return list(dict.fromkeys(filter(None, (*found, *map(unquote, found), *decoded))))


def secrets_of_database_url(url: str) -> list[str]:
    """Return the passwords in a database's address, encoded and decoded. User and database names
    are ordinary words such as `postgres`."""
    parts = urlsplit(url)
    values = [value for name, value in parse_qsl(parts.query) if "password" in name]
    written = parts.password or ""
    return [*filter(None, dict.fromkeys((written, unquote(written)))), *values]


def scrub(value: Any) -> Any:
    """Remove secrets from a text, and from texts inside mappings, lists and tuples."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Mapping):
        return {
            name: REDACTED if names_secret(name) and item is not None else scrub(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        if len(value) in (32, 64) and all(type(item) is int for item in value):
            return REDACTED
        return [scrub(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    if value is None or isinstance(value, bool | int | float):
        return value
    return scrub_text(str(value))


def scrub_text(text: str) -> str:
    """Remove base58 keypairs, number arrays, bearer tokens, vendor keys, credentials and queries
    of URLs, and the process's own secrets from `text`."""
    text = concealed(text)
    if len(text) < 16 or _SUSPICIOUS.search(text) is None:
        return text
    text = _BASE58_64.sub(_without_keypair, text)
    text = _NUMBERS.sub(REDACTED, text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _ADDRESS.sub(_without_query, text)


def scrub_start(text: str, most: int) -> str:
    """Return the first `most` characters of `scrub_text(text)` at a bounded cost.

    A secret that is cut is not recognized, so the text's end is left out where it was cut.
    """
    text = concealed(text)
    if len(text) <= most + _LONGEST:
        return scrub_text(text)[:most]
    return scrub_text(text[: most + _LONGEST])[:-_LONGEST][:most]


def _without_query(match: re.Match[str]) -> str:
    address, mark, query = match[0].partition("?")
    return f"{address}?{REDACTED}" if query else address + mark


def _without_keypair(match: re.Match[str]) -> str:
    # Imported here, because the dashboard imports it nowhere else, and seldom writes a line.
    from solders.keypair import Keypair

    # Transaction signatures have 64 bytes too and must stay; only in a keypair is the second half
    # the public key of the first.
    text = match[0]
    if text in _signatures:
        return text
    try:
        Keypair.from_base58_string(text)
    except ValueError:
        if len(_signatures) >= _MAX_SIGNATURES:
            _signatures.clear()
        _signatures.add(text)
        return text
    return REDACTED


@functools.lru_cache(1024)
def names_secret(name: object) -> bool:
    """Return whether a field of this name holds a secret."""
    words = [word.lower() for word in _WORDS.findall(str(name))]
    joined = "_".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(part in joined for part in _SECRET_NAMES)
