"""MCP on standard input and output."""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import IO, Any, Final, cast

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.server.stdio import stdio_server

from solward.client import SolwardClient
from solward.support import jsontext
from solward_mcp.handlers import TIMEOUT_S
from solward_mcp.protocol import Json, cancelled_id, is_id, refusal_of
from solward_mcp.session import RecoveryNotifier, WalletScope

# The same as the service's largest body, which is a payment's.
_MAX_MESSAGE_BYTES: Final = 2 << 20


async def serve(url: str, token: str, wallet: str | None, opened: Callable[[], None]) -> None:
    """Serve the MCP client that started this process, until it closes standard input.

    Standard output carries only the protocol. The service may stop and restart meanwhile.

    Args:
        url: the service's address.
        token: the admin secret or an API key.
        wallet: id, name or address of the only wallet to act on; None is the one that the key is
            confined to, or else all.
        opened: is called once address and token can be used, whether the service is there or not.

    Raises:
        InvalidRequest: the address or the token cannot be used.
    """
    async with SolwardClient(url, token, timeout_s=TIMEOUT_S) as client:
        opened()
        notifier = RecoveryNotifier(client)
        scope = WalletScope(client, wallet, asks_key=wallet is None)
        server = _create_server(scope, notifier)
        notifications = NotificationOptions(tools_changed=True, resources_changed=True)
        messages = _Messages(_protocol_output(), scope.held.cancel)
        lines = anyio.wrap_file(cast(IO[str], _CheckedLines(sys.stdin.buffer, messages)))
        answers = anyio.wrap_file(cast(IO[str], messages))
        async with stdio_server(lines, answers) as (incoming, outgoing), notifier.running():
            await server.run(
                incoming, outgoing, server.create_initialization_options(notifications)
            )


def _protocol_output() -> io.BufferedWriter:
    """Return standard output; from then on, all other prints go to standard error."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output


class _Messages(io.TextIOBase):
    """Standard output for messages, with the requests of both sides that have no response yet.

    The SDK cancels running calls when its input ends: payments would be made without a response.
    """

    def __init__(self, output: io.BufferedWriter, cancel: Callable[[str], None]) -> None:
        super().__init__()
        self._output, self._cancel = output, cancel
        self._changed = threading.Condition()
        self._requests: set[Any] = set()
        self._asked: set[Any] = set()

    def write(self, line: str) -> int:
        """Send a message; the SDK calls it in a thread."""
        # A buffered writer keeps the lines of several threads whole.
        self._output.write(line.encode())
        self._output.flush()
        self._track_request(jsontext.loads(line), self._asked, self._requests)
        return len(line)

    def record_passed(self, line: str) -> None:
        """Record a message that is passed to the SDK."""
        message = jsontext.loads(line)
        self._track_request(message, self._requests, self._asked)
        cancelled = cancelled_id(message)
        if cancelled is not None:
            self._track_request({"id": cancelled}, self._asked, self._requests)
            self._cancel(str(cancelled))

    def await_responses(self) -> None:
        """Wait for the response to each request, unless its handler awaits one of the client."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._requests) <= len(self._asked), TIMEOUT_S)

    def _track_request(self, message: Json, requests: set[Any], answered: set[Any]) -> None:
        # The id of a client's response may be anything, also no request's.
        if not is_id(message.get("id")):
            return
        with self._changed:
            if "method" in message:
                requests.add(message["id"])
            else:
                answered.discard(message["id"])
            self._changed.notify_all()


class _CheckedLines(io.TextIOBase):
    """The lines of standard input that are messages. Other lines get an error response here."""

    def __init__(self, source: IO[bytes], messages: _Messages) -> None:
        super().__init__()
        self._source, self._messages = source, messages

    def readline(self, _size: int | None = -1) -> str:  # type: ignore[override]
        """Return the next message, empty at the end; the SDK calls it in a thread."""
        while line := self._source.readline(_MAX_MESSAGE_BYTES + 1):
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = self._source.readline(_MAX_MESSAGE_BYTES)
            if not line.strip(jsontext.SPACE):
                continue
            refusal = refusal_of(line, _MAX_MESSAGE_BYTES)
            if refusal is None:
                message = line.removeprefix(codecs.BOM_UTF8).decode()
                self._messages.record_passed(message)
                return message
            if "id" in refusal:
                self._messages.write(jsontext.dumps(refusal) + "\n")
        self._messages.await_responses()
        return ""


def _create_server(scope: WalletScope, notifier: RecoveryNotifier) -> Any:
    # Release 2 of the SDK has its types in a distribution of their own.
    if find_spec("mcp_types") is None:
        from solward_mcp import server_sdk_1

        return server_sdk_1.mcp_server(scope, notifier)
    from solward_mcp import server

    return server.mcp_server(scope, notifier)
