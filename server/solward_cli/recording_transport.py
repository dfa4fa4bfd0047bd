"""A transport that keeps the text of the last JSON response, for `--json`."""

from __future__ import annotations

import httpx

from solward.support.tls import tls_context


class RecordingTransport(httpx.AsyncHTTPTransport):
    """Keeps the text of the last response that is JSON, as `last_text`."""

    def __init__(self) -> None:
        super().__init__(verify=tls_context(trust_env=False), trust_env=False)
        self.last_text = ""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and read the response."""
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Type", "").startswith("application/json"):
            await response.aread()
            self.last_text = response.text
        return response
