"""The blockhash that transactions are built on, and the height at which they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.protocol import BLOCKHASH_BLOCKS, LEAST_SLOT_MS
from solward.solana.stakes import unix_time
from solward.types.errors import LedgerError, LedgerUnavailable
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import Blockhash, Tip

# The maximum age of a blockhash when a transaction is built; the rest of its life is for landing.
MAX_AGE_BLOCKS = BLOCKHASH_BLOCKS / 6
# A node that claims a longer life would keep money reserved for ever.
MAX_VALID_BLOCKS = BLOCKHASH_BLOCKS + 1
# If two nodes are further apart, one of them is stuck or lies, and no expiry is certain.
MAX_APART_BLOCKS = 1000
# A node whose block is newer has not stopped: no cluster makes that many blocks in less time.
_STOPPED_S = MAX_APART_BLOCKS * LEAST_SLOT_MS / 1000
# The time limit for the other nodes' answers.
OTHERS_S = 1.0
# How long to wait for a node that is behind. A node that is tens of blocks behind takes longer, but
# another node at the same address may answer the next call.
LAG_SLOTS = 5


async def no_verification() -> None:
    """Skip the check of the cluster, for the embedded ledger."""


class BlockhashSource:
    """Fetches and caches the blockhash; concurrent callers share one refresh.

    `verify` raises unless the cluster is known to be the configured cluster. No transaction is
    built before `verify` has passed once.
    """

    def __init__(
        self,
        ledger: Ledger,
        verify: Callable[[], Awaitable[None]] = no_verification,
        max_age_blocks: float = MAX_AGE_BLOCKS,
    ) -> None:
        self._ledger = ledger
        self._verify = verify
        self._verified = False
        self._max_age_blocks = max_age_blocks
        self._cached: tuple[float, Blockhash] | None = None
        self._refreshing = asyncio.Lock()

    async def get(self) -> Blockhash:
        """Return a blockhash at most `max_age_blocks` old, at the current pace of slots.

        Raises:
            LedgerError: the ledger did not answer, or its expiry height is impossible.
        """
        async with self._refreshing:
            if self._cached is not None:
                fetched, blockhash = self._cached
                if time.monotonic() - fetched <= self._max_age_blocks * self._ledger.slot_s:
                    return blockhash
            if not self._verified:
                await self._verify()
                self._verified = True
            blockhash, _ = await asyncio.gather(self._fetch_from_one_node(), self._ledger.look())
            self._cached = (time.monotonic(), blockhash)
            return blockhash

    async def newest(self) -> Blockhash:
        """Return an uncached blockhash, so that equal steps have different signatures."""
        self.forget()
        return await self.get()

    async def expiry(self, slot: int) -> int:
        """Return the last block height at which bytes can land if the ledger knew their blockhash
        at `slot`, computed from the highest of the nodes' heights.

        If the height were too low, live bytes would count as dead and free their money.

        Raises:
            LedgerError: no node answered, or the nodes' heights are too far apart.
        """
        nodes = self._ledger.nodes()
        answers = await asyncio.gather(
            *(_fetch_tip(node, OTHERS_S if place else None) for place, node in enumerate(nodes))
        )
        tips = [(n, tip) for n, tip in zip(nodes, answers, strict=True) if tip is not None]
        if not tips:
            raise LedgerUnavailable("No node of the ledger returned its block height")
        return await _compute_expiry(_height_at_slot(tips[0][1], slot), tips, slot)

    async def _fetch_from_one_node(self) -> Blockhash:
        # Hash and height must come from one node: an honest expiry looks impossible next to the
        # height of a node that lags.
        async def read(node: Ledger) -> Blockhash:
            others = self._ledger.other_nodes(node)
            (blockhash, tip), answers = await asyncio.gather(
                asyncio.gather(node.latest_blockhash(), node.tip()),
                asyncio.gather(*(_fetch_tip(each, OTHERS_S) for each in others)),
            )
            own = _height_at_slot(tip, blockhash.context_slot)
            if blockhash.last_valid_block_height > own + MAX_VALID_BLOCKS:
                raise LedgerUnavailable("The ledger gave an impossible last valid block height")
            tips = [(n, each) for n, each in zip(others, answers, strict=True) if each is not None]
            # The node's claimed expiry is not used: if it is too early, live bytes look dead.
            expiry = await _compute_expiry(own, tips, blockhash.context_slot)
            # The node's slot is not used alone: after a future slot, landings are not found.
            slots = [t.slot for _, t in tips if own <= t.block_height + MAX_APART_BLOCKS]
            return replace(
                blockhash,
                last_valid_block_height=expiry,
                others_slots=tuple(slots),
            )

        return await self._ledger.on_one_node(read)

    def forget(self) -> None:
        """Drop the cached blockhash, because the ledger no longer knows it."""
        self._cached = None


def _height_at_slot(tip: Tip, slot: int) -> int:
    """Return an upper bound of the block height at `slot`, from the tip of a node that may be
    behind. Each slot has at most one block."""
    return tip.block_height + max(0, slot - tip.slot)


async def _compute_expiry(own: int, tips: Sequence[tuple[Ledger, Tip]], slot: int) -> int:
    """Return the last block height at which bytes on a blockhash of `slot` can land.

    If it is too low, live bytes count as dead; if too high, money stays reserved for ever. Raise
    `LedgerUnavailable` if a node is far above another whose newest block is recent.
    """
    highest = max([own, *(_height_at_slot(tip, slot) for _, tip in tips)])
    if highest > own + MAX_APART_BLOCKS:
        raise LedgerUnavailable(f"The ledger's nodes are {highest - own} blocks apart")
    for node, tip in tips:
        if own > tip.block_height + MAX_APART_BLOCKS and await _has_recent_block(node):
            raise LedgerUnavailable(f"The ledger's nodes are {own - tip.block_height} blocks apart")
    return highest + MAX_VALID_BLOCKS


async def _has_recent_block(node: Ledger) -> bool:
    """Return whether a node's newest block is at most minutes old; False if it did not answer."""
    try:
        async with asyncio.timeout(OTHERS_S):
            found = await node.accounts([CLOCK_SYSVAR])
        return abs(time.time() - unix_time(found[CLOCK_SYSVAR])) < _STOPPED_S
    except (LedgerError, TimeoutError):
        return False


async def _fetch_tip(node: Ledger, wait_s: float | None) -> Tip | None:
    """Return a node's tip; None if it did not answer in time."""
    try:
        async with asyncio.timeout(wait_s):
            return await node.tip()
    except (LedgerError, TimeoutError):
        return None
