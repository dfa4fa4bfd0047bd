"""The HTTP client of one skill call: shared with nobody, and useless once the call has ended."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from typing import Any

import httpx

from solward.context import Lifetime

TIMEOUT_S = 15.0


class CallClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` of one call, with hooks, cookies and connections of its own."""

    def __init__(self, lifetime: Lifetime) -> None:
        super().__init__(timeout=TIMEOUT_S, verify=certificates())
        self._lifetime = lifetime

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """As httpx's.

        Raises:
            SkillError: the call has ended.
        """
        self._lifetime.check()
        return await super().send(request, **options)


@functools.cache
def _read_certificates() -> ssl.SSLContext:
    # Reading the trusted certificates takes some 20 ms, which every call would wait for.
    return httpx.create_ssl_context()


certificates: Callable[[], ssl.SSLContext | bool] = _read_certificates
"""What a client trusts. A plugin host replaces it: there the service checks certificates."""
