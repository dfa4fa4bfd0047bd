"""Several RPC nodes of one cluster as one transport, with failover to the next node.

A node stays in use as long as it answers. One that fails rests, longer each time, and proves its
cluster again before it is used. Conclusions from two answers of one node use
`FailoverTransport.nodes`, a transport for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from solward.errors import ConfigError, LedgerError, LedgerRejected, LedgerUnavailable
from solward.telemetry import metrics
from solward.vault.ledger.protocol import MIN_CONTEXT_SLOT
from solward.vault.ledger.transport import Transport

REST_S = 1.0
MAX_REST_S = 30.0
# A call cancelled after this long counts as a failure: the node is too slow.
PATIENCE_S = 0.5

# Errors of the node, not of the request: behind the cluster, internal error (agave
# rpc-client-api/src/custom_error.rs, JSON-RPC 2.0), over the provider's rate. A node some slots
# behind the one asked for (`MIN_CONTEXT_SLOT`) is fit: the next is asked, and it does not rest.
NODE_FAULTS = frozenset({-32005, -32603, -32429, 429})
# No failover: another node might do it twice, and its refusals are the faucet's, not the node's.
_NO_FAILOVER = frozenset({"requestAirdrop"})

_log = structlog.get_logger(__name__)

Judge = Callable[[str], None]


class Node:
    """One node: a `Transport` that never switches, and what is known of the node.

    Args:
        name: shown in logs and errors; never more of an address than its host.
        judge: given the node's genesis hash; raises `ConfigError` for another cluster's.
        clock: monotonic seconds.
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
        self._transport = transport
        self._judge = judge
        self._clock = clock
        self._admitted = False
        self._admitting = asyncio.Lock()
        self._failed_at = float("-inf")
        self._rest_s = 0.0

    @property
    def origin(self) -> str:
        """The host that answers."""
        return self._transport.origin

    @property
    def resting(self) -> bool:
        """Whether it failed recently and is not to be used yet."""
        return self._clock() < self.rests_until

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`; `LedgerUnavailable` also where the node says it is not fit.

        Raises:
            ConfigError: it is of another cluster.
        """
        began = self._clock()
        try:
            await self._admit(began)
            answer = await self._transport.call(method, params)
        except LedgerRejected as error:
            if error.code not in NODE_FAULTS or method in _NO_FAILOVER:
                self._answered(began)
                raise
            self._failed(began, str(error))
            raise LedgerUnavailable(f"The ledger node cannot answer {method}: {error}") from None
        except LedgerUnavailable as error:
            if method not in _NO_FAILOVER:
                self._failed(began, str(error))
            raise
        except asyncio.CancelledError:
            if self._clock() - began >= PATIENCE_S:
                self._failed(began, f"{method} took too long")
            raise
        self._answered(began)
        return answer

    async def _admit(self, began: float) -> None:
        # Checks the genesis hash, once after each failure.
        if self._admitted:
            return
        async with self._admitting:
            if self.wrong is not None:
                raise self.wrong
            if self._admitted:
                return
            if began < self._failed_at:
                raise LedgerUnavailable("The ledger node failed while others waited for it")
            try:
                genesis = await self._transport.call("getGenesisHash", [])
            except LedgerRejected as error:
                raise LedgerUnavailable(
                    f"The ledger node does not say what it is: {error}"
                ) from None
            try:
                self._judge(str(genesis))
            except ConfigError as error:
                self.wrong = error
                _log.error("rpc_of_another_cluster", node=self.name, error=str(error))
                raise
            self._admitted = True

    async def close(self) -> None:
        """Release connections."""
        await self._transport.close()

    def _answered(self, began: float) -> None:
        # An answer to a call from before the failure says nothing about the time after it.
        if self._rest_s and began >= self._failed_at:
            _log.info("rpc_node_answers", node=self.name)
            self._rest_s, self.rests_until = 0.0, float("-inf")

    def _failed(self, began: float, error: str) -> None:
        self._admitted = False
        if began < self._failed_at or self.resting:
            return
        self._failed_at = self._clock()
        self._rest_s = min(max(2 * self._rest_s, REST_S), MAX_REST_S)
        self.rests_until = self._failed_at + self._rest_s
        _log.warning("rpc_node_rests", node=self.name, seconds=self._rest_s, error=error)


class FailoverTransport:
    """`Transport` over nodes in the operator's order of preference."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._current = 0

    @property
    def origin(self) -> str:
        """The origin of the node in use."""
        return self._nodes[self._current].origin

    def origins(self) -> frozenset[str]:
        """The origins of all nodes that are not of another cluster."""
        return frozenset(node.origin for node in self._nodes if node.wrong is None)

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
        """Nodes that do not rest, the one in use first; if all rest, the one whose rest ends first.
        Empty if every node is of another cluster."""
        ordered = self._nodes[self._current :] + self._nodes[: self._current]
        fit = [node for node in ordered if node.wrong is None]
        awake = tuple(node for node in fit if not node.resting)
        return awake or tuple(sorted(fit, key=lambda node: node.rests_until)[:1])

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        """See `Transport.call`. Tries each usable node once, until one answers.

        Raises:
            ConfigError: every node is of another cluster.
        """
        unanswered: LedgerUnavailable | None = None
        behind: LedgerRejected | None = None
        for place, node in enumerate(self.nodes()):
            if place:
                metrics.RPC_FAILOVERS.inc()
            try:
                answer = await node.call(method, params)
            except LedgerUnavailable as error:
                unanswered = error
                if method in _NO_FAILOVER:
                    raise
            except ConfigError:
                continue
            except LedgerRejected as error:
                if error.code == MIN_CONTEXT_SLOT:
                    behind = error
                    continue
                self._current = self._nodes.index(node)
                raise
            else:
                self._current = self._nodes.index(node)
                return answer
        if behind is not None:
            raise behind
        if unanswered is None:
            for wrong in filter(None, (node.wrong for node in self._nodes)):
                raise wrong
        raise LedgerUnavailable(f"No ledger node answered {method}; last: {unanswered}")

    async def close(self) -> None:
        """Release every node's connections."""
        await asyncio.gather(*(node.close() for node in self._nodes))
