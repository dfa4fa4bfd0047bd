"""Anthropic's prompt caching: its tools and system prompt, which an agent sends in every cycle.

A write costs a quarter more than the same tokens uncached, and is kept for five minutes, each read
for a tenth of the price (platform.claude.com/docs/en/build-with-claude/prompt-caching). So a prompt
is marked once the same one was sent within those minutes: an agent of a longer interval, and a
prompt that is sent once, pay no more than without. Other vendors cache by themselves.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Final

_KEPT_S: Final = 300.0
_MOST: Final = 4_096

_sent: dict[bytes, float] = {}


def with_cache(arguments: Mapping[str, Any], now_s: float | None = None) -> dict[str, Any]:
    """The arguments, their system prompt marked where its cache will be read.

    One mark is enough: Anthropic caches what precedes it, and the tools precede the system prompt.

    Args:
        now_s: monotonic seconds.
    """
    now_s = time.monotonic() if now_s is None else now_s
    system, *others = arguments["messages"]
    prefix = [arguments["model"], arguments.get("tools"), system["content"]]
    digest = hashlib.sha256(json.dumps(prefix, default=str).encode()).digest()
    before = _sent.pop(digest, None)
    # Popped and put in again, so that the oldest are the first.
    _sent[digest] = now_s
    if len(_sent) > _MOST:
        del _sent[next(iter(_sent))]
    if before is None or now_s - before >= _KEPT_S:
        return dict(arguments)
    marked = {
        "type": "text",
        "text": system["content"],
        "cache_control": {"type": "ephemeral"},
    }
    return {**arguments, "messages": [{**system, "content": [marked]}, *others]}


def forget() -> None:
    """Forget what was sent; for tests."""
    _sent.clear()
