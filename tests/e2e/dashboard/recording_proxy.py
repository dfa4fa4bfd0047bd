"""A proxy between the dashboard and its service that remembers what was asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from tests.support.http import Handler, served_in_thread

_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, at a moment of the monotonic clock."""

    at: float
    path: str
    cache_control: str


class Between:
    """What went through, and where the dashboard is to call."""

    def __init__(self, url: str) -> None:
        self.asked: list[Asked] = []
        self._client = httpx.Client(base_url=url, timeout=60)
        outer = self

        class Forwarding(Handler):
            def get(self) -> None:
                cache = self.headers.get("Cache-Control", "")
                outer.asked.append(Asked(time.monotonic(), self.path, cache))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
                answer = outer._client.get(self.path, headers=headers)
                told = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
                self.reply(answer.status_code, answer.content, told)

        self.handler = Forwarding
        self.url = ""

    def of(self, path: str) -> list[Asked]:
        """The requests of this path, whatever its query."""
        return [each for each in self.asked if each.path.partition("?")[0] == f"/api/v1{path}"]


@contextmanager
def between(url: str) -> Iterator[Between]:
    """In front of the service at `url` until the block ends."""
    proxy = Between(url)
    with proxy._client, served_in_thread(proxy.handler) as proxy.url:
        yield proxy
