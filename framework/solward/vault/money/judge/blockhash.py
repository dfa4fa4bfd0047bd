"""The blockhash that transactions are built on, and when what is built on it expires."""

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

# How old a blockhash may be that is built on: the rest of its life is for landing.
MAX_AGE_BLOCKS = BLOCKHASH_BLOCKS / 6
# A node that claims more would keep a reservation held for ever.
MAX_VALID_BLOCKS = BLOCKHASH_BLOCKS + 1
# Between nodes. Further apart, one is stuck or lies, and no expiry is sure.
MAX_APART_BLOCKS = 1000
# On no cluster they take less: a node may not say that it is so fast that another one has stopped.
_STOPPED_S = MAX_APART_BLOCKS * LEAST_SLOT_MS / 1000
# For the heights of the nodes beside the one in use.
OTHERS_S = 1.0
# A node tens of blocks behind takes a while, and behind one address another may be the next to
# answer; for one that is some slots behind, a slot is waited.
LAG_SLOTS = 5


async def no_verification() -> None:
    """For the embedded ledger, which needs no check of which cluster it is."""


class BlockhashSource:
    """Hands out the cached blockhash; concurrent callers share one refresh.

    `verify` raises while the cluster is not known to be the configured one; no transaction is built
    before it passed once.
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
        """Return a blockhash at most `max_age_blocks` old, as slots go now.

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
            blockhash, _ = await asyncio.gather(self._from_one_node(), self._ledger.look())
            self._cached = (time.monotonic(), blockhash)
            return blockhash

    async def newest(self) -> Blockhash:
        """As `get`, never the cached one: equal steps would have equal signatures on it."""
        self.forget()
        return await self.get()

    async def expiry(self, slot: int) -> int:
        """Return the last block height at which bytes can land whose blockhash the ledger knew at
        `slot`, whoever made them; by the highest of the nodes' heights.

        A height too low would call live bytes dead and give back their money.

        Raises:
            LedgerError: no node answered, or they are too far apart.
        """
        nodes = self._ledger.nodes()
        answers = await asyncio.gather(
            *(_tip(node, OTHERS_S if place else None) for place, node in enumerate(nodes))
        )
        tips = [(n, tip) for n, tip in zip(nodes, answers, strict=True) if tip is not None]
        if not tips:
            raise LedgerUnavailable("The ledger does not say its block height")
        return await _expiry(_height(tips[0][1], slot), tips, slot)

    async def _from_one_node(self) -> Blockhash:
        # Hash and height of different nodes do not compare: a node that lags makes an honest expiry
        # look impossible.
        async def read(node: Ledger) -> Blockhash:
            others = self._ledger.beside(node)
            (blockhash, tip), answers = await asyncio.gather(
                asyncio.gather(node.latest_blockhash(), node.tip()),
                asyncio.gather(*(_tip(each, OTHERS_S) for each in others)),
            )
            own = _height(tip, blockhash.context_slot)
            if blockhash.last_valid_block_height > own + MAX_VALID_BLOCKS:
                raise LedgerUnavailable("The ledger gave an impossible last valid block height")
            tips = [(n, each) for n, each in zip(others, answers, strict=True) if each is not None]
            # Not the node's own claim: an expiry before the real one makes live bytes look dead.
            expiry = await _expiry(own, tips, blockhash.context_slot)
            # Nor its own slot: what lands before a slot to come would be looked for after it.
            slots = [t.slot for _, t in tips if own <= t.block_height + MAX_APART_BLOCKS]
            return replace(
                blockhash,
                last_valid_block_height=expiry,
                others_slots=tuple(slots),
            )

        return await self._ledger.on_one_node(read)

    def forget(self) -> None:
        """Drop the cached blockhash: the ledger does not know it any more."""
        self._cached = None


def _height(tip: Tip, slot: int) -> int:
    """At least the block height at `slot`, where `tip` is of a node that may be behind it: there
    are no more blocks than slots."""
    return tip.block_height + max(0, slot - tip.slot)


async def _expiry(own: int, tips: Sequence[tuple[Ledger, Tip]], slot: int) -> int:
    """Return the last block height of bytes on a blockhash of `slot`; refused where `own` is no
    height.

    One that is too low calls live bytes dead, one that is too high holds money for ever. So a node
    is above others only where they have stopped, as their own clocks say.
    """
    highest = max([own, *(_height(tip, slot) for _, tip in tips)])
    if highest > own + MAX_APART_BLOCKS:
        raise LedgerUnavailable(f"The ledger's nodes are {highest - own} blocks apart")
    for node, tip in tips:
        if own > tip.block_height + MAX_APART_BLOCKS and await _is_of_now(node):
            raise LedgerUnavailable(f"The ledger's nodes are {own - tip.block_height} blocks apart")
    return highest + MAX_VALID_BLOCKS


async def _is_of_now(node: Ledger) -> bool:
    """Return whether a node's newest block is of the last minutes; False where it does not say."""
    try:
        async with asyncio.timeout(OTHERS_S):
            found = await node.accounts([CLOCK_SYSVAR])
        return abs(time.time() - unix_time(found[CLOCK_SYSVAR])) < _STOPPED_S
    except (LedgerError, TimeoutError):
        return False


async def _tip(node: Ledger, wait_s: float | None) -> Tip | None:
    """None where the node did not answer, or not in time."""
    try:
        async with asyncio.timeout(wait_s):
            return await node.tip()
    except (LedgerError, TimeoutError):
        return None
