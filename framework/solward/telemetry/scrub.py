"""Takes secrets out of what is about to be written down: by field name, and by how they look."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from solders.keypair import Keypair

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
    (re.compile(r"\b(?:sk-|xai-|AIza)[A-Za-z0-9_-]{16,}"), REDACTED),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@'\"]+@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?i)\b((?:https?|wss?)://[^\s?'\"]+)\?[^\s'\"]+"), rf"\1?{REDACTED}"),
)
# What every pattern needs one of. Most texts of a log are ids and words and have none, and a money
# path that logs each step feels the difference.
_SUSPICIOUS = re.compile(rf"://|\[\s*\d|sk-|xai-|AIza|(?i:bearer|basic)\s|{_BASE58}{{80}}")
# Signatures seen lately, none of them a keypair: telling takes a scalar multiplication.
_signatures: set[str] = set()
_MAX_SIGNATURES = 4096

# Exact texts that this process was given as secrets, longest first.
_known: list[str] = []
_MIN_KNOWN = 8
_MIN_PATH_KEY = 16


def conceal(secrets: Iterable[str]) -> None:
    """From now on take these texts out wherever they stand; shorter than 8 characters they would
    take ordinary words with them, and are left."""
    given = {each for each in secrets if len(each) >= _MIN_KNOWN}
    if given.issubset(_known):
        return
    _known[:] = sorted(given.union(_known), key=len, reverse=True)


def concealed(text: str) -> str:
    """`text` without the secrets this process was given."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def secrets_of_url(url: str) -> list[str]:
    """What in an address may be a key: user information, values of its query, long path parts."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)]
    path = [part for part in parts.path.split("/") if len(part) >= _MIN_PATH_KEY]
    return [*filter(None, (parts.username, parts.password)), *values, *path]


def secrets_of_database_url(url: str) -> list[str]:
    """What in a database's address is secret: its passwords, as written and as meant. Its user and
    its name are words such as `postgres`."""
    parts = urlsplit(url)
    values = [value for name, value in parse_qsl(parts.query) if "password" in name]
    written = parts.password or ""
    return [*filter(None, dict.fromkeys((written, unquote(written)))), *values]


def scrub(value: Any) -> Any:
    """`value` without secrets: texts, and texts inside mappings, lists and tuples."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, Mapping):
        return {
            name: REDACTED if _names_secret(name) and item is not None else scrub(item)
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
    """`text` without what looks like a key: base58 keypairs, number arrays, bearer tokens,
    vendor keys, credentials and queries of addresses, and the process's own secrets."""
    text = concealed(text)
    if len(text) < 16 or _SUSPICIOUS.search(text) is None:
        return text
    text = _BASE58_64.sub(_without_keypair, text)
    text = _NUMBERS.sub(REDACTED, text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _without_keypair(match: re.Match[str]) -> str:
    # Transaction signatures are 64 bytes too and worth reading; only of a keypair is the second
    # half the first half's public key.
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


def _names_secret(name: object) -> bool:
    return _is_secret_name(str(name))


@functools.lru_cache(1024)
def _is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    joined = "_".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(part in joined for part in _SECRET_NAMES)
