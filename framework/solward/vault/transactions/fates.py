"""What became of transactions whose last valid block height has passed.

One is dead only where a single node says all of this: its block height is past the last valid one;
*afterwards*, at a slot no earlier, its whole history has no status; and that history reaches back
to when the bytes were signed. Answers of different nodes are never
combined: one that lags has not seen yet what another one's height says is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from solward.errors import LedgerError, LedgerRejected
from solward.vault.ledger.protocol import Ledger, SignatureStatus


class Expired(Protocol):
    """A transaction as it was signed; `context_slot` None where its slot is not known."""

    @property
    def signature(self) -> str: ...
    @property
    def last_valid_block_height(self) -> int: ...
    @property
    def context_slot(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Fates:
    """By signature: what landed, what never can any more, and what no node that was asked can
    tell. What is in none of them has not expired yet, or was not answered for."""

    landed: Mapping[str, SignatureStatus]
    dead: frozenset[str]
    unknown: frozenset[str]


async def tell_fates(ledger: Ledger, items: Sequence[Expired]) -> Fates:
    """Ask every usable node: a status of one counts more than another's having none.

    Raises:
        LedgerError: no node answered.
    """
    landed: dict[str, SignatureStatus] = {}
    dead: set[str] = set()
    untold: set[str] = set()
    unanswered: LedgerError | None = None
    answered = False
    for node in ledger.nodes():
        open_items = [item for item in items if item.signature not in landed]
        try:
            fates = await _as_told_by(node, open_items)
        except LedgerError as error:
            unanswered = error
            continue
        answered = True
        landed |= fates.landed
        dead |= fates.dead
        untold |= fates.unknown
    if not answered and unanswered is not None:
        raise unanswered
    dead -= landed.keys()
    return Fates(landed, frozenset(dead), frozenset(untold - dead - landed.keys()))


async def _as_told_by(node: Ledger, items: Sequence[Expired]) -> Fates:
    expired = list(items)
    try:
        tip = await node.tip()
        expired = [item for item in items if tip.block_height > item.last_valid_block_height]
        signatures = [item.signature for item in expired]
        found = await node.statuses(signatures, search_history=True, min_slot=tip.slot)
        # Asked last: a node throws its oldest blocks away as it goes on.
        first_slot = await node.first_slot()
    except LedgerRejected:
        return Fates({}, frozenset(), frozenset(item.signature for item in expired))
    landed: dict[str, SignatureStatus] = {}
    dead: set[str] = set()
    unknown: set[str] = set()
    for item, status in zip(expired, found, strict=True):
        if status is None:
            known = item.context_slot is None or first_slot <= item.context_slot
            (dead if known else unknown).add(item.signature)
        elif status.confirmation in ("confirmed", "finalized"):
            landed[item.signature] = status
    return Fates(landed, frozenset(dead), frozenset(unknown))
