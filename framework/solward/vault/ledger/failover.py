"""The RPC nodes of one cluster as one transport: they share the load and replace each other.

Each call goes to the fit node with the fewest open calls, in turn if the counts are equal.
Conclusions from two answers of one node use `FailoverTransport.nodes`, with one transport per node.
A transaction goes to every fit node at once: the same bytes land only once, and a node that lags or
drops them does no harm.

A `Node` knows its cluster, when it failed, and how long it asked to be left alone.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from solward.support.tasks import end
from solward.telemetry import metrics
from solward.types.errors import (
    ConfigError,
    LedgerError,
    LedgerRejected,
    LedgerUnavailable,
    SolwardError,
)
from solward.vault.ledger.answers import ONCE, OPTIONAL, UNHEALTHY, RequestFailure
from solward.vault.ledger.patience import NodeBusy, NodeDenies, retry_patiently
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT
from solward.vault.ledger.transport import Transport

_SEND: Final = "sendTransaction"

_log = structlog.get_logger(__name__)

REST_S: Final = 1.0
MAX_REST_S: Final = 30.0
# The rest time of a node that is over its rate limit and does not say until when.
BUSY_S: Final = 0.5
MAX_BUSY_S: Final = 8.0
# How long a node's genesis hash is trusted before the node is asked for it again.
ADMISSION_S: Final = 60.0
# A call cancelled after this long counts as a failure: the node is too slow.
PATIENCE_S: Final = 0.5

# Errors of the node, not of the request: behind the cluster, and internal error (JSON-RPC 2.0). A
# node that is some slots behind the requested slot (`MIN_CONTEXT_SLOT`) is fit: the next node is
# asked, and the first does not rest.
_INTERNAL: Final = -32603
NODE_FAULTS: Final = frozenset({UNHEALTHY, _INTERNAL})

Judge = Callable[[str], None]


class FailoverTransport:
    """A `Transport` over all nodes that the operator configured."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._turn = 0
        self._sends: set[asyncio.Task[Any]] = set()

    @property
    def origin(self) -> str:
        """The hosts of all nodes, any of which may answer; `nodes` tells which."""
        return ", ".join(sorted(self.origins()))

    def origins(self) -> frozenset[str]:
        """Return the origins of all nodes except those of another cluster."""
        return frozenset(node.origin for node in self._nodes if node.wrong is None)

    def away(self) -> tuple[str, ...]:
        """Return the names of the unreachable nodes; see `Node.is_away`."""
        return tuple(node.name for node in self._nodes if node.is_away)

    async def check(self) -> None:
        """Check the cluster of every node; an unreachable node is checked before its next use.

        Raises:
            ConfigError: a node is of another cluster.
        """
        await asyncio.gather(*(self._check_cluster(node) for node in self._nodes))

    async def _check_cluster(self, node: Node) -> None:
        try:
            await node.call("getSlot", [])
        except ConfigError:
            raise
        except LedgerError as error:
            _log.warning("rpc_node_is_away", node=node.name, error=str(error))

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that do not rest, the preferred node first; if all rest, the node whose
        rest ends first. Empty if every node is of another cluster."""
        if len(self._nodes) == 1 and self._nodes[0].wrong is None:
            return self._nodes
        ordered = self._nodes[self._turn :] + self._nodes[: self._turn]
        self._turn = (self._turn + 1) % len(self._nodes)
        fit = [node for node in ordered if node.wrong is None]
        awake = [node for node in fit if not node.is_resting]
        if not awake:
            return tuple(sorted(fit, key=lambda node: node.ready_at)[:1])
        return tuple(sorted(awake, key=lambda node: node.outstanding))

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`. Tries each usable node once, until one answers; if none does, again
        within the caller's deadline (`patience`), except for a send, which its sender repeats.

        Raises:
            ConfigError: every node is of another cluster.
        """
        if method == _SEND:
            return await self._send_to_all(params)
        if method in ONCE:
            return await self._try_nodes(method, params)
        return await retry_patiently(partial(self._try_nodes, method, params))

    async def _try_nodes(self, method: str, params: Sequence[Any]) -> Any:
        errors: list[LedgerError] = []
        for place, node in enumerate(self.nodes()):
            if place:
                metrics.RPC_FAILOVERS.inc()
            try:
                return await node.call(method, params)
            except NodeBusy as error:
                # A call that was not sent can safely go to another node.
                if method in ONCE and error.refused:
                    raise
                errors.append(error)
            except LedgerUnavailable as error:
                if method in ONCE:
                    raise
                errors.append(error)
            except ConfigError:
                continue
            except LedgerRejected as error:
                # Another node may have reached the slot, or serve the method.
                if error.code != MIN_CONTEXT_SLOT and method not in OPTIONAL:
                    raise
                errors.append(error)
        raise self._none_answered(method, errors)

    async def _send_to_all(self, params: Sequence[Any]) -> Any:
        """Send to every fit node at once; return the answer of the first node that accepts."""
        nodes = self.nodes()
        if len(nodes) == 1:
            return await self._try_nodes(_SEND, params)
        waiting = {asyncio.create_task(node.call(_SEND, params)) for node in nodes}
        self._sends |= waiting
        for task in waiting:
            task.add_done_callback(self._end_send)
        errors: list[LedgerError] = []
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                if isinstance(error, ConfigError):
                    continue
                if not isinstance(error, LedgerError):
                    raise error
                errors.append(error)
        raise self._none_answered(_SEND, errors)

    def _end_send(self, task: asyncio.Task[Any]) -> None:
        self._sends.discard(task)
        if not task.cancelled():
            # Otherwise asyncio would log the errors of sends that nobody waits for any more.
            task.exception()

    def _none_answered(self, method: str, errors: Sequence[LedgerError]) -> SolwardError:
        """Return the error for a call that no node answered; `errors` are the nodes' errors."""
        if not errors:
            if any(node.wrong is None for node in self._nodes):
                # Nodes of this cluster rest and are asked again.
                return LedgerUnavailable(f"No ledger node answered {method}: all of them rest")
            return next(node.wrong for node in self._nodes if node.wrong is not None)
        for error in errors:
            if isinstance(error, LedgerRejected):
                return error
        text = f"No ledger node answered {method}; last: {errors[-1]}"
        if all(isinstance(error, NodeDenies) for error in errors):
            return NodeDenies(text)
        waits = [error.wait_s for error in errors if isinstance(error, NodeBusy)]
        known = [wait_s for wait_s in waits if wait_s is not None]
        if len(known) == len(errors):
            return NodeBusy(text, min(known))
        return LedgerUnavailable(text)

    async def close(self) -> None:
        """Release every node's connections."""
        await end(self._sends)
        await asyncio.gather(*(node.close() for node in self._nodes))


class Node:
    """One node: a `Transport` that never switches, with the node's known state.

    A node that *failed* rests: others are preferred, and it must prove its cluster again. A node
    that is *busy*, over its rate limit, is left alone until a time that it names, for one method or
    all.

    Args:
        name: the name in logs and errors, which has no part of a URL except the host.
        judge: called with the node's genesis hash; raises `ConfigError` for another cluster's hash.
        clock: monotonic seconds.

    Attributes:
        outstanding: the number of calls that wait for its answer.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        judge: Judge,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.wrong: ConfigError | None = None
        self.rests_until = float("-inf")
        self.outstanding = 0
        self._transport = transport
        self._judge = judge
        self._clock = clock
        self._admitted_until = float("-inf")
        self._admitting = asyncio.Lock()
        self._failed_at = float("-inf")
        self._rest_s = 0.0
        # The request that may have caused the node's last answer.
        self._odd: tuple[str, Sequence[Any]] | None = None
        # Method (`_ALL` for all methods) -> end of the pause, and the last pause of our own.
        self._busy: dict[str, tuple[float, float]] = {}

    @property
    def origin(self) -> str:
        """The host of the node."""
        return self._transport.origin

    @property
    def is_resting(self) -> bool:
        """True if the node failed recently, or is busy for all methods."""
        return self._clock() < self.ready_at

    @property
    def is_away(self) -> bool:
        """True if the node's rest has its maximum length, or the node is of another cluster."""
        return self.wrong is not None or self._rest_s >= MAX_REST_S

    @property
    def ready_at(self) -> float:
        """The end of the node's rest, by `clock`."""
        return max(self.rests_until, self._busy.get(_ALL, _NEVER)[0])

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`. Also raises `LedgerUnavailable` if the node says that it is not
        fit, and `NodeBusy` if the node said before that it is busy.

        Raises:
            ConfigError: the node is of another cluster.
        """
        began = self._clock()
        self.outstanding += 1
        try:
            await self._admit_call(began)
            answer = await self._ask_node(method, params)
        except LedgerRejected as error:
            if error.code not in NODE_FAULTS or method in ONCE | OPTIONAL:
                self._note_answer(began)
                raise
            self._note_failure(
                began, str(error), (method, params) if error.code == _INTERNAL else None
            )
            raise LedgerUnavailable(f"The ledger node cannot answer {method}: {error}") from None
        except NodeBusy:
            raise
        except LedgerUnavailable as error:
            if method not in ONCE | OPTIONAL:
                is_its = isinstance(error, RequestFailure)
                self._note_failure(began, str(error), (method, params) if is_its else None)
            raise
        except asyncio.CancelledError:
            if self._clock() - began >= PATIENCE_S and method not in OPTIONAL:
                self._note_failure(began, f"{method} took too long")
            raise
        finally:
            self.outstanding -= 1
        self._note_answer(began)
        return answer

    async def _ask_node(self, method: str, params: Sequence[Any]) -> Any:
        """Return the transport's answer, unless the node is busy with the method."""
        for name in (_ALL, method):
            wait_s = self._busy.get(name, _NEVER)[0] - self._clock()
            if wait_s > 0:
                text = f"The ledger node asks to wait {math.ceil(wait_s)} s before {method}"
                raise NodeBusy(text, wait_s, method_only=name != _ALL, refused=False)
        try:
            answer = await self._transport.call(method, params)
        except NodeBusy as error:
            if method in ONCE:
                raise
            name = method if error.method_only or method in OPTIONAL else _ALL
            until, wait_s = self._rest_end(name, error)
            _log.warning(
                "rpc_node_busy", node=self.name, method=method, seconds=wait_s, error=str(error)
            )
            raise NodeBusy(str(error), until - self._clock(), method_only=name != _ALL) from None
        for name in (_ALL, method):
            if name in self._busy:
                # Our own pauses start over; a pause that the node asked for continues.
                self._busy[name] = self._busy[name][0], 0.0
        return answer

    def _rest_end(self, name: str, error: NodeBusy) -> tuple[float, float]:
        now = self._clock()
        until, last_s = self._busy.get(name, _NEVER)
        wait_s = error.wait_s
        if wait_s is None:
            # Refusals of calls that were sent together count as one refusal.
            wait_s = max(until - now, 0.0) or min(max(2 * last_s, BUSY_S), MAX_BUSY_S)
            last_s = max(last_s, wait_s)
        self._busy[name] = max(until, now + wait_s), last_s
        return self._busy[name][0], wait_s

    async def _admit_call(self, began: float) -> None:
        # The genesis hash is checked after each failure and from time to time.
        if self._clock() < self._admitted_until:
            return
        async with self._admitting:
            if self.wrong is not None:
                raise self.wrong
            if self._clock() < self._admitted_until:
                return
            if began < self._failed_at:
                raise LedgerUnavailable("The ledger node failed while other calls waited for it")
            try:
                genesis = await self._ask_node("getGenesisHash", [])
            except LedgerRejected as error:
                raise LedgerUnavailable(
                    f"The ledger node does not name its cluster: {error}"
                ) from None
            try:
                self._judge(str(genesis))
            except ConfigError as error:
                self.wrong = error
                _log.error("rpc_of_another_cluster", node=self.name, error=str(error))
                raise
            self._admitted_until = self._clock() + ADMISSION_S

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    def _note_answer(self, began: float) -> None:
        self._odd = None
        # An answer to a call made before the failure says nothing about the time after the failure.
        if self._rest_s and began >= self._failed_at:
            _log.info("rpc_node_answers", node=self.name)
            self._rest_s, self.rests_until = 0.0, float("-inf")

    def _note_failure(
        self, began: float, error: str, odd: tuple[str, Sequence[Any]] | None = None
    ) -> None:
        if odd is not None and self._odd in (None, odd):
            # One request that no node can answer must not make all nodes rest for other requests.
            self._odd = odd
            return
        self._admitted_until = float("-inf")
        if began < self._failed_at or self._clock() < self.rests_until:
            return
        self._failed_at = self._clock()
        self._rest_s = min(max(2 * self._rest_s, REST_S), MAX_REST_S)
        self.rests_until = self._failed_at + self._rest_s
        _log.warning("rpc_node_rests", node=self.name, seconds=self._rest_s, error=error)


_ALL: Final = "*"
_NEVER: Final = (float("-inf"), 0.0)
