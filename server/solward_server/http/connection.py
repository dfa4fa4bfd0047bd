"""One HTTP request on the ASGI server's connection, in fewer tasks and messages than Quart's own.

Quart runs each view in a task of its own, its response in another and the request's messages in a
third; a request whose view reads little costs more by its tasks than by its work.
"""

from __future__ import annotations

import asyncio
from types import EllipsisType

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable
from quart import Response
from quart.asgi import ASGIHTTPConnection
from quart.typing import ResponseTypes
from quart.utils import encode_headers
from quart.wrappers.response import DataBody

# Quart's own default: the longest time that a client may take to read a response.
RESPONSE_TIMEOUT_S = 60.0


class Connection(ASGIHTTPConnection):
    """Runs the view and sends its response in the server's task for the request.

    The application's `RESPONSE_TIMEOUT` must be None: the time is limited here.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """See `ASGIHTTPConnection`: a client that goes away cancels the view."""
        try:
            request = self._create_request_from_scope(send)
        except (IndexError, ValueError):
            # The target has no path, or is no URL.
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        running = asyncio.current_task()
        assert running is not None
        receiving = asyncio.ensure_future(self.handle_messages(request, receive))

        def cancel_view(_ended: asyncio.Task[None]) -> None:
            running.cancel()

        receiving.add_done_callback(cancel_view)
        try:
            await self.handle_request(request, send)
        except asyncio.CancelledError:
            # Anything but the one cancellation from above is the server's.
            if not receiving.done() or running.uncancel():
                raise
            receiving.result()
        finally:
            receiving.remove_done_callback(cancel_view)
            receiving.cancel()

    async def _send_response(self, send: ASGISendCallable, response: ResponseTypes) -> None:
        timeout = getattr(response, "timeout", ...)
        async with asyncio.timeout(
            RESPONSE_TIMEOUT_S if isinstance(timeout, EllipsisType) else timeout
        ):
            if not isinstance(response, Response) or not isinstance(response.response, DataBody):
                await super()._send_response(send, response)
                return
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": encode_headers(response.headers),
                }
            )
            body = response.response
            data = body.data[body.begin : body.end]
            await send({"type": "http.response.body", "body": data, "more_body": False})
