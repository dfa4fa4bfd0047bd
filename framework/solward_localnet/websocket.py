"""The localnet's WebSocket side: Solana's subscriptions, fed by the ledger's commits."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from solward_localnet.errors import METHOD_NOT_FOUND, RpcError, invalid_params
from solward_localnet.jsonrpc import Call, answer, encode
from solward_localnet.records import Commit
from solward_localnet.subscriptions import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    Later,
    Request,
    Signature,
    Subscriptions,
)

MAX_QUEUED = 4096
"""Messages that may wait for a slow client before its connection is closed."""

_log = logging.getLogger(__name__)


class PubSub:
    """All WebSocket connections of one localnet; `publish` is its commit listener."""

    def __init__(self, call: Call, *, max_queued: int = MAX_QUEUED) -> None:
        self._call = call
        self._max_queued = max_queued
        self.subscriptions = Subscriptions()

    def publish(self, commit: Commit) -> None:
        """Notify the subscribed clients of `commit`. Never blocks: notifications wait in each
        client's own queue, and a client whose queue is full is cut off."""
        self.subscriptions.publish(commit)

    async def serve_connection(self, socket: ServerConnection) -> None:
        """Serve one client until it leaves; for `websockets.asyncio.server.serve`."""
        client = _Client(self._call, self.subscriptions, socket, self._max_queued)
        await client.run()


class _Client:
    """One connection: its subscriptions and what waits to be sent to it."""

    def __init__(
        self, call: Call, subscriptions: Subscriptions, socket: ServerConnection, max_queued: int
    ) -> None:
        self._call = call
        self._subscriptions = subscriptions
        self._socket = socket
        self._queue: asyncio.Queue[str | tuple[str, int, Later]] = asyncio.Queue(max_queued)
        self._own: set[int] = set()
        self._waiting: list[str | tuple[str, int, Later]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        writer = asyncio.create_task(self._write())
        try:
            async for message in self._socket:
                await self._receive(message)
        except ConnectionClosed:
            pass
        finally:
            for subscription_id in self._own:
                self._subscriptions.remove(subscription_id)
            for task in (writer, *self._tasks):
                task.cancel()
            await asyncio.gather(writer, *self._tasks, return_exceptions=True)

    async def _receive(self, message: str | bytes) -> None:
        # A client must have a subscription's id before it is notified under that id.
        self._waiting = []
        response = await answer(message, self._dispatch)
        waiting, self._waiting = self._waiting, None
        if response is not None:
            self._put(response)
        for item in waiting:
            self._put(item)

    async def _write(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                item = await self._queue.get()
                if isinstance(item, str):
                    await self._socket.send(item)
                    continue
                method, subscription_id, later = item
                try:
                    result = await later.compute()
                except Exception:
                    _log.exception("a %s could not be computed", method)
                    continue
                await self._socket.send(_notification(method, subscription_id, result))

    def _put(self, item: str | tuple[str, int, Later]) -> None:
        if self._waiting is not None:
            self._waiting.append(item)
            return
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            _log.warning("a WebSocket client does not read what it subscribed to: cut off")
            self._socket.transport.abort()

    def _notify(self, method: str, subscription_id: int, result: Any) -> None:
        if method == "signatureNotification" and subscription_id not in self._subscriptions.by_id:
            self._own.discard(subscription_id)
        if isinstance(result, Later):
            self._put((method, subscription_id, result))
        else:
            self._put(_notification(method, subscription_id, result))

    async def _dispatch(self, method: str, params: Sequence[Any]) -> Any:
        build = SUBSCRIBE.get(method)
        if build is not None:
            request = Request(self._subscriptions.new_id(), self._notify, params, self._call)
            subscription = build(request)
            self._subscriptions.add(subscription)
            self._own.add(subscription.id)
            # A transaction that landed before the request is notified at once.
            if isinstance(subscription, Signature):
                task = asyncio.create_task(self._settle_if_landed(subscription))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return subscription.id
        if method in UNSUBSCRIBE:
            return self._unsubscribe(params)
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def _unsubscribe(self, params: Sequence[Any]) -> bool:
        if len(params) != 1 or type(params[0]) is not int or params[0] not in self._own:
            raise invalid_params("Invalid subscription id.")
        self._own.remove(params[0])
        self._subscriptions.remove(params[0])
        return True

    async def _settle_if_landed(self, subscription: Signature) -> None:
        try:
            options = {"searchTransactionHistory": True}
            answered = await self._call("getSignatureStatuses", [[subscription.signature], options])
        except Exception:
            # The subscription stays, and is notified when the transaction lands.
            _log.exception("the status of a subscribed signature could not be read")
            return
        status = answered["value"][0]
        if status is not None and subscription.id in self._subscriptions.by_id:
            slot = answered["context"]["slot"]
            subscription.received = False
            self._subscriptions.settle(subscription.signature, status["slot"], status["err"], slot)


def _notification(method: str, subscription_id: int, result: Any) -> str:
    params = {"result": result, "subscription": subscription_id}
    return encode({"jsonrpc": "2.0", "method": method, "params": params})
