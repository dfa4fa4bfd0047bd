"""The RPC nodes of one cluster as one transport: they share the load and stand in for each other.

Each call goes to the fit node with the fewest calls open, in turn where they are equal. Conclusions
from two answers of one node use `FailoverTransport.nodes`, a transport for each. A transaction goes
to every fit node at once: the bytes are the same and land once, and a node that lags or drops it
costs nothing then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import structlog

from solward.telemetry import metrics
from solward.types.errors import (
    ConfigError,
    LedgerError,
    LedgerRejected,
    LedgerUnavailable,
    SolwardError,
)
from solward.vault.ledger.answers import OPTIONAL
from solward.vault.ledger.node import ONCE, Node
from solward.vault.ledger.patience import NodeBusy, NodeDenies, patiently
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT

_SEND: Final = "sendTransaction"

_log = structlog.get_logger(__name__)


class FailoverTransport:
    """`Transport` over the nodes that the operator names."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._turn = 0
        self._sends: set[asyncio.Task[Any]] = set()

    @property
    def origin(self) -> str:
        """The hosts of all nodes: an answer is any one's; `nodes` says whose."""
        return ", ".join(sorted(self.origins()))

    def origins(self) -> frozenset[str]:
        """The origins of all nodes that are not of another cluster."""
        return frozenset(node.origin for node in self._nodes if node.wrong is None)

    def away(self) -> tuple[str, ...]:
        """The names of the nodes that are away, see `Node.away`."""
        return tuple(node.name for node in self._nodes if node.away)

    async def check(self) -> None:
        """Check the cluster of every node; one that is away is checked before it is used.

        Raises:
            ConfigError: one is of another cluster.
        """
        await asyncio.gather(*(self._probe(node) for node in self._nodes))

    async def _probe(self, node: Node) -> None:
        try:
            await node.call("getSlot", [])
        except ConfigError:
            raise
        except LedgerError as error:
            _log.warning("rpc_node_is_away", node=node.name, error=str(error))

    def nodes(self) -> tuple[Node, ...]:
        """Nodes that do not rest, the one to ask first; if all rest, the one whose rest ends first.
        Empty if every node is of another cluster."""
        if len(self._nodes) == 1 and self._nodes[0].wrong is None:
            return self._nodes
        ordered = self._nodes[self._turn :] + self._nodes[: self._turn]
        self._turn = (self._turn + 1) % len(self._nodes)
        fit = [node for node in ordered if node.wrong is None]
        awake = [node for node in fit if not node.resting]
        if not awake:
            return tuple(sorted(fit, key=lambda node: node.ready_at)[:1])
        return tuple(sorted(awake, key=lambda node: node.outstanding))

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`. Tries each usable node once, until one answers; where none does,
        again within the caller's deadline (`patience`), but for a send, which its sender repeats.

        Raises:
            ConfigError: every node is of another cluster.
        """
        if method == _SEND:
            return await self._send(params)
        if method in ONCE:
            return await self._try(method, params)
        return await patiently(partial(self._try, method, params))

    async def _try(self, method: str, params: Sequence[Any]) -> Any:
        errors: list[LedgerError] = []
        for place, node in enumerate(self.nodes()):
            if place:
                metrics.RPC_FAILOVERS.inc()
            try:
                return await node.call(method, params)
            except NodeBusy as error:
                # What was not sent cannot happen twice.
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
                # Another node may be far enough, or of a provider that serves it.
                if error.code != MIN_CONTEXT_SLOT and method not in OPTIONAL:
                    raise
                errors.append(error)
        raise self._none_answered(method, errors)

    async def _send(self, params: Sequence[Any]) -> Any:
        """Send to every fit node at once; the first that takes it answers."""
        nodes = self.nodes()
        if len(nodes) == 1:
            return await self._try(_SEND, params)
        waiting = {asyncio.create_task(node.call(_SEND, params)) for node in nodes}
        self._sends |= waiting
        for task in waiting:
            task.add_done_callback(self._sent)
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

    def _sent(self, task: asyncio.Task[Any]) -> None:
        self._sends.discard(task)
        if not task.cancelled():
            # Those that nobody waits for any more included.
            task.exception()

    def _none_answered(self, method: str, errors: Sequence[LedgerError]) -> SolwardError:
        """What to raise where these are all the nodes said."""
        if not errors:
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
        sends = tuple(self._sends)
        for task in sends:
            task.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        await asyncio.gather(*(node.close() for node in self._nodes))
