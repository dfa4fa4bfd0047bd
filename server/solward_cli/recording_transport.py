"""The service's answers as they came, for `--json`."""

from __future__ import annotations

import httpx


class Answers(httpx.AsyncHTTPTransport):
    """Keeps the text of the last answer; streams pass by.

    Attributes:
        last: the last answer's text.
    """

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self.last = ""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and read its answer."""
        response = await super().handle_async_request(request)
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            await response.aread()
            self.last = response.text
        return response
