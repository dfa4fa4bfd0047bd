"""A recent blockhash, kept for a few seconds so that a warm transfer asks for none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from solward.errors import LedgerError, LedgerUnavailable
from solward.vault.ledger.protocol import Blockhash, Ledger

# A blockhash lives 150 slots (about a minute); ten seconds of age leave most of it for landing.
MAX_AGE_S = 10.0
# Agave's MAX_PROCESSING_AGE is 150 blocks; an answer that claims more is a lie that would keep
# a reservation held for ever.
MAX_VALID_BLOCKS = 151


async def trusted() -> None:
    """The check of a cluster that needs none: the embedded one."""


class BlockhashSource:
    """Hands out the cached blockhash; concurrent callers share one refresh.

    `verify` raises while the cluster is not known to be the configured one; no transaction can
    be built before it passed once.
    """

    def __init__(
        self,
        ledger: Ledger,
        verify: Callable[[], Awaitable[None]] = trusted,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self._ledger = ledger
        self._verify = verify
        self._verified = False
        self._max_age_s = max_age_s
        self._cached: tuple[float, Blockhash] | None = None
        self._refreshing = asyncio.Lock()

    async def get(self) -> Blockhash:
        """A blockhash at most `max_age_s` old.

        Raises:
            LedgerError: the ledger did not answer, or its expiry height is impossible.
        """
        async with self._refreshing:
            if self._cached is not None:
                fetched, blockhash = self._cached
                if time.monotonic() - fetched <= self._max_age_s:
                    return blockhash
            if not self._verified:
                await self._verify()
                self._verified = True
            blockhash, height = await self._of_one_node()
            if blockhash.last_valid_block_height > height + MAX_VALID_BLOCKS:
                raise LedgerUnavailable("The ledger gave an impossible last valid block height")
            self._cached = (time.monotonic(), blockhash)
            return blockhash

    async def _of_one_node(self) -> tuple[Blockhash, int]:
        # A node that lags behind another one makes an honest expiry look impossible.
        unanswered: LedgerError = LedgerUnavailable("The ledger has no node to ask")
        for node in self._ledger.nodes():
            try:
                return await asyncio.gather(node.latest_blockhash(), node.block_height())
            except LedgerError as error:
                unanswered = error
        raise unanswered

    def forget(self) -> None:
        """Drop the cached one: the ledger does not know it any more."""
        self._cached = None
