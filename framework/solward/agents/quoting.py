"""Quoted data in a prompt: third-party text cannot end its block or pass for instructions.

A block is JSON without `<` and `>`, so that nothing in it can close the block, and without
invisible characters, in which instructions can hide from a person who reads the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from solward.support import jsontext
from solward.support.clean_text import cleaned

# An observation of usual size is quoted whole; a wallet spammed with tokens, or a broken ledger's
# answer, must not crowd out the rules or run up the model's bill.
MAX_OBSERVATION = 12_000
MAX_ITEMS = 40
MAX_STRING = 300

_TOKENS = "tokenBalances"


def observation_block(observation: Mapping[str, Any]) -> str:
    """An observation, shortened where it is larger than `MAX_OBSERVATION` characters."""
    # Invisible characters of a name become escapes.
    text = jsontext.dumps(observation, ascii_only=True)
    if len(text) > MAX_OBSERVATION:
        text = jsontext.dumps(_shortened(observation), ascii_only=True)
    if len(text) > 4 * MAX_OBSERVATION:
        plain = {name: value for name, value in observation.items() if isinstance(value, int)}
        known = {"error": "The observation is too large to show"} | plain
        text = jsontext.dumps(known, ascii_only=True)
    return block("observation", text)


def block(kind: str, json_text: str) -> str:
    """JSON text inside the block `kind`; it stays JSON of the same value, but invisible characters
    become U+FFFD."""
    json_text = cleaned(json_text)
    if "<" in json_text or ">" in json_text:
        # JSON has neither outside of strings, so the escapes are always valid.
        json_text = json_text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<{kind}>\n{json_text}\n</{kind}>"


def quoted(text: str, longest: int) -> str:
    """`text` as a JSON string, cut to `longest` characters."""
    return encode_basestring(cut(text, longest))


def cut(text: str, longest: int) -> str:
    """`text`, or its beginning with a note of how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}... ({len(text) - longest} more characters)"


def _shortened(observation: Mapping[str, Any]) -> dict[str, Any]:
    known = dict(observation)
    tokens = known.get(_TOKENS)
    if isinstance(tokens, list):
        # Known tokens come first, so that a flood of worthless ones hides none of them.
        known[_TOKENS] = sorted(tokens, key=lambda token: "symbol" not in token)
    shortened: dict[str, Any] = _short(known, 0)
    return shortened


def _short(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return cut(value, MAX_STRING)
    if isinstance(value, Mapping | list | tuple) and depth > 6:
        return "..."
    if isinstance(value, Mapping):
        return {
            cut(str(name), MAX_STRING): _short(item, depth + 1)
            for name, item in list(value.items())[:MAX_ITEMS]
        }
    if isinstance(value, list | tuple):
        items = [_short(item, depth + 1) for item in value[:MAX_ITEMS]]
        return items if len(value) <= MAX_ITEMS else [*items, f"{len(value) - MAX_ITEMS} more"]
    return value
