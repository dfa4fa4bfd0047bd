"""A transport that keeps the text of the last JSON response, for `--json`, and the key of a payment
that was sent."""

from __future__ import annotations

import httpx

from solward.support.tls import tls_context


class RecordingTransport(httpx.AsyncHTTPTransport):
    """A transport that stores the parts of its requests and responses that a command prints.

    Attributes:
        last_text: the text of the last response that is JSON.
        sent_key: the Idempotency-Key of the last request that had one.
    """

    def __init__(self) -> None:
        super().__init__(verify=tls_context(trust_env=False), trust_env=False)
        self.last_text = ""
        self.sent_key: str | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and read the response."""
        self.sent_key = request.headers.get("Idempotency-Key", self.sent_key)
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Type", "").startswith("application/json"):
            await response.aread()
            self.last_text = response.text
        return response
