"""The localnet: the ledger behind the methods of Solana's JSON-RPC, for one process.

One thread owns the ledger. Calls wait in a queue. The thread executes all waiting calls in order as
a batch, commits once and only then answers, so that every answered change survives a kill.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from solward_localnet.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError, refuse_confirmed
from solward_localnet.landing import TornLedger
from solward_localnet.ledger import Commit, LocalLedger
from solward_localnet.methods import CONTROL_METHODS, METHODS, Method
from solward_localnet.options import LocalnetOptions
from solward_localnet.vm import VmPanic

_log = logging.getLogger(__name__)

MAX_BATCH = 256

Listener = Callable[[Commit], None]


@dataclass(slots=True)
class _Call:
    method: Method | None
    params: Sequence[Any]
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None

    def resolve(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Localnet:
    """An open localnet. Its methods are called on the event loop it was opened on."""

    def __init__(
        self, ledger: LocalLedger, options: LocalnetOptions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._ledger = ledger
        self._options = options
        self._loop = loop
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._listeners: list[Listener] = []
        self._ticker: asyncio.Task[None] | None = None
        self._closing = False
        self._torn = False
        self._changes = 0
        # A daemon: a process that ends without closing ends as if killed, and loses nothing either.
        self._thread = threading.Thread(target=self._run_batches, name="localnet", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path | None, options: LocalnetOptions | None = None) -> "Localnet":
        """Open the ledger file at `path`, or one in memory for None; a new one gets its genesis.

        Raises:
            LedgerLocked: another process, or another localnet of this one, has the file open.
            LedgerMismatch: the file is no ledger of this version.
        """
        chosen = options or LocalnetOptions()
        loop = asyncio.get_running_loop()
        ledger = await loop.run_in_executor(None, LocalLedger, path, chosen)
        return cls(ledger, chosen, loop)

    async def call(self, method: str, params: Sequence[Any] = ()) -> Any:
        """Return the `result` of a JSON-RPC method: plain JSON values, durable when this returns.

        Raises:
            RpcError: the `error` object of the response.
        """
        found = METHODS.get(method)
        if found is None and self._options.test_control:
            found = CONTROL_METHODS.get(method)
        if found is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        if self._options.finality == "finalized":
            refuse_confirmed(params)
        return await self._enqueue(found, params)

    @property
    def changes(self) -> int:
        """The number of answered commits that changed accounts since the localnet opened."""
        return self._changes

    async def advance_slots(self, slots: int) -> None:
        """Move the ledger ahead by `slots` at once, so that tests need not wait."""
        await self._enqueue(CONTROL_METHODS["solward_advanceSlots"], [slots])

    async def advance_epochs(self, epochs: int) -> None:
        """Move the ledger to the first slot of the epoch that is `epochs` ahead, for tests."""
        await self._enqueue(CONTROL_METHODS["solward_advanceEpochs"], [epochs])

    async def set_rent(self, per_byte: int) -> None:
        """Require `per_byte` lamports of rent per byte from now on, for tests."""
        await self._enqueue(CONTROL_METHODS["solward_setRent"], [per_byte])

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on the event loop after each durable commit, until the returned call."""
        self._listeners.append(listener)
        if self._options.ticker and self._ticker is None and not self._closing:
            self._ticker = self._loop.create_task(self._commit_every_slot())

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)
            if not self._listeners and self._ticker is not None:
                self._ticker.cancel()
                self._ticker = None

        return unsubscribe

    async def close(self) -> None:
        """Answer the queued calls, store the chain and release the file; later calls do nothing."""
        self._closing = True
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if self._thread.is_alive():
            self._queue.put(None)
            await self._loop.run_in_executor(None, self._thread.join)

    async def _enqueue(self, method: Method | None, params: Sequence[Any]) -> Any:
        if self._closing:
            raise RpcError(INTERNAL_ERROR, "The localnet is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Call(method, params, future))
        return await future

    async def _commit_every_slot(self) -> None:
        while True:
            await asyncio.sleep(self._options.slot_ms / 1000)
            with contextlib.suppress(RpcError):
                await self._enqueue(None, ())

    def _run_batches(self) -> None:
        closing = False
        while not closing:
            batch, closing = self._take_batch()
            commit = self._run_batch(batch)
            # A closed loop takes no answers; the calls are durable all the same.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer_batch, batch, commit)
        try:
            self._ledger.close()
        except Exception:
            _log.exception("the ledger could not be closed cleanly")

    def _take_batch(self) -> tuple[list[_Call], bool]:
        item = self._queue.get()
        batch: list[_Call] = []
        while item is not None:
            batch.append(item)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _run_batch(self, batch: list[_Call]) -> Commit | None:
        try:
            if self._torn:
                self._ledger.load()
                self._torn = False
            self._ledger.sync()
            commits = [self._execute_call(call) for call in batch]
            commits.append(self._ledger.commit())
            return _merge_commits([commit for commit in commits if commit is not None])
        except Exception:
            # Nothing of the batch is durable: all its calls fail, and the ledger is loaded again.
            _log.exception("a batch of calls was rolled back")
            for call in batch:
                call.error = RpcError(INTERNAL_ERROR, "Internal error")
            self._torn = True
            return None

    def _execute_call(self, call: _Call) -> Commit | None:
        if call.method is None:
            return None
        try:
            call.result = call.method(self._ledger, call.params)
        except RpcError as error:
            call.error = error
        except VmPanic as panic:
            _log.error("the virtual machine panicked: %s", panic)
            call.error = RpcError(INTERNAL_ERROR, "Internal error: the transaction panicked")
            commit = self._ledger.commit()
            self._ledger.load()
            return commit
        except TornLedger:
            raise
        except Exception:
            if self._ledger.storage.writing:
                raise
            _log.exception("a call failed")
            call.error = RpcError(INTERNAL_ERROR, "Internal error")
        except BaseException as panic:
            # pyo3's PanicException, from parsing: it must not end the thread.
            _log.error("a call panicked: %s", panic)
            call.error = RpcError(INTERNAL_ERROR, "Internal error: the call panicked")
        return None

    def _answer_batch(self, batch: list[_Call], commit: Commit | None) -> None:
        if commit is not None:
            self._changes += bool(commit.accounts)
            for listener in tuple(self._listeners):
                try:
                    listener(commit)
                except Exception:
                    _log.exception("a listener of the localnet failed")
        for call in batch:
            call.resolve()


def _merge_commits(commits: list[Commit]) -> Commit | None:
    if len(commits) < 2:
        return commits[0] if commits else None
    accounts = {key: account for commit in commits for key, account in commit.accounts.items()}
    transactions = tuple(tx for commit in commits for tx in commit.transactions)
    last = commits[-1]
    return Commit(last.slot, last.block_height, commits[0].previous_slot, transactions, accounts)
