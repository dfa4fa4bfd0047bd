"""The HTTP client of one skill call: shared with nobody, and useless once the call has ended."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import httpx

from solward.context import Lifetime
from solward.support.tls import tls_context

TIMEOUT_S = 15.0


class CallClient(httpx.AsyncClient):
    """An `httpx.AsyncClient` of one call, with hooks, cookies and connections of its own."""

    def __init__(self, lifetime: Lifetime) -> None:
        super().__init__(timeout=TIMEOUT_S, verify=certificates())
        self._lifetime = lifetime

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request as httpx does.

        Raises:
            SkillError: the call has ended.
        """
        self._lifetime.check()
        return await super().send(request, **options)


certificates: Callable[[], ssl.SSLContext | bool] = tls_context
"""Returns a client's TLS context; a plugin host, whose service checks certificates, replaces it."""
